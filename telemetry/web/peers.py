"""Who was asked and who asked: ``server.address`` and ``server.port`` from Host, headers as text."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from opentelemetry.propagators.textmap import Getter

_DEFAULT_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}


@lru_cache(maxsize=512)
def server(host: bytes, scheme: str) -> tuple[str, int | None]:
    """Address and port of a Host header (RFC 9110 §7.2); without a port, the scheme's own.

    ``[::1]:8080`` gives ``("::1", 8080)``; what is no port gives None in its place.
    """
    text = host[:255].decode("latin-1")
    if text.startswith("["):
        address, _, rest = text[1:].partition("]")
        port = rest.removeprefix(":")
    else:
        address, _, port = text.partition(":")
    if not port:
        return address, _DEFAULT_PORTS.get(scheme)
    # isdecimal also holds for digits of other scripts; latin-1 has none.
    return address, int(port) if port.isdecimal() and len(port) <= 5 else None


class HeaderGetter(Getter[Iterable[tuple[bytes, bytes]]]):
    """Reads ASGI headers for OpenTelemetry's propagators; repeated fields stay separate, in order."""

    def get(self, carrier: Iterable[tuple[bytes, bytes]], key: str) -> list[str] | None:
        """The values of header ``key``, or None."""
        name = key.lower().encode()
        return [value.decode("latin-1") for field, value in carrier if field == name] or None

    def keys(self, carrier: Iterable[tuple[bytes, bytes]]) -> list[str]:
        """All names."""
        return [field.decode("latin-1") for field, _ in carrier]


HEADERS: Getter[Any] = HeaderGetter()
