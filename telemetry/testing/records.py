"""What arrived, as small frozen values: a span, a log line, a sample, and the request that carried them.

Ids are lower-case hex, empty where there is none. Times ending in ``_ns`` are nanoseconds since the epoch.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

_FIELD = re.compile(r'(?<!\S)([^\s="]+)=("(?:[^"\\]|\\.)*"|[^\s="]*)(?=\s|$)')


class SpanEvent(msgspec.Struct, frozen=True):
    """An event inside a span, such as a recorded exception."""

    name: str
    time_ns: int
    attributes: Mapping[str, Any]


class SpanLink(msgspec.Struct, frozen=True):
    """A span's pointer to a span of another trace."""

    trace_id: str
    span_id: str
    attributes: Mapping[str, Any]


class Span(msgspec.Struct, frozen=True):
    """One finished span. ``parent_id`` is empty for a root; ``status`` is what OTLP calls the status code."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    kind: Literal["unspecified", "internal", "server", "client", "producer", "consumer"]
    start_ns: int
    end_ns: int
    attributes: Mapping[str, Any]
    status: Literal["unset", "ok", "error"]
    status_message: str
    resource: Mapping[str, Any]
    scope: str
    events: tuple[SpanEvent, ...]
    links: tuple[SpanLink, ...]
    trace_state: str = ""

    @property
    def duration_ms(self) -> float:
        """End minus start, in milliseconds."""
        return (self.end_ns - self.start_ns) / 1e6


class LogLine(msgspec.Struct, frozen=True):
    """One log line.

    From a Loki push ``labels`` are the stream's and ``attributes`` the entry's structured metadata, named
    and cleaned as Loki stores them. From OTLP ``labels`` are the resource's attributes, ``attributes`` the
    record's own, and a body that is no string is given as JSON. Captured in the process, ``labels`` are the
    stream's as they would be in Loki, and ``attributes`` the fields of the record with their own types.
    """

    line: str
    timestamp_ns: int
    labels: Mapping[str, Any]
    attributes: Mapping[str, Any]
    source: Literal["loki", "otlp", "captured"]
    severity: str = ""
    severity_number: int = 0
    trace_id: str = ""
    span_id: str = ""

    @property
    def fields(self) -> dict[str, Any]:
        """What the line says: a JSON object as it is, else the pairs of logfmt, where every value is text."""
        if self.line.startswith("{"):
            try:
                found = json.loads(self.line)
            except ValueError:
                found = None
            if isinstance(found, dict):
                return found
        fields: dict[str, Any] = {}
        for key, value in _FIELD.findall(self.line):
            try:
                fields.setdefault(key, json.loads(value) if value.startswith('"') else value)
            except ValueError:  # no escape of JSON's: Loki finds no value there either
                continue
        return fields


class Sample(msgspec.Struct, frozen=True):
    """One metric sample. An OTLP histogram arrives as its ``_bucket``, ``_sum`` and ``_count`` samples."""

    name: str
    labels: Mapping[str, str]
    value: float
    timestamp_ms: int
    source: Literal["prometheus", "otlp"]
    resource: Mapping[str, Any] = {}


class Request(msgspec.Struct, frozen=True):
    """One request as it came over the wire.

    ``headers`` have lower-case names. ``body`` is what was sent, chunked framing removed, compression kept;
    ``size`` is its length. ``time`` is seconds since the epoch on the receiver's clock. ``status`` is what
    was answered: an HTTP status, a gRPC status code where ``protocol`` is ``grpc``, or -1 for no answer.
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes
    size: int
    time: float
    status: int
    protocol: Literal["http", "grpc"] = "http"

    @property
    def content(self) -> bytes:
        """The body with its ``Content-Encoding`` undone; ``ValueError`` for one that can't be read."""
        return decompress(self.body, self.headers.get("content-encoding", ""))


class Counts(msgspec.Struct, frozen=True):
    """How many of each have arrived since the start or ``clear()``."""

    requests: int = 0
    spans: int = 0
    lines: int = 0
    samples: int = 0


def decompress(body: bytes, encoding: str) -> bytes:
    """Undo ``gzip``, ``deflate`` (zlib or raw) or ``identity``; ``ValueError`` says what else was found."""
    match encoding.strip().lower():
        case "" | "identity":
            return body
        case "gzip" | "x-gzip":
            windows = [31]
        case "deflate":  # RFC 9110 means zlib framing; Go's flate reader, which Loki uses, means the raw stream
            windows = [15, -15]
        case other:
            raise ValueError(f"Content-Encoding {other!r} not supported")
    for bits in windows:
        try:
            stream = zlib.decompressobj(bits)
            content = stream.decompress(body)
        except zlib.error:
            continue
        if stream.eof:
            return content
    raise ValueError(f"the body is no complete {encoding} stream")
