"""The seam between a span engine and the Shipper: finished spans in, OTLP requests out.

The engine is OpenTelemetry's SDK; its batch processor is not used, since it queues outside the ledger and
can hold a shutdown for 21 s. Spans are encoded in the sender thread.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import Sampler

from telemetry import otlp
from telemetry.config.targets import OtlpTarget
from telemetry.delivery import Shipper, Verdict
from telemetry.scrub import Scrubber
from telemetry.traces.encode import SpanEncoder

SPAN_COST = 4096
"""Bytes that a queued SDK span is taken to hold: measured 2.5 to 4 KiB with three to ten attributes."""

_LONG = 256
"""Characters from which on a text is counted beside that: statements, prompts, stack traces."""


def cost(span: ReadableSpan) -> int:
    """Bytes that ``span`` is taken to hold, its long texts included."""
    total = SPAN_COST
    if span._attributes:
        total += _long(span._attributes)
    for event in span._events:
        if event.attributes:
            total += _long(event.attributes)
    return total


def _long(attributes: Any) -> int:
    total = 0
    for value in attributes.copy().values():
        if type(value) in (str, bytes):
            if len(value) > _LONG:
                total += value.__sizeof__()
        elif type(value) is tuple:
            total += sum(item.__sizeof__() for item in value)
        elif isinstance(value, Mapping):
            total += len(str(value))
    return total


class ShippingProcessor(SpanProcessor):
    """Queues each sampled span when it ends."""

    def __init__(self, shipper: Shipper) -> None:
        self._put = shipper.put
        self._flush = shipper.flush

    def on_start(self, span: Span, parent_context: Any = None) -> None:
        """Nothing to do."""

    def on_end(self, span: ReadableSpan) -> None:
        """Queue ``span`` if it is sampled."""
        if span.context is not None and span.context.trace_flags.sampled:
            self._put(span, cost(span), (span.end_time or 0) / 1e9)

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Deliver what has ended: what a provider's ``force_flush`` calls. True only if all of it was delivered."""
        return self._flush(time.monotonic() + timeout_millis / 1000)


class SpanSink:
    """Encodes SDK spans and sends them over one OTLP channel."""

    name = "otlp"
    signal = "traces"
    max_age: float | None = None

    def __init__(self, target: OtlpTarget, scrubber: Scrubber) -> None:
        self._channel = otlp.channel("traces", target)
        self._encoder = SpanEncoder(scrubber)

    def encode(self, entries: list[ReadableSpan]) -> bytes:
        """One export request, with secrets out of attributes."""
        return self._encoder.request(entries)

    def send(self, body: bytes, timeout: float) -> Verdict:
        """Send one export request."""
        return self._channel.export(body, timeout)

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()


def engine(
    attributes: Mapping[str, Any],
    sampler: Sampler,
    processors: list[SpanProcessor],
    ids: IdGenerator | None = None,
) -> TracerProvider:
    """An SDK provider for a resource of ``attributes``; it registers no exit hook, since ``Telemetry`` ends it."""
    provider = TracerProvider(
        sampler=sampler,
        resource=Resource(dict(attributes)),
        shutdown_on_exit=False,
        id_generator=ids,
        span_limits=SpanLimits(),
    )
    for processor in processors:
        provider.add_span_processor(processor)
    return provider
