"""A lenient reader: the body that Grafana's Faro Web SDK 2.x sends -> reports.

The body is one object: ``meta`` for all of it, and lists of items by their kind (``TransportBody`` in
``@grafana/faro-core``). Exceptions become reports. Logs, measurements, events and traces are counted and left: this
service writes browser errors, and ``telemetry`` has better ways for the others. ``meta.user`` and ``meta.session``
are never looked at: who is speaking is the principal.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, Literal, get_args

import msgspec
from msgspec.structs import replace

from ingest.errors.report import Report, Unreadable, as_text, as_trace_id, lenient_object

Left = Literal["logs", "measurements", "events", "traces"]

LEFT: Final[tuple[Left, ...]] = get_args(Left)
"""Keys of the body whose items are left alone."""

MAX_ITEMS: Final = 50
"""Exceptions of one batch that are taken: as many items as the SDK puts into one by default."""
MAX_ITEM_BYTES: Final = 16 * 1024
"""Size of an exception as compact JSON in UTF-8; the errors route takes as much."""
MAX_FRAMES: Final = 100
"""Frames of one exception that are written, innermost first: more don't fit into a line."""

_BOM = b"\xef\xbb\xbf"
_REJECTION = "UnhandledRejection"  # what the SDK calls a rejection whose reason is no error
_UNKNOWN = "?"  # what it calls a function without a name
_NATIVE = "[native code]"


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """What a body holds. ``oversized`` and ``malformed`` are exceptions that became no report.

    ``left`` says how many items of each other kind there were; kinds without any are not in it.
    """

    reports: tuple[Report, ...] = ()
    oversized: int = 0
    malformed: int = 0
    left: Mapping[Left, int] = {}

    @property
    def exceptions(self) -> int:
        """How many there were, readable or not."""
        return len(self.reports) + self.oversized + self.malformed


class _Wire(msgspec.Struct):
    """The known keys with any value; unknown keys are skipped, of equal keys the last one wins."""

    meta: Any = None
    exceptions: Any = None
    logs: Any = None
    measurements: Any = None
    events: Any = None
    traces: Any = None


_decoder = msgspec.json.Decoder(_Wire)


def read(body: bytes) -> Batch:
    """Read one body; raises ``Unreadable`` for anything but a JSON object nested less than about 1,000 deep.

    An item that is no object, or too large, costs itself only. More than ``MAX_ITEMS`` exceptions are too large a
    batch: those beyond count as ``oversized``.
    """
    body = body.removeprefix(_BOM)
    try:
        return _batch(_decode(body))
    except RecursionError:
        raise Unreadable("The body is nested too deeply.") from None


def _decode(body: bytes) -> _Wire:
    try:
        return _decoder.decode(body)
    except msgspec.DecodeError:
        value = lenient_object(body)
        return _Wire(**{name: value[name] for name in _Wire.__struct_fields__ if name in value})


def _batch(wire: _Wire) -> Batch:
    exceptions = _list(wire.exceptions)
    meta = _object(wire.meta)
    app = _object(meta.get("app"))
    page = Report(
        url=as_text(_object(meta.get("page")).get("url")),
        build=as_text(app.get("environment")),
        release=as_text(app.get("release") or app.get("version")),
    )
    reports: list[Report] = []
    oversized, malformed = max(0, len(exceptions) - MAX_ITEMS), 0
    for item in exceptions[:MAX_ITEMS]:
        if not isinstance(item, dict):
            malformed += 1
        elif _size(item) > MAX_ITEM_BYTES:
            oversized += 1
        else:
            reports.append(_report(item, page))
    left = {kind: count for kind in LEFT if (count := _count(kind, getattr(wire, kind)))}
    return Batch(reports=tuple(reports), oversized=oversized, malformed=malformed, left=left)


def _list(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _count(kind: Left, value: Any) -> int:
    """How many items; traces are one OTLP document, whose resources are counted."""
    return len(_list(_object(value).get("resourceSpans") if kind == "traces" else value))


def _size(item: dict[str, Any]) -> int:
    return len(json.dumps(item, ensure_ascii=False, separators=(",", ":")).encode(errors="surrogatepass"))


def _report(item: dict[str, Any], page: Report) -> Report:
    kind, value = as_text(item.get("type")), as_text(item.get("value"))
    message = _message(kind, value)
    return replace(
        page,
        kind="unhandledrejection" if kind == _REJECTION else "error",
        message=message,
        stack=_stack(message, item.get("stacktrace")),
        trace_id=as_trace_id(_object(item.get("trace")).get("trace_id")),
    )


def _message(kind: str, value: str) -> str:
    """The error as JavaScript writes it: ``TypeError: x is undefined``."""
    if not value:
        return kind
    # A DOMException names its type in the value already, and a rejection's type is no class of errors.
    told = kind in {"", _REJECTION, value} or value.startswith(f"{kind}:")
    return value if told else f"{kind}: {value}"


def _stack(message: str, stacktrace: Any) -> str:
    """The trace as V8 writes it, whatever engine the SDK took apart; empty without frames."""
    if isinstance(stacktrace, str):
        return stacktrace
    frames = _list(_object(stacktrace).get("frames"))[:MAX_FRAMES]
    lines = [_frame(frame) for frame in frames if isinstance(frame, dict)]
    return "\n".join([message, *lines]) if lines else ""


def _frame(frame: dict[str, Any]) -> str:
    function, file = _line(frame.get("function")), _line(frame.get("filename"))
    if "*" in function:  # Gecko: async*save, setTimeout handler*save
        function = f"async {function.rpartition('*')[2]}"
    line, column = _position(frame.get("lineno")), _position(frame.get("colno"))
    location = file or _NATIVE
    if line:
        location += f":{line}:{column}" if column else f":{line}"
    return f"    at {location}" if function in {"", _UNKNOWN} else f"    at {function} ({location})"


def _line(value: Any) -> str:
    """Text of one line, so that a frame stays one."""
    return " ".join(as_text(value).split())


def _position(value: Any) -> int:
    """A line or a column as the SDK counts it, from 1; 0 for what can't be one."""
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        value = int(value[:10])
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**9 else 0
