"""The host of B7: logs flat out while its backend hangs, and watches itself.

``python -m tests.bench.b7_host core url queue-bytes`` answers ``log`` (from so many threads) and ``ship``
(a Shipper alone, at a rate). Calls are timed one by one by the thread that makes them.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import telemetry
from telemetry.delivery import ENTRY_OVERHEAD, Limits, Shipper
from telemetry.ledger import Row, RowSnapshot
from telemetry.logs.loki import Entry, LokiSink
from tests.bench import child

PAGE = os.sysconf("SC_PAGE_SIZE")
STREAM = b'{"service_name":"b7"}'
LINE = b'["1796040%012d","' + b"x" * 200 + b'"]'


def rss() -> int:
    """Resident bytes of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


class Watch:
    """The highest resident size while it is open, beside what it was at the start."""

    def __enter__(self) -> Self:
        self.start = self.peak = rss()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def _run(self) -> None:
        while not self._stop.wait(0.05):
            self.peak = max(self.peak, rss())

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self.peak = max(self.peak, rss())

    @property
    def grown(self) -> int:
        """Bytes of growth."""
        return self.peak - self.start


def percentile(values: Sequence[int], share: float) -> float:
    """The value (nanoseconds in, microseconds out) below which ``share`` of ``values`` lie."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] / 1000


def counts(row: RowSnapshot) -> dict[str, int]:
    """A row as the report takes it."""
    return {"emitted": row.emitted, "delivered": row.delivered, "dropped": row.lost, "pending": row.pending}


class Host:
    """Holds what both commands need."""

    def __init__(self, url: str, queue_bytes: int) -> None:
        self.url = url
        self.queue_bytes = queue_bytes

    def log(self, threads: int, seconds: float) -> dict[str, Any]:
        """Log from ``threads`` threads for ``seconds``, each as fast as it can."""
        logger = logging.getLogger("shop.orders")
        kept = [array("Q") for _ in range(threads)]
        with telemetry.setup(
            service="b7", loki_url=self.url, stdout="off", metrics_exporter="none",
            queue_bytes=self.queue_bytes, queue_records=10_000_000, shutdown_timeout=0.1, sigterm=False,
        ) as running:  # fmt: skip
            logger.info("warm")
            stop = time.monotonic() + seconds

            def work(mine: array[int]) -> None:
                clock, number = time.perf_counter_ns, 0
                while time.monotonic() < stop:
                    for _ in range(50):
                        started = clock()
                        logger.info("order %d placed", number, extra={"tenant": "acme", "attempt": 1, "amount": 12.5})
                        mine.append(clock() - started)
                        number += 1

            with Watch() as watch:
                workers = [threading.Thread(target=work, args=(mine,)) for mine in kept]
                for worker in workers:
                    worker.start()
                for worker in workers:
                    worker.join()
            held = sum(len(mine) * mine.itemsize for mine in kept)  # the measured times themselves
            (row,) = running.health().rows
            calls = [value for mine in kept for value in mine]
        return {
            "calls": len(calls) / seconds,
            "p50": percentile(calls, 0.5),
            "p99": percentile(calls, 0.99),
            "p999": percentile(calls, 0.999),
            "grown": max(0, watch.grown - held),
            "balanced": row.balanced,
            **counts(running.health().rows[0]),
        }

    def ship(self, rate: int, seconds: float) -> dict[str, Any]:
        """Feed a Shipper alone with ``rate`` records a second for ``seconds``."""
        row = Row("logs", "loki")
        limits = Limits(queue_bytes=self.queue_bytes, queue_records=10_000_000)
        shipper = Shipper(LokiSink(self.url), row, limits)
        kept = array("Q")
        clock = time.perf_counter_ns
        cost = len(LINE % 0) + ENTRY_OVERHEAD
        with Watch() as watch:
            start, put = time.monotonic(), 0
            while (elapsed := time.monotonic() - start) < seconds:
                due = int(elapsed * rate) - put
                for number in range(put, put + due):
                    entry = Entry(STREAM, LINE % number)
                    if number % 50:
                        shipper.put(entry, cost, time.time())
                    else:
                        started = clock()
                        shipper.put(entry, cost, time.time())
                        kept.append(clock() - started)
                put += max(0, due)
                time.sleep(0.001)
        shipper.close(time.monotonic() + 0.1)
        snapshot = row.snapshot()
        return {
            "calls": put / seconds,
            "p50": percentile(kept, 0.5),
            "p99": percentile(kept, 0.99),
            "p999": percentile(kept, 0.999),
            "grown": watch.grown,
            "balanced": snapshot.balanced,
            **counts(snapshot),
        }


if __name__ == "__main__":
    address, size = child.enter()
    host = Host(address, int(size))
    child.serve({"log": host.log, "ship": host.ship})
