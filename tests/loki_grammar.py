"""How Loki 3.8 reads a logfmt line and guesses its level, written from the grammar and not from our encoder.

Facts: Loki's ``pkg/logql/log/logfmt`` (decoder), ``pkg/logql/log/parser.go`` (the two forms of ``| logfmt``) and
``pkg/distributor/field_detection.go`` (``detected_level``). Everything works on bytes, as there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

ERROR = "__error__"
ERROR_DETAILS = "__error_details__"
_SHORT = {b'"': '"', b"\\": "\\", b"/": "/", b"'": "'", b"b": "\b", b"f": "\f", b"n": "\n", b"r": "\r", b"t": "\t"}
_LOST = "\ufffd"


class Pair(NamedTuple):
    """A key and its value, empty for a bare key."""

    key: bytes
    value: bytes


class Problem(NamedTuple):
    """What the decoder stumbles over, and the byte (from 1) at which it does."""

    message: str
    position: int


def scan(line: str | bytes) -> Iterator[Pair | Problem]:
    """The pairs of a line and what lies between them, as Loki's decoder meets them.

    After a ``Problem`` the decoder goes on at the next separator; strict mode is to stop at the first.
    """
    data = _bytes(line)
    at, end = 0, len(data)
    while True:
        while at < end and data[at] <= 0x20:
            at += 1
        if at == end:
            return
        start = at
        while at < end and data[at] > 0x20 and data[at] not in b'="':
            at += 1
        key = data[start:at]
        if at < end and data[at] == ord('"'):
            yield Problem("unexpected '\"'", at + 1)
            at = _separator(data, at)
            continue
        assigned = at < end and data[at] == ord("=")
        if assigned and not key:
            yield Problem("unexpected '='", at + 1)
            at = _separator(data, at)
            continue
        if _is_lossy(key):
            yield Problem("invalid key", at + 1)
            at = _separator(data, at)
            continue
        if not assigned:
            yield Pair(key, b"")
            continue
        at += 1
        if at < end and data[at] == ord('"'):
            outcome, at = _quoted(data, at)
            yield outcome if isinstance(outcome, Problem) else Pair(key, outcome)
            continue
        start = at
        while at < end and data[at] > 0x20 and data[at] not in b'="':
            at += 1
        if at < end and data[at] > 0x20:
            yield Problem(f"unexpected {chr(data[at])!r}", at + 1)
            at = _separator(data, at)
            continue
        yield Pair(key, data[start:at])


def _separator(data: bytes, at: int) -> int:
    while at < len(data) and data[at] > 0x20:
        at += 1
    return at


def _quoted(data: bytes, at: int) -> tuple[bytes | Problem, int]:
    """The value in the quotes that open at ``at``, and where to go on."""
    end = at + 1
    escaped = False
    while end < len(data) and data[end] != ord('"'):
        if data[end] == ord("\\"):
            escaped = True
            end += 1
        end += 1
    if end >= len(data):  # the closing quote is missing, or only there escaped: the rest of the line is lost
        return Problem("unterminated quoted value", len(data) + 1), len(data)
    inside = data[at + 1 : end]
    if not escaped:
        return inside, end + 1  # verbatim: also raw newlines, controls and bytes that are no UTF-8
    value = _unescape(inside)
    return (Problem("invalid quoted value", end + 2) if value is None else value), end + 1


def _unescape(inside: bytes) -> bytes | None:
    """JSON's escapes, and ``\\'``; None for any other."""
    out: list[str] = []
    at = 0
    while at < len(inside):
        if inside[at] != ord("\\"):
            stop = inside.find(b"\\", at)
            stop = len(inside) if stop < 0 else stop
            out.append(_runes(inside[at:stop]))
            at = stop
            continue
        mark = inside[at + 1 : at + 2]
        if mark == b"u":
            code = _hex(inside, at)
            if code is None:
                return None
            at += 6
            if 0xD800 <= code < 0xE000:
                low = _hex(inside, at)
                if code < 0xDC00 and low is not None and 0xDC00 <= low < 0xE000:
                    at += 6
                    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
                else:
                    code = ord(_LOST)
            out.append(chr(code))
        elif mark in _SHORT:
            out.append(_SHORT[mark])
            at += 2
        else:
            return None
    return "".join(out).encode()


def _hex(inside: bytes, at: int) -> int | None:
    digits = inside[at + 2 : at + 6]
    if (
        inside[at : at + 2] != b"\\u"
        or len(digits) < 4
        or not all(digit in b"0123456789abcdefABCDEF" for digit in digits)
    ):
        return None
    return int(digits, 16)


def logfmt(
    line: str | bytes,
    *,
    strict: bool = False,
    keep_empty: bool = False,
    labels: Mapping[str, str] | None = None,
    metadata: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """What ``| logfmt`` extracts; the first of equal keys wins.

    ``labels`` and ``metadata`` are the stream's and the entry's: a key that is there already gets the suffix
    ``_extracted``. With ``strict``, ``__error__`` says that the rest of the line was not read.
    """
    taken = {**(labels or {}), **(metadata or {})}
    found: dict[str, str] = {}
    for item in scan(line):
        if isinstance(item, Problem):
            if strict:
                return found | _error(item)
            continue
        name = label_name(item.key)
        if name in taken:
            name += "_extracted"
        value = _runes(item.value).replace(_LOST, " ")
        if name and name not in found and (value or keep_empty):
            found[name] = value
    return found


def logfmt_expressions(
    line: str | bytes,
    *names: str,
    strict: bool = False,
    labels: Mapping[str, str] | None = None,
    metadata: Mapping[str, str] | None = None,
    **renamed: str,
) -> dict[str, str]:
    """What ``| logfmt a, b, c="key"`` extracts in a log query; the last of equal keys wins.

    A name that the line does not have is there with an empty value, which LogQL takes as absent. Here a
    U+FFFD empties the whole value. Metric queries stop at the first key they find; that is not shown.
    """
    wanted = {**{name: name for name in names}, **renamed}
    taken = {**(labels or {}), **(metadata or {})}
    found = {name: "" for name in wanted if name not in taken}
    for item in scan(line):
        if isinstance(item, Problem):
            if strict:
                return found | _error(item)
            continue
        key = label_name(item.key)
        name = next((name for name, source in wanted.items() if source == key), key)
        if not key or name not in wanted:
            continue
        if name in taken:
            name += "_extracted"
            if name in found:
                break  # Loki reads no further then, whatever else was asked for
        text = _runes(item.value)
        found[name] = "" if _LOST in text else text
    return found


def _error(problem: Problem) -> dict[str, str]:
    details = f"logfmt syntax error at pos {problem.position} : {problem.message}"
    return {ERROR: "LogfmtParserErr", ERROR_DETAILS: details}


def label_name(key: bytes) -> str:
    """The label that a key becomes; empty for one that consists of white space beyond ASCII."""
    name = _runes(key).strip()
    if name[:1].isascii() and name[:1].isdigit():
        name = "_" + name
    return "".join(char if char == "_" or (char.isascii() and char.isalnum()) else "_" for char in name)


# Level detection

_LEVEL_FIELDS = (
    "level", "LEVEL", "Level", "log.level", "severity", "SEVERITY", "Severity", "SeverityText",
    "lvl", "LVL", "Lvl", "severity_text", "Severity_Text", "SEVERITY_TEXT",
)  # fmt: skip
_LEVELS = {
    "trace": "trace", "trc": "trace", "debug": "debug", "dbg": "debug", "info": "info", "inf": "info",
    "information": "info", "warn": "warn", "wrn": "warn", "warning": "warn", "error": "error", "err": "error",
    "critical": "critical", "fatal": "fatal",
}  # fmt: skip
_WORDS = ("trace", "debug", "fatal", "critical", "error", "err", "warning", "warn", "info")
_LEFT = frozenset(" \t\n[({\"'=|")
_RIGHT = frozenset(" \t\n[](){}:,!\"'=|")
_JSON_DEPTH = 2


def detected_level(
    line: str | bytes,
    *,
    labels: Mapping[str, str] | None = None,
    metadata: Mapping[str, str] | None = None,
) -> str:
    """The ``detected_level`` that Loki adds on arrival.

    ``metadata`` is the structured metadata; from OTLP it holds ``severity_number``. JSON lines that are no
    valid JSON are read by Loki as far as they go; here they count as having no level field.
    """
    labels, metadata = labels or {}, metadata or {}
    if "detected_level" in metadata:
        return _normal(metadata["detected_level"])
    for source in (labels, metadata):
        for field in _LEVEL_FIELDS:
            if field in source:
                return _normal(source[field])
    if number := metadata.get("severity_number", ""):
        return _severity(number)
    data = _bytes(line)
    text = _runes(data)
    if text.strip()[:1] == "{" and data.rstrip(b" \t\n\v\f\r\x85\xa0")[-1:] == b"}":
        value = _json_level(text)
    elif b"=" in data:
        value = _logfmt_level(data)
    else:
        value = ""
    return _LEVELS.get(value.casefold()) or _level_in_text(text)


def _normal(level: str) -> str:
    return _LEVELS.get(level.casefold(), level)


def _severity(number: str) -> str:
    try:
        value = int(number)
    except ValueError:
        return "info"
    if value == 0 or value > 24:
        return "unknown"
    return ("trace", "debug", "info", "warn", "error", "fatal")[max(0, value - 1) // 4]


def _logfmt_level(data: bytes) -> str:
    best, found = len(_LEVEL_FIELDS), ""
    for item in scan(data):
        if isinstance(item, Problem):
            break
        key = _runes(item.key).casefold()
        rank = next((rank for rank, field in enumerate(_LEVEL_FIELDS) if field.casefold() == key), best)
        if rank < best:
            best, found = rank, _runes(item.value)
        if not best:
            break
    return found


def _json_level(text: str) -> str:
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        return ""

    def look(node: dict[str, Any], depth: int) -> str:
        if depth >= _JSON_DEPTH:
            return ""
        for key, value in node.items():
            if isinstance(value, str) and key in _LEVEL_FIELDS:
                return value
            if isinstance(value, dict) and (below := look(value, depth + 1)):
                return below
        return ""

    return look(tree, 0)


def _level_in_text(text: str) -> str:
    lower = text.lower()
    first, level = len(lower), "unknown"
    for word in _WORDS:
        at = lower.find(word)
        while at >= 0:
            after = lower[at + len(word) : at + len(word) + 1]
            if (not at or lower[at - 1] in _LEFT) and (not after or after in _RIGHT):
                break
            at = lower.find(word, at + 1)
        if 0 <= at < first:
            first, level = at, _LEVELS[word]
    return level


def _bytes(line: str | bytes) -> bytes:
    return line if isinstance(line, bytes) else line.encode("utf-8", "surrogatepass")


def _runes(data: bytes) -> str:
    """Text as Go ranges over it: U+FFFD for each byte that is no UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        pass
    out = []
    at = 0
    while at < len(data):
        for size in (1, 2, 3, 4):
            try:
                out.append(data[at : at + size].decode())
            except UnicodeDecodeError:
                continue
            break
        else:
            size = 1
            out.append(_LOST)
        at += size
    return "".join(out)


def _is_lossy(key: bytes) -> bool:
    return _LOST in _runes(key)
