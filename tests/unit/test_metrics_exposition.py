"""The exposition: everything once, in the format asked for, whatever a collector does."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from telemetry import faults, ledger
from telemetry.catalogue import METRICS
from telemetry.metrics import exposition
from telemetry.metrics.exposition import Exposition, ExpositionTimeout, Format, Source, negotiate
from telemetry.metrics.registry import CatalogueRegistry

# Python 3.12 warns of every fork beside a thread: forks beside threads are what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")

OPENMETRICS = "application/openmetrics-text; version=1.0.0"

PROMETHEUS_2 = ",".join(
    (
        "application/openmetrics-text;version=1.0.0;q=0.8",
        "application/openmetrics-text;version=0.0.1;q=0.75",
        "text/plain;version=0.0.4;q=0.5",
        "*/*;q=0.1",
    )
)
PROMETHEUS_3 = ",".join(
    (
        "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6",
        "application/openmetrics-text;version=0.0.1;q=0.5",
        "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4",
        "text/plain;version=0.0.4;q=0.3",
        "*/*;q=0.2",
    )
)


class Identity:
    def target_info(self) -> dict[str, str]:
        return {"service_name": "shop", "host_name": "h1"}


class Broken:
    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("half", "Half.", value=1)
        raise RuntimeError("the database is away")


class Slow:
    """A collector that waits until it is let go."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.go = threading.Event()
        self.calls = 0

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterable[Metric]:
        self.calls += 1
        self.entered.set()
        self.go.wait(30)
        return []


def made(*, users: CollectorRegistry | None = None) -> tuple[Exposition, CollectorRegistry, CatalogueRegistry]:
    users, ours = users or CollectorRegistry(), CatalogueRegistry()
    return Exposition(users, ours), users, ours


def requests(registry: CollectorRegistry) -> Histogram:
    spec = METRICS["http_server_request_duration_seconds"]
    return Histogram(spec.name, spec.help, spec.labels, unit=spec.unit, buckets=spec.buckets, registry=registry)


def test_both_formats_hold_everything_and_satisfy_the_parsers() -> None:
    shown, users, ours = made()
    Counter("uploads", "Uploads.", ["kind"], registry=users).labels("image").inc()
    requests(ours).labels("GET", "/users/{id}", "200").observe(0.2, exemplar={"trace_id": "ab" * 16})
    row = ledger.PROCESS.open("logs", "test-exposition")
    try:
        text, text_type = shown.render(None, identity=Identity())
        openmetrics, openmetrics_type = shown.render(OPENMETRICS, identity=Identity())
    finally:
        ledger.PROCESS.close(row)
    assert text_type == "text/plain; version=0.0.4; charset=utf-8"
    assert openmetrics_type == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    expected = {
        "target",
        "uploads",
        "http_server_request_duration_seconds",
        "telemetry_build",
        "telemetry_records_emitted",
        "telemetry_records_delivered",
        "telemetry_records_dropped",
        "telemetry_records_degraded",
        "telemetry_records_pending",
    }
    families = {family.name: family for family in parse_openmetrics(openmetrics.decode())}
    assert families.keys() == expected
    assert families["target"].samples[0].labels == {"service_name": "shop", "host_name": "h1"}
    exemplars = [s.exemplar.labels for s in families["http_server_request_duration_seconds"].samples if s.exemplar]
    assert exemplars == [{"trace_id": "ab" * 16}]
    names = {sample.name for family in parse_text(text.decode()) for sample in family.samples}
    assert "http_server_request_duration_seconds_bucket" in names
    assert "target_info" in names
    reasons = [s.labels["reason"] for s in families["telemetry_records_dropped"].samples]
    assert sorted(reasons) == sorted(ledger.REASONS)


def test_our_families_have_no_created_series_and_the_users_keep_theirs() -> None:
    shown, users, ours = made()
    Counter("uploads", "Uploads.", registry=users)
    requests(ours).labels("GET", "/", "200").observe(1)
    names = {s.name for family in shown.collect() for s in family.samples}
    assert "uploads_created" in names
    assert "http_server_request_duration_seconds_created" not in names


def test_every_sample_of_ours_is_catalogued() -> None:
    shown, _, ours = made()
    requests(ours).labels("GET", "/", "200").observe(1)
    row = ledger.PROCESS.open("traces", "test-exposition")
    try:
        families = shown.collect(Identity())
    finally:
        ledger.PROCESS.close(row)
    for family in families:
        spec = next(METRICS[name] for suffix in ("", "_total", "_info") if (name := family.name + suffix) in METRICS)
        assert family.type == spec.kind
        for sample in family.samples:
            assert spec.name == "target_info" or set(sample.labels) - {"le"} == set(spec.labels)


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (None, Format()),
        ("", Format()),
        ("*/*", Format()),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", Format()),
        ("text/plain", Format()),
        ("text/plain;version=0.0.4;q=0.5", Format()),
        ("application/openmetrics-text", Format("openmetrics", "1.0.0")),
        ("application/openmetrics-text;version=2.0.0", Format("openmetrics", "1.0.0")),
        (
            PROMETHEUS_2,
            Format("openmetrics", "1.0.0"),
        ),
        (
            PROMETHEUS_3,
            Format("openmetrics", "1.0.0", "allow-utf-8"),
        ),
        # VictoriaMetrics and Alloy's older scrapers
        ("text/plain;version=0.0.4;q=1,*/*;q=0.1", Format()),
        ("text/plain;version=1.0.0;escaping=allow-utf-8", Format("text", "1.0.0", "allow-utf-8")),
        ("text/plain;version=1.0.0", Format("text", "1.0.0", "underscores")),
        # What is preferred wins, not what stands first.
        ("text/plain;q=0.2, application/openmetrics-text;q=0.9", Format("openmetrics", "1.0.0")),
        ("application/openmetrics-text;q=0.2, text/plain;q=0.9", Format()),
        ("application/openmetrics-text;q=0, text/plain", Format()),
        ("APPLICATION/OPENMETRICS-TEXT; VERSION=1.0.0", Format("openmetrics", "1.0.0")),
        ("application/openmetrics-text;escaping=rot13", Format("openmetrics", "1.0.0")),
        # What nobody can use
        ("application/json", Format()),
        (";;,,q=,=", Format()),
        ("application/openmetrics-text;q=abc", Format()),
        ("text/plain;q=nan", Format()),
    ],
)
def test_negotiation(accept: str | None, expected: Format) -> None:
    assert negotiate(accept) == expected


@pytest.mark.expects_fault("metrics.clash")
def test_a_users_metric_wins_over_ours_and_the_name_stands_once(capfd: pytest.CaptureFixture[str]) -> None:
    shown, users, ours = made()
    requests(ours).labels("GET", "/", "200").observe(1)
    Gauge("http_server_request_duration_seconds", "Theirs.", registry=users).set(7)
    body = shown.render(OPENMETRICS)[0].decode()
    families = {family.name: family for family in parse_openmetrics(body)}
    assert families["http_server_request_duration_seconds"].documentation == "Theirs."
    assert body.count("# TYPE http_server_request_duration_seconds ") == 1
    shown.collect()
    assert faults.counts() == {"metrics.clash": 1}
    said = capfd.readouterr().err
    assert "'http_server_request_duration_seconds' of fleetglass is left out" in said
    assert "the default registry has" in said


@pytest.mark.expects_fault("metrics.clash")
def test_names_clash_also_by_a_sample_or_by_what_escaping_makes_of_them() -> None:
    shown, users, _ = made()
    Counter("jobs", "Jobs.", registry=users)
    shown.add_source(Source("late", lambda: [GaugeMetricFamily("jobs_total", "Jobs.", value=1)]))
    assert [f.name for f in shown.collect()].count("jobs_total") == 0
    shown.add_source(Source("later", lambda: [GaugeMetricFamily(name, "X.", value=1) for name in ("a.b", "a_b")]))
    assert [f.name for f in shown.collect() if f.name.startswith("a")] == ["a.b"]


def test_ours_wins_over_a_later_source_unless_nobody_has_used_ours(capfd: pytest.CaptureFixture[str]) -> None:
    shown, _, ours = made()
    spec = METRICS["http_server_active_requests"]
    active = Gauge(spec.name, spec.help, spec.labels, registry=ours)
    shown.add_source(Source("OpenTelemetry", lambda: [GaugeMetricFamily(spec.name, "Theirs.", value=3)]))
    found = [family for family in shown.collect() if family.name == spec.name]
    assert [family.documentation for family in found] == ["Theirs."]
    active.labels("GET").inc()
    found = [family for family in shown.collect() if family.name == spec.name]
    assert [family.documentation for family in found] == [spec.help]
    assert faults.counts() == {"metrics.clash": 1}
    faults.reset()
    capfd.readouterr()


def test_families_of_one_source_that_differ_in_their_help_are_one() -> None:
    shown, _, _ = made()
    first = GaugeMetricFamily("g", "One.", labels=["scope"])
    first.add_metric(["a"], 1)
    second = GaugeMetricFamily("g", "Two.", labels=["scope"])
    second.add_metric(["b"], 2)
    shown.add_source(Source("OpenTelemetry", lambda: [first, second]))
    body = shown.render(OPENMETRICS)[0].decode()
    family = next(family for family in parse_openmetrics(body) if family.name == "g")
    assert {s.labels["scope"]: s.value for s in family.samples} == {"a": 1, "b": 2}
    assert len(first.samples) == 1, "the source's own objects stay as they are"


@pytest.mark.expects_fault("metrics.collect")
def test_a_collector_that_raises_loses_its_families_and_no_others() -> None:
    shown, users, _ = made()
    users.register(Broken())
    Gauge("whole", "Whole.", registry=users)
    names = {family.name for family in shown.collect()}
    assert "whole" in names
    assert "half" not in names


@pytest.mark.expects_fault("metrics.collect")
def test_a_source_that_raises_loses_its_families_and_no_others() -> None:
    def fail() -> Iterable[Metric]:
        raise OSError("gone")

    shown, users, _ = made()
    Gauge("whole", "Whole.", registry=users)
    shown.add_source(Source("files", fail))
    assert {"whole", "telemetry_build"} <= {family.name for family in shown.collect()}


@pytest.mark.expects_fault("metrics.render")
@pytest.mark.parametrize("labels", [{"a": "\udcff"}, {"a": 7}, {"a": None}])
@pytest.mark.parametrize("accept", [None, OPENMETRICS])
def test_a_family_that_cannot_be_written_is_left_out(labels: dict[str, str], accept: str | None) -> None:
    shown, users, _ = made()
    Gauge("whole", "Whole.", registry=users)

    def families() -> Iterable[Metric]:
        family = Metric("bad", "Bad.", "gauge")
        family.add_sample("bad", labels, 1)
        return [family]

    shown.add_source(Source("odd", families))
    body = shown.render(accept)[0]
    assert b"whole 0.0" in body
    assert b"bad" not in body


def test_target_info_joins_what_the_user_set_and_who_we_are() -> None:
    shown, users, _ = made()
    users.set_target_info({"team": "blue", "service_name": "else"})
    family = shown.collect(Identity())[0]
    assert family.name == "target"
    assert family.samples[0].labels == {"team": "blue", "service_name": "shop", "host_name": "h1"}
    assert [f.name for f in shown.collect()].count("target") == 1


def test_a_rendering_is_kept_for_a_second_for_each_format(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(exposition.time, "monotonic", lambda: now[0])
    shown, users, _ = made()
    gauge = Gauge("g", "G.", registry=users)
    gauge.set(1)
    assert b"g 1.0" in shown.render(None)[0]
    gauge.set(2)
    assert b"g 1.0" in shown.render(None)[0]
    assert b"g 2.0" in shown.render(OPENMETRICS)[0]
    now[0] += exposition.CACHE_SECONDS
    assert b"g 2.0" in shown.render(None)[0]


def test_another_identity_is_not_served_the_kept_document() -> None:
    shown, _, _ = made()
    assert b"target_info" not in shown.render(None)[0]
    assert b"target_info" in shown.render(None, identity=Identity())[0]


def in_thread(call: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=call)
    thread.start()
    return thread


def test_scrapes_at_once_collect_once_and_get_the_same_bytes() -> None:
    shown, users, _ = made()
    slow = Slow()
    users.register(slow)
    bodies: list[bytes] = []
    threads = [in_thread(lambda: bodies.append(shown.render(None)[0])) for _ in range(4)]
    assert slow.entered.wait(30)
    time.sleep(0.05)
    slow.go.set()
    for thread in threads:
        thread.join(30)
    assert slow.calls == 1
    assert len(bodies) == 4
    assert len(set(bodies)) == 1


@pytest.mark.expects_fault("metrics.render")
def test_a_collector_that_hangs_fails_the_scrapes_behind_it_instead_of_piling_them_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exposition, "WAIT_SECONDS", 0.1)
    shown, users, _ = made()
    slow = Slow()
    users.register(slow)
    thread = in_thread(lambda: shown.render(None))
    assert slow.entered.wait(30)
    with pytest.raises(ExpositionTimeout, match="another scrape"):
        shown.render(None)
    slow.go.set()
    thread.join(30)
    assert shown.render(None)[0]


def test_a_child_forked_during_a_scrape_can_use_every_metric_and_scrape_itself() -> None:
    """Symptom: a worker forked while /metrics was read hangs on its first inc(), for ever."""
    shown, users, _ = made()
    counter = Counter("busy", "Busy.", registry=users)
    stop = threading.Event()

    def scrape() -> None:
        while not stop.is_set():
            shown.collect()

    thread = in_thread(scrape)
    try:
        for _ in range(30):
            pid = os.fork()
            if pid == 0:
                counter.inc()
                shown.render(None)
                os._exit(0)
            deadline = time.monotonic() + 30
            while os.waitpid(pid, os.WNOHANG) == (0, 0):
                if time.monotonic() > deadline:
                    os.kill(pid, 9)
                    os.waitpid(pid, 0)
                    pytest.fail("a forked child hangs")
                time.sleep(0.002)
    finally:
        stop.set()
        thread.join(30)


def test_a_collector_that_hangs_delays_a_fork_by_a_moment_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exposition, "FORK_WAIT_SECONDS", 0.1)
    shown, users, _ = made()
    slow = Slow()
    users.register(slow)
    thread = in_thread(shown.collect)
    assert slow.entered.wait(30)
    began = time.monotonic()
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    assert time.monotonic() - began < 8
    os.waitpid(pid, 0)
    slow.go.set()
    thread.join(30)
