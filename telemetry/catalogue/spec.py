"""What the catalogue says of one metric."""

from __future__ import annotations

from typing import Literal

import msgspec

Kind = Literal["counter", "gauge", "histogram", "info"]

OVERFLOW_VALUE = "__other__"
"""What the cardinality guard writes in place of a label value beyond the limit."""


class MetricSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One metric family.

    ``name`` is the name as queried: a counter's ends in ``_total``, an info's in ``_info``.
    ``unit`` is the Prometheus base unit (``seconds``, ``bytes``) or empty; it then ends the name.
    ``buckets`` are a histogram's upper bounds in ``unit``, without ``+Inf``.
    ``multiprocess`` says how a gauge of several processes is put together (prometheus_client's modes).
    ``origin`` is the module that emits it.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    unit: str = ""
    buckets: tuple[float, ...] = ()
    multiprocess: Literal["livesum", "livemax", "livemin", "livemostrecent"] = "livesum"
    origin: str

    @property
    def family(self) -> str:
        """Name of the metric family in OpenMetrics: without ``_total`` or ``_info``."""
        if self.kind == "counter":
            return self.name.removesuffix("_total")
        return self.name.removesuffix("_info") if self.kind == "info" else self.name
