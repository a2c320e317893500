"""The standalone /metrics server: what it answers, and that it stands in nobody's way."""

from __future__ import annotations

import gzip
import http.client
import os
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from telemetry.metrics import server
from telemetry.metrics.server import MetricsServer, parse_listen
from tests.pace import fastest

# Python 3.12 warns of every fork beside a thread: forks beside threads are what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def render(accept: str | None) -> tuple[bytes, str]:
    return f"# asked for {accept}\n".encode(), "text/plain; version=0.0.4; charset=utf-8"


@pytest.fixture
def running() -> Iterator[MetricsServer]:
    started = server.start("127.0.0.1:0", render)
    assert started is not None
    yield started
    started.stop()


def can_listen(address: tuple[str, int]) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of before may be in TIME_WAIT
        try:
            probe.bind(address)
            probe.listen()
        except OSError:
            return False
    return True


def ask(
    to: MetricsServer, method: str = "GET", path: str = "/metrics", **headers: str
) -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection(*to.address, timeout=30)
    try:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        response = connection.getresponse()
        return response, response.read()
    finally:
        connection.close()


def test_metrics_are_rendered_for_the_accept_header(running: MetricsServer) -> None:
    response, body = ask(running, Accept="application/openmetrics-text")
    assert response.status == 200
    assert response.getheader("Content-Type") == "text/plain; version=0.0.4; charset=utf-8"
    assert body == b"# asked for application/openmetrics-text\n"
    assert running.url == f"http://127.0.0.1:{running.address[1]}/metrics"


def test_head_says_the_length_and_sends_no_body(running: MetricsServer) -> None:
    response, body = ask(running, "HEAD")
    assert (response.status, body) == (200, b"")
    assert response.getheader("Content-Length") == str(len(b"# asked for None\n"))


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "BREW"])
def test_other_methods_are_not_allowed(running: MetricsServer, method: str) -> None:
    response, _ = ask(running, method)
    assert (response.status, response.getheader("Allow")) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    ("path", "status"),
    [("/healthz", 200), ("/metrics?name=x", 200), ("/", 404), ("/metrics/", 404), ("/etc/passwd", 404)],
)
def test_paths(running: MetricsServer, path: str, status: int) -> None:
    assert ask(running, path=path)[0].status == status


def test_health_touches_no_collector() -> None:
    def fail(accept: str | None) -> tuple[bytes, str]:
        raise AssertionError

    started = server.start("127.0.0.1:0", fail)
    assert started is not None
    try:
        assert ask(started, path="/healthz")[1] == b"ok\n"
    finally:
        started.stop()


def test_a_long_body_is_compressed_for_those_who_can_read_it() -> None:
    long = b"x" * 5000
    started = server.start("127.0.0.1:0", lambda _: (long, "text/plain"))
    assert started is not None
    try:
        response, body = ask(started, Accept_Encoding="gzip")
        assert response.getheader("Content-Encoding") == "gzip"
        assert gzip.decompress(body) == long
        assert ask(started)[1] == long
    finally:
        started.stop()


@pytest.mark.expects_fault("metrics.server")
def test_a_rendering_that_fails_is_a_failed_scrape() -> None:
    def fail(accept: str | None) -> tuple[bytes, str]:
        raise RuntimeError("no")

    started = server.start("127.0.0.1:0", fail)
    assert started is not None
    try:
        assert ask(started)[0].status == 503
        assert ask(started, path="/healthz")[0].status == 200
    finally:
        started.stop()


def test_a_busy_port_is_said_in_one_sentence_and_the_process_goes_on(
    running: MetricsServer, capfd: pytest.CaptureFixture[str]
) -> None:
    address = f"127.0.0.1:{running.address[1]}"
    assert server.start(address, render) is None
    said = capfd.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith(
        f"fleetglass: no metrics on {address}: Address already in use; set FLEETGLASS_METRICS_LISTEN"
    )


@pytest.mark.parametrize("listen", ["nowhere.invalid:1", "127.0.0.1:99999", "127.0.0.1", "off", "192.0.2.1:9464"])
def test_an_address_that_cannot_be_had_is_said(listen: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert server.start(listen, render) is None
    assert capfd.readouterr().err.startswith(f"fleetglass: no metrics on {listen}: ")


@pytest.mark.parametrize(
    ("listen", "expected"),
    [("127.0.0.1:9464", ("127.0.0.1", 9464)), (":9464", ("", 9464)), ("[::1]:0", ("::1", 0)), ("host:1", ("host", 1))],
)
def test_listen_addresses(listen: str, expected: tuple[str, int]) -> None:
    assert parse_listen(listen) == expected


def test_every_address_and_ipv6() -> None:
    for listen in (":0", "[::1]:0"):
        started = server.start(listen, render)
        if started is None:
            pytest.skip("no IPv6 on this machine")
        try:
            host = "::1" if "::1" in listen else "127.0.0.1"
            connection = http.client.HTTPConnection(host, started.address[1], timeout=30)
            connection.request("GET", "/healthz")
            assert connection.getresponse().status == 200
            connection.close()
        finally:
            started.stop()


def test_stop_frees_the_port_at_once_and_can_be_called_twice() -> None:
    def stop() -> float:
        started = server.start("127.0.0.1:0", render)
        assert started is not None
        began = time.monotonic()
        started.stop()
        started.stop()
        took = time.monotonic() - began
        assert can_listen(started.address)
        return took

    assert fastest(stop, 0.9) < 0.9


def test_stop_does_not_wait_for_a_request_that_hangs() -> None:
    entered, go = threading.Event(), threading.Event()

    def hang(accept: str | None) -> tuple[bytes, str]:
        entered.set()
        go.wait(30)
        return b"", "text/plain"

    started = server.start("127.0.0.1:0", hang)
    assert started is not None
    with socket.create_connection(started.address) as client:
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        assert entered.wait(30)
        began = time.monotonic()
        started.stop(1.0)
        assert time.monotonic() - began < 10.0
        go.set()


def test_clients_that_say_nothing_do_not_take_every_thread(
    running: MetricsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    idle = [socket.create_connection(running.address) for _ in range(server.REQUESTS_AT_ONCE + 20)]
    try:
        time.sleep(0.2)
        names = [thread.name for thread in threading.enumerate()]
        assert sum("process_request_thread" in name for name in names) <= server.REQUESTS_AT_ONCE
    finally:
        for each in idle:
            each.close()
    for _ in range(600):
        try:
            if ask(running)[0].status == 200:
                break
        except (OSError, http.client.HTTPException):
            time.sleep(0.05)
    else:
        pytest.fail("the server does not come back")


def test_a_held_port_is_noticed(running: MetricsServer) -> None:
    assert not can_listen(running.address)


def test_a_forked_child_does_not_hold_the_parents_port(running: MetricsServer) -> None:
    ready, ready_writer = os.pipe()
    go_reader, go = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(ready_writer, b"x")
        os.read(go_reader, 1)
        os._exit(0)
    try:
        os.read(ready, 1)
        assert ask(running, path="/healthz")[0].status == 200
        running.stop()
        assert can_listen(running.address)
    finally:
        os.write(go, b"x")
        os.waitpid(pid, 0)
        for descriptor in (ready, ready_writer, go_reader, go):
            os.close(descriptor)
