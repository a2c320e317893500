"""Our own instruments: prometheus-client metrics made from the catalogue, guarded, in a registry of ours.

The user's metrics stay in ``prometheus_client.REGISTRY``, which nothing here touches.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from typing import Any, TypeVar, cast

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, values
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.registry import Collector

from telemetry.catalogue import METRICS, MetricSpec
from telemetry.metrics.guard import DEFAULT_LIMIT, Guarded

M = TypeVar("M", bound=MetricWrapperBase)


class NotInCatalogue(ValueError):
    """A metric was asked for, or registered, that ``telemetry.catalogue.METRICS`` does not hold as such."""


class CatalogueRegistry(CollectorRegistry):
    """A registry that takes only what the catalogue lists: a collector has to describe itself."""

    def register(self, collector: Collector) -> None:
        """Take ``collector`` in. Raises NotInCatalogue for what the catalogue does not hold."""
        describe = getattr(collector, "describe", None)
        if describe is None:
            raise NotInCatalogue(f"{collector!r} has no describe(), so that nothing says what it would emit")
        for family in describe():
            name = family.name + {"counter": "_total", "info": "_info"}.get(family.type, "")
            _spec(name, family.type)
        super().register(collector)


def _spec(name: str, kind: str) -> MetricSpec:
    spec = METRICS.get(name)
    if spec is None:
        raise NotInCatalogue(f"metric {name!r} is not in telemetry.catalogue.METRICS: add it there first")
    if spec.kind != kind:
        raise NotInCatalogue(f"metric {name!r} is a {spec.kind} in the catalogue, not a {kind}")
    return spec


REGISTRY = CatalogueRegistry()
_OVERFLOWS = "telemetry_label_overflow_total"
_instruments: dict[str, Guarded[Any]] = {}
_lock = threading.RLock()
_limit = DEFAULT_LIMIT


def counter(name: str) -> Guarded[Counter]:
    """The catalogued counter ``name``; the same instrument each time. NotInCatalogue for any other name."""
    return cast("Guarded[Counter]", _instrument(name, "counter"))


def gauge(name: str) -> Guarded[Gauge]:
    """The catalogued gauge ``name``; the same instrument each time. NotInCatalogue for any other name."""
    return cast("Guarded[Gauge]", _instrument(name, "gauge"))


def histogram(name: str) -> Guarded[Histogram]:
    """The catalogued histogram ``name``; the same instrument each time. NotInCatalogue for any other name."""
    return cast("Guarded[Histogram]", _instrument(name, "histogram"))


def _instrument(name: str, kind: str) -> Guarded[Any]:
    found = _instruments.get(name)
    # What was made already is of a kind, too: a counter asked for by a gauge's name is refused the second time as well.
    return found if found is not None and found.kind == kind else _make(_spec(name, kind))


def set_label_limit(limit: int) -> None:
    """Keep at most ``limit`` values for each label from now on (``metrics_label_values``)."""
    global _limit
    with _lock:
        _limit = limit
        for instrument in _instruments.values():
            instrument.limit = limit


def label_limit() -> int:
    """The limit that guards are made with."""
    return _limit


def count_overflow(metric: str, label: str) -> None:
    """Count one value of ``label`` that the guard of ``metric`` replaced."""
    counter(_OVERFLOWS).child(metric, label).inc()


def _make(spec: MetricSpec) -> Guarded[Any]:
    with _lock:
        made = _instruments.get(spec.name)
        if made is None:
            # The overflow counter must not count its own overflow: that would never end.
            on_overflow = _ignore if spec.name == _OVERFLOWS else count_overflow
            made = Guarded(_metric(spec), limit=_limit, on_overflow=on_overflow)
            _instruments[spec.name] = made
        return made


def _metric(spec: MetricSpec) -> MetricWrapperBase:
    if spec.kind == "counter":
        return Counter(spec.family, spec.help, spec.labels, unit=spec.unit, registry=REGISTRY)
    if spec.kind == "histogram":
        return Histogram(spec.name, spec.help, spec.labels, unit=spec.unit, buckets=spec.buckets, registry=REGISTRY)
    return Gauge(
        spec.name, spec.help, spec.labels, unit=spec.unit, registry=REGISTRY, multiprocess_mode=spec.multiprocess
    )


def _ignore(metric: str, label: str) -> None:
    """Where nothing is to be counted."""


def instruments() -> Iterable[Guarded[Any]]:
    """The instruments made so far."""
    return list(_instruments.values())


def _after_fork_in_child() -> None:
    """Start at zero, with locks of our own: what was counted before the fork stays the parent's.

    prometheus-client's values are mutexes with a number; one that another thread held at the fork would
    never be released here. In multiprocess mode it opens files of the child's by itself.
    """
    global _lock
    _lock = threading.RLock()
    REGISTRY._lock = threading.Lock()
    for instrument in _instruments.values():
        instrument.after_fork()
        metric: Any = instrument.metric
        children = [metric, *getattr(metric, "_metrics", {}).values()]
        if hasattr(metric, "_lock"):
            metric._lock = threading.Lock()
        for child in children:
            held = (getattr(child, "_value", None), getattr(child, "_sum", None), *getattr(child, "_buckets", ()))
            for value in held:
                if isinstance(value, values.MutexValue):
                    value.__init__("", "", "", (), (), "")  # type: ignore[misc]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
