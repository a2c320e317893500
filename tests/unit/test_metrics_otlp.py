"""Families as OTLP: the right kinds, exact figures, and names that survive a way through Prometheus naming."""

from __future__ import annotations

import math

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1 import metrics_pb2 as pb
from prometheus_client import CollectorRegistry, Counter, Enum, Gauge, Histogram, Info, Summary
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily

from telemetry.catalogue import METRICS
from telemetry.metrics import accounts
from telemetry.metrics.otlp import encode, metrics
from telemetry.otlp import resource_message

START, AT = 1000.0, 2000.5


def only(family: Metric) -> pb.Metric:
    (metric,) = metrics(family, start=START, at=AT)
    return metric


def attributes(point: object) -> dict[str, str]:
    return {each.key: each.value.string_value for each in point.attributes}  # type: ignore[attr-defined]


def test_a_counter_is_a_monotonic_cumulative_sum_since_the_process_began() -> None:
    family = CounterMetricFamily("jobs", "Jobs.", labels=["queue"])
    family.add_metric(["mail"], 3)
    metric = only(family)
    assert (metric.name, metric.description) == ("jobs_total", "Jobs.")
    assert metric.sum.is_monotonic
    assert metric.sum.aggregation_temporality == pb.AGGREGATION_TEMPORALITY_CUMULATIVE
    (point,) = metric.sum.data_points
    assert attributes(point) == {"queue": "mail"}
    assert point.as_double == 3
    assert point.start_time_unix_nano == 1000 * 10**9
    assert point.time_unix_nano == 2000_500_000_000


def test_a_series_that_knows_when_it_was_created_says_so() -> None:
    family = CounterMetricFamily("jobs", "Jobs.", labels=["queue"])
    family.add_metric(["mail"], 3, created=1500)
    (point,) = only(family).sum.data_points
    assert point.start_time_unix_nano == 1500 * 10**9


def test_a_gauge() -> None:
    metric = only(GaugeMetricFamily("depth", "Depth.", value=-2))
    (point,) = metric.gauge.data_points
    assert (point.as_double, point.time_unix_nano, point.start_time_unix_nano) == (-2, 2000_500_000_000, 0)


def test_a_sample_with_a_time_of_its_own_keeps_it() -> None:
    family = GaugeMetricFamily("depth", "Depth.")
    family.add_metric([], 1, timestamp=7)
    assert only(family).gauge.data_points[0].time_unix_nano == 7 * 10**9


def test_a_histogram_has_counts_between_bounds_and_its_exemplars() -> None:
    registry = CollectorRegistry()
    wait = Histogram("wait_seconds", "Wait.", ["queue"], unit="seconds", buckets=(0.1, 1, 10), registry=registry)
    for value in (0.05, 0.5, 0.6, 99):
        wait.labels("mail").observe(value, exemplar={"trace_id": "ab" * 16, "span_id": "cd" * 8, "tenant": "x"})
    wait.labels("sms").observe(1)
    (family,) = registry.collect()
    metric = only(family)
    assert (metric.name, metric.unit) == ("wait_seconds", "s")
    mail, sms = sorted(metric.histogram.data_points, key=lambda point: attributes(point)["queue"])
    assert list(mail.explicit_bounds) == [0.1, 1, 10]
    assert list(mail.bucket_counts) == [1, 2, 0, 1]
    assert (mail.count, mail.sum) == (4, pytest.approx(100.15))
    assert list(sms.bucket_counts) == [0, 1, 0, 0]
    exemplar = mail.exemplars[0]
    assert (exemplar.trace_id, exemplar.span_id) == (bytes.fromhex("ab" * 16), bytes.fromhex("cd" * 8))
    assert exemplar.as_double == 0.05
    assert [(a.key, a.value.string_value) for a in exemplar.filtered_attributes] == [("tenant", "x")]


def test_buckets_that_were_read_while_they_grew_never_make_a_negative_count() -> None:
    family = Metric("wait", "Wait.", "histogram")
    for le, value in (("1.0", 5), ("2.0", 4), ("+Inf", 6)):
        family.add_sample("wait_bucket", {"le": le}, value)
    (point,) = only(family).histogram.data_points
    assert (list(point.bucket_counts), point.count) == ([5, 0, 1], 6)


@pytest.mark.expects_fault("metrics.otlp")
def test_a_family_that_cannot_be_expressed_is_left_out() -> None:
    bad = Metric("bad", "Bad.", "histogram")
    bad.add_sample("bad_bucket", {"le": "1.0"}, 1)
    body = encode([bad, GaugeMetricFamily("good", "Good.", value=1)], b"", start=START, at=AT)
    request = ExportMetricsServiceRequest.FromString(body)
    assert [m.name for m in request.resource_metrics[0].scope_metrics[0].metrics] == ["good"]


def test_a_summary() -> None:
    registry = CollectorRegistry()
    Summary("size", "Size.", registry=registry).observe(5)
    (family,) = registry.collect()
    (point,) = only(family).summary.data_points
    assert (point.count, point.sum) == (1, 5)
    with_quantiles = SummaryMetricFamily("size", "Size.", count_value=2, sum_value=3)
    with_quantiles.add_sample("size", {"quantile": "0.5"}, 1.5)
    (point,) = only(with_quantiles).summary.data_points
    assert [(q.quantile, q.value) for q in point.quantile_values] == [(0.5, 1.5)]


def test_info_and_state_are_gauges_of_one_and_zero() -> None:
    registry = CollectorRegistry()
    Info("build", "Build.", registry=registry).info({"version": "1"})
    Enum("state", "State.", states=["up", "down"], registry=registry).state("down")
    info, state = (only(family) for family in registry.collect())
    assert info.name == "build_info"
    assert attributes(info.gauge.data_points[0]) == {"version": "1"}
    assert [(attributes(p)["state"], p.as_double) for p in state.gauge.data_points] == [("up", 0), ("down", 1)]


def test_numbers_that_are_none_go_through() -> None:
    family = GaugeMetricFamily("g", "G.", labels=["kind"])
    for value in (math.nan, math.inf):
        family.add_metric([str(value)], value)
    nan, inf = (point.as_double for point in only(family).gauge.data_points)
    assert math.isnan(nan)
    assert inf == math.inf


def test_a_request_has_the_resource_and_no_target_info() -> None:
    families = [accounts.target_family({"host_name": "h"}), accounts.build_family()]
    resource = resource_message({"service.name": "shop", "process.pid": 7})
    request = ExportMetricsServiceRequest.FromString(encode(families, resource, start=START, at=AT))
    (of_resource,) = request.resource_metrics
    assert {a.key for a in of_resource.resource.attributes} == {"service.name", "process.pid"}
    assert [m.name for m in of_resource.scope_metrics[0].metrics] == ["telemetry_build_info"]
    assert of_resource.scope_metrics[0].scope.name == "fleetglass"


def test_nothing_to_say_is_no_request() -> None:
    assert encode([], b"", start=START, at=AT) == b""
    assert encode([CounterMetricFamily("jobs", "Jobs.", labels=["a"])], b"", start=START, at=AT) == b""


# -- names -------------------------------------------------------------------------------------------

# What a receiver with Prometheus naming makes of a unit (specification: "Prometheus and OpenMetrics
# Compatibility", Metric Metadata; Go: otlptranslator).
_WORDS = {"s": "seconds", "By": "bytes", "ms": "milliseconds", "%": "percent", "Cel": "celsius", "m": "meters"}


def prometheus_name(metric: pb.Metric) -> str:
    """The name that the OTLP to Prometheus conversion gives."""
    tokens = [token for token in metric.name.split("_") if token]
    unit = _WORDS.get(metric.unit, metric.unit)
    if unit and unit not in tokens:
        tokens.append(unit)
    if metric.HasField("sum") and metric.sum.is_monotonic:
        tokens = [token for token in tokens if token != "total"] + ["total"]
    if metric.unit == "1" and metric.HasField("gauge"):
        tokens = [token for token in tokens if token != "ratio"] + ["ratio"]
    return "_".join(tokens)


def families_of_many_units() -> list[Metric]:
    registry = CollectorRegistry()
    Counter("read_bytes", "Read.", unit="bytes", registry=registry)
    Counter("busy_seconds", "Busy.", unit="seconds", registry=registry)
    Counter("things", "Things.", registry=registry)
    Gauge("used_ratio", "Used.", unit="ratio", registry=registry)
    Gauge("speed_meters_per_second", "Speed.", unit="meters_per_second", registry=registry)
    Gauge("heat_celsius", "Heat.", unit="celsius", registry=registry)
    Gauge("seconds_of_something", "Odd.", registry=registry)
    Gauge("total_of_something", "Odd.", registry=registry)
    Histogram("wait_seconds", "Wait.", unit="seconds", registry=registry).observe(1)
    return list(registry.collect())


@pytest.mark.parametrize("family", families_of_many_units(), ids=lambda family: family.name)
def test_a_name_is_the_same_after_a_conversion_to_prometheus_naming(family: Metric) -> None:
    metric = only(family)
    expected = f"{family.name}_total" if family.type == "counter" else family.name
    assert metric.name == expected
    assert prometheus_name(metric) == expected


@pytest.mark.parametrize("name", METRICS)
def test_ours_keep_their_names(name: str) -> None:
    spec = METRICS[name]
    family = Metric(spec.family, spec.help, spec.kind)  # without its unit, as multiprocess files give it
    if spec.kind == "histogram":
        family.add_sample(f"{name}_bucket", {"le": "+Inf"}, 1)
    else:
        family.add_sample(name, {}, 1)
    metric = only(family)
    assert prometheus_name(metric) == name
    assert metric.unit == {"seconds": "s", "": ""}[spec.unit]
