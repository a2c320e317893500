"""Exceptions that nobody caught, as log records: of the main thread and of other threads.

asyncio logs its own (``Task exception was never retrieved``) through the logger ``asyncio``.
"""

from __future__ import annotations

import logging
import sys
import threading
from types import TracebackType
from typing import Any

_log = logging.getLogger("uncaught")
_before: dict[str, Any] = {}


def install(*, quiet: bool) -> None:
    """Hook in. ``quiet``: stdout already shows the record, so Python's own print on stderr is left out."""
    if _before:
        return
    before_main, before_thread = sys.excepthook, threading.excepthook

    def main(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            before_main(kind, error, trace)
            return
        if _before:  # still installed: whoever hooked in after us may call us for ever
            _log.critical("uncaught exception", exc_info=(kind, error, trace))
        if not (_before and quiet and before_main is sys.__excepthook__):
            before_main(kind, error, trace)

    def thread(args: threading.ExceptHookArgs) -> None:
        if _before and args.exc_value is not None and not issubclass(args.exc_type, SystemExit):
            name = args.thread.name if args.thread else "unknown"
            info = (args.exc_type, args.exc_value, args.exc_traceback)
            _log.critical("uncaught exception in thread", exc_info=info, extra={"thread_name": name})
        if not (_before and quiet and before_thread is threading.__excepthook__):
            before_thread(args)

    _before.update(main=before_main, thread=before_thread, ours=(main, thread))
    sys.excepthook, threading.excepthook = main, thread


def uninstall() -> None:
    """Put back what was there, unless somebody has hooked in since."""
    if not _before:
        return
    main, thread = _before["ours"]
    if sys.excepthook is main:
        sys.excepthook = _before["main"]
    if threading.excepthook is thread:
        threading.excepthook = _before["thread"]
    _before.clear()
