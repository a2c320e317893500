"""B4: Loki delivery end to end through ``logger.info``: ours, python-logging-loki, loki-logger-handler."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from tests.bench import child
from tests.bench.child import Child
from tests.bench.results import Bench, Ledger, Options, Row, Table, Target
from tests.bench.rounds import ratios, schedule, spread

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.bench.sink import Sink

LOGGING_LOKI, HANDLER, OURS = "logging-loki", "loki-logger-handler", "ours"
NAMES = {
    LOGGING_LOKI: 'python-logging-loki, version="1"',
    HANDLER: "loki-logger-handler",
    OURS: "fleetglass",
}
LINES = {LOGGING_LOKI: 400, HANDLER: 20_000, OURS: 20_000}
HOW = (
    "`logger.info` with three extra fields, {own:,} lines a round from one thread ({slow} for python-logging-loki,"
    " which posts each line by itself), on one core; the receiver on the other. Counted from the first call until the"
    " receiver has the last line, each line once. loki-logger-handler sends only every ten seconds: it is woken right"
    " after the last call."
)


def bench(options: Options, sink: Sink) -> Bench:
    lines = {name: count // 4 for name, count in LINES.items()} if options.quick else LINES
    children = {name: Child("tests.bench.b4_loki", name, sink.url, core=options.server) for name in NAMES}
    rates: dict[str, list[float]] = defaultdict(list)
    sent: dict[str, int] = defaultdict(int)

    def run(name: str, count: int) -> float:
        start: float = children[name].ask("run", count=count)["start"]
        sent[name] += count
        return count / (sink.wait(f"lines bench-b4-{name}", sent[name]) - start)

    try:
        for name in NAMES:
            run(name, lines[name] // 10)
        for _, name in schedule(list(NAMES), options.rounds(18)):
            rates[name].append(run(name, lines[name]))
        counts = {name: measured.ask("ledger") for name, measured in children.items()}
    finally:
        for measured in children.values():
            measured.close()
    rows = tuple(
        Row(NAMES[name], spread(rates[name]), spread(ratios(rates[name], rates[LOGGING_LOKI]))) for name in NAMES
    )
    return Bench(
        key="B4",
        title="Loki delivery",
        how=HOW.format(own=lines[OURS], slow=lines[LOGGING_LOKI]),
        tables=(Table("Lines delivered per second", "lines/s", "more", rows, "times python-logging-loki", chart=True),),
        targets=(
            Target(
                "times python-logging-loki", spread(ratios(rates[OURS], rates[LOGGING_LOKI])).median, 40, "at least"
            ),
        ),
        ledger=tuple(_ledger(name, sent[name], counts[name], sink) for name in NAMES),
    )


def _ledger(name: str, sent: int, counts: dict[str, int], sink: Sink) -> Ledger:
    received = sink.count(f"lines bench-b4-{name}")
    if counts:
        return Ledger(NAMES[name], "logs", received=received, kept_by="own", **counts)
    return Ledger(NAMES[name], "logs", sent, received, sent - received, 0, received, "receiver")


def logging_loki(url: str) -> tuple[Callable[[], Any], Callable[[], dict[str, int]]]:
    import logging_loki as package

    handler = package.LokiHandler(
        f"{url}/loki/api/v1/push", tags={"service_name": f"bench-b4-{LOGGING_LOKI}"}, version="1"
    )
    handler.setFormatter(logging.Formatter("%(message)s tenant=%(tenant)s attempt=%(attempt)d amount=%(amount)s"))
    _attach(handler)
    return lambda: None, dict


def loki_logger_handler(url: str) -> tuple[Callable[[], Any], Callable[[], dict[str, int]]]:
    from loki_logger_handler.loki_logger_handler import LokiLoggerHandler

    handler = LokiLoggerHandler(f"{url}/loki/api/v1/push", labels={"service_name": f"bench-b4-{HANDLER}"})
    _attach(handler)
    return handler.flush_event.set, dict


def ours(url: str) -> tuple[Callable[[], Any], Callable[[], dict[str, int]]]:
    import telemetry

    running = telemetry.setup(service=f"bench-b4-{OURS}", loki_url=url, stdout="off", sigterm=False)

    def ledger() -> dict[str, int]:
        row = next(row for row in running.health().rows if row.signal == "logs")
        return {
            "emitted": row.emitted,
            "delivered": row.delivered,
            "dropped": sum(row.dropped.values()),
            "pending": row.pending,
        }

    return lambda: running.flush(30), ledger


def _attach(handler: logging.Handler) -> None:
    logging.getLogger().addHandler(handler)
    logging.getLogger().setLevel(logging.INFO)


def main() -> None:
    variant, url = child.enter()
    finish, ledger = {LOGGING_LOKI: logging_loki, HANDLER: loki_logger_handler, OURS: ours}[variant](url)
    logger = logging.getLogger("shop.orders")
    numbered = 0

    def run(count: int) -> dict[str, float]:
        nonlocal numbered
        start = time.monotonic()
        for number in range(numbered, numbered + count):
            logger.info("order %d placed", number, extra={"tenant": "acme", "attempt": 1, "amount": 12.5})
        finish()
        numbered += count
        return {"start": start}

    child.serve({"run": run, "ledger": ledger})


if __name__ == "__main__":
    main()
