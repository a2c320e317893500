"""Records of a line of code that logs at every request, for a quarter of what ``logging`` takes to make one.

What a record says of file, module, process and thread, and the names of all these, is worked out anew each time, and
is the same for all records that one thread makes in one place. Here it is taken from the first one. Whoever has set
a record factory of their own is asked for each record.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

from telemetry.logs.event import READY, ReadyLine, is_sound
from telemetry.logs.shortcut import only_sink

_TASKS = "taskName" in vars(logging.LogRecord("", 0, "", 0, "", (), None))  # since Python 3.12


class Place:
    """A line of code that logs: its logger and level, its message without arguments, its file and function."""

    def __init__(self, logger: logging.Logger, level: int, message: str, file: str, function: str) -> None:
        self._logger = logger
        self._level = level
        self._given = (logger.name, level, file, 0, message, (), None, function)
        self._kept = threading.local()

    @property
    def enabled(self) -> bool:
        """Whether the logger takes the level now."""
        return self._logger.isEnabledFor(self._level)

    def log(self, fields: Mapping[str, Any], message: str | None = None) -> None:
        """Log what ``logger.log(level, message, extra=fields)`` would, here, now; ``message`` in place of its own."""
        if self._logger.isEnabledFor(self._level):
            self._logger.handle(self.record(fields, message))

    def log_ready(self, line: ReadyLine) -> None:
        """Log a ready line, at once into the sink where no one else would see its record."""
        logger = self._logger
        if logger.isEnabledFor(self._level):
            sink = only_sink(logger, self._level)
            if sink is not None and is_sound(line):
                sink.take(line, time.time_ns())
            else:
                logger.handle(self.record({READY: line}))

    def record(self, fields: Mapping[str, Any], message: str | None = None) -> logging.LogRecord:
        """A record with ``fields``, none of which may have a standard attribute's name."""
        factory = logging.getLogRecordFactory()
        if factory is logging.LogRecord:
            record = logging.LogRecord.__new__(logging.LogRecord)
            attributes = record.__dict__ = self._standard().copy()
            now = attributes["created"] = time.time()
            attributes["msecs"] = float(int((now - int(now)) * 1000))
            attributes["relativeCreated"] += now * 1000
            if _TASKS:
                attributes["taskName"] = _task_name()
        else:
            record = factory(*self._given)
            attributes = record.__dict__
        if message is not None:
            attributes["msg"] = message
        attributes.update(fields)
        return record

    def _standard(self) -> dict[str, Any]:
        """The standard attributes of this thread's records, ``relativeCreated`` as that of the Unix epoch."""
        kept: dict[str, Any] | None = getattr(self._kept, "attributes", None)
        if kept is None or kept["process"] != os.getpid():
            kept = self._kept.attributes = vars(logging.LogRecord(*self._given))
            kept["relativeCreated"] -= kept["created"] * 1000
        return kept


def _task_name() -> str | None:
    asyncio = sys.modules.get("asyncio")
    if asyncio is None or not getattr(logging, "logAsyncioTasks", False):
        return None
    try:
        name: str = asyncio.current_task().get_name()
    except (RuntimeError, AttributeError):  # no event loop runs in this thread, or no task in it
        return None
    return name
