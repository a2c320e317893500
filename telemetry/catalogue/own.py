"""What the library says of itself, and of the process it is in."""

from __future__ import annotations

from telemetry.catalogue.spec import OVERFLOW_VALUE, MetricSpec

_ROW = ("signal", "sink")

METRICS: tuple[MetricSpec, ...] = (
    MetricSpec(
        name="target_info",
        kind="info",
        help="Attributes of the process that is scraped, one label each; join with it by job and instance.",
        origin="telemetry.metrics.exposition",
    ),
    MetricSpec(
        name="telemetry_build_info",
        kind="info",
        labels=("version",),
        help="Version of this library; the value is always 1.",
        origin="telemetry.metrics.accounts",
    ),
    MetricSpec(
        name="telemetry_internal_faults_total",
        kind="counter",
        labels=("where",),
        help="Faults inside the library, which it keeps from the application.",
        origin="telemetry.faults",
    ),
    MetricSpec(
        name="telemetry_label_overflow_total",
        kind="counter",
        labels=("metric", "label"),
        help=f"Times a label value beyond the limit was replaced by {OVERFLOW_VALUE}.",
        origin="telemetry.metrics.guard",
    ),
    MetricSpec(
        name="telemetry_probe_timestamp_seconds",
        kind="gauge",
        unit="seconds",
        help="When `fleetglass probe` sent this sample, as Unix time; only the probe emits it.",
        origin="telemetry.probe",
    ),
    MetricSpec(
        name="telemetry_records_degraded_total",
        kind="counter",
        labels=_ROW,
        help="Records that had to be mended (cut, unformattable, bad characters) and went out all the same.",
        origin="telemetry.ledger",
    ),
    MetricSpec(
        name="telemetry_records_delivered_total",
        kind="counter",
        labels=_ROW,
        help="Records that a backend confirmed.",
        origin="telemetry.ledger",
    ),
    MetricSpec(
        name="telemetry_records_dropped_total",
        kind="counter",
        labels=(*_ROW, "reason"),
        help="Records given up, by reason.",
        origin="telemetry.ledger",
    ),
    MetricSpec(
        name="telemetry_records_emitted_total",
        kind="counter",
        labels=_ROW,
        help="Log lines, spans and pushed sample batches handed to a network sink.",
        origin="telemetry.ledger",
    ),
    MetricSpec(
        name="telemetry_records_pending",
        kind="gauge",
        labels=_ROW,
        help="Records queued or on their way: emitted, and neither delivered nor dropped yet.",
        origin="telemetry.ledger",
    ),
)
