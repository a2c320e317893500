"""What forked children tell their parent of sinks that they have waited for in vain."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

import telemetry
from telemetry.delivery import Lineage
from telemetry.testing import Receiver, Status

DEADLINE = 1.5

log = logging.getLogger("app.test")


def start(receiver: Receiver) -> telemetry.Telemetry:
    return telemetry.setup(
        service="prefork",
        otlp_endpoint=receiver.url,
        otlp_protocol="http/protobuf",
        loki_url=receiver.url,
        metrics_exporter="none",
        stdout="off",
        linger=60,
        shutdown_timeout=DEADLINE,
    )


def emit() -> None:
    with telemetry.span("work"):
        log.info("worked")


def in_child(work: Callable[[], Any]) -> None:
    """Fork, run ``work`` in the child, and wait for the child's end."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(30)
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def seconds(work: Callable[[], Any]) -> float:
    started = time.monotonic()
    work()
    return time.monotonic() - started


def lost(tel: telemetry.Telemetry) -> dict[str, int]:
    return {row.signal: row.lost for row in tel.health().rows}


def test_a_parent_does_not_wait_anew_for_what_its_child_has_waited_for(telemetry_receiver: Receiver) -> None:
    telemetry_receiver.behave(Status(503))
    tel = start(telemetry_receiver)

    def child() -> None:
        emit()
        assert seconds(tel.shutdown) > DEADLINE / 2

    in_child(child)
    emit()
    assert seconds(tel.shutdown) < DEADLINE / 2
    assert lost(tel) == {"traces": 1, "logs": 1}, "told all the same"


def test_a_sink_that_answers_again_gets_what_the_parent_has(
    telemetry_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("telemetry.pipeline.MOMENT", DEADLINE)  # this machine may be slower than a moment
    telemetry_receiver.behave(Status(503))
    tel = start(telemetry_receiver)

    def child() -> None:
        emit()
        tel.shutdown()

    in_child(child)
    telemetry_receiver.recover()
    emit()
    assert tel.shutdown()
    assert len(telemetry_receiver.spans) == len(telemetry_receiver.lines) == 1


def test_the_other_sinks_keep_their_deadline(telemetry_receiver: Receiver) -> None:
    telemetry_receiver.behave(Status(503), path="/v1/traces")
    tel = start(telemetry_receiver)

    def child() -> None:
        emit()
        tel.shutdown()

    in_child(child)
    telemetry_receiver.behave(Status(503))
    emit()
    assert seconds(tel.shutdown) > DEADLINE / 2, "logs were delivered a moment ago"


def test_a_child_that_gave_up_early_is_no_evidence(telemetry_receiver: Receiver) -> None:
    telemetry_receiver.behave(Status(503))
    tel = start(telemetry_receiver)

    def child() -> None:
        emit()
        tel.shutdown(0.1)

    in_child(child)
    emit()
    assert seconds(tel.shutdown) > DEADLINE / 2


def test_a_grandchild_spares_them_all(telemetry_receiver: Receiver) -> None:
    telemetry_receiver.behave(Status(503))
    tel = start(telemetry_receiver)

    def grandchild() -> None:
        emit()
        tel.shutdown()

    def child() -> None:
        in_child(grandchild)
        emit()
        assert seconds(tel.shutdown) < DEADLINE / 2

    in_child(child)
    emit()
    assert seconds(tel.shutdown) < DEADLINE / 2


@pytest.mark.parametrize("sink", [0, 15])
def test_word_is_of_one_sink_and_grows_old(sink: int) -> None:
    lineage = Lineage()
    assert not lineage.child_waited_in_vain(sink, within=60)
    lineage.before_fork()

    def child() -> None:
        lineage.after_fork_in_child()
        lineage.waited_in_vain(sink)
        assert not lineage.child_waited_in_vain(sink, within=60), "its own word is for its parent"

    in_child(child)
    assert lineage.child_waited_in_vain(sink, within=60)
    assert not lineage.child_waited_in_vain(sink - 1 if sink else 1, within=60)
    time.sleep(0.02)
    assert not lineage.child_waited_in_vain(sink, within=0.01)


def test_more_sinks_than_there_is_room_for_cost_nothing_but_time() -> None:
    lineage = Lineage()
    lineage.before_fork()
    lineage.after_fork_in_child()
    lineage.waited_in_vain(1000)
    lineage.before_fork()
    assert not lineage.child_waited_in_vain(1000, within=60)
