"""Our line formats as stdlib formatters: for our own handlers, and for anybody's ``dictConfig``."""

from __future__ import annotations

import logging
from collections.abc import Callable

from telemetry.logs.console import console_text
from telemetry.logs.event import Event, Names
from telemetry.logs.jsonl import json_line
from telemetry.logs.line import logfmt_line
from telemetry.logs.quick import Stamped, quick_line
from telemetry.scrub import Scrubber

_CACHE = "_fleetglass"


class LineFormatter(logging.Formatter):
    """``write`` turns an event into text. What one record became is kept on it, for the next handler."""

    def __init__(self, write: Callable[[Event], str] = logfmt_line, scrubber: Scrubber | None = None) -> None:
        super().__init__()
        self._write = write
        self._names = Names(scrubber or Scrubber())

    def render(self, record: logging.LogRecord) -> tuple[Event, str]:
        """The event of ``record`` and its text."""
        extras = record.__dict__
        write = self._write
        kept = extras.get(_CACHE)
        if kept is None:
            event = Event(record, self._names)
        elif kept[0] is write:
            return kept[1], kept[2]
        else:
            event = kept[1]
        text = write(event)
        extras[_CACHE] = (write, event, text)
        return event, text

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
        return quick_line(record, self._names) or self.render(record)


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
