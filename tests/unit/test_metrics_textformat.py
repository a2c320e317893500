"""Families as bytes: what prometheus-client's own parsers read back is what went in."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Enum, Gauge, Histogram, Info, Summary
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import GaugeHistogramMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from prometheus_client.samples import Timestamp

from telemetry.metrics import textformat
from telemetry.metrics.textformat import EOF, milliseconds, number, openmetrics_family, text_family


def example() -> CollectorRegistry:
    """One metric of each kind."""
    registry = CollectorRegistry()
    Counter("jobs", 'Jobs, "quoted", with \\ and\nlines.', ["name"], registry=registry).labels('a"b\\c\nd').inc(3)
    Gauge("depth", "Depth.", registry=registry).set(-0.5)
    Summary("size_bytes", "Size.", ["kind"], unit="bytes", registry=registry).labels("x").observe(12)
    histogram = Histogram("wait_seconds", "Wait.", ["queue"], unit="seconds", buckets=(0.1, 1), registry=registry)
    histogram.labels("한글").observe(0.5, exemplar={"trace_id": "ab" * 16})
    Info("build", "Build.", registry=registry).info({"version": "1"})
    Enum("state", "State.", states=["up", "down"], registry=registry).state("down")
    return registry


def sample_set(families: object) -> dict[str, dict[tuple[str, tuple[tuple[str, str], ...]], float]]:
    return {
        family.name: {(s.name, tuple(sorted(s.labels.items()))): s.value for s in family.samples}
        for family in families  # type: ignore[attr-defined]
    }


def test_text_says_what_prometheus_clients_own_writer_says() -> None:
    ours = b"".join(text_family(family) for family in example().collect()).decode()
    theirs = generate_latest(example()).decode()
    ignored = "_created"
    assert sample_set(f for f in parse_text(ours) if ignored not in f.name) == sample_set(
        f for f in parse_text(theirs) if ignored not in f.name
    )
    assert [line for line in ours.splitlines() if line.startswith("#")] == [
        line for line in theirs.splitlines() if line.startswith("#")
    ]


def test_openmetrics_says_what_prometheus_clients_own_writer_says() -> None:
    registry = example()
    ours = b"".join(openmetrics_family(family) for family in registry.collect()) + EOF
    theirs = generate_openmetrics(registry)
    parsed, expected = list(parse_openmetrics(ours.decode())), list(parse_openmetrics(theirs.decode()))
    assert sample_set(parsed) == sample_set(expected)
    assert [(f.name, f.type, f.unit, f.documentation) for f in parsed] == [
        (f.name, f.type, f.unit, f.documentation) for f in expected
    ]
    exemplars = [s.exemplar for f in parsed for s in f.samples if s.exemplar]
    assert [exemplar.labels for exemplar in exemplars] == [{"trace_id": "ab" * 16}]


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"])), st.floats(allow_nan=False), min_size=1, max_size=5
    )
)
def test_any_label_value_and_number_survives(values: dict[str, float]) -> None:
    family = GaugeMetricFamily("g", "Help.", labels=["text"])
    for text, value in values.items():
        family.add_metric([text], value)
    read = next(iter(parse_openmetrics((openmetrics_family(family) + EOF).decode())))
    assert {s.labels["text"]: s.value for s in read.samples} == values


@pytest.mark.parametrize("escaping", ["underscores", "allow-utf-8", "dots", "values"])
def test_names_outside_the_classic_set_are_escaped_as_asked(escaping: str) -> None:
    family = GaugeMetricFamily("requests.in-flight", "Help.", labels=["http.method"])
    family.add_metric(["GET"], 1)
    assert text_family(family, escaping) == generate_latest(_Registry(family), escaping=escaping)  # type: ignore[arg-type]
    assert openmetrics_family(family, escaping) + EOF == generate_openmetrics(_Registry(family), escaping=escaping)


class _Registry:
    def __init__(self, *families: Metric) -> None:
        self.families = families

    def collect(self) -> tuple[Metric, ...]:
        return self.families


def test_samples_of_a_gauge_histogram_that_the_older_format_lacks_become_gauges() -> None:
    family = GaugeHistogramMetricFamily("q", "Help.", buckets=[("1.0", 1), ("+Inf", 2)], gsum_value=3)
    assert text_family(family) == generate_latest(_Registry(family))  # type: ignore[arg-type]


def test_times_are_milliseconds_in_text_and_seconds_in_openmetrics() -> None:
    family = GaugeMetricFamily("g", "Help.")
    family.add_metric([], 1, timestamp=1717171717.123)
    assert text_family(family).endswith(b"g 1.0 1717171717123\n")
    assert openmetrics_family(family).endswith(b"g 1.0 1717171717.123\n")
    assert milliseconds(Timestamp(1717171717, 123_000_000)) == 1717171717123


@pytest.mark.parametrize(
    ("value", "text"),
    [(1, "1.0"), (0.1, "0.1"), (math.inf, "+Inf"), (-math.inf, "-Inf"), (math.nan, "NaN"), (1e300, "1e+300")],
)
def test_numbers(value: float, text: str) -> None:
    assert number(value) == text


def test_an_exemplar_where_none_may_be_is_an_error_of_its_family() -> None:
    from prometheus_client.samples import Exemplar

    family = Metric("g", "Help.", "gauge")
    family.add_sample("g", {}, 1, exemplar=Exemplar({"trace_id": "a"}, 1))
    with pytest.raises(ValueError, match="only buckets and counters"):
        openmetrics_family(family)


def test_the_sets_of_known_names_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(textformat, "_MOST_NAMES", 3)
    monkeypatch.setattr(textformat, "_plain_labels", set())
    monkeypatch.setattr(textformat, "_plain_metrics", set())
    for number_ in range(10):
        family = GaugeMetricFamily(f"g{number_}", "Help.", labels=[f"l{number_}"])
        family.add_metric(["x"], 1)
        text_family(family)
    assert len(textformat._plain_labels) <= 3
    assert len(textformat._plain_metrics) <= 3
