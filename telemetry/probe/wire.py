"""One request to one address, and, where there is no answer, a look at what is there instead."""

from __future__ import annotations

import http.client
import socket
import ssl
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Literal
from urllib.parse import urlsplit

from telemetry.probe.records import Contact
from telemetry.transport import TlsFiles

BODY_LIMIT = 4 << 20
SNIFF_TIMEOUT = 2.0
"""Seconds that a port is given to show what it speaks."""

# RFC 9113 §3.4: what an HTTP/2 client says first, an empty SETTINGS frame included.
_HTTP2_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5)
_SETTINGS_FRAME = 4
_TLS_ALERT = 0x15


def exchange(
    method: str,
    url: str,
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    *,
    timeout: float = 5.0,
    tls: TlsFiles | None = None,
) -> Contact:
    """Send one HTTP/1.1 request over a connection of its own; whatever comes of it is a ``Contact``. Never raises.

    ``timeout`` is in seconds, for connecting and for each read. Redirects are not followed.
    """
    parts = urlsplit(url)
    host, port = parts.hostname or "localhost", parts.port or (443 if parts.scheme == "https" else 80)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        if parts.scheme == "https":
            context = (tls or TlsFiles()).context()
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                host, port, timeout=timeout, context=context
            )
        else:
            connection = http.client.HTTPConnection(host, port, timeout=timeout)
    except OSError as error:  # a certificate file that can't be read
        return Contact(url=url, reach="tls", detail=_said(error))
    try:
        connection.request(method, target, body=body, headers=dict(headers or {}))
        answer = connection.getresponse()
        content = answer.read(BODY_LIMIT)
        return Contact(
            url=url,
            reach="answered",
            status=answer.status,
            body=content,
            location=answer.getheader("location", ""),
            skew=skew(answer.getheader("date"), time.time()),
        )
    except (OSError, http.client.HTTPException) as error:
        return _without_answer(url, host, port, error)
    finally:
        connection.close()


def skew(date: str | None, now: float) -> float | None:
    """Seconds that the clock behind an HTTP ``Date`` is ahead of ``now`` (Unix time); None where there is none."""
    if not date:
        return None
    try:
        return parsedate_to_datetime(date).timestamp() - now
    except (TypeError, ValueError):
        return None


def _without_answer(url: str, host: str, port: int, error: Exception) -> Contact:
    said = _said(error)
    if isinstance(error, socket.gaierror):
        return Contact(url=url, reach="unresolved", detail=said)
    if isinstance(error, ConnectionRefusedError):
        return Contact(url=url, reach="refused", detail=said)
    if isinstance(error, ssl.SSLCertVerificationError):
        return Contact(url=url, reach="tls", speaks="tls", detail=error.verify_message or said)
    if isinstance(error, ssl.SSLError):
        return Contact(url=url, reach="tls", speaks=sniff(host, port), detail=said)
    if isinstance(error, TimeoutError):
        connected = _connects(host, port)
        speaks = sniff(host, port) if connected else ""
        return Contact(url=url, reach="silent" if connected else "timeout", speaks=speaks, detail=said)
    if isinstance(error, http.client.HTTPException | ConnectionError):
        return Contact(url=url, reach="garbled", speaks=sniff(host, port), detail=said)
    return Contact(url=url, reach="unreachable", detail=said)


def _connects(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), SNIFF_TIMEOUT):
            return True
    except OSError:
        return False


def look(url: str, timeout: float = SNIFF_TIMEOUT) -> Contact:
    """What is at the address of a gRPC endpoint: how far a connection goes, and what the port speaks in clear text."""
    parts = urlsplit(url)
    host, port = parts.hostname or "localhost", parts.port or 4317
    try:
        socket.create_connection((host, port), timeout).close()
    except OSError as error:
        return _without_answer(url, host, port, error)
    speaks = sniff(host, port)
    return Contact(url=url, reach="answered" if speaks else "silent", speaks=speaks)


def sniff(host: str, port: int) -> Literal["", "http1", "http2", "tls"]:
    """What a port answers to the opening of HTTP/2 in clear text, and whether it takes a TLS handshake instead."""
    try:
        with socket.create_connection((host, port), SNIFF_TIMEOUT) as opened:
            opened.sendall(_HTTP2_HELLO)
            said = b""
            while len(said) < 9 and (more := opened.recv(64)):
                said += more
    except OSError:
        said = b""
    if said.startswith(b"HTTP/"):
        return "http1"
    if len(said) >= 9 and said[3] == _SETTINGS_FRAME:
        return "http2"
    if said[:1] == bytes([_TLS_ALERT]) or _takes_tls(host, port):
        return "tls"
    return ""


def _takes_tls(host: str, port: int) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # nothing is sent: only whether it is TLS at all is asked
    try:
        with (
            socket.create_connection((host, port), SNIFF_TIMEOUT) as opened,
            context.wrap_socket(opened, server_hostname=host),
        ):
            return True
    except ssl.SSLError as error:
        # A server that asks for a client certificate, or a version we don't speak, is TLS all the same.
        return "ALERT" in str(error).upper() and "WRONG_VERSION" not in str(error).upper()
    except (OSError, ValueError):
        return False


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
