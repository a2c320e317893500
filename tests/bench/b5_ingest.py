"""B5: what a browser error costs to take in, beside a handler that only decodes it; and a minute of steady load."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from msgspec import structs

from tests.bench import b5_load
from tests.bench.child import Child
from tests.bench.results import Bench, Ledger, Options, Row, Table, Target
from tests.bench.rounds import ratios, schedule, spread

if TYPE_CHECKING:
    from tests.bench.sink import Sink

BARE, ROUTE, STORM, SERVICE = "bare", "route", "storm", "service"
VARIANTS = (BARE, ROUTE, STORM, SERVICE)
NAMES = {
    BARE: "bare Litestar handler that decodes the report",
    ROUTE: "our route: principal, limits, dedupe, scrub, fingerprint, line",
    STORM: "our route in a storm of repeats",
    SERVICE: "our service: the route with request metrics and access line",
}
CONNECTIONS = 16
PRINCIPALS = 10_000
RATE = 2_000
HOT = 0.02
STORMY = 500
SERVER = "tests.bench.b5_server"
HOW = (
    "Browser errors of some 700 bytes of JSON, under uvicorn (asyncio, httptools) on one core; the load generator and"
    " the receiver of the lines on the other. {connections} keep-alive connections; every report has another principal"
    " of {principals:,} and is the first of its window, the dearest kind: each makes a line, pushed in Loki's format."
    " In the storm, {storm} principals repeat themselves, as when a release has broken a page. A round is {window} s"
    " of load on each server in turn; a rate is what was answered divided by the time of the load and of sending"
    " afterwards what was queued. Then a load of {rate:,} reports a second, due at equal distances for {seconds:g} s,"
    " by {principals:,} principals at default limits: half of them repeats, and one page in a loop that sends"
    " {hot:.0%} of all. An answer's time counts from when its report was due."
)


def bench(options: Options, sink: Sink) -> Bench:
    window = 0.6 if options.quick else 1.5
    seconds = 5.0 if options.quick else 60.0
    rates, costs, ledger, busy = _rounds(options, sink, window)
    steady = _steady(options, sink, seconds)
    throughput = tuple(
        Row(NAMES[name], spread(rates[name]), spread(ratios(rates[name], rates[BARE]))) for name in VARIANTS
    )
    cpu = tuple(Row(NAMES[name], spread(costs[name]), spread(ratios(costs[name], costs[BARE]))) for name in VARIANTS)
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
            Target("times the throughput of the bare handler", throughput[1].ratio.median, 1.0, "at least"),  # type: ignore[union-attr]
            Target(f"99 % of answers at {RATE:,}/s within", steady["p99"] * 1000, 50.0, "at most", "ms"),
            Target("share accepted at the default limits", steady["accepted"], 0.95, "at least"),
            Target("memory grown over the second half of the load", steady["grown"], 0.05, "at most"),
            Target("reports unaccounted for", steady["unaccounted"], 0.0, "at most"),
        ),
        ledger=(*ledger, steady["ledger"]),
        notes=(f"The load generator used {busy:.0%} of its core at most.", *steady["notes"]),
    )


def _rounds(
    options: Options, sink: Sink, window: float
) -> tuple[dict[str, list[float]], dict[str, list[float]], list[Ledger], float]:
    rates: dict[str, list[float]] = defaultdict(list)
    costs: dict[str, list[float]] = defaultdict(list)
    busy = 0.0
    servers = {
        name: Child(SERVER, name, sink.url, str(PRINCIPALS), core=options.server) for name in (BARE, ROUTE, SERVICE)
    }
    servers |= {STORM: servers[ROUTE]}
    reports = {name: b5_load.fresh(PRINCIPALS) for name in servers}
    reports[STORM] = b5_load.storm(STORMY)
    drains: dict[str, Any] = {}
    try:
        for name, server in servers.items():
            b5_load.flat_out(server.hello["port"], reports[name], window / 2, CONNECTIONS)
            server.ask("drain")
        for _, name in schedule(VARIANTS, options.rounds(18)):
            server = servers[name]
            cpu = server.ask("moment")["cpu"]
            start = time.perf_counter()
            load = b5_load.flat_out(server.hello["port"], reports[name], window, CONNECTIONS)
            drains[name] = server.ask("drain")
            elapsed = time.perf_counter() - start
            answered = sum(load.statuses.values())
            if load.statuses.keys() - {204}:
                raise RuntimeError(f"{name} answered {load.statuses}")
            rates[name].append(answered / elapsed)
            costs[name].append((drains[name]["cpu"] - cpu) / answered * 1e6)
            busy = max(busy, load.busy)
        rows = [
            # At the end only: windows go on closing behind the last round.
            Ledger(NAMES[name], "logs", kept_by="own", **servers[name].ask("end")["ledger"]["logs"], received=0)
            for name in (ROUTE, SERVICE)
        ]
        rows = [
            structs.replace(row, received=sink.count(f"lines bench-b5-{name}"))
            for name, row in zip((ROUTE, SERVICE), rows, strict=True)
        ]
    finally:
        for server in servers.values():
            server.close()
    return rates, costs, rows, busy


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
