"""OTLP over gRPC where it is known to break: forks, servers that come back, TLS, IPv6, deadlines."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import telemetry
from telemetry.testing import Hang, Receiver, Refuse

RECEIVER = """
import sys
from telemetry.testing import Hang, Receiver
with Receiver() as receiver:
    receiver.grpc_endpoint
    print(receiver.grpc_endpoint, flush=True)
    for line in sys.stdin:
        if line == "hang\\n":
            receiver.behave(Hang())
        if line == "recover\\n":
            receiver.recover()
        print(*(span.name for span in receiver.spans), flush=True)
"""

Ask = Callable[[str], list[str]]


@pytest.fixture
def elsewhere() -> Iterator[tuple[str, Ask]]:
    """The endpoint of a receiver in another process, as backends are; and a way to ask it for span names."""
    process = subprocess.Popen(
        [sys.executable, "-c", RECEIVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    stdin, stdout = process.stdin, process.stdout

    def ask(word: str) -> list[str]:
        stdin.write(word + "\n")
        stdin.flush()
        return stdout.readline().split()

    yield stdout.readline().strip(), ask
    process.communicate(timeout=30)


def start(endpoint: str, **settings: Any) -> telemetry.Telemetry:
    return telemetry.setup(
        service="shop",
        logs_exporter="none",
        metrics_exporter="none",
        stdout="off",
        **{"otlp_endpoint": endpoint, "otlp_protocol": "grpc", "linger": 0.0, **settings},
    )


def in_child(work: Callable[[], bool]) -> None:
    """Fork, run ``work`` in the child, and have it be true within half a minute."""
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(30)
        done = False
        try:
            done = work()
        finally:
            os._exit(0 if done else 1)
    deadline = time.monotonic() + 40
    while time.monotonic() < deadline:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            assert os.waitstatus_to_exitcode(status) == 0
            return
        time.sleep(0.005)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    pytest.fail("the child stood still")


@pytest.fixture
def busy() -> Iterator[Callable[[], None]]:
    """A thread that makes a span every two milliseconds, so that a fork finds a call under way."""
    stop = threading.Event()
    threads: list[threading.Thread] = []

    def work() -> None:
        while not stop.wait(0.002):
            with telemetry.span("parent"):
                pass

    def begin() -> None:
        threads.append(threading.Thread(target=work))
        threads[-1].start()

    yield begin
    stop.set()
    for thread in threads:
        thread.join()


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # forks beside threads are the point
def test_a_fork_during_an_export_stands_still_neither_here_nor_in_the_child(
    elsewhere: tuple[str, Ask], busy: Callable[[], None]
) -> None:
    """grpc #13998 and its kin: os.fork() beside a call under way never returned, or the child's calls never did."""
    endpoint, ask = elsewhere
    tel = start(endpoint)
    with telemetry.span("first"):
        pass
    assert tel.flush(30)
    busy()

    def work() -> bool:
        with telemetry.span("child"):
            pass
        return tel.flush(20) and tel.health().rows[0].emitted == 1

    for _ in range(15):
        in_child(work)
    assert tel.flush(30)
    (row,) = tel.health().rows
    assert row.balanced
    assert row.lost == 0
    names = ask("names")
    assert names.count("child") == 15
    assert names.count("parent") + names.count("first") >= row.delivered


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_beside_a_call_that_hangs_waits_for_it_no_longer_than_a_moment(
    elsewhere: tuple[str, Ask], busy: Callable[[], None]
) -> None:
    endpoint, ask = elsewhere
    tel = start(endpoint, shutdown_timeout=0.5)
    with telemetry.span("first"):
        pass
    assert tel.flush(30)
    ask("hang")
    busy()
    time.sleep(0.1)

    def work() -> bool:
        with telemetry.span("child"):
            pass
        started = time.monotonic()
        tel.shutdown()
        return time.monotonic() - started < 10.0

    for _ in range(3):
        started = time.monotonic()
        in_child(work)
        assert time.monotonic() - started < 20.0
    ask("recover")
    assert tel.flush(30), "the calls that were cancelled are made again"


def test_a_grpc_server_that_comes_back_is_found_within_seconds(telemetry_receiver: Receiver) -> None:
    """By itself gRPC looks again after up to two minutes."""
    tel = start(telemetry_receiver.grpc_endpoint)
    telemetry_receiver.behave(Refuse())
    with telemetry.span("work"):
        pass
    assert not tel.flush(4)
    telemetry_receiver.recover()
    assert tel.flush(15)
    assert len(telemetry_receiver.spans) == 1


def test_a_hung_grpc_server_does_not_hold_the_shutdown(telemetry_receiver: Receiver) -> None:
    telemetry_receiver.grpc_endpoint  # noqa: B018  (it starts when first asked for)
    telemetry_receiver.behave(Hang())
    tel = start(telemetry_receiver.grpc_endpoint, shutdown_timeout=0.5)
    for _ in range(100):
        with telemetry.span("work"):
            pass
    started = time.monotonic()
    assert not tel.shutdown()
    assert time.monotonic() - started < 10.0
    (row,) = tel.health().rows
    assert (row.emitted, row.dropped) == (100, {"deadline": 100})


@pytest.fixture
def grpc_server(tmp_path: Path) -> Iterator[Callable[[str, bool], tuple[int, list[bytes]]]]:
    """Start a gRPC server on an address, with TLS or without; its port, and the bodies that came."""
    import grpc

    servers: list[Any] = []

    def begin(host: str, secure: bool) -> tuple[int, list[bytes]]:
        bodies: list[bytes] = []

        def export(body: bytes, _: Any) -> bytes:
            bodies.append(body)
            return b""

        service = "opentelemetry.proto.collector.trace.v1.TraceService"
        method = grpc.unary_unary_rpc_method_handler(export)
        server = grpc.server(ThreadPoolExecutor(1))
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {"Export": method}),))
        if secure:
            if shutil.which("openssl") is None:
                pytest.skip("openssl is not there to make a certificate: install openssl")
            subprocess.run(
                ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=127.0.0.1",
                 "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "certificate.pem"],
                check=True, capture_output=True, cwd=tmp_path,
            )  # fmt: skip
            pair = ((tmp_path / "key.pem").read_bytes(), (tmp_path / "certificate.pem").read_bytes())
            port = server.add_secure_port(f"{host}:0", grpc.ssl_server_credentials([pair]))
        else:
            try:
                port = server.add_insecure_port(f"{host}:0")
            except RuntimeError:
                pytest.skip("no IPv6 loopback on this machine")
        server.start()
        servers.append(server)
        return port, bodies

    yield begin
    for server in servers:
        server.stop(None).wait()


def test_grpc_over_tls_with_a_certificate_of_ones_own(
    grpc_server: Callable[[str, bool], tuple[int, list[bytes]]], tmp_path: Path
) -> None:
    port, bodies = grpc_server("127.0.0.1", True)
    certificate = str(tmp_path / "certificate.pem")
    with start(f"https://127.0.0.1:{port}", otlp_certificate=certificate) as tel:
        with telemetry.span("work"):
            pass
        assert tel.flush(30)
    assert len(bodies) == 1


def test_grpc_to_an_ipv6_address(grpc_server: Callable[[str, bool], tuple[int, list[bytes]]]) -> None:
    port, bodies = grpc_server("[::1]", False)
    with start(f"http://[::1]:{port}") as tel:
        with telemetry.span("work"):
            pass
        assert tel.flush(30)
    assert len(bodies) == 1
