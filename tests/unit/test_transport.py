"""The HTTP connection under a sink: keep-alive, timeouts, redirects, and what OTLP and Loki answers mean."""

from __future__ import annotations

import logging
import shutil
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest

from telemetry import otlp
from telemetry.logs import loki
from telemetry.testing import Blackhole, Hang, Raw, Receiver, Redirect, Refuse, Reset, Slow, Status
from telemetry.transport import HttpTransport, Response, TlsFiles, parse_retry_after


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
        assert time.monotonic() - started < 5.0


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


def test_an_answer_that_drips_costs_the_timeout_and_no_more(connect: Connect) -> None:
    """A byte within each timeout held the sender, and with it the sink, for as long as the server liked."""
    with Receiver() as receiver:
        receiver.behave(Slow(bytes_per_second=40))
        transport = connect(receiver.url + "/v1/traces")
        started = time.monotonic()
        with pytest.raises(TimeoutError):
            transport.post(b"", "application/x-protobuf", 0.5)
        assert 0.4 < time.monotonic() - started < 2.5
        receiver.recover()
        assert transport.post(b"", "application/x-protobuf", 2).status == 200


def test_a_connection_that_failed_does_not_keep_the_timeout_of_its_first_try(connect: Connect) -> None:
    with Receiver() as receiver:
        receiver.behave(Refuse())
        transport = connect(receiver.url + "/v1/traces")
        with pytest.raises(ConnectionRefusedError):
            transport.post(b"", "application/x-protobuf", 10)
        receiver.behave(Blackhole())
        started = time.monotonic()
        with pytest.raises(TimeoutError):
            transport.post(b"", "application/x-protobuf", 0.3)
        assert time.monotonic() - started < 5.0


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.0 204 No Content\r\n\r\n",
        b"HTTP/1.0 204 No Content\r\nConnection: keep-alive\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
    ],
    ids=["1.0", "1.0-keep", "close", "100"],
)
def test_servers_that_close_after_each_answer_are_connected_to_again(connect: Connect, raw: bytes) -> None:
    with Receiver() as receiver:
        receiver.behave(Raw(raw))
        transport = connect(receiver.url + "/v1/logs")
        for _ in range(3):
            assert transport.post(b"", "application/x-protobuf", 2).status == 204
        assert len(receiver.requests) == 3


def test_an_answer_in_chunks_and_one_without_a_length_are_read_whole(connect: Connect) -> None:
    with Receiver() as receiver:
        transport = connect(receiver.url + "/v1/logs")
        chunked = b"HTTP/1.1 400 Bad Request\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfour\r\n2\r\n!!\r\n0\r\n\r\n"
        receiver.behave(Raw(chunked))
        assert transport.post(b"", "application/x-protobuf", 2).body == b"four!!"
        receiver.behave(Raw(b"HTTP/1.1 400 Bad Request\r\n\r\nuntil the end"))
        assert transport.post(b"", "application/x-protobuf", 2).body == b"until the end"


@pytest.mark.parametrize("raw", [b"", b"garbage\r\n\r\n", b"HTTP/1.1 9999 X\r\n\r\n"])
def test_what_is_no_answer_is_an_error_that_is_retried(connect: Connect, raw: bytes) -> None:
    import http.client

    with Receiver() as receiver:
        receiver.behave(Raw(raw))
        with pytest.raises((http.client.HTTPException, OSError)):
            connect(receiver.url + "/v1/logs").post(b"", "application/x-protobuf", 2)


def test_environment_proxies_are_not_used(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    with Receiver() as receiver:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, "http://127.0.0.1:9")
        assert connect(receiver.url + "/v1/traces").post(b"", "application/x-protobuf", 2).status == 200


def test_an_ipv6_address_is_connected_to_and_named_in_the_host_header(connect: Connect) -> None:
    import http.server
    import socket
    import threading

    heard: list[str] = []

    class Six(http.server.ThreadingHTTPServer):
        address_family = socket.AF_INET6

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            heard.append(self.headers["Host"])
            self.send_response(204)
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    try:
        server = Six(("::1", 0), Answer)
    except OSError:
        pytest.skip("no IPv6 loopback on this machine")
    with server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        port = server.server_address[1]
        assert connect(f"http://[::1]:{port}/x").post(b"", "text/plain", 2).status == 204
        server.shutdown()
    assert heard == [f"[::1]:{port}"]


def test_an_excerpt_cannot_steer_the_terminal_that_shows_it() -> None:
    assert answer(400, b"bad \x1b[31m\x00 line\nnext \xc2\x9b1m").excerpt == "bad [31m line next 1m"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Paths of a CA's certificate, and of key and certificate that it signed for 127.0.0.1."""
    folder = tmp_path_factory.mktemp("tls")
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not there to make certificates: install openssl")

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, cwd=folder)

    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=test CA",
            "-addext", "keyUsage=critical,keyCertSign", "-keyout", "ca.key", "-out", "ca.pem")  # fmt: skip
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=127.0.0.1", "-keyout", "key.pem", "-out", "csr.pem")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1")
    openssl("x509", "-req", "-in", "csr.pem", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "1",
            "-extfile", "names", "-out", "certificate.pem")  # fmt: skip
    return {name: str(folder / f"{name}.pem") for name in ("ca", "key", "certificate")}


def server_context(certificates: dict[str, str], *, ask_client: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates["certificate"], certificates["key"])
    if ask_client:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(certificates["ca"])
    return context


def test_tls_verifies_the_server_and_keeps_the_connection(certificates: dict[str, str]) -> None:
    with Receiver(tls=server_context(certificates)) as receiver:
        url = receiver.url + "/v1/traces"
        trusting = HttpTransport(url, tls=TlsFiles(certificate=certificates["ca"]))
        strict = HttpTransport(url)
        for _ in range(3):
            assert trusting.post(b"", "application/x-protobuf", 2).status == 200
        with pytest.raises(ssl.SSLCertVerificationError):
            strict.post(b"", "application/x-protobuf", 2)
        receiver.behave(Reset(after="head"), times=1)
        assert trusting.post(b"", "application/x-protobuf", 2).status == 200
        receiver.behave(Slow(bytes_per_second=40))
        started = time.monotonic()
        with pytest.raises(TimeoutError):
            trusting.post(b"", "application/x-protobuf", 0.5)
        assert time.monotonic() - started < 2.5
        trusting.close()


def test_tls_shows_a_client_certificate_where_one_is_asked_for(certificates: dict[str, str]) -> None:
    with Receiver(tls=server_context(certificates, ask_client=True)) as receiver:
        url = receiver.url + "/v1/traces"
        files = TlsFiles(certificates["ca"], certificates["certificate"], certificates["key"])
        known = HttpTransport(url, tls=files)
        assert known.post(b"", "application/x-protobuf", 2).status == 200
        known.close()
        unknown = HttpTransport(url, tls=TlsFiles(certificates["ca"]))
        with pytest.raises((ssl.SSLError, ConnectionError)):
            unknown.post(b"", "application/x-protobuf", 2)


def test_three_signals_over_tls_and_a_wrong_authority_is_told(
    certificates: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import telemetry

    monkeypatch.setenv("SSL_CERT_FILE", certificates["ca"])  # where OpenSSL itself looks, for Loki
    with Receiver(tls=server_context(certificates)) as receiver:
        settings = {"service": "x", "stdout": "off", "linger": 0.02, "metrics_exporter": "none"}
        with telemetry.setup(
            **settings, otlp_endpoint=receiver.url, otlp_certificate=certificates["ca"], loki_url=receiver.url
        ) as tel:
            with telemetry.span("work"):
                logging.getLogger("app").warning("hello")
            assert tel.flush(30)
        assert (len(receiver.spans), len(receiver.lines)) == (1, 1)
        monkeypatch.delenv("SSL_CERT_FILE")
        with telemetry.setup(**settings, otlp_endpoint=receiver.url, shutdown_timeout=0.3) as tel:
            with telemetry.span("work"):
                pass
            assert not tel.flush(0.2)
            assert "CERTIFICATE_VERIFY_FAILED" in tel.health().sinks[0].last_error


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


@pytest.mark.parametrize(
    "details",
    [
        "grpc: received message larger than max (5242880 vs. 4194304)",
        "CLIENT: Received message larger than max (5242880 vs. 4194304)",
        "gRPC message exceeds maximum size 4194304: 5242880",
    ],
)
def test_a_grpc_request_that_is_too_large_is_split_as_one_over_http(details: str) -> None:
    """Without this a batch of fat spans was lost whole: RESOURCE_EXHAUSTED has no word for 413."""
    assert otlp.grpc_verdict("RESOURCE_EXHAUSTED", details, None).kind == "split"
