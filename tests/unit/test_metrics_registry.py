"""Our registry takes what the catalogue holds, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterable

import pytest
from prometheus_client import Counter, Gauge
from prometheus_client.metrics_core import CounterMetricFamily, Metric

from telemetry.catalogue import METRICS
from telemetry.metrics import registry
from telemetry.metrics.registry import CatalogueRegistry, NotInCatalogue

# Python 3.12 warns of every fork beside a thread: forks beside threads are what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


@pytest.mark.parametrize("name", [name for name, spec in METRICS.items() if spec.kind != "info"])
def test_every_instrument_of_the_catalogue_can_be_made_and_is_made_once(name: str) -> None:
    spec = METRICS[name]
    make = getattr(registry, spec.kind)
    assert make(name) is make(name)
    assert make(name).metric._name == spec.family
    assert make(name).metric._documentation == spec.help


def test_a_name_outside_the_catalogue_is_refused() -> None:
    with pytest.raises(NotInCatalogue, match=r"'fleet_surprises_total' is not in telemetry\.catalogue\.METRICS"):
        registry.counter("fleet_surprises_total")


@pytest.mark.parametrize("used", [False, True])
def test_a_name_of_another_kind_is_refused(used: bool) -> None:
    if used:
        registry.gauge("http_server_active_requests").child("GET")
    with pytest.raises(NotInCatalogue, match="is a gauge in the catalogue, not a counter"):
        registry.counter("http_server_active_requests")


@pytest.mark.parametrize("name", ["telemetry_x", "frontend_x", "fleet_x", "http_server_x", "anything"])
def test_registering_an_unlisted_metric_raises(name: str) -> None:
    with pytest.raises(NotInCatalogue):
        Gauge(name, "What.", registry=CatalogueRegistry())


def test_a_collector_that_does_not_say_what_it_emits_is_refused() -> None:
    class Silent:
        def collect(self) -> Iterable[Metric]:
            return []

    with pytest.raises(NotInCatalogue, match="has no describe"):
        CatalogueRegistry().register(Silent())


def test_a_collector_that_describes_catalogued_families_is_taken() -> None:
    class Honest:
        def describe(self) -> Iterable[Metric]:
            return [CounterMetricFamily("frontend_errors", "Help.")]

        def collect(self) -> Iterable[Metric]:
            return []

    CatalogueRegistry().register(Honest())


def test_the_rules_do_not_bind_the_users_registry() -> None:
    from prometheus_client import REGISTRY

    theirs = Counter("fleet_theirs", "Theirs.")
    REGISTRY.unregister(theirs)


def test_a_forked_child_counts_from_zero_even_when_a_lock_was_held() -> None:
    errors = registry.counter("frontend_errors_total")
    child = errors.child("other")
    child.inc(5)
    before = child._value.get()
    reader, writer = os.pipe()
    held = [child._value._lock, errors._lock, errors.metric._lock]
    for lock in held:
        lock.acquire()
    try:
        pid = os.fork()
        if pid == 0:
            # Nothing but os calls from here: the child leaves without pytest's clean-up.
            child.inc(2)
            errors.child("react").inc()
            os.write(writer, f"{child._value.get()}".encode())
            os._exit(0)
    finally:
        for lock in held:
            lock.release()
    os.close(writer)
    assert os.read(reader, 100) == b"2.0"
    os.close(reader)
    assert os.waitpid(pid, 0)[1] == 0
    assert child._value.get() == before
