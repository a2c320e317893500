"""A websocket: one span from the handshake to the close, counted as a stream."""

from __future__ import annotations

from typing import Any, Final

from telemetry import faults
from telemetry.web.exchange import CLIENT_DISCONNECT, ERROR, OK, Exchange
from telemetry.web.instruments import Instruments
from telemetry.web.protocol import Message, Receive, Scope, Send

_SWITCHING_PROTOCOLS: Final = 101
_FORBIDDEN: Final = 403

# RFC 6455 §7.4.1: 1005 no code was given, 1006 the connection broke, 1011 the server failed.
_NO_CODE: Final = 1005
_ABNORMAL: Final = 1006
_INTERNAL_ERROR: Final = 1011


class WebsocketExchange(Exchange):
    """The handshake is a GET answered 101; a refused one is answered 403, or what the application says.

    An accepted one ends when its application returns, and stays out of the latency histogram.
    """

    __slots__ = ("_close_code", "_left")

    transport = "websocket"

    def __init__(self, instruments: Instruments, scope: Scope, receive: Receive, send: Send) -> None:
        self._close_code = 0
        self._left = False
        super().__init__(instruments, scope, receive, send)

    def _attributes(self, scope: Scope, headers: dict[bytes, bytes], method: str) -> dict[str, Any]:
        return {**super()._attributes(scope, headers, method), "network.protocol.name": "websocket"}

    def _received(self, message: Message) -> None:
        if message["type"] == "websocket.disconnect":
            self._left = True
            self._close_code = self._close_code or message.get("code") or _NO_CODE
            if self._close_code == _ABNORMAL or not self._status:
                self._outcome = CLIENT_DISCONNECT

    async def send(self, message: Message) -> None:
        """The server's ``send``, watched for acceptance and close."""
        try:
            self._sending(message)
        except Exception as error:
            faults.report("web.send", error)
        try:
            await self._send(message)
        except OSError as error:
            self._outcome = CLIENT_DISCONNECT
            self.error = error
            raise

    def _sending(self, message: Message) -> Message:
        kind = message["type"]
        if kind == "websocket.accept":
            self._status = _SWITCHING_PROTOCOLS
        elif kind == "websocket.close":
            if not self._status:
                self._status = _FORBIDDEN
            else:
                code = self._close_code = message.get("code") or 1000
                # Litestar closes with 4000 + status where a handler raised.
                if (code == _INTERNAL_ERROR or 4500 <= code <= 4599) and self._outcome == OK:
                    self._outcome = ERROR
        elif kind == "websocket.http.response.start":
            self._status = int(message["status"])
        return message

    def _is_stream(self) -> bool:
        return self._status == _SWITCHING_PROTOCOLS

    def _from_disconnect(self, error: BaseException) -> bool:
        # Frameworks raise their own WebSocketDisconnect out of a handler that was waiting for a message.
        return (self._left and "Disconnect" in type(error).__name__) or super()._from_disconnect(error)

    def _error_type(self, status: int) -> str:
        return str(self._close_code or status)

    def _extend(self, fields: dict[str, Any]) -> None:
        if self._close_code:
            fields["close_code"] = self._close_code
