"""``python -m tests.bench.fleet``: the promised size, simulated; writes docs/benchmarks/fleet.md and fleet.json.

Parts are load, simulate, pairs, indexes, series, report; all of them without any named. Each writes its own figures
and keeps the others'. Some fifty minutes on two cores, and 12 GB of disk; ``--small`` is over in a minute and writes
nothing.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from telemetry.fleet.indexes import indexes
from telemetry.fleet.profiles import WINDFORCE
from tests.bench.__main__ import DOCS
from tests.bench.fleet import claims, figures, pairs, report, series, simulate
from tests.bench.fleet.cost import between
from tests.bench.fleet.estate import SETTINGS, Estate, Scale, running
from tests.bench.machine import machine

PARTS: Final = ("load", "simulate", "pairs", "indexes", "series", "report")
SMALL: Final = Scale(history=20_000, pending=5_000, running=200, workers=50)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.fleet", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", help=", ".join(PARTS))
    parser.add_argument("--small", action="store_true", help="a few thousand rows, printed and not written")
    parser.add_argument("--data", type=Path, help="folder of the server's data, kept and used again")
    parser.add_argument("--output", type=Path, default=DOCS, help=f"folder to write to (default {DOCS})")
    parser.add_argument("--stages", default="", help="of simulate, by name; parted by semicolons")
    parser.add_argument("--blocks", type=int, default=21)
    parser.add_argument("--round", type=float, default=20.0, help="seconds of a round of claims")
    parser.add_argument("--pairs", type=int, default=8, help="of rounds with indexes and without")
    parser.add_argument("--seed", type=int, default=random.randrange(10_000))
    chosen = parser.parse_args()
    wanted = chosen.parts or list(PARTS)
    if unknown := [part for part in wanted if part not in PARTS]:
        parser.error(f"no part is called {', '.join(unknown)}; there are {', '.join(PARTS)}")
    path = chosen.output / "fleet.json"
    run = _Run(chosen, figures.Results() if chosen.small else figures.read(path), None if chosen.small else path)
    if set(wanted) - {"report"}:
        folder = chosen.data or Path(tempfile.mkdtemp(prefix="fleetglass-bench-"))
        try:
            run.measure(wanted, folder)
        finally:
            if chosen.data is None:
                shutil.rmtree(folder, ignore_errors=True)
    results = run.results
    page = report.page(results)
    if chosen.small:
        print(page)
    elif "report" in wanted:
        (chosen.output / "fleet.md").write_text(page, encoding="utf-8")
        say(f"written: {chosen.output}/fleet.md, fleet.json")
    stages = results.simulate.stages if results.simulate else []
    return 0 if all(stage.ledger.balanced for stage in stages) else 1


class _Run:
    """The parts, one after another; what each found is kept as soon as it is there."""

    def __init__(self, chosen: argparse.Namespace, results: figures.Results, path: Path | None) -> None:
        self.chosen, self.results, self._path = chosen, results, path
        self._seconds = 1.0 if chosen.small else chosen.round

    def measure(self, wanted: list[str], folder: Path) -> None:
        with ExitStack() as stack:
            estate = stack.enter_context(running(folder, SMALL if self.chosen.small else Scale()))
            began = _Began(estate)
            if not estate.loaded:
                say(f"load: {estate.load():.0f} s")
                loaded = figures.Loaded(began.where(), estate.scale, dict(SETTINGS), estate.sizes())
                self._keep(load=loaded)
            bench = simulate.Bench(estate, stack, interval=1.0 if self.chosen.small else simulate.INTERVAL)
            parts = {"simulate": self.simulate, "pairs": self.pairs, "indexes": self.indexes, "series": self.series}
            for part in wanted:
                if part in parts:
                    began = _Began(estate)
                    parts[part](bench, began)
                    say(f"{part}: done in {began.where().seconds:.0f} s")

    def simulate(self, bench: simulate.Bench, began: _Began) -> None:
        names = [plan.name for plan in simulate.STAGES]
        for plan in simulate.named(self.chosen.stages):
            say(plan.name)
            stage = bench.stage(msgspec.structs.replace(plan, scrapes=4) if self.chosen.small else plan)
            say(report.stage_line(stage))
            merged = figures.merged(self.results.simulate, stage, names)
            self._keep(simulate=figures.Simulated(began.where(), merged))

    def pairs(self, bench: simulate.Bench, began: _Began) -> None:
        blocks, before = [], bench.meter.account()
        count = 3 if self.chosen.small else self.chosen.blocks
        for block in pairs.blocks(bench, count, self._seconds, seed=self.chosen.seed):
            blocks.append(block)
            say(f"block {len(blocks)}: " + ", ".join(f"{name} {getattr(block, name):,.0f}" for name in block.order))
            spent = between(before, bench.meter.account())
            self._keep(pairs=figures.Paired(began.where(), self._seconds, claims.CLIENTS, blocks, spent))

    def indexes(self, bench: simulate.Bench, began: _Began) -> None:
        found, sizes, all_of_them = [], {}, {}
        for table in ("job_queue", "job_completed"):
            # Beside running work would only take longer: nobody works while they are made here.
            advised = [each for each in indexes(WINDFORCE) if each.table == table]
            ddl = {each.name: each.ddl.replace(" CONCURRENTLY", "") for each in advised}
            say(f"indexes of {table}: {', '.join(ddl)}")
            for name in ddl:
                sizes[name] = bench.estate.one("SELECT pg_relation_size(%s::regclass)", (name,))
            count = 2 if self.chosen.small else self.chosen.pairs
            found.append(pairs.priced(bench, ddl, count, self._seconds, seed=self.chosen.seed, said=say))
            all_of_them |= ddl
        without = pairs.bare(bench.estate, all_of_them)
        self._keep(indexes=figures.Indexed(began.where(), self._seconds, found, sizes, without))

    def series(self, bench: simulate.Bench, began: _Began) -> None:
        counted = series.counted(bench.estate)
        self._keep(series=figures.Series(began.where(), counted))

    def _keep(self, **more: object) -> None:
        self.results = msgspec.structs.replace(self.results, **more)
        if self._path is not None:
            figures.write(self._path, self.results)


class _Began:
    """When a part began, and under what load."""

    def __init__(self, estate: Estate) -> None:
        self._estate, self._at, self._load = estate, time.monotonic(), os.getloadavg()[0]

    def where(self) -> figures.Where:
        """What the report says of it."""
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
        return figures.Where(
            date=datetime.now(UTC).date().isoformat(),
            machine=f"{machine(None)}, {memory:.0f} GiB, Python {platform.python_version()}",
            load=self._load,
            server=f"PostgreSQL {self._estate.one('SHOW server_version')}",
            seconds=time.monotonic() - self._at,
        )


def say(sentence: str) -> None:
    """Progress, for whoever waits."""
    print(f"{datetime.now(UTC):%H:%M:%S} {sentence}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
