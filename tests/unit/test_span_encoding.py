"""Our encoder of spans says what the OpenTelemetry exporter's says, but for secrets and what that one loses."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanLimits, SpanProcessor, TracerProvider

from telemetry.scrub import Scrubber
from telemetry.traces.encode import SpanEncoder

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=":=@"), min_size=1, max_size=12)
SCALARS = st.one_of(TEXTS, st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False))
VALUES = st.one_of(
    SCALARS, st.binary(max_size=4), st.lists(TEXTS, max_size=3), st.lists(st.integers(-9, 9), max_size=3)
)
ATTRIBUTES = st.dictionaries(st.sampled_from(["size", "http.route", "db.query", "한글"]), VALUES, max_size=4)


class Ended(SpanProcessor):
    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def on_start(self, span: Span, parent_context: Any = None) -> None:
        """Nothing to do."""

    def on_end(self, span: ReadableSpan) -> None:
        self.spans.append(span)


def flat(request: ExportTraceServiceRequest) -> set[tuple[bytes, bytes, bytes]]:
    """Each span with its resource and scope: in one request or in two that are merged, it says the same."""
    return {
        (
            resource.resource.SerializeToString(deterministic=True) + resource.schema_url.encode(),
            scope.scope.SerializeToString(deterministic=True) + scope.schema_url.encode(),
            span.SerializeToString(deterministic=True),
        )
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    }


class Traced:
    """A provider and the spans that ended under it."""

    def __init__(self, **limits: int) -> None:
        self._ended = Ended()
        resource = Resource({"service.name": "shop", "service.version": "1"}, "https://schema/1")
        self._provider = TracerProvider(resource=resource, span_limits=SpanLimits(**limits), shutdown_on_exit=False)
        self._provider.add_span_processor(self._ended)
        self.tracer = self._provider.get_tracer("shop", "1.0", "https://schema/2", {"part": "till"})
        self.other = self._provider.get_tracer("library")

    def ours(self) -> ExportTraceServiceRequest:
        return ExportTraceServiceRequest.FromString(SpanEncoder(Scrubber()).request(self._ended.spans))

    def exporters(self) -> ExportTraceServiceRequest:
        return encode_spans(self._ended.spans)

    def only(self) -> Any:
        (span,) = self.ours().resource_spans[0].scope_spans[0].spans
        return span

    def agree(self) -> bool:
        return flat(self.ours()) == flat(self.exporters())


@given(name=TEXTS, attributes=ATTRIBUTES, told=ATTRIBUTES, linked=ATTRIBUTES, kind=st.sampled_from(trace.SpanKind))
def test_it_says_what_the_exporters_encoder_says(
    name: str, attributes: dict[str, Any], told: dict[str, Any], linked: dict[str, Any], kind: trace.SpanKind
) -> None:
    traced = Traced()
    state = trace.TraceState([("vendor", "x1")])
    far = trace.SpanContext(7, 9, is_remote=True, trace_flags=trace.TraceFlags(1), trace_state=state)
    parent = trace.set_span_in_context(trace.NonRecordingSpan(far))
    with traced.tracer.start_as_current_span(name, parent, kind, attributes, [trace.Link(far, linked)]) as span:
        span.add_event(name, told)
        with traced.other.start_as_current_span("inner"):
            span.set_attributes(told)
        with traced.tracer.start_as_current_span("failed") as failed:
            failed.set_status(trace.StatusCode.ERROR, name)
        with traced.tracer.start_as_current_span("fine") as fine:
            fine.set_status(trace.StatusCode.OK)
    assert traced.agree()


def test_what_the_limits_dropped_is_counted() -> None:
    traced = Traced(max_span_attributes=1, max_events=1, max_links=1, max_event_attributes=1, max_link_attributes=1)
    link = trace.Link(trace.SpanContext(1, 2, is_remote=False), {"a": 1, "b": 2})
    with traced.tracer.start_as_current_span("work", attributes={"a": 1, "b": 2}, links=[link, link]) as span:
        span.add_event("one", {"a": 1, "b": 2})
        span.add_event("two", {"a": 1, "b": 2})
    assert traced.agree()
    assert (traced.only().dropped_attributes_count, traced.only().dropped_events_count) == (1, 1)


def test_many_values_stay_right_when_the_kept_ones_are_thrown_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("telemetry.traces.encode._KNOWN_LIMIT", 8)
    traced = Traced()
    for number in range(50):
        with traced.tracer.start_as_current_span(f"span {number % 9}", attributes={"path": f"/users/{number}"}):
            pass
    assert traced.agree()


def test_secrets_leave_attributes_events_links_and_the_status() -> None:
    traced = Traced()
    link = trace.Link(trace.SpanContext(1, 2, is_remote=False), {"password": "hunter2"})
    with traced.tracer.start_as_current_span("work", links=[link], attributes={"api_key": "hunter2"}) as span:
        span.set_attributes({"url.full": "http://u:hunter2@host/", "list": ["token=hunter2"], "plain": "kept"})
        span.add_event("half", {"db.password": "hunter2"})
        span.set_status(trace.StatusCode.ERROR, "password=hunter2")
    said = str(traced.ours())
    assert "hunter2" not in said
    assert said.count("[scrubbed]") == 6
    assert "kept" in said


@pytest.mark.parametrize(
    ("value", "said"), [("\ud800x", "?x"), (2**70, str(2**70))], ids=["half a surrogate", "an integer beyond 64 bits"]
)
def test_a_value_that_the_protocol_cannot_hold_is_said_as_near_as_it_goes(value: Any, said: str) -> None:
    traced = Traced()
    with traced.tracer.start_as_current_span("work", attributes={"odd": value}):
        pass
    (attribute,) = traced.only().attributes
    assert attribute.value.string_value == said
