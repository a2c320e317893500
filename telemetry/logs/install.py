"""Our handlers on the root logger, and kept there: one copy of each record, whoever reconfigures logging.

Reconfiguring throws root handlers away. ``dictConfig`` has a documented hook, ``logging.config.dictConfigClass``,
which is given a subclass that looks afterwards. ``basicConfig(force=True)`` and ``fileConfig`` (alembic calls it)
have none, so the two functions are wrapped while we are installed. Whoever imported ``basicConfig`` itself before
that closes our handlers: they then put themselves back. Where a new configuration brings a console handler of its
own, our stdout handler stays away: one copy there too.
"""

from __future__ import annotations

import functools
import logging
import logging.config
import sys
from collections.abc import Callable, Mapping
from typing import Any

SERVER_LOGGERS = (
    "uvicorn",
    "uvicorn.error",
    "uvicorn.asgi",
    "uvicorn.access",
    "_granian",
    "granian.access",
    "gunicorn.error",
    "gunicorn.access",
)
ACCESS_LOGGERS = ("uvicorn.access", "granian.access", "gunicorn.access")

_installed: Installed | None = None


class Installed:
    """What ``install`` did, so that it can be kept up and undone. ``stdout`` is ours or None."""

    def __init__(self, handlers: list[logging.Handler], stdout: logging.Handler | None) -> None:
        self.handlers = handlers
        self.stdout = stdout
        self.level_before = logging.root.level
        self.levels_before: dict[str, int] = {}
        self.put_aside = [h for h in logging.root.handlers if _is_console(h) and h not in handlers]
        self.servers_before: dict[str, tuple[list[logging.Handler], bool]] = {}
        self.class_before = logging.config.dictConfigClass
        self.basic_before, self.file_before = logging.basicConfig, logging.config.fileConfig
        self.access_lines = False

    def attach(self) -> None:
        """Put our handlers on the root logger where they are missing."""
        other_console = any(_is_console(h) and h not in self.handlers for h in logging.root.handlers)
        for handler in self.handlers:
            if handler not in logging.root.handlers and not (handler is self.stdout and other_console):
                logging.root.addHandler(handler)

    def detach(self) -> None:
        """Take our handlers off the root logger."""
        for handler in self.handlers:
            logging.root.removeHandler(handler)

    def reconfigured(self, level: int) -> None:
        """Somebody has configured logging anew; the root's level was ``level``. Theirs is what we leave behind."""
        self.put_aside = []
        if logging.root.level != level:
            self.level_before = logging.root.level
        takeover()


def install(
    handlers: list[logging.Handler], stdout: logging.Handler | None, level: str, levels: Mapping[str, str]
) -> None:
    """Make ``handlers`` the root logger's way out. Console handlers that stand there already step aside."""
    global _installed
    uninstall()
    installed = Installed(handlers, stdout)
    for handler in installed.put_aside:
        logging.root.removeHandler(handler)
    logging.root.setLevel(level.upper())
    for name, wanted in levels.items():
        logger = logging.getLogger(name)
        installed.levels_before[name] = logger.level
        logger.setLevel(wanted.upper())
    for handler in handlers:
        _return_on_close(handler)
    _installed = installed
    installed.attach()
    logging.config.dictConfigClass = _watching(installed.class_before)
    logging.basicConfig = _watched(installed.basic_before, lambda given: bool(given.get("force")))
    logging.config.fileConfig = _watched(installed.file_before, lambda given: True)
    takeover()


def uninstall() -> None:
    """Take our handlers off and put back what stood there."""
    global _installed
    installed, _installed = _installed, None
    if installed is None:
        return
    installed.detach()
    for handler in installed.put_aside:
        logging.root.addHandler(handler)
    logging.root.setLevel(installed.level_before)
    for name, level in installed.levels_before.items():
        logging.getLogger(name).setLevel(level)
    for name, (handlers, propagate) in installed.servers_before.items():
        logger = logging.getLogger(name)
        logger.propagate = propagate
        for handler in handlers:
            logger.addHandler(handler)
    for name in ACCESS_LOGGERS:
        logging.getLogger(name).removeFilter(_one_line_a_request)
    if getattr(logging.config.dictConfigClass, _OURS, False):
        logging.config.dictConfigClass = installed.class_before
    if hasattr(logging.basicConfig, _OURS):
        logging.basicConfig = installed.basic_before
    if hasattr(logging.config.fileConfig, _OURS):
        logging.config.fileConfig = installed.file_before


def takeover() -> None:
    """Bring uvicorn's, granian's and gunicorn's loggers under ours, also after they configured themselves.

    Their console handlers go; their records reach the root logger. Each request is logged once: where our
    middleware writes access lines, the server's are left out, and a server's that were switched off stay off.
    Does nothing before ``setup()``.
    """
    if _installed is None:
        return
    for name in SERVER_LOGGERS:
        logger = logging.getLogger(name)
        if name in ACCESS_LOGGERS and not logger.handlers and not logger.propagate:
            continue  # uvicorn asks whether anybody listens, and makes no record then: access_log=False
        consoles = [h for h in logger.handlers if _is_console(h)]
        if consoles or not logger.propagate:
            _installed.servers_before[name] = (consoles, logger.propagate)
        for handler in consoles:
            logger.removeHandler(handler)
        logger.propagate = True
        if name in ACCESS_LOGGERS and _one_line_a_request not in logger.filters:
            logger.addFilter(_one_line_a_request)
    _installed.attach()


def write_access_lines(on: bool = True) -> None:
    """Say that our middleware logs each request, so that the server's own line is left out."""
    if _installed is not None:
        _installed.access_lines = on


def _one_line_a_request(record: logging.LogRecord) -> bool:
    return _installed is None or not _installed.access_lines


def _is_console(handler: logging.Handler) -> bool:
    if not isinstance(handler, logging.StreamHandler):
        return False
    streams = (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)
    return any(handler.stream is stream for stream in streams if stream is not None)


def _return_on_close(handler: logging.Handler) -> None:
    close: Callable[[], None] = handler.close

    def close_and_return() -> None:
        if _installed is not None and handler in _installed.handlers:
            logging.root.addHandler(handler)
        else:
            close()

    handler.close = close_and_return  # type: ignore[method-assign]  # of this one handler, for its life


_OURS = "_fleetglass"


def _watching(before: Any) -> Any:
    class Watching(before):  # type: ignore[misc]  # whatever class stood there
        _fleetglass = True

        def configure(self) -> Any:
            level = logging.root.level
            result = super().configure()
            if _installed is not None and not self.config.get("incremental"):
                _installed.reconfigured(level)
            return result

    return Watching


def _watched(before: Callable[..., None], concerns: Callable[[Mapping[str, Any]], bool]) -> Callable[..., None]:
    """``before``, with our handlers out of its way and back again; only for arguments that it ``concerns``."""

    @functools.wraps(before)
    def configure(*args: Any, **kwargs: Any) -> None:
        installed = _installed
        if installed is None or not concerns(kwargs):
            return before(*args, **kwargs)
        level = logging.root.level
        installed.detach()
        try:
            before(*args, **kwargs)
        finally:
            installed.reconfigured(level)
        return None

    setattr(configure, _OURS, True)
    return configure
