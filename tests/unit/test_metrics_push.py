"""Pushing: what a batch says, what an answer means, and when batches go out."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families as parse_text

from telemetry.config import load
from telemetry.delivery import Limits, Shipper
from telemetry.ledger import Row
from telemetry.metrics.push import OtlpMetricsSink, Pusher, PushSink, classify, push_text
from telemetry.otlp import channel
from telemetry.testing import Receiver, Redirect, Status
from telemetry.transport import Response

# Python 3.12 warns of every fork beside a thread: forks beside threads are what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")

AT = 1717171717.1234
LABELS = {"job": "shop", "instance": "h1"}


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running


def shipper_to(receiver: Receiver, row: Row, **headers: str) -> Shipper:
    return Shipper(
        PushSink(f"{receiver.url}/api/v1/import/prometheus", headers), row, Limits(linger=0.01, first_backoff=0.01)
    )


def test_each_sample_gets_the_time_in_milliseconds_and_the_labels_it_lacks() -> None:
    registry = CollectorRegistry()
    Counter("jobs", "Jobs.", ["instance"], registry=registry).labels("mine").inc(2)
    Gauge("depth", "Depth.", registry=registry).set(3)
    text = push_text(registry.collect(), {**LABELS, "region": "eu"}, AT).decode()
    assert 'jobs_total{job="shop",instance="mine",region="eu"} 2.0 1717171717123\n' in text
    assert 'depth{job="shop",instance="h1",region="eu"} 3.0 1717171717123\n' in text
    assert all(line.startswith("#") or line.endswith(" 1717171717123") for line in text.splitlines())
    assert list(parse_text(text))


def test_a_sample_that_brings_its_own_time_keeps_it() -> None:
    family = GaugeMetricFamily("g", "G.")
    family.add_metric([], 1, timestamp=5.5)
    assert push_text([family], LABELS, AT).endswith(b" 1.0 5500\n")


def test_a_metric_keeps_its_name_whatever_its_unit() -> None:
    family = Metric("size", "Size.", "gauge")
    family.unit = "bytes"
    family.add_sample("size", {}, 1)
    assert b"# TYPE size gauge" in push_text([family], {}, AT)


@pytest.mark.expects_fault("metrics.push")
def test_a_family_that_cannot_be_written_is_left_out() -> None:
    bad = Metric("bad", "Bad.", "gauge")
    bad.add_sample("bad", {"a": "\udcff"}, 1)
    text = push_text([bad, GaugeMetricFamily("good", "Good.", value=1)], {}, AT)
    assert b"good 1.0" in text
    assert b"bad" not in text


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (204, "delivered"),
        (200, "delivered"),
        (301, "rejected"),
        (400, "split"),
        (401, "rejected"),
        (404, "rejected"),
        (408, "retry"),
        (413, "split"),
        (429, "retry"),
        (500, "retry"),
        (503, "retry"),
    ],
)
def test_what_an_answer_means(status: int, kind: str) -> None:
    verdict = classify(Response(status, {"retry-after": "7", "location": "/x"}, b"because"))
    assert verdict.kind == kind
    assert verdict.retry_after == (7.0 if kind == "retry" else None)
    assert (str(status) in verdict.message) == (kind != "delivered")


def test_a_batch_is_one_record_and_arrives(receiver: Receiver) -> None:
    registry = CollectorRegistry()
    Gauge("depth", "Depth.", registry=registry).set(3)
    row = Row("metrics", "victoriametrics")
    shipper = shipper_to(receiver, row)
    pusher = Pusher(shipper, lambda at: push_text(registry.collect(), LABELS, at), interval=60)
    assert pusher.push()
    assert pusher.push()
    assert shipper.flush(time.monotonic() + 5)
    shipper.close(time.monotonic() + 1)
    snapshot = row.snapshot()
    assert (snapshot.emitted, snapshot.delivered, snapshot.pending) == (2, 2, 0)
    assert {(s.name, s.labels["job"], s.labels["instance"], s.value) for s in receiver.samples} == {
        ("depth", "shop", "h1", 3.0)
    }
    assert not receiver.skipped
    assert receiver.requests[0].path == "/api/v1/import/prometheus"


def test_a_backend_that_is_away_for_a_moment_loses_nothing(receiver: Receiver) -> None:
    receiver.behave(Status(503), times=2)
    row = Row("metrics", "victoriametrics")
    shipper = shipper_to(receiver, row)
    Pusher(shipper, lambda at: push_text([GaugeMetricFamily("g", "G.", value=1)], LABELS, at)).push()
    assert shipper.flush(time.monotonic() + 5)
    shipper.close(time.monotonic() + 1)
    assert row.snapshot().delivered == 1
    assert len(receiver.samples) == 1


def test_a_redirect_is_a_loss_that_says_what_to_do(receiver: Receiver, capfd: pytest.CaptureFixture[str]) -> None:
    receiver.behave(Redirect("http://elsewhere.invalid/"))
    row = Row("metrics", "victoriametrics")
    shipper = shipper_to(receiver, row)
    Pusher(shipper, lambda _: b"g 1\n").push()
    assert not shipper.flush(time.monotonic() + 5)
    shipper.close(time.monotonic() + 1)
    assert row.snapshot().dropped == {"rejected": 1}
    assert "a redirect to http://elsewhere.invalid/: give the final URL" in capfd.readouterr().err


def test_batches_for_otlp_are_joined_into_one_request(receiver: Receiver) -> None:
    from telemetry.metrics.otlp import encode
    from telemetry.otlp import resource_message

    target = load({"metrics_exporter": "otlp", "otlp_endpoint": receiver.url}).config.otlp("metrics")
    assert target is not None
    sink = OtlpMetricsSink(channel("metrics", target))
    resource = resource_message({"service.name": "shop"})
    batches = [encode([GaugeMetricFamily("g", "G.", value=n)], resource, start=AT, at=AT + n) for n in (1, 2)]
    verdict = sink.send(sink.encode(batches), 5)
    sink.close()
    assert verdict.kind == "delivered"
    assert [(s.name, s.value) for s in receiver.samples] == [("g", 1.0), ("g", 2.0)]


class Counted:
    """An encoder that counts, and can be told to fail."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.error: Exception | None = None
        self.called = threading.Semaphore(0)

    def __call__(self, at: float) -> bytes:
        self.times.append(time.monotonic())
        self.called.release()
        if self.error:
            raise self.error
        return b"g 1\n"


def test_batches_go_out_at_the_interval_and_stop(receiver: Receiver) -> None:
    encode = Counted()
    shipper = shipper_to(receiver, Row("metrics", "victoriametrics"))
    pusher = Pusher(shipper, encode, interval=0.1)
    pusher.start()
    for _ in range(3):
        assert encode.called.acquire(timeout=30)
    pusher.stop()
    time.sleep(0.15)
    count = len(encode.times)
    time.sleep(0.25)
    assert len(encode.times) == count
    shipper.close(time.monotonic() + 1)


def test_a_batch_that_is_ready_after_the_end_is_not_told_as_lost(receiver: Receiver) -> None:
    """A push that was due as the service ended was refused by the closing sink, and said to be a record lost."""
    collecting, ended = threading.Event(), threading.Event()

    def encode(at: float) -> bytes:
        collecting.set()
        ended.wait(30)
        return b"g 1\n"

    row = Row("metrics", "victoriametrics")
    shipper = shipper_to(receiver, row)
    pusher = Pusher(shipper, encode, interval=0.01)
    pusher.start()
    assert collecting.wait(30)
    pusher.stop()
    shipper.close(time.monotonic() + 1)
    ended.set()
    assert pusher._thread is not None
    pusher._thread.join(30)
    assert (row.snapshot().emitted, row.snapshot().lost) == (0, 0)


def test_the_instance_spreads_the_first_push_over_the_interval(receiver: Receiver) -> None:
    shipper = shipper_to(receiver, Row("metrics", "victoriametrics"))
    phases = [Pusher(shipper, Counted(), name=f"pod-{number}")._phase for number in range(200)]
    assert all(0 <= phase < 1 for phase in phases)
    assert max(phases) - min(phases) > 0.9
    assert Pusher(shipper, Counted(), name="pod-1")._phase == phases[1]


@pytest.mark.expects_fault("metrics.push")
def test_a_collection_that_fails_is_a_fault_and_the_next_one_comes(receiver: Receiver) -> None:
    encode = Counted()
    encode.error = RuntimeError("no")
    row = Row("metrics", "victoriametrics")
    shipper = shipper_to(receiver, row)
    pusher = Pusher(shipper, encode, interval=0.05)
    pusher.start()
    assert encode.called.acquire(timeout=30)
    encode.error = None
    assert receiver.wait_for(samples=1)
    pusher.stop()
    shipper.close(time.monotonic() + 1)


def test_nothing_is_pushed_where_another_process_pushes(receiver: Receiver) -> None:
    row = Row("metrics", "victoriametrics")
    shipper = shipper_to(receiver, row)
    assert not Pusher(shipper, Counted(), may_push=lambda: False).push()
    assert not Pusher(shipper, lambda _: b"").push()
    assert row.snapshot().emitted == 0


def test_a_forked_child_pushes_on_its_own(receiver: Receiver) -> None:
    """Symptom: metrics of multiprocessing children never arrive, since threads do not survive a fork."""
    shipper = shipper_to(receiver, Row("metrics", "victoriametrics"))
    parent = os.getpid()

    def encode(at: float) -> bytes:
        return b"" if os.getpid() == parent else f'g{{pid="{os.getpid()}"}} 1 {round(at * 1000)}\n'.encode()

    pusher = Pusher(shipper, encode, interval=0.05)
    pusher.start()
    pid = os.fork()
    if pid == 0:
        time.sleep(5)
        os._exit(0)
    try:
        assert receiver.wait_for(lambda seen: any(s.labels.get("pid") == str(pid) for s in seen.samples))
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        pusher.stop()
        shipper.close(time.monotonic() + 1)
