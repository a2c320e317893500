"""Two replicas of ``fleetglass serve`` as processes, one store, one receiver that reads all their lines."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from ingest.errors.route import PATH
from telemetry.testing import Receiver
from tests.backends.process import Server, eventually, request
from tests.backends.redis import MISSING, Redis
from tests.loki_grammar import logfmt

TOKENS = json.dumps({"t0ken": {"email": "mina@acme.example", "workspace": "acme"}})
LINGER = 0.05


@contextmanager
def replica(folder: Path, name: str, receiver: Receiver, **environ: str) -> Iterator[tuple[Server, str]]:
    """One replica and its ``host:port``."""
    server, ports = Server.start(
        name,
        folder,
        1,
        lambda ports: [sys.executable, "-m", "telemetry", "serve", "--listen", f"127.0.0.1:{ports[0]}"],
        lambda ports: f"http://127.0.0.1:{ports[0]}/healthz",
        60,
        environ={
            **os.environ,
            "FLEETGLASS_LOKI_URL": receiver.url,
            "FLEETGLASS_TOKENS": TOKENS,
            "FLEETGLASS_LINGER": str(LINGER),
            "FLEETGLASS_INSTANCE": name,
            **environ,
        },
    )
    try:
        yield server, f"127.0.0.1:{ports[0]}"
    finally:
        server.stop()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
def store(tmp_path) -> Iterator[Redis]:
    if shutil.which("redis-server") is None:
        pytest.skip(MISSING)
    server = Redis(tmp_path)
    yield server
    server.kill()


@pytest.fixture
def pair(tmp_path, receiver, store) -> Iterator[list[tuple[Server, str]]]:
    with ExitStack() as stack:
        names = ("one", "two")
        yield [stack.enter_context(replica(tmp_path, name, receiver, FLEETGLASS_STORE_URL=store.url)) for name in names]


def send(address: str, message: str = "TypeError: x is undefined", repeat: int = 1) -> int:
    body = json.dumps({"kind": "error", "message": message, "repeat": repeat}).encode()
    return request("POST", f"http://{address}{PATH}", body, {"Authorization": "Bearer t0ken"}).status


def repeats(receiver: Receiver) -> list[int]:
    """``repeat`` of the lines that have arrived."""
    found = [logfmt(line.line, strict=True) for line in receiver.lines if " frontend-error " in line.line]
    return [int(fields["repeat"]) for fields in found]


def metric(address: str, name: str) -> float:
    for line in request("GET", f"http://{address}/metrics").ok().text.splitlines():
        if line.startswith(name):
            return float(line.rpartition(" ")[2])
    return 0.0


def test_the_other_replica_closes_the_windows_of_one_that_was_killed_once(pair, receiver):
    (one, first), (_, second) = pair
    assert send(first, repeat=2) == 204
    assert eventually(lambda: repeats(receiver) == [2])
    for address, repeat in ((second, 3), (first, 4), (second, 5)):
        assert send(address, repeat=repeat) == 204
    os.kill(one.pid, signal.SIGKILL)
    assert eventually(lambda: len(repeats(receiver)) == 2)
    time.sleep(2)
    assert repeats(receiver) == [2, 12]
    assert metric(second, 'frontend_windows_closed_total{cause="adopted"}') == 1
    assert send(second, repeat=7) == 204
    assert eventually(lambda: repeats(receiver) == [2, 12, 7])


def test_sigterm_tells_the_open_windows_before_the_last_line_is_sent(pair, receiver):
    (one, first), (_, second) = pair
    for address in (first, second, second):
        assert send(address) == 204
    start = time.monotonic()
    one.finish(20)
    assert time.monotonic() - start < 3.3
    assert eventually(lambda: repeats(receiver) == [1, 2])


def test_one_burst_for_both_replicas_and_alone_without_the_store(pair, store):
    (_, first), (_, second) = pair
    start = time.monotonic()
    statuses = [send(address) for _ in range(20) for address in (first, second)]
    assert 20 <= statuses.count(204) <= 21 + time.monotonic() - start  # one a second comes back
    assert set(statuses) == {204, 429}
    store.kill()
    assert send(first) in {204, 429}
    assert eventually(lambda: metric(first, "frontend_store_up") == 0 and metric(second, "frontend_store_up") == 0)
    assert metric(first, 'frontend_store_errors_total{reason="connection"}') >= 1
    store.start()
    assert eventually(lambda: metric(first, "frontend_store_up") == 1 and metric(second, "frontend_store_up") == 1)


def test_without_a_store_the_sums_are_right_for_each_replica(tmp_path, receiver):
    with replica(tmp_path, "alone", receiver) as (server, address):
        assert [send(address, repeat=repeat) for repeat in (3, 1, 1000)] == [204] * 3
        server.finish(20)
    assert repeats(receiver) == [3, 1001]
