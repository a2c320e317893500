"""Claims with the exporter on against claims with it off, and off against off as the control.

Blocks of three rounds in random order; before each round the tables are vacuumed. The fleet's heartbeats go on through
all of them. The exporter is a process of its own, on the same machine as the server, so that its own time counts too.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from tests.bench.fleet import claims
from tests.bench.fleet.cost import Cost, unindexed
from tests.bench.fleet.estate import Estate
from tests.bench.fleet.figures import Block, Priced
from tests.bench.fleet.simulate import FLAT_OUT, Bench

ROUNDS = ("on", "off", "control")


def blocks(bench: Bench, count: int, seconds: float, *, seed: int) -> Iterator[Block]:
    """Run ``count`` blocks, and a round before them that nobody counts."""
    bench.estate.settle(FLAT_OUT)
    claims.run(bench.estate, seconds)
    rng = random.Random(seed)
    for _ in range(count):
        order = rng.sample(ROUNDS, 3)
        found = {}
        for name in order:
            bench.estate.vacuum()
            if name == "on":
                bench.exporter.ask("go")
            try:
                found[name] = claims.run(bench.estate, seconds).rate
            finally:
                if name == "on":
                    bench.exporter.ask("halt")
        yield Block(tuple(order), **found)


def priced(
    bench: Bench, ddl: dict[str, str], pairs: int, seconds: float, *, seed: int, said: Callable[[str], None]
) -> Priced:
    """Rounds with the indexes of ``ddl`` (name and statement) and without them, in pairs; they are there at the end."""
    rng, there = random.Random(seed), True
    found: dict[bool, list[float]] = {True: [], False: []}
    for number in range(pairs):
        for wanted in rng.sample((True, False), 2):
            if wanted != there:
                have(bench.estate, ddl, wanted)
                there = wanted
            bench.estate.vacuum()
            found[wanted].append(claims.run(bench.estate, seconds).rate)
        said(f"pair {number + 1}: with {found[True][-1]:,.0f}, without {found[False][-1]:,.0f}")
    if not there:
        have(bench.estate, ddl, wanted=True)
    return Priced(tuple(ddl), found[True], found[False])


def bare(estate: Estate, ddl: dict[str, str]) -> dict[str, Cost]:
    """What reads cost without the indexes of ``ddl``; they are there at the end."""
    have(estate, ddl, wanted=False)
    estate.vacuum(analyze=True)
    found = unindexed(estate)
    have(estate, ddl, wanted=True)
    return found


def have(estate: Estate, ddl: dict[str, str], wanted: bool) -> None:
    """Make these indexes, or take them away."""
    estate.run(*(ddl.values() if wanted else (f"DROP INDEX {name}" for name in ddl)))
