"""B7: a host whose backend takes the request and never answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from telemetry.testing import Hang, Receiver
from tests.bench.child import Child
from tests.bench.results import Bench, Ledger, Options, Row, Table, Target
from tests.bench.rounds import spread

if TYPE_CHECKING:
    from tests.bench.sink import Sink

QUEUE = 16 * 1024 * 1024
RATE = 100_000
HOW = (
    "Loki takes each request and never answers, for {seconds:g} s a case. One thread, then four, call `logger.info`"
    " with three extra fields flat out, stdout off, every call timed; then a Shipper alone is fed {rate:,} records a"
    " second. The queue is limited to {queue} MiB; growth is the highest resident size less that at the start. The host"
    " may use both cores."
)


def bench(options: Options, sink: Sink) -> Bench:
    del sink  # the receiver that hangs is one of its own
    seconds = 3.0 if options.quick else 30.0
    cases: dict[str, dict[str, Any]] = {}
    with Receiver(keep="counts") as receiver:
        receiver.behave(Hang())
        for name, command, values in (
            ("one thread logs flat out", "log", {"threads": 1}),
            ("four threads log flat out", "log", {"threads": 4}),
            (f"a Shipper alone at {RATE:,}/s", "ship", {"rate": RATE}),
        ):
            with Child("tests.bench.b7_host", receiver.url, str(QUEUE), core=None) as host:
                cases[name] = host.ask(command, seconds=seconds, **values)

    def table(title: str, unit: str, key: str, scale: float = 1.0, *, more: bool = False) -> Table:
        rows = tuple(Row(name, spread([case[key] / scale])) for name, case in cases.items())
        return Table(title, unit, "more" if more else "less", rows)

    def ledger(name: str, case: dict[str, Any]) -> Ledger:
        figures = {key: case[key] for key in ("emitted", "delivered", "dropped", "pending")}
        return Ledger(name, "logs", received=0, kept_by="own", **figures)

    worst = max(case["p99"] for case in cases.values())
    growth = max(case["grown"] for case in cases.values()) / QUEUE
    return Bench(
        key="B7",
        title="A backend that hangs",
        how=HOW.format(seconds=seconds, rate=RATE, queue=QUEUE >> 20),
        tables=(
            table("Call, 99th percentile", "µs", "p99"),
            table("Call, median", "µs", "p50"),
            table("Calls", "calls/s", "calls", more=True),
            table("Growth of the resident size", "MiB", "grown", 1 << 20),
        ),
        targets=(
            Target("99th percentile of a call, worst case", worst, 1000.0, "at most", "µs"),
            Target("growth of the resident size, in queue limits", growth, 1.0, "at most"),
        ),
        ledger=tuple(ledger(name, case) for name, case in cases.items()),
        notes=("Growth is all that the process took on: queued entries, the batch in flight, and its body.",),
    )
