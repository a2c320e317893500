"""A ready line past ``logging``, where nobody but our own sink would look at its record.

Making a record and carrying it through logger and handler costs as much again as what the sink does with the line.
Whoever could see the record gets one: a handler or a filter of anybody's anywhere on its way, a record factory, a
logger class or a ``callHandlers`` that is not the standard library's, and of course a sink that writes lines anew.
"""

from __future__ import annotations

import logging
from typing import Protocol, cast

from telemetry.logs.event import ReadyLine


class LineSink(Protocol):
    """A handler that sends ready lines as they are."""

    verbatim: bool

    def take(self, line: ReadyLine, ns: int) -> None:
        """Queue a sound line of ``ns``, Unix nanoseconds."""
        ...


def _by_logging(name: str) -> object:
    """The method of ``Logger``, None where somebody has put another in its place already (Sentry does)."""
    method = getattr(logging.Logger, name)
    code = getattr(method, "__code__", None)
    own = code is not None and code.co_filename == logging.addLevelName.__code__.co_filename
    return method if own else None


_HANDLE, _CALL_HANDLERS = _by_logging("handle"), _by_logging("callHandlers")


def only_sink(logger: logging.Logger, level: int) -> LineSink | None:
    """The sink that alone would see a record of ``level``; None where anybody else may, or nobody."""
    handlers = logging.root.handlers
    if len(handlers) != 1 or logger.handlers or logger.filters or logger.parent is not logging.root:
        return None
    handler = handlers[0]
    alone = (
        getattr(handler, "verbatim", False)
        and not handler.filters
        and handler.level <= level
        and logger.propagate
        and type(logger) is logging.Logger
        and logging.Logger.handle is _HANDLE
        and logging.Logger.callHandlers is _CALL_HANDLERS
        and logging.getLogRecordFactory() is logging.LogRecord
    )
    return cast("LineSink", handler) if alone else None
