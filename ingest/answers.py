"""Answers of ASGI routes, made once: two messages each, problems as RFC 9457 describes them."""

from __future__ import annotations

from typing import Final

import msgspec
from litestar.types import HTTPResponseBodyEvent, HTTPResponseStartEvent, Send

Headers = list[tuple[bytes, bytes]]

_MOST_DIGITS: Final = 18


class Answer(msgspec.Struct, frozen=True):
    """A complete response; safe to send any number of times."""

    status: int
    headers: Headers = []
    body: bytes = b""

    async def send(self, send: Send) -> None:
        """Send it."""
        # A list of its own: middleware of a host's adds to it, a session's cookie for one.
        headers = [*self.headers]
        start: HTTPResponseStartEvent = {"type": "http.response.start", "status": self.status, "headers": headers}
        body: HTTPResponseBodyEvent = {"type": "http.response.body", "body": self.body, "more_body": False}
        await send(start)
        await send(body)


def problem(status: int, title: str, detail: str, headers: Headers | None = None) -> Answer:
    """A problem (RFC 9457) whose ``detail`` is one sentence."""
    body = msgspec.json.encode({"title": title, "status": status, "detail": detail})
    described = [(b"content-type", b"application/problem+json"), (b"content-length", str(len(body)).encode())]
    return Answer(status, [*described, *(headers or [])], body)


UNAUTHORIZED: Final = problem(
    401,
    "Unauthorized",
    "A valid token is required: Authorization: Bearer <token>.",
    [(b"www-authenticate", b"Bearer")],
)
FORBIDDEN: Final = problem(403, "Forbidden", "The caller's roles don't allow this.")


def declares_more(length: bytes, limit: int) -> bool:
    """Whether the value of a ``Content-Length`` header is a number above ``limit``; false for what is no number."""
    digits = length.strip().lstrip(b"0")
    # The count of digits first: int() of thousands of them is a ValueError.
    return digits.isdigit() and (len(digits) > _MOST_DIGITS or int(digits) > limit)
