"""A lenient reader: the bytes a browser sent -> ``Report``.

The endpoint is best-effort: a report that can be understood at all is kept and coerced, because the page
that sent it is already broken and won't send it again. Only what is no JSON object of a sane depth is
refused, with one sentence.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final, Literal

import msgspec

Kind = Literal["error", "unhandledrejection", "react", "other"]

KINDS: Final[tuple[Kind, ...]] = ("error", "unhandledrejection", "react", "other")
MAX_REPEAT: Final = 1000

_TYPES = frozenset({b"", b"application/json", b"text/plain"})
_BOM = b"\xef\xbb\xbf"
_HEX = frozenset("0123456789abcdef")
_TRACE_ID_CHARACTERS = 32


class Unreadable(ValueError):
    """The body can't be read as a report. ``str()`` is one sentence for the caller, without the body's text."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One browser error as the page told it: every type right, nothing cut or escaped yet.

    Texts may still hold half surrogates (JavaScript cuts emoji in two) and control characters. ``repeat``
    is how many occurrences the page folded into this report, 1 to 1000. ``trace_id`` is 32 lowercase hex
    digits, or None when absent or malformed.
    """

    kind: Kind = "other"
    message: str = ""
    stack: str = ""
    url: str = ""
    build: str = ""
    release: str = ""
    trace_id: str | None = None
    repeat: int = 1


class _Wire(msgspec.Struct):
    """The known keys with any value; unknown keys are skipped, of equal keys the last one wins."""

    kind: Any = None
    message: Any = None
    stack: Any = None
    url: Any = None
    build: Any = None
    release: Any = None
    trace_id: Any = None
    repeat: Any = None


_wire = msgspec.json.Decoder(_Wire)
_report = msgspec.json.Decoder(Report)


def is_readable(content_type: bytes) -> bool:
    """True for the types under which a report may come: JSON, the plain text of a beacon, or none at all.

    A form can't hold a report, and a browser that sends one does so for a page that isn't a reporter.
    """
    return content_type in _TYPES or content_type.partition(b";")[0].strip().lower() in _TYPES


def read(body: bytes) -> Report:
    """Read one report; raises ``Unreadable`` for anything but a JSON object nested less than about 1,000 deep."""
    body = body.removeprefix(_BOM)
    try:
        try:
            report = _report.decode(body)
            if 1 <= report.repeat <= MAX_REPEAT and (report.trace_id is None or _is_trace_id(report.trace_id)):
                return report
        except msgspec.DecodeError:  # not as our own client writes it
            pass
        return _coerced(_decode(body))
    except RecursionError:
        raise Unreadable("The body is nested too deeply.") from None


def _decode(body: bytes) -> _Wire:
    try:
        return _wire.decode(body)
    except msgspec.DecodeError:
        # Half surrogates, raw newlines in strings, NaN and numbers without end are refused by msgspec and
        # understood by the standard library: https://github.com/getsentry/relay/issues/5833
        return _decode_leniently(body)


def _decode_leniently(body: bytes) -> _Wire:
    value = lenient_object(body)
    return _Wire(**{name: value[name] for name in _Wire.__struct_fields__ if name in value})


def lenient_object(body: bytes) -> dict[str, Any]:
    """The JSON object that ``body`` is, with half surrogates, NaN and raw line ends in strings as they are.

    Raises ``Unreadable``, and ``RecursionError`` for one that is nested some 1,000 deep.
    """
    if not body.strip():
        raise Unreadable("The body is empty; a JSON object is expected.")
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise Unreadable("The body is not valid UTF-8.") from None
    try:
        value = json.loads(text, strict=False, parse_int=_integer)
    except ValueError:
        raise Unreadable("The body is not valid JSON.") from None
    if not isinstance(value, dict):
        raise Unreadable("The body is valid JSON, but not an object.")
    return value


def _integer(digits: str) -> float:
    # int() refuses more than 4,300 digits with a ValueError, which would lose the whole report.
    return int(digits) if len(digits) <= 20 else float(digits)


def _coerced(wire: _Wire) -> Report:
    return Report(
        kind=_kind(wire.kind),
        message=as_text(wire.message),
        stack=as_text(wire.stack),
        url=as_text(wire.url),
        build=as_text(wire.build),
        release=as_text(wire.release),
        trace_id=as_trace_id(wire.trace_id),
        repeat=_repeat(wire.repeat),
    )


def as_text(value: Any) -> str:
    """Strings as they are, null as nothing, everything else as the JSON it was."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _kind(value: Any) -> Kind:
    for kind in KINDS:
        if value == kind:
            return kind
    return "other"


def _repeat(value: Any) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value[:5])
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        return 1
    return int(min(max(value, 1), MAX_REPEAT))


def as_trace_id(value: Any) -> str | None:
    """32 lowercase hex digits, not all of them 0; None for anything else."""
    if not isinstance(value, str):
        return None
    digits = value.lower()
    return digits if _is_trace_id(digits) else None


def _is_trace_id(text: str) -> bool:
    return len(text) == _TRACE_ID_CHARACTERS and _HEX.issuperset(text) and text != "0" * _TRACE_ID_CHARACTERS
