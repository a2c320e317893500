"""Every metric the project emits, once: name, kind, unit, labels, help, buckets, origin.

The registry makes instruments from this table and refuses what is not in it, the reference page is
written from it, and dashboards and alerts may name only what stands here. It knows nobody.
"""

from __future__ import annotations

from telemetry.catalogue import fleet, frontend, http, own
from telemetry.catalogue.http import HTTP_DURATION_BUCKETS
from telemetry.catalogue.labels import LABELS
from telemetry.catalogue.spec import OVERFLOW_VALUE, Kind, MetricSpec

PREFIXES = ("telemetry_", "frontend_", "fleet_", "http_server_")
"""Name prefixes that are ours: below them only catalogued metrics may be registered."""

METRICS: dict[str, MetricSpec] = {
    spec.name: spec
    for spec in sorted((*fleet.METRICS, *frontend.METRICS, *http.METRICS, *own.METRICS), key=lambda spec: spec.name)
}
"""All metrics by name, in order of name."""

__all__ = ["HTTP_DURATION_BUCKETS", "LABELS", "METRICS", "OVERFLOW_VALUE", "PREFIXES", "Kind", "MetricSpec"]
