"""The bytes of a request, counted as they arrive and as they decode: a zip bomb ends at the bound."""

from __future__ import annotations

import zlib
from typing import Final, Literal

from litestar.types import Receive

Fault = Literal["disconnected", "malformed", "too_large"]

_GZIP: Final = 16 + zlib.MAX_WBITS


class BadBody(Exception):
    """There is no body to read. ``fault`` is the label value that it is counted under."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault)
        self.fault: Fault = fault


async def whole(receive: Receive, limit: int, *, gzipped: bool) -> bytes:
    """The body, decoded where it is ``gzipped``; at most ``limit`` bytes on the wire and decoded.

    Raises ``BadBody``. Never holds more than twice the limit and one chunk of the server's.
    """
    inflate = zlib.decompressobj(_GZIP) if gzipped else None
    body, came, more = bytearray(), 0, True
    while more:
        message = await receive()
        if message["type"] != "http.request":  # the client left: a page that was closed, nobody's fault
            raise BadBody("disconnected")
        chunk, more = message.get("body", b""), message.get("more_body", False)
        came += len(chunk)
        if came > limit:
            raise BadBody("too_large")
        if inflate is not None:
            try:
                chunk = inflate.decompress(chunk, limit + 1 - len(body))
            except zlib.error:
                raise BadBody("malformed") from None
        body += chunk
        if len(body) > limit:
            raise BadBody("too_large")
    if inflate is not None and (not inflate.eof or inflate.unused_data):
        raise BadBody("malformed")
    return bytes(body)


async def drained(receive: Receive, limit: int) -> None:
    """Read the body and keep nothing of it, up to ``limit`` bytes.

    A server that answers before the body is in closes the connection, which a browser may take for a failure.
    """
    came, more = 0, True
    while more and came <= limit:
        message = await receive()
        if message["type"] != "http.request":
            raise BadBody("disconnected")
        came += len(message.get("body", b""))
        more = message.get("more_body", False)
