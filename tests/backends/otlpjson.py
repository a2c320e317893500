"""Read OTLP/JSON as the Collector's file exporter and Tempo write it, into flat records for assertions.

The two differ in how they write ids (hexadecimal, base64) and enums (numbers, names); records always hold
lower-case hexadecimal ids and numbers as the OTLP specification counts them.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Attributes = dict[str, Any]

# opentelemetry/proto/trace/v1/trace.proto
KINDS = ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
STATUS_CODES = ("UNSET", "OK", "ERROR")


@dataclass(frozen=True)
class Span:
    """A span with the resource and scope it came under. Times are nanoseconds since the epoch."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    kind: str
    start: int
    end: int
    status: str
    status_message: str
    attributes: Attributes
    resource: Attributes
    scope: str
    events: list[Attributes] = field(default_factory=list)
    links: list[Attributes] = field(default_factory=list)
    trace_state: str = ""

    @property
    def service(self) -> str:
        """``service.name`` of the resource, empty where there is none."""
        return str(self.resource.get("service.name", ""))


@dataclass(frozen=True)
class Log:
    """A log record. ``body`` is whatever the sender sent; times are nanoseconds since the epoch."""

    body: Any
    time: int
    observed: int
    severity: int
    severity_text: str
    trace_id: str
    span_id: str
    attributes: Attributes
    resource: Attributes
    scope: str

    @property
    def service(self) -> str:
        """``service.name`` of the resource, empty where there is none."""
        return str(self.resource.get("service.name", ""))


@dataclass(frozen=True)
class Point:
    """One data point of a metric. ``value`` is a number, or for histograms a dict of count, sum, bounds, buckets."""

    name: str
    kind: str
    unit: str
    attributes: Attributes
    value: Any
    time: int
    start: int
    monotonic: bool
    temporality: int
    resource: Attributes
    exemplars: list[Attributes]

    @property
    def service(self) -> str:
        """``service.name`` of the resource, empty where there is none."""
        return str(self.resource.get("service.name", ""))


def spans(document: Mapping[str, Any]) -> Iterator[Span]:
    """The spans of one OTLP/JSON trace document: the exporter's line, or Tempo's ``batches``."""
    groups = document.get("resourceSpans") or document.get("batches") or []
    for group in groups:
        resource = attributes(group.get("resource", {}))
        for scope in group.get("scopeSpans", []):
            for raw in scope.get("spans", []):
                status = raw.get("status", {})
                yield Span(
                    name=raw.get("name", ""),
                    trace_id=identifier(raw.get("traceId", ""), 16),
                    span_id=identifier(raw.get("spanId", ""), 8),
                    parent_id=identifier(raw.get("parentSpanId", ""), 8),
                    kind=_enum(raw.get("kind", 0), KINDS, "SPAN_KIND_"),
                    start=int(raw.get("startTimeUnixNano", 0)),
                    end=int(raw.get("endTimeUnixNano", 0)),
                    status=_enum(status.get("code", 0), STATUS_CODES, "STATUS_CODE_"),
                    status_message=status.get("message", ""),
                    attributes=attributes(raw),
                    resource=resource,
                    scope=scope.get("scope", {}).get("name", ""),
                    events=[{"name": each.get("name", ""), **attributes(each)} for each in raw.get("events", [])],
                    links=[_link(each) for each in raw.get("links", [])],
                    trace_state=raw.get("traceState", ""),
                )


def logs(document: Mapping[str, Any]) -> Iterator[Log]:
    """The log records of one OTLP/JSON document."""
    for group in document.get("resourceLogs", []):
        resource = attributes(group.get("resource", {}))
        for scope in group.get("scopeLogs", []):
            for raw in scope.get("logRecords", []):
                yield Log(
                    body=value(raw.get("body", {})),
                    time=int(raw.get("timeUnixNano", 0)),
                    observed=int(raw.get("observedTimeUnixNano", 0)),
                    severity=int(raw.get("severityNumber", 0)),
                    severity_text=raw.get("severityText", ""),
                    trace_id=identifier(raw.get("traceId", ""), 16),
                    span_id=identifier(raw.get("spanId", ""), 8),
                    attributes=attributes(raw),
                    resource=resource,
                    scope=scope.get("scope", {}).get("name", ""),
                )


def points(document: Mapping[str, Any]) -> Iterator[Point]:
    """The data points of one OTLP/JSON metrics document."""
    for group in document.get("resourceMetrics", []):
        resource = attributes(group.get("resource", {}))
        for scope in group.get("scopeMetrics", []):
            for metric in scope.get("metrics", []):
                for kind in ("gauge", "sum", "histogram", "exponentialHistogram", "summary"):
                    for raw in metric.get(kind, {}).get("dataPoints", []):
                        yield Point(
                            name=metric.get("name", ""),
                            kind=kind,
                            unit=metric.get("unit", ""),
                            attributes=attributes(raw),
                            value=_number(raw),
                            time=int(raw.get("timeUnixNano", 0)),
                            start=int(raw.get("startTimeUnixNano", 0)),
                            monotonic=bool(metric[kind].get("isMonotonic", False)),
                            temporality=int(metric[kind].get("aggregationTemporality", 0)),
                            resource=resource,
                            exemplars=[_exemplar(each) for each in raw.get("exemplars", [])],
                        )


def attributes(holder: Mapping[str, Any]) -> Attributes:
    """The ``attributes`` list of an OTLP object as a dict. A repeated key is an error of the sender: ValueError."""
    found: Attributes = {}
    for pair in holder.get("attributes", []):
        if pair["key"] in found:
            raise ValueError(f"attribute {pair['key']!r} occurs twice")
        found[pair["key"]] = value(pair.get("value", {}))
    return found


def value(raw: Mapping[str, Any]) -> Any:
    """An OTLP AnyValue as str, bool, int, float, bytes, list, dict or None."""
    if "intValue" in raw:  # 64 bit integers are strings in OTLP/JSON
        return int(raw["intValue"])
    if "doubleValue" in raw:
        return float(raw["doubleValue"])
    if "arrayValue" in raw:
        return [value(each) for each in raw["arrayValue"].get("values", [])]
    if "kvlistValue" in raw:
        return {each["key"]: value(each.get("value", {})) for each in raw["kvlistValue"].get("values", [])}
    if "bytesValue" in raw:
        return base64.b64decode(raw["bytesValue"])
    return raw.get("stringValue", raw.get("boolValue"))


def identifier(raw: str, size: int) -> str:
    """A trace id (``size`` 16 bytes) or span id (8) in hexadecimal, from hexadecimal or base64; empty if unset."""
    if not raw or len(raw) == 2 * size:
        text = raw.lower()
    else:
        try:
            text = base64.b64decode(raw, validate=True).hex()
        except binascii.Error as error:
            raise ValueError(f"{raw!r} is no id of {size} bytes") from error
        if len(text) != 2 * size:
            raise ValueError(f"{raw!r} is no id of {size} bytes")
    return text if text.strip("0") else ""


def _enum(raw: int | str, names: tuple[str, ...], prefix: str) -> str:
    return names[raw] if isinstance(raw, int) else raw.removeprefix(prefix)


def _link(raw: Mapping[str, Any]) -> Attributes:
    return {
        "trace_id": identifier(raw.get("traceId", ""), 16),
        "span_id": identifier(raw.get("spanId", ""), 8),
        **attributes(raw),
    }


def _number(raw: Mapping[str, Any]) -> Any:
    if "asInt" in raw:
        return int(raw["asInt"])
    if "asDouble" in raw:
        return float(raw["asDouble"])
    return {
        "count": int(raw.get("count", 0)),
        "sum": float(raw.get("sum", 0.0)),
        "bounds": [float(each) for each in raw.get("explicitBounds", [])],
        "buckets": [int(each) for each in raw.get("bucketCounts", [])],
    }


def _exemplar(raw: Mapping[str, Any]) -> Attributes:
    return {
        "trace_id": identifier(raw.get("traceId", ""), 16),
        "span_id": identifier(raw.get("spanId", ""), 8),
        "value": float(raw["asInt"]) if "asInt" in raw else float(raw.get("asDouble", 0.0)),
    }
