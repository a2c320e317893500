"""SIGTERM flushes: neither uvicorn nor a plain script runs ``atexit`` when it ends by a signal.

Where the signal's default would end the process at once, the hook shuts telemetry down first, within the
shutdown deadline, and then lets the default act. Where a handler stands already (a server's, the
application's), it is called and goes on to end the process in its own way; meanwhile what is logged is
flushed as it comes, and the last word belongs to the lifespan (``telemetry.web``) or to ``atexit``.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

EAGER_SECONDS = 30.0
"""How long a process that ends in its own way is flushed eagerly: the usual grace period of a pod."""

_hook: Hook | None = None


class Hook:
    """The installed handler, and what it does: ``shutdown`` ends telemetry, ``hurry`` has all that is queued sent.

    ``busy`` says whether the interrupted thread holds one of our locks: delivering would then wait for itself.
    """

    def __init__(self, shutdown: Callable[[], object], hurry: Callable[[], object], busy: Callable[[], bool]) -> None:
        self._shutdown = shutdown
        self._hurry = hurry
        self._busy = busy
        self._eager = False
        before: Any = signal.getsignal(signal.SIGTERM)
        while isinstance(before, Hook):  # of a former setup() that was shut down outside of the main thread
            before = before.before
        self.before: Any = before

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Handle the signal: deliver, then let what stood here before act."""
        if self._busy():  # interrupted inside our own few instructions: come back in a millisecond
            threading.Thread(target=_again, args=(number,), daemon=True).start()
            return
        if callable(self.before):
            self._flush_eagerly()
            self.before(number, frame)
        elif self.before == signal.SIG_DFL:
            signal.signal(number, signal.SIG_DFL)  # a second SIGTERM ends the process at once
            self._shutdown()
            os.kill(os.getpid(), number)

    def _flush_eagerly(self) -> None:
        if self._eager:
            return
        self._eager = True
        threading.Thread(target=self._keep_flushing, name="fleetglass-sigterm", daemon=True).start()

    def _keep_flushing(self) -> None:
        until = time.monotonic() + EAGER_SECONDS
        while time.monotonic() < until:
            self._hurry()
            time.sleep(0.05)
        self._eager = False


def install(shutdown: Callable[[], object], hurry: Callable[[], object], busy: Callable[[], bool]) -> bool:
    """Put the hook in front of the present handler.

    False outside of the main thread, where Python allows none, and where a handler in C stands already (uWSGI
    has one): it could not be called any more, and the process would not end.
    """
    global _hook
    if threading.current_thread() is not threading.main_thread():
        return False
    hook = Hook(shutdown, hurry, busy)
    if hook.before is None:
        return False
    signal.signal(signal.SIGTERM, hook)
    _hook = hook
    return True


def uninstall() -> None:
    """Put back the handler that was there, unless another has come since; in the main thread only."""
    global _hook
    hook = _hook
    if hook is None or threading.current_thread() is not threading.main_thread():
        return
    _hook = None
    before = hook.before
    if signal.getsignal(signal.SIGTERM) is hook:
        signal.signal(signal.SIGTERM, before)


def _again(number: int) -> None:
    time.sleep(0.001)
    os.kill(os.getpid(), number)
