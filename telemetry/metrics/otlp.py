"""Metric families as OTLP metrics. Pure functions over prometheus-client's families.

By the OpenTelemetry specification's "Prometheus and OpenMetrics Compatibility": counter → monotonic
cumulative Sum, gauge and unknown → Gauge, histogram → Histogram with explicit bounds, summary → Summary,
info and stateset → Gauge of 1 and 0.

Names stay as they are in Prometheus, ``_total`` and unit included. A receiver that stores names as they come
then has the names of ``/metrics``; one that converts to Prometheus naming appends a unit or ``_total`` only
where it is missing (Go: prometheus/otlptranslator; Python: opentelemetry-exporter-prometheus) and arrives at
the same. For that the unit is given only where its conversion is known to be the word the name ends in.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1 import metrics_pb2 as pb
from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Exemplar, Sample

from telemetry import faults
from telemetry import otlp as wire
from telemetry.catalogue import METRICS
from telemetry.version import VERSION

# Prometheus base units and their UCUM codes, as both translators map them back.
_UNITS = {
    "seconds": "s",
    "milliseconds": "ms",
    "bytes": "By",
    "meters": "m",
    "volts": "V",
    "amperes": "A",
    "joules": "J",
    "grams": "g",
    "celsius": "Cel",
    "hertz": "Hz",
    "percent": "%",
}
_CUMULATIVE = pb.AGGREGATION_TEMPORALITY_CUMULATIVE
_EXEMPLAR_IDS = ("trace_id", "span_id")

_Labels = tuple[tuple[str, str], ...]


def encode(families: Iterable[Metric], resource: bytes, *, start: float, at: float) -> bytes:
    """An ExportMetricsServiceRequest; empty when no family has a sample.

    ``resource`` is an encoded Resource (``telemetry.otlp.resource_message``). ``start`` is when counting
    began, ``at`` the time of collection, both in Unix seconds. ``target_info`` is left out: the resource says
    it. A family that can't be expressed is counted as a fault and left out.
    """
    records = []
    for family in families:
        if family.name == "target":
            continue
        try:
            records += [metric.SerializeToString() for metric in metrics(family, start=start, at=at)]
        except Exception as error:
            faults.report("metrics.otlp", f"family {family.name!r} can't be written: {type(error).__name__}: {error}")
    return wire.request(resource, wire.scope_message("fleetglass", VERSION), records) if records else b""


def metrics(family: Metric, *, start: float, at: float) -> list[pb.Metric]:
    """One family as OTLP metrics: one, or several where it has samples under names of their own; none when empty."""
    began = {_key(s.labels): float(s.value) for s in family.samples if s.name == f"{family.name}_created"}
    samples = [s for s in family.samples if s.name != f"{family.name}_created"]
    if not samples:
        return []
    times = _Times(start, at, began)
    if family.type == "histogram":
        return [_histogram(family, samples, times)]
    if family.type == "summary":
        return [_summary(family, samples, times)]
    by_name: dict[str, list[Sample]] = {}
    for sample in samples:
        by_name.setdefault(sample.name, []).append(sample)
    return [_numbers(family, name, own, times) for name, own in by_name.items()]


class _Times:
    """When a series began and when it was read, in nanoseconds."""

    def __init__(self, start: float, at: float, began: Mapping[_Labels, float]) -> None:
        self._start, self._at, self._began = start, at, began

    def of(self, sample: Sample, labels: Mapping[str, str]) -> dict[str, int]:
        at = self._at if sample.timestamp is None else float(sample.timestamp)
        start = min(self._began.get(_key(labels), self._start), at)
        return {"start_time_unix_nano": _ns(start), "time_unix_nano": _ns(at)}


def _numbers(family: Metric, name: str, samples: list[Sample], times: _Times) -> pb.Metric:
    metric = _named(family, name)
    counts = family.type == "counter"
    if counts:
        metric.sum.aggregation_temporality = _CUMULATIVE
        metric.sum.is_monotonic = True
    points = metric.sum.data_points if counts else metric.gauge.data_points
    for sample in samples:
        point = points.add(as_double=float(sample.value), attributes=_attributes(sample.labels))
        when = times.of(sample, sample.labels)
        point.time_unix_nano = when["time_unix_nano"]
        if counts:
            point.start_time_unix_nano = when["start_time_unix_nano"]
            if sample.exemplar:
                point.exemplars.append(_exemplar(sample.exemplar, when["time_unix_nano"]))
    if not counts:
        metric.gauge.SetInParent()
    return metric


def _histogram(family: Metric, samples: list[Sample], times: _Times) -> pb.Metric:
    metric = _named(family, family.name)
    metric.histogram.aggregation_temporality = _CUMULATIVE
    for labels, own in _series(samples, "le").items():
        buckets = sorted(
            ((float(s.labels["le"]), s) for s in own if s.name.endswith("_bucket")), key=lambda pair: pair[0]
        )
        total = next((s for s in own if s.name.endswith("_sum")), None)
        count = next((s for s in own if s.name.endswith("_count")), None)
        if not buckets or not math.isinf(buckets[-1][0]):
            raise ValueError("a histogram without a +Inf bucket")
        when = times.of(count or buckets[-1][1], dict(labels))
        point = metric.histogram.data_points.add(attributes=_attributes(dict(labels)), **when)
        below = 0
        for bound, sample in buckets:
            # Read from several processes' files at once, a bucket may for a moment be behind its neighbour.
            upto = max(below, int(sample.value))
            point.bucket_counts.append(upto - below)
            below = upto
            if not math.isinf(bound):
                point.explicit_bounds.append(bound)
            if sample.exemplar:
                point.exemplars.append(_exemplar(sample.exemplar, when["time_unix_nano"]))
        point.count = below
        if total is not None:
            point.sum = float(total.value)
    return metric


def _summary(family: Metric, samples: list[Sample], times: _Times) -> pb.Metric:
    metric = _named(family, family.name)
    for labels, own in _series(samples, "quantile").items():
        point = metric.summary.data_points.add(attributes=_attributes(dict(labels)), **times.of(own[0], dict(labels)))
        for sample in own:
            if sample.name.endswith("_sum"):
                point.sum = float(sample.value)
            elif sample.name.endswith("_count"):
                point.count = int(sample.value)
            else:
                point.quantile_values.add(quantile=float(sample.labels["quantile"]), value=float(sample.value))
    return metric


def _series(samples: Iterable[Sample], beside: str) -> dict[_Labels, list[Sample]]:
    """Samples by their labels without ``beside``."""
    series: dict[_Labels, list[Sample]] = {}
    for sample in samples:
        labels = {name: value for name, value in sample.labels.items() if name != beside}
        series.setdefault(_key(labels), []).append(sample)
    return series


def _named(family: Metric, name: str) -> pb.Metric:
    return pb.Metric(name=name, description=family.documentation, unit=_unit(family))


def _unit(family: Metric) -> str:
    # Multiprocess files keep no unit; the catalogue knows it of ours.
    spec = METRICS.get(family.name) or METRICS.get(f"{family.name}_total")
    unit = family.unit or (spec.unit if spec else "")
    return _UNITS.get(unit, "") if family.name.endswith(f"_{unit}") else ""


def _exemplar(exemplar: Exemplar, at_ns: int) -> pb.Exemplar:
    made = pb.Exemplar(as_double=float(exemplar.value))
    made.time_unix_nano = at_ns if exemplar.timestamp is None else _ns(float(exemplar.timestamp))
    labels = dict(exemplar.labels)
    for name, size in zip(_EXEMPLAR_IDS, (16, 8), strict=True):
        try:
            raw = bytes.fromhex(labels.get(name, ""))
        except ValueError:
            continue
        if len(raw) == size:
            setattr(made, name, raw)
            del labels[name]
    made.filtered_attributes.extend(_attributes(labels))
    return made


def _attributes(labels: Mapping[str, str]) -> list[KeyValue]:
    return [KeyValue(key=name, value=AnyValue(string_value=value)) for name, value in labels.items()]


def _key(labels: Mapping[str, str]) -> _Labels:
    return tuple(sorted(labels.items()))


def _ns(seconds: float) -> int:
    return max(0, round(seconds * 1e9))
