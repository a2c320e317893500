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

    def __init__(self, record: logging.LogRecord, names: Names) -> None:
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
        if here is not _NOWHERE:
            self.trace_id, self.span_id, self.sampled = ids_of(here)
        self.fields = self._fields(record, extras, names)
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

    def _fields(self, record: logging.LogRecord, extras: dict[str, Any], names: Names) -> dict[str, object]:
        fields: dict[str, object] = {}
        bound = context.current()
        if bound:
            self._add(fields, bound, names)
        # A plain record begins with the standard attributes, in order: what follows them is extra.
        skip = _STANDARD_COUNT if type(record) is logging.LogRecord else 0
        if len(extras) > skip:
            self._add(fields, dict(islice(extras.items(), skip, None)), names)
            tags = extras.get("tags")  # python-logging-loki's way to give fields with a record
            if isinstance(tags, Mapping):
                self._add(fields, tags, names)
        return fields

    def _add(self, fields: dict[str, object], given: Mapping[Any, Any], names: Names) -> None:
        for key, value in given.items():
            name = names.get(key) or names.learn(key)
            kind = type(value)
            if name in _IGNORED:
                continue
            if name in names.secret:
                fields[name] = scrub.SCRUBBED
            elif kind is str:
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


class Names(dict[Any, str]):
    """Keys as they come, to names as fields have them; ``secret`` holds the names whose values are scrubbed."""

    LIMIT = 4096
    """Keys made from data would otherwise grow this for ever."""

    def __init__(self, scrubber: scrub.Scrubber) -> None:
        super().__init__()
        self._scrubber = scrubber
        self.secret: set[str] = set()

    def learn(self, key: object) -> str:
        """The name of a key that was not met before."""
        name = key if isinstance(key, str) and key in _IGNORED else field_name(key)
        if self._scrubber.is_secret(name):
            if len(self.secret) >= self.LIMIT:
                self.secret.clear()
                self.clear()
            self.secret.add(name)
        if isinstance(key, str) and len(self) < self.LIMIT:
            self[key] = name
        return name


def ids_of(here: trace.SpanContext) -> tuple[str, str, bool]:
    """Trace id and span id as hex (empty where invalid), and whether the span is sampled."""
    global _last
    known = _last  # one read: another thread may replace the pair, never tear it
    if known[0] is not here:
        ids = ("", "", False)
        if here.is_valid:
            ids = (f"{here.trace_id:032x}", f"{here.span_id:016x}", here.trace_flags.sampled)
        known = _last = (here, ids)
    return known[1]


_NOWHERE = trace.INVALID_SPAN_CONTEXT
_last: tuple[trace.SpanContext, tuple[str, str, bool]] = (_NOWHERE, ("", "", False))


def field_name(key: object) -> str:
    """``key`` as a field may be named: letters, digits, ``_`` and ``.``; one of ours becomes ``extra_NAME``."""
    text = key if isinstance(key, str) else printable(key)
    name = text if _KEY(text) else _NOT_KEY.sub("_", text)[:128] or "_"
    if name[0].isdigit() or name[0] == ".":
        name = "_" + name
    if name in RESERVED:
        name = "extra_" + name
    return name
