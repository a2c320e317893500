"""Finished SDK spans to an OTLP request, as bytes, with secrets out of what they say.

Common spans (texts, numbers and booleans as attributes, events, a status) are written here, for speed: the
exporter's own encoder makes a message object for each attribute, at seven times the price, and would be the
larger part of what a traced request costs. Every other span goes to that encoder (``telemetry.traces.exporter``):
protobuf merges two requests that stand one behind the other. Fields and their numbers:
``opentelemetry/proto/trace/v1/trace.proto`` and ``common/v1/common.proto``; a test holds both encoders together.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from telemetry import scrub
from telemetry.otlp import field, varint

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import Event, ReadableSpan
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import SpanKind

T = TypeVar("T")

_KNOWN_LIMIT = 4096
"""Texts kept encoded, and characters of a text that is kept: values made from data must not grow this."""
_KEPT_LENGTH = 128

_HAS_REMOTE, _REMOTE = 0x100, 0x300
"""SpanFlags: it is known whether the parent (or what is linked to) is remote; and it is."""

_WORD = (1 << 64) - 1
# trace_id = 1 (16 bytes), span_id = 2 (8 bytes); as in a Span, so in a Link.
_ids = struct.Struct(">HQQHQ").pack
_parent = struct.Struct(">HQ").pack  # parent_span_id = 4
# start_time_unix_nano = 7, end_time_unix_nano = 8, flags = 16, all of fixed size.
_times = struct.Struct("<BQBQHI").pack
_fixed64 = struct.Struct("<BQ").pack
_double = struct.Struct("<Bd").pack


class _UncommonError(Exception):
    """The span says something that only the exporter's encoder knows."""


class SpanEncoder:
    """Encodes spans; keeps what many of them say, already encoded. Used by one thread at a time."""

    def __init__(self, scrubber: scrub.Scrubber) -> None:
        self._scrubber = scrubber
        self._known: dict[tuple[int, str, str], bytes] = {}
        self._names: dict[tuple[str, SpanKind], bytes] = {}
        self._resource: tuple[Resource | None, bytes] = (None, b"")
        self._scopes: dict[int, tuple[InstrumentationScope | None, bytes]] = {}

    def request(self, spans: Sequence[ReadableSpan]) -> bytes:
        """An ``ExportTraceServiceRequest`` that holds ``spans``, grouped by resource and scope."""
        # By identity first: hashing a resource means printing it, for every span.
        groups: dict[tuple[int, int], list[bytes]] = {}
        resources: dict[int, Resource] = {}
        scopes: dict[int, InstrumentationScope | None] = {}
        uncommon: list[ReadableSpan] = []
        for span in spans:
            try:
                message = self.span(span)
                self._scope_head(span._instrumentation_scope)  # an uncommon scope makes its spans uncommon
            except _UncommonError:
                uncommon.append(span)
                continue
            key = _known_as(span._resource, resources), _known_as(span._instrumentation_scope, scopes)
            encoded = groups.get(key)
            if encoded is None:
                encoded = groups[key] = []
            encoded.append(field(2, message))
        inside: dict[int, list[bytes]] = {which: [self._resource_head(one)] for which, one in resources.items()}
        for (which, scope_id), encoded in groups.items():
            inside[which].append(field(2, self._scope_head(scopes[scope_id]) + b"".join(encoded)))
        body = b"".join([field(1, b"".join(parts)) for parts in inside.values()])
        if uncommon:
            from telemetry.traces import exporter

            body += exporter.encode(uncommon, self._scrubber)
        return body

    def span(self, span: ReadableSpan) -> bytes:
        """One ``Span`` message; ``_UncommonError`` where it says too much."""
        context = span._context
        assert context is not None
        if span._links or span.dropped_attributes or span.dropped_events or span.dropped_links:
            raise _UncommonError
        parent = span._parent
        trace_id = context.trace_id
        flags = _REMOTE if parent is not None and parent.is_remote else _HAS_REMOTE
        parts = [
            _ids(0x0A10, trace_id >> 64, trace_id & _WORD, 0x1208, context.span_id),
            self._name(span._name, span._kind),
            _times(0x39, span._start_time or 0, 0x41, span._end_time or 0, 0x0185, flags),
        ]
        if parent is not None:
            parts.append(_parent(0x2208, parent.span_id))
        if context.trace_state:
            parts.append(field(3, context.trace_state.to_header().encode(errors="replace")))
        attributes = span._attributes
        if attributes:
            self._attributes(parts, 9, attributes)
        if span._events:
            parts += [field(11, self._event(event)) for event in span._events]
        parts.append(self._status(span))
        return b"".join(parts)

    def _name(self, name: str, kind: SpanKind) -> bytes:
        known = self._names.get((name, kind))
        if known is None:
            # The kinds of the API are one below those of the protocol, where 0 is "unspecified".
            known = field(5, name.encode(errors="replace")) + b"\x30" + varint(kind.value + 1)
            _keep(self._names, (name, kind), known)
        return known

    def _attributes(self, parts: list[bytes], number: int, attributes: Mapping[str, Any]) -> None:
        """Append field ``number`` for each of ``attributes``."""
        known = self._known
        for key, value in attributes.copy().items():  # type: ignore[attr-defined]  # both a dict and the SDK's have it
            if type(value) is not str:
                parts.append(field(number, self._pair(key, value)))
                continue
            encoded = known.get((number, key, value))
            if encoded is None:
                encoded = field(number, self._pair(key, value))
                if len(value) <= _KEPT_LENGTH:
                    _keep(known, (number, key, value), encoded)
            parts.append(encoded)

    def _pair(self, key: str, value: Any) -> bytes:
        said = scrub.SCRUBBED if self._scrubber.is_secret(key) else value
        return field(1, key.encode(errors="replace")) + field(2, self._any(said))

    def _any(self, value: Any) -> bytes:
        """An ``AnyValue``; ``_UncommonError`` for what is neither text, number nor boolean."""
        if isinstance(value, str):
            return field(1, scrub.text(value).encode(errors="replace"))
        if isinstance(value, bool):
            return b"\x10\x01" if value else b"\x10\x00"
        if isinstance(value, int) and -(2**63) <= value < 2**63:
            return b"\x18" + varint(value & _WORD)
        if isinstance(value, float):
            return _double(0x21, value)
        raise _UncommonError

    def _event(self, event: Event) -> bytes:
        parts = [_fixed64(0x09, event.timestamp), field(2, event.name.encode(errors="replace"))]
        if event.attributes:
            self._attributes(parts, 3, event.attributes)
        if event.dropped_attributes:
            raise _UncommonError
        return b"".join(parts)

    def _status(self, span: ReadableSpan) -> bytes:
        status = span._status
        if status.is_unset and not status.description:
            return b"\x7a\x00"
        inside = field(2, scrub.text(status.description).encode(errors="replace")) if status.description else b""
        if status.status_code.value:
            inside += b"\x18" + varint(status.status_code.value)
        return field(15, inside)

    def _resource_head(self, resource: Resource) -> bytes:
        """``resource`` and ``schema_url`` of a ``ResourceSpans``; one process has one."""
        if self._resource[0] is not resource:
            parts: list[bytes] = []
            self._attributes(parts, 1, dict(resource.attributes))
            schema = field(3, resource.schema_url.encode()) if resource.schema_url else b""
            self._resource = (resource, field(1, b"".join(parts)) + schema)
        return self._resource[1]

    def _scope_head(self, scope: InstrumentationScope | None) -> bytes:
        """``scope`` and ``schema_url`` of a ``ScopeSpans``."""
        known = self._scopes.get(id(scope))
        if known is None:
            parts: list[bytes] = []
            schema = b""
            if scope is not None:
                parts += [
                    field(number, text.encode(errors="replace"))
                    for number, text in ((1, scope.name), (2, scope.version))
                    if text
                ]
                self._attributes(parts, 3, dict(scope.attributes or {}))
                schema = field(3, scope.schema_url.encode()) if scope.schema_url else b""
            # Kept with the scope itself, whose id is then nobody else's.
            known = (scope, field(1, b"".join(parts)) + schema)
            _keep(self._scopes, id(scope), known)
        return known[1]


def _known_as(one: T, known: dict[int, T]) -> int:
    """The key of ``one``, or of its equal, in ``known``; it is added where there is neither."""
    key = id(one)
    if key not in known:
        for other, value in known.items():
            if value == one:
                return other
        known[key] = one
    return key


def _keep(known: dict[Any, Any], key: Any, encoded: object) -> None:
    if len(known) >= _KNOWN_LIMIT:
        known.clear()
    known[key] = encoded
