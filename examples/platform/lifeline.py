"""A process that ends when the one that started it does, however that one ended."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

_PATIENCE = 3.0


def end_with_parent() -> None:
    """Watch stdin, a pipe whose other end only the parent holds: once it is closed, SIGTERM, and soon after SIGKILL.

    No flush at the end of a parent does that: one that is killed runs nothing any more.
    """

    def watch() -> None:
        while os.read(sys.stdin.fileno(), 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_PATIENCE)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, name="lifeline", daemon=True).start()
