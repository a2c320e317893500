"""Spans: made in one word, exported whole, alive across setups, harmless without any."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from typing import Any

import pytest
from opentelemetry import baggage, context, trace

import telemetry
from telemetry.testing import Partial, Receiver, Status
from telemetry.traces.sampling import NAMES, sampler

library = trace.get_tracer("a.library", "1.0")


def start(receiver: Receiver, **settings: Any) -> telemetry.Telemetry:
    return telemetry.setup(
        service="shop",
        logs_exporter="none",
        stdout="off",
        metrics_exporter="none",
        **{"otlp_endpoint": receiver.url, "linger": 0.05, **settings},
    )


def test_a_span_arrives_with_its_attributes_scope_and_resource(telemetry_receiver: Receiver) -> None:
    with start(telemetry_receiver, version="1.2") as tel:
        with telemetry.span("work", size=3, name_="x", none=None, odd={1}, items=["a", "b"]) as span:
            span.add_event("half", {"token": "s3cret"})
            with library.start_as_current_span("inner", kind=trace.SpanKind.CLIENT):
                pass
        assert tel.flush(30)
    by_name = {span.name: span for span in telemetry_receiver.spans}
    work, inner = by_name["work"], by_name["inner"]
    assert work.attributes == {"size": 3, "name_": "x", "odd": "[1]", "items": ["a", "b"]}
    assert work.events[0].attributes == {"token": "[scrubbed]"}
    assert (inner.parent_id, inner.kind, inner.scope) == (work.span_id, "client", "a.library")
    assert work.resource["service.name"] == "shop"
    assert work.resource["service.version"] == "1.2"


def test_an_exception_sets_the_status_and_goes_on(telemetry_receiver: Receiver) -> None:
    with start(telemetry_receiver) as tel:
        with pytest.raises(ValueError, match="bad"), telemetry.span("work"):
            raise ValueError("bad")
        assert tel.flush(30)
    (span,) = telemetry_receiver.spans
    assert (span.status, span.status_message) == ("error", "ValueError: bad")
    assert span.events[0].attributes["exception.type"] == "ValueError"


def test_traced_on_every_kind_of_function(telemetry_receiver: Receiver) -> None:
    @telemetry.traced
    def plain(n: int) -> int:
        return n

    @telemetry.traced("named", kind_="x")
    async def later(n: int) -> int:
        await asyncio.sleep(0)
        return n

    inside: list[str] = []

    @telemetry.traced("steps")
    def steps() -> Iterator[int]:
        for i in range(3):
            inside.append(telemetry.trace_id())
            yield i

    @telemetry.traced("asteps")
    async def asteps() -> AsyncIterator[int]:
        for i in range(3):
            yield i

    async def main() -> list[int]:
        return [await later(1), *[i async for i in asteps()]]

    with start(telemetry_receiver) as tel:
        assert plain(5) == 5
        assert asyncio.run(main()) == [1, 0, 1, 2]
        outside = []
        for _ in steps():
            outside.append(telemetry.trace_id())
        assert tel.flush(30)
    names = sorted(span.name for span in telemetry_receiver.spans)
    assert names == sorted(["asteps", "named", "steps", plain.__qualname__])
    assert len(set(inside)) == 1
    assert inside[0]
    assert outside == ["", "", ""], "a generator's span is current in the generator only"


def test_a_failing_generator_ends_its_span_with_an_error(telemetry_receiver: Receiver) -> None:
    @telemetry.traced("steps")
    def steps() -> Iterator[int]:
        yield 1
        raise LookupError("end")

    with start(telemetry_receiver) as tel:
        with pytest.raises(LookupError):
            list(steps())
        assert tel.flush(30)
    (span,) = telemetry_receiver.spans
    assert span.status == "error"


def test_with_no_endpoint_ids_exist_and_propagate_and_nothing_waits() -> None:
    with telemetry.setup(service="x", stdout="off", metrics_exporter="none") as tel:
        with telemetry.span("work"):
            carrier = telemetry.inject()
            assert carrier["traceparent"].split("-")[1] == telemetry.trace_id()
        assert tel.shippers == []
        assert tel.flush(30)


def test_before_setup_and_after_shutdown_nothing_raises_and_parents_pass_through(
    telemetry_receiver: Receiver,
) -> None:
    parent = {"traceparent": "00-" + "ab" * 16 + "-" + "cd" * 8 + "-01"}
    for _ in range(2):
        token = context.attach(telemetry.extract(parent))
        with telemetry.span("work"):
            assert telemetry.trace_id() == "ab" * 16
            assert telemetry.inject()["traceparent"].startswith("00-" + "ab" * 16)
        context.detach(token)
        start(telemetry_receiver).shutdown()


def test_a_tracer_held_since_import_follows_every_setup(telemetry_receiver: Receiver) -> None:
    for round_ in range(3):
        with start(telemetry_receiver, instance=f"i{round_}") as tel:
            with library.start_as_current_span("held"):
                pass
            assert tel.flush(30)
    instances = [span.resource["service.instance.id"] for span in telemetry_receiver.spans]
    assert instances == ["i0", "i1", "i2"]


def test_inject_and_extract_carry_trace_and_baggage(telemetry_receiver: Receiver) -> None:
    with start(telemetry_receiver) as tel:
        token = context.attach(baggage.set_baggage("tenant", "acme"))
        with telemetry.span("enqueue"):
            carrier = telemetry.inject({"kept": "1"})
        context.detach(token)
        taken = telemetry.extract(carrier)
        assert baggage.get_baggage("tenant", taken) == "acme"
        with library.start_as_current_span("run", context=taken):
            pass
        assert tel.flush(30)
    by_name = {span.name: span for span in telemetry_receiver.spans}
    assert by_name["run"].parent_id == by_name["enqueue"].span_id
    assert carrier["kept"] == "1"


def test_a_dropped_decision_is_kept_and_passed_on(telemetry_receiver: Receiver) -> None:
    with start(telemetry_receiver, sampler="always_off") as tel:
        with telemetry.span("work"):
            flags = int(telemetry.inject()["traceparent"][-2:], 16)
            assert not flags & 1
        assert tel.flush(30)
        assert tel.health().rows[0].emitted == 0
    assert telemetry_receiver.spans == []


@pytest.mark.parametrize("name", NAMES)
def test_every_standard_sampler(name: str) -> None:
    kept = sampler(name, 0.0).should_sample(None, 1 << 100, "x").decision.is_sampled()
    assert kept == (name in ("always_on", "parentbased_always_on"))


def test_partial_success_is_counted(telemetry_receiver: Receiver) -> None:
    telemetry_receiver.behave(Partial(rejected=2))
    with start(telemetry_receiver, linger=30) as tel:
        for _ in range(5):
            with telemetry.span("work"):
                pass
        assert not tel.flush()
        (row,) = tel.health().rows
        assert (row.delivered, row.dropped) == (3, {"rejected": 2})


def test_a_503_is_retried_and_a_redirect_is_not(telemetry_receiver: Receiver) -> None:
    telemetry_receiver.behave(Status(503), times=1)
    with start(telemetry_receiver) as tel:
        with telemetry.span("work"):
            pass
        assert tel.flush(30)
        telemetry_receiver.behave(Status(307, headers={"Location": "http://127.0.0.1:1/"}))
        with telemetry.span("work"):
            pass
        assert not tel.flush()
        assert "redirect to http://127.0.0.1:1/: give the final endpoint" in tel.health().sinks[0].last_error


def test_grpc_carries_the_same(telemetry_receiver: Receiver) -> None:
    with start(telemetry_receiver, otlp_endpoint=telemetry_receiver.grpc_endpoint, otlp_protocol="grpc") as tel:
        with telemetry.span("work", size=3):
            pass
        assert tel.flush(30)
    assert telemetry_receiver.spans[0].attributes == {"size": 3}


def test_the_disabled_sdk_makes_no_spans_and_recurses_into_nothing(telemetry_receiver: Receiver) -> None:
    """otel-python #4255: OTEL_SDK_DISABLED=true recursed."""
    with start(telemetry_receiver, disabled=True) as tel:
        with telemetry.span("work"):
            assert telemetry.trace_id() == ""
        assert tel.shippers == []


def test_an_sdk_processor_of_the_users_own_sees_the_spans(telemetry_receiver: Receiver) -> None:
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    with start(telemetry_receiver):
        memory = InMemorySpanExporter()
        trace.get_tracer_provider().add_span_processor(SimpleSpanProcessor(memory))  # type: ignore[attr-defined]
        with telemetry.span("work"):
            pass
    assert [span.name for span in memory.get_finished_spans()] == ["work"]


def test_an_instrumented_client_is_part_of_the_trace(telemetry_receiver: Receiver) -> None:
    import httpx

    with start(telemetry_receiver, instrument=("httpx",)) as tel:
        with telemetry.span("work"):
            httpx.post(
                telemetry_receiver.url + "/v1/logs", content=b"", headers={"content-type": "application/x-protobuf"}
            )
        assert tel.flush(30)
    client = next(span for span in telemetry_receiver.spans if span.kind == "client")
    work = next(span for span in telemetry_receiver.spans if span.name == "work")
    assert client.parent_id == work.span_id
    sent = next(request for request in telemetry_receiver.requests if request.path == "/v1/logs")
    assert sent.headers["traceparent"].split("-")[1] == work.trace_id


def test_an_instrumentation_that_is_not_installed_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with telemetry.setup(service="x", stdout="off", metrics_exporter="none", instrument=("nonesuch",)):
        pass
    assert "pip install opentelemetry-instrumentation-nonesuch" in capsys.readouterr().err


def test_a_traced_context_manager_rolls_back(telemetry_receiver: Receiver) -> None:
    """The exception never reached the generator: neither rolled back nor committed."""
    said: list[str] = []

    @contextlib.contextmanager
    @telemetry.traced("transaction")
    def transaction() -> Iterator[str]:
        try:
            yield telemetry.trace_id()
        except LookupError:
            said.append("rolled back")
            raise
        said.append("committed")

    with start(telemetry_receiver) as tel:
        with transaction() as inside:
            assert inside
        with pytest.raises(LookupError), transaction():
            raise LookupError("no")
        assert tel.flush(30)
    assert said == ["committed", "rolled back"]
    assert [span.status for span in telemetry_receiver.spans] == ["unset", "error"]


def test_what_is_sent_into_a_traced_generator_and_what_it_returns_passes_through(telemetry_receiver: Receiver) -> None:
    closed: list[str] = []

    @telemetry.traced("echo")
    def echo() -> Generator[object, object, str]:
        heard = None
        try:
            while heard != "end":
                heard = yield heard
        finally:
            closed.append(telemetry.trace_id())
        return "done"

    @telemetry.traced("aecho")
    async def aecho() -> AsyncGenerator[object, object]:
        heard: object = None
        while True:
            try:
                heard = yield heard
            except KeyError:
                heard = "caught"

    def outer() -> Generator[object, object, str]:
        return (yield from echo())

    async def main() -> list[object]:
        stream = aecho()
        heard = [await anext(stream), await stream.asend("a"), await stream.athrow(KeyError())]
        await stream.aclose()
        return heard

    with start(telemetry_receiver) as tel:
        steps = outer()
        assert (next(steps), steps.send("a")) == (None, "a")
        with pytest.raises(StopIteration, match="done"):
            steps.send("end")
        left = echo()
        next(left)
        left.close()
        assert asyncio.run(main()) == [None, "a", "caught"]
        assert tel.flush(30)
    assert sorted(span.name for span in telemetry_receiver.spans) == ["aecho", "echo", "echo"]
    assert all(closed), "its own clean-up runs inside the span"


def test_a_span_as_decorator_follows_every_setup(telemetry_receiver: Receiver) -> None:
    """Decorated on import, before any setup(): it was bound to the engine of that moment, which was none."""

    @telemetry.span("decorated")
    def plain() -> str:
        return telemetry.trace_id()

    @library.start_as_current_span("held")
    async def later() -> str:
        return telemetry.trace_id()

    assert plain() == ""
    for round_ in range(2):
        with start(telemetry_receiver, instance=f"i{round_}") as tel:
            assert plain()
            assert asyncio.run(later())
            assert tel.flush(30)
    instances = [(span.name, span.resource["service.instance.id"]) for span in telemetry_receiver.spans]
    assert instances == [("decorated", "i0"), ("held", "i0"), ("decorated", "i1"), ("held", "i1")]


def test_force_flush_of_the_provider_delivers_and_tells_the_truth(telemetry_receiver: Receiver) -> None:
    """AWS's and others' wrappers call it before a freeze: it returned True with everything still queued."""
    with start(telemetry_receiver, linger=30) as tel:
        provider: Any = trace.get_tracer_provider()
        with telemetry.span("work"):
            pass
        assert provider.force_flush(2000)
        assert len(telemetry_receiver.spans) == 1
        telemetry_receiver.behave(Status(401))
        with telemetry.span("work"):
            pass
        assert not provider.force_flush(2000)
        assert tel.health().rows[0].pending == 0


def test_fat_spans_are_bounded_by_what_they_hold(telemetry_receiver: Receiver) -> None:
    """hindsight #850 by way of spans: a queue that counts a megabyte as four kilobytes holds gigabytes."""
    telemetry_receiver.behave(Status(503))
    with start(telemetry_receiver, queue_bytes=1024 * 1024, shutdown_timeout=0.1) as tel:
        for _ in range(100):
            with telemetry.span("work", prompt="x" * 100_000):
                pass
        (row,) = tel.health().rows
        assert row.pending == 10
        assert row.dropped == {"queue_full": 90}
        with contextlib.suppress(ValueError), telemetry.span("work") as span:
            span.add_event("document", {"text": "x" * 2_000_000})
        assert tel.health().rows[0].dropped["too_large"] == 1


def test_half_surrogates_and_lists_on_a_scope_cost_no_span(telemetry_receiver: Receiver) -> None:
    tracer = trace.get_tracer("a.library", attributes={"versions": ["1", "2"]})
    with start(telemetry_receiver) as tel:
        with tracer.start_as_current_span("name\ud800", attributes={"key\ud800": b"bytes"}) as span:
            span.add_event("event\ud800", {"k": "v\ud800", "list": ["a\ud800"]})
            span.set_status(trace.StatusCode.ERROR, "why\ud800")
        assert tel.flush(30)
    (span_,) = telemetry_receiver.spans
    assert (span_.name, span_.events[0].name, span_.status_message) == ("name?", "event?", "why?")


PARENT = "00-" + "ab" * 16 + "-" + "cd" * 8 + "-01"


@pytest.mark.parametrize(
    ("carrier", "valid"),
    [
        (None, False),
        ({}, False),
        ({"traceparent": None}, False),
        ({"traceparent": 5, "tracestate": 5, "baggage": 5}, False),
        ({"traceparent": PARENT.encode()}, False),
        ({"traceparent": [PARENT]}, True),
        ({"traceparent": []}, False),
        ({"traceparent": PARENT, "tracestate": "\ud800=1"}, True),
        ({"traceparent": PARENT, "baggage": "a=\ud800,b=%ff," + "k=v," * 5000}, True),
        ({"traceparent": PARENT, "baggage": {"a": 1}, 7: "x"}, True),
    ],
)
def test_a_carrier_from_anywhere_brings_what_can_be_read(carrier: Any, valid: bool) -> None:
    """A job's column may hold null, numbers, and what another language wrote; none may stop the worker."""
    taken = trace.get_current_span(telemetry.extract(carrier)).get_span_context()
    assert taken.is_valid == valid


def test_baggage_that_no_header_can_carry_does_not_cost_the_trace(telemetry_receiver: Receiver) -> None:
    with start(telemetry_receiver), telemetry.span("work"):
        token = context.attach(baggage.set_baggage("user", "\ud800"))
        try:
            assert telemetry.inject()["traceparent"].split("-")[1] == telemetry.trace_id()
        finally:
            context.detach(token)
