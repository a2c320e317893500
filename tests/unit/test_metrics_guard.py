"""The cardinality guard. Symptom it answers to: a process at 3 GB after 15 days of raw ids in a label."""

from __future__ import annotations

import sys
import threading
import time
import timeit
import tracemalloc
from collections.abc import Callable

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from telemetry.catalogue import OVERFLOW_VALUE
from telemetry.metrics import registry
from telemetry.metrics.guard import Guarded, guarded


def plays(labels: list[str] | None = None) -> Counter:
    return Counter("plays", "Plays.", labels if labels is not None else ["track"], registry=CollectorRegistry())


def overflows(metric: str, label: str) -> float:
    return registry.counter("telemetry_label_overflow_total").child(metric, label)._value.get()


def series(metric: Counter) -> dict[tuple[str, ...], float]:
    return {
        tuple(sample.labels.values()): sample.value
        for family in metric.collect()
        for sample in family.samples
        if sample.name.endswith("_total")
    }


def test_a_hundred_thousand_values_make_no_more_series_than_the_limit_allows() -> None:
    metric = plays()
    counts = guarded(metric, limit=200)
    before = overflows("plays_total", "track")
    tracemalloc.start()
    for number in range(100_000):
        counts.child(f"track {number}").inc()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    found = series(metric)
    assert len(found) == 201
    assert found[OVERFLOW_VALUE,] == 100_000 - 200
    assert sum(found.values()) == 100_000
    assert overflows("plays_total", "track") - before == 100_000 - 200
    assert held < 1_000_000


def test_values_that_were_there_before_the_limit_was_reached_keep_counting() -> None:
    metric = plays()
    counts = guarded(metric, limit=2)
    for track in ("a", "b", "c", "a", "b", "d"):
        counts.child(track).inc()
    assert series(metric) == {("a",): 2, ("b",): 2, (OVERFLOW_VALUE,): 2}


def test_each_label_has_a_limit_of_its_own() -> None:
    metric = plays(["country", "track"])
    counts = guarded(metric, limit=2)
    for track in ("x", "y", "z"):
        counts.child("at", track).inc()
    counts.child("ch", "z").inc()
    assert set(series(metric)) == {("at", "x"), ("at", "y"), ("at", OVERFLOW_VALUE), ("ch", OVERFLOW_VALUE)}


def test_a_product_of_labels_is_bounded_as_well() -> None:
    metric = plays(["a", "b"])
    counts = guarded(metric, limit=100, series=50)
    for a in range(100):
        for b in range(100):
            counts.child(str(a), str(b)).inc()
    assert len(counts) == 51
    assert series(metric)[OVERFLOW_VALUE, OVERFLOW_VALUE] == 100 * 100 - 50


def test_the_same_child_comes_back_and_a_metric_without_labels_is_its_own() -> None:
    counts = guarded(plays())
    assert counts.child("a") is counts.child("a")
    gauge = Gauge("depth", "Depth.", registry=CollectorRegistry())
    assert guarded(gauge).child() is gauge


def test_a_wrong_number_of_values_is_said_with_the_labels() -> None:
    with pytest.raises(ValueError, match=r"plays_total has labels \('track',\), got 2 values"):
        guarded(plays()).child("a", "b")
    with pytest.raises(ValueError, match="plays_total has labels"):
        guarded(plays([])).child("a")


def test_values_that_are_no_strings_become_strings_and_never_each_other() -> None:
    metric = plays()
    counts = guarded(metric)
    for value in (1, True, 1.0, "1"):
        counts.child(value).inc()  # type: ignore[arg-type]
    assert series(metric) == {("1",): 2, ("True",): 1, ("1.0",): 1}


def test_a_lone_surrogate_does_not_make_the_family_unwritable() -> None:
    metric = plays()
    guarded(metric).child("a\udcff b").inc()
    assert series(metric) == {("a? b",): 1}


def test_the_overflow_counter_does_not_count_itself_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    overflow = registry.counter("telemetry_label_overflow_total")
    monkeypatch.setattr(overflow, "limit", 1)
    monkeypatch.setattr(overflow, "_seen", (set(), set()))
    counts = guarded(plays(["a", "b"]), limit=1)
    for value in ("x", "y", "z"):
        counts.child(value, value).inc()


def test_threads_agree_on_the_children_and_lose_no_count() -> None:
    metric = plays()
    counts = guarded(metric, limit=50)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:

        def count() -> None:
            for number in range(2000):
                counts.child(str(number % 100)).inc()

        threads = [threading.Thread(target=count) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert sum(series(metric).values()) == 4 * 2000
    assert len(series(metric)) == 51


def test_a_hit_costs_less_than_half_of_what_finding_the_child_without_a_guard_costs() -> None:
    metric = plays(["method", "route", "status"])
    counts = guarded(metric)
    values = ("GET", "/users/{id}", "200")

    def best(find: Callable[..., object]) -> float:
        return min(timeit.repeat(lambda: find(*values), number=5_000, repeat=20, timer=time.thread_time))

    assert best(counts.child) < best(metric.labels) / 2


def test_the_configured_limit_is_the_default_and_reaches_instruments_made_before() -> None:
    instrument = registry.counter("frontend_errors_total")
    try:
        registry.set_label_limit(7)
        assert guarded(plays()).limit == 7
        assert instrument.limit == 7
    finally:
        registry.set_label_limit(200)


def test_histograms_and_gauges_can_be_guarded() -> None:
    histogram = Histogram("wait_seconds", "Wait.", ["queue"], registry=CollectorRegistry())
    waits: Guarded[Histogram] = guarded(histogram, limit=1)
    waits.child("a").observe(1)
    waits.child("b").observe(1)
    assert len(waits) == 2


def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        guarded(plays(), limit=0)


def test_a_closed_label_starts_at_zero_for_each_value_whatever_the_limit() -> None:
    metric = plays()
    tracks = guarded(metric, limit=1).start(["a", "b", "c"])
    assert series(metric) == {("a",): 0.0, ("b",): 0.0, ("c",): 0.0}
    tracks.child("c").inc()
    assert tracks.start(["c", "a"]) is tracks
    assert series(metric) == {("a",): 0.0, ("b",): 0.0, ("c",): 1.0}
