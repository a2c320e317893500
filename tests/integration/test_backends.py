"""Each backend is up and understands a record made by hand, so that what other tests read there means something."""

from __future__ import annotations

import json
import time
import uuid
from pathlib import Path

import grpc
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

from tests.backends.process import eventually, request
from tests.backends.servers import Collector, NodeExporter, VictoriaLogs, VictoriaMetrics
from tests.backends.stack import Loki, Tempo

PROTOBUF = {"Content-Type": "application/x-protobuf"}
EXPORT_TRACES = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


@pytest.fixture
def service() -> str:
    """A service name that no other test uses."""
    return f"svc-{uuid.uuid4().hex[:12]}"


def resource(service: str) -> Resource:
    return Resource(attributes=[KeyValue(key="service.name", value=AnyValue(string_value=service))])


def trace(service: str, trace_id: str) -> ExportTraceServiceRequest:
    now = time.time_ns()
    span = Span(
        name="GET /hello",
        trace_id=bytes.fromhex(trace_id),
        span_id=bytes.fromhex("00f067aa0ba902b7"),
        parent_span_id=bytes.fromhex("1111111111111111"),
        kind=Span.SPAN_KIND_SERVER,
        start_time_unix_nano=now - 5_000_000,
        end_time_unix_nano=now,
        status=Status(code=Status.STATUS_CODE_ERROR, message="고장"),
        attributes=[
            KeyValue(key="http.route", value=AnyValue(string_value="/hello")),
            KeyValue(key="http.response.status_code", value=AnyValue(int_value=500)),
        ],
    )
    spans = ResourceSpans(resource=resource(service), scope_spans=[ScopeSpans(spans=[span])])
    return ExportTraceServiceRequest(resource_spans=[spans])


def assert_is_that_span(found: list, trace_id: str) -> None:
    [span] = found
    assert (span.trace_id, span.span_id, span.parent_id) == (trace_id, "00f067aa0ba902b7", "1" * 16)
    assert (span.name, span.kind, span.status, span.status_message) == ("GET /hello", "SERVER", "ERROR", "고장")
    assert span.attributes == {"http.route": "/hello", "http.response.status_code": 500}
    assert span.end - span.start == 5_000_000


def send_by_grpc(endpoint: str, message: ExportTraceServiceRequest) -> None:
    with grpc.insecure_channel(endpoint.removeprefix("http://")) as channel:
        call = channel.unary_unary(
            EXPORT_TRACES,
            request_serializer=ExportTraceServiceRequest.SerializeToString,
            response_deserializer=ExportTraceServiceResponse.FromString,
        )
        call(message, timeout=10)


def test_victoria_metrics_answers_a_query_about_an_imported_sample(
    victoria_metrics: VictoriaMetrics, service: str
) -> None:
    victoria_metrics.push(f'jobs_done_total{{job="{service}",instance="i1"}} 42 {time.time_ns() // 1_000_000}\n')
    [sample] = victoria_metrics.query(f'jobs_done_total{{job="{service}"}}')
    assert sample.value == 42
    assert sample.labels == {"__name__": "jobs_done_total", "job": service, "instance": "i1"}
    assert victoria_metrics.series(f'{{job="{service}"}}') == [sample.labels]


def test_victoria_metrics_scrapes_what_it_is_pointed_at(victoria_metrics: VictoriaMetrics, service: str) -> None:
    address = victoria_metrics.url.removeprefix("http://")
    with victoria_metrics.scraping(address, service):
        found = eventually(lambda: victoria_metrics.query(f'up{{job="{service}"}}'))
    assert [(sample.labels["instance"], sample.value) for sample in found] == [(address, 1)]


def test_victoria_logs_reads_a_loki_push_with_structured_metadata(victoria_logs: VictoriaLogs, service: str) -> None:
    line = 'level=info msg="안녕 🙂" user="a b"'
    entry = [str(time.time_ns()), line, {"trace_id": "4bf92f3577b34da6a3ce929d0e0e4736"}]
    body = json.dumps({"streams": [{"stream": {"service_name": service}, "values": [entry]}]}).encode()
    request("POST", victoria_logs.push_url, body, {"Content-Type": "application/json"}).ok()

    [record] = victoria_logs.query(f'{{service_name="{service}"}}')
    assert record["_msg"] == line
    assert record["trace_id"] == "4bf92f3577b34da6a3ce929d0e0e4736"
    [record] = victoria_logs.query(f'{{service_name="{service}"}} | unpack_logfmt')
    assert (record["msg"], record["user"]) == ("안녕 🙂", "a b")


def test_victoria_logs_leaves_a_json_line_whole(victoria_logs: VictoriaLogs, service: str) -> None:
    line = '{"level":"info","msg":"hello"}'
    body = {"streams": [{"stream": {"service_name": service}, "values": [[str(time.time_ns()), line]]}]}
    request("POST", victoria_logs.push_url, json.dumps(body).encode(), {"Content-Type": "application/json"}).ok()
    [record] = victoria_logs.query(f'{{service_name="{service}"}}')
    assert record["_msg"] == line


def test_the_collector_reads_a_trace_over_http(otelcol: Collector, service: str) -> None:
    trace_id = uuid.uuid4().hex
    message = trace(service, trace_id).SerializeToString()
    request("POST", f"{otelcol.http_endpoint}/v1/traces", message, PROTOBUF).ok()
    assert_is_that_span(eventually(lambda: otelcol.spans(service)), trace_id)


def test_the_collector_reads_a_trace_over_grpc(otelcol: Collector, service: str) -> None:
    trace_id = uuid.uuid4().hex
    send_by_grpc(otelcol.grpc_endpoint, trace(service, trace_id))
    assert_is_that_span(eventually(lambda: otelcol.spans(service)), trace_id)


def test_the_collector_reads_a_log_record(otelcol: Collector, service: str) -> None:
    record = LogRecord(
        time_unix_nano=time.time_ns(),
        severity_number=17,
        severity_text="ERROR",
        body=AnyValue(string_value="level=error msg=boom"),
        trace_id=bytes.fromhex("4bf92f3577b34da6a3ce929d0e0e4736"),
    )
    group = ResourceLogs(resource=resource(service), scope_logs=[ScopeLogs(log_records=[record])])
    message = ExportLogsServiceRequest(resource_logs=[group]).SerializeToString()
    request("POST", f"{otelcol.http_endpoint}/v1/logs", message, PROTOBUF).ok()
    [log] = eventually(lambda: otelcol.logs(service))
    assert (log.body, log.severity, log.severity_text) == ("level=error msg=boom", 17, "ERROR")
    assert (log.trace_id, log.span_id) == ("4bf92f3577b34da6a3ce929d0e0e4736", "")


def test_the_collector_reads_a_metric(otelcol: Collector, service: str) -> None:
    point = NumberDataPoint(as_int=7, time_unix_nano=time.time_ns(), start_time_unix_nano=time.time_ns())
    total = Sum(data_points=[point], is_monotonic=True, aggregation_temporality=2)
    group = ResourceMetrics(
        resource=resource(service),
        scope_metrics=[ScopeMetrics(metrics=[Metric(name="jobs.done", unit="1", sum=total)])],
    )
    message = ExportMetricsServiceRequest(resource_metrics=[group]).SerializeToString()
    request("POST", f"{otelcol.http_endpoint}/v1/metrics", message, PROTOBUF).ok()
    [found] = eventually(lambda: otelcol.metrics(service))
    assert (found.name, found.kind, found.value, found.monotonic, found.temporality) == ("jobs.done", "sum", 7, True, 2)


def test_node_exporter_tells_the_memory_of_this_host(node_exporter: NodeExporter) -> None:
    exposition = request("GET", f"http://{node_exporter.address}/metrics").ok().text
    (total,) = [line for line in exposition.splitlines() if line.startswith("node_memory_MemTotal_bytes ")]
    kilobytes = Path("/proc/meminfo").read_text().split("\n", 1)[0].split()[1]
    assert float(total.split()[1]) == int(kilobytes) * 1024


@pytest.mark.stack
@pytest.mark.slow
@pytest.mark.timeout(150)
def test_loki_parses_a_pushed_line(loki: Loki, service: str) -> None:
    line = 'level=error msg="안녕 🙂" user="a b"'
    loki.push({"service_name": service}, [[str(time.time_ns()), line, {"trace_id": "abc"}]])
    [entry] = eventually(lambda: loki.query(f'{{service_name="{service}"}} | logfmt --strict | __error__=""'))
    assert entry.line == line
    assert entry.stream == {"service_name": service}
    assert entry.metadata == {"trace_id": "abc", "detected_level": "error"}
    assert entry.parsed["msg"] == "안녕 🙂"
    [count] = loki.metric(f'sum(count_over_time({{service_name="{service}"}}[5m]))')
    assert count.value == 1


@pytest.mark.stack
@pytest.mark.slow
@pytest.mark.timeout(150)
@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_tempo_opens_a_trace_by_its_id(tempo: Tempo, service: str, protocol: str) -> None:
    trace_id = uuid.uuid4().hex
    message = trace(service, trace_id)
    if protocol == "http":
        request("POST", f"{tempo.http_endpoint}/v1/traces", message.SerializeToString(), PROTOBUF).ok()
    else:
        send_by_grpc(tempo.grpc_endpoint, message)
    found = eventually(lambda: tempo.trace(trace_id))
    assert_is_that_span(found, trace_id)
    assert found[0].service == service


@pytest.mark.stack
@pytest.mark.slow
@pytest.mark.timeout(150)
def test_tempo_has_no_trace_under_an_unknown_id(tempo: Tempo) -> None:
    assert tempo.trace(uuid.uuid4().hex) == []
