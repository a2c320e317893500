"""One HTTP connection to one backend: keep-alive, a timeout on every call, gzip, no redirects, no logging.

``http.client`` rather than requests or urllib3: nothing here may log, retry, follow a redirect or read an
environment variable behind our back, and the import is already paid for by prometheus-client.
"""

from __future__ import annotations

import base64
import http.client
import socket
import time
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import msgspec

if TYPE_CHECKING:
    import ssl

BODY_LIMIT = 64 * 1024


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
        """The start of the body as one line, for a sentence."""
        return " ".join(self.body[:300].decode(errors="replace").split())


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
        import ssl

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
        """Send ``body``; return whatever was answered. ``timeout`` is in seconds, for connect and each read.

        Raises OSError or http.client.HTTPException when there was no whole answer.
        """
        headers = {**self._headers, "Content-Type": content_type}
        if self._compress:
            body = gzip(body)
            headers["Content-Encoding"] = "gzip"
        kept = self._connection is not None
        try:
            return self._post(body, headers, timeout)
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
            self.close()
            # A kept connection that the server closed while idle is no fault: try once on a new one.
            if not kept:
                raise
            return self._post(body, headers, timeout)

    def _post(self, body: bytes, headers: Mapping[str, str], timeout: float) -> Response:
        connection = self._connect(timeout)
        try:
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

    def _connect(self, timeout: float) -> http.client.HTTPConnection:
        if self._connection is None:
            if self._context is not None:
                self._connection = http.client.HTTPSConnection(
                    self._host, self._port, timeout=timeout, context=self._context
                )
            else:
                self._connection = http.client.HTTPConnection(self._host, self._port, timeout=timeout)
            self._connection.connect()
            self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        elif self._connection.sock is not None:
            self._connection.sock.settimeout(timeout)
        return self._connection

    def close(self) -> None:
        """Close the connection; the next ``post`` opens another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def gzip(body: bytes) -> bytes:
    """``body`` as a gzip member at level 1: the second-best ratio for a third of the time of the default."""
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    return packer.compress(body) + packer.flush()
