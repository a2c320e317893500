"""Secrets out of fields, attributes and URLs, before anything is queued or written.

What counts as a secret: the value of a key whose name says so (``password``, ``api_key``, …, and what
``FLEETGLASS_SCRUB_KEYS`` adds), and in free text the well-known shapes: bearer tokens, JSON web tokens,
PEM private keys, user and password in a URL, and ``password=…`` pairs. The sets are close to those of
Sentry's Relay (``relay-pii``); ids and e-mail addresses are no secrets here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

SCRUBBED = "[scrubbed]"

_WORDS = (
    "password|passwd|passphrase|secret|api[_-]?key|apikey|access[_-]?key|private[_-]?key|credentials?|authorization|"
    "cookie|set[_-]cookie|access[_-]?token|refresh[_-]?token|id[_-]?token|auth[_-]?token|session[_-]?token|csrf[_-]?token|bearer"
)
_SECRET_KEY = re.compile(rf"(^|[_.\-\s])({_WORDS}|token|pwd|auth)($|[_.\-\s])|password|secret", re.IGNORECASE)
_SNAKE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_SHORTEST = len("basic 12345678")
"""A text without colon and equals sign that is shorter than this holds no secret of a known shape."""

# Each shape holds one of these. Looking for them costs a twentieth of the shapes, and tracebacks, which are
# long and full of colons, seldom hold any.
_MARKS = (
    *("passw", "passphrase", "secret", "key", "token", "credential", "authorization", "cookie"),
    *("bearer", "basic", "pwd", "eyj", "@"),
)
# A run of letters is entered once, at its start (hence the lookbehinds): `\b` would try every dot of "a.a.a…"
# and take a second for 16 KB.
_SHAPES = re.compile(
    r"(?P<scheme>(?<![a-z0-9+.\-])[a-z][a-z0-9+.\-]*://)[^\s/:@]*:[^\s/@]+@"
    r"|(?P<bearer>\b(?:bearer|basic)\s+)[A-Za-z0-9._~+/\-]{8,}=*"
    r"|(?<![A-Za-z0-9_\-])eyJ[A-Za-z0-9_\-]{5,}\.[A-Za-z0-9_\-]{5,}\.[A-Za-z0-9_\-]*"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    rf"|(?P<pair>\b(?:{_WORDS}|token|pwd)[\"']?\s?[=:]\s?[\"']?)(?!\[scrubbed\])"
    r"(?:(?:bearer|basic|digest|token)\s+)?[^\s\"'&,;]+",
    re.IGNORECASE | re.DOTALL,
)


def _mask(match: re.Match[str]) -> str:
    if match["scheme"]:
        return f"{match['scheme']}{SCRUBBED}@"
    kept = match["bearer"] or match["pair"] or ""
    return kept + SCRUBBED


def text(value: str) -> str:
    """``value`` with every secret of a well-known shape replaced by ``[scrubbed]``."""
    if ":" not in value and "=" not in value:
        if len(value) < _SHORTEST:
            return value
        # Substring searches, since one regular expression for all takes twice their time.
        if not (
            "earer" in value
            or "asic" in value
            or "eyJ" in value
            or "EARER" in value
            or "ASIC" in value
            or "-----BEGIN " in value
        ):
            return value
    lowered = value.lower()
    for mark in _MARKS:
        if mark in lowered:
            return _SHAPES.sub(_mask, value)
    return value


class Scrubber:
    """Knows which keys are secret; remembers its answers, for there are few keys and many records."""

    def __init__(self, extra_keys: Iterable[str] = ()) -> None:
        self._extra = frozenset(key.lower() for key in extra_keys)
        self._known: dict[str, bool] = {}

    def is_secret(self, key: str) -> bool:
        """True when the value under ``key`` must not leave the process."""
        known = self._known.get(key)
        if known is None:
            known = key.lower() in self._extra or _SECRET_KEY.search(_SNAKE.sub("_", key)) is not None
            if len(self._known) < 4096:  # keys made from data would otherwise grow this for ever
                self._known[key] = known
        return known

    def value(self, key: str, value: object) -> object:
        """``value``, or ``[scrubbed]`` when its key is secret; texts lose the secrets inside them."""
        if self.is_secret(key):
            return SCRUBBED
        return text(value) if type(value) is str else value

    def url(self, url: str) -> str:
        """``url`` without user and password, and with the values of secret query parameters replaced."""
        try:
            parts = urlsplit(url)
        except ValueError:
            return text(url)
        netloc = parts.netloc.rpartition("@")[2]
        query = parts.query
        if query:
            pairs = parse_qsl(query, keep_blank_values=True)
            if any(self.is_secret(name) for name, _ in pairs):
                query = urlencode([(n, SCRUBBED if self.is_secret(n) else v) for n, v in pairs], safe="[]")
        if netloc == parts.netloc and query == parts.query:
            return url
        return urlunsplit(parts._replace(netloc=netloc, query=query))
