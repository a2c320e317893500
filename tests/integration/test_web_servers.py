"""The middleware under real servers: one access line a request however they log, and everything sent at SIGTERM."""

from __future__ import annotations

import http.client
import json
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from telemetry.testing import Blackhole, Receiver, Refuse, Status
from tests.backends.process import Server, eventually, request
from tests.pace import fastest

ROOT = Path(__file__).parents[2]
APPS = Path(__file__).with_name("apps")

LIMIT = 3.3
"""Seconds from SIGTERM to the end of the process, where the shutdown deadline is the default of 3."""

# Access lines as uvicorn, granian and gunicorn print them by themselves.
THEIRS = re.compile(r'"(GET|POST) /\S* HTTP/1\.1"')


def uvicorn(*options: str) -> Callable[[str, int], list[str]]:
    return lambda app, port: [
        sys.executable, "-m", "uvicorn", "--app-dir", str(APPS), "--port", str(port), *options, f"shop:{app}"
    ]  # fmt: skip


def uvicorn_without_log_config(app: str, port: int) -> list[str]:
    code = f"import uvicorn; uvicorn.run('shop:{app}', app_dir={str(APPS)!r}, port={port}, log_config=None)"
    return [sys.executable, "-c", code]


def granian(*options: str) -> Callable[[str, int], list[str]]:
    return lambda app, port: [
        sys.executable, "-m", "granian", "--interface", "asgi", "--working-dir", str(APPS), "--port", str(port),
        "--access-log", *options, f"shop:{app}",
    ]  # fmt: skip


def gunicorn(app: str, port: int) -> list[str]:
    return [
        sys.executable, "-m", "gunicorn", "--worker-class", "asgi", "--chdir", str(APPS), "--access-logfile", "-",
        "--bind", f"127.0.0.1:{port}", f"shop:{app}",
    ]  # fmt: skip


SERVERS: dict[str, Callable[[str, int], list[str]]] = {
    "uvicorn": uvicorn(),
    "uvicorn-2-workers": uvicorn("--workers", "2"),
    "granian": granian(),
    "granian-2-workers": granian("--workers", "2"),
    "gunicorn-asgi": gunicorn,
}
LOGGING_VARIANTS = {
    **SERVERS,
    "uvicorn-log_config-None": uvicorn_without_log_config,
    "uvicorn-reload": uvicorn("--reload", "--reload-dir", str(APPS)),
    "uvicorn-no-access-log": uvicorn("--no-access-log"),
}


class Shop:
    """The running service."""

    def __init__(self, server: Server, port: int) -> None:
        self.server = server
        self.address = f"http://127.0.0.1:{port}"
        self.port = port

    def get(self, path: str) -> str:
        return request("GET", self.address + path).text

    def log(self) -> list[str]:
        return self.server.log.read_text("utf-8").splitlines()

    def access_lines(self) -> list[str]:
        return [line for line in self.log() if "logger=access" in line]

    def end(self) -> float:
        """SIGTERM; the seconds until the process was gone."""
        started = time.monotonic()
        self.server.finish(20)
        return time.monotonic() - started


Start = Callable[..., Shop]


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Start]:
    """Start the service under a server: ``shop(command, app, **environ)``; it is stopped after the test."""
    running: list[Server] = []

    def start(command: Callable[[str, int], list[str]], app: str, *, lifespan: bool = True, **environ: str) -> Shop:
        def run(ports: Sequence[int]) -> list[str]:
            return command(app, ports[0])

        server, ports = Server.start(
            "shop", tmp_path, 1, run, lambda ports: f"http://127.0.0.1:{ports[0]}/healthz", 60,
            environ={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", **environ},
        )  # fmt: skip
        running.append(server)
        serving = Shop(server, ports[0])
        if lifespan:
            workers = 2 if "2" in command("", 0) else 1
            assert eventually(lambda: serving.log().count("the shop is open") == workers), server.log_tail()
        return serving

    yield start
    for server in running:
        server.stop()


@pytest.mark.parametrize("app", ["litestar", "starlette"])
@pytest.mark.parametrize("server", LOGGING_VARIANTS)
def test_a_request_is_logged_once_however_the_server_configures_logging(shop: Start, server: str, app: str) -> None:
    """litestar-pg-redis-docker 79, GitGuardian/ggmcp 189: double access lines, plain text beside structured."""
    running = shop(LOGGING_VARIANTS[server], app)
    for number in range(3):
        running.get(f"/turn/{number}")
    running.get("/nope")
    running.get("/healthz")
    assert eventually(lambda: len(running.access_lines()) >= 4)
    running.end()
    said = [re.search(r'msg="(.*?)"', line) for line in running.access_lines()]
    assert Counter(match[1] for match in said if match) == {"GET /turn/{number} 200": 3, "GET unmatched 404": 1}
    assert [line for line in running.log() if THEIRS.search(line)] == []
    assert all("trace_id=" in line for line in running.access_lines())


@pytest.mark.parametrize("server", ["uvicorn", "uvicorn-reload", "granian"])
def test_in_json_every_line_of_the_serving_process_is_json(shop: Start, server: str) -> None:
    running = shop(LOGGING_VARIANTS[server], "litestar", FLEETGLASS_LOG_FORMAT="json")
    running.get("/turn/1")
    running.get("/boom")
    assert eventually(lambda: any('"access"' in line for line in running.log()))
    running.end()
    parsed = [json.loads(line) for line in running.log() if line.startswith("{")]
    assert Counter(line["msg"] for line in parsed if line["logger"] == "access") == {
        "GET /turn/{number} 200": 1,
        "GET /boom 500": 1,
    }
    (failure,) = [line for line in parsed if line.get("exception_type") == "ValueError"]
    assert failure["trace_id"]
    # What is no JSON comes from the supervising process, which never loads the application, or is printed.
    others = [line for line in running.log() if not line.startswith("{") and line != "the shop is open"]
    assert all(re.match(r"INFO: |\[INFO\]", line) for line in others), others


def test_an_exception_under_starlette_is_logged_once_with_its_trace(shop: Start) -> None:
    running = shop(SERVERS["uvicorn"], "starlette")
    assert running.get("/boom") == "Internal Server Error"
    running.end()
    (access,) = running.access_lines()
    (failure,) = [line for line in running.log() if 'exception_type="ValueError"' in line]
    trace_id = re.search(r"trace_id=(\w{32})", access)
    assert trace_id
    assert trace_id[0] in failure, "uvicorn logs it after our span has ended"
    assert "Traceback" not in [line[:9] for line in running.log()]


@pytest.mark.parametrize("app", ["litestar", "starlette"])
@pytest.mark.parametrize("server", SERVERS)
def test_the_last_span_line_and_metric_of_the_shutdown_handlers_arrive(
    shop: Start, telemetry_receiver: Receiver, server: str, app: str
) -> None:
    """otel-python 4813, 946; dd-trace-py 8252: SIGTERM loses the tail."""
    # A linger and an interval that nothing but the flush at the end can meet.
    patient = {"FLEETGLASS_LINGER": "60", "FLEETGLASS_METRICS_PUSH_INTERVAL": "60", "FLEETGLASS_STRICT": "1"}
    running = shop(SERVERS[server], app, **telemetry_receiver.environ(), **patient)
    workers = 2 if "2" in server else 1
    paths = [f"/turn/{number}" for number in range(20)]
    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(running.get, paths))
    assert "mixed up" not in ids
    assert len(set(ids)) == len(ids), "a trace of its own for each request"
    assert running.end() < LIMIT
    served = [span for span in telemetry_receiver.spans if span.kind == "server"]
    assert sorted(span.trace_id for span in served) == sorted(ids)
    assert {span.name for span in served} == {"GET /turn/{number}"}
    lines = [line for line in telemetry_receiver.lines if "logger=access" in line.line]
    assert sorted(line.trace_id for line in lines) == sorted(ids)
    closing = [span for span in telemetry_receiver.spans if span.name == "closing"]
    assert len(closing) == workers
    assert len([line for line in telemetry_receiver.lines if "closing the shop" in line.line]) == workers
    pushed = [(sample.name, sample.labels, sample.value) for sample in telemetry_receiver.samples]
    assert sum(value for name, _, value in pushed if name == "shop_closed_total") >= workers
    last: dict[str, float] = {}
    for name, labels, value in pushed:
        if name == "http_server_request_duration_seconds_count":
            last[labels["instance"]] = value
    assert sum(last.values()) == len(ids)
    assert [line for line in running.log() if line.startswith("fleetglass:")] == []


FAULTS: dict[str, Any] = {"refused": Refuse(), "black-holed": Blackhole(), "503": Status(503)}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("server", SERVERS)
def test_a_dead_backend_holds_a_server_no_longer_than_the_deadline_and_the_loss_is_told(
    shop: Start, telemetry_receiver: Receiver, server: str, fault: str
) -> None:
    telemetry_receiver.behave(FAULTS[fault])
    # Gunicorn's ASGI worker looks once a second whether it is to end, before it ends the lifespan.
    limit = LIMIT + (1.0 if server == "gunicorn-asgi" else 0.0)

    def end() -> float:
        running = shop(SERVERS[server], "litestar", **telemetry_receiver.environ())
        for number in range(10):
            running.get(f"/turn/{number}")
        took = running.end()
        _assert_that_everything_was_lost(running, workers=2 if "2" in server else 1)
        return took

    assert fastest(end, limit) < limit


def _assert_that_everything_was_lost(running: Shop, workers: int) -> None:
    told = re.compile(r"fleetglass: (\w+) to (\w+): (\d+) of (\d+) records lost \((.*)\)")
    losses = [match.groups() for line in running.log() if (match := told.match(line))]
    lost = Counter(dict.fromkeys(("traces", "logs", "metrics"), 0))
    for signal, _sink, count, emitted, reasons in losses:
        lost[signal] += int(count)
        assert int(count) == int(emitted), "nothing was delivered, so everything is lost"
        assert sum(int(part.rsplit(" ", 1)[1]) for part in reasons.split(", ")) == int(count)
    assert lost["traces"] == 10 + workers
    assert lost["logs"] >= 10 + workers
    assert lost["metrics"] >= workers


def test_a_reader_that_leaves_an_event_stream_is_no_error(shop: Start, telemetry_receiver: Receiver) -> None:
    running = shop(SERVERS["uvicorn"], "starlette", **telemetry_receiver.environ(), FLEETGLASS_LINGER="0.05")
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=30)
    connection.request("GET", "/forever")
    assert connection.getresponse().read(20)
    connection.close()
    telemetry_receiver.wait_for(lambda r: any(span.name == "GET /forever" for span in r.spans))
    (span,) = [span for span in telemetry_receiver.spans if span.name == "GET /forever"]
    assert span.status == "unset"
    assert span.attributes["fleetglass.outcome"] == "client_disconnect"
    metrics = running.get("/metrics") + running.get("/healthz")
    assert "/forever" not in metrics
    running.end()


def asginl(app: str, port: int) -> list[str]:
    return ["asginl" if part == "asgi" else part for part in granian()(app, port)]


SERVERS_WITHOUT_LIFESPAN: dict[str, Callable[[str, int], list[str]]] = {
    "granian-asginl": asginl,
    "uvicorn-lifespan-off": uvicorn("--lifespan", "off"),
}


@pytest.mark.parametrize("server", SERVERS_WITHOUT_LIFESPAN)
def test_without_a_lifespan_the_end_of_the_process_sends_what_is_left(
    shop: Start, telemetry_receiver: Receiver, server: str
) -> None:
    patient = {"FLEETGLASS_LINGER": "60", "FLEETGLASS_STRICT": "1"}
    running = shop(
        SERVERS_WITHOUT_LIFESPAN[server], "starlette", lifespan=False, **telemetry_receiver.environ(), **patient
    )
    ids = [running.get(f"/turn/{number}") for number in range(3)]
    assert running.end() < LIMIT
    assert sorted(span.trace_id for span in telemetry_receiver.spans if span.kind == "server") == sorted(ids)
    lines = [line for line in telemetry_receiver.lines if "logger=access" in line.line]
    assert sorted(line.trace_id for line in lines) == sorted(ids)
    assert [span for span in telemetry_receiver.spans if span.name == "closing"] == [], "the server never asked"
    assert [line for line in running.log() if THEIRS.search(line)] == []


def test_a_litestar_plugin_without_a_lifespan_begins_with_the_second_request(
    shop: Start, telemetry_receiver: Receiver
) -> None:
    """What docs/servers.md says of granian's asginl: wrap the application in the middleware to have the first."""
    running = shop(asginl, "litestar", lifespan=False, **telemetry_receiver.environ())
    ids = [running.get(f"/turn/{number}") for number in range(3)]
    running.end()
    # The probe that waited for the server was the first.
    assert {span.trace_id for span in telemetry_receiver.spans if span.kind == "server"} == set(ids)
