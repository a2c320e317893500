"""Logs over OTLP: the body is the whole line, severity and ids stand in fields of their own.

So one LogQL works whichever way a line came. In ``attributes`` mode, for other backends, the body is the
message and the fields are attributes. Field numbers: ``opentelemetry/proto/logs/v1/logs.proto``.
"""

from __future__ import annotations

import logging
import struct
import time
from collections.abc import Callable, Mapping
from typing import Any

from telemetry import otlp
from telemetry.config.targets import OtlpTarget
from telemetry.delivery import ENTRY_OVERHEAD, Verdict
from telemetry.logs.event import Event
from telemetry.logs.line import plain, tail_fields

_fixed64 = struct.Struct("<Q").pack
_double = struct.Struct("<d").pack
_SAMPLED = b"\x45" + struct.pack("<I", 1)  # flags = 8, fixed32


def severity(levelno: int) -> int:
    """OpenTelemetry's severity number of a stdlib level ("Logs Data Model", SeverityNumber)."""
    if levelno >= logging.CRITICAL:
        return 21
    if levelno >= logging.ERROR:
        return 17
    if levelno >= logging.WARNING:
        return 13
    if levelno >= logging.INFO:
        return 9
    return 5 if levelno >= logging.DEBUG else 1


class Encoder:
    """Events to encoded ``LogRecord`` messages; ``attributes`` chooses the mode."""

    def __init__(self, *, attributes: bool = False) -> None:
        self._attributes = attributes
        self._heads: dict[str, bytes] = {}

    def __call__(self, event: Event, line: str) -> tuple[bytes, int]:
        """The message and its cost in bytes."""
        head = self._heads.get(event.level)
        if head is None:
            text = event.level.upper().encode(errors="replace")
            head = b"\x10" + otlp.varint(severity(event.levelno)) + otlp.field(3, text)
            if len(self._heads) < 256:  # levels made from data would otherwise grow this for ever
                self._heads[event.level] = head
        split = self._attributes and event.ready is None
        body = event.message if split else line
        parts = [
            b"\x09" + _fixed64(max(event.ns, 0)),
            head,
            otlp.field(5, otlp.field(1, body.encode(errors="replace"))),
            b"\x59" + _fixed64(time.time_ns()),
        ]
        if split:
            parts += [otlp.field(6, _pair(key, value)) for key, value in self._fields(event)]
        if event.trace_id:
            parts.append(otlp.field(9, bytes.fromhex(event.trace_id)))
            if event.span_id:
                parts.append(otlp.field(10, bytes.fromhex(event.span_id)))
            if event.sampled:
                parts.append(_SAMPLED)
        record = b"".join(parts)
        return record, len(record) + ENTRY_OVERHEAD

    def _fields(self, event: Event) -> list[tuple[str, object]]:
        names = {"exception_type": "exception.type", "exception_message": "exception.message"}
        names["exception_stacktrace"] = "exception.stacktrace"
        long = [(names.get(key, key), text) for key, text in tail_fields(event)]
        return [("logger", event.logger), *event.fields.items(), *long]


def _pair(key: str, value: object) -> bytes:
    return otlp.field(1, key.encode(errors="replace")) + otlp.field(2, _any(value))


def _any(value: object) -> bytes:
    if isinstance(value, bool):
        return b"\x10" + (b"\x01" if value else b"\x00")
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return b"\x18" + otlp.varint(value & 0xFFFF_FFFF_FFFF_FFFF)
    if isinstance(value, float):
        return b"\x21" + _double(value)
    return otlp.field(1, (value if isinstance(value, str) else plain(value)).encode(errors="replace"))


class OtlpLogSink:
    """Sends encoded log records under one resource."""

    name = "otlp"
    signal = "logs"
    max_age: float | None = None

    def __init__(self, target: OtlpTarget, attributes: Callable[[], Mapping[str, Any]], version: str) -> None:
        self._attributes = attributes
        self._scope = otlp.scope_message("fleetglass", version)
        self._channel = otlp.channel("logs", target)
        self._resource: bytes | None = None

    def encode(self, entries: list[bytes]) -> bytes:
        """One export request."""
        if self._resource is None:
            self._resource = otlp.resource_message(self._attributes())
        return otlp.request(self._resource, self._scope, entries)

    def send(self, body: bytes, timeout: float) -> Verdict:
        """Send one export request."""
        return self._channel.export(body, timeout)

    def close(self) -> None:
        """Close the connection; a forked child asks for its own resource again."""
        self._resource = None
        self._channel.close()
