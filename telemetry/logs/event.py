"""A stdlib log record, read once: its time, message, ids and fields, whatever was put into it.

Nothing here raises: a message that can't be formatted or a value that can't be printed is mended, and the
event says so.
"""

from __future__ import annotations

import io
import logging
import re
import traceback
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any

import msgspec
from opentelemetry import context as otel_context
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
STANDARD_COUNT = len(vars(_BLANK))
_IGNORED = frozenset([*_STANDARD, "tags", "_fleetglass", "color_message"])
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*").fullmatch
_NOT_KEY = re.compile(r"[^A-Za-z0-9_.]")

_PLAIN = frozenset([int, float, bool, type(None)])
_TRACE_ID = re.compile("[0-9a-f]{32}").fullmatch
_SURROGATE = re.compile("[\ud800-\udfff]").search

Scalar = str | int | float | bool | None


class ReadyLine(msgspec.Struct, frozen=True):
    """A line made elsewhere, complete with ``ts`` and ``level``; ``extra={"ready_line": ReadyLine(…)}`` carries it.

    Formatter and bound fields are bypassed. In JSON, ``fields`` become the object. ``trace_id`` (32 lower-case
    hex digits) is the one that the line belongs to, or None: never that of the request which brought it.
    """

    line: str
    fields: Mapping[str, Scalar] = {}
    trace_id: str | None = None


def is_sound(ready: ReadyLine) -> bool:
    """True for a line that can be sent as it is: text without half surrogates, and an id that is one, if any."""
    line, trace_id = ready.line, ready.trace_id
    if type(line) is not str or (trace_id and not _TRACE_ID(trace_id)):
        return False
    return line.isascii() or not _SURROGATE(line)


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
        self.ns = record_ns(record)
        self.levelno = record.levelno
        self.level = record.levelname
        self.logger = record.name
        self.mended = False
        self.failure: Failure | None = None
        self.stack_info = ""
        extras = record.__dict__
        ready = extras.get(READY)
        self.ready: ReadyLine | None = ready if type(ready) is ReadyLine else None
        if self.ready is not None:
            self._read(self.ready)
            return
        self.message = scrub.text(self._message(record))
        self.trace_id, self.span_id, self.sampled = current_ids()
        self.fields = self._fields(record, extras, names)
        if record.exc_info or record.exc_text:
            self.failure = self._failure(record)
            if not self.trace_id and isinstance(record.exc_info, tuple):
                self.trace_id, self.span_id, self.sampled = getattr(record.exc_info[1], _LEFT, _NOWHERE)
        if record.stack_info:
            self.stack_info = scrub.text(str(record.stack_info))

    def _read(self, ready: ReadyLine) -> None:
        line, trace_id = ready.line, ready.trace_id or ""
        if not is_sound(ready):
            self.mended = True
            line = printable(line).encode(errors="replace").decode()
            trace_id = trace_id if _TRACE_ID(trace_id) else ""
            self.ready = ReadyLine(line, ready.fields, trace_id or None)
        self.trace_id, self.span_id, self.sampled = trace_id, "", False
        self.message, self.fields = line, {}

    def _message(self, record: logging.LogRecord) -> str:
        message = record.msg
        try:
            if type(record).getMessage is not logging.LogRecord.getMessage:  # a factory of the application's own
                return str(record.getMessage())
            if type(message) is not str:
                message, self.mended = text_of(message)
            return message % record.args if record.args else message
        except Exception as error:
            self.mended = True
            shown, _ = text_of(record.args)
            return f"{message if type(message) is str else '?'} [args {shown} do not fit: {type(error).__name__}]"

    def _fields(self, record: logging.LogRecord, extras: dict[str, Any], names: Names) -> dict[str, object]:
        fields: dict[str, object] = {}
        bound = context.current()
        if bound:
            self._add(fields, bound, bound, names)
        # A plain record begins with the standard attributes, in order: what follows them is extra.
        skip = STANDARD_COUNT if type(record) is logging.LogRecord else 0
        if len(extras) > skip:
            self._add(fields, extras, [*extras][skip:], names)
            tags = extras.get("tags")  # python-logging-loki's way to give fields with a record
            if isinstance(tags, Mapping):
                self._add(fields, tags, tags, names)
            elif tags is not None:
                text, mended = text_of(tags)
                self.mended = self.mended or mended
                fields["tags"] = scrub.text(text)
        return fields

    def _add(self, fields: dict[str, object], given: Mapping[Any, Any], keys: Iterable[Any], names: Names) -> None:
        for key in keys:
            value = given[key]
            name = names.get(key)
            if name is None:
                name = names.learn(key)
                if name in _IGNORED:
                    continue
                if name in names.secret:
                    fields[name] = scrub.SCRUBBED
                    continue
            kind = type(value)
            if kind is str:
                fields[name] = scrub.text(value)
            elif kind in _PLAIN:
                fields[name] = value
            else:
                text, mended = text_of(value)
                self.mended = self.mended or mended
                fields[name] = scrub.text(text)

    def _failure(self, record: logging.LogRecord) -> Failure | None:
        info: Any = record.exc_info
        if isinstance(info, BaseException):
            info = (type(info), info, info.__traceback__)
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


def record_ns(record: logging.LogRecord) -> int:
    """When ``record`` was made, in Unix nanoseconds: a float of today holds microseconds."""
    return int(record.created * 1e6 + 0.5) * 1000


class Names(dict[Any, str]):
    """Keys as they come, to names as fields have them.

    The few keys whose values are left out or scrubbed are not in it: ``learn`` answers for them each time,
    and ``secret`` holds the names that are scrubbed.
    """

    LIMIT = 4096
    """Keys made from data would otherwise grow this for ever."""

    def __init__(self, scrubber: scrub.Scrubber) -> None:
        super().__init__()
        self._scrubber = scrubber
        self._odd: dict[str, str] = {}
        self.heads: dict[str, str] = {}
        """`` key=`` for each key that is its own name and whose values are neither left out nor scrubbed."""
        self.secret: set[str] = set()

    def learn(self, key: object) -> str:
        """The name of a key that this dict doesn't hold."""
        known = self._odd.get(key) if isinstance(key, str) else None
        if known is not None:
            return known
        name = key if isinstance(key, str) and key in _IGNORED else field_name(key)
        odd = name in _IGNORED
        if self._scrubber.is_secret(name):
            if len(self.secret) >= self.LIMIT:
                self.secret.clear()
                self._odd.clear()
            self.secret.add(name)
            odd = True
        kept = self._odd if odd else self
        if isinstance(key, str) and len(kept) < self.LIMIT:
            kept[key] = name
            if name == key and not odd:
                self.heads[key] = f" {key}="
        return name


def current_ids() -> tuple[str, str, bool]:
    """Trace id and span id of the current span as hex (empty outside of any), and whether it is sampled."""
    global _last
    context = otel_context.get_current()
    known = _last  # one read: another thread may replace the pair, never tear it
    # A span is made current by a new context, so that the same context means the same span.
    if known[0] is not context:
        here = trace.get_current_span(context).get_span_context()
        ids = ("", "", False)
        if here.is_valid:
            ids = (f"{here.trace_id:032x}", f"{here.span_id:016x}", here.trace_flags.sampled)
        known = _last = (context, ids)
    return known[1]


_last: tuple[otel_context.Context | None, tuple[str, str, bool]] = (None, ("", "", False))


_NOWHERE = ("", "", False)
_LEFT = "_fleetglass_left"


def left_span(error: BaseException) -> None:
    """Remember with ``error`` the span that is current, the innermost one if asked again.

    For whoever lets an exception leave a span: the server that logs it is outside, and its line
    has the ids all the same.
    """
    vars(error).setdefault(_LEFT, current_ids())


def field_name(key: object) -> str:
    """``key`` as a field may be named: letters, digits, ``_`` and ``.``; one of ours becomes ``extra_NAME``."""
    text = key if isinstance(key, str) else printable(key)
    name = text if _KEY(text) else _NOT_KEY.sub("_", text)[:128] or "_"
    if name[0].isdigit() or name[0] == ".":
        name = "_" + name
    if name in RESERVED:
        name = "extra_" + name
    return name
