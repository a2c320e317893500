"""The receiver's OTLP/gRPC side: the three export methods, with the same faults put in gRPC's terms."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status as RpcStatus

from telemetry.testing import decode_otlp
from telemetry.testing.faults import Hang, Raw, Redirect, Reset, Script, Slow, Status, Step
from telemetry.testing.records import Request
from telemetry.testing.store import Store
from telemetry.testing.verdicts import Judge, Verdict

_SERVICES: dict[str, decode_otlp.Signal] = {
    "opentelemetry.proto.collector.trace.v1.TraceService": "traces",
    "opentelemetry.proto.collector.logs.v1.LogsService": "logs",
    "opentelemetry.proto.collector.metrics.v1.MetricsService": "metrics",
}
# How gRPC clients read an HTTP status, and what the Collector answers for a full queue (429)
_CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.UNIMPLEMENTED,
    413: grpc.StatusCode.RESOURCE_EXHAUSTED,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    500: grpc.StatusCode.INTERNAL,
    502: grpc.StatusCode.UNAVAILABLE,
    503: grpc.StatusCode.UNAVAILABLE,
    504: grpc.StatusCode.DEADLINE_EXCEEDED,
}


class GrpcServer:
    """Serves on one free loopback port, which ``shut()`` closes and ``open()`` opens again."""

    def __init__(
        self,
        judge: Judge,
        script: Script,
        store: Store,
        clock: Callable[[], float],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._judge = judge
        self._script = script
        self._store = store
        self._clock = clock
        self._failed = failed
        self._server: grpc.Server | None = None
        self.port = 0
        self.open()

    def open(self) -> None:
        """Listen (again)."""
        if self._server is not None:
            return
        server = grpc.server(
            ThreadPoolExecutor(64, thread_name_prefix="telemetry-receiver-grpc"),
            options=[("grpc.max_receive_message_length", -1), ("grpc.so_reuseport", 0)],
        )
        handlers = [
            grpc.method_handlers_generic_handler(
                service,
                {"Export": grpc.unary_unary_rpc_method_handler(self._behaviour(signal))},
            )
            for service, signal in _SERVICES.items()
        ]
        server.add_generic_rpc_handlers(handlers)
        self.port = server.add_insecure_port(f"127.0.0.1:{self.port}")
        server.start()
        self._server = server

    def shut(self) -> None:
        """Close the port and cut every call."""
        if self._server is not None:
            self._server.stop(None).wait(2.0)
            self._server = None

    close = shut

    def _behaviour(self, signal: decode_otlp.Signal) -> Callable[[bytes, grpc.ServicerContext], bytes]:
        def export(body: bytes, context: grpc.ServicerContext) -> bytes:
            try:
                return self._export(signal, body, context)
            except Exception as error:
                # abort() raises a bare Exception to leave the handler; anything else is ours or the test's
                if type(error) is not Exception:
                    self._failed(error)
                raise

        return export

    def _export(self, signal: decode_otlp.Signal, body: bytes, context: grpc.ServicerContext) -> bytes:
        path = f"/v1/{signal}"
        step = self._script.take(path)
        fault = step.fault if step else None
        loses = isinstance(fault, Hang | Reset | Raw | Redirect | Status) and not getattr(fault, "keep", False)
        problem, rejected, text = "", 0, ""
        verdict = Verdict(200, {}, b"")
        if not loses:
            try:
                message = decode_otlp.parse(signal, body, as_json=False)
                verdict, rejected, text = self._judge.judge_otlp(signal, message, fault)
            except ValueError as error:
                verdict, problem = Verdict(400, {}, b""), str(error)
        code = grpc.StatusCode.OK if verdict.status == 200 else _CODES.get(verdict.status, grpc.StatusCode.UNKNOWN)
        if isinstance(fault, Status):
            code = _CODES.get(fault.code, grpc.StatusCode.UNKNOWN)
            problem = fault.body if isinstance(fault.body, str) else fault.body.decode("utf-8", "replace")
        elif isinstance(fault, Reset | Raw | Redirect):
            code, problem = grpc.StatusCode.UNAVAILABLE, "connection reset"
        request = Request(
            method="POST",
            path=path,
            query="",
            headers={key: value for key, value in context.invocation_metadata() if isinstance(value, str)},
            body=body,
            size=len(body),
            time=self._clock(),
            status=-1 if isinstance(fault, Hang) else code.value[0],
            protocol="grpc",
        )
        self._store.add(request, verdict.kind, verdict.count, verdict.records)
        if isinstance(fault, Hang):
            _hang(cast("Step", step), fault, context)
            context.abort(grpc.StatusCode.UNAVAILABLE, "the receiver hung")
        if isinstance(fault, Slow):
            cast("Step", step).ended.wait(len(body) / fault.bytes_per_second)
        if code is not grpc.StatusCode.OK:
            if isinstance(fault, Status) and isinstance(fault.retry_after, int | float):
                context.set_trailing_metadata(_retry_info(code, problem, fault.retry_after))
            context.abort(code, problem or text)
        return decode_otlp.response(signal, rejected, text, as_json=False)


def _hang(step: Step, fault: Hang, context: grpc.ServicerContext) -> None:
    deadline = None if fault.seconds is None else time.monotonic() + fault.seconds
    while context.is_active() and not step.ended.wait(0.1):
        if deadline is not None and time.monotonic() > deadline:
            return


def _retry_info(code: grpc.StatusCode, message: str, seconds: float) -> tuple[tuple[str, Any], ...]:
    """Trailing metadata that says when to come again, as OTLP/gRPC throttling does."""
    detail = AnyMessage()
    detail.Pack(RetryInfo(retry_delay=Duration(seconds=int(seconds), nanos=int(seconds % 1 * 1e9))))
    status = RpcStatus(code=code.value[0], message=message, details=[detail])
    return (("grpc-status-details-bin", status.SerializeToString()),)
