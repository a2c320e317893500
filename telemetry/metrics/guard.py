"""The cardinality guard: a bound on the distinct values of each label of a metric.

OpenTelemetry and prometheus-client grow one series for each new label value, for ever; one raw path or
user id in a label takes a process to gigabytes. Here a label keeps its first ``limit`` values, further
ones become ``__other__``, and ``telemetry_label_overflow_total{metric,label}`` counts each replacement.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar, cast

from prometheus_client.metrics import MetricWrapperBase

from telemetry.catalogue import OVERFLOW_VALUE

M = TypeVar("M", bound=MetricWrapperBase)

DEFAULT_LIMIT = 200
DEFAULT_SERIES = 10_000


class Guarded(Generic[M]):
    """A prometheus metric whose children are kept and counted.

    ``child(*label_values)`` is the only way in. A hit is one dict lookup without a lock; a miss takes a
    lock and constant time. Memory is bounded whatever the values are: refused values are not remembered.
    The bound holds per process, also in multiprocess mode.
    """

    __slots__ = ("_children", "_lock", "_names", "_on_overflow", "_seen", "kind", "limit", "metric", "name", "series")

    def __init__(
        self,
        metric: M,
        *,
        limit: int = DEFAULT_LIMIT,
        series: int = DEFAULT_SERIES,
        on_overflow: Callable[[str, str], None],
    ) -> None:
        if limit < 1 or series < 1:
            raise ValueError(f"limit and series must be at least 1, got {limit} and {series}")
        self.metric = metric
        self.kind = str(metric._type)
        """Type of the metric, in Prometheus' words."""
        self.name = metric._name + ("_total" if metric._type == "counter" else "")
        """Name of the metric as queried."""
        self.limit = limit
        """Distinct values kept for each label."""
        self.series = series
        """Label combinations kept for the metric as a whole, since a product of labels grows faster than each."""
        self._names = tuple(cast("tuple[str, ...]", metric._labelnames))
        self._seen: tuple[set[str], ...] = tuple(set() for _ in self._names)
        self._children: dict[tuple[str, ...], M] = {}
        self._on_overflow = on_overflow
        self._lock = threading.RLock()  # re-entrant: a signal handler may count on top of a count

    def child(self, *values: str) -> M:
        """The child with these label values, in the metric's order; the same object each time.

        Raises ValueError when the number of values is not the number of labels, as prometheus-client does.
        """
        found = self._children.get(values)
        return found if found is not None else self._admit(values)

    def start(self, values: Iterable[str]) -> Guarded[M]:
        """Itself, with a child for each of ``values``, all that its one label can take.

        A counter of a closed enum starts at 0 so: a rate sees its first event, and a panel at rest shows 0 where one
        without a series would look like a source that is gone. The limit is for values that nobody knows before.
        """
        with self._lock:
            for value in values:
                if (value,) not in self._children:
                    self._children[value,] = self.metric.labels(value)
        return self

    def __len__(self) -> int:
        """How many children exist."""
        return len(self._children)

    def _admit(self, values: tuple[object, ...]) -> M:
        if len(values) != len(self._names):
            raise ValueError(f"{self.name} has labels {self._names}, got {len(values)} values")
        if not self._names:
            return self._children.setdefault((), self.metric)
        wanted = tuple(map(_clean, values))
        with self._lock:
            allowed, replaced = self._within_limits(wanted)
            child = self._children.get(allowed)
            if child is None:
                child = self._children[allowed] = self.metric.labels(*allowed)
        for label in replaced:
            self._on_overflow(self.name, label)
        return child

    def _within_limits(self, wanted: tuple[str, ...]) -> tuple[tuple[str, ...], list[str]]:
        if wanted in self._children:
            return wanted, []
        allowed = list(wanted)
        replaced: list[str] = []
        crowded = len(self._children) >= self.series
        for index, (name, value, seen) in enumerate(zip(self._names, wanted, self._seen, strict=True)):
            if value == OVERFLOW_VALUE:
                continue
            if crowded or (value not in seen and len(seen) >= self.limit):
                allowed[index] = OVERFLOW_VALUE
                replaced.append(name)
        if not crowded:
            for value, seen in zip(allowed, self._seen, strict=True):
                if value != OVERFLOW_VALUE:
                    seen.add(value)
        return tuple(allowed), replaced

    def after_fork(self) -> None:
        """In a forked child: the lock may have been held by a thread that does not exist here."""
        self._lock = threading.RLock()


def _clean(value: object) -> str:
    text = value if type(value) is str else str(value)
    # A lone surrogate in a label value would make the whole family impossible to encode.
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def guarded(metric: M, limit: int | None = None, *, series: int = DEFAULT_SERIES) -> Guarded[M]:
    """Guard a metric of your own: at most ``limit`` values for each label (default: the configured limit).

    >>> uploads = guarded(Counter("uploads_total", "Uploads.", ["tenant"]), limit=50)
    >>> uploads.child("acme").inc()
    """
    from telemetry.metrics import registry

    return Guarded(
        metric,
        limit=registry.label_limit() if limit is None else limit,
        series=series,
        on_overflow=registry.count_overflow,
    )
