"""Kinds of settings that are addresses, and how an address is shown without its secrets."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, urlsplit, urlunsplit

from telemetry.config.kinds import Invalid, Kind, items, one_line


def url(path: str = "") -> Kind:
    """An http or https URL; ``path`` is appended to one that has none of its own."""
    expected = "an http:// or https:// URL with a host, such as http://loki:3100"

    def read(value: object) -> str:
        address = one_line(value, expected)
        parts = _split_url(address, expected)
        if path and parts.path in ("", "/"):
            return urlunsplit(parts._replace(path=path))
        return address

    return Kind("http(s) URL", read)


def otlp_endpoint() -> Kind:
    """An http(s) URL or, as gRPC allows, ``host:port``; which one fits the protocol is judged later."""
    expected = "an http:// or https:// URL with a host, such as http://collector:4318 (or host:port for grpc)"

    def read(value: object) -> str:
        address = one_line(value, expected)
        if "://" in address:
            _split_url(address, expected)
        else:
            _split_url(f"http://{address}", expected, bare=True)
        return address

    return Kind("http(s) URL, or host:port for gRPC", read)


def _split_url(address: str, expected: str, *, bare: bool = False) -> SplitResult:
    # http.client sends ASCII only; anything else has to be percent-encoded by whoever knows how.
    if not address.isascii() or " " in address or "#" in address:
        raise Invalid(f"{expected}; ASCII, without blanks and without a fragment")
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:  # brackets, or a port that isn't a number
        raise Invalid(expected) from None
    host = parts.hostname or ""
    wrong = parts.scheme not in {"http", "https"} or port == 0 or not re.fullmatch(r"[A-Za-z0-9._~%:\-]+", host)
    if wrong or (bare and (port is None or parts.path or parts.query)):
        raise Invalid(expected)
    return parts


def store_url() -> Kind:
    """A Valkey or Redis server; the path is the number of a database."""
    expected = "a redis:// or rediss:// URL with a host, such as redis://valkey:6379/0"

    def read(value: object) -> str:
        address = one_line(value, expected)
        scheme, _, rest = address.partition("://")
        tls = {"redis": "http", "rediss": "https"}.get(scheme)
        if tls is None or not re.fullmatch(r"/?[0-9]{0,5}", _split_url(f"{tls}://{rest}", expected).path):
            raise Invalid(expected)
        if "?" in address:
            raise Invalid(f"{expected}; nothing behind the number of the database")
        return address

    return Kind("redis(s) URL", read)


def feedback_url() -> Kind:
    """Where users are sent with feedback; a page shows it as a link, hence no other scheme."""
    expected = "an https:// URL with a host, or mailto: with an address"

    def read(value: object) -> str:
        address = one_line(value, expected)
        scheme, _, rest = address.partition(":")
        if scheme.lower() == "mailto":
            recipient = rest.partition("?")[0]
            if recipient.count("@") != 1 or recipient.startswith("@") or recipient.endswith("@") or " " in rest:
                raise Invalid(expected)
        elif scheme.lower() != "https" or not _split_feedback(address, expected):
            raise Invalid(expected)
        return address

    return Kind("https or mailto URL", read)


def _split_feedback(address: str, expected: str) -> str | None:
    try:
        parts = urlsplit(address)
        parts.port  # noqa: B018  (reading it is what checks it)
    except ValueError:
        raise Invalid(expected) from None
    return None if " " in address or "@" in parts.netloc else parts.hostname


def origins() -> Kind:
    """Web origins as browsers send them in ``Origin`` (RFC 6454, section 6.2): lower case, no default port, no path."""
    expected = "origins separated by commas, each as https://console.example or http://localhost:5173, with no path"

    def read(value: object) -> tuple[str, ...]:
        return tuple(dict.fromkeys(_origin(one_line(item, expected), expected) for item in items(value, expected)))

    return Kind("comma-separated origins", read)


def _origin(address: str, expected: str) -> str:
    parts = _split_url(address, expected)
    if parts.path not in ("", "/") or parts.query or "?" in address or "@" in parts.netloc or "%" in parts.netloc:
        raise Invalid(expected)
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    default = {"http": 80, "https": 443}[parts.scheme]
    return f"{parts.scheme}://{host}" + ("" if parts.port in (None, default) else f":{parts.port}")


def split_address(address: str) -> tuple[str, int]:
    """A host (without brackets) and a port from ``host:port`` or ``[v6]:port``; ``ValueError`` if it is neither."""
    host, colon, port = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"an IPv6 host needs brackets: {address!r}")
    if not (colon and host and port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= 65535):
        raise ValueError(f"not host:port: {address!r}")
    return host, int(port)


def listen_address(*, off: bool = False) -> Kind:
    """Where to listen, ``host:port``; port 0 lets the system choose. ``off`` allows that word."""
    expected = "host:port, such as 127.0.0.1:9464 or [::]:9464" + (", or off" if off else "")

    def read(value: object) -> str:
        address = one_line(value, expected)
        if off and address.lower() == "off":
            return "off"
        try:
            split_address(address)
        except ValueError:
            raise Invalid(expected) from None
        if re.search(r"[\s/@]", address):
            raise Invalid(expected)
        return address

    return Kind("host:port" + (" or `off`" if off else ""), read)


def mask_credentials(address: str) -> str:
    """A URL as it may be shown: user, password and query values replaced by ``***``.

    Works on broken URLs as well, since those are the ones that error messages show.
    """
    if address.lower().startswith("mailto:"):
        return address
    head, separator, rest = address.partition("://")
    if not separator:
        head, rest = "", address
    if "@" in rest:
        rest = "***@" + rest.rpartition("@")[2]
    rest = re.sub(r"([?&][^=&#]*=)[^&#]*", r"\1***", rest)
    return f"{head}{separator}{rest}"
