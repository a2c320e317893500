"""The line of an ordinary record in one pass, for a sink that stores only the line.

Most records hold a text, its arguments and a few fields of plain types. Their line needs none of what an
``Event`` keeps for other formats, and comes out for two thirds of the price. Whatever is not ordinary takes
the long way: ``quick_line`` then answers None, and ``logfmt_line`` of the ``Event`` is the same text.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Protocol

from telemetry import scrub
from telemetry.logs import context
from telemetry.logs.event import READY, STANDARD_COUNT, Names, ReadyLine, current_ids, is_sound, record_ns
from telemetry.logs.line import LINE_LIMIT, head, timestamp
from telemetry.logs.logfmt import bare


class Stamped(Protocol):
    """What a sink needs beside the line. An ``Event`` is one, too."""

    @property
    def ns(self) -> int:
        """Unix nanoseconds."""
        ...

    @property
    def trace_id(self) -> str:
        """32 hex digits, or empty."""
        ...

    @property
    def mended(self) -> bool:
        """The line says something else than was logged: it is delivered, and counted as degraded."""
        ...


class Stamp:
    """Time and trace of a line that had not to be mended."""

    __slots__ = ("ns", "trace_id")

    mended = False

    def __init__(self, ns: int, trace_id: str) -> None:
        self.ns = ns
        self.trace_id = trace_id


def quick_line(record: logging.LogRecord, names: Names) -> tuple[Stamp, str] | None:
    """Stamp and line of ``record``; None where it takes the long way, so for a key that ``names`` has not met yet."""
    ready = record.__dict__.get(READY)
    if type(ready) is ReadyLine:
        return (Stamp(record_ns(record), ready.trace_id or ""), ready.line) if is_sound(ready) else None
    message = record.msg
    if (
        type(record) is not logging.LogRecord
        or type(message) is not str
        or record.exc_info
        or record.exc_text
        or record.stack_info
    ):
        return None
    try:
        if record.args:
            message = message % record.args
    except Exception:  # arguments that don't fit, or can't be printed
        return None
    ns = record_ns(record)
    trace_id, span_id, _ = current_ids()
    ids = f" trace_id={trace_id} span_id={span_id}" if trace_id else ""
    line = f"ts={timestamp(ns)} {head(record.levelname, record.name)} msg={bare(scrub.text(message))}{ids}"
    given: Mapping[str, Any] = record.__dict__
    keys: Any = [*given][STANDARD_COUNT:]
    bound = context.current()
    if bound:
        given = keys = {**bound, **{key: given[key] for key in keys}}
    heads = names.heads
    for key in keys:
        value = given[key]
        start = heads.get(key)
        if start is None:
            return None
        if type(value) is str:
            # Nothing of letters and digits alone is a secret by its shape, or needs quotes.
            plain = value.isalnum() and value.isascii()
            line += f"{start}{value}" if plain else f"{start}{bare(scrub.text(value))}"
        elif type(value) is int or type(value) is float:
            line += f"{start}{value!r}"
        else:
            return None
    # A question mark beside other scripts may stand for a character that can't be kept.
    if len(line) * 4 > LINE_LIMIT or ("?" in line and not line.isascii()):
        return None
    return Stamp(ns, trace_id), line
