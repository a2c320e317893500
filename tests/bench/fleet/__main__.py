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
from tests.bench.__main__ import DOCS, _machine
from tests.bench.fleet import claims, figures, pairs, report, series, simulate
from tests.bench.fleet.estate import SETTINGS, Estate, Scale, running

PARTS: Final = ("load", "simulate", "pairs", "indexes", "series", "report")
SMALL: Final = Scale(history=20_000, pending=5_000, running=200, workers=50)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.fleet", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", help=", ".join(PARTS))
    parser.add_argument("--small", action="store_true", help="a few thousand rows, printed and not written")
    parser.add_argument("--data", type=Path, help="folder of the server's data, kept and used again")
    parser.add_argument("--output", type=Path, default=DOCS, help=f"folder to write to (default {DOCS})")
    parser.add_argument("--stages", default="", help="of simulate, those whose names hold one of these, by comma")
    parser.add_argument("--blocks", type=int, default=21)
    parser.add_argument("--round", type=float, default=20.0, help="seconds of a round of claims")
    parser.add_argument("--pairs", type=int, default=8, help="of rounds with indexes and without")
    parser.add_argument("--seed", type=int, default=random.randrange(10_000))
    chosen = parser.parse_args()
    wanted = chosen.parts or list(PARTS)
    if unknown := [part for part in wanted if part not in PARTS]:
        parser.error(f"no part is called {', '.join(unknown)}; there are {', '.join(PARTS)}")
    path = chosen.output / "fleet.json"
    results = figures.Results() if chosen.small else figures.read(path)
    if set(wanted) - {"report"}:
        folder = chosen.data or Path(tempfile.mkdtemp(prefix="fleetglass-bench-"))
        try:
            results = _measured(chosen, wanted, folder, results, None if chosen.small else path)
        finally:
            if chosen.data is None:
                shutil.rmtree(folder, ignore_errors=True)
    page = report.page(results)
    if chosen.small:
        print(page)
    elif "report" in wanted:
        (chosen.output / "fleet.md").write_text(page, encoding="utf-8")
        say(f"written: {chosen.output}/fleet.md, fleet.json")
    stages = results.simulate.stages if results.simulate else []
    return 0 if all(stage.ledger.balanced for stage in stages) else 1


def _measured(
    chosen: argparse.Namespace, wanted: list[str], folder: Path, results: figures.Results, path: Path | None
) -> figures.Results:
    with ExitStack() as stack:
        estate = stack.enter_context(running(folder, SMALL if chosen.small else Scale()))
        began = _Began(estate)
        if not estate.loaded:
            say(f"load: {estate.load():.0f} s")
            loaded = figures.Loaded(began.where(), estate.scale, dict(SETTINGS), estate.sizes())
            results = _kept(results, path, load=loaded)
        bench = simulate.Bench(estate, stack, interval=1.0 if chosen.small else simulate.INTERVAL)
        for part in wanted:
            began = _Began(estate)
            found = _part(part, chosen, bench)
            if found is not None:
                results = _kept(results, path, **{part: found(began.where(), results)})
                say(f"{part}: done in {began.where().seconds:.0f} s")
    return results


def _part(part: str, chosen: argparse.Namespace, bench: simulate.Bench):
    small, seed = chosen.small, chosen.seed
    seconds = 1.0 if small else chosen.round
    if part == "simulate":
        stages = []
        for plan in simulate.STAGES:
            if chosen.stages and not any(each in plan.name for each in chosen.stages.split(",")):
                continue
            say(plan.name)
            stages.append(bench.stage(msgspec.structs.replace(plan, scrapes=4) if small else plan))
            say(report.stage_line(stages[-1]))
        return lambda where, before: figures.Simulated(where, figures.merged(before.simulate, stages))
    if part == "pairs":
        blocks, spent = pairs.paired(bench, 3 if small else chosen.blocks, seconds, seed=seed, said=say)
        return lambda where, _: figures.Paired(where, seconds, claims.CLIENTS, blocks, spent)
    if part == "indexes":
        return _indexes(chosen, bench, seconds)
    if part == "series":
        counted = series.counted(bench.estate)
        return lambda where, _: figures.Series(where, counted)
    return None


def _indexes(chosen: argparse.Namespace, bench: simulate.Bench, seconds: float):
    advised = indexes(WINDFORCE)
    found, sizes = [], {}
    for table in ("job_queue", "job_completed"):
        # Beside running work would only take longer: nobody works while they are made here.
        ddl = {each.name: each.ddl.replace(" CONCURRENTLY", "") for each in advised if each.table == table}
        say(f"indexes of {table}: {', '.join(ddl)}")
        for name in ddl:
            sizes[name] = bench.estate.one("SELECT pg_relation_size(%s::regclass)", (name,))
        count = 2 if chosen.small else chosen.pairs
        found.append(pairs.priced(bench, ddl, count, seconds, seed=chosen.seed, said=say))
    return lambda where, _: figures.Indexed(where, seconds, found, sizes)


class _Began:
    """When a part began, and under what load."""

    def __init__(self, estate: Estate) -> None:
        self._estate, self._at, self._load = estate, time.monotonic(), os.getloadavg()[0]

    def where(self) -> figures.Where:
        """What the report says of it."""
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
        return figures.Where(
            date=datetime.now(UTC).date().isoformat(),
            machine=f"{_machine(None)}, {memory:.0f} GiB, Python {platform.python_version()}",
            load=self._load,
            server=f"PostgreSQL {self._estate.one('SHOW server_version')}",
            seconds=time.monotonic() - self._at,
        )


def _kept(results: figures.Results, path: Path | None, **more: object) -> figures.Results:
    results = msgspec.structs.replace(results, **more)
    if path is not None:
        figures.write(path, results)
    return results


def say(sentence: str) -> None:
    """Progress, for whoever waits."""
    print(f"{datetime.now(UTC):%H:%M:%S} {sentence}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
