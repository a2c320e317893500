"""Any value as text: what users put into fields and attributes is printed without ever raising."""

from __future__ import annotations

import msgspec


def printable(value: object) -> str:
    """``str(value)``, or a word in its place where that raises."""
    return text_of(value)[0]


def text_of(value: object) -> tuple[str, bool]:
    """``value`` as text, and whether it had to be mended. Containers are JSON; bytes are text; nothing raises."""
    try:
        if isinstance(value, str):
            return str(value), False
        if isinstance(value, BaseException):
            return f"{type(value).__name__}: {value}", False
        if isinstance(value, (bytes, bytearray, memoryview)):
            return bytes(value).decode(errors="backslashreplace"), False
        if isinstance(value, (dict, list, tuple, set, frozenset, msgspec.Struct)):
            return _json(value), False
        return str(value), False
    except Exception:  # a raising __str__, a cycle, bottomless nesting
        return f"<unprintable {type(value).__name__}>", True


def _json(value: object) -> str:
    try:
        return msgspec.json.encode(value, enc_hook=printable).decode()
    except (TypeError, ValueError, OverflowError):  # odd keys, half surrogates, integers beyond 64 bits
        return repr(value)
