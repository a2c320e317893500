"""Metrics in VictoriaMetrics on the three ways there: scraped, pushed, over OTLP. One name, one figure, on each."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry, Counter, Enum, Gauge, Histogram, Info, Summary
from prometheus_client.metrics_core import Metric

from telemetry.catalogue import METRICS
from telemetry.config import load
from telemetry.delivery import Limits, Shipper
from telemetry.ledger import Row
from telemetry.metrics import server
from telemetry.metrics.exposition import Exposition
from telemetry.metrics.otlp import encode
from telemetry.metrics.push import OtlpMetricsSink, Pusher, PushSink, push_text
from telemetry.metrics.registry import CatalogueRegistry
from telemetry.metrics.server import MetricsServer
from telemetry.otlp import channel, resource_message
from tests.backends.servers import VictoriaMetrics


class Identity:
    def target_info(self) -> dict[str, str]:
        return {"service_name": "shop", "host_name": 'h "1"\\'}


@pytest.fixture(scope="module")
def shown() -> Exposition:
    """An exposition with a metric of each kind: the user's, ours, one with units."""
    users, ours = CollectorRegistry(), CatalogueRegistry()
    Counter("uploads", "Uploads.", ["kind"], registry=users).labels("사진").inc(3)
    Counter("read_bytes", "Read.", unit="bytes", registry=users).inc(1e12)
    Gauge("heat_celsius", "Heat.", unit="celsius", registry=users).set(20.5)
    Gauge("used_ratio", "Used.", unit="ratio", registry=users).set(0.5)
    Gauge("speed_meters_per_second", "Speed.", unit="meters_per_second", registry=users).set(9)
    Gauge("seconds_of_something", "Odd.", registry=users).set(1)
    Summary("size_bytes", "Size.", unit="bytes", registry=users).observe(7)
    Info("build", "Build.", registry=users).info({"version": "1"})
    Enum("state", "State.", states=["up", "down"], registry=users).state("down")
    spec = METRICS["http_server_request_duration_seconds"]
    took = Histogram(spec.name, spec.help, spec.labels, unit=spec.unit, buckets=spec.buckets, registry=ours)
    took.labels("GET", "/users/{id}", "200").observe(0.2)
    took.labels("GET", "/users/{id}", "200").observe(20)
    return Exposition(users, ours)


@pytest.fixture
def scraped(shown: Exposition) -> Iterator[MetricsServer]:
    started = server.start("127.0.0.1:0", lambda accept: shown.render(accept, identity=Identity()))
    assert started is not None
    yield started
    started.stop()


def families(shown: Exposition) -> list[Metric]:
    return shown.collect(Identity())


def in_store(store: VictoriaMetrics, job: str) -> dict[tuple[str, ...], float]:
    """Values by name and labels, without what tells the ways apart."""
    ignored = {"__name__", "job", "instance"}
    return {
        (s.labels["__name__"], *(f"{k}={v}" for k, v in sorted(s.labels.items()) if k not in ignored)): s.value
        for s in store.query(f'{{job="{job}"}}')
        if s.labels["__name__"] != "up" and not s.labels["__name__"].startswith("scrape_")
        if not s.labels["__name__"].endswith("_created")
    }


def push(store: VictoriaMetrics, shown: Exposition, job: str) -> Row:
    row = Row("metrics", "victoriametrics")
    shipper = Shipper(PushSink(store.push_url), row, Limits(linger=0.01))
    labels = {"job": job, "instance": "h1"}
    Pusher(shipper, lambda at: push_text(families(shown), labels, at)).push()
    assert shipper.flush(time.monotonic() + 5)
    shipper.close(time.monotonic() + 1)
    return row


def test_what_is_pushed_is_what_is_scraped(
    victoria_metrics: VictoriaMetrics, shown: Exposition, scraped: MetricsServer
) -> None:
    row = push(victoria_metrics, shown, "pushed")
    assert row.snapshot().delivered == 1
    address = f"{scraped.address[0]}:{scraped.address[1]}"
    with victoria_metrics.scraping(address, "scraped"):
        deadline = time.monotonic() + 15
        while not in_store(victoria_metrics, "scraped") and time.monotonic() < deadline:
            time.sleep(0.2)
    pushed, by_scrape = in_store(victoria_metrics, "pushed"), in_store(victoria_metrics, "scraped")
    assert pushed == by_scrape
    assert pushed["uploads_total", "kind=사진"] == 3
    assert pushed["target_info", 'host_name=h "1"\\', "service_name=shop"] == 1
    count = ("http_request_method=GET", "http_response_status_code=200", "http_route=/users/{id}")
    assert pushed["http_server_request_duration_seconds_count", *count] == 2


def test_pushed_samples_stand_at_the_time_of_their_collection(
    victoria_metrics: VictoriaMetrics, shown: Exposition
) -> None:
    at = round(time.time() - 60, 3)
    victoria_metrics.push(push_text(families(shown), {"job": "late", "instance": "h1"}, at).decode())
    (sample,) = victoria_metrics.query('timestamp(uploads_total{job="late"})')
    assert sample.value == pytest.approx(at, abs=0.001)


def test_names_and_figures_over_otlp_are_those_of_the_exposition(
    victoria_metrics: VictoriaMetrics, shown: Exposition
) -> None:
    """The store converts to Prometheus naming: it must arrive at the names that we began with."""
    push(victoria_metrics, shown, "beside-otlp")
    arguments = {"metrics_exporter": "otlp", "otlp_metrics_endpoint": victoria_metrics.otlp_metrics_url}
    target = load(arguments).config.otlp("metrics")
    assert target is not None
    sink = OtlpMetricsSink(channel("metrics", target))
    now = time.time()
    resource = resource_message({"job": "over-otlp", "instance": "h1"})
    verdict = sink.send(encode(families(shown), resource, start=now - 5, at=now), 10)
    sink.close()
    assert verdict.kind == "delivered"
    expected = in_store(victoria_metrics, "beside-otlp")
    found = in_store(victoria_metrics, "over-otlp")

    def without_scope(key: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(part for part in key if not part.startswith(("scope", "otel_scope")))

    def number_of_le(key: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(f"le={float(part[3:])}" if part.startswith("le=") else part for part in key)

    over_otlp = {number_of_le(without_scope(key)): value for key, value in found.items()}
    wanted = {number_of_le(key): value for key, value in expected.items() if key[0] != "target_info"}
    assert {key: over_otlp.get(key) for key in wanted} == wanted
    assert {key[0] for key in over_otlp} <= {key[0] for key in wanted}
