"""What was measured, as ``fleet.json`` holds it: one part each, written by itself and kept when another runs again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from tests.bench.fleet.cost import Cost
from tests.bench.fleet.estate import Scale, Size


class Where(msgspec.Struct, frozen=True):
    """On what, and when: the machine, its load at the start, the server, how long it took."""

    date: str
    machine: str
    load: float
    server: str
    seconds: float


class Loaded(msgspec.Struct, frozen=True):
    """The filled database."""

    where: Where
    scale: Scale
    settings: dict[str, str]
    sizes: list[Size]


class Scrape(msgspec.Struct, frozen=True):
    """One reading: so many seconds after the last vacuum, with so many dead rows in the queue, at what cost."""

    at: float
    dead: int
    costs: dict[str, Cost]
    alive: int
    oldest_ping: float
    failed: dict[str, str]


class Ledger(msgspec.Struct, frozen=True):
    """What the workers did, and what the tables say became of it."""

    claimed: int
    completed: int
    enqueued: int
    pending: int
    running: int
    ended: int
    pings: int
    late: float

    @property
    def balanced(self) -> bool:
        """Every job that was enqueued, claimed or completed is where it should be; the last three are differences."""
        return (
            self.pending == self.enqueued - self.claimed
            and self.running == self.claimed - self.completed
            and self.ended == self.completed
        )


class Stage(msgspec.Struct, frozen=True):
    """Some minutes of claims at ``asked`` a second (0: as fast as they went) and what reading cost meanwhile.

    ``held``: a transaction kept a snapshot open all the while. ``load`` is the machine's load average before it.
    """

    name: str
    asked: float
    rate: float
    seconds: float
    held: bool
    scrapes: list[Scrape]
    ledger: Ledger
    plans: dict[str, str]
    load: float = 0.0


class Simulated(msgspec.Struct, frozen=True):
    """All stages."""

    where: Where
    stages: list[Stage]


class Block(msgspec.Struct, frozen=True):
    """Three rounds next to each other: jobs a second with the exporter on, off, and off again.

    ``order`` is that in which they ran.
    """

    order: tuple[str, ...]
    on: float
    off: float
    control: float


class Paired(msgspec.Struct, frozen=True):
    """All blocks, and what the exporter did in its rounds."""

    where: Where
    seconds: float
    clients: int
    blocks: list[Block]
    spent: dict[str, Cost]


class Priced(msgspec.Struct, frozen=True):
    """Rounds with some indexes and without, in pairs."""

    indexes: tuple[str, ...]
    with_them: list[float]
    without: list[float]


class Indexed(msgspec.Struct, frozen=True):
    """What the advised indexes cost claims; what reads cost without any of them, nothing else going on."""

    where: Where
    seconds: float
    priced: list[Priced]
    bytes: dict[str, int]
    without: dict[str, Cost]


class Counted(msgspec.Struct, frozen=True):
    """How many series there are with so many workers, and what reading those cost."""

    workers: int
    series: int
    ms: float
    buffers: int


class Series(msgspec.Struct, frozen=True):
    """The same groups with more and more workers."""

    where: Where
    counted: list[Counted]


class Results(msgspec.Struct, frozen=True):
    """``docs/benchmarks/fleet.json``."""

    load: Loaded | None = None
    simulate: Simulated | None = None
    pairs: Paired | None = None
    indexes: Indexed | None = None
    series: Series | None = None


def read(path: Path) -> Results:
    """What is there already."""
    return msgspec.json.decode(path.read_bytes(), type=Results) if path.exists() else Results()


def merged(before: Simulated | None, stage: Stage, names: Sequence[str]) -> list[Stage]:
    """Earlier stages with ``stage`` in the place of its earlier run, in the order of ``names``."""
    found = {each.name: each for each in before.stages} if before is not None else {}
    found[stage.name] = stage
    return [found[name] for name in names if name in found]


def write(path: Path, results: Results) -> None:
    """Replace it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")
