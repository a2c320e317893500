"""Metrics of other programs that our dashboards and alerts may name: the catalogue lists only what we emit.

A row is what one exporter exposes under one name. An exporter's ``prefixes`` say which names are its own: lint asks
this table about those and about nothing else, so a user's metrics pass. ``complete`` says that the table holds all
that the exporter has: then an unknown name is an error, otherwise a notice.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from telemetry.catalogue import Kind


class Foreign(msgspec.Struct, frozen=True):
    """One metric of another program: its name as queried (a counter's as exposed), and its labels but ``job`` etc.

    A histogram is one row under its family's name: ``_bucket``, ``_sum`` and ``_count`` go with it.
    """

    name: str
    kind: Kind
    labels: tuple[str, ...] = ()
    exporter: str = ""


class Exporter(msgspec.Struct, frozen=True, kw_only=True):
    """A program that others scrape. ``source`` says where its names were read: the version and how."""

    name: str
    prefixes: tuple[str, ...]
    source: str
    metrics: tuple[Foreign, ...]
    complete: bool = False


def _exporter(
    name: str,
    *,
    prefixes: tuple[str, ...],
    source: str,
    rows: tuple[tuple[str, Kind, str], ...],
    complete: bool = False,
) -> Exporter:
    """An exporter from rows of name, kind, and labels parted by spaces."""
    metrics = tuple(Foreign(metric, kind, tuple(labels.split()), name) for metric, kind, labels in rows)
    return Exporter(name=name, prefixes=prefixes, source=source, metrics=metrics, complete=complete)


SCRAPER: Final = _exporter(
    "scraper",
    prefixes=("up", "scrape_", "ALERTS"),
    source="what Prometheus, vmagent and Alloy add to each scrape, and vmalert to each alert",
    rows=(
        ("ALERTS", "gauge", "alertname alertstate severity"),
        ("ALERTS_FOR_STATE", "gauge", "alertname severity"),
        ("scrape_duration_seconds", "gauge", ""),
        ("scrape_samples_post_metric_relabeling", "gauge", ""),
        ("scrape_samples_scraped", "gauge", ""),
        ("scrape_series_added", "gauge", ""),
        ("up", "gauge", ""),
    ),
)

FLUX: Final = _exporter(
    "flux",
    prefixes=("gotk_",),
    source="Flux 2.8: gotk_resource_info comes from kube-state-metrics, customResourceState (flux2-monitoring-example)",
    rows=(
        ("gotk_reconcile_duration_seconds", "histogram", "kind name namespace"),
        ("gotk_resource_info", "gauge", "customresource_kind name exported_namespace ready suspended revision"),
    ),
)

ALLOY: Final = _exporter(
    "alloy",
    prefixes=("alloy_", "loki_process_"),
    source="Alloy 1.18, read from its /metrics; a drop counter is there from the first dropped line on",
    rows=(
        ("alloy_build_info", "info", "branch goarch goos goversion revision tags version"),
        ("loki_process_dropped_lines_total", "counter", "component_id component_path reason"),
    ),
)

LOKI: Final = _exporter(
    "loki",
    prefixes=("loki_",),
    source="Loki 3.8, read from its /metrics; a reason is there from the first discarded line on",
    rows=(
        ("loki_build_info", "info", "branch goarch goos goversion revision tags version"),
        ("loki_discarded_samples_total", "counter", "format policy reason retention_hours tenant"),
    ),
)

TEMPO: Final = _exporter(
    "tempo",
    prefixes=("tempo_",),
    source="Tempo 3.0, read from its /metrics",
    rows=(("tempo_build_info", "info", "branch goarch goos goversion revision tags version"),),
)

VICTORIA_METRICS: Final = _exporter(
    "victoriametrics",
    prefixes=("vm_", "vmalert_"),
    source="VictoriaMetrics and vmalert 1.151, read from their /metrics",
    rows=(
        ("vm_app_version", "info", "short_version version"),
        ("vm_rows_ignored_total", "counter", "reason"),
        ("vmalert_execution_errors_total", "counter", ""),
        ("vmalert_iteration_total", "counter", "file group"),
    ),
)

OTHERS: Final = _exporter(
    "others",
    prefixes=("grafana_build_info", "kube_pod_info"),
    source="the documentation of Grafana and of kube-state-metrics",
    rows=(
        ("grafana_build_info", "info", "branch edition goversion revision version"),
        ("kube_pod_info", "info", "host_ip namespace node pod pod_ip uid"),
    ),
)

EXPORTERS: Final[tuple[Exporter, ...]] = (SCRAPER, FLUX, ALLOY, LOKI, TEMPO, VICTORIA_METRICS, OTHERS)
"""All exporters; one that is missing here is not checked at all."""


def _metrics() -> Iterator[Foreign]:
    return (metric for exporter in EXPORTERS for metric in exporter.metrics)


FOREIGN: Final[dict[str, Foreign]] = {metric.name: metric for metric in _metrics()}
"""All foreign metrics by name."""


def exporter_of(name: str) -> Exporter | None:
    """The exporter whose prefix ``name`` has, the longest prefix first; a prefix without ``_`` is a whole name."""
    best: tuple[int, Exporter] | None = None
    for exporter in EXPORTERS:
        for prefix in exporter.prefixes:
            fits = name.startswith(prefix) if prefix.endswith("_") else name == prefix or name.startswith(f"{prefix}_")
            if fits and (best is None or len(prefix) > best[0]):
                best = (len(prefix), exporter)
    return best[1] if best else None
