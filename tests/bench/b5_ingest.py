"""B5: what a browser error costs to take in, beside a handler that only decodes it; and a minute of steady load."""

from __future__ import annotations

from collections import defaultdict
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from tests.bench import b5_alloy, b5_load
from tests.bench.b5_rounds import CONNECTIONS, FIRST, NAMES, PRINCIPALS, SERVER, SERVICE, STORMY, Rounds
from tests.bench.child import Child
from tests.bench.results import Bench, Ledger, Options, Table, Target

if TYPE_CHECKING:
    from tests.bench.sink import Sink

RATE = 2_000
HOT = 0.02
HOW = (
    "Browser errors of some 700 bytes of JSON, under uvicorn (asyncio, httptools) on one core; the load generator and"
    " the receiver of the lines on the other. {connections} keep-alive connections; every report has another principal"
    " of {principals:,} and is the first of its window, the dearest kind: each makes a line, pushed in Loki's format."
    " The principals meet the same errors one after the other, as after a release; in the row of new words none was"
    " met before. In the storm, {storm} principals repeat themselves, as when a release has broken a page. Our route"
    " is answered before the router, as our service does it; a row has it where `IngestPlugin` puts it, and a row the"
    " whole service. A round is {window} s of load on each server in turn; a rate is what was answered divided by the"
    " time of the load and of sending afterwards what was queued (without the latter for Alloy, which can't be asked"
    " to send). Then a load of {rate:,} reports a second, due at equal distances for {seconds:g} s, by"
    " {principals:,} principals at default limits: half of them repeats, and one page in a loop that sends {hot:.0%}"
    " of all. An answer's time counts from when its report was due."
)


def bench(options: Options, sink: Sink) -> Bench:
    window = 0.6 if options.quick else 1.5
    seconds = 5.0 if options.quick else 60.0
    with ExitStack() as end:
        rounds = Rounds(options, sink, end)
        ledger = rounds.run(window)
    steady = _steady(options, sink, seconds)
    throughput, cpu = rounds.rows(rounds.rates), rounds.rows(rounds.costs)
    ours = next(row for row in throughput if row.variant == NAMES[FIRST])
    return Bench(
        key="B5",
        title="Taking browser errors in",
        how=HOW.format(
            connections=CONNECTIONS,
            principals=PRINCIPALS,
            window=window,
            rate=RATE,
            seconds=seconds,
            hot=HOT,
            storm=STORMY,
        ),
        tables=(
            Table("Reports per second", "reports/s", "more", throughput, "times the bare handler", chart=True),
            Table("Server CPU per report, sending included", "µs", "less", cpu, "times the bare handler"),
        ),
        targets=(
            Target("times the throughput of the bare handler", ours.ratio.median, 1.0, "at least"),  # type: ignore[union-attr]
            Target(f"99 % of answers at {RATE:,}/s within", steady["p99"] * 1000, 50.0, "at most", "ms"),
            Target("share accepted at the default limits", steady["accepted"], 0.95, "at least"),
            Target("memory grown over the second half of the load", steady["grown"], 0.05, "at most"),
            Target("reports unaccounted for", steady["unaccounted"], 0.0, "at most"),
        ),
        ledger=(*ledger, steady["ledger"]),
        notes=(
            f"The load generator used {rounds.busy:.0%} of its core at most.",
            *([] if b5_alloy.is_there() else [b5_alloy.MISSING]),
            *steady["notes"],
        ),
    )


def _steady(options: Options, sink: Sink, seconds: float) -> dict[str, Any]:
    """The load at a fixed rate; its sums are read from the receiver's lines and the service's own metrics."""
    before = sink.frontend("bench-b5-service"), sink.count("lines bench-b5-service")
    server = Child(SERVER, SERVICE, sink.url, str(PRINCIPALS), core=options.server)
    memory = []
    try:
        port = server.hello["port"]
        reports = b5_load.daily(PRINCIPALS, HOT)
        b5_load.at_rate(port, reports, RATE / 4, 1.0)  # first use of everything
        cpu = server.ask("moment")["cpu"]
        parts = []
        for _ in range(4):
            parts.append(b5_load.at_rate(port, reports, RATE, seconds / 4))
            memory.append(server.ask("moment")["resident"])
        cpu = server.ask("moment")["cpu"] - cpu
        told = server.ask("end")
    finally:
        server.close()
    warm = int(RATE / 4)
    sent = warm + sum(sum(part.statuses.values()) for part in parts)
    latencies = sorted(latency for part in parts for latency in part.latencies)
    results = {name: int(value) for name, value in told["frontend_reports_total"].items() if value}
    lines, repeats = (
        after - earlier for after, earlier in zip(sink.frontend("bench-b5-service"), before[0], strict=True)
    )
    occurrences = int(sum(told["frontend_errors_total"].values()))
    taken = results.get("accepted", 0) + results.get("duplicate", 0)
    refused = sum(results.values()) - taken
    statuses: dict[int, int] = defaultdict(int)
    for part in parts:
        for status, count in part.statuses.items():
            statuses[status] += count
    row = told["ledger"]["logs"]
    received = sink.count("lines bench-b5-service") - before[1]
    return {
        "p99": latencies[int(0.99 * len(latencies))],
        "accepted": taken / sum(results.values()),
        "grown": memory[3] / memory[1] - 1,
        # Every page here sends repeat=1: what the lines stand for, plus what was refused, is what was sent.
        "unaccounted": abs(sent - refused - repeats) + abs(occurrences - repeats),
        "ledger": Ledger("our service under steady load", "logs", received=received, kept_by="own", **row),
        "notes": (
            _sums(sent, results, refused, lines, repeats),
            _answers(statuses, latencies),
            _costs(memory, cpu, seconds),
        ),
    }


def _listed(results: dict[str, int]) -> str:
    refused = {name: count for name, count in results.items() if name not in {"accepted", "duplicate"}}
    return ", ".join(f"{name} {count:,}" for name, count in refused.items()) or "none"


def _sums(sent: int, results: dict[str, int], refused: int, lines: int, repeats: int) -> str:
    logged, counted = results.get("accepted", 0), results.get("duplicate", 0)
    return (
        f"Steady load: {sent:,} sent = {logged:,} logged + {counted:,} counted as repeats + {refused:,} refused"
        f" ({_listed(results)}). The receiver read {lines:,} frontend lines whose repeat sums to {repeats:,}."
    )


def _answers(statuses: dict[int, int], latencies: list[float]) -> str:
    half, most, slowest = (latencies[int(share * (len(latencies) - 1))] * 1000 for share in (0.5, 0.99, 1.0))
    by_status = ", ".join(f"{count:,} with {status}" for status, count in sorted(statuses.items()))
    return f"Answers: {by_status}; half within {half:.1f} ms, 99 % within {most:.1f} ms, the slowest {slowest:.0f} ms."


def _costs(sizes: list[int], cpu: float, seconds: float) -> str:
    memory = ", ".join(f"{size / 1e6:.0f} MB" for size in sizes)
    return f"The service used {cpu / seconds:.0%} of a core. Resident memory after each quarter: {memory}."
