"""B3: what one log call costs its caller."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from tests.bench.child import Child
from tests.bench.results import Bench, Ledger, Options, Row, Table, Target
from tests.bench.rounds import over, ratios, schedule, spread

if TYPE_CHECKING:
    from tests.bench.sink import Sink

FLOOR, OTEL, OURS = "floor", "otel", "ours"
NAMES = {
    FLOOR: "stdlib logging, NullHandler (the floor)",
    OURS: "fleetglass, Loki sink",
    OTEL: "OpenTelemetry LoggingHandler, batch processor",
    "structlog": "structlog, native, JSON to /dev/null",
    "jsonlogger": "python-json-logger, to /dev/null",
}
CALLS = 250  # below the SDK's batch of 512, so that no sender works while a caller is timed
HOW = (
    '`logger.info("order %s placed", …, extra={{three fields}})` under an active span, each logger in a process of its'
    " own on the same core. A round times {bursts} bursts of {calls} calls and takes the fastest; queues are flushed"
    " between bursts, outside the time. The floor makes the same record and gives it to nobody; the cost of the same"
    " round's floor is taken off. OpenTelemetry's exporter discards; ours delivers to the receiver."
)


def bench(options: Options, sink: Sink) -> Bench:
    bursts = 4 if options.quick else 8
    children = {name: Child("tests.bench.b3_peers", name, sink.url, core=options.server) for name in NAMES}
    wall: dict[str, list[float]] = defaultdict(list)
    cpu: dict[str, list[float]] = defaultdict(list)
    try:
        for measured in children.values():
            measured.ask("run", bursts=2, calls=CALLS)
        for _, name in schedule(list(NAMES), options.rounds(30)):
            answer = children[name].ask("run", bursts=bursts, calls=CALLS)
            wall[name].append(min(answer["wall"]) / CALLS * 1e6)
            cpu[name].append(min(answer["cpu"]) / CALLS * 1e6)
        counts = {name: measured.ask("ledger") for name, measured in children.items()}
    finally:
        for measured in children.values():
            measured.close()
    extra = {name: over(wall[name], wall[FLOOR]) for name in NAMES}
    busy = {name: over(cpu[name], cpu[FLOOR]) for name in NAMES}
    share = spread(ratios(extra[OURS], extra[OTEL]))

    def added(title: str, values: dict[str, list[float]], *, chart: bool = False) -> Table:
        rows = tuple(
            Row(NAMES[name], spread(values[name]), spread(ratios(values[name], values[OTEL])))
            for name in NAMES
            if name != FLOOR
        )
        return Table(title, "µs", "less", rows, "of OpenTelemetry's", chart=chart)

    received = sink.count("lines bench-b3-ours")
    ours = {key: value for key, value in counts[OURS].items() if key != "called"}
    called, taken = counts[OTEL]["called"], counts[OTEL]["received"]
    return Bench(
        key="B3",
        title="Log call, cost to the caller",
        how=HOW.format(bursts=bursts, calls=CALLS),
        tables=(
            added("Wall time per call over the floor", extra, chart=True),
            added("CPU of the calling thread per call over the floor", busy),
            Table(
                "Wall time per call, floor included", "µs", "less", tuple(Row(NAMES[n], spread(wall[n])) for n in NAMES)
            ),
        ),
        targets=(Target("of what OpenTelemetry's handler adds over the same floor", share.median, 0.5, "at most"),),
        ledger=(
            Ledger(NAMES[OURS], "logs", received=received, kept_by="own", **ours),
            Ledger(NAMES[OTEL], "logs", called, taken, called - taken, 0, taken, "receiver"),
        ),
        notes=("structlog doesn't go through stdlib logging, so it can lie below the floor.",),
    )
