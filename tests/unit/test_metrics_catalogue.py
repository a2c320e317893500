"""The catalogue: names that Prometheus, OpenMetrics and our own rules accept, nothing undocumented."""

from __future__ import annotations

import re

import pytest

from telemetry.catalogue import LABELS, METRICS, PREFIXES, MetricSpec

SPECS = list(METRICS.values())


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_a_name_follows_the_conventions(spec: MetricSpec) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9_]*", spec.name)
    assert spec.name.startswith(PREFIXES) or spec.name == "target_info"
    assert spec.name.endswith("_total") == (spec.kind == "counter")
    assert spec.name.endswith("_info") == (spec.kind == "info")
    assert not spec.unit or spec.family.endswith(f"_{spec.unit}")
    assert bool(spec.buckets) == (spec.kind == "histogram")
    assert list(spec.buckets) == sorted(set(spec.buckets))


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_every_metric_and_label_says_what_it_means(spec: MetricSpec) -> None:
    assert spec.help.endswith(".")
    assert spec.origin.split(".")[0] in ("telemetry", "ingest")
    assert set(spec.labels) <= LABELS.keys()
    assert not {"le", "quantile", "job", "instance"} & set(spec.labels)


def test_the_table_is_in_order_and_holds_no_unused_label() -> None:
    assert list(METRICS) == sorted(METRICS)
    assert set(LABELS) == {label for spec in SPECS for label in spec.labels}


def test_no_two_families_share_a_sample_name() -> None:
    suffixes = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("_created",)}
    names = [spec.name + suffix for spec in SPECS for suffix in ("", *suffixes.get(spec.kind, ()))]
    assert len(names) == len(set(names))
