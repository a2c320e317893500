"""B2: a span from its creation to bytes that a receiver has taken, ours beside the OpenTelemetry SDK."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from tests.bench import child
from tests.bench.child import Child
from tests.bench.results import Bench, Ledger, Options, Row, Table
from tests.bench.rounds import ratios, schedule, spread

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.bench.sink import Sink

SDK, OURS = "sdk", "ours"
NAMES = {SDK: "OpenTelemetry SDK, BatchSpanProcessor, OTLP/HTTP", OURS: "fleetglass"}
BURST = 1500  # the SDK's queue holds 2,048 and drops beyond
HOW = (
    "`with span(name, three attributes): pass`, {burst} times, then a flush to a receiver over OTLP/HTTP protobuf,"
    " uncompressed on both sides; caller and sender thread share one core. CPU time is that of the whole process,"
    " from the first span to the last byte taken."
)


def bench(options: Options, sink: Sink) -> Bench:
    variants = [SDK, OURS]
    children = {name: Child("tests.bench.b2_span", name, sink.url, core=options.server) for name in variants}
    cpu: dict[str, list[float]] = defaultdict(list)
    wall: dict[str, list[float]] = defaultdict(list)
    create: dict[str, list[float]] = defaultdict(list)
    ledgers: dict[str, dict[str, int]] = {}
    try:
        for measured in children.values():
            measured.ask("run", count=BURST)
        for _, name in schedule(variants, options.rounds(30)):
            answer = children[name].ask("run", count=BURST)
            cpu[name].append(answer["cpu"] / BURST * 1e6)
            wall[name].append(answer["wall"] / BURST * 1e6)
            create[name].append(answer["create"] / BURST * 1e6)
        ledgers = {name: measured.ask("ledger") for name, measured in children.items()}
    finally:
        for measured in children.values():
            measured.close()

    def table(title: str, values: dict[str, list[float]], *, chart: bool = False) -> Table:
        rows = tuple(Row(NAMES[n], spread(values[n]), spread(ratios(values[n], values[SDK]))) for n in variants)
        return Table(title, "µs", "less", rows, "of the SDK's", chart=chart)

    return Bench(
        key="B2",
        title="Span, create to bytes",
        how=HOW.format(burst=f"{BURST:,}"),
        tables=(
            table("CPU per span, encoded and sent", cpu, chart=True),
            table("Wall time per span, encoded and sent", wall),
            table("Wall time per span for the caller alone", create),
        ),
        ledger=tuple(_ledger(name, ledgers[name], sink) for name in variants),
        notes=("Our spans are the SDK's own for now; what differs is the way from the end of a span to its bytes.",),
    )


def _ledger(name: str, counts: dict[str, int], sink: Sink) -> Ledger:
    received = sink.count(f"spans bench-b2-{name}")
    if name == OURS:
        return Ledger(NAMES[name], "traces", received=received, kept_by="own", **counts)
    emitted = counts["emitted"]
    return Ledger(NAMES[name], "traces", emitted, received, emitted - received, 0, received, "receiver")


def sdk(url: str) -> tuple[Callable[[int], None], Callable[[], Any], Callable[[], dict[str, int]]]:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=Resource.create({"service.name": "bench-b2-sdk"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{url}/v1/traces")))
    tracer = provider.get_tracer("bench")
    emitted = 0

    def run(count: int) -> None:
        nonlocal emitted
        for _ in range(count):
            with tracer.start_as_current_span("work", attributes={"item": "A-17", "attempt": 1, "size": 2.5}):
                pass
        emitted += count

    return run, provider.force_flush, lambda: {"emitted": emitted}


def ours(url: str) -> tuple[Callable[[int], None], Callable[[], Any], Callable[[], dict[str, int]]]:
    import telemetry

    running = telemetry.setup(
        service="bench-b2-ours",
        otlp_endpoint=url,
        otlp_compression="none",
        logs_exporter="none",
        stdout="off",
        sigterm=False,
    )
    span = telemetry.span

    def run(count: int) -> None:
        for _ in range(count):
            with span("work", item="A-17", attempt=1, size=2.5):
                pass

    def ledger() -> dict[str, int]:
        row = next(row for row in running.health().rows if row.signal == "traces")
        return {
            "emitted": row.emitted,
            "delivered": row.delivered,
            "dropped": sum(row.dropped.values()),
            "pending": row.pending,
        }

    return run, lambda: running.flush(30), ledger


def main() -> None:
    variant, url = child.enter()
    run, flush, ledger = {SDK: sdk, OURS: ours}[variant](url)

    def measure(count: int) -> dict[str, float]:
        cpu, start = time.process_time(), time.perf_counter()
        run(count)
        created = time.perf_counter()
        flush()
        return {
            "create": created - start,
            "wall": time.perf_counter() - start,
            "cpu": time.process_time() - cpu,
        }

    child.serve({"run": measure, "ledger": ledger})


if __name__ == "__main__":
    main()
