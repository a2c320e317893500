"""Blocking calls beside the event loop, in threads that nobody has to wait for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def in_thread(function: Callable[[], T], name: str) -> asyncio.Future[T]:
    """Run ``function`` in a daemon thread of its own; the future has its result or exception.

    asyncio's default executor is no place for a call that may hang: its threads are joined when the
    interpreter exits, and a few of them that hang leave none for the application.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def succeed(result: T) -> None:
        if not future.done():
            future.set_result(result)

    def fail(error: Exception) -> None:
        if not future.done():
            future.set_exception(error)

    def run() -> None:
        try:
            result = function()
        except Exception as error:
            _tell(loop, fail, error)
        else:
            _tell(loop, succeed, result)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future


def _tell(loop: asyncio.AbstractEventLoop, tell: Callable[[T], None], outcome: T) -> None:
    try:
        loop.call_soon_threadsafe(tell, outcome)
    except RuntimeError:  # the loop was closed meanwhile: nobody waits any more
        return
