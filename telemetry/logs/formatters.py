"""Our line formats as stdlib formatters: for our own handlers, and for anybody's ``dictConfig``."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from telemetry.logs.console import console_text
from telemetry.logs.event import Event, Names
from telemetry.logs.jsonl import json_line
from telemetry.logs.line import logfmt_line
from telemetry.logs.odd import presentable
from telemetry.logs.quick import Stamped, quick_line
from telemetry.scrub import Scrubber

_CACHE = "_fleetglass"

_USUAL = Scrubber()
"""Formatters that are told of no other secrets share it, and with it what a record became."""


class Rendered:
    """What a record became: the event as ``scrubber`` cleaned it, and the text that ``write`` made of it."""

    __slots__ = ("event", "scrubber", "text", "write")

    def __init__(self, scrubber: Scrubber, event: Event, write: Callable[[Event], str], text: str) -> None:
        self.scrubber, self.event, self.write, self.text = scrubber, event, write, text

    def __reduce__(self) -> Any:
        """As None: a record may be pickled for a process that knows nothing of this package."""
        return type(None), ()


class LineFormatter(logging.Formatter):
    """``write`` turns an event into text. What one record became is kept on it, for the next handler."""

    def __init__(self, write: Callable[[Event], str] = logfmt_line, scrubber: Scrubber | None = None) -> None:
        super().__init__()
        self._write = write
        self._scrubber = scrubber or _USUAL
        self._names = Names(self._scrubber)

    def render(self, record: logging.LogRecord) -> tuple[Event, str]:
        """The event of ``record`` and its text."""
        write = self._write
        kept = record.__dict__.get(_CACHE)
        if type(kept) is not Rendered or kept.scrubber is not self._scrubber:
            event, text = self._read(record)
        elif kept.write is write:
            return kept.event, kept.text
        else:
            event, text = kept.event, write(kept.event)
        record.__dict__[_CACHE] = Rendered(self._scrubber, event, write, text)
        return event, text

    def _read(self, record: logging.LogRecord) -> tuple[Event, str]:
        try:
            event = Event(record, self._names)
            return event, self._write(event)
        except Exception:  # attributes of types that no record should have
            event = Event(presentable(record), self._names)
            event.mended = True
            return event, self._write(event)

    def brief(self, record: logging.LogRecord) -> tuple[Stamped, str]:
        """The text of ``record``, and no more beside it than a sink needs that stores only the text."""
        return self.render(record)

    def format(self, record: logging.LogRecord) -> str:
        """The text of ``record``; never raises for what the record holds."""
        return self.render(record)[1]


class LogfmtFormatter(LineFormatter):
    """``ts=… level=… logger=… msg=… key=value``: what Loki's ``| logfmt --strict`` reads."""

    def __init__(self, scrubber: Scrubber | None = None) -> None:
        super().__init__(logfmt_line, scrubber)

    def brief(self, record: logging.LogRecord) -> tuple[Stamped, str]:
        """As above, in one pass where the record is an ordinary one."""
        try:
            return quick_line(record, self._names) or self.render(record)
        except Exception:  # less ordinary than it looked
            return self.render(record)


class JsonFormatter(LineFormatter):
    """One JSON object a line."""

    def __init__(self, scrubber: Scrubber | None = None) -> None:
        super().__init__(json_line, scrubber)


class ConsoleFormatter(LineFormatter):
    """For a person at a terminal; ``colour`` by ANSI escapes."""

    def __init__(self, colour: bool = True, scrubber: Scrubber | None = None) -> None:
        super().__init__(_coloured if colour else _uncoloured, scrubber)


def _coloured(event: Event) -> str:
    return console_text(event, colour=True)


def _uncoloured(event: Event) -> str:
    return console_text(event, colour=False)
