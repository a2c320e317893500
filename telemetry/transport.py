"""One HTTP connection to one backend: keep-alive, one deadline for each call, gzip, no redirects, no logging.

``http.client`` rather than requests or urllib3: nothing here may log, retry, follow a redirect or read an
environment variable behind our back, and the import is already paid for by prometheus-client.
"""

from __future__ import annotations

import base64
import http.client
import io
import socket
import ssl
import time
import zlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

BODY_LIMIT = 64 * 1024

_HUNG_UP = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError, ssl.SSLEOFError)


class Response(msgspec.Struct, frozen=True):
    """What a backend answered: ``headers`` have lower-case names, ``body`` is cut at 64 KiB."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def retry_after(self) -> float | None:
        """Seconds to wait by ``Retry-After`` (RFC 9110 §10.2.3, both forms), or None."""
        return parse_retry_after(self.headers.get("retry-after"), time.time())

    @property
    def excerpt(self) -> str:
        """The start of the body as one line, for a sentence; what a terminal would act upon is left out."""
        text = self.body[:300].decode(errors="replace")
        return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def parse_retry_after(value: str | None, now: float) -> float | None:
    """Seconds from ``now`` (Unix time) that ``Retry-After`` asks for; None where there is none or it is no value."""
    if not value:
        return None
    value = value.strip()
    if value.isascii() and value.isdigit():
        return float(value)
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - now)
    except (TypeError, ValueError):
        return None


class TlsFiles(msgspec.Struct, frozen=True):
    """Paths of PEM files: CA bundle, and client certificate with its key. None: the system's CAs, no client."""

    certificate: str | None = None
    client_certificate: str | None = None
    client_key: str | None = None

    def context(self) -> ssl.SSLContext:
        """A client context that verifies the server. Raises OSError or ssl.SSLError on an unreadable file."""
        context = ssl.create_default_context(cafile=self.certificate)
        if self.client_certificate:
            context.load_cert_chain(self.client_certificate, self.client_key)
        return context


class HttpTransport:
    """POSTs to one URL over one kept connection. Not thread-safe: it belongs to one sender thread.

    ``url`` is http or https; user and password in it become basic authentication.
    """

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str] | None = None,
        *,
        compress: bool = True,
        tls: TlsFiles | None = None,
    ) -> None:
        parts = urlsplit(url)
        self._https = parts.scheme == "https"
        self._host = parts.hostname or "localhost"
        self._port = parts.port or (443 if self._https else 80)
        self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._compress = compress
        self._headers = dict(headers or {})
        if parts.username is not None and not any(name.lower() == "authorization" for name in self._headers):
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
        self._context = (tls or TlsFiles()).context() if self._https else None
        self._connection: http.client.HTTPConnection | None = None

    def post(self, body: bytes, content_type: str, timeout: float) -> Response:
        """Send ``body``; return whatever was answered, in ``timeout`` seconds from the call to the last byte.

        Each address of a name is given that long to be connected to, and so is the handshake of TLS.
        Raises OSError or http.client.HTTPException when there was no whole answer.
        """
        until = time.monotonic() + timeout
        headers = {**self._headers, "Content-Type": content_type}
        if self._compress:
            body = gzip(body)
            headers["Content-Encoding"] = "gzip"
        kept = self._connection is not None and self._connection.sock is not None
        try:
            return self._post(body, headers, until)
        except _HUNG_UP:
            # A kept connection that the server closed while idle is no fault: try once on a new one.
            if not kept:
                raise
            return self._post(body, headers, until)

    def _post(self, body: bytes, headers: Mapping[str, str], until: float) -> Response:
        try:
            connection = self._connect(until)
            connection.request("POST", self._target, body, dict(headers))
            answer = connection.getresponse()
            content = answer.read(BODY_LIMIT)
            response = Response(answer.status, {k.lower(): v for k, v in answer.getheaders()}, content)
            if not answer.isclosed():  # longer than we care to read: the connection can't be used again
                self.close()
            return response
        except BaseException:
            self.close()
            raise

    def _connect(self, until: float) -> http.client.HTTPConnection:
        connection = self._connection
        if connection is None:
            if self._context is not None:
                connection = http.client.HTTPSConnection(self._host, self._port, context=self._context)
            else:
                connection = http.client.HTTPConnection(self._host, self._port)
            self._connection = connection
        opened = connection.sock is not None
        if not opened:  # new, or the server said that it would close
            connection.timeout = _left(until)
            connection.connect()
            connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sock.settimeout(_left(until))
        connection.response_class = lambda *args, **kwargs: _answer(until, *args, **kwargs)  # type: ignore[assignment]
        return connection

    def close(self) -> None:
        """Close the connection; the next ``post`` opens another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def gzip(body: bytes) -> bytes:
    """``body`` as a gzip member at level 1: the second-best ratio for a third of the time of the default."""
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    return packer.compress(body) + packer.flush()


def _left(until: float) -> float:
    """Seconds until ``until``, or TimeoutError."""
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError("no whole answer in time")
    return left


def _answer(until: float, sock: socket.socket, *args: Any, **kwargs: Any) -> http.client.HTTPResponse:
    """The answer on ``sock``, read until ``until`` at most."""
    answer = http.client.HTTPResponse(sock, *args, **kwargs)
    answer.fp = io.BufferedReader(_Reader(sock, answer.fp.detach(), until))
    return answer


class _Reader(io.RawIOBase):
    """Reads with what time is left: a socket's own timeout begins again with every byte that drips in."""

    def __init__(self, sock: socket.socket, raw: io.RawIOBase, until: float) -> None:
        self._sock, self._raw, self._until = sock, raw, until

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(_left(self._until))
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()
