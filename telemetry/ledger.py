"""Every record is accounted for: ``emitted = delivered + dropped{reason} + pending``, always.

A record is a log line, a span or a pushed sample batch, counted once for each network sink. A row is
written only under its lock, by the Shipper that owns it, so that a snapshot is never torn. A record that
was mended (its format failed, it was cut, half surrogates were replaced) is delivered, and counted as
degraded beside it.
"""

from __future__ import annotations

import threading
from typing import Literal, get_args

import msgspec

Reason = Literal[
    "queue_full",
    "too_large",
    "rejected",
    "too_old",
    "encode",
    "retries",
    "deadline",
    "shutdown",
    "spool_full",
    "internal",
]
REASONS: tuple[Reason, ...] = get_args(Reason)


class RowSnapshot(msgspec.Struct, frozen=True):
    """One row at one instant. All figures count records; ``dropped`` holds only the reasons that occurred."""

    signal: str
    sink: str
    emitted: int
    delivered: int
    pending: int
    degraded: int
    dropped: dict[str, int]

    @property
    def lost(self) -> int:
        """Records dropped, for whatever reason."""
        return sum(self.dropped.values())

    @property
    def balanced(self) -> bool:
        """The equation of this module holds."""
        return self.emitted == self.delivered + self.lost + self.pending


class Row:
    """The account of one signal and sink. Callers hold ``lock`` while they write any figure."""

    __slots__ = ("degraded", "delivered", "dropped", "emitted", "lock", "pending", "signal", "sink")

    def __init__(self, signal: str, sink: str) -> None:
        self.signal = signal
        self.sink = sink
        self.reset()

    def reset(self) -> None:
        """Start at zero with a lock of our own: what a forked child inherited stays its parent's."""
        # Re-entrant, because a signal handler or a finaliser may log while its thread holds the lock.
        self.lock = threading.RLock()
        self.emitted = 0
        self.delivered = 0
        self.pending = 0
        self.degraded = 0
        self.dropped: dict[str, int] = dict.fromkeys(REASONS, 0)

    def drop(self, reason: Reason, count: int = 1) -> None:
        """Count ``count`` records as dropped. The caller holds ``lock``."""
        # No call between reading and writing: after one, a signal handler may run and count here as well.
        self.dropped[reason] += count

    def mended(self) -> None:
        """Count one record as delivered in another form than it was emitted."""
        with self.lock:
            self.degraded += 1

    def snapshot(self) -> RowSnapshot:
        """All figures of this row at one instant."""
        with self.lock:
            # Copied before anything is called, for the same reason as in ``drop``.
            emitted, delivered, pending, degraded, dropped = (
                self.emitted,
                self.delivered,
                self.pending,
                self.degraded,
                self.dropped.copy(),
            )
        known = {reason: count for reason, count in dropped.items() if count}
        return RowSnapshot(self.signal, self.sink, emitted, delivered, pending, degraded, known)


class Ledger:
    """The rows of one process, in the order in which their sinks were opened."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], Row] = {}

    def open(self, signal: str, sink: str) -> Row:
        """A new row at zero for ``signal`` (``logs``, ``traces``, ``metrics``) and ``sink`` (``loki``, ``otlp``, …).

        It takes the place of a closed one of the same name: what a former ``setup()`` sent is history.
        """
        row = self._rows[signal, sink] = Row(signal, sink)
        return row

    def close(self, row: Row) -> None:
        """Take ``row`` out; its holder may still read it."""
        if self._rows.get((row.signal, row.sink)) is row:
            del self._rows[row.signal, row.sink]

    def close_all(self, rows: list[Row]) -> None:
        """Take out every one of ``rows``, and empty the list."""
        while rows:
            self.close(rows.pop())

    def rows(self) -> tuple[Row, ...]:
        """The rows, in the order in which their sinks were opened."""
        return tuple(self._rows.values())

    def snapshot(self) -> tuple[RowSnapshot, ...]:
        """A snapshot of every row; each is consistent in itself."""
        return tuple(row.snapshot() for row in self.rows())


PROCESS = Ledger()
"""The ledger of this process: what ``/metrics``, ``health()`` and ``/readyz?verbose`` read."""


def describe(rows: tuple[RowSnapshot, ...]) -> str:
    """The ledger as a person reads it, one clause a row; empty where there is no network sink."""
    return "; ".join(
        f"{row.signal} to {row.sink}: {row.emitted} emitted = {row.delivered} delivered"
        f" + {row.lost} dropped{_reasons(row.dropped)} + {row.pending} pending"
        for row in rows
    )


def _reasons(dropped: dict[str, int]) -> str:
    return "" if not dropped else " (" + ", ".join(f"{count} {reason}" for reason, count in dropped.items()) + ")"
