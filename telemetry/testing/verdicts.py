"""What a request is answered, and what of it is kept: the endpoints' manners, and the faults that bend them."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import msgspec

from telemetry.testing import decode_loki, decode_otlp, decode_prometheus
from telemetry.testing.faults import Fault, Hang, Partial, Raw, Redirect, RefuseRecord, Reset, Status
from telemetry.testing.records import decompress
from telemetry.testing.store import Kind

_OTLP = re.compile(r"/v1/(traces|logs|metrics)$")
_LOKI = "/loki/api/v1/push"
_PROMETHEUS = "/api/v1/import/prometheus"
_KINDS: Mapping[decode_otlp.Signal, Kind] = {"traces": "spans", "logs": "lines", "metrics": "samples"}
_TEXT = {"Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff"}


def _no_records() -> Iterable[Any]:
    return ()


class Verdict(msgspec.Struct, frozen=True):
    """The answer to a request, and what of the request is kept."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    kind: Kind | None = None
    count: int = 0
    records: Callable[[], Iterable[Any]] = _no_records


class Judge:
    """Decides what each request is answered. Remembers what its endpoints would: Loki's newest entries."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._loki = decode_loki.Streams()
        self._loki_lock = threading.Lock()
        self.skipped: list[str] = []

    def clear(self) -> None:
        """Forget what came before."""
        self.skipped.clear()
        with self._loki_lock:
            self._loki.clear()

    def judge(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes, fault: Fault | None
    ) -> Verdict:
        """The verdict on one HTTP request that meets ``fault``."""
        if isinstance(fault, Redirect):
            return Verdict(fault.status, {"Location": fault.to}, b"")
        if isinstance(fault, Hang | Reset | Raw | Status) and not (
            isinstance(fault, Hang | Reset | Status) and fault.keep
        ):
            verdict = Verdict(200, {}, b"")
        else:
            verdict = self._receive(method, path, query, headers, body, fault)
        if not isinstance(fault, Status):
            return verdict
        more = dict(fault.headers)
        if fault.retry_after is not None:
            after = fault.retry_after
            more["Retry-After"] = after if isinstance(after, str) else f"{after:g}"
        text = fault.body.encode() if isinstance(fault.body, str) else fault.body
        return msgspec.structs.replace(verdict, status=fault.code, headers=_TEXT | more, body=text)

    def _receive(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes, fault: Fault | None
    ) -> Verdict:
        otlp = _OTLP.search(path)
        if not otlp and path not in (_LOKI, _PROMETHEUS):
            return _said(404, f"nothing is received at {path}")
        if method != "POST":
            return Verdict(405, {"Allow": "POST"}, b"")
        if otlp:
            return self._otlp(cast("decode_otlp.Signal", otlp[1]), path, headers, body, fault)
        if path == _LOKI:
            return self._loki_push(headers, body, fault)
        return self._prometheus(query, headers, body, fault)

    def _otlp(
        self, signal: decode_otlp.Signal, path: str, headers: Mapping[str, str], body: bytes, fault: Fault | None
    ) -> Verdict:
        content_type = _content_type(headers)
        as_json = content_type == "application/json"
        if not as_json and content_type != "application/x-protobuf":
            return _said(415, f"OTLP comes as application/x-protobuf or application/json, not {content_type!r}")
        typed = {"Content-Type": content_type}
        try:
            message = decode_otlp.parse(signal, decompress(body, headers.get("content-encoding", "")), as_json=as_json)
        except ValueError as error:
            return Verdict(400, typed, decode_otlp.status(str(error), as_json=as_json))
        verdict, rejected, text = self.judge_otlp(signal, message, fault)
        if verdict.status != 200:
            return msgspec.structs.replace(verdict, headers=typed, body=decode_otlp.status(text, as_json=as_json))
        if path.endswith("/otlp/v1/logs") and not text:  # Loki's own OTLP endpoint
            return msgspec.structs.replace(verdict, status=204)
        return msgspec.structs.replace(
            verdict, headers=typed, body=decode_otlp.response(signal, rejected, text, as_json=as_json)
        )

    def judge_otlp(
        self, signal: decode_otlp.Signal, message: decode_otlp.ExportRequest, fault: Fault | None
    ) -> tuple[Verdict, int, str]:
        """What to keep of an export request, how many records to call rejected, and what to say of them."""
        kind = _KINDS[signal]
        if isinstance(fault, RefuseRecord) and any(fault.predicate(record) for record in decode_otlp.records(message)):
            return Verdict(fault.status, {}, b""), 0, fault.body
        if isinstance(fault, Partial):
            records = decode_otlp.records(message)
            rejected = min(fault.rejected, len(records))
            kept = records[: len(records) - rejected]
            return Verdict(200, {}, b"", kind, len(kept), lambda: kept), rejected, fault.message
        return Verdict(200, {}, b"", kind, decode_otlp.count(message), lambda: decode_otlp.records(message)), 0, ""

    def _loki_push(self, headers: Mapping[str, str], body: bytes, fault: Fault | None) -> Verdict:
        content_type = _content_type(headers)
        if content_type != "application/json":
            return _said(400, f"pushes are read as application/json here, not as {content_type!r}")
        try:
            push = decode_loki.parse(decompress(body, headers.get("content-encoding", "")))
        except ValueError as error:
            return _said(400, str(error))
        now_ns = int(self._clock() * 1e9)
        if isinstance(fault, RefuseRecord):
            looked_at = decode_loki.Streams().push(push, now_ns).accepted
            if any(fault.predicate(record) for stream in looked_at for record in stream.records()):
                return _said(fault.status, fault.body)
        with self._loki_lock:
            answer = self._loki.push(push, now_ns)
        if isinstance(fault, Partial):
            answer = decode_loki.keep_all_but(answer.accepted, fault.rejected, fault.message)
        accepted = answer.accepted
        count = sum(len(stream.entries) for stream in accepted)
        verdict = _said(answer.status, answer.text) if answer.text else Verdict(answer.status, {}, b"")
        return msgspec.structs.replace(
            verdict,
            kind="lines",
            count=count,
            records=lambda: [line for stream in accepted for line in stream.records()],
        )

    def _prometheus(self, query: str, headers: Mapping[str, str], body: bytes, fault: Fault | None) -> Verdict:
        try:
            text = decompress(body, headers.get("content-encoding", "")).decode("utf-8", "replace")
        except ValueError as error:
            return _said(400, str(error))
        samples, skipped = decode_prometheus.read(text, query, int(self._clock() * 1e3))
        self.skipped += skipped
        if isinstance(fault, RefuseRecord) and any(fault.predicate(sample) for sample in samples):
            return _said(fault.status, fault.body)
        if isinstance(fault, Partial):
            samples = samples[: max(0, len(samples) - fault.rejected)]
        return Verdict(204, {}, b"", "samples", len(samples), lambda: samples)


def _content_type(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def _said(status: int, text: str) -> Verdict:
    return Verdict(status, _TEXT, f"{text}\n".encode())
