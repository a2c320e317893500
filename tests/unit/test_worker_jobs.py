"""A job across the queue: one trace, its wait, its fields in every line, its metrics; redelivered, a link."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry import baggage, context, trace

import telemetry
from telemetry.metrics.registry import REGISTRY
from telemetry.worker import JobCancelled, enqueue_span, job_span, read, read_columns
from telemetry.worker.carrier import BAGGAGE_LIMIT, MEMBER_LIMIT, capped, carry
from telemetry.worker.jobs import OUTCOMES

log = logging.getLogger("worker.test")


def enqueued(tag: str = "gpu") -> dict[str, str]:
    with enqueue_span(tag) as carrier:
        pass
    # Through a column and back.
    return json.loads(json.dumps(carrier))


def by_name(captured) -> dict[str, list]:
    found: dict[str, list] = {}
    for span in captured.spans:
        found.setdefault(span.name, []).append(span)
    return found


def test_one_trace_shows_enqueue_wait_and_run(telemetry_captured):
    with telemetry.span("request"):
        carrier = enqueued()
    with job_span(carrier, job_id="j1", tag="gpu", group="heavy", waited=2.5), telemetry.span("inside"):
        pass
    spans = by_name(telemetry_captured)
    (send,), (wait,), (run,), (inside,) = spans["send gpu"], spans["wait gpu"], spans["process gpu"], spans["inside"]
    assert len({span.trace_id for span in telemetry_captured.spans}) == 1
    assert wait.parent_id == send.span_id
    assert run.parent_id == send.span_id
    assert inside.parent_id == run.span_id
    assert (wait.end_ns - wait.start_ns) / 1e9 == pytest.approx(2.5)
    assert run.kind == "consumer"
    assert send.kind == "producer"
    assert run.attributes["messaging.message.id"] == "j1"
    assert run.attributes["messaging.destination.name"] == "gpu"
    assert run.attributes["job.outcome"] == "success"


def test_a_redelivery_links_to_the_run_before(telemetry_captured):
    carrier = enqueued()
    with job_span(carrier, job_id="j1", tag="gpu") as first:
        pass
    with job_span(json.dumps(first.carrier), job_id="j1", tag="gpu") as second:
        pass
    one, two = by_name(telemetry_captured)["process gpu"]
    assert not first.redelivered
    assert second.redelivered
    assert [link.span_id for link in two.links] == [one.span_id]
    assert one.links in ((), [])
    assert one.parent_id == two.parent_id
    assert second.carrier["last_run"] != first.carrier["last_run"]


def test_every_line_of_the_job_carries_its_fields_and_none_of_the_next(telemetry_captured):
    with job_span(None, job_id="j1", tag="gpu", group="heavy"):
        log.warning("inside")
    log.warning("between")
    with job_span(None, job_id="j2", tag="cpu"):
        log.warning("another")
    inside, between, another = (line.fields for line in telemetry_captured.lines)
    assert inside.items() >= {"job_id": "j1", "tag": "gpu", "group": "heavy"}.items()
    assert "job_id" not in between
    assert another["job_id"] == "j2"
    assert "group" not in another


def test_how_a_run_ends_is_counted(telemetry_captured):
    def count(outcome: str) -> float:
        return telemetry_captured.value("fleet_job_executed_total", tag="t", group="g", outcome=outcome)

    with job_span(None, job_id="1", tag="t", group="g"):
        pass
    with pytest.raises(ValueError, match="no"), job_span(None, job_id="2", tag="t", group="g"):
        raise ValueError("no")
    with pytest.raises(asyncio.CancelledError), job_span(None, job_id="3", tag="t", group="g"):
        raise asyncio.CancelledError
    with job_span(None, job_id="4", tag="t", group="g") as run:
        run.outcome = "lost"
    assert [count(outcome) for outcome in ("success", "failure", "cancelled", "lost")] == [1, 1, 1, 1]
    failed = by_name(telemetry_captured)["process t"][1]
    assert failed.status.lower() == "error"
    assert failed.events[0].attributes["exception.type"] == "ValueError"


def test_the_first_failure_under_a_tag_is_a_step_from_zero_that_a_rate_sees():
    def scraped() -> list[float | None]:
        labels = {"tag": "first", "group": "g"}
        name = "fleet_job_executed_total"
        return [REGISTRY.get_sample_value(name, {**labels, "outcome": outcome}) for outcome in OUTCOMES]

    with contextlib.suppress(ValueError), job_span(None, job_id="1", tag="first", group="g"):
        assert scraped() == [0, 0, 0, 0]
        raise ValueError("no")
    assert scraped() == [0, 1, 0, 0]


def test_the_wait_of_a_redelivered_job_is_not_counted_since_it_holds_the_run_that_was_lost(telemetry_captured):
    def waits() -> float:
        return telemetry_captured.value("fleet_job_wait_seconds_count", tag="w", group="g")

    with job_span(enqueued("w"), job_id="1", tag="w", group="g", waited=3.0) as run:
        pass
    with job_span(run.carrier, job_id="1", tag="w", group="g", waited=900.0):
        pass
    assert waits() == 1
    assert telemetry_captured.value("fleet_job_wait_seconds_sum", tag="w", group="g") == 3.0


def test_a_job_claimed_before_it_is_due_waited_for_nothing_and_is_counted_as_skew(telemetry_captured):
    with job_span(None, job_id="1", tag="s", waited=-4.0):
        pass
    assert telemetry_captured.value("fleet_job_wait_seconds_sum", tag="s", group="") == 0.0
    assert telemetry_captured.value("fleet_job_clock_skew_total", tag="s") == 1


def test_baggage_crosses_up_to_its_limit_in_whole_members():
    many = ",".join(f"key{number}=value" for number in range(100))
    assert capped(many).count(",") == MEMBER_LIMIT - 1
    large = ",".join(f"k{number}={'v' * 1000}" for number in range(9))
    assert len(capped(large)) <= BAGGAGE_LIMIT
    assert capped(large) == large[: len(capped(large))]
    assert large[len(capped(large))] == ","
    assert capped("k=" + "v" * 9000) == ""


def test_nine_kilobytes_of_baggage_do_not_stop_a_job(telemetry_captured):
    full = context.get_current()
    for number in range(9):
        full = baggage.set_baggage(f"k{number}", "v" * 1000, full)
    token = context.attach(full)
    try:
        with telemetry.span("request"):
            carrier = carry()
    finally:
        context.detach(token)
    assert len(carrier["baggage"]) <= BAGGAGE_LIMIT
    brought = read(carrier)
    assert baggage.get_baggage("k0", brought.context) == "v" * 1000
    assert trace.get_current_span(brought.context).get_span_context().is_valid


@pytest.mark.parametrize(
    "column",
    [
        None,
        "",
        "{",
        "[]",
        "null",
        b"\xff",
        "[" * 100_000,
        {"traceparent": 5},
        '{"traceparent":"00-zz-1","last_run":"x"}',
    ],
    ids=repr,
)
def test_a_carrier_that_can_not_be_read_is_a_job_with_a_trace_of_its_own(telemetry_captured, column):
    with telemetry.span("the worker's own span"), job_span(column, job_id="1", tag="t"):
        pass
    run = by_name(telemetry_captured)["process t"][-1]
    assert not run.parent_id
    assert run.links in ((), [])


@given(st.one_of(st.text(), st.binary(), st.dictionaries(st.text(), st.one_of(st.text(), st.integers(), st.none()))))
def test_no_carrier_raises(column):
    assert read(column).redelivered in (True, False)


def test_two_text_columns_bring_the_trace_and_say_nothing_of_the_run_before(telemetry_captured):
    carrier = enqueued()
    brought = read_columns(carrier["traceparent"], carrier.get("tracestate"))
    with job_span(brought, job_id="1", tag="gpu"):
        pass
    spans = by_name(telemetry_captured)
    assert spans["process gpu"][0].parent_id == spans["send gpu"][0].span_id
    assert not brought.redelivered


def test_waits_and_runs_lead_to_their_trace(telemetry_captured):
    """An exemplar of the wait names the span that enqueued, for the run was not there yet; one of the run its own."""
    with telemetry.setup("executor", stdout="off") as tel:
        with job_span(enqueued("e"), job_id="1", tag="e", group="g", waited=0.2):
            pass
        exposition = tel.metrics("application/openmetrics-text; version=1.0.0")[0].decode()
    spans = by_name(telemetry_captured)
    buckets = [line for line in exposition.splitlines() if " # " in line and 'tag="e"' in line]
    wait, run = (
        [line for line in buckets if line.startswith(f"{name}_bucket")]
        for name in ("fleet_job_wait_seconds", "fleet_job_run_seconds")
    )
    assert spans["send e"][0].span_id in wait[0]
    assert spans["process e"][0].span_id in run[0]
    assert spans["process e"][0].trace_id in run[0]
    assert telemetry_captured.value("fleet_job_run_seconds_count", tag="e", group="g", outcome="success") == 1


def test_a_job_that_was_told_to_stop_is_cancelled_and_no_error(telemetry_captured):
    with pytest.raises(JobCancelled), job_span(None, job_id="1", tag="stop"):
        raise JobCancelled
    assert telemetry_captured.value("fleet_job_executed_total", tag="stop", group="", outcome="cancelled") == 1
    assert by_name(telemetry_captured)["process stop"][0].status.lower() != "error"
