"""The three servers of B1: one Litestar route with a path parameter under uvicorn, bare, with Litestar's
own pair of plugins, and with ours.

``python -m tests.bench.b1_server core variant sink-url`` serves on a free port and answers ``moment``
(CPU seconds used so far) and ``drain`` (send what is queued, then tell the ledger) on its pipe.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

import uvicorn
from litestar import Litestar, get
from litestar.params import FromPath

from tests.bench import child

if TYPE_CHECKING:
    from collections.abc import Callable

# What `drain` tells besides the CPU time: the ledger's numbers, by signal.
Drain = dict[str, dict[str, int]]


@get("/users/{user_id:int}")
async def user(user_id: FromPath[int]) -> dict[str, Any]:
    return {"id": user_id, "name": "Kim Minji", "active": True}


def bare(_sink: str) -> tuple[Litestar, Callable[[], Drain]]:
    return Litestar([user], logging_config=None), dict


def plugins(sink: str) -> tuple[Litestar, Callable[[], Drain]]:
    """OpenTelemetryPlugin and PrometheusMiddleware as Litestar documents them, every span exported."""
    from litestar.plugins.opentelemetry import OpenTelemetryConfig, OpenTelemetryPlugin
    from litestar.plugins.prometheus import PrometheusConfig
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    class CountingProcessor(BatchSpanProcessor):
        """Counts what it was given: the SDK itself doesn't say (a count costs 0.1 µs of some 150)."""

        emitted = 0

        def on_end(self, span: ReadableSpan) -> None:
            self.emitted += 1
            super().on_end(span)

    # The SDK says "Queue full" through logging; nobody listens, so that printing it costs nothing.
    logging.getLogger("opentelemetry").addHandler(logging.NullHandler())
    processor = CountingProcessor(OTLPSpanExporter(f"{sink}/v1/traces"))
    provider = TracerProvider(resource=Resource.create({"service.name": "bench-b1-plugins"}))
    provider.add_span_processor(processor)
    app = Litestar(
        [user],
        logging_config=None,
        middleware=[PrometheusConfig(group_path=True).middleware],
        plugins=[OpenTelemetryPlugin(OpenTelemetryConfig(tracer_provider=provider))],
    )

    def drain() -> Drain:
        provider.force_flush()
        return {"spans": {"emitted": processor.emitted}}

    return app, drain


def ours(sink: str) -> tuple[Litestar, Callable[[], Drain]]:
    """Every request traced and exported, measured, and access-logged through Loki push."""
    import telemetry
    from telemetry.web.litestar import TelemetryPlugin

    running = telemetry.setup(
        service="bench-b1-ours", role="server", otlp_endpoint=sink, loki_url=sink, stdout="off", sigterm=False
    )
    app = Litestar([user], logging_config=None, plugins=[TelemetryPlugin()])

    def drain() -> Drain:
        running.flush(30)
        return {
            row.signal: {
                "emitted": row.emitted,
                "delivered": row.delivered,
                "dropped": sum(row.dropped.values()),
                "pending": row.pending,
            }
            for row in running.health().rows
        }

    return app, drain


def measured(variant: str) -> int:
    """Requests that the server's own metric has counted."""
    from prometheus_client import REGISTRY
    from prometheus_client.parser import text_string_to_metric_families

    import telemetry

    if variant == "plugins":
        samples = [sample for family in REGISTRY.collect() for sample in family.samples]
        return int(sum(sample.value for sample in samples if sample.name == "litestar_requests_total"))
    running = telemetry.active() if variant == "ours" else None
    if running is None:
        return 0
    time.sleep(1.1)  # the exposition is kept for a second
    text = running.metrics()[0].decode()
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return int(sum(s.value for s in samples if s.name == "http_server_request_duration_seconds_count"))


def main() -> None:
    variant, sink = child.enter()
    app, drain = {"bare": bare, "plugins": plugins, "ours": ours}[variant](sink)
    # asyncio turns Nagle off only where the protocol is named, and h11 writes head and body apart: without
    # the name each answer waits 40 ms for an acknowledgement.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    # The same server for all: asyncio and h11, no access log and no start-up lines of its own.
    config = uvicorn.Config(app, loop="asyncio", http="h11", access_log=False, log_config=None, log_level="warning")
    server = uvicorn.Server(config)

    def obey() -> None:
        while not server.started:
            time.sleep(0.01)
        child.serve(
            {
                "moment": lambda: {"cpu": time.process_time()},
                "drain": lambda: {"ledger": drain(), "cpu": time.process_time()},
                "measured": lambda: {"requests": measured(variant)},
            },
            port=listener.getsockname()[1],
        )
        server.should_exit = True

    threading.Thread(target=obey, daemon=True).start()
    server.run(sockets=[listener])


if __name__ == "__main__":
    main()
