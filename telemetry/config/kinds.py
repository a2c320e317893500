"""Kinds of settings: how one value is read, from an environment string or a Python argument.

A reader takes the text of an environment variable or the natural Python value (``True``, ``1.5``, a
list, a mapping) and returns the value as ``Config`` holds it. What it can't use it refuses with
``Invalid``, whose text completes the sentence "expected …" and never repeats the value, which may be
a secret.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from urllib.parse import quote, unquote

import msgspec

# Patterns are compiled when they are first used, since most processes never use most of them.
_CONTROL = r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]"
_NAME = r"[A-Za-z0-9_.\-]+"
_LABEL = r"[a-zA-Z_][a-zA-Z0-9_]*"
_HEADER_NAME = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"  # RFC 9110 §5.6.2, token
_HEADER_VALUE = r"[\x20-\x7e\x80-\xff]*"  # what http.client can send
_SIZE = r"([0-9]+) *([kKmMgG]?)(?:[iI]?[bB])?"
_LEVELS = {"DEBUG": 10, "INFO": 20, "WARNING": 30, "ERROR": 40, "CRITICAL": 50}
_LEVEL_ALIASES = {"WARN": "WARNING", "FATAL": "CRITICAL"}
_TRUE = frozenset({"true", "1", "on", "yes"})
_FALSE = frozenset({"false", "0", "off", "no"})


class Invalid(ValueError):
    """A value that can't be used. The text says what was expected instead."""


class Kind(msgspec.Struct, frozen=True):
    """How one sort of value is read and what it is called in the reference.

    ``label`` is the reference's word for it, ``read`` makes the value or raises ``Invalid``,
    ``choices`` are the allowed words where there is a closed list.
    """

    label: str
    read: Callable[[object], object]
    choices: tuple[str, ...] = ()


def closest(word: str, known: Iterable[str]) -> str:
    """``; did you mean …?`` for the known word nearest to ``word``, else an empty string."""
    import difflib  # only ever needed on the way to an error

    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.7)
    return f"; did you mean {near[0]}?" if near else ""


def one_line(value: object, expected: str = "text") -> str:
    """The text without blanks around it; refused when it isn't text or would break a line or a header."""
    if not isinstance(value, str):
        raise Invalid(expected)
    stripped = value.strip()
    if not stripped or _has_control(stripped):
        raise Invalid(f"{expected}, not empty, valid UTF-8 and without control characters")
    return stripped


def _has_control(text: str) -> bool:
    return not text.isprintable() and re.search(_CONTROL, text) is not None


def text() -> Kind:
    """One line of text."""
    return Kind("text", one_line)


def secret_text() -> Kind:
    """Text taken as it is, but for the line end that mounted secrets carry."""

    def read(value: object) -> str:
        if not isinstance(value, str) or not (kept := value.rstrip("\r\n")) or _has_control(kept):
            raise Invalid("text without control characters")
        return kept

    return Kind("secret", read)


def choice(*words: str) -> Kind:
    """One of ``words``, upper and lower case alike."""

    def read(value: object) -> str:
        expected = f"one of {', '.join(words)}"
        word = one_line(value, expected).lower()
        if word not in words:
            raise Invalid(expected + closest(word, words))
        return word

    return Kind("one of " + ", ".join(f"`{word}`" for word in words), read, words)


def switch(*, standard: bool = False) -> Kind:
    """A boolean. ``standard`` ones (``OTEL_*``) know the words true and false only, as specified."""
    yes, no = (frozenset({"true"}), frozenset({"false"})) if standard else (_TRUE, _FALSE)

    def read(value: object) -> bool:
        if isinstance(value, bool):
            return value
        word = value.strip().lower() if isinstance(value, str) else ""
        if word in yes:
            return True
        if word in no:
            return False
        raise Invalid("true or false" if standard else "true or false (also on/off, yes/no, 1/0)")

    return Kind("true or false", read)


def number(unit: str, minimum: float, maximum: float, note: str = "") -> Kind:
    """A finite decimal number (of ``unit``, when it has one) within the bounds, both included."""
    unit = unit or "a number"
    expected = f"{unit} between {minimum:g} and {maximum:g}" + (f" ({note})" if note else "")

    def read(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise Invalid(expected)
        try:
            result = float(value)
        except (ValueError, OverflowError):
            raise Invalid(expected) from None
        if not math.isfinite(result) or not minimum <= result <= maximum:
            raise Invalid(expected)
        return result

    return Kind(f"{unit.removeprefix('a ')}, {minimum:g}–{maximum:g}", read)


def count(minimum: int, maximum: int) -> Kind:
    """A whole number within the bounds, both included."""
    return _whole(r"([0-9]+)()", "a whole number", minimum, maximum, str)


def folder() -> Kind:
    """An existing directory."""
    expected = "a directory that exists"

    def read(value: object) -> str:
        path = one_line(os.fspath(value) if isinstance(value, os.PathLike) else value, expected)
        if not Path(path).is_dir():
            raise Invalid(expected)
        return path

    return Kind("directory", read)


def file() -> Kind:
    """An existing file that this process may read."""
    expected = "a file that exists and can be read"

    def read(value: object) -> str:
        path = one_line(os.fspath(value) if isinstance(value, os.PathLike) else value, expected)
        if not (Path(path).is_file() and os.access(path, os.R_OK)):
            raise Invalid(expected)
        return path

    return Kind("file", read)


def size(minimum: int, maximum: int) -> Kind:
    """A number of bytes; text may carry a binary unit: ``65536``, ``64KiB``, ``32m``."""
    return _whole(_SIZE, "bytes", minimum, maximum, show_size)


def show_size(value: int) -> str:
    """``33554432`` as ``32 MiB``; what is no whole number of a unit stays in bytes."""
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if value and value % factor == 0:
            return f"{value // factor} {unit}"
    return str(value)


def _whole(pattern: str, noun: str, minimum: int, maximum: int, show: Callable[[int], str]) -> Kind:
    example = " (a number, or one with KiB, MiB or GiB)" if noun == "bytes" else ""
    expected = f"{noun} between {show(minimum)} and {show(maximum)}{example}"
    factors = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}

    def read(value: object) -> int:
        result = -1
        if isinstance(value, int) and not isinstance(value, bool):
            result = value
        # The length bound keeps int() away from megabytes of digits.
        elif isinstance(value, str) and len(value) < 40 and (match := re.fullmatch(pattern, value.strip())):
            result = int(match[1]) * factors[match[2].lower()]
        if not minimum <= result <= maximum:
            raise Invalid(expected)
        return result

    return Kind(f"{noun}, {show(minimum)}–{show(maximum)}", read)


def level_name(value: object) -> str:
    """A standard level of ``logging`` as its upper-case name; numbers of those levels are taken too."""
    expected = f"one of {', '.join(_LEVELS)}"
    if isinstance(value, int) and not isinstance(value, bool):
        value = next((name for name, level in _LEVELS.items() if level == value), "")
    word = one_line(value, expected).upper()
    word = _LEVEL_ALIASES.get(word, word)
    if word not in _LEVELS:
        raise Invalid(expected + closest(word, _LEVELS))
    return word


def level() -> Kind:
    """A level of the standard library's ``logging``."""
    return Kind("log level", level_name, tuple(_LEVELS))


def names(*known: str, none: str = "", every: str = "") -> Kind:
    """Names separated by commas, in order, each once.

    ``known`` closes the list; ``none`` is its word for no name, ``every`` its word for all that are no such word.
    """
    among = f", each one of {', '.join(known)}" if known else ""
    expected = f"names separated by commas{among}"

    def read(value: object) -> tuple[str, ...]:
        found: dict[str, None] = {}
        for item in items(value, expected):
            name = one_line(item, expected)
            if known and name not in known:
                raise Invalid(expected + closest(name, known))
            if not re.fullmatch(_NAME, name):
                raise Invalid(f"{expected}, of letters, digits, dots, dashes and underscores")
            found[name] = None
        for word in {none, every} & found.keys() - {""}:
            if len(found) > 1:
                raise Invalid(f"{expected}; {word} stands alone")
            return () if word == none else tuple(name for name in known if name not in {none, every})
        return tuple(found)

    return Kind("comma-separated names", read, known)


def items(value: object, expected: str) -> Iterable[object]:
    """The parts of a list, or of text with commas; ``Invalid(expected)`` for anything else."""
    if isinstance(value, str):
        return [item for item in value.split(",") if item.strip()]
    if isinstance(value, Iterable) and not isinstance(value, (bytes, Mapping)):
        return list(value)
    raise Invalid(expected)


def attributes() -> Kind:
    """``key=value,…`` with percent-encoding, as OTEL_RESOURCE_ATTRIBUTES is specified."""

    def check(name: str, value: str) -> tuple[str, str]:
        return one_line(name), one_line(value)

    return Kind("key=value list", _pairs(check, "key=value pairs separated by commas, percent-encoded"))


def headers() -> Kind:
    """``name=value,…`` in the form of W3C baggage (percent-encoded); names in lower case."""

    def check(name: str, value: str) -> tuple[str, str]:
        if not re.fullmatch(_HEADER_NAME, name) or not re.fullmatch(_HEADER_VALUE, value):
            raise Invalid("header names and values that HTTP allows (a line break is not)")
        return name.lower(), value

    return Kind("name=value list", _pairs(check, "HTTP headers as name=value, separated by commas, percent-encoded"))


def levels() -> Kind:
    """``logger=LEVEL,…``."""

    def check(name: str, value: str) -> tuple[str, str]:
        return one_line(name), level_name(value)

    return Kind("logger=LEVEL list", _pairs(check, "logger=LEVEL pairs separated by commas"))


def loki_labels(*taken: str) -> Kind:
    """``label=value,…`` with Loki's rules for label names; ``taken`` names belong to the identity."""

    def check(name: str, value: str) -> tuple[str, str]:
        if not re.fullmatch(_LABEL, name) or name.startswith("__") or name in taken:
            ours = ", ".join(taken)
            raise Invalid(f"label names of letters, digits and underscores, no leading __, and none of {ours}")
        return name, one_line(value)

    return Kind("label=value list", _pairs(check, "label=value pairs separated by commas, percent-encoded"))


def _pairs(check: Callable[[str, str], tuple[str, str]], expected: str) -> Callable[[object], dict[str, str]]:
    def read(value: object) -> dict[str, str]:
        found: dict[str, str] = {}
        for name, content in _split_pairs(value, expected):
            key, kept = check(name, content)
            found[key] = kept
        return found

    return read


def _split_pairs(value: object, expected: str) -> Iterable[tuple[str, str]]:
    if isinstance(value, Mapping):
        for name, content in value.items():
            if not isinstance(name, str) or isinstance(content, bool) or not isinstance(content, (str, int, float)):
                raise Invalid(expected)
            yield name.strip(), str(content).strip()
        return
    if not isinstance(value, str):
        raise Invalid(expected)
    for item in value.split(","):
        if not item.strip():
            continue
        name, equals, content = item.partition("=")
        try:
            pair = unquote(name.strip(), errors="strict"), unquote(content.strip(), errors="strict")
        except UnicodeDecodeError:
            raise Invalid(f"{expected} (the percent-encoding is not UTF-8)") from None
        if not equals or not pair[0]:
            raise Invalid(expected)
        yield pair


def encode_pairs(pairs: Mapping[str, str]) -> str:
    """A mapping in the form its environment variable would have."""
    return ",".join(f"{quote(name, safe='._-/')}={quote(value, safe=' ._-/:@+')}" for name, value in pairs.items())


class _Holder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    email: str
    workspace: str = ""
    roles: tuple[str, ...] = ()
    workspaces: tuple[str, ...] | None = None


def tokens() -> Kind:
    """A JSON object from token to ``{"email": …, "workspace": …, "roles": […]}``.

    Read as a dict from token to a dict with these three keys and ``workspaces``, lists as tuples; ``workspaces``
    (which the holder may name beside its own) may be left out and is None then.
    """
    expected = 'a JSON object {token: {"email": "…", "workspace": "…", "roles": ["…"]}}, tokens of printable ASCII'

    def read(value: object) -> dict[str, dict[str, object]]:
        try:
            if isinstance(value, str):
                found = msgspec.json.decode(value, type=dict[str, _Holder])
            else:
                found = msgspec.convert(value, type=dict[str, _Holder], from_attributes=True)
        except (msgspec.ValidationError, msgspec.DecodeError, UnicodeEncodeError):
            raise Invalid(expected) from None
        if any(not token or not token.isascii() or not token.isprintable() or " " in token for token in found):
            raise Invalid(expected)
        return {token: msgspec.structs.asdict(holder) for token, holder in found.items()}

    return Kind("JSON object", read)
