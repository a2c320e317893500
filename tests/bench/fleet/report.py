"""The figures as a page: docs/benchmarks/fleet.md."""

from __future__ import annotations

import operator
import statistics
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from tests.bench.fleet import stats
from tests.bench.fleet.cost import AROUND, CATALOGUE, DETAIL, SCRAPE, WORKERS, Cost, total
from tests.bench.fleet.figures import Indexed, Loaded, Paired, Results, Scrape, Series, Simulated, Stage, Where
from tests.bench.report import number

BUDGETS: Final = (
    ("a scrape: oldest age and capped count of each tag", SCRAPE, 50.0, 6_000),
    ("each minute: running, waits, exact counts, failed, at their limit, overdue, upkeep", DETAIL, 150.0, None),
)
"""What is promised of the first stage: milliseconds and buffers, of the worst reading."""
_DEARER: Final = ("pending", "exact", "claims")
"""Reads whose plans are told of every stage that has any; of the first, all are."""
_WHEN: Final = {**dict.fromkeys((*SCRAPE, *WORKERS, AROUND), "15 s"), **dict.fromkeys((*DETAIL, *CATALOGUE), "60 s")}
_SAYS: Final = {
    "pending": "pending: oldest age and capped count of each tag",
    "workers": "workers: every ping",
    "groups": "what was asked for",
    "exact": "exact counts",
    "running": "running",
    "claims": "claims: waits, last claim",
    "last_claims": "last claims, where there are more than waits are taken from",
    "failed": "failed",
    "at_limit": "at their restart limit",
    "overdue": "overdue",
    "upkeep": "upkeep: dead rows, oldest snapshot",
    "catalogue": "catalogue: apps and actions",
    "dedicated": "workspaces with a group to themselves",
    AROUND: "around them: BEGIN, limits, clock, lease, COMMIT",
}


def page(results: Results) -> str:
    """All that there is, whole."""
    parts: list[str] = [_INTRO]
    if results.load is not None:
        parts += _loaded(results.load)
    if results.simulate is not None:
        parts += _simulated(results.simulate)
    if results.pairs is not None:
        parts += _paired(results.pairs)
    if results.indexes is not None:
        parts += _indexed(results.indexes)
    if results.series is not None:
        parts += _series(results.series)
    if results.simulate is not None:
        parts += _plans(results.simulate)
    return "\n".join(parts).rstrip() + "\n"


_INTRO: Final = """\
# Reading a queue of this size

Written by `python -m tests.bench.fleet`. A real PostgreSQL with windforce's tables and all that
`fleetglass schema print` writes; a thousand workers by the statements of `telemetry.worker`; the exporter
(`telemetry.fleet.observer`) in a process and under a role of its own. Server, workers, claims and exporter share the
machine.

Time and buffers are the server's own accounts of that role (`pg_stat_statements`, planning included): time passes also
while a process waits for a core, buffers are pages of 8 KiB touched, cached or not.
"""


def _loaded(loaded: Loaded) -> Iterator[str]:
    scale = loaded.scale
    yield "## What there is\n"
    yield (
        f"{scale.history:,} jobs that ended, {scale.pending:,} that wait under {scale.tags} tags in the order in which "
        f"they came, {scale.running:,} that run, {scale.workers:,} workers in {scale.groups} groups; filled in "
        f"{loaded.where.seconds:.0f} s.\n"
    )
    yield "| table | rows | MB | indexes, MB |\n|---|--:|--:|--:|"
    for each in loaded.sizes:
        yield f"| `{each.table}` | {each.rows:,} | {each.bytes / 2**20:,.0f} | {each.indexes / 2**20:,.0f} |"
    settings = ", ".join(f"`{name}={value}`" for name, value in loaded.settings.items())
    yield (
        f"\nSettings: {settings}; all else is the default. The queue has, beside its key and the advised indexes, one "
        "of the platform's own to claim by: `(priority DESC, scheduled_for) INCLUDE (tag) WHERE running = false`.\n"
    )
    yield _where(loaded.where)


def _simulated(simulated: Simulated) -> Iterator[str]:
    first = simulated.stages[0]
    yield f"## What a read costs at {first.name}\n"
    yield (
        f"{first.seconds:.0f} s since the last vacuum, autovacuum off, {first.rate:.1f} claims a second reached; every "
        f"worker pings every 10 s, with the jobs that it runs. {len(first.scrapes)} scrapes.\n"
    )
    yield "| read | every | ms, median | highest | buffers, median | highest |\n|---|---|--:|--:|--:|--:|"
    for name, says in _SAYS.items():
        row = _spread(first.scrapes, (name,))
        if row is not None:
            yield f"| {says} | {_WHEN[name]} | {row} |"
    for says, names in (("**a scrape**", SCRAPE), ("**each minute, all of it**", DETAIL)):
        row = _spread(first.scrapes, names)
        if row is not None:
            yield f"| {says} | {_WHEN[names[0]]} | {row} |"
    yield ""
    yield from _budgets([stage for stage in simulated.stages if stage.asked == first.asked])
    yield from _watched(simulated.stages)
    yield "## The curve\n"
    yield (
        "Each begins with a vacuum and with as many ended jobs in the last ten minutes as its rate would have left. "
        "At 1,000 claims/s and flat out it is pgbench that claims. Jobs that lie in the table in the order in which "
        "they came are counted page by page; where they lie scattered, each of them may be on a page of its own.\n"
    )
    yield (
        "| | claims/s | load before | s since vacuum | dead rows at the end | scrape, ms | scrape, buffers "
        "| each minute, ms | each minute, buffers | reads that failed |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|---|"
    )
    yield from map(_curve, simulated.stages)
    yield "\nMedian, and the highest in brackets. Load is the machine's load average as a stage began.\n"
    for stage in simulated.stages:
        if stage.held:
            yield from _held(stage)
    yield from _ledgers(simulated.stages)
    yield _where(simulated.where)


def _budgets(stages: Iterable[Stage]) -> Iterator[str]:
    yield "| promised, of the worst reading | at | bound | measured | |\n|---|---|---|---|---|"
    for stage in stages:
        for says, names, ms, buffers in BUDGETS:
            found = _found(stage.scrapes, names)
            if not found:
                continue
            bounds = [("ms", ms, max(each.ms for each in found))]
            if buffers is not None:
                bounds.append(("buffers", buffers, max(each.buffers for each in found)))
            for unit, bound, worst in bounds:
                verdict = "met" if worst <= bound else "**not met**"
                yield f"| {says} | {stage.name} | at most {bound:,.0f} {unit} | {number(worst)} {unit} | {verdict} |"
    yield ""


def _watched(stages: Sequence[Stage]) -> Iterator[str]:
    scrapes = [scrape for stage in stages for scrape in stage.scrapes]
    alive = {scrape.alive for scrape in scrapes if "workers" not in scrape.failed}
    oldest = max(scrape.oldest_ping for scrape in scrapes)
    late = max(stage.ledger.late for stage in stages)
    low, high = min(alive, default=0), max(alive, default=0)
    seen = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    yield (
        f"Workers alive, as the exporter saw them: {seen}. The oldest ping that it read was {oldest:.1f} s old; none "
        f"was sent more than {late:.1f} s late.\n"
    )


def _curve(stage: Stage) -> str:
    failed = sorted({f"{part}: {why}" for scrape in stage.scrapes for part, why in scrape.failed.items()})
    cells = [
        stage.name,
        f"{stage.rate:,.0f}",
        f"{stage.load:.1f}",
        f"{stage.scrapes[-1].at:.0f}",
        f"{stage.scrapes[-1].dead:,}",
    ]
    for names in (SCRAPE, DETAIL):
        found = _found(stage.scrapes, names)
        for of in (_ms, _buffers):
            cells.append(_told([of(each) for each in found]))
    return "| " + " | ".join([*cells, ", ".join(failed) or "none"]) + " |"


def _held(stage: Stage) -> Iterator[str]:
    yield f"### {stage.name}\n"
    yield (
        "A transaction in `REPEATABLE READ` is open from before the first claim, as a dump's would be: what claims "
        f"leave dead after that, nobody may clear away. {stage.rate:,.0f} claims a second reached.\n"
    )
    yield "| s | dead rows | scrape, ms | scrape, buffers |\n|--:|--:|--:|--:|"
    for scrape in stage.scrapes:
        cost = total(scrape.costs, SCRAPE)
        told = f"{number(cost.ms)} | {cost.buffers:,}" if cost is not None else "– | –"
        yield f"| {scrape.at:.0f} | {scrape.dead:,} | {told} |"
    yield ""


def _ledgers(stages: Iterable[Stage]) -> Iterator[str]:
    yield "### Nothing was lost on the way\n"
    yield (
        "| | enqueued | claimed | completed | the queue grew by | running grew by | the history grew by | pings | |\n"
        "|---|--:|--:|--:|--:|--:|--:|--:|---|"
    )
    for stage in stages:
        kept = stage.ledger
        cells = (kept.enqueued, kept.claimed, kept.completed, kept.pending, kept.running, kept.ended, kept.pings)
        figures = " | ".join(f"{each:,}" for each in cells)
        yield f"| {stage.name} | {figures} | {'exact' if kept.balanced else '**not exact**'} |"
    yield ""


def _paired(paired: Paired) -> Iterator[str]:
    on, off, control = ([getattr(block, name) for block in paired.blocks] for name in ("on", "off", "control"))
    with_it, without = stats.effect(stats.ratios(on, off)), stats.effect(stats.ratios(control, off))
    verdict = stats.verdict(on, off, control)
    reads, scrape = paired.spent, total(paired.spent, SCRAPE) or Cost()
    whole = total(paired.spent, tuple(reads)) or Cost()
    minutes = reads["exact"].calls if "exact" in reads else 0
    yield "## Claims with the exporter on and off\n"
    yield (
        f"pgbench, {paired.clients} clients as fast as they go, each job claimed, completed and replaced; the "
        f"heartbeats go on. {len(paired.blocks)} blocks of three rounds of {paired.seconds:.0f} s in random order, "
        "vacuum and checkpoint before each: exporter on, off, off again. It scrapes every 15 s and reads all each "
        f"minute; its clock stands still between its rounds. In them it scraped {scrape.calls} times, read all "
        f"{minutes} times, and took {whole.ms:,.0f} ms of database time in {len(paired.blocks) * paired.seconds:.0f} "
        "s.\n"
    )
    yield "| pairs | median | 95 % interval | lowest | highest | n |\n|---|--:|--:|--:|--:|--:|"
    for says, each in (("on / off", with_it), ("control: off / off", without)):
        yield (
            f"| {says} | {each.median:.4f} | {each.low:.4f} to {each.high:.4f} | {each.lowest:.3f} | "
            f"{each.highest:.3f} | {each.pairs} |"
        )
    yield (
        f"\nOff, {statistics.median([*off, *control]):,.0f} jobs a second (median). Permutation test of on against "
        f"both others of its block: {verdict.effect:.4f} of their throughput, p = {verdict.p:.2f}. With this many "
        f"blocks and this noise a loss of {verdict.seen:.1%} would have been found four times out of five; a smaller "
        "one might go unseen.\n"
    )
    yield _where(paired.where)


def _indexed(indexed: Indexed) -> Iterator[str]:
    yield "## What the advised indexes cost claims\n"
    yield f"The same load without the exporter, in pairs of rounds of {indexed.seconds:.0f} s, in random order.\n"
    yield "| indexes | MB | with / without, median | 95 % interval | pairs |\n|---|--:|--:|--:|--:|"
    for each in indexed.priced:
        found = stats.effect(stats.ratios(each.with_them, each.without))
        size = sum(indexed.bytes[name] for name in each.indexes) / 2**20
        names = ", ".join(f"`{name}`" for name in each.indexes)
        yield f"| {names} | {size:,.0f} | {found.median:.3f} | {found.low:.3f} to {found.high:.3f} | {found.pairs} |"
    yield "\nWithout any of them, nobody claiming, just vacuumed:\n"
    yield "| read | ms | buffers |\n|---|--:|--:|"
    for name, cost in indexed.without.items():
        yield f"| {_SAYS.get(name, 'the view that scalers read')} | {number(cost.ms)} | {cost.buffers:,} |"
    yield ""
    yield _where(indexed.where)


def _series(series: Series) -> Iterator[str]:
    yield "## Series do not follow workers\n"
    yield "The same groups, an empty queue.\n"
    yield "| workers | series | reading them, ms | buffers |\n|--:|--:|--:|--:|"
    for each in series.counted:
        yield f"| {each.workers:,} | {each.series:,} | {number(each.ms)} | {each.buffers:,} |"
    yield ""
    yield _where(series.where)


def _plans(simulated: Simulated) -> Iterator[str]:
    yield "## Plans\n"
    told: tuple[str, ...] | None = None
    for stage in simulated.stages:
        if stage.plans:
            yield f"### At the end of: {stage.name}\n"
            for name, text in stage.plans.items():
                if told is None or name in told:
                    yield f"`{name}`\n\n```text\n{trimmed(text)}\n```\n"
            told = _DEARER


def trimmed(plan: str) -> str:
    """The plan without what every line of it repeats."""
    kept = []
    for line in plan.splitlines():
        if line.strip().startswith(("Settings:", "Planning:", "Planning Time:")):
            continue
        kept.append(line if len(line) <= 150 else f"{line[:147]}…")
    return "\n".join(kept)


def stage_line(stage: Stage) -> str:
    """A stage in one line, for whoever waits."""
    return f"{_curve(stage)} ledger {'exact' if stage.ledger.balanced else stage.ledger}"


def _found(scrapes: Iterable[Scrape], names: tuple[str, ...]) -> list[Cost]:
    return [cost for scrape in scrapes if (cost := total(scrape.costs, names)) is not None]


def _spread(scrapes: Iterable[Scrape], names: tuple[str, ...]) -> str | None:
    found = _found(scrapes, names)
    if not found:
        return None
    ms, buffers = (stats.reads([of(each) for each in found]) for of in (_ms, _buffers))
    return f"{number(ms.p50)} | {number(ms.highest)} | {buffers.p50:,.0f} | {buffers.highest:,.0f}"


def _told(values: Sequence[float]) -> str:
    if not values:
        return "–"
    found = stats.reads(values)
    return f"{number(found.p50)} ({number(found.highest)})"


_ms: Final = operator.attrgetter("ms")
_buffers: Final = operator.attrgetter("buffers")


def _where(where: Where) -> str:
    return (
        f"{where.date}, {where.server}, {where.machine}, load average at the start {where.load:.1f}, "
        f"{where.seconds:.0f} s.\n"
    )
