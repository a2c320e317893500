"""HTTP methods as label values: a client may send any word, a metric may not take any."""

from __future__ import annotations

OTHER = "_OTHER"

# RFC 9110, RFC 5789 (PATCH) and RFC 10008 (QUERY), as the OpenTelemetry conventions list them.
KNOWN = frozenset({"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "QUERY", "TRACE"})


def clamp(method: str) -> str:
    """``method``, or ``_OTHER`` for a word that no standard knows; methods are case-sensitive."""
    return method if method in KNOWN else OTHER


def word(method: str) -> str:
    """How a span's name and an access line begin: the conventions want ``HTTP`` where the method is ``_OTHER``."""
    return "HTTP" if method == OTHER else method
