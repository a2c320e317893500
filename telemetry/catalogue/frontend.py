"""Browser errors that the ingest service takes."""

from __future__ import annotations

from telemetry.catalogue.spec import MetricSpec

METRICS: tuple[MetricSpec, ...] = (
    MetricSpec(
        name="frontend_errors_total",
        kind="counter",
        labels=("kind",),
        help="Browser errors accepted, counted as often as the page says they occurred.",
        origin="ingest.errors",
    ),
    MetricSpec(
        name="frontend_faro_ignored_total",
        kind="counter",
        labels=("item",),
        help="Items of Faro batches that are no new browser errors: other signals, and exceptions sent again.",
        origin="ingest.faro",
    ),
    MetricSpec(
        name="frontend_noise_total",
        kind="counter",
        labels=("reason",),
        help="Browser error reports dropped as noise, by what they were.",
        origin="ingest.errors",
    ),
    MetricSpec(
        name="frontend_reports_total",
        kind="counter",
        labels=("result",),
        help="Browser error reports received, by what became of them.",
        origin="ingest.errors",
    ),
    MetricSpec(
        name="frontend_sourcemaps_total",
        kind="counter",
        labels=("result",),
        help="Stacks of new browser errors given to the source map worker, by what became of them.",
        origin="ingest.errors",
    ),
    MetricSpec(
        name="frontend_store_errors_total",
        kind="counter",
        labels=("reason",),
        help="Calls to the store of shared limits that failed; limits then hold for each replica alone.",
        origin="ingest.limits",
    ),
    MetricSpec(
        name="frontend_store_up",
        kind="gauge",
        multiprocess="livemin",
        help="Whether limits are shared through the store now (1) or this replica limits alone (0).",
        origin="ingest.limits",
    ),
    MetricSpec(
        name="frontend_windows_closed_total",
        kind="counter",
        labels=("cause",),
        help="Closing lines written for repeats that were counted, by why the window was closed.",
        origin="ingest.limits",
    ),
    MetricSpec(
        name="frontend_windows_open",
        kind="gauge",
        help="Windows in which repeats of a browser error are counted instead of logged now.",
        origin="ingest.limits",
    ),
)
