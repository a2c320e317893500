"""The spans, log fields and metrics of a job: where it is enqueued, while it waits, and where it runs.

    with enqueue_span("gpu") as carrier:                 # in the API server
        INSERT INTO job_queue (…, carrier) VALUES (…, carrier)

    with job_span(carrier, job_id=…, tag="gpu", waited=…) as run:    # in the worker, after the claim
        UPDATE job_queue SET carrier = run.carrier …
        work()

The run is a child of the enqueueing span, so that one trace shows enqueue, wait and run; delivered again, it links to
the run before. Names and attributes follow the semantic conventions for messaging (OpenTelemetry 1.37).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Literal

from opentelemetry import trace

from telemetry.logs.context import bind
from telemetry.metrics import registry
from telemetry.traces.provider import PROVIDER, fail
from telemetry.traces.spans import clean
from telemetry.worker.carrier import Carrier, carry, read

Outcome = Literal["success", "failure", "cancelled", "lost"]
OUTCOMES: Final[tuple[Outcome, ...]] = ("success", "failure", "cancelled", "lost")
"""How a run ends: as it should, with an error, told to stop, or taken away (its completion was fenced off)."""

_tracer = PROVIDER.get_tracer("telemetry.worker")


class JobCancelled(BaseException):
    """Raised in a job that has to stop, past the grace of a drain or because it is somebody else's now.

    Like asyncio.CancelledError it is no Exception, so that a job which catches every error still ends.
    """


class Run:
    """A job that runs. ``outcome`` may be set by whoever knows better; else the block's end decides.

    ``carrier`` is the job's column for the claim to write back: it says which run was the last. ``redelivered`` says
    that somebody began this job before.
    """

    __slots__ = ("carrier", "outcome", "redelivered", "span")

    def __init__(self, span: trace.Span, brought: Carrier) -> None:
        self.span = span
        self.carrier: dict[str, str] = brought.claimed_by(span)
        self.redelivered = brought.redelivered
        self.outcome: Outcome | None = None


@contextmanager
def enqueue_span(tag: str, **attributes: object) -> Iterator[dict[str, str]]:
    """The span of enqueueing one job under ``tag``; gives the carrier to store with it.

    ``attributes`` go to the span, such as ``job_id=…`` where it is known before.
    """
    with _tracer.start_as_current_span(
        f"send {tag}", kind=trace.SpanKind.PRODUCER, attributes=_attributes("send", tag, attributes)
    ):
        yield carry()


@contextmanager
def job_span(
    carrier: Carrier | Mapping[str, Any] | str | bytes | None,
    *,
    job_id: str,
    tag: str,
    group: str = "",
    waited: float | None = None,
    **attributes: object,
) -> Iterator[Run]:
    """The span of running one job that was claimed just now.

    ``carrier`` is the job's column, as the driver gave it. ``waited`` counts seconds from when the job was due to the
    claim, by the database's clock (``extract(epoch FROM now() - scheduled_for)``); below zero it is a clock that
    disagrees, counted as such. ``job_id``, ``tag`` and ``group`` are bound to every log line of the block, ``job_id``
    and ``attributes`` go to the span. An exception that leaves the block makes the outcome ``failure``, a cancellation
    ``cancelled``; it goes on its way.
    """
    brought = carrier if isinstance(carrier, Carrier) else read(carrier)
    links = [trace.Link(brought.last_run)] if brought.last_run is not None else []
    about = {"messaging.message.id": job_id, "worker.group": group or None}
    _waited(brought, tag, group, waited, about)
    span = _tracer.start_span(
        f"process {tag}",
        context=brought.context,
        kind=trace.SpanKind.CONSUMER,
        links=links,
        attributes=_attributes("process", tag, about) | clean(attributes),
    )
    run = Run(span, brought)
    executed = registry.counter("fleet_job_executed_total")
    for each in OUTCOMES:  # at 0 before the first run ends: a rate sees the first failure under a tag
        executed.child(tag, group, each)
    began = time.perf_counter()
    try:
        with (
            trace.use_span(span, record_exception=False, set_status_on_exception=False),
            bind(**_fields(job_id, tag, group)),
        ):
            yield run
    except (JobCancelled, asyncio.CancelledError, KeyboardInterrupt, SystemExit):
        run.outcome = run.outcome or "cancelled"
        raise
    except Exception as error:
        run.outcome = run.outcome or "failure"
        fail(span, error)
        raise
    else:
        run.outcome = run.outcome or "success"
    finally:
        _ended(run, tag, group, time.perf_counter() - began)
        span.end()


def _waited(brought: Carrier, tag: str, group: str, waited: float | None, about: Mapping[str, object]) -> None:
    if waited is None:
        return
    if waited < 0:
        registry.counter("fleet_job_clock_skew_total").child(tag).inc()
    # Requeued, a job keeps the time it was first due, so that its wait would hold the run that was lost.
    if brought.redelivered:
        return
    waited = max(0.0, waited)
    parent = trace.get_current_span(brought.context).get_span_context()
    registry.histogram("fleet_job_wait_seconds").child(tag, group).observe(waited, exemplar(parent))
    if parent.is_valid:
        now = time.time_ns()
        waiting = _tracer.start_span(
            f"wait {tag}",
            context=brought.context,
            start_time=now - int(waited * 1e9),
            attributes=clean({"messaging.destination.name": tag, **about}),
        )
        waiting.end(now)


def _ended(run: Run, tag: str, group: str, seconds: float) -> None:
    outcome = run.outcome or "success"
    context = run.span.get_span_context()
    run.span.set_attribute("job.outcome", outcome)
    registry.histogram("fleet_job_run_seconds").child(tag, group, outcome).observe(seconds, exemplar(context))
    registry.counter("fleet_job_executed_total").child(tag, group, outcome).inc()


def exemplar(context: trace.SpanContext) -> dict[str, str] | None:
    """The labels of an exemplar for a sampled span."""
    if not context.is_valid or not context.trace_flags.sampled:
        return None
    return {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}


def _fields(job_id: str, tag: str, group: str) -> dict[str, object]:
    fields: dict[str, object] = {"job_id": job_id, "tag": tag}
    return fields | {"group": group} if group else fields


def _attributes(operation: str, tag: str, more: Mapping[str, object]) -> dict[str, Any]:
    return clean(
        {
            "messaging.system": "postgresql",
            "messaging.operation.type": operation,
            "messaging.destination.name": tag,
            **more,
        }
    )
