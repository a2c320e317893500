"""What a bench hands to the report, and what ``results.json`` holds."""

from __future__ import annotations

from typing import Literal

import msgspec

from tests.bench.rounds import Spread

Better = Literal["more", "less"]


class Ledger(msgspec.Struct, frozen=True):
    """Where the records of one variant went, over all rounds and the warm-up.

    ``kept_by`` says whose figures they are: ``own`` for a library that keeps a ledger, ``receiver`` for
    one that keeps none, whose delivered count is then what arrived and whose dropped count is the rest.
    ``received`` is always what the receiving side decoded, each record once.
    """

    variant: str
    signal: str
    emitted: int
    delivered: int
    dropped: int
    pending: int
    received: int
    kept_by: Literal["own", "receiver"]

    @property
    def balanced(self) -> bool:
        """Nothing is unaccounted for, and the receiver saw exactly what is called delivered."""
        return self.emitted == self.delivered + self.dropped + self.pending and self.received == self.delivered


class Row(msgspec.Struct, frozen=True):
    """One line of a bench's table: a variant's value per round, and its ratio to another variant."""

    variant: str
    value: Spread
    ratio: Spread | None = None
    note: str = ""


class Target(msgspec.Struct, frozen=True):
    """A promise, and what was measured against it."""

    what: str
    measured: float
    bound: float
    sense: Literal["at least", "at most"]
    unit: str = ""

    @property
    def met(self) -> bool:
        return self.measured >= self.bound if self.sense == "at least" else self.measured <= self.bound


class Table(msgspec.Struct, frozen=True):
    """Rows that share a unit. ``ratio`` says what the ratio column divides by; empty: no such column."""

    title: str
    unit: str
    better: Better
    rows: tuple[Row, ...]
    ratio: str = ""
    chart: bool = False


class Bench(msgspec.Struct, frozen=True):
    """One bench as run: how, when, its tables, its ledger, its targets."""

    key: str
    title: str
    how: str
    tables: tuple[Table, ...]
    targets: tuple[Target, ...] = ()
    ledger: tuple[Ledger, ...] = ()
    notes: tuple[str, ...] = ()
    date: str = ""
    seconds: float = 0.0
    machine: str = ""
    load: float = 0.0


class Results(msgspec.Struct, frozen=True):
    """``docs/benchmarks/results.json``."""

    python: str
    versions: dict[str, str]
    benches: dict[str, Bench]


class Options(msgspec.Struct, frozen=True):
    """What the command line chose. ``server`` and ``load`` are core numbers, None where nothing can be pinned."""

    quick: bool = False
    server: int | None = None
    load: int | None = None

    def rounds(self, full: int) -> int:
        return max(3, full // 6) if self.quick else full
