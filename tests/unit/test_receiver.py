"""The receiver that tests of ours and of users talk to: what it accepts, what it refuses, how it misbehaves."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import zlib
from typing import NamedTuple

import grpc
import pytest
from google.rpc.status_pb2 import Status as RpcStatus
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcSpanExporter
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import Link, SpanContext, SpanKind, StatusCode
from opentelemetry.trace import Status as SpanStatus

from telemetry.testing import (
    Blackhole,
    Hang,
    Partial,
    Raw,
    Receiver,
    Redirect,
    Refuse,
    RefuseRecord,
    Reset,
    Slow,
    Status,
)

LOKI = "/loki/api/v1/push"
PROMETHEUS = "/api/v1/import/prometheus"
JSON = {"Content-Type": "application/json"}
DAY_NS = 24 * 3600 * 10**9
HOUR_NS = 3600 * 10**9


@pytest.fixture
def receiver(telemetry_receiver):
    return telemetry_receiver


class Answer(NamedTuple):
    status: int
    body: bytes
    headers: dict[str, str]


def post(receiver, path, body, headers=JSON, *, timeout=30.0, **options) -> Answer:
    """One request on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", receiver.port, timeout=timeout)
    try:
        connection.request("POST", path, body, headers, **options)
        answer = connection.getresponse()
        return Answer(answer.status, answer.read(), dict(answer.headers))
    finally:
        connection.close()


def push(*entries, **labels) -> bytes:
    """A Loki push of one stream, entries as (ns, line[, metadata])."""
    return json.dumps(
        {"streams": [{"stream": labels or {"a": "b"}, "values": [[str(e[0]), *e[1:]] for e in entries]}]}
    ).encode()


def send(receiver, *lines, **options) -> Answer:
    now = time.time_ns()
    return post(receiver, LOKI, push(*((now + index, line) for index, line in enumerate(lines))), **options)


# OTLP


def record_a_span(exporter) -> None:
    provider = TracerProvider(resource=Resource({"service.name": "api"}))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("scope-of-test")
    link = Link(SpanContext(0xABC, 0xDEF, is_remote=True), {"why": "redelivery"})
    with tracer.start_as_current_span("parent"):
        attributes = {"s": "x", "i": 1, "f": 0.5, "b": True, "l": ("a", "b")}
        with tracer.start_as_current_span("child", kind=SpanKind.CLIENT, attributes=attributes, links=[link]) as span:
            span.add_event("happened", {"n": 1})
            span.set_status(SpanStatus(StatusCode.ERROR, "it broke"))
    provider.shutdown()


def check_the_span(receiver) -> None:
    child, parent = receiver.spans
    assert (parent.name, parent.parent_id, parent.kind, parent.status) == ("parent", "", "internal", "unset")
    assert (child.name, child.parent_id, child.kind) == ("child", parent.span_id, "client")
    assert child.trace_id == parent.trace_id
    assert len(child.trace_id) == 32
    assert child.attributes == {"s": "x", "i": 1, "f": 0.5, "b": True, "l": ["a", "b"]}
    assert (child.status, child.status_message) == ("error", "it broke")
    assert child.resource == {"service.name": "api"}
    assert child.scope == "scope-of-test"
    assert [(event.name, event.attributes) for event in child.events] == [("happened", {"n": 1})]
    assert [(link.trace_id, link.span_id) for link in child.links] == [(f"{0xABC:032x}", f"{0xDEF:016x}")]
    assert parent.start_ns <= child.start_ns <= child.end_ns <= parent.end_ns
    assert child.duration_ms == (child.end_ns - child.start_ns) / 1e6
    assert list(receiver.traces()) == [parent.trace_id]
    assert receiver.traces()[parent.trace_id] == [parent, child]


def test_spans_over_http(receiver):
    record_a_span(OTLPSpanExporter(f"{receiver.url}/v1/traces", headers={"X-Scope-OrgID": "tenant"}))
    check_the_span(receiver)
    request = receiver.requests[0]
    assert (request.method, request.path, request.status, request.protocol) == ("POST", "/v1/traces", 200, "http")
    assert request.headers["x-scope-orgid"] == "tenant"
    assert request.size == len(request.body)


def test_spans_over_grpc(receiver):
    record_a_span(GrpcSpanExporter(receiver.grpc_endpoint, insecure=True, headers=(("x-scope-orgid", "tenant"),)))
    check_the_span(receiver)
    request = receiver.requests[0]
    assert (request.path, request.status, request.protocol) == ("/v1/traces", 0, "grpc")
    assert request.headers["x-scope-orgid"] == "tenant"


SPAN_JSON = {
    "resourceSpans": [
        {
            "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "web"}}]},
            "scopeSpans": [
                {
                    "scope": {"name": "js"},
                    "spans": [
                        {
                            "traceId": "5b8efff798038103d269b633813fc60c",
                            "spanId": "EEE19B7EC3C1B174",
                            "parentSpanId": "",
                            "name": "fetch",
                            "kind": 3,
                            "startTimeUnixNano": "1544712660000000000",
                            "endTimeUnixNano": "1544712661000000000",
                            "attributes": [
                                {
                                    "key": "m",
                                    "value": {"kvlistValue": {"values": [{"key": "k", "value": {"intValue": "7"}}]}},
                                },
                                {"key": "none", "value": {}},
                            ],
                            "unknownField": 1,
                        }
                    ],
                }
            ],
        }
    ]
}


@pytest.mark.parametrize("encoding", ["", "identity", "gzip", "deflate"])
@pytest.mark.parametrize("chunked", [False, True])
def test_spans_in_json_however_packed(receiver, encoding, chunked):
    packed = {"gzip": gzip.compress, "deflate": zlib.compress}.get(encoding, bytes)(json.dumps(SPAN_JSON).encode())
    headers = JSON | ({"Content-Encoding": encoding} if encoding else {})
    if chunked:
        middle = len(packed) // 2
        answer = post(receiver, "/v1/traces", iter([packed[:middle], packed[middle:]]), headers, encode_chunked=True)
    else:
        answer = post(receiver, "/v1/traces", packed, headers)
    assert (answer.status, answer.body) == (200, b"{}")
    assert answer.headers["Content-Type"] == "application/json"
    [span] = receiver.spans
    assert (span.trace_id, span.span_id, span.kind) == (
        "5b8efff798038103d269b633813fc60c",
        "eee19b7ec3c1b174",
        "client",
    )
    assert span.attributes == {"m": {"k": 7}, "none": None}
    assert span.duration_ms == 1000
    [request] = receiver.requests
    assert request.body == packed
    assert json.loads(request.content) == SPAN_JSON


def test_log_records_over_http(receiver):
    provider = LoggerProvider(resource=Resource({"service.name": "api"}))
    provider.add_log_record_processor(SimpleLogRecordProcessor(OTLPLogExporter(f"{receiver.url}/v1/logs")))
    logger = provider.get_logger("l")
    logger.emit(LogRecord(timestamp=7, body="a line", severity_text="WARN", severity_number=SeverityNumber.WARN))
    logger.emit(LogRecord(timestamp=8, body={"a": [1, None]}, attributes={"k": "v"}))
    provider.shutdown()
    first, second = receiver.lines
    assert (first.line, first.timestamp_ns, first.source) == ("a line", 7, "otlp")
    assert (first.severity, first.severity_number, first.labels) == ("WARN", 13, {"service.name": "api"})
    assert json.loads(second.line) == {"a": [1, None]}
    assert second.attributes == {"k": "v"}


def test_otlp_metrics_become_the_samples_that_prometheus_would_show(receiver):
    exporter = OTLPMetricExporter(f"{receiver.url}/v1/metrics")
    reader = PeriodicExportingMetricReader(exporter, export_interval_millis=60_000)
    provider = MeterProvider([reader], resource=Resource({"service.name": "api"}))
    meter = provider.get_meter("m")
    meter.create_counter("jobs").add(3, {"tag": "a"})
    meter.create_histogram("wait", explicit_bucket_boundaries_advisory=[0.5, 2.0]).record(1.0)
    provider.shutdown()
    samples = {(s.name, *s.labels.values()): s.value for s in receiver.samples}
    assert samples == {
        ("jobs", "a"): 3.0,
        ("wait_bucket", "0.5"): 0.0,
        ("wait_bucket", "2.0"): 1.0,
        ("wait_bucket", "+Inf"): 1.0,
        ("wait_sum",): 1.0,
        ("wait_count",): 1.0,
    }
    assert receiver.counts.samples == 6
    assert receiver.samples[0].resource == {"service.name": "api"}
    assert abs(receiver.samples[0].timestamp_ms / 1000 - time.time()) < 60


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"\xff\xff\xff", {"Content-Type": "application/x-protobuf"}, 400),
        (b"[]", JSON, 400),
        (b"{", JSON, 400),
        (b'{"resourceSpans": 1}', JSON, 400),
        (b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "zz"}]}]}]}', JSON, 400),
        (b"", {"Content-Type": "text/plain"}, 415),
        (b"{}", JSON | {"Content-Encoding": "br"}, 400),
        (b"no gzip", JSON | {"Content-Encoding": "gzip"}, 400),
        (gzip.compress(b"{}")[:-4], JSON | {"Content-Encoding": "gzip"}, 400),
    ],
)
def test_what_otlp_refuses(receiver, body, headers, status):
    answer = post(receiver, "/v1/traces", body, headers)
    assert answer.status == status
    assert answer.body
    assert receiver.requests[0].status == status


def test_loki_has_an_otlp_endpoint_that_answers_204(receiver):
    assert post(receiver, "/otlp/v1/logs", b"", {"Content-Type": "application/x-protobuf"}).status == 204


def test_other_paths_and_methods(receiver):
    assert post(receiver, "/v2/spans", b"").status == 404
    with pytest.raises(urllib.error.HTTPError, match="405") as refused:
        urllib.request.urlopen(receiver.url + LOKI, timeout=30)
    refused.value.close()


# Loki


def test_a_push_with_structured_metadata(receiver):
    now = time.time_ns()
    metadata = {"trace_id": "ab", "level": "warn", "k8s.pod": "p\ufffdq"}
    body = push((now, "한글 😀", metadata), (now, "second"), service_name="api")
    answer = post(receiver, LOKI, gzip.compress(body), JSON | {"Content-Encoding": "gzip"})
    assert answer.status == 204
    assert answer.body == b""
    first, second = receiver.lines
    assert (first.line, first.timestamp_ns, first.labels) == ("한글 😀", now, {"service_name": "api"})
    assert first.attributes == {"trace_id": "ab", "level": "warn", "k8s_pod": "p q"}
    assert (first.trace_id, first.severity, first.source) == ("ab", "warn", "loki")
    assert (second.line, second.attributes) == ("second", {})


@pytest.mark.parametrize(
    "value",
    [
        '["1", "line", {"n": 1}]',
        '["1", "line", {"o": {}}]',
        '["1", "line", {"n": null}]',
        '["1", "line", "metadata"]',
        '["1", "line", {"k": "\\ud83d"}]',
        '["1", "cut emoji \\ud83d"]',
        '["1", 2]',
        '[1, "line"]',
        '["1.5", "line"]',
        '["", "line"]',
    ],
)
def test_one_bad_entry_has_the_whole_push_refused(receiver, value):
    now = time.time_ns()
    body = f'{{"streams": [{{"stream": {{"a": "b"}}, "values": [["{now}", "fine"], {value}]}}]}}'
    assert post(receiver, LOKI, body.encode()).status == 400
    assert receiver.lines == []


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"{}", JSON, 422),
        (b'{"streams": []}', JSON, 422),
        (b'{"streams": [{"stream": {"a": "b"}}]}', JSON, 204),
        (b'{"streams": [{"stream": {"a": "b"}, "values": []}]}', JSON, 204),
        (b'{"streams": [{"stream": {"a.b": "c"}, "values": []}]}', JSON, 400),
        (b"no json", JSON, 400),
        (b"[" * 100_000, JSON, 400),
        (b"{}", {"Content-Type": "application/x-protobuf"}, 400),
        (b"{}", {}, 400),
        (b"{}", JSON | {"Content-Encoding": "zstd"}, 400),
        (b"{}", JSON | {"Content-Encoding": "gzip"}, 400),
    ],
)
def test_pushes_without_entries(receiver, body, headers, status):
    assert post(receiver, LOKI, body, headers).status == status


def test_raw_bytes_that_are_no_utf8_are_taken(receiver):
    body = push((time.time_ns(), "XX")).replace(b"XX", b"\xff")
    assert post(receiver, LOKI, body).status == 204
    assert receiver.lines[0].line == "\ufffd"


def test_entries_that_are_too_old_are_refused_and_the_others_stored(receiver):
    now = time.time_ns()
    answer = post(receiver, LOKI, push((now, "a"), (now - 8 * DAY_NS, "old"), (now + HOUR_NS, "early"), (now + 1, "b")))
    assert answer.status == 400
    assert b"timestamp too old" in answer.body
    assert b"timestamp too new" in answer.body
    assert b"total ignored" not in answer.body
    assert [line.line for line in receiver.lines] == ["a", "b"]


def test_entries_far_behind_the_newest_of_their_stream_are_counted_in_the_answer(receiver):
    now = time.time_ns()
    assert post(receiver, LOKI, push((now, "newest"))).status == 204
    answer = post(
        receiver, LOKI, push((now - 2 * HOUR_NS, "x"), (now - HOUR_NS // 2, "fine"), (now - 3 * HOUR_NS, "y"))
    )
    assert answer.status == 400
    assert b"entry too far behind" in answer.body
    assert b'total ignored: 2 out of 3 for stream: {a="b"}' in answer.body
    assert [line.line for line in receiver.lines] == ["newest", "fine"]
    assert post(receiver, LOKI, push((now - 2 * HOUR_NS, "x"), a="other")).status == 204
    receiver.clear()
    assert post(receiver, LOKI, push((now - 2 * HOUR_NS, "x"))).status == 204


def test_loki_hides_a_stream_that_lost_entries_behind_a_later_one_that_did_not(receiver):
    now = time.time_ns()
    behind = {"stream": {"a": "1"}, "values": [[str(now), "x"], [str(now - 2 * HOUR_NS), "lost"]]}
    fine = {"stream": {"a": "2"}, "values": [[str(now), "y"]]}
    assert post(receiver, LOKI, json.dumps({"streams": [fine, behind]})).status == 400
    assert post(receiver, LOKI, json.dumps({"streams": [behind, fine]})).status == 204
    assert "lost" not in {line.line for line in receiver.lines}


def test_age_is_judged_by_the_receivers_clock():
    with Receiver(clock=lambda: 1_000_000.0) as receiver:
        assert post(receiver, LOKI, push((1_000_000 * 10**9, "then"))).status == 204
        assert post(receiver, LOKI, push((time.time_ns(), "now"))).status == 400
        assert receiver.requests[0].time == 1_000_000.0


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (lambda now: push((now, "x" * (256 * 1024 + 1))), b"max entry size '262144' bytes exceeded"),
        (
            lambda now: push((now, "x", {f"k{n}": "v" for n in range(129)})),
            b"too many structured metadata labels: '129'",
        ),
        (lambda now: push((now, "x", {"k": "v" * 65536})), b"structured metadata too large: '65537' bytes"),
        (lambda now: push((now, "x"), **{f"l{n}": "v" for n in range(16)}), b"has 16 label names; limit 15"),
        (lambda now: push((now, "x"), l="v" * 2049), b"label value too long"),
        (lambda now: push((now, "x"), **{"l" * 1025: "v"}), b"label name too long"),
    ],
)
def test_limits(receiver, body, said):
    answer = post(receiver, LOKI, body(time.time_ns()))
    assert answer.status == 400
    assert said in answer.body
    assert receiver.lines == []


# Prometheus text


def test_prometheus_text(receiver):
    text = (
        "# TYPE jobs_total counter\n"
        'jobs_total{tag="a\\"b\\\\c\\nd",other="},"} 3 1700000000123\n'
        "up 1\r\n"
        "  gone NaN -5 \n"
        'empty{} +Inf # {trace_id="x"} 1\n'
        "{broken} 1\nalso broken\nnovalue x\n\n"
    )
    before = int(time.time() * 1000)
    answer = post(receiver, PROMETHEUS + "?extra_label=job=api&extra_label=tag2=x%3Dy", text, {})
    assert answer.status == 204
    jobs, up, gone, empty = receiver.samples
    assert jobs.labels == {"tag": 'a"b\\c\nd', "other": "},", "job": "api", "tag2": "x=y"}
    assert (jobs.name, jobs.value, jobs.timestamp_ms, jobs.source) == ("jobs_total", 3.0, 1700000000123, "prometheus")
    assert before <= up.timestamp_ms <= before + 5000
    assert gone.value != gone.value
    assert gone.timestamp_ms == -5
    assert empty.value == float("inf")
    assert receiver.skipped == ["{broken} 1", "also broken", "novalue x"]


def test_a_timestamp_in_the_url_stands_for_missing_ones(receiver):
    assert post(receiver, PROMETHEUS + "?timestamp=42", b"a 1\nb 2 43\n", {}).status == 204
    assert [sample.timestamp_ms for sample in receiver.samples] == [42, 43]
    assert post(receiver, PROMETHEUS, b"x", {"Content-Encoding": "br"}).status == 400


# Waiting


def test_wait_for_returns_once_enough_has_come(receiver):
    threading.Timer(0.05, send, (receiver, "a", "b")).start()
    assert receiver.wait_for(lines=2)
    assert receiver.wait_for(lambda r: r.lines[-1].line == "b", requests=1)
    assert receiver.counts.lines == 2


def test_wait_for_says_what_did_arrive(receiver):
    send(receiver, "a")
    with pytest.raises(
        TimeoutError, match=r"waited 0.05 s for 2 lines .*1 requests with 0 spans, 1 lines.*answered 204"
    ):
        receiver.wait_for(lambda _: False, lines=2, timeout=0.05)


def test_clear_forgets_what_came_and_keeps_the_faults(receiver):
    receiver.behave(Status(503), times=2)
    send(receiver, "a")
    receiver.clear()
    assert receiver.counts.requests == 0
    assert receiver.requests == []
    assert send(receiver, "a").status == 503
    assert send(receiver, "a").status == 204


# Faults


def test_a_status_with_retry_after(receiver):
    receiver.behave(Status(429, retry_after=1.5, body="slow down", headers={"X-Why": "rate"}), times=1)
    answer = send(receiver, "a")
    assert (answer.status, answer.body) == (429, b"slow down")
    assert (answer.headers["Retry-After"], answer.headers["X-Why"]) == ("1.5", "rate")
    receiver.behave(Status(503, retry_after="Wed, 21 Oct 2099 07:28:00 GMT"))
    assert send(receiver, "a").headers["Retry-After"] == "Wed, 21 Oct 2099 07:28:00 GMT"
    assert receiver.lines == []
    assert [request.status for request in receiver.requests] == [429, 503]


def test_a_status_may_come_from_a_backend_that_stored_the_request(receiver):
    receiver.behave(Status(500, keep=True))
    assert send(receiver, "a").status == 500
    assert [line.line for line in receiver.lines] == ["a"]


def test_faults_are_worked_off_in_order(receiver):
    receiver.behave(Status(503), times=2)
    receiver.behave(Status(429), times=1)
    assert [send(receiver, "a").status for _ in range(4)] == [503, 503, 429, 204]


def test_a_lasting_fault_gives_way_to_the_next(receiver):
    first = receiver.behave(Status(503))
    assert send(receiver, "a").status == 503
    receiver.behave(Status(500), times=1)
    assert [send(receiver, "a").status for _ in range(2)] == [500, 204]
    assert first.used == 1


def test_a_fault_for_one_path_leaves_the_others_alone(receiver):
    receiver.behave(Status(503), path=PROMETHEUS)
    receiver.behave(Status(500), path="/v1/traces")
    assert send(receiver, "a").status == 204
    assert post(receiver, PROMETHEUS, b"a 1").status == 503
    assert post(receiver, "/v1/traces", b"{}").status == 500
    receiver.recover()
    assert post(receiver, PROMETHEUS, b"a 1").status == 204


def test_a_fault_ends_with_its_block(receiver):
    with receiver.behave(Status(503)) as step:
        assert send(receiver, "a").status == 503
    assert send(receiver, "a").status == 204
    assert step.used == 1
    step.end()


@pytest.mark.parametrize("fault", [Refuse(), Blackhole()])
def test_a_port_fault_takes_neither_times_nor_path(receiver, fault):
    with pytest.raises(ValueError, match="takes neither times nor path"):
        receiver.behave(fault, times=1)
    with pytest.raises(ValueError, match="takes neither times nor path"):
        receiver.behave(fault, path=LOKI)
    with pytest.raises(ValueError, match="at least 1"):
        receiver.behave(Status(503), times=0)


def test_a_refused_port_comes_back(receiver):
    port = receiver.port
    kept = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    kept.request("POST", LOKI, b"{}", JSON)
    kept.getresponse().read()
    with receiver.behave(Refuse()):
        with contextlib.suppress(ConnectionResetError):
            assert kept.sock.recv(1) == b""
        with pytest.raises(ConnectionRefusedError):
            send(receiver, "a")
    kept.close()
    assert receiver.port == port
    assert send(receiver, "a").status == 204
    receiver.behave(Refuse())
    receiver.behave(Status(503))
    assert send(receiver, "a").status == 503
    receiver.behave(Refuse())
    receiver.recover()
    receiver.recover()
    assert send(receiver, "a").status == 204


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux drops a SYN when the accept queue is full")
def test_a_black_hole_lets_connect_hang(receiver):
    receiver.behave(Blackhole())
    with pytest.raises(TimeoutError):
        socket.create_connection(("127.0.0.1", receiver.port), timeout=0.3)
    receiver.recover()
    assert send(receiver, "a").status == 204


@pytest.mark.parametrize("after", ["head", "body", "answer"])
def test_a_reset_is_a_real_one(receiver, after):
    receiver.behave(Reset(after=after), times=1)
    with pytest.raises(ConnectionResetError):
        send(receiver, "a")
    assert receiver.lines == []
    assert send(receiver, "b").status == 204


def test_a_reset_may_come_after_storing(receiver):
    receiver.behave(Reset(keep=True), times=1)
    with pytest.raises(ConnectionResetError):
        send(receiver, "a")
    assert [line.line for line in receiver.lines] == ["a"]
    assert receiver.requests[0].status == -1


def test_a_hung_request_is_seen_and_never_answered(receiver):
    step = receiver.behave(Hang())
    with pytest.raises(TimeoutError):
        send(receiver, "a", timeout=0.2)
    assert receiver.wait_for(requests=1)
    assert receiver.lines == []
    step.end()
    assert send(receiver, "b").status == 204


def test_a_hang_may_last_some_seconds_or_block_the_sender(receiver):
    receiver.behave(Hang(seconds=0.1), times=1)
    with pytest.raises(http.client.RemoteDisconnected):
        send(receiver, "a")
    receiver.behave(Hang(at="body"), times=1)
    with pytest.raises(TimeoutError):
        send(receiver, "x" * 32_000_000, timeout=0.2)
    assert receiver.counts.requests == 1


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_holds_no_connection_open(receiver):
    with socket.create_connection(("127.0.0.1", receiver.port), timeout=30) as connection:
        post(receiver, PROMETHEUS, b"a 1\n")
        child = os.fork()
        if not child:
            time.sleep(50)
            os._exit(0)
        try:
            receiver.behave(Reset(), times=1)
            connection.sendall(b"POST / HTTP/1.1\r\n\r\n")
            with pytest.raises(ConnectionResetError):
                connection.recv(1)
            receiver.close()
            with pytest.raises(ConnectionRefusedError):
                send(receiver, "a")
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def test_a_hung_request_is_cut_by_recover(receiver):
    receiver.behave(Hang())
    threading.Timer(0.1, receiver.recover).start()
    with pytest.raises(http.client.RemoteDisconnected):
        send(receiver, "a")


@pytest.mark.parametrize("fault", [Hang(), Hang(at="body"), Slow(1), Refuse(), Blackhole()])
def test_close_waits_for_nobody(fault):
    if isinstance(fault, Blackhole) and not sys.platform.startswith("linux"):
        pytest.skip("only Linux drops a SYN when the accept queue is full")
    receiver = Receiver()
    receiver.behave(fault)
    if not isinstance(fault, Refuse | Blackhole):
        idle = socket.create_connection(("127.0.0.1", receiver.port))
        busy = socket.create_connection(("127.0.0.1", receiver.port))
        busy.sendall(b"POST /loki/api/v1/push HTTP/1.1\r\nContent-Length: 100\r\n\r\n" + b"x" * 50)
        time.sleep(0.05)
    start = time.monotonic()
    receiver.close()
    receiver.close()
    assert time.monotonic() - start < 10.0
    if not isinstance(fault, Refuse | Blackhole):
        idle.close()
        busy.close()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", receiver.port), timeout=1)


def test_a_redirect(receiver):
    receiver.behave(Redirect("http://elsewhere.example/x", status=302))
    answer = send(receiver, "a")
    assert (answer.status, answer.headers["Location"]) == (302, "http://elsewhere.example/x")
    assert receiver.lines == []


def test_slow_is_about_both_directions(receiver):
    receiver.behave(Slow(2000), times=1)
    start = time.monotonic()
    body = push((time.time_ns(), "x" * 500))
    assert post(receiver, LOKI, body).status == 204
    assert time.monotonic() - start > len(body) / 2000


def test_raw_answers(receiver):
    receiver.behave(Raw(b"SSH-2.0-OpenSSH\r\n"), times=1)
    with pytest.raises(http.client.BadStatusLine):
        send(receiver, "a")
    receiver.behave(Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort"), times=1)
    with pytest.raises(http.client.IncompleteRead):
        send(receiver, "a")
    assert receiver.lines == []


def spans_json(*names) -> bytes:
    spans = [{"name": name, "traceId": "0" * 31 + "1", "spanId": "0" * 15 + "1"} for name in names]
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode()


def test_partial_success_over_otlp(receiver):
    receiver.behave(Partial(rejected=2, message="quota"), times=1)
    answer = post(receiver, "/v1/traces", spans_json("a", "b", "c"))
    assert answer.status == 200
    assert json.loads(answer.body) == {"partialSuccess": {"rejectedSpans": "2", "errorMessage": "quota"}}
    assert [span.name for span in receiver.spans] == ["a"]
    receiver.behave(Partial(rejected=0, message="just a warning"), times=1)
    request = ExportTraceServiceRequest().SerializeToString()
    answer = post(receiver, "/v1/traces", request, {"Content-Type": "application/x-protobuf"})
    warning = ExportTraceServiceResponse.FromString(answer.body).partial_success
    assert (warning.rejected_spans, warning.error_message) == (0, "just a warning")


def test_partial_success_of_the_others(receiver):
    receiver.behave(Partial(rejected=1))
    answer = send(receiver, "a", "b", "c")
    assert answer.status == 400
    assert b"total ignored: 1 out of 3" in answer.body
    assert [line.line for line in receiver.lines] == ["a", "b"]
    assert post(receiver, PROMETHEUS, b"a 1\nb 2\n").status == 204
    assert [sample.name for sample in receiver.samples] == ["a"]
    assert json.loads(post(receiver, "/v1/logs", b"{}").body) == {
        "partialSuccess": {"errorMessage": "refused by the test"}
    }


def test_a_record_that_poisons_its_request(receiver):
    receiver.behave(
        RefuseRecord(lambda record: getattr(record, "name", None) == "bad" or "bad" in getattr(record, "line", ""))
    )
    assert send(receiver, "a", "bad", "c").status == 400
    assert send(receiver, "a", "c").status == 204
    assert post(receiver, "/v1/traces", spans_json("bad")).status == 400
    assert post(receiver, "/v1/traces", spans_json("good")).status == 200
    assert post(receiver, PROMETHEUS, b"bad 1").status == 400
    assert (len(receiver.lines), len(receiver.spans), len(receiver.samples)) == (2, 1, 0)


def test_a_predicate_that_raises_is_the_tests_to_hear():
    receiver = Receiver()
    receiver.behave(RefuseRecord(lambda record: 1 / 0))
    with pytest.raises(http.client.RemoteDisconnected):
        send(receiver, "a")
    with pytest.raises(RuntimeError, match="the receiver failed") as failure:
        receiver.wait_for(lines=1)
    assert isinstance(failure.value.__cause__, ZeroDivisionError)
    with pytest.raises(http.client.RemoteDisconnected):
        send(receiver, "a")
    with pytest.raises(RuntimeError, match="the receiver failed"), receiver:
        pass


# gRPC


@pytest.fixture
def stub(receiver):
    channel = grpc.insecure_channel(receiver.grpc_endpoint.removeprefix("http://"))
    yield channel.unary_unary("/opentelemetry.proto.collector.trace.v1.TraceService/Export")
    channel.close()


def export(stub, *names, timeout=30.0) -> ExportTraceServiceResponse:
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    for name in names:
        scope.spans.add(name=name)
    return ExportTraceServiceResponse.FromString(stub(request.SerializeToString(), timeout=timeout))


@pytest.mark.parametrize(
    ("http_status", "code"),
    [
        (400, grpc.StatusCode.INVALID_ARGUMENT),
        (429, grpc.StatusCode.RESOURCE_EXHAUSTED),
        (503, grpc.StatusCode.UNAVAILABLE),
        (418, grpc.StatusCode.UNKNOWN),
    ],
)
def test_a_status_over_grpc(receiver, stub, http_status, code):
    receiver.behave(Status(http_status, retry_after=1.5, body="not now"), path="/v1/traces")
    with pytest.raises(grpc.RpcError) as refused:
        export(stub, "a")
    assert (refused.value.code(), refused.value.details()) == (code, "not now")
    details = dict(refused.value.trailing_metadata())["grpc-status-details-bin"]
    assert b"RetryInfo" in RpcStatus.FromString(details).details[0].type_url.encode()
    assert receiver.requests[0].status == code.value[0]
    assert receiver.spans == []


def test_faults_over_grpc(receiver, stub):
    receiver.behave(Partial(rejected=1, message="quota"), times=1)
    assert export(stub, "a", "b").partial_success.rejected_spans == 1
    assert [span.name for span in receiver.spans] == ["a"]
    receiver.behave(RefuseRecord(lambda span: span.name == "bad"), times=1)
    with pytest.raises(grpc.RpcError, match="a record was refused by the test"):
        export(stub, "bad")
    receiver.behave(Reset(), times=1)
    with pytest.raises(grpc.RpcError, match="UNAVAILABLE"):
        export(stub, "a")
    receiver.behave(Hang(), times=1)
    with pytest.raises(grpc.RpcError, match="DEADLINE_EXCEEDED"):
        export(stub, "a", timeout=0.2)
    with pytest.raises(grpc.RpcError, match="INVALID_ARGUMENT"):
        stub(b"\xff\xff", timeout=30)
    with receiver.behave(Refuse()), pytest.raises(grpc.RpcError, match="UNAVAILABLE"):
        export(stub, "a", timeout=30.0)
    assert [request.status for request in receiver.requests] == [0, 3, 14, -1, 3]


def test_close_waits_for_no_grpc_call():
    with Receiver() as receiver:
        channel = grpc.insecure_channel(receiver.grpc_endpoint.removeprefix("http://"))
        receiver.behave(Hang())
        method = channel.unary_unary("/opentelemetry.proto.collector.logs.v1.LogsService/Export")
        pending = method.future(b"", timeout=50)
        receiver.wait_for(requests=1)
        start = time.monotonic()
    assert time.monotonic() - start < 20.0
    assert pending.exception() is not None
    channel.close()


# The rest


def test_settings_and_environment_point_here(receiver):
    assert set(receiver.settings().values()) == {receiver.url} == set(receiver.environ().values())


def test_keep_and_limit():
    with Receiver(keep="records", limit=3) as receiver:
        for number in range(5):
            send(receiver, f"{number}a", f"{number}b")
        assert [line.line for line in receiver.lines] == ["3b", "4a", "4b"]
        assert receiver.requests == []
        assert receiver.counts.lines == 10
    with Receiver(keep="counts") as receiver:
        send(receiver, "a")
        assert receiver.counts.lines == 1
        assert receiver.lines == []


def test_pipelined_and_kept_connections(receiver):
    with socket.create_connection(("127.0.0.1", receiver.port), timeout=30) as connection:
        one = b"POST /api/v1/import/prometheus HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\na 1\n"
        connection.sendall(one * 3)
        receiver.wait_for(samples=3)
        connection.sendall(one.replace(b"Host: x", b"Expect: 100-continue"))
        receiver.wait_for(samples=4)
        connection.sendall(one.replace(b"Host: x", b"Connection: close"))
        answers = b""
        while data := connection.recv(65536):
            answers += data
    assert answers.count(b"HTTP/1.1 204 No Content") == 5
    assert answers.count(b"100 Continue") == 1


@pytest.mark.parametrize(
    "garbage", [b"\x16\x03\x01\x02\x00", b"GET\r\n\r\n", b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n", b"\r\n\r\n"]
)
def test_what_is_no_http_is_hung_up_on(receiver, garbage):
    with socket.create_connection(("127.0.0.1", receiver.port), timeout=30) as connection:
        connection.sendall(garbage)
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(100) == b""
    assert send(receiver, "a").status == 204


def test_a_sender_that_goes_away_in_the_middle_leaves_no_trace(receiver):
    with socket.create_connection(("127.0.0.1", receiver.port), timeout=30) as connection:
        connection.sendall(b"POST /loki/api/v1/push HTTP/1.1\r\nContent-Length: 100\r\n\r\nhalf")
    assert send(receiver, "a").status == 204
    assert receiver.counts.requests == 1


def test_tls(tmp_path):
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=127.0.0.1",
         "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
        check=False, capture_output=True,
    )  # fmt: skip
    if made.returncode:
        pytest.skip("openssl is not there to make a certificate: install openssl")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key)
    with Receiver(tls=server) as receiver:
        assert receiver.url.startswith("https://")
        client = ssl.create_default_context(cafile=certificate)
        request = urllib.request.Request(receiver.url + LOKI, push((time.time_ns(), "secret")), JSON)
        with urllib.request.urlopen(request, timeout=30, context=client) as answer:
            assert answer.status == 204
        with pytest.raises(urllib.error.URLError):
            urllib.request.urlopen(receiver.url, timeout=30)
        assert [line.line for line in receiver.lines] == ["secret"]


def test_many_senders_at_once(receiver):
    def work(number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", receiver.port, timeout=30)
        for index in range(50):
            connection.request("POST", PROMETHEUS, f'm{{sender="{number}"}} {index}\n')
            connection.getresponse().read()
        connection.close()

    senders = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    assert receiver.counts.samples == 400
    for number in range(8):
        values = [sample.value for sample in receiver.samples if sample.labels["sender"] == str(number)]
        assert values == [float(index) for index in range(50)]
