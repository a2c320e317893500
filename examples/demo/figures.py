"""Numbers of the page, from the samples that processes push: kept by series, as a metrics store would."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from ingest.errors.report import KINDS
from ingest.errors.route import RESULTS
from telemetry.testing import Sample
from telemetry.worker import OUTCOMES

# A gauge that was not pushed for so long is one that its process tells no more.
_GONE_MS = 6_000
_COUNTED = {
    "fleet_job_executed_total": "outcome",
    "fleet_queue_requeues_total": "requeued",
    "fleet_queue_given_up_total": "given_up",
}
_QUEUE = {
    "fleet_queue_running": "running",
    "fleet_queue_wait_p50_seconds": "wait_p50",
    "fleet_queue_wait_p95_seconds": "wait_p95",
    "fleet_queue_failed_jobs": "failed",
    "fleet_queue_restart_limit_jobs": "at_limit",
}
_Series = tuple[str, tuple[tuple[str, str], ...]]


class Figures:
    """What the samples so far say. ``shop`` is the service whose requests are counted."""

    def __init__(self, shop: str) -> None:
        self._shop = shop
        self._last: dict[_Series, Sample] = {}
        self._sums: dict[str, defaultdict[str, float]] = {}
        self._newest = 0

    def take(self, samples: Iterable[Sample]) -> None:
        """The next samples, in order of arrival."""
        for sample in samples:
            series = (sample.name, tuple(sorted(sample.labels.items())))
            if sample.name in _COUNTED:
                self._count(sample, self._last.get(series))
            self._last[series] = sample
            self._newest = max(self._newest, sample.timestamp_ms)

    def _count(self, sample: Sample, before: Sample | None) -> None:
        """A counter's growth, also over restarts: the sum over all processes there ever were."""
        had = before.value if before is not None and before.value <= sample.value else 0.0
        what = _COUNTED[sample.name]
        row = self._sums.setdefault(sample.labels["tag"], defaultdict(float))
        row[sample.labels[what] if what == "outcome" else what] += sample.value - had

    def shown(self) -> dict[str, Any]:
        """Reports, requests, jobs and queue, as the page wants them."""
        kinds: dict[str, int] = dict.fromkeys(KINDS, 0)
        results: dict[str, int] = dict.fromkeys(RESULTS, 0)
        requests: dict[tuple[str, str, str], dict[str, float]] = {}
        queue: dict[str, dict[str, float]] = {}
        for sample in list(self._last.values()):
            labels = sample.labels
            if sample.name in _QUEUE and self._newest - sample.timestamp_ms <= _GONE_MS:
                queue.setdefault(labels["tag"], {})[_QUEUE[sample.name]] = sample.value
            if labels.get("job") != self._shop:
                continue
            match sample.name:
                case "frontend_errors_total":
                    kinds[labels["kind"]] = int(sample.value)
                case "frontend_reports_total":
                    results[labels["result"]] = int(sample.value)
                case "http_server_request_duration_seconds_count" | "http_server_request_duration_seconds_sum":
                    key = (labels["http_request_method"], labels["http_route"], labels["http_response_status_code"])
                    requests.setdefault(key, {})[sample.name.rpartition("_")[2]] = sample.value
        return {
            "kinds": kinds,
            "results": results,
            "requests": [
                _request(key, each) for key, each in sorted(requests.items(), key=_route) if each.get("count")
            ],
            "jobs": [_job(tag, row) for tag, row in sorted(self._sums.items())],
            "queue": queue,
        }


def _route(item: tuple[tuple[str, str, str], Mapping[str, float]]) -> str:
    return item[0][1]


def _request(key: tuple[str, str, str], figures: Mapping[str, float]) -> dict[str, Any]:
    method, route, status = key
    count = figures["count"]
    mean_ms = 1000 * figures.get("sum", 0.0) / count
    return {"method": method, "route": route, "status": status, "count": int(count), "mean_ms": mean_ms}


def _job(tag: str, row: Mapping[str, float]) -> dict[str, Any]:
    return {"tag": tag, **{name: int(row.get(name, 0)) for name in (*OUTCOMES, "requeued", "given_up")}}
