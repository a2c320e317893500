"""The loggers of B3, each in a process of its own: the same record, three extra fields, a span active.

``python -m tests.bench.b3_peers core variant sink-url`` answers ``run`` (time bursts of calls) and
``ledger``.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opentelemetry import trace

from tests.bench import child

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping, Sequence

MESSAGE, ORDER = "order %s placed", "A-17"
FIELDS: dict[str, Any] = {"tenant": "acme", "attempt": 1, "amount": 12.5}


class Peer:
    """A logger under test: ``call`` logs one record; ``flush`` runs outside the time taken."""

    def __init__(self, call: Callable[[], object], flush: Callable[[], object] = lambda: None) -> None:
        self.call = call
        self.flush = flush
        self.ledger: Callable[[], dict[str, int]] = dict


def _stdlib(handler: logging.Handler) -> logging.Logger:
    logger = logging.getLogger("shop.orders")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(handler)
    return logger


def _sdk_spans() -> None:
    from opentelemetry.sdk.trace import TracerProvider

    trace.set_tracer_provider(TracerProvider())


def _ids() -> tuple[str, str]:
    context = trace.get_current_span().get_span_context()
    return trace.format_trace_id(context.trace_id), trace.format_span_id(context.span_id)


def floor(_sink: str) -> Peer:
    """What logging itself takes: the record is made, and nobody wants it."""
    _sdk_spans()
    logger = _stdlib(logging.NullHandler())
    return Peer(lambda: logger.info(MESSAGE, ORDER, extra=FIELDS))


def otel(_sink: str) -> Peer:
    """OpenTelemetry's handler and batch processor; the exporter takes the batch and lets it go."""
    from opentelemetry.instrumentation.logging.handler import LoggingHandler
    from opentelemetry.sdk._logs import LoggerProvider, ReadableLogRecord
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor, LogRecordExporter, LogRecordExportResult

    _sdk_spans()

    class Exporter(LogRecordExporter):
        taken = 0

        def export(self, batch: Sequence[ReadableLogRecord]) -> LogRecordExportResult:
            self.taken += len(batch)
            return LogRecordExportResult.SUCCESS

        def shutdown(self) -> None:
            pass

        def force_flush(self, timeout_millis: int = 10_000) -> bool:
            return True

    exporter = Exporter()
    provider = LoggerProvider()
    provider.add_log_record_processor(BatchLogRecordProcessor(exporter))
    logger = _stdlib(LoggingHandler(logger_provider=provider))
    peer = Peer(lambda: logger.info(MESSAGE, ORDER, extra=FIELDS), provider.force_flush)
    peer.ledger = lambda: {"received": exporter.taken}
    return peer


def ours(sink: str) -> Peer:
    """Our handler into a Loki sink; the sender delivers to the receiver between the bursts."""
    import telemetry

    running = telemetry.setup(service="bench-b3-ours", loki_url=sink, stdout="off", sigterm=False)
    logger = logging.getLogger("shop.orders")
    peer = Peer(lambda: logger.info(MESSAGE, ORDER, extra=FIELDS), lambda: running.flush(30))

    def ledger() -> dict[str, int]:
        row = next(row for row in running.health().rows if row.signal == "logs")
        return {
            "emitted": row.emitted,
            "delivered": row.delivered,
            "dropped": sum(row.dropped.values()),
            "pending": row.pending,
        }

    peer.ledger = ledger
    return peer


def structlog(_sink: str) -> Peer:
    """structlog without stdlib, set up for speed as its documentation advises, JSON to /dev/null."""
    import msgspec
    import structlog as structlog_

    _sdk_spans()

    def add_ids(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        event["trace_id"], event["span_id"] = _ids()
        return event

    structlog_.configure(
        processors=[
            structlog_.contextvars.merge_contextvars,
            structlog_.processors.add_log_level,
            add_ids,
            structlog_.processors.TimeStamper(fmt="iso", utc=True),
            structlog_.processors.JSONRenderer(serializer=lambda event, **_: msgspec.json.encode(event)),
        ],
        wrapper_class=structlog_.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog_.BytesLoggerFactory(file=Path("/dev/null").open("wb")),  # noqa: SIM115
        cache_logger_on_first_use=True,
    )
    logger = structlog_.get_logger("shop.orders")
    return Peer(lambda: logger.info(MESSAGE, ORDER, **FIELDS))


def jsonlogger(_sink: str) -> Peer:
    """python-json-logger's formatter in a StreamHandler to /dev/null, ids added by a filter."""
    from pythonjsonlogger.json import JsonFormatter

    _sdk_spans()

    def add_ids(record: logging.LogRecord) -> bool:
        record.trace_id, record.span_id = _ids()
        return True

    handler = logging.StreamHandler(Path("/dev/null").open("w", encoding="utf-8"))  # noqa: SIM115
    handler.setFormatter(JsonFormatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    handler.addFilter(add_ids)
    logger = _stdlib(handler)
    return Peer(lambda: logger.info(MESSAGE, ORDER, extra=FIELDS))


def main() -> None:
    variant, sink = child.enter()
    peers = {"floor": floor, "otel": otel, "ours": ours, "structlog": structlog, "jsonlogger": jsonlogger}
    peer = peers[variant](sink)
    emitted = 0

    def run(bursts: int, calls: int) -> dict[str, Any]:
        """Seconds per burst, by the wall and by the calling thread's CPU clock."""
        nonlocal emitted
        call = peer.call
        wall, cpu = [], []
        for _ in range(bursts):
            with trace.get_tracer("bench").start_as_current_span("request"):
                begun, start = time.thread_time(), time.perf_counter()
                for _ in range(calls):
                    call()
                wall.append(time.perf_counter() - start)
                cpu.append(time.thread_time() - begun)
            peer.flush()
            emitted += calls
        return {"wall": wall, "cpu": cpu}

    child.serve({"run": run, "ledger": lambda: {"called": emitted, **peer.ledger()}})


if __name__ == "__main__":
    main()
