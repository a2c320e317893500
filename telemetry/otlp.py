"""OTLP as all three signals send it: framing of pre-encoded messages, and one channel over HTTP or gRPC.

Spans, log records and metric points are encoded where they are known; a channel only transports: it never
queues and never retries, since the Shipper does.
Protocol: OTLP specification 1.x, "OTLP/HTTP Response" and "Failures".
"""

from __future__ import annotations

import os
import re
import threading
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec

from telemetry.config.targets import OtlpTarget, Signal
from telemetry.delivery import Verdict
from telemetry.transport import HttpTransport, Response, TlsFiles

_METHODS: dict[Signal, str] = {
    "traces": "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    "logs": "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
    "metrics": "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
}
# OTLP specification, "Failures": RESOURCE_EXHAUSTED only where the server says when to come back.
_RETRYABLE = {"CANCELLED", "DEADLINE_EXCEEDED", "ABORTED", "OUT_OF_RANGE", "UNAVAILABLE", "DATA_LOSS"}
# What grpc-go, the C core and grpc-java answer, under RESOURCE_EXHAUSTED too, to what HTTP answers 413.
_TOO_LARGE = re.compile("larger than max|exceeds maximum size")
# By itself gRPC would wait up to two minutes before it looks again whether a server is back.
_CHANNEL_OPTIONS = (("grpc.initial_reconnect_backoff_ms", 500), ("grpc.max_reconnect_backoff_ms", 2000))


class Channel(Protocol):
    """Transports one encoded export request."""

    def export(self, body: bytes, timeout: float) -> Verdict:
        """Send ``body`` within ``timeout`` seconds."""
        ...

    def close(self) -> None:
        """Close the connection; ``export`` opens another."""
        ...


def channel(signal: Signal, target: OtlpTarget) -> Channel:
    """The channel that ``target`` asks for."""
    return GrpcChannel(signal, target) if target.protocol == "grpc" else HttpChannel(signal, target)


class HttpChannel:
    """OTLP/HTTP with binary protobuf."""

    def __init__(self, signal: Signal, target: OtlpTarget) -> None:
        self._timeout = target.timeout
        compress = target.compression == "gzip"
        tls = TlsFiles(target.certificate, target.client_certificate, target.client_key)
        self._transport = HttpTransport(target.endpoint, target.headers, compress=compress, tls=tls)

    def export(self, body: bytes, timeout: float) -> Verdict:
        """POST ``body``."""
        return classify(self._transport.post(body, "application/x-protobuf", min(timeout, self._timeout)))

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()


def classify(response: Response) -> Verdict:
    """What an OTLP/HTTP answer means: 200 may refuse some; 429, 502, 503, 504 are retried; 400 hides a culprit."""
    status = response.status
    message = f"OTLP answered {status}: {response.excerpt}" if response.excerpt else f"OTLP answered {status}"
    if 200 <= status < 300:
        json = response.headers.get("content-type", "").startswith("application/json")
        rejected, why = _partial_json(response.body) if json else _partial(response.body)
        return Verdict("delivered", rejected=rejected, message=f"OTLP refused {rejected}: {why}" if rejected else "")
    if status in (429, 502, 503, 504):
        return Verdict("retry", retry_after=response.retry_after, message=message)
    if status in (400, 413):
        return Verdict("split", message=message)
    if 300 <= status < 400:
        where = response.headers.get("location", "nowhere")
        message = f"OTLP answered {status}, a redirect to {where}: give the final endpoint"
    return Verdict("rejected", message=message)


def _partial(body: bytes) -> tuple[int, str]:
    """``partial_success`` of any of the three responses: they share field numbers and types."""
    if not body:
        return 0, ""
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

    try:
        told = ExportTraceServiceResponse.FromString(body).partial_success
    except DecodeError:
        return 0, ""
    return max(0, told.rejected_spans), told.error_message


def _partial_json(body: bytes) -> tuple[int, str]:
    try:
        told = msgspec.json.decode(body)["partialSuccess"]
        counts = [int(value) for key, value in told.items() if key.startswith("rejected")]
        return max(0, *counts, 0), str(told.get("errorMessage", ""))
    except (msgspec.DecodeError, KeyError, TypeError, ValueError, AttributeError):
        return 0, ""


class GrpcChannel:
    """OTLP/gRPC. The channel is opened by the sending thread, so that a fork finds none of the parent's."""

    def __init__(self, signal: Signal, target: OtlpTarget) -> None:
        self._target = target
        self._method = _METHODS[signal]
        self._channel: Any = None
        self._call: Any = None
        self._flying: Any = None
        self._calling = threading.Lock()
        self._held = False

    def export(self, body: bytes, timeout: float) -> Verdict:
        """Call Export with ``body`` as the encoded request."""
        import grpc

        metadata = tuple((name.lower(), value) for name, value in self._target.headers.items())
        with self._calling:
            if self._call is None:
                _forks_wait_for(self)
                self._channel = self._open(grpc)
                self._call = self._channel.unary_unary(self._method)
            self._flying = self._call.future(body, timeout=min(timeout, self._target.timeout), metadata=metadata)
            over = threading.Event()
            self._flying.add_done_callback(lambda _: over.set())
            try:
                answer = self._flying.result()
            except grpc.FutureCancelledError:
                return Verdict("retry", message="OTLP call cancelled: the process forked")
            except grpc.RpcError as error:
                return grpc_verdict(error.code().name, error.details() or "", _retry_info(error))
            finally:
                over.wait(1.0)  # a call that is cancelled answers at once, and is over a moment later
                self._flying = None
        rejected, why = _partial(answer)
        return Verdict("delivered", rejected=rejected, message=f"OTLP refused {rejected}: {why}" if rejected else "")

    def before_fork(self) -> None:
        """Have no call under way while the process forks: gRPC would stand still, here and in the child.

        A call that takes long is cancelled; the Shipper sends it again.
        """
        for _ in range(20):
            if self._calling.acquire(timeout=0.05):
                self._held = True
                return
            flying = self._flying
            if flying is not None:
                flying.cancel()

    def after_fork_in_parent(self) -> None:
        """Go on."""
        if self._held:
            self._held = False
            self._calling.release()

    def after_fork_in_child(self) -> None:
        """Begin anew."""
        self._held, self._flying, self._calling = False, None, threading.Lock()

    def _open(self, grpc: Any) -> Any:
        from urllib.parse import urlsplit

        parts = urlsplit(self._target.endpoint)
        host = parts.hostname or "localhost"
        address = f"{f'[{host}]' if ':' in host else host}:{parts.port or 4317}"
        compression = grpc.Compression.Gzip if self._target.compression == "gzip" else grpc.Compression.NoCompression
        if not self._target.insecure:
            files = [self._target.certificate, self._target.client_key, self._target.client_certificate]
            credentials = grpc.ssl_channel_credentials(*(_read(path) for path in files))
            return grpc.secure_channel(address, credentials, _CHANNEL_OPTIONS, compression)
        return grpc.insecure_channel(address, _CHANNEL_OPTIONS, compression)

    def close(self) -> None:
        """Close the channel."""
        opened, self._channel, self._call = self._channel, None, None
        if opened is not None:
            opened.close()


_channels: weakref.WeakSet[GrpcChannel] = weakref.WeakSet()
_forking = threading.Lock()
_hooked = False


def _forks_wait_for(channel: GrpcChannel) -> None:
    """Register our hooks after gRPC's own (it is imported by now), so that ours run before them."""
    global _hooked
    _channels.add(channel)
    if not _hooked and hasattr(os, "register_at_fork"):
        _hooked = True
        os.register_at_fork(
            before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child
        )


def _before_fork() -> None:
    _forking.acquire()
    for channel in list(_channels):
        channel.before_fork()


def _after_fork_in_parent() -> None:
    for channel in list(_channels):
        channel.after_fork_in_parent()
    _forking.release()


def _after_fork_in_child() -> None:
    for channel in list(_channels):
        channel.after_fork_in_child()
    _forking.release()


def grpc_verdict(code: str, details: str, retry_after: float | None) -> Verdict:
    """What a gRPC status means for an export."""
    message = f"OTLP answered {code}: {details}"
    if code in _RETRYABLE or (code == "RESOURCE_EXHAUSTED" and retry_after is not None):
        return Verdict("retry", retry_after=retry_after, message=message)
    split = code == "INVALID_ARGUMENT" or (code == "RESOURCE_EXHAUSTED" and _TOO_LARGE.search(details) is not None)
    return Verdict("split" if split else "rejected", message=message)


def _retry_info(error: Any) -> float | None:
    """Seconds of ``google.rpc.RetryInfo`` in the trailing metadata, or None."""
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            from google.rpc import error_details_pb2, status_pb2

            for detail in status_pb2.Status.FromString(value).details:
                info = error_details_pb2.RetryInfo()
                if detail.Unpack(info):
                    return float(info.retry_delay.seconds + info.retry_delay.nanos / 1e9)
    return None


def _read(path: str | None) -> bytes | None:
    return None if path is None else Path(path).read_bytes()


# -- protobuf wire format (protobuf encoding guide): what joins messages that are encoded already ------


def varint(value: int) -> bytes:
    """``value`` (not negative) as a base-128 varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number: int, payload: bytes) -> bytes:
    """A length-delimited field: a message, string or bytes."""
    size = len(payload)
    if size < 0x80 and number < 16:
        return bytes((number << 3 | 2, size)) + payload
    return varint(number << 3 | 2) + varint(size) + payload


def resource_message(attributes: Mapping[str, Any]) -> bytes:
    """An encoded ``opentelemetry.proto.resource.v1.Resource``."""
    from opentelemetry.exporter.otlp.proto.common._internal import _encode_resource
    from opentelemetry.sdk.resources import Resource

    return bytes(_encode_resource(Resource(dict(attributes))).SerializeToString())


def scope_message(name: str, version: str) -> bytes:
    """An encoded ``InstrumentationScope``."""
    return field(1, name.encode()) + field(2, version.encode())


def request(resource: bytes, scope: bytes, records: list[bytes]) -> bytes:
    """An encoded export request that holds ``records`` under one resource and scope.

    The three requests have one shape: resource_* = 1 {resource = 1, scope_* = 2 {scope = 1, records = 2}}.
    """
    inside = field(1, scope) + b"".join([field(2, record) for record in records])
    return field(1, field(1, resource) + field(2, inside))
