"""The exporter under measurement, in a process of its own: ``telemetry.fleet.observer`` on the filled database.

It reads when it is told, or by itself every ``INTERVAL`` seconds with every fourth read a whole one, as it does alive.
Its clock stands still while it is halted: over many rounds of claims it reads as often a minute as it would in one go,
wherever a round begins.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from telemetry.fleet.election import Election
from telemetry.fleet.observer import PARTS, Observer
from tests.bench import child

INTERVAL: Final = 15.0
WHOLE: Final = 4
"""Every so many reads, running jobs, waits and exact counts are read as well."""


class Exporter:
    """Commands of the process."""

    def __init__(self, url: str, interval: float, limits: Mapping[str, float]) -> None:
        self.observer = Observer(url, election=Election(), **limits)
        self._interval = interval
        # Nobody starts both at the same moment.
        self._left = random.uniform(0, interval)
        self._number = random.randrange(WHOLE)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def step(self, whole: bool) -> dict[str, Any]:
        """Read now; what was found."""
        # What is due is the observer's to say, by when it last read each part.
        due = set(PARTS) if whole else {"queue", "workers"}
        now = time.monotonic()
        self.observer._reads = {
            part: msgspec.structs.replace(read, began=-1e9 if part in due else now)
            for part, read in self.observer.reads().items()
        }
        self.observer.step()
        return self.found()

    def found(self) -> dict[str, Any]:
        """What is served, in a few figures."""
        picture = self.observer.picture()
        parts = picture.parts
        return {
            "failed": {part: read.reason for part, read in self.observer.reads().items() if read.reason is not None},
            "series": sum(len(family.samples) for family in self.observer.families()),
            "pending": sum(each.pending for each in parts.detail.tags.values()) if parts.detail else 0,
            "running": sum(each.running for each in parts.detail.tags.values()) if parts.detail else 0,
            "alive": sum(each.alive for each in picture.observed.values()) if picture.observed else 0,
            "oldest_ping": max((worker.age for worker in parts.workers.workers), default=0.0) if parts.workers else 0.0,
        }

    def go(self) -> dict[str, Any]:
        """Read by itself from now on."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(self._stop,), daemon=True)
        self._thread.start()
        return {}

    def halt(self) -> dict[str, Any]:
        """Stop, and the clock with it; how many reads there were."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        return self.found()

    def _run(self, stop: threading.Event) -> None:
        last = time.monotonic()
        while not stop.wait(max(0.0, self._left)):
            now = time.monotonic()
            self._left += self._interval - (now - last)
            last = now
            self.step(self._number % WHOLE == 0)
            self._number += 1
            # The time of the read itself is part of the interval.
            self._left, last = self._left - (time.monotonic() - last), time.monotonic()
        self._left -= time.monotonic() - last


if __name__ == "__main__":
    address, every, limits = child.enter()
    exporter = Exporter(address, float(every), msgspec.json.decode(limits))
    child.serve({"step": exporter.step, "go": exporter.go, "halt": exporter.halt}, **exporter.step(True))
