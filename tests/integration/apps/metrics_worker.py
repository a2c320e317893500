"""A worker of a multiprocess service: runs each line of its input and answers with the value, as JSON.

With ``PROMETHEUS_MULTIPROC_DIR`` in its environment it joins that directory when it is told ``start()``.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any


def start(**arguments: Any) -> None:
    """Set telemetry up, as a service would first of all."""
    import telemetry

    telemetry.setup(service="workers", stdout="off", **arguments)


def count(number: float = 1, kind: str = "error") -> None:
    """Count browser errors."""
    from telemetry.metrics import counter

    counter("frontend_errors_total").child(kind).inc(number)


def active(number: float) -> None:
    """Set the live gauge."""
    from telemetry.metrics import gauge

    gauge("http_server_active_requests").child("GET").set(number)


def observe(seconds: float) -> None:
    """Measure a request."""
    from telemetry.metrics import histogram

    histogram("http_server_request_duration_seconds").child("GET", "/", "200").observe(seconds)


def scrape(accept: str | None = None) -> str:
    """The exposition, not a kept one."""
    import telemetry
    from telemetry.metrics import exposition

    exposition.DEFAULT._kept.clear()
    running = telemetry.active()
    assert running is not None
    return running.metrics(accept)[0].decode()


def respawn(times: int) -> None:
    """Fork a child that counts one and is killed, so many times."""
    for _ in range(times):
        pid = os.fork()
        if pid == 0:
            count()
            observe(0.1)
            active(7)
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(pid, 0)


def die_at(step: int) -> None:
    """Be killed when the files of the directory are renamed, replaced or removed for the ``step``-th time."""
    left = [step]

    def guard(original: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
                time.sleep(10)
            return original(*arguments, **named)

        return call

    for name in ("rename", "replace", "unlink", "write_bytes"):
        setattr(Path, name, guard(getattr(Path, name)))


def faults() -> dict[str, int]:
    """Internal faults of this process."""
    from telemetry import faults as library_faults

    return library_faults.counts()


for line in sys.stdin:
    result = eval(line)
    print(json.dumps(result), flush=True)
