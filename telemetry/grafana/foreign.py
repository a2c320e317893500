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

_COMPONENT = "component_id component_path"
_SCOPE = "otel_scope_name otel_scope_schema_url otel_scope_version"
_QUEUE = f"{_COMPONENT} data_type exporter {_SCOPE}"
_UNSENT = f"{_COMPONENT} error_permanent error_type exporter {_SCOPE} server_address server_port url_path"
_RECEIVER = f"{_COMPONENT} receiver transport {_SCOPE}"
_REMOTE = f"{_COMPONENT} remote_name url"

ALLOY: Final = _exporter(
    "alloy",
    prefixes=("alloy_", "loki_process_", "loki_write_", "otelcol_", "prometheus_remote_storage_"),
    source="Alloy 1.18, read from its /metrics; a drop counter is there from the first dropped line on",
    rows=(
        ("alloy_build_info", "info", "branch goarch goos goversion revision tags version"),
        ("alloy_component_controller_running_components", "gauge", "controller_id controller_path health_type"),
        ("alloy_config_last_load_successful", "gauge", ""),
        ("alloy_resources_process_resident_memory_bytes", "gauge", ""),
        ("loki_process_dropped_lines_total", "counter", f"{_COMPONENT} reason"),
        ("loki_write_dropped_entries_total", "counter", f"{_COMPONENT} host reason tenant"),
        ("otelcol_exporter_queue_capacity", "gauge", _QUEUE),
        ("otelcol_exporter_queue_size", "gauge", _QUEUE),
        ("otelcol_exporter_send_failed_log_records_total", "counter", _UNSENT),
        ("otelcol_exporter_send_failed_spans_total", "counter", _UNSENT),
        ("otelcol_receiver_accepted_log_records_total", "counter", _RECEIVER),
        ("otelcol_receiver_accepted_metric_points_total", "counter", _RECEIVER),
        ("otelcol_receiver_accepted_spans_total", "counter", _RECEIVER),
        ("otelcol_receiver_failed_log_records_total", "counter", _RECEIVER),
        ("otelcol_receiver_failed_metric_points_total", "counter", _RECEIVER),
        ("otelcol_receiver_failed_spans_total", "counter", _RECEIVER),
        ("otelcol_receiver_refused_log_records_total", "counter", _RECEIVER),
        ("otelcol_receiver_refused_metric_points_total", "counter", _RECEIVER),
        ("otelcol_receiver_refused_spans_total", "counter", _RECEIVER),
        ("prometheus_remote_storage_queue_highest_sent_timestamp_seconds", "gauge", _REMOTE),
        ("prometheus_remote_storage_queue_highest_timestamp_seconds", "gauge", _REMOTE),
        ("prometheus_remote_storage_samples_failed_total", "counter", _REMOTE),
        ("prometheus_remote_storage_samples_pending", "gauge", _REMOTE),
        ("prometheus_remote_storage_samples_retried_total", "counter", _REMOTE),
        ("prometheus_remote_storage_samples_total", "counter", _REMOTE),
    ),
)

_FILESYSTEM = "device device_error fstype mountpoint"

NODE: Final = _exporter(
    "node_exporter",
    prefixes=("node_",),
    source="node_exporter 1.12, read from its /metrics; what it takes from netstat and vmstat it calls untyped",
    rows=(
        ("node_boot_time_seconds", "gauge", ""),
        ("node_cpu_seconds_total", "counter", "cpu mode"),
        ("node_disk_io_time_seconds_total", "counter", "device"),
        ("node_disk_read_bytes_total", "counter", "device"),
        ("node_disk_written_bytes_total", "counter", "device"),
        ("node_filefd_allocated", "gauge", ""),
        ("node_filefd_maximum", "gauge", ""),
        ("node_filesystem_avail_bytes", "gauge", _FILESYSTEM),
        ("node_filesystem_files", "gauge", _FILESYSTEM),
        ("node_filesystem_files_free", "gauge", _FILESYSTEM),
        ("node_filesystem_size_bytes", "gauge", _FILESYSTEM),
        ("node_load1", "gauge", ""),
        ("node_memory_MemAvailable_bytes", "gauge", ""),
        ("node_memory_MemTotal_bytes", "gauge", ""),
        ("node_netstat_Tcp_OutSegs", "counter", ""),
        ("node_netstat_Tcp_RetransSegs", "counter", ""),
        ("node_network_receive_bytes_total", "counter", "device"),
        ("node_network_receive_drop_total", "counter", "device"),
        ("node_network_receive_errs_total", "counter", "device"),
        ("node_network_transmit_bytes_total", "counter", "device"),
        ("node_network_transmit_drop_total", "counter", "device"),
        ("node_network_transmit_errs_total", "counter", "device"),
        ("node_pressure_cpu_waiting_seconds_total", "counter", ""),
        ("node_pressure_io_waiting_seconds_total", "counter", ""),
        ("node_pressure_memory_waiting_seconds_total", "counter", ""),
        ("node_timex_offset_seconds", "gauge", ""),
        ("node_uname_info", "info", "domainname machine nodename release sysname version"),
        ("node_vmstat_oom_kill", "counter", ""),
        ("node_vmstat_pgmajfault", "counter", ""),
        ("node_vmstat_pswpin", "counter", ""),
        ("node_vmstat_pswpout", "counter", ""),
    ),
)

PROCESS: Final = _exporter(
    "process",
    prefixes=("process_",),
    source="what Prometheus' client libraries tell of their process, on Linux",
    rows=(
        ("process_cpu_seconds_total", "counter", ""),
        ("process_max_fds", "gauge", ""),
        ("process_open_fds", "gauge", ""),
        ("process_resident_memory_bytes", "gauge", ""),
        ("process_start_time_seconds", "gauge", ""),
        ("process_virtual_memory_bytes", "gauge", ""),
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

EXPORTERS: Final[tuple[Exporter, ...]] = (SCRAPER, FLUX, ALLOY, NODE, PROCESS, LOKI, TEMPO, VICTORIA_METRICS, OTHERS)
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
