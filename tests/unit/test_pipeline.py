"""``setup()`` and ``Telemetry``: once, together, honestly, and again after the end."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
import time
from typing import Any

import pytest

import telemetry
from telemetry import sigterm
from telemetry.testing import Blackhole, Hang, Receiver, Refuse, Reset, Status
from tests.pace import fastest

log = logging.getLogger("app.test")


def start(receiver: Receiver, **settings: Any) -> telemetry.Telemetry:
    settings = {"linger": 0.05, "stdout": "off", **settings}
    return telemetry.setup(
        service="shop", otlp_endpoint=receiver.url, loki_url=receiver.url, metrics_push_url=receiver.url, **settings
    )


def emit(count: int = 1) -> None:
    for _ in range(count):
        with telemetry.span("work"):
            log.info("hello")


def balanced(tel: telemetry.Telemetry) -> dict[str, Any]:
    rows = tel.health().rows
    assert all(row.balanced for row in rows), rows
    return {row.signal: row for row in rows}


def test_three_signals_under_one_identity(telemetry_receiver: Receiver) -> None:
    with start(telemetry_receiver, instance="i-1") as tel:
        emit()
        assert tel.flush(30)
    (span,), (line,) = telemetry_receiver.spans, telemetry_receiver.lines
    assert (span.resource["service.name"], line.labels["service_name"]) == ("shop", "shop")
    assert line.trace_id == span.trace_id
    pushed = {(sample.labels.get("job"), sample.labels.get("instance")) for sample in telemetry_receiver.samples}
    assert pushed == {("shop", "i-1")}


def test_setup_twice_is_one_and_other_arguments_warn(telemetry_receiver: Receiver) -> None:
    first = start(telemetry_receiver)
    assert start(telemetry_receiver) is first
    with pytest.warns(UserWarning, match="was called before as service 'shop'"):
        assert telemetry.setup(service="other") is first
    assert telemetry.active() is first
    first.shutdown()
    assert telemetry.active() is None
    second = start(telemetry_receiver)
    assert second is not first
    second.shutdown()


def test_all_wrong_settings_are_named_at_once_and_nothing_is_left_behind() -> None:
    handlers = logging.getLogger().handlers[:]
    with pytest.raises(telemetry.ConfigError) as caught:
        telemetry.setup(service="x", role="boss", loki_url="ftp://h", sampler_arg=7, nonsense=1)
    for part in ("boss", "ftp://h", "7", "nonsense"):
        assert part in str(caught.value)
    assert telemetry.active() is None
    assert logging.getLogger().handlers == handlers


def test_shutdown_twice_is_quick_and_late_records_are_counted(telemetry_receiver: Receiver) -> None:
    tel = start(telemetry_receiver)
    emit()
    assert tel.shutdown()
    started = time.monotonic()
    assert tel.shutdown()
    assert time.monotonic() - started < 1.0
    rows = balanced(tel)
    assert rows["logs"].delivered == rows["traces"].delivered == 1


@pytest.mark.parametrize("fault", [Refuse(), Blackhole(), Hang(), Status(503), Reset()], ids=lambda f: type(f).__name__)
def test_shutdown_meets_one_deadline_whatever_the_backends_do(telemetry_receiver: Receiver, fault: Any) -> None:
    """otel-python #3309, #4043: 1,500 spans and a dead collector held the exit for 21 to 23 s."""
    telemetry_receiver.behave(fault)
    made: list[telemetry.Telemetry] = []

    def end() -> float:
        made.append(start(telemetry_receiver, shutdown_timeout=1.0))
        emit(1500)
        started = time.monotonic()
        assert not made[-1].shutdown()
        return time.monotonic() - started

    assert fastest(end, 1.3) < 1.3
    tel = made[-1]
    rows = balanced(tel)
    for row in (rows["traces"], rows["logs"]):
        assert (row.emitted, row.delivered, row.pending, row.lost) == (1500, 0, 0, 1500)


def test_a_backend_that_comes_back_gets_everything(telemetry_receiver: Receiver) -> None:
    telemetry_receiver.behave(Refuse())
    with start(telemetry_receiver) as tel:
        emit(100)
        assert not tel.flush(0.3)
        telemetry_receiver.recover()
        assert tel.flush(30)
        rows = balanced(tel)
        assert rows["logs"].delivered == rows["traces"].delivered == 100
    assert len(telemetry_receiver.lines) == len(telemetry_receiver.spans) == 100


def test_a_hung_collector_of_the_users_does_not_hold_the_shutdown(telemetry_receiver: Receiver) -> None:
    from prometheus_client import REGISTRY
    from prometheus_client.registry import Collector

    release = threading.Event()

    class Hung(Collector):
        def describe(self) -> list[Any]:
            return []

        def collect(self) -> list[Any]:
            release.wait(30)
            return []

    hung = Hung()
    REGISTRY.register(hung)
    try:
        tel = start(telemetry_receiver, shutdown_timeout=2.0)
        emit()
        started = time.monotonic()
        tel.shutdown()
        assert time.monotonic() - started < 8.0
        rows = balanced(tel)
        assert rows["logs"].delivered == rows["traces"].delivered == 1, "the other sinks had the time as well"
    finally:
        release.set()
        REGISTRY.unregister(hung)


def test_a_fork_while_another_thread_emits_delivers_the_childs_own_once(telemetry_receiver: Receiver) -> None:
    """sentry-python #6149, otel-python #2266: the child stood still, or sent its parent's queue again."""
    tel = start(telemetry_receiver, instance=None)
    for handler in logging.getLogger().handlers[:]:
        if type(handler).__module__.startswith("_pytest"):  # its file's lock would be held in the child for ever
            logging.getLogger().removeHandler(handler)
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            log.info("parent")
            time.sleep(0.0005)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(5):
            pid = os.fork()
            if pid == 0:
                signal.alarm(30)
                clean = False
                try:
                    with telemetry.span("child"):
                        log.info("child")
                    clean = tel.flush(20) and balanced(tel)["logs"].emitted == 1
                finally:
                    os._exit(0 if clean else 1)
            _, status = os.waitpid(pid, 0)
            assert os.waitstatus_to_exitcode(status) == 0
    finally:
        stop.set()
        thread.join()
    assert tel.shutdown()
    said = [line.line for line in telemetry_receiver.lines]
    assert sum("msg=child" in line for line in said) == 5
    assert sum("msg=parent" in line for line in said) == balanced(tel)["logs"].delivered
    children = {span.resource["service.instance.id"] for span in telemetry_receiver.spans}
    assert children.isdisjoint({tel.identity.instance}), "a child is an instance of its own"


def test_a_multiprocessing_child_delivers_before_it_leaves_by_os_exit(telemetry_receiver: Receiver) -> None:
    """logfire #779: the span of a multiprocessing child is never exported."""
    tel = start(telemetry_receiver, linger=30)
    child = multiprocessing.get_context("fork").Process(target=emit)
    child.start()
    child.join(30)
    assert child.exitcode == 0
    telemetry_receiver.wait_for(spans=1, lines=1)
    tel.shutdown()


def test_health_tells_the_last_error_of_each_sink(telemetry_receiver: Receiver) -> None:
    telemetry_receiver.behave(Status(401, body="who are you?"))
    with start(telemetry_receiver) as tel:
        emit()
        assert not tel.flush()
        health = tel.health()
        assert not health.ok
        assert {sink.last_error for sink in health.sinks if sink.sink == "otlp"} == {"OTLP answered 401: who are you?"}


def test_settings_that_do_nothing_are_told_at_the_start(capsys: pytest.CaptureFixture[str]) -> None:
    with telemetry.setup(service="shop", stdout="off", metrics_exporter="none", traces_exporter="otlp"):
        pass
    assert "OTEL_TRACES_EXPORTER is otlp, but no OTLP endpoint is set" in capsys.readouterr().err


def test_metrics_are_exposed_with_the_identity() -> None:
    with telemetry.setup(service="shop", stdout="off", instance="i-1") as tel:
        body, content_type = tel.metrics()
        assert content_type.startswith("text/plain")
        assert b"target_info{" in body
        assert b'service_name="shop"' in body


def test_strict_raises_what_is_else_only_counted() -> None:
    from telemetry import faults

    with (
        telemetry.setup(service="x", stdout="off", metrics_exporter="none", strict=True),
        pytest.raises(faults.InternalFault, match="a part: it broke"),
    ):
        faults.report("a part", "it broke")
    faults.reset()


def test_worker_opens_a_metrics_port_and_a_busy_one_warns(capsys: pytest.CaptureFixture[str]) -> None:
    import socket
    import urllib.request

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with telemetry.setup(service="x", role="worker", stdout="off", metrics_listen=address) as tel:
            assert tel.server is None
        assert address.split(":")[1] in capsys.readouterr().err
    with telemetry.setup(service="x", role="worker", stdout="off", metrics_listen="127.0.0.1:0") as tel:
        assert tel.server is not None
        with urllib.request.urlopen(tel.server.url, timeout=30) as answer:
            assert b"telemetry_build_info" in answer.read()


def test_a_loss_that_a_flush_has_told_is_said_at_the_end_all_the_same(
    telemetry_receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    telemetry_receiver.behave(Status(401))
    tel = telemetry.setup(service="shop", loki_url=telemetry_receiver.url, stdout="off", linger=0.02)
    log.warning("lost")
    assert not tel.flush()
    tel.shutdown()
    assert "logs to loki: 1 of 1 records lost (rejected 1)" in capsys.readouterr().err


def test_setup_outside_of_the_main_thread_does_all_but_the_signal(telemetry_receiver: Receiver) -> None:
    before = signal.getsignal(signal.SIGTERM)

    def work() -> None:
        start(telemetry_receiver)
        emit()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGTERM) is before
    tel = telemetry.active()
    assert tel is not None
    assert tel.shutdown()
    assert (len(telemetry_receiver.spans), len(telemetry_receiver.lines)) == (1, 1)


def test_a_setup_after_a_shutdown_in_another_thread_does_not_chain_to_the_old_hook(
    telemetry_receiver: Receiver,
) -> None:
    """The old hook ended the process at once, with everything of the new setup still queued."""
    before = signal.getsignal(signal.SIGTERM)
    first = start(telemetry_receiver)
    thread = threading.Thread(target=first.shutdown)
    thread.start()
    thread.join()
    with start(telemetry_receiver):
        hook = signal.getsignal(signal.SIGTERM)
        assert isinstance(hook, sigterm.Hook)
        assert hook.before == before
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_handler_in_c_keeps_its_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    """uWSGI's handler is none that Python could call: behind ours, the worker could not be ended any more."""
    before = signal.getsignal(signal.SIGTERM)
    with monkeypatch.context() as patch:
        patch.setattr(signal, "getsignal", lambda number: None)
        assert not sigterm.install(lambda: None, lambda: None, lambda: False)
    assert signal.getsignal(signal.SIGTERM) == before
