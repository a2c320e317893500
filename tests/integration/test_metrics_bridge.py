"""OpenTelemetry instruments beside ours: in one exposition, each name once, and no import before one is asked for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from opentelemetry.metrics import Observation
from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics

from telemetry.catalogue import METRICS
from telemetry.metrics.bridge import BridgeMeterProvider
from telemetry.metrics.exposition import Exposition
from telemetry.metrics.registry import CatalogueRegistry

ROOT = Path(__file__).parents[2]


def made() -> tuple[Exposition, CatalogueRegistry, BridgeMeterProvider]:
    ours = CatalogueRegistry()
    shown = Exposition(CollectorRegistry(), ours)
    return shown, ours, BridgeMeterProvider(shown)


def families(shown: Exposition) -> dict[str, dict[tuple[str, tuple[tuple[str, str], ...]], float]]:
    body = shown.render("application/openmetrics-text")[0].decode()
    return {
        family.name: {
            (s.name, tuple(sorted((k, v) for k, v in s.labels.items() if not k.startswith("otel_scope")))): s.value
            for s in family.samples
        }
        for family in parse_openmetrics(body)
    }


def test_every_kind_of_instrument_appears() -> None:
    shown, _, provider = made()
    meter = provider.get_meter("library", "1.0")
    meter.create_counter("jobs.done", unit="1").add(2, {"queue": "mail"})
    meter.create_up_down_counter("jobs.open").add(3)
    meter.create_histogram("job.time", unit="s", explicit_bucket_boundaries_advisory=[1.0, 2.0]).record(1.5)
    meter.create_observable_gauge("heat", callbacks=[lambda _: [Observation(20.5, {"room": "a"})]], unit="Cel")
    found = families(shown)
    assert found["jobs_done"] == {("jobs_done_total", (("queue", "mail"),)): 2}
    assert found["jobs_open"] == {("jobs_open", ()): 3}
    assert found["heat_celsius"] == {("heat_celsius", (("room", "a"),)): 20.5}
    assert found["job_time_seconds"]["job_time_seconds_bucket", (("le", "2.0"),)] == 1


def test_attributes_that_are_changed_after_they_were_counted_change_nothing() -> None:
    """otel-python PR #5106: a dictionary that the caller went on to use moved what had been counted."""
    shown, _, provider = made()
    counter = provider.get_meter("library").create_counter("jobs.done")
    attributes = {"queue": "mail"}
    counter.add(1, attributes)
    attributes["queue"] = "print"
    counter.add(1, attributes)
    assert families(shown)["jobs_done"] == {
        ("jobs_done_total", (("queue", "mail"),)): 1,
        ("jobs_done_total", (("queue", "print"),)): 1,
    }


def test_one_name_in_two_libraries_stays_two_series_of_one_family() -> None:
    shown, _, provider = made()
    provider.get_meter("one").create_counter("calls", description="One.").add(1)
    provider.get_meter("two").create_counter("calls", description="Two.").add(2)
    body = shown.render("application/openmetrics-text")[0].decode()
    assert body.count("# TYPE calls counter") == 1
    assert 'otel_scope_name="one"' in body
    assert 'otel_scope_name="two"' in body
    assert list(parse_openmetrics(body))


@pytest.mark.expects_fault("metrics.clash")
def test_an_instrumented_asgi_library_beside_our_middleware_is_shown_once() -> None:
    shown, ours, provider = made()
    spec = METRICS["http_server_request_duration_seconds"]
    Histogram(spec.name, spec.help, spec.labels, unit=spec.unit, buckets=spec.buckets, registry=ours).labels(
        "GET", "/", "200"
    ).observe(0.1)
    theirs = provider.get_meter("asgi").create_histogram("http.server.request.duration", unit="s")
    theirs.record(0.1, {"http.request.method": "GET"})
    body = shown.render("application/openmetrics-text")[0].decode()
    assert body.count("# TYPE http_server_request_duration_seconds") == 1
    assert "otel_scope_name" not in body


def test_readings_are_right_however_often_they_are_read() -> None:
    shown, _, provider = made()
    counter = provider.get_meter("library").create_counter("calls")
    for expected in (1, 2, 3):
        counter.add(1)
        for _ in range(2):
            (family,) = (family for family in shown.collect() if family.name == "calls")
            assert [s.value for s in family.samples] == [expected]


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_the_global_provider_is_ours_for_good_and_light_until_it_is_asked() -> None:
    done = run(
        "import sys, telemetry\n"
        "from opentelemetry import metrics\n"
        "tel = telemetry.setup(service='s', stdout='off')\n"
        "assert 'opentelemetry.sdk.metrics' not in sys.modules\n"
        "counter = metrics.get_meter('library').create_counter('calls')\n"
        "assert 'opentelemetry.sdk.metrics' in sys.modules\n"
        "counter.add(1)\n"
        "tel.shutdown()\n"
        "tel = telemetry.setup(service='s', stdout='off')\n"
        "counter.add(1)\n"
        "print(tel.metrics()[0].decode())\n"
    )
    assert done.returncode == 0, done.stderr
    assert 'calls_total{otel_scope_name="library"' in done.stdout
    assert "} 2.0" in next(line for line in done.stdout.splitlines() if line.startswith("calls_total"))
    assert not done.stderr


def test_a_meter_that_was_taken_before_setup_counts_from_setup_on() -> None:
    done = run(
        "import telemetry\n"
        "from opentelemetry import metrics\n"
        "counter = metrics.get_meter('library').create_counter('calls')\n"
        "tel = telemetry.setup(service='s', stdout='off')\n"
        "counter.add(1)\n"
        "print(tel.metrics()[0].decode())\n"
    )
    assert done.returncode == 0, done.stderr
    assert "calls_total" in done.stdout


def test_a_provider_that_was_there_first_is_left_alone_and_said() -> None:
    done = run(
        "import telemetry\n"
        "from opentelemetry import metrics\n"
        "from opentelemetry.sdk.metrics import MeterProvider\n"
        "theirs = MeterProvider()\n"
        "metrics.set_meter_provider(theirs)\n"
        "tel = telemetry.setup(service='s', stdout='off')\n"
        "assert metrics.get_meter_provider() is theirs\n"
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("another OpenTelemetry MeterProvider is set already") == 1
