"""Real servers for the tests of this folder: each started once a session, on free ports of the loopback.

A server that is not installed skips its tests and says how to get it. Where ``FLEETGLASS_REQUIRE_BACKENDS=1``
(CI), a server that ``make backends`` provides must be there: its absence fails the tests that want it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from tests.backends import build, programs, servers, stack

B = TypeVar("B", bound=servers.Stoppable)


@contextmanager
def _running(name: str, start: Callable[[Path], B], folders: pytest.TempPathFactory) -> Iterator[B]:
    if programs.find(name) is None:
        if name in build.BACKENDS and os.environ.get("FLEETGLASS_REQUIRE_BACKENDS") == "1":
            pytest.fail(programs.missing(name), pytrace=False)
        pytest.skip(programs.missing(name))
    server = start(folders.mktemp(name))
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def victoria_metrics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.VictoriaMetrics]:
    """VictoriaMetrics: ``push_url``, ``query(promql)``, ``series(match)``."""
    with _running("victoria-metrics", servers.VictoriaMetrics.start, tmp_path_factory) as server:
        yield server


@pytest.fixture(scope="session")
def victoria_logs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.VictoriaLogs]:
    """VictoriaLogs: ``push_url`` takes what Loki takes, ``query(logsql)``."""
    with _running("victoria-logs", servers.VictoriaLogs.start, tmp_path_factory) as server:
        yield server


@pytest.fixture(scope="session")
def otelcol(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Collector]:
    """The Collector: ``http_endpoint``, ``grpc_endpoint``, ``spans()``, ``logs()``, ``metrics()``."""
    with _running("otelcol", servers.Collector.start, tmp_path_factory) as server:
        yield server


@pytest.fixture(scope="session")
def node_exporter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.NodeExporter]:
    """node_exporter: ``address``, for VictoriaMetrics to scrape."""
    with _running("node-exporter", servers.NodeExporter.start, tmp_path_factory) as server:
        yield server


@pytest.fixture(scope="session")
def loki(tmp_path_factory: pytest.TempPathFactory) -> Iterator[stack.Loki]:
    """Loki: ``push_url``, ``otlp_endpoint``, ``query(logql)``. Mark its tests ``stack``."""
    with _running("loki", stack.Loki.start, tmp_path_factory) as server:
        yield server


@pytest.fixture(scope="session")
def tempo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[stack.Tempo]:
    """Tempo: ``http_endpoint``, ``grpc_endpoint`` (OTLP), ``trace(id)``. Mark its tests ``stack``."""
    with _running("tempo", stack.Tempo.start, tmp_path_factory) as server:
        yield server


@pytest.fixture
def start_alloy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., stack.Alloy]]:
    """Start an Alloy with the modules of this repository as ``fleetglass``. Mark its tests ``stack``.

    ``start_alloy(config, ports=N, folder=…)``: ``config`` is a text, or makes one from N free ports. The same
    ``folder`` again is a restart with what the last one kept there.
    """
    if programs.find("alloy") is None:
        pytest.skip(programs.missing("alloy"))
    running: list[stack.Alloy] = []
    modules = Path(__file__).parents[2] / "alloy" / "modules"

    def start(config: str | Callable[[Sequence[int]], str], ports: int = 0, folder: Path | None = None) -> stack.Alloy:
        def text(chosen: Sequence[int]) -> str:
            body = config if isinstance(config, str) else config(chosen)
            return f'import.file "fleetglass" {{\n\tfilename = "{modules}"\n}}\n\n{body}'

        server = stack.Alloy.start(folder or tmp_path_factory.mktemp("alloy"), text, ports)
        running.append(server)
        return server

    yield start
    for server in running:
        server.stop()
