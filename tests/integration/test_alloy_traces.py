"""The modules of ``alloy/`` that traces pass through, each in a real Alloy, with a real Tempo behind it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence

import pytest
from opentelemetry import trace
from opentelemetry.trace import StatusCode

import telemetry
from tests.backends.process import eventually, request
from tests.backends.servers import VictoriaMetrics
from tests.backends.stack import Alloy, Tempo

pytestmark = [pytest.mark.stack, pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.fixture
def service() -> str:
    """A service name that no other test uses."""
    return f"traced-{uuid.uuid4().hex[:12]}"


def emit(service: str, endpoint: str) -> dict[str, str]:
    """Send a fine trace of two spans and a failed one over OTLP; their ids."""
    ids = {}
    tel = telemetry.setup(service, role="script", otlp_traces_endpoint=f"{endpoint}/v1/traces", stdout="off")
    for name, status in (("fine", StatusCode.OK), ("failed", StatusCode.ERROR)):
        with telemetry.span(name) as outer, telemetry.span(f"{name} inside"):
            trace.get_current_span().set_status(status)
            ids[name] = f"{outer.get_span_context().trace_id:032x}"
    assert tel.flush(20)
    tel.shutdown()
    return ids


def test_both_tiers_in_one_replica_keep_failed_traces_whole_and_let_the_fine_ones_go(
    service: str, start_alloy: Callable[..., Alloy], tempo: Tempo
) -> None:
    def config(ports: Sequence[int]) -> str:
        return f"""
fleetglass.otlp "in" {{
	grpc_endpoint = "127.0.0.1:{ports[0]}"
	http_endpoint = "127.0.0.1:{ports[1]}"
	traces        = [fleetglass.trace_balancer.test.input]
}}

fleetglass.trace_balancer "test" {{
	hostname = "127.0.0.1"
	port     = "{ports[2]}"
}}

fleetglass.otlp "replicas" {{
	grpc_endpoint = "127.0.0.1:{ports[2]}"
	http_endpoint = "127.0.0.1:{ports[3]}"
	traces        = [fleetglass.tail_sampling.test.input]
}}

fleetglass.tail_sampling "test" {{
	decision_wait = "2s"
	slow_ms       = 60000
	percentage    = 0
	traces        = [fleetglass.tempo.test.input]
}}

fleetglass.tempo "test" {{
	url = "{tempo.http_endpoint}"
}}
"""

    server = start_alloy(config, ports=4)
    ids = emit(service, f"http://127.0.0.1:{server.ports[1]}")
    kept = eventually(lambda: tempo.trace(ids["failed"]), timeout=60)
    assert sorted(span.name for span in kept) == ["failed", "failed inside"]
    assert {span.service for span in kept} == {service}
    decided = "otelcol_processor_tail_sampling_global_count_traces_sampled_total"
    assert eventually(lambda: server.sum(decided, sampled="false") == 1, timeout=60)
    assert server.sum(decided, sampled="true") == 1
    assert tempo.trace(ids["fine"]) == []


def test_spans_are_counted_before_they_are_sampled(
    service: str, start_alloy: Callable[..., Alloy], victoria_metrics: VictoriaMetrics
) -> None:
    def config(ports: Sequence[int]) -> str:
        return f"""
fleetglass.otlp "in" {{
	grpc_endpoint = "127.0.0.1:{ports[0]}"
	http_endpoint = "127.0.0.1:{ports[1]}"
	traces        = [fleetglass.span_metrics.test.input]
}}

fleetglass.span_metrics "test" {{
	interval = "1s"
	metrics  = [fleetglass.victoriametrics.test.input]
}}

fleetglass.victoriametrics "test" {{
	url             = "{victoria_metrics.url}"
	external_labels = {{"cluster" = "seoul"}}
}}
"""

    server = start_alloy(config, ports=2)
    emit(service, f"http://127.0.0.1:{server.ports[1]}")
    calls = f'traces_span_metrics_calls_total{{job="{service}"}}'
    found = eventually(lambda: _four(victoria_metrics.query(calls)), timeout=60)
    assert {each.labels["span_name"]: each.labels["status_code"] for each in found} == {
        "fine": "STATUS_CODE_UNSET",
        "fine inside": "STATUS_CODE_OK",
        "failed": "STATUS_CODE_UNSET",
        "failed inside": "STATUS_CODE_ERROR",
    }
    assert {(each.value, each.labels["cluster"]) for each in found} == {(1, "seoul")}
    buckets = victoria_metrics.query(f'traces_span_metrics_duration_seconds_bucket{{job="{service}",le="0.005"}}')
    assert len(buckets) == 4


def test_a_signal_that_goes_nowhere_is_refused_so_that_its_sender_knows(start_alloy: Callable[..., Alloy]) -> None:
    def config(ports: Sequence[int]) -> str:
        return f"""
fleetglass.otlp "in" {{
	grpc_endpoint = "127.0.0.1:{ports[0]}"
	http_endpoint = "127.0.0.1:{ports[1]}"
	logs          = [fleetglass.loki_otlp.test.input]
}}

fleetglass.loki_otlp "test" {{
	url = "http://127.0.0.1:{ports[2]}"
}}
"""

    server = start_alloy(config, ports=3)
    span = {"traceId": "ab" * 16, "spanId": "cd" * 8, "name": "lost", "startTimeUnixNano": "1", "endTimeUnixNano": "2"}
    body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode()
    url = f"http://127.0.0.1:{server.ports[1]}/v1/traces"
    answer = request("POST", url, body, {"Content-Type": "application/json"})
    assert (answer.status, "not supported" in answer.text) == (503, True)
    assert server.sum("otelcol_receiver_refused_spans_total") == 1


def _four(samples: list) -> list:
    return samples if len(samples) == 4 else []
