"""A job that runs here and can be told to stop: by an exception in its thread, or by cancelling its task.

An exception that one thread raises in another arrives between any two steps of it. So there is a region in which a
job may be told to stop, its work, and outside of it, where its result is written, nothing arrives any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from types import FrameType
from typing import Any, Protocol

from telemetry.worker.jobs import JobCancelled, Outcome

_set_async_exc = ctypes.pythonapi.PyThreadState_SetAsyncExc
_set_async_exc.argtypes = (ctypes.c_ulong, ctypes.py_object)


class Held:
    """A job that runs in this process. ``reason`` says why it was told to stop, once it was."""

    def __init__(self, job_id: Any, started_at: datetime) -> None:
        self.id = job_id
        self.started_at = started_at
        self.reason: Outcome | None = None
        self._lock = threading.Lock()
        self._region: _Region | None = None

    def cancel(self, reason: Outcome) -> None:
        """Have it stop, from any thread; the first reason holds. Not for signal handlers: it takes a lock."""
        with self._lock:
            if self.reason is not None:
                return
            self.reason = reason
            region = self._region
        if region is not None:
            region.stop()

    @contextmanager
    def cancellable(self) -> Iterator[None]:
        """The work of the job: JobCancelled is raised in this block when the job has to stop, and nowhere after it.

        In a coroutine its task is cancelled, in the main thread even a call that blocks is interrupted; in another
        thread the exception arrives when a call that blocks has returned.
        """
        region = _region()
        with self._lock:
            self._region = region
            stopped = self.reason is not None
        try:
            if stopped:
                raise JobCancelled
            yield
        except asyncio.CancelledError:
            if region.leave():
                raise JobCancelled from None
            raise
        finally:
            region.leave()


class _Region(Protocol):
    def stop(self) -> None:
        """Called once at most, from another thread."""

    def leave(self) -> bool:
        """Nothing arrives after it. True the first time if a task was cancelled by us, and by nobody else."""


class _Thread:
    """Any thread but the main one."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._left = self._stopping = self._stopped = False

    def stop(self) -> None:
        self._stopping = True
        try:
            if not self._left:
                _set_async_exc(self._thread, ctypes.py_object(JobCancelled))
        finally:
            self._stopped = True

    def leave(self) -> bool:
        # Plain flags and no lock: the exception may arrive at any step here, and a lock would stay taken.
        while True:
            try:
                self._left = True
                while self._stopping and not self._stopped:
                    time.sleep(0.001)
                if self._stopping:
                    _set_async_exc(self._thread, ctypes.py_object())  # what has not been raised yet never will be
            except JobCancelled:
                continue
            return False


class _MainThread:
    """The main thread, where a signal interrupts even a call that blocks; it has no other use than to wake it."""

    present: _MainThread | None = None

    def __init__(self) -> None:
        self._left = self._stopping = False
        self._beneath, _MainThread.present = _MainThread.present, self

    def stop(self) -> None:
        self._stopping = True
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGURG)

    def woken(self) -> None:
        """In the main thread, between two of its steps or inside of a call that blocks."""
        if self._stopping and not self._left:
            self._left = True
            raise JobCancelled

    def leave(self) -> bool:
        self._left = True
        if _MainThread.present is self:
            _MainThread.present = self._beneath
        return False


class _Task:
    def __init__(self, task: asyncio.Task[Any]) -> None:
        self._task, self._loop = task, task.get_loop()
        self._left = self._cancelled = False

    def stop(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if not self._left:
            self._cancelled = True
            self._task.cancel()

    def leave(self) -> bool:
        if self._left:
            return False
        self._left = True
        return self._cancelled and self._task.uncancel() == 0


def _region() -> _Region:
    with contextlib.suppress(RuntimeError):
        task = asyncio.current_task()
        if task is not None:
            return _Task(task)
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGURG) is interrupt:
        return _MainThread()
    return _Thread()


def interrupt(_number: int, _frame: FrameType | None) -> None:
    """The handler of SIGURG, which a drain installs where nobody else has one."""
    if _MainThread.present is not None:
        _MainThread.present.woken()
