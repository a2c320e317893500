"""OTLP export requests, protobuf and JSON, into spans, log lines and samples.

OTLP/JSON differs from protobuf's own JSON in one place: ids are hex, not base64
(https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding).
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, TypeAlias, cast

from google.protobuf import json_format
from google.protobuf.message import DecodeError
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

from telemetry.testing.records import LogLine, Sample, Span, SpanEvent, SpanLink

Signal: TypeAlias = Literal["traces", "logs", "metrics"]
ExportRequest: TypeAlias = ExportTraceServiceRequest | ExportLogsServiceRequest | ExportMetricsServiceRequest

_REQUESTS: dict[Signal, type[ExportRequest]] = {
    "traces": ExportTraceServiceRequest,
    "logs": ExportLogsServiceRequest,
    "metrics": ExportMetricsServiceRequest,
}
_KINDS: tuple[Any, ...] = ("unspecified", "internal", "server", "client", "producer", "consumer")
_STATUSES: tuple[Any, ...] = ("unset", "ok", "error")
_IDS = frozenset({"traceId", "spanId", "parentSpanId"})


def parse(signal: Signal, content: bytes, *, as_json: bool) -> ExportRequest:
    """The export request in ``content``; ``ValueError`` says why it can't be read."""
    message = _REQUESTS[signal]()
    try:
        if as_json:
            json_format.ParseDict(_with_base64_ids(json.loads(content)), message, ignore_unknown_fields=True)
        else:
            message.ParseFromString(content)
    except (DecodeError, json_format.ParseError, UnicodeDecodeError, binascii.Error, RecursionError) as error:
        raise ValueError(f"the body is no OTLP {signal} request: {error}") from error
    return message


def response(signal: Signal, rejected: int, message: str, *, as_json: bool) -> bytes:
    """The export response; with ``partial_success`` when something was rejected or there is something to say."""
    answer: Any
    if signal == "traces":
        answer = ExportTraceServiceResponse()
        if rejected or message:
            answer.partial_success.rejected_spans = rejected
    elif signal == "logs":
        answer = ExportLogsServiceResponse()
        if rejected or message:
            answer.partial_success.rejected_log_records = rejected
    else:
        answer = ExportMetricsServiceResponse()
        if rejected or message:
            answer.partial_success.rejected_data_points = rejected
    if message:
        answer.partial_success.error_message = message
    if as_json:
        return json_format.MessageToJson(answer, indent=None).encode()
    return bytes(answer.SerializeToString())


def status(message: str, *, as_json: bool) -> bytes:
    """A ``google.rpc.Status`` with code 3, INVALID_ARGUMENT: the body that OTLP wants with a 4xx."""
    answer = Status(code=3, message=message)
    if as_json:
        return json_format.MessageToJson(answer, indent=None).encode()
    return bytes(answer.SerializeToString())


def count(request: ExportRequest) -> int:
    """How many records ``records`` would give for traces and logs; for metrics, samples after expansion."""
    if isinstance(request, ExportTraceServiceRequest):
        return sum(len(scope.spans) for resource in request.resource_spans for scope in resource.scope_spans)
    if isinstance(request, ExportLogsServiceRequest):
        return sum(len(scope.log_records) for resource in request.resource_logs for scope in resource.scope_logs)
    return sum(1 for _ in _samples(request))


def records(request: ExportRequest) -> list[Span] | list[LogLine] | list[Sample]:
    """The records of a request, in wire order."""
    if isinstance(request, ExportTraceServiceRequest):
        return list(_spans(request))
    if isinstance(request, ExportLogsServiceRequest):
        return list(_lines(request))
    return list(_samples(request))


def _spans(request: ExportTraceServiceRequest) -> Iterator[Span]:
    for group in request.resource_spans:
        resource = _attributes(group.resource.attributes)
        for scoped in group.scope_spans:
            for span in scoped.spans:
                yield Span(
                    name=span.name,
                    trace_id=span.trace_id.hex(),
                    span_id=span.span_id.hex(),
                    parent_id=span.parent_span_id.hex(),
                    kind=_KINDS[span.kind] if 0 <= span.kind < len(_KINDS) else "unspecified",
                    start_ns=span.start_time_unix_nano,
                    end_ns=span.end_time_unix_nano,
                    attributes=_attributes(span.attributes),
                    status=_STATUSES[span.status.code] if 0 <= span.status.code < len(_STATUSES) else "unset",
                    status_message=span.status.message,
                    resource=resource,
                    scope=scoped.scope.name,
                    events=tuple(
                        SpanEvent(event.name, event.time_unix_nano, _attributes(event.attributes))
                        for event in span.events
                    ),
                    links=tuple(
                        SpanLink(link.trace_id.hex(), link.span_id.hex(), _attributes(link.attributes))
                        for link in span.links
                    ),
                    trace_state=span.trace_state,
                )


def _lines(request: ExportLogsServiceRequest) -> Iterator[LogLine]:
    for group in request.resource_logs:
        resource = _attributes(group.resource.attributes)
        for scoped in group.scope_logs:
            for record in scoped.log_records:
                body = _value(record.body)
                yield LogLine(
                    line=body if isinstance(body, str) else json.dumps(body, ensure_ascii=False, default=repr),
                    timestamp_ns=record.time_unix_nano or record.observed_time_unix_nano,
                    labels=resource,
                    attributes=_attributes(record.attributes),
                    source="otlp",
                    severity=record.severity_text,
                    severity_number=record.severity_number,
                    trace_id=record.trace_id.hex(),
                    span_id=record.span_id.hex(),
                )


def _samples(request: ExportMetricsServiceRequest) -> Iterator[Sample]:
    for group in request.resource_metrics:
        resource = _attributes(group.resource.attributes)
        for scoped in group.scope_metrics:
            for metric in scoped.metrics:
                yield from _metric(metric, resource)


def _metric(metric: Metric, resource: Mapping[str, Any]) -> Iterator[Sample]:
    kind = metric.WhichOneof("data")
    if kind is None:
        return
    point: Any
    for point in getattr(metric, kind).data_points:
        labels = {key: value if isinstance(value, str) else json.dumps(value, default=repr)
                  for key, value in _attributes(point.attributes).items()}  # fmt: skip
        at_ms = point.time_unix_nano // 1_000_000

        def sample(suffix: str, value: float, at: int = at_ms, own: Mapping[str, str] = labels, **more: str) -> Sample:
            return Sample(metric.name + suffix, {**own, **more}, float(value), at, "otlp", resource)

        if kind in ("gauge", "sum"):
            yield sample("", point.as_int if point.WhichOneof("value") == "as_int" else point.as_double)
            continue
        if kind == "histogram":
            below = 0
            for index, inside in enumerate(point.bucket_counts):
                below += inside
                bounds = point.explicit_bounds
                yield sample("_bucket", below, le=repr(bounds[index]) if index < len(bounds) else "+Inf")
        elif kind == "summary":
            for quantile in point.quantile_values:
                yield sample("", quantile.value, quantile=repr(quantile.quantile))
        yield sample("_sum", point.sum)
        yield sample("_count", point.count)


def _attributes(pairs: Iterable[KeyValue]) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    if kind == "array_value":
        return [_value(item) for item in value.array_value.values]
    if kind == "kvlist_value":
        return _attributes(value.kvlist_value.values)
    return getattr(value, kind)


def _with_base64_ids(node: Any) -> dict[str, Any]:
    def walk(item: Any) -> Any:
        if isinstance(item, dict):
            return {
                key: base64.b64encode(bytes.fromhex(value)).decode()
                if key in _IDS and isinstance(value, str)
                else walk(value)
                for key, value in item.items()
            }
        if isinstance(item, list):
            return [walk(value) for value in item]
        return item

    if not isinstance(node, dict):
        raise json_format.ParseError(f"expected an object at the top, found {type(node).__name__}")
    return cast("dict[str, Any]", walk(node))
