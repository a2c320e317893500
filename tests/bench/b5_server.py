"""The servers of B5: a bare Litestar handler that only decodes a report, our route, and our whole service.

``python -m tests.bench.b5_server core variant sink-url principals`` serves on a free port and answers ``moment`` (CPU
seconds and resident bytes), ``drain`` (send what is queued, then tell the ledger and what was counted) and ``end``
(the lifespan's end: open windows are told, what is queued is sent) on its pipe.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import uvicorn
from litestar import Litestar, post

from tests.bench import child

if TYPE_CHECKING:
    from collections.abc import Callable

PATH = "/api/telemetry/errors"
# Reports a second: looked at, and never reached. Any other limit is the default.
UNREACHED = {"limit_ceiling": 1_000_000.0, "limit_rate": 100_000.0, "limit_burst": 1_000_000}


class Told(msgspec.Struct):
    """The body as a handler would declare it."""

    kind: str
    message: str
    stack: str
    url: str
    build: str


@post(PATH, status_code=204)
async def take(data: Told) -> None:
    """Decode and answer; nothing is checked, counted or kept."""


def token(number: int) -> str:
    """The token of a principal."""
    return f"token-of-principal-{number:08}"


def bare(_sink: str, _principals: int) -> tuple[Litestar, Callable[[], dict[str, Any]]]:
    return Litestar([take], logging_config=None), dict


def route(sink: str, principals: int, name: str = "route") -> tuple[Litestar, Callable[[], dict[str, Any]]]:
    """The route alone, in an application without our middleware; lines go to Loki."""
    from ingest.app import IngestPlugin

    drain = _telemetry(name, sink)
    app = Litestar(plugins=[IngestPlugin(_settings(principals, **UNREACHED))], logging_config=None)
    return app, drain


def first(sink: str, principals: int) -> tuple[Litestar, Callable[[], dict[str, Any]]]:
    """The same, answered before the application's router, as our own service does it."""
    from ingest.first import answer_first

    app, drain = route(sink, principals, "first")
    answer_first(app, PATH)
    return app, drain


def service(sink: str, principals: int) -> tuple[Litestar, Callable[[], dict[str, Any]]]:
    """What ``fleetglass serve`` runs, at its default limits: request metrics and access lines as well."""
    from ingest.app import create_app

    drain = _telemetry("service", sink)
    return create_app(_settings(principals)), drain


def _settings(principals: int, **limits: Any) -> Any:
    from ingest.principal import Principal
    from ingest.settings import Settings

    people = range(principals)
    tokens = {token(each): Principal(f"person.{each}@acme.example", f"workspace-{each % 100}") for each in people}
    return Settings(tokens=tokens, **limits)


def _telemetry(variant: str, sink: str) -> Callable[[], dict[str, Any]]:
    import telemetry
    from telemetry.metrics.registry import counter

    running = telemetry.setup(
        service=f"bench-b5-{variant}", role="server", loki_url=sink, stdout="off", sigterm=False, queue_records=500_000
    )

    def drain() -> dict[str, Any]:
        running.flush(30)
        rows = {
            row.signal: {
                "emitted": row.emitted,
                "delivered": row.delivered,
                "dropped": sum(row.dropped.values()),
                "pending": row.pending,
            }
            for row in running.health().rows
        }
        counts = {name: _samples(counter(name).metric) for name in ("frontend_reports_total", "frontend_errors_total")}
        return {"ledger": rows, **counts}

    return drain


def _samples(metric: Any) -> dict[str, float]:
    found = [sample for family in metric.collect() for sample in family.samples]
    return {"".join(each.labels.values()): each.value for each in found if each.name.endswith("_total")}


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    variant, sink, principals = child.enter()
    app, drain = {"bare": bare, "route": route, "first": first, "service": service}[variant](sink, int(principals))
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(
        app,
        loop="asyncio",
        http="httptools",
        access_log=False,
        log_config=None,
        log_level="warning",
        timeout_keep_alive=300,  # rounds of the others lie between two of one, longer than the usual 5 s
    )
    server = uvicorn.Server(config)
    over = threading.Event()

    def end() -> dict[str, Any]:
        server.should_exit = True
        over.wait(30)
        return drain()

    def obey() -> None:
        while not server.started:
            time.sleep(0.01)
        child.serve(
            {
                "moment": lambda: {"cpu": time.process_time(), "resident": _resident()},
                "drain": lambda: {"cpu": time.process_time(), **drain()},
                "end": end,
            },
            port=listener.getsockname()[1],
        )
        server.should_exit = True

    commands = threading.Thread(target=obey, daemon=True)
    commands.start()
    server.run(sockets=[listener])
    over.set()
    commands.join(60)


if __name__ == "__main__":
    main()
