"""The HTTP connection under a sink: keep-alive, timeouts, redirects, and what OTLP and Loki answers mean."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from telemetry import otlp
from telemetry.logs import loki
from telemetry.testing import Hang, Receiver, Redirect, Reset, Status
from telemetry.transport import HttpTransport, Response, parse_retry_after


@pytest.fixture
def connect() -> Iterator[Callable[[str], HttpTransport]]:
    """Transports that the test's end closes."""
    opened: list[HttpTransport] = []

    def make(url: str) -> HttpTransport:
        opened.append(HttpTransport(url))
        return opened[-1]

    yield make
    for transport in opened:
        transport.close()


JSON = {"content-type": "application/json"}
Connect = Callable[[str], HttpTransport]


def answer(status: int, body: bytes = b"", **headers: str) -> Response:
    return Response(status, headers, body)


def test_a_kept_connection_that_the_server_closed_is_opened_again(connect: Connect) -> None:
    with Receiver() as receiver:
        transport = connect(receiver.url + "/v1/traces")
        assert transport.post(b"", "application/x-protobuf", 2).status == 200
        receiver.behave(Reset(after="head"), times=1)
        assert transport.post(b"", "application/x-protobuf", 2).status == 200


def test_a_hung_server_costs_the_timeout_and_no_more(connect: Connect) -> None:
    with Receiver() as receiver:
        receiver.behave(Hang())
        transport = connect(receiver.url + "/v1/traces")
        started = time.monotonic()
        with pytest.raises(TimeoutError):
            transport.post(b"x" * 100_000, "application/x-protobuf", 0.3)
        assert time.monotonic() - started < 1.5


def test_a_redirect_is_an_answer_and_is_not_followed(connect: Connect) -> None:
    with Receiver() as receiver:
        receiver.behave(Redirect("/elsewhere", status=302))
        response = connect(receiver.url + "/v1/traces").post(b"", "application/x-protobuf", 2)
        assert (response.status, response.headers["location"]) == (302, "/elsewhere")
        assert len(receiver.requests) == 1


def test_credentials_in_the_url_become_basic_authentication(connect: Connect) -> None:
    with Receiver() as receiver:
        url = receiver.url.replace("http://", "http://kim:p%40ss@") + "/v1/logs"
        connect(url).post(b"", "application/x-protobuf", 2)
        assert receiver.requests[0].headers["authorization"] == "Basic a2ltOnBAc3M="


def test_an_answer_longer_than_we_read_does_not_spoil_the_next_one(connect: Connect) -> None:
    with Receiver() as receiver:
        receiver.behave(Status(400, body="x" * 200_000), times=1)
        transport = connect(receiver.url + "/v1/logs")
        first = transport.post(b"", "application/x-protobuf", 2)
        assert (first.status, len(first.body)) == (400, 64 * 1024)
        assert transport.post(b"", "application/x-protobuf", 2).status == 200


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ("", None),
        ("7", 7.0),
        (" 0 ", 0.0),
        ("soon", None),
        ("-3", None),
        ("Thu, 01 Jan 1970 00:01:00 GMT", 50.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
    ],
)
def test_retry_after_in_both_forms(value: str | None, expected: float | None) -> None:
    assert parse_retry_after(value, now=10.0) == expected


@pytest.mark.parametrize(
    ("response", "kind", "rejected"),
    [
        (answer(204), "delivered", 0),
        (answer(200), "rejected", 0),
        (answer(260), "rejected", 0),
        (answer(302, location="/login"), "rejected", 0),
        (answer(400, b"entry too far behind, total ignored: 3 out of 10"), "delivered", 3),
        (answer(400, b"expected string"), "split", 0),
        (answer(401), "rejected", 0),
        (answer(413), "split", 0),
        (answer(429), "retry", 0),
        (answer(500), "retry", 0),
        (answer(503), "retry", 0),
    ],
)
def test_what_loki_answers_means(response: Response, kind: str, rejected: int) -> None:
    verdict = loki.classify(response, count=10)
    assert (verdict.kind, verdict.rejected) == (kind, rejected)


@pytest.mark.parametrize(
    ("response", "kind", "rejected"),
    [
        (answer(200), "delivered", 0),
        (answer(200, b"\x0a\x02\x08\x05"), "delivered", 5),
        (answer(200, b'{"partialSuccess":{"rejectedLogRecords":"2"}}', **JSON), "delivered", 2),
        (answer(200, b"<html>"), "delivered", 0),
        (answer(302, location="/login"), "rejected", 0),
        (answer(400), "split", 0),
        (answer(404), "rejected", 0),
        (answer(429), "retry", 0),
        (answer(500), "rejected", 0),
        (answer(502), "retry", 0),
        (answer(503), "retry", 0),
        (answer(504), "retry", 0),
    ],
)
def test_what_otlp_answers_mean(response: Response, kind: str, rejected: int) -> None:
    verdict = otlp.classify(response)
    assert (verdict.kind, verdict.rejected) == (kind, rejected)


@pytest.mark.parametrize(
    ("code", "retry_after", "kind"),
    [
        ("UNAVAILABLE", None, "retry"),
        ("RESOURCE_EXHAUSTED", None, "rejected"),
        ("RESOURCE_EXHAUSTED", 2.0, "retry"),
        ("INVALID_ARGUMENT", None, "split"),
        ("UNAUTHENTICATED", None, "rejected"),
    ],
)
def test_what_grpc_codes_mean(code: str, retry_after: float | None, kind: str) -> None:
    assert otlp.grpc_verdict(code, "why", retry_after).kind == kind
