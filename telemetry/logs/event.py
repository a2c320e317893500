"""A stdlib log record, read once: its time, message, ids and fields, whatever was put into it.

Nothing here raises: a message that can't be formatted or a value that can't be printed is mended, and the
event says so.
"""

from __future__ import annotations

import io
import logging
import re
import traceback
from collections.abc import Mapping
from itertools import islice
from types import TracebackType
from typing import Any

import msgspec
from opentelemetry import trace

from telemetry import scrub
from telemetry.logs import context
from telemetry.text import printable, text_of

RESERVED = frozenset(
    "ts level logger msg trace_id span_id exception_type exception_message exception_stacktrace stack_info cut".split()
)
"""Keys of a line that are ours: an extra field of the same name becomes ``extra_NAME``."""

READY = "ready_line"

_BLANK = logging.LogRecord("", 0, "", 0, "", None, None)
_STANDARD = frozenset([*vars(_BLANK), "message", "asctime", "taskName"])
_STANDARD_COUNT = len(vars(_BLANK))
_IGNORED = frozenset([*_STANDARD, "tags", READY, "_fleetglass", "color_message"])
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*").fullmatch
_NOT_KEY = re.compile(r"[^A-Za-z0-9_.]")
_names: dict[str, str] = {}

Scalar = str | int | float | bool | None


class ReadyLine(msgspec.Struct, frozen=True):
    """A line made elsewhere, complete with ``ts`` and ``level``; ``extra={"ready_line": ReadyLine(…)}`` carries it.

    Formatter and bound fields are bypassed. In JSON, ``fields`` become the object. ``trace_id`` (32 hex
    digits) is the one that the line belongs to, or None: never that of the request which brought it.
    """

    line: str
    fields: Mapping[str, Scalar] = {}
    trace_id: str | None = None


class Failure(msgspec.Struct, frozen=True):
    """An exception of a record: type, message, and the traceback as Python prints it."""

    kind: str
    message: str
    stack: str


class Event:
    """What a line is made of. ``ns`` is Unix nanoseconds; ids are hex or empty; ``fields`` are clean of secrets."""

    __slots__ = (
        "failure",
        "fields",
        "level",
        "levelno",
        "logger",
        "mended",
        "message",
        "ns",
        "ready",
        "sampled",
        "span_id",
        "stack_info",
        "trace_id",
    )

    def __init__(self, record: logging.LogRecord, scrubber: scrub.Scrubber) -> None:
        self.ns = int(record.created * 1e9)
        self.levelno = record.levelno
        self.level = record.levelname
        self.logger = record.name
        self.mended = False
        extras = vars(record)
        self.ready: ReadyLine | None = extras.get(READY)
        self.trace_id = self.span_id = ""
        self.sampled = False
        self.failure: Failure | None = None
        self.stack_info = ""
        if self.ready is not None:
            self.trace_id = self.ready.trace_id or ""
            self.message, self.fields = self.ready.line, {}
            return
        self.message = scrub.text(self._message(record))
        here = trace.get_current_span().get_span_context()
        if here.is_valid:
            self.trace_id = f"{here.trace_id:032x}"
            self.span_id = f"{here.span_id:016x}"
            self.sampled = here.trace_flags.sampled
        self.fields = self._fields(record, extras, scrubber)
        if record.exc_info or record.exc_text:
            self.failure = self._failure(record)
        if record.stack_info:
            self.stack_info = scrub.text(str(record.stack_info))

    def _message(self, record: logging.LogRecord) -> str:
        message = record.msg
        try:
            if type(message) is not str:
                message = printable(message)
            if not record.args:
                return message
            return str(message % record.args)
        except Exception as error:
            self.mended = True
            shown, _ = text_of(record.args)
            return f"{message if type(message) is str else '?'} [args {shown} do not fit: {type(error).__name__}]"

    def _fields(
        self, record: logging.LogRecord, extras: dict[str, Any], scrubber: scrub.Scrubber
    ) -> dict[str, object]:
        fields: dict[str, object] = {}
        bound = context.current()
        if bound:
            for key, value in bound.items():
                self._add(fields, key, value, scrubber)
        # A plain record begins with the standard attributes, in order: what follows them is extra.
        skip = _STANDARD_COUNT if type(record) is logging.LogRecord else 0
        if len(extras) > skip:
            for key, value in islice(extras.items(), skip, None):
                if key not in _IGNORED:
                    self._add(fields, key, value, scrubber)
        tags = extras.get("tags")  # python-logging-loki's way to give fields with a record
        if isinstance(tags, Mapping):
            for key, value in tags.items():
                self._add(fields, key, value, scrubber)
        return fields

    def _add(self, fields: dict[str, object], key: Any, value: Any, scrubber: scrub.Scrubber) -> None:
        name = _names.get(key) if type(key) is str else None
        if name is None:
            name = field_name(key)
        if scrubber.is_secret(name):
            fields[name] = scrub.SCRUBBED
            return
        kind = type(value)
        if kind is str:
            fields[name] = scrub.text(value)
        elif kind is int or kind is float or kind is bool or value is None:
            fields[name] = value
        else:
            text, mended = text_of(value)
            self.mended = self.mended or mended
            fields[name] = scrub.text(text)

    def _failure(self, record: logging.LogRecord) -> Failure | None:
        info = record.exc_info
        if isinstance(info, tuple) and info[0] is not None:
            kind, error, trace_ = info
            stack = record.exc_text or self._stack(kind, error, trace_)
            try:
                message = str(error)
            except Exception:
                self.mended = True
                message = "<unprintable>"
            return Failure(kind.__qualname__, scrub.text(message), scrub.text(stack))
        if record.exc_text:  # a record that was pickled: only the text of its exception came along
            return Failure("", "", scrub.text(record.exc_text))
        return None

    def _stack(self, kind: type[BaseException], error: BaseException | None, trace_: TracebackType | None) -> str:
        out = io.StringIO()
        try:
            traceback.print_exception(kind, error, trace_, file=out)
        except Exception:  # an exception whose own __str__ raises breaks the printing of its chain
            self.mended = True
            out = io.StringIO("".join(traceback.format_tb(trace_)) + kind.__qualname__)
        return out.getvalue().rstrip("\n")


def field_name(key: object) -> str:
    """``key`` as a field may be named: letters, digits, ``_`` and ``.``; one of ours becomes ``extra_NAME``."""
    text = key if isinstance(key, str) else printable(key)
    name = text if _KEY(text) else _NOT_KEY.sub("_", text)[:128] or "_"
    if name[0].isdigit() or name[0] == ".":
        name = "_" + name
    if name in RESERVED:
        name = "extra_" + name
    if isinstance(key, str) and len(_names) < 4096:  # keys made from data would otherwise grow this for ever
        _names[key] = name
    return name
