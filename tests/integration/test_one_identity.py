"""One request is one trace, one access line and one metric increment, under one identity and one trace id.

The application runs under uvicorn in a process of its own, told by environment variables where the
backends are; what the backends understood is read from them.
"""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tests.backends.otlpjson import Span
from tests.backends.process import Server, eventually, request
from tests.backends.servers import Collector, Sample, VictoriaLogs, VictoriaMetrics
from tests.backends.stack import Loki, LokiEntry, Tempo

ROOT = Path(__file__).parents[2]
APPS = Path(__file__).with_name("apps")
COUNT = "http_server_request_duration_seconds_count"
ROUTE = "/users/{user}"


@pytest.fixture
def service() -> str:
    """A service name that no other test uses."""
    return f"users-{uuid.uuid4().hex[:12]}"


@dataclass(frozen=True)
class App:
    """The running application."""

    server: Server
    address: str

    def get(self, path: str, accept: str = "*/*") -> str:
        return request("GET", f"http://{self.address}{path}", headers={"Accept": accept}).ok().text

    def end(self) -> None:
        """SIGTERM, as an orchestrator ends it, so that everything it has is sent; the library had no complaint."""
        self.server.finish(10)
        assert "fleetglass:" not in self.server.log.read_text()


@contextmanager
def running(service: str, folder: Path, settings: Mapping[str, str]) -> Iterator[App]:
    """The application as ``service``, configured by ``settings``."""
    environ = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "OTEL_SERVICE_NAME": service,
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
        "FLEETGLASS_STRICT": "1",
        **settings,
    }

    def command(ports: Sequence[int]) -> list[str]:
        return [sys.executable, "-m", "uvicorn", "--app-dir", str(APPS), "--port", str(ports[0]), "users:app"]

    server, ports = Server.start(
        "users", folder, 1, command, lambda ports: f"http://127.0.0.1:{ports[0]}/healthz", 30, environ=environ
    )
    try:
        yield App(server, f"127.0.0.1:{ports[0]}")
    finally:
        server.stop()


def exemplars(openmetrics: str, route: str) -> list[dict[str, str]]:
    """The labels of the exemplars that the request histogram carries for ``route``."""
    families: list[Metric] = list(text_string_to_metric_families(openmetrics))  # type: ignore[no-untyped-call]
    return [
        dict(sample.exemplar.labels)
        for family in families
        for sample in family.samples
        if family.name == "http_server_request_duration_seconds"
        and sample.labels.get("http_route") == route
        and sample.exemplar is not None
    ]


@dataclass(frozen=True)
class Line:
    """A log line as a log store gave it back."""

    text: str
    fields: Mapping[str, str]
    service_name: str
    environment: str
    trace_id: str


def lines_in_victoria_logs(store: VictoriaLogs, service: str) -> list[Line]:
    """Every line of ``service``, taken apart by VictoriaLogs."""
    # The metadata is set aside first: unpacking the line would write over it.
    found = store.query(f'{{service_name="{service}"}} | copy trace_id as stored_trace_id | unpack_logfmt')
    return [
        Line(
            each["_msg"],
            each,
            each["service_name"],
            each["deployment_environment_name"],
            each.get("stored_trace_id", ""),
        )
        for each in found
    ]


def lines_in_loki(store: Loki, service: str) -> list[Line]:
    """Every line of ``service``, taken apart by Loki, which must find no fault with any."""
    stream = f'{{service_name="{service}"}}'
    assert store.query(f'{stream} | logfmt --strict | __error__!=""') == []
    return [
        Line(
            each.line,
            # A field that is metadata as well comes out of the line under another name.
            {name.removesuffix("_extracted"): value for name, value in each.parsed.items()},
            each.stream["service_name"],
            each.stream["deployment_environment_name"],
            each.metadata.get("trace_id", ""),
        )
        for each in store.query(f"{stream} | logfmt --strict")
    ]


def check(
    service: str,
    app: App,
    read_trace: Callable[[], list[Span]],
    read_lines: Callable[[], list[Line]],
    metrics: VictoriaMetrics,
) -> None:
    """Send one request to ``app`` and find its trace, lines, metric and exemplar saying the same."""
    app.get("/users/7?token=secret")
    exposition = app.get("/metrics", accept="application/openmetrics-text; version=1.0.0")
    counted = f'{COUNT}{{job="{service}",http_route="{ROUTE}"}}'
    with metrics.scraping(app.address, service):
        scraped = eventually(lambda: _of_instance(metrics.query(counted), app.address))
        joined = metrics.query(
            f'{COUNT}{{instance="{app.address}",http_route="{ROUTE}"}}'
            " * on (job, instance) group_left (service_name, service_instance_id) target_info"
        )
    app.end()

    [span] = eventually(read_trace)
    assert (span.name, span.kind, span.parent_id) == (f"GET {ROUTE}", "SERVER", "")
    lines = eventually(read_lines)
    [access] = [line for line in lines if line.fields["logger"] == "access"]
    [spoken] = [line for line in lines if line.fields["logger"] == "users"]
    assert access.fields["msg"] == f"GET {ROUTE} 200"
    assert access.fields["level"] == spoken.fields["level"] == "info"
    assert (spoken.fields["msg"], spoken.fields["user"], spoken.fields["who"]) == ("looked up", "7", "김 철수 🙂")

    # One trace id in the trace, in the lines (as a field, and as metadata for the link), and in the exemplar.
    ids = {"trace_id": span.trace_id, "span_id": span.span_id}
    for line in (access, spoken):
        assert {name: line.fields[name] for name in ids} == ids
        assert line.trace_id == span.trace_id
    assert exemplars(exposition, ROUTE) == [ids]

    # One identity: resource attribute, label of the stream, label of the pushed and of the scraped series.
    instance = str(span.resource["service.instance.id"])
    assert span.service == service
    assert span.resource["deployment.environment.name"] == "test"
    assert {line.service_name for line in lines} == {service}
    assert {line.environment for line in lines} == {"test"}
    pushed = eventually(lambda: _of_instance(metrics.query(counted), instance))
    assert [sample.value for sample in pushed] == [1]
    assert [sample.value for sample in scraped] == [1]
    for sample in (*pushed, *scraped):
        assert sample.labels["job"] == service
        assert (sample.labels["http_request_method"], sample.labels["http_response_status_code"]) == ("GET", "200")
    assert [(sample.labels["service_name"], sample.labels["service_instance_id"]) for sample in joined] == [
        (service, instance)
    ]
    assert not any("secret" in line.text for line in lines)
    assert "secret" not in str(span)


def _of_instance(samples: list[Sample], instance: str) -> list[Sample]:
    return [sample for sample in samples if sample.labels["instance"] == instance]


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_one_request_is_one_trace_one_line_one_increment(
    service: str,
    protocol: str,
    otelcol: Collector,
    victoria_logs: VictoriaLogs,
    victoria_metrics: VictoriaMetrics,
    tmp_path: Path,
) -> None:
    settings = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": otelcol.http_endpoint if protocol == "http/protobuf" else otelcol.grpc_endpoint,
        "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
        "FLEETGLASS_LOKI_URL": victoria_logs.push_url,
        "FLEETGLASS_METRICS_PUSH_URL": victoria_metrics.url,
    }
    with running(service, tmp_path, settings) as app:
        check(
            service,
            app,
            lambda: otelcol.spans(service),
            lambda: lines_in_victoria_logs(victoria_logs, service),
            victoria_metrics,
        )
    assert otelcol.logs(service) == [], "a log is stored once: the endpoint takes none where a Loki URL is set"
    assert otelcol.metrics(service) == [], "metrics go over OTLP only when asked for by name"


@pytest.mark.stack
@pytest.mark.slow
@pytest.mark.timeout(150)
@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_one_request_is_one_trace_one_line_one_increment_in_loki_and_tempo(
    service: str,
    protocol: str,
    tempo: Tempo,
    loki: Loki,
    victoria_metrics: VictoriaMetrics,
    tmp_path: Path,
) -> None:
    settings = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": tempo.http_endpoint if protocol == "http/protobuf" else tempo.grpc_endpoint,
        "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
        "FLEETGLASS_LOKI_URL": loki.url,
        "FLEETGLASS_METRICS_PUSH_URL": victoria_metrics.url,
    }

    def read_trace() -> list[Span]:
        # The trace opens by the id that a line names, as an operator opens it.
        named = {line.trace_id for line in lines_in_loki(loki, service) if line.trace_id}
        return [span for trace_id in named for span in tempo.trace(trace_id)]

    with running(service, tmp_path, settings) as app:
        check(service, app, read_trace, lambda: lines_in_loki(loki, service), victoria_metrics)


@pytest.mark.stack
@pytest.mark.slow
@pytest.mark.timeout(150)
def test_one_logql_finds_a_line_whichever_path_it_took(service: str, loki: Loki, tmp_path: Path) -> None:
    def access_line(name: str, settings: Mapping[str, str]) -> LokiEntry:
        with running(name, tmp_path, settings) as app:
            app.get("/users/7")
            app.end()
        logql = f'{{service_name="{name}", deployment_environment_name="test"}} | logfmt --strict | logger="access"'
        [entry] = eventually(lambda: loki.query(logql))
        return entry

    pushed = access_line(f"{service}-pushed", {"FLEETGLASS_LOKI_URL": loki.url})
    exported = access_line(f"{service}-exported", {"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": loki.otlp_logs_url})
    for entry in (pushed, exported):
        assert entry.parsed["msg"] == f"GET {ROUTE} 200"
        assert entry.metadata["detected_level"] == "info"
        assert entry.metadata["trace_id"] == entry.parsed["trace_id_extracted"]
    assert pushed.metadata.keys() == {"detected_level", "trace_id"}


@pytest.mark.slow
def test_without_a_loki_url_the_same_lines_go_over_otlp(service: str, otelcol: Collector, tmp_path: Path) -> None:
    settings = {"OTEL_EXPORTER_OTLP_ENDPOINT": otelcol.http_endpoint}
    with running(service, tmp_path, settings) as app:
        app.get("/users/7")
        app.end()
    [span] = eventually(lambda: otelcol.spans(service))
    [access] = eventually(lambda: [log for log in otelcol.logs(service) if " logger=access " in log.body])
    assert f'msg="GET {ROUTE} 200"' in access.body
    assert f"trace_id={span.trace_id}" in access.body
    assert (access.trace_id, access.span_id) == (span.trace_id, span.span_id)
    assert (access.severity, access.severity_text) == (9, "INFO")
    assert access.resource == span.resource
    assert access.attributes == {}


@pytest.mark.slow
def test_metrics_go_over_otlp_when_asked_for_by_name(service: str, otelcol: Collector, tmp_path: Path) -> None:
    settings = {"OTEL_EXPORTER_OTLP_ENDPOINT": otelcol.http_endpoint, "OTEL_METRICS_EXPORTER": "otlp"}
    with running(service, tmp_path, settings) as app:
        app.get("/users/7")
        app.end()
    [span] = eventually(lambda: otelcol.spans(service))
    durations = [
        point
        for point in eventually(lambda: otelcol.metrics(service))
        if point.name.startswith("http_server_request_duration") and point.attributes.get("http_route") == ROUTE
    ]
    last = durations[-1]  # cumulative: each batch repeats the total
    assert (last.kind, last.value["count"], last.temporality, last.unit) == ("histogram", 1, 2, "s")
    assert last.resource == span.resource
    assert [each["trace_id"] for each in last.exemplars] == [span.trace_id]
