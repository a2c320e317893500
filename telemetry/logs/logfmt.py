"""Text to logfmt that Loki's ``| logfmt --strict`` reads back unchanged.

Loki's decoder (``pkg/logql/log/logfmt``) ends a bare value at any byte up to 0x20 and refuses ``=`` and
``"`` in it; in a quoted value it knows the JSON escapes only: any other (``\\x1b``, ``\\0``, ``\\U``) voids the
pair. One U+FFFD empties a field in the expression form. Hence: JSON escapes, nothing else, and characters
that a terminal or an editor acts upon (controls, C1, bidi, line separators) are never written raw.
"""

from __future__ import annotations

import re

import msgspec

ELLIPSIS = "…"

# Printable ASCII without space, quote, equals sign, backslash and backtick may stand bare.
_BARE = re.compile(r"[!#-<>-\[\]^_a-~]+").fullmatch
_UNSAFE = re.compile(
    '[\x00-\x1f"\\\\\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufffd\ud800-\udfff]'
).search
_LOST = re.compile("[\ufffd\ud800-\udfff]").search
_ESCAPED_PIECE = re.compile(r"\\u[0-9a-f]{4}|\\.|[^\\]", re.DOTALL)


def _table() -> dict[int, str]:
    codes = [*range(0x20), *range(0x7F, 0xA0), 0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A)]
    table = {code: f"\\u{code:04x}" for code in [*codes, 0xFEFF]}
    table |= dict.fromkeys([*range(0xD800, 0xE000), 0xFFFD], "?")
    shorts = {"\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t", '"': '"', "\\": "\\"}
    return table | {ord(char): "\\" + short for char, short in shorts.items()}


_TABLE = _table()
_json = msgspec.json.Encoder().encode


def escape(value: str) -> str:
    """``value`` as it stands between the quotes of a quoted logfmt value.

    Half surrogates and U+FFFD become ``?``: Loki refuses the first and loses the field on the second.
    """
    if value.isascii() and "\x7f" not in value:
        # Only what JSON escapes as well, in the same way; C does it at a fiftieth of the price of a translation.
        if value.isprintable() and '"' not in value and "\\" not in value:
            return value
        return _json(value)[1:-1].decode()
    return value.translate(_TABLE) if _UNSAFE(value) else value


def quote(value: str) -> str:
    """``value`` in quotes, escaped."""
    return f'"{value.translate(_TABLE)}"' if _UNSAFE(value) else f'"{value}"'


def bare(value: str) -> str:
    """``value`` as it is where that is unambiguous, else quoted. The empty string is quoted."""
    # The usual words and sentences are told by a few looks in C, at a third of the price of the expressions.
    if value.isascii():
        if value.isalnum():
            return value
        if " " in value and value.isprintable() and '"' not in value and "\\" not in value:
            return f'"{value}"'
        if _BARE(value):
            return value
    return f'"{value.translate(_TABLE)}"' if _UNSAFE(value) else f'"{value}"'


def is_lossy(value: str) -> bool:
    """True when ``escape`` can't keep every character: half surrogates, or U+FFFD."""
    return _LOST(value) is not None


def cut_escaped(value: str, max_bytes: int) -> tuple[str, int]:
    """Escape ``value`` and cut it to ``max_bytes`` UTF-8 bytes, between escapes and code points.

    Returns the escaped text, and the UTF-8 size of the whole escaped value when it was cut, else 0.
    """
    escaped = escape(value)
    if len(escaped) * 4 <= max_bytes:
        return escaped, 0
    size = len(escaped.encode())
    if size <= max_bytes:
        return escaped, 0
    return head(escaped, max_bytes), size


def head(escaped: str, max_bytes: int) -> str:
    """The longest start of an escaped text that fits ``max_bytes`` and ends between escapes."""
    raw = escaped.encode()[: max(0, max_bytes)]
    text = raw.decode(errors="ignore")
    slash = text.rfind("\\", max(0, len(text) - 6))
    if slash < 0:
        return text
    # Only the tail can hold a broken escape; walk it from a place known to be between escapes.
    start = max(0, slash - 1)
    while start > 0 and text[start - 1] == "\\":
        start -= 1
    return text[:start] + _whole(text[start:])


def tail(escaped: str, max_bytes: int) -> str:
    """The longest end of an escaped text that fits ``max_bytes`` and starts between escapes."""
    if max_bytes <= 0:
        return ""
    drop = len(escaped.encode()) - max_bytes
    if drop <= 0:
        return escaped
    for match in _ESCAPED_PIECE.finditer(escaped):
        drop -= len(match.group().encode())
        if drop <= 0:
            return escaped[match.end() :]
    return ""


def _whole(text: str) -> str:
    end = 0
    for match in _ESCAPED_PIECE.finditer(text):
        piece = match.group()
        if match.start() != end or (piece == "\\u"):
            break
        end = match.end()
    return text[:end]
