"""``GET /telemetry/browser.js`` and its companions: the browser client, as ``ingest/browser`` holds it.

What is sent lies minified in ``ingest/browser/min`` (``make browser`` writes it), so that the service needs
no Node.js. No address here holds the words that operators search the error lines by.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from litestar.enums import ScopeType
from litestar.handlers import asgi
from litestar.handlers.asgi_handlers import ASGIRouteHandler
from litestar.types import Receive, Scope, Send, WebSocketCloseEvent

from ingest.answers import Answer, Headers, problem

MODULES: Final = ("browser.js", "react.js", "trace.js", "feedback.js")
PATHS: Final = tuple(f"/telemetry/{module}" for module in MODULES)

_FOLDER = Path(__file__).parent.parent / "browser" / "min"
# The addresses hold no version: a page has a mended client five minutes after the service has it.
_CACHE = b"public, max-age=300, stale-while-revalidate=86400"
_COMMON: Headers = [
    (b"content-type", b"text/javascript; charset=utf-8"),
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", _CACHE),
    (b"vary", b"accept-encoding"),
    # The same bytes for everybody, so any page may load them, also as a module and with an integrity hash.
    (b"access-control-allow-origin", b"*"),
    (b"cross-origin-resource-policy", b"cross-origin"),
]
_CLOSED: WebSocketCloseEvent = {"type": "websocket.close", "code": 1000, "reason": ""}
_NOT_GET = problem(405, "Method Not Allowed", "The browser client is fetched with GET.", [(b"allow", b"GET, HEAD")])


def browser_routes() -> list[ASGIRouteHandler]:
    """One route a module; each file is read, compressed and hashed once, here."""
    return [_route(path, (_FOLDER / module).read_bytes()) for path, module in zip(PATHS, MODULES, strict=True)]


def _route(path: str, source: bytes) -> ASGIRouteHandler:
    tag = hashlib.sha256(source).hexdigest()[:16]
    plain = _File(tag, source)
    packed = _File(f"{tag}-gzip", gzip.compress(source, mtime=0), [(b"content-encoding", b"gzip")])

    async def browser_module(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == ScopeType.WEBSOCKET:  # an ASGI route gets these as well
            await send(_CLOSED)
        elif scope["method"] not in {"GET", "HEAD"}:
            await _NOT_GET.send(send)
        else:
            headers = list(scope["headers"])
            file = packed if _takes_gzip(_values(headers, b"accept-encoding")) else plain
            await file.answer(headers, head=scope["method"] == "HEAD").send(send)

    return asgi(path, name=path, copy_scope=False)(browser_module)


class _File:
    """One form of a module and its three answers."""

    def __init__(self, tag: str, body: bytes, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
        self._tag = f'"{tag}"'.encode()
        self._unchanged = Answer(304, [*_COMMON, (b"etag", self._tag)])
        described = [*_COMMON, *headers, (b"etag", self._tag), (b"content-length", str(len(body)).encode())]
        self._whole = Answer(200, described, body)
        self._head = Answer(200, described)

    def answer(self, headers: Iterable[Any], *, head: bool) -> Answer:
        """304 to a caller who has it (RFC 9110, section 13.1.2: a weak comparison), else the file or its headers."""
        known = _values(headers, b"if-none-match")
        tags = {tag.strip().removeprefix(b"W/") for tag in known.split(b",")}
        if self._tag in tags or known.strip() == b"*":
            return self._unchanged
        return self._head if head else self._whole


def _values(headers: Iterable[Any], wanted: bytes) -> bytes:
    return b",".join(value for name, value in headers if name == wanted)


def _takes_gzip(accepted: bytes) -> bool:
    for part in accepted.lower().split(b","):
        coding, _, parameters = part.partition(b";")
        if coding.strip() == b"gzip":
            quality = parameters.replace(b" ", b"")
            return not (quality.startswith(b"q=0") and not quality[3:].strip(b".0"))
    return False
