"""``fleetglass serve`` as a process, a real receiver behind it, and clients that do as they like on the wire."""

from __future__ import annotations

import json
import os
import random
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import pytest

from ingest.errors.route import MAX_BODY_BYTES, PATH
from telemetry.testing import Receiver
from tests.backends.process import Response, Server, ServerError, eventually, request
from tests.loki_grammar import detected_level, logfmt
from tests.pace import fastest

TOKENS = json.dumps({"t0ken": {"email": "mina@acme.example", "workspace": "acme", "roles": ["member"]}})
BEARER = {"Authorization": "Bearer t0ken"}


@contextmanager
def serving(folder: Path, receiver: Receiver, **environ: str) -> Iterator[tuple[Server, str]]:
    """The running service and its ``host:port``."""
    environment = {
        **os.environ,
        **receiver.environ(),
        "FLEETGLASS_TOKENS": TOKENS,
        "FLEETGLASS_LINGER": "0.05",
        "FLEETGLASS_METRICS_PUSH_INTERVAL": "1",
        "FLEETGLASS_STRICT": "1",
        "FLEETGLASS_LIMIT_RATE": "0",  # limits and windows have tests of their own
        "FLEETGLASS_DEDUPE_WINDOW": "0",
        **environ,
    }
    server, ports = Server.start(
        "ingest",
        folder,
        1,
        lambda ports: [sys.executable, "-m", "telemetry", "serve", "--listen", f"127.0.0.1:{ports[0]}"],
        lambda ports: f"http://127.0.0.1:{ports[0]}/healthz",
        60,
        environ=environment,
    )
    try:
        yield server, f"127.0.0.1:{ports[0]}"
    finally:
        server.stop()
        assert "fleetglass:" not in server.log.read_text()


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, receiver: Receiver) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("ingest"), receiver) as (_, address):
        yield address


@pytest.fixture(autouse=True)
def _fresh(service: str, receiver: Receiver) -> None:
    """Forget what earlier tests made, once it has arrived: records of one sink arrive in the order they were made."""
    last = f"{random.getrandbits(128) | 1:032x}"
    request("GET", f"http://{service}/api/config", headers={"traceparent": f"00-{last}-{1:016x}-01"}).ok()
    receiver.wait_for(lambda seen: any(span.trace_id == last for span in seen.spans))
    receiver.wait_for(lambda seen: any(line.trace_id == last for line in seen.lines))
    receiver.clear()


def post(address: str, body: bytes, headers: Mapping[str, str] = BEARER) -> Response:
    return request("POST", f"http://{address}{PATH}", body, headers)


def report(**fields: object) -> bytes:
    return json.dumps({"kind": "error", "message": "TypeError: x is undefined", "url": "/jobs", **fields}).encode()


def frontend_lines(receiver: Receiver) -> list[str]:
    return [line.line for line in receiver.lines if " frontend-error " in line.line]


def count(address: str, result: str) -> float:
    """The reports counted with ``result`` by now."""
    for line in request("GET", f"http://{address}/metrics").ok().text.splitlines():
        if line.startswith(f'frontend_reports_total{{result="{result}"}}'):
            return float(line.rpartition(" ")[2])
    return 0.0


def counts_one_more(address: str, result: str, before: float) -> bool:
    """Metrics are cached for a second."""
    return bool(eventually(lambda: count(address, result) == before + 1))


def test_one_error_is_one_line_one_access_line_one_span_and_one_increment(service, receiver):
    before = count(service, "accepted")
    assert post(service, report(trace_id="0af7651916cd43dd8448eb211c80319c")).status == 204
    receiver.wait_for(lines=2, spans=1)
    (line,) = [line for line in receiver.lines if " frontend-error " in line.line]
    fields = logfmt(line.line, strict=True)
    assert (fields["email"], fields["workspace"], fields["url"]) == ("mina@acme.example", "acme", "/jobs")
    assert detected_level(line.line) == "error"
    assert line.labels == {"service_name": "fleetglass-ingest"}
    assert line.attributes == {"trace_id": "0af7651916cd43dd8448eb211c80319c"}
    (span,) = receiver.spans
    assert span.name == f"POST {PATH}"
    assert span.resource["service.name"] == "fleetglass-ingest"
    (access,) = [line for line in receiver.lines if "logger=access" in line.line]
    assert access.trace_id == span.trace_id or access.attributes["trace_id"] == span.trace_id
    assert counts_one_more(service, "accepted", before)


def test_a_line_arrives_within_two_seconds(service, receiver):
    def arrive() -> float:
        receiver.clear()
        start = time.monotonic()
        assert post(service, report()).status == 204
        receiver.wait_for(frontend_lines)
        return time.monotonic() - start

    assert fastest(arrive, 2.0) < 2.0


class Wire:
    """A connection to the service on which bytes are written as they stand."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.sock = socket.create_connection((host, int(port)), timeout=30)
        self.stream = self.sock.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()  # the file holds the socket open
        self.sock.close()

    def send(self, *lines: str, body: bytes = b"") -> None:
        self.sock.sendall("".join(f"{line}\r\n" for line in lines).encode() + b"\r\n" + body)

    def head(self, *more: str, token: str = "t0ken", path: str = PATH) -> tuple[str, ...]:
        return (f"POST {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {token}", *more)

    def answer(self) -> tuple[int, bytes]:
        """Status and body of the next answer."""
        status = int(self.stream.readline().split()[1])
        length = 0
        while (line := self.stream.readline().strip().lower()) != b"":
            if line.startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        return status, self.stream.read(length)


def chunked(*chunks: bytes) -> bytes:
    return b"".join(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n" for chunk in chunks) + b"0\r\n\r\n"


def of_size(size: int) -> bytes:
    return report(stack="s" * (size - len(report(stack=""))))


@pytest.mark.parametrize(("size", "status"), [(MAX_BODY_BYTES, 204), (MAX_BODY_BYTES + 1, 413), (1 << 20, 413)])
@pytest.mark.parametrize("framing", ["content-length", "chunked"])
def test_the_cap_in_both_framings_and_the_connection_lives_on(service, framing, size, status):
    body = of_size(size)
    with Wire(service) as wire:
        for _ in range(2):
            if framing == "chunked":
                framed = chunked(*(body[at : at + 1000] for at in range(0, size, 1000)))
                wire.send(*wire.head("Transfer-Encoding: chunked"), body=framed)
            else:
                wire.send(*wire.head(f"Content-Length: {size}"), body=body)
            assert wire.answer()[0] == status
        wire.send(*wire.head(f"Content-Length: {len(report())}"), body=report())
        assert wire.answer()[0] == 204


@pytest.mark.parametrize("framing", ["Content-Length: 16384", "Transfer-Encoding: chunked"])
def test_401_is_answered_before_any_body_has_been_sent(service, framing):
    with Wire(service) as wire:
        wire.send(*wire.head(framing, token="wrong"))
        status, body = wire.answer()
    assert status == 401
    assert json.loads(body)["status"] == 401


def test_a_length_that_is_too_large_is_refused_before_the_body_is_sent(service):
    with Wire(service) as wire:
        wire.send(*wire.head("Content-Length: 99999999"))
        assert wire.answer()[0] == 413


def test_a_page_that_closes_in_the_middle_is_silent(service, receiver):
    before = count(service, "disconnected")
    with Wire(service) as wire:
        wire.send(*wire.head("Content-Length: 1000"), body=b'{"kind":"error"')
    assert counts_one_more(service, "disconnected", before)
    assert frontend_lines(receiver) == []
    assert not [line.line for line in receiver.lines if "level=error" in line.line]
    assert post(service, report()).status == 204


def test_a_get_of_the_route_is_405(service):
    answer = request("GET", f"http://{service}{PATH}")
    assert (answer.status, answer.headers["allow"]) == (405, "POST")


def test_the_console_config(service):
    assert request("GET", f"http://{service}/api/config").ok().json() == {"feedback_url": None}


def test_sigterm_delivers_the_last_line(tmp_path, receiver):
    with serving(tmp_path, receiver, FLEETGLASS_LINGER="30") as (server, address):
        assert post(address, report(message="the last one")).status == 204
        start = time.monotonic()
        server.finish(20)
        assert time.monotonic() - start < 3.3
    (line,) = frontend_lines(receiver)
    assert 'message="the last one"' in line


def test_json_output_says_the_same(tmp_path, receiver):
    with serving(tmp_path, receiver, FLEETGLASS_LOG_FORMAT="json") as (_, address):
        assert post(address, report(stack='"한글"\n', repeat=4)).status == 204
        receiver.wait_for(lambda receiver: any('"frontend"' in line.line for line in receiver.lines))
    (line,) = [line.line for line in receiver.lines if '"logger":"frontend"' in line.line]
    entry = json.loads(line)
    assert entry["msg"] == "frontend-error"
    assert (entry["stack"], entry["repeat"], entry["email"]) == ('"한글"\n', 4, "mina@acme.example")


def test_wrong_settings_are_all_named_and_nothing_starts(tmp_path, receiver):
    with (
        pytest.raises(ServerError) as refused,
        serving(tmp_path, receiver, FEEDBACK_URL="javascript:alert(1)", FLEETGLASS_ROLE="boss"),
    ):
        pass
    text = str(refused.value)
    assert "exited with 2" in text
    assert "FEEDBACK_URL = 'javascript:alert(1)'" in text
    assert "expected an https:// URL with a host, or mailto: with an address" in text
    assert "FLEETGLASS_ROLE = 'boss'" in text
