"""What has arrived, and waiting for it.

A request is checked and parsed when it comes and turned into records only when somebody looks: a benchmark
that needs counts pays for no record.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeAlias

from telemetry.testing.records import Counts, LogLine, Request, Sample, Span

Kind: TypeAlias = Literal["spans", "lines", "samples"]
Keep: TypeAlias = Literal["everything", "records", "counts"]


class Store:
    """Thread-safe; ``limit`` bounds each kind to its newest records (None: all are kept)."""

    def __init__(self, keep: Keep, limit: int | None) -> None:
        self._changed = threading.Condition(threading.RLock())
        self._keep = keep
        self._limit = limit
        self._requests: deque[Request] = deque(maxlen=limit)
        self._records: dict[Kind, deque[Any]] = {}
        self._pending: dict[Kind, deque[tuple[int, Callable[[], Iterable[Any]]]]] = {}
        self._pending_counts: dict[Kind, int] = {}
        self._counts: dict[str, int] = {}
        self.clear()

    def clear(self) -> None:
        """Forget everything; counts start at zero."""
        with self._changed:
            self._requests.clear()
            self._records = {kind: deque(maxlen=self._limit) for kind in ("spans", "lines", "samples")}
            self._pending = {kind: deque() for kind in ("spans", "lines", "samples")}
            self._pending_counts = dict.fromkeys(self._pending, 0)
            self._counts = dict.fromkeys(("requests", *self._pending), 0)
            self._changed.notify_all()

    def add(self, request: Request, kind: Kind | None, count: int, records: Callable[[], Iterable[Any]]) -> None:
        """One request and what it carried; ``records`` is called when somebody looks, if ever."""
        with self._changed:
            self._counts["requests"] += 1
            if self._keep == "everything":
                self._requests.append(request)
            if kind is not None and count:
                self._counts[kind] += count
                if self._keep != "counts":
                    self._pending[kind].append((count, records))
                    self._pending_counts[kind] += count
                    if self._limit is not None:
                        self._forget(kind, self._limit)
            self._changed.notify_all()

    def _forget(self, kind: Kind, limit: int) -> None:
        # nobody may ever look: let whole requests go whose records would fall out anyway
        pending = self._pending[kind]
        while len(pending) > 1 and self._pending_counts[kind] - pending[0][0] >= limit:
            self._pending_counts[kind] -= pending.popleft()[0]

    def records(self, kind: Kind) -> list[Any]:
        """The records of one kind, in order of arrival."""
        with self._changed:
            pending = self._pending[kind]
            while pending:
                count, records = pending.popleft()
                self._pending_counts[kind] -= count
                self._records[kind].extend(records())
            return list(self._records[kind])

    def spans(self) -> list[Span]:
        """Spans in order of arrival."""
        return self.records("spans")

    def lines(self) -> list[LogLine]:
        """Log lines in order of arrival."""
        return self.records("lines")

    def samples(self) -> list[Sample]:
        """Samples in order of arrival."""
        return self.records("samples")

    def requests(self) -> list[Request]:
        """Requests in order of arrival."""
        with self._changed:
            return list(self._requests)

    def counts(self) -> Counts:
        """How many of each."""
        with self._changed:
            return Counts(**self._counts)

    def wait(self, done: Callable[[], bool], timeout: float) -> bool:
        """Wait until ``done()``, asked anew after each arrival; False when ``timeout`` seconds are over."""
        deadline = time.monotonic() + timeout
        with self._changed:
            while not done():
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                # asked again now and then even so: done() may look at more than what arrives here
                self._changed.wait(min(left, 0.1))
        return True

    def wake(self) -> None:
        """Have waiters look again."""
        with self._changed:
            self._changed.notify_all()
