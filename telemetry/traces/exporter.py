"""Spans that say more than the common ones, encoded by the OpenTelemetry exporter's own encoder.

Links, trace state, lists, bytes, nested values, counts of what a limit dropped: rare, so that what they cost
does not matter, and the exporter's encoder knows them all. Secrets are taken out first, in place: a finished
span is a copy that nobody else holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import Status

from telemetry import scrub


def encode(spans: Sequence[ReadableSpan], scrubber: scrub.Scrubber) -> bytes:
    """An ``ExportTraceServiceRequest`` that holds ``spans``."""
    for span in spans:
        clean(span, scrubber)
    return bytes(encode_spans(spans).SerializeToString())


def clean(span: ReadableSpan, scrubber: scrub.Scrubber) -> None:
    """Take secrets out of ``span``, and what protobuf can't hold: half surrogates, integers beyond 64 bits."""
    span._name = _text(span._name)
    for event in span._events:
        event._name = _text(event._name)
    holders: list[Any] = [span, *span._events, *span._links]
    for holder in holders:
        kept = holder._attributes
        if kept:
            holder._attributes = BoundedAttributes(
                attributes={_text(key): _value(key, value, scrubber) for key, value in kept.items()}, immutable=False
            )
            holder._attributes.dropped = getattr(kept, "dropped", 0)
    if span._status.description:
        span._status = Status(span._status.status_code, scrub.text(_text(span._status.description)))


def _value(key: str, value: Any, scrubber: scrub.Scrubber) -> Any:
    if scrubber.is_secret(key):
        return scrub.SCRUBBED
    if isinstance(value, str):
        return scrub.text(_text(value))
    if isinstance(value, Mapping):
        return {_text(str(name)): _value(str(name), item, scrubber) for name, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [_value("", item, scrubber) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
        return str(value)
    return value


def _text(text: str) -> str:
    return text.encode(errors="replace").decode()
