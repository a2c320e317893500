"""B1: what a request costs with nothing, with Litestar's own plugins, and with ours."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from tests.bench import load
from tests.bench.child import Child
from tests.bench.results import Bench, Ledger, Options, Row, Table, Target
from tests.bench.rounds import ratios, schedule, spread

if TYPE_CHECKING:
    from tests.bench.sink import Sink

BARE, PLUGINS, OURS = "bare", "plugins", "ours"
NAMES = {
    BARE: "bare Litestar",
    PLUGINS: "Litestar's OpenTelemetry and Prometheus plugins",
    OURS: "fleetglass",
}
CONNECTIONS = 16
HOW = (
    "One Litestar GET with a path parameter and a small JSON answer, under uvicorn (asyncio, h11, no access log of its"
    " own) on one core; {connections} keep-alive connections and the receiver on the other. Both instrumented servers"
    " record and export every request over OTLP/HTTP protobuf, each with its own default settings; ours also pushes one"
    " access line per request in Loki's format. A round is {window} s of load on each server in turn. A server's rate"
    " is what it answered divided by the time of the load **and** of sending afterwards what it had queued, so that"
    " work put off counts."
)


def bench(options: Options, sink: Sink) -> Bench:
    window = 0.6 if options.quick else 1.5
    rounds = options.rounds(18)
    variants = [BARE, PLUGINS, OURS]
    servers = {name: Child("tests.bench.b1_server", name, sink.url, core=options.server) for name in variants}
    rates: dict[str, list[float]] = defaultdict(list)
    costs: dict[str, list[float]] = defaultdict(list)
    answered: dict[str, int] = defaultdict(int)
    busy: list[float] = []
    drains: dict[str, dict[str, Any]] = {}
    sends = load.requests([f"/users/{number}" for number in range(1, 257)])
    try:
        for name, server in servers.items():
            answered[name] += load.run(server.hello["port"], sends, window / 2, CONNECTIONS).completed
            drains[name] = server.ask("drain")
        for _, name in schedule(variants, rounds):
            server = servers[name]
            cpu = server.ask("moment")["cpu"]
            start = time.perf_counter()
            window_load = load.run(server.hello["port"], sends, window, CONNECTIONS)
            drains[name] = server.ask("drain")
            elapsed = time.perf_counter() - start
            answered[name] += window_load.completed
            rates[name].append(window_load.completed / elapsed)
            costs[name].append((drains[name]["cpu"] - cpu) / window_load.completed * 1e6)
            busy.append(window_load.busy)
        measured = {name: server.ask("measured")["requests"] for name, server in servers.items()}
        ledger = (*_peer_ledger(drains, sink), *_own_ledger(drains, sink))
    finally:
        for server in servers.values():
            server.close()
    throughput = tuple(
        Row(NAMES[name], spread(rates[name]), spread(ratios(rates[name], rates[BARE]))) for name in variants
    )
    cpu_time = tuple(
        Row(NAMES[name], spread(costs[name]), spread(ratios(costs[BARE], costs[name]))) for name in variants
    )
    kept = spread(ratios(rates[OURS], rates[BARE])).median
    against = spread(ratios(rates[OURS], rates[PLUGINS])).median
    return Bench(
        key="B1",
        title="Request overhead",
        how=HOW.format(connections=CONNECTIONS, window=window),
        tables=(
            Table("Requests per second", "requests/s", "more", throughput, "share of bare kept", chart=True),
            Table("Server CPU per request, sending included", "µs", "less", cpu_time, "share of bare kept"),
        ),
        targets=(
            Target("share of bare throughput kept", kept, 0.25, "at least"),
            Target("times the throughput of Litestar's own pair", against, 1.5, "at least"),
        ),
        ledger=ledger,
        notes=(
            f"The load generator (raw sockets and epoll, in Python) used {max(busy):.0%} of its core at most.",
            "Answered, and counted by the server's own request metric: "
            + ", ".join(f"{NAMES[name]} {answered[name]:,} ({measured[name]:,})" for name in variants if name != BARE)
            + ".",
        ),
    )


def _peer_ledger(drains: dict[str, Any], sink: Sink) -> list[Ledger]:
    emitted = drains[PLUGINS]["ledger"]["spans"]["emitted"]
    received = sink.count("spans bench-b1-plugins")
    return [Ledger(NAMES[PLUGINS], "traces", emitted, received, emitted - received, 0, received, "receiver")]


def _own_ledger(drains: dict[str, Any], sink: Sink) -> list[Ledger]:
    counted = {"traces": sink.count("spans bench-b1-ours"), "logs": sink.count("lines bench-b1-ours")}
    return [
        Ledger(NAMES[OURS], signal, received=counted[signal], kept_by="own", **row)
        for signal, row in drains[OURS]["ledger"].items()
        if signal in counted
    ]
