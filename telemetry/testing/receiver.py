"""A real receiver of the three signals on a loopback port, which records what arrives and misbehaves when told to."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Self

from telemetry.testing.faults import Blackhole, Fault, Hang, Raw, Refuse, Reset, Script, Slow, Step
from telemetry.testing.records import Counts, LogLine, Request, Sample, Span
from telemetry.testing.server import Cut, Exchange, HttpServer, pace
from telemetry.testing.store import Keep, Store
from telemetry.testing.verdicts import Judge

if TYPE_CHECKING:
    import ssl
    from types import TracebackType

    from telemetry.testing.receiver_grpc import GrpcServer


class Receiver:
    """A receiver of traces, logs and metrics on one free port of 127.0.0.1, from construction to ``close()``.

    It accepts

    - OTLP/HTTP at ``/v1/traces``, ``/v1/logs``, ``/v1/metrics`` and below any prefix (Loki's ``/otlp``),
      protobuf or JSON, gzip or deflate, chunked or not; OTLP/gRPC at ``grpc_endpoint``, once asked for;
    - Loki pushes in JSON at ``/loki/api/v1/push``, checked as Loki 3.8 checks them;
    - Prometheus text at ``/api/v1/import/prometheus``.

    Give ``url`` as endpoint of all of them (``settings()`` does). What was accepted is in ``spans``, ``lines``
    and ``samples``, everything that came in ``requests``. Safe to use from any thread.

    ``keep="records"`` drops the raw requests and ``"counts"`` also the records, for long runs; ``limit`` keeps
    only the newest so many of each. ``clock`` gives the time, in seconds since the epoch, by which Loki's age
    limits are judged. ``tls`` serves HTTPS.
    """

    def __init__(
        self,
        *,
        keep: Keep = "everything",
        limit: int | None = None,
        clock: Callable[[], float] = time.time,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._store = Store(keep, limit)
        self._script = Script()
        self._judge = Judge(clock)
        self._clock = clock
        self._failures: list[BaseException] = []
        self._grpc: GrpcServer | None = None
        self._scheme = "https" if tls else "http"
        self._server = HttpServer(self._handle, self._failed, tls)

    # Addresses

    @property
    def port(self) -> int:
        """The TCP port on 127.0.0.1."""
        return self._server.port

    @property
    def url(self) -> str:
        """The base URL, without a path: the endpoint to give to each of the three signals."""
        return f"{self._scheme}://127.0.0.1:{self.port}"

    @property
    def grpc_endpoint(self) -> str:
        """``http://127.0.0.1:port`` of the OTLP/gRPC service, which starts when first asked for."""
        if self._grpc is None:
            from telemetry.testing.receiver_grpc import GrpcServer

            self._grpc = GrpcServer(self._judge, self._script, self._store, self._clock, self._failed)
        return f"http://127.0.0.1:{self._grpc.port}"

    def settings(self) -> dict[str, str]:
        """Arguments for ``telemetry.setup()`` that send all three signals here, logs as Loki pushes."""
        return {"otlp_endpoint": self.url, "loki_url": self.url, "metrics_push_url": self.url}

    def environ(self) -> dict[str, str]:
        """The same as environment variables, for a process that a test starts."""
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.url,
            "FLEETGLASS_LOKI_URL": self.url,
            "FLEETGLASS_METRICS_PUSH_URL": self.url,
        }

    # What arrived

    @property
    def spans(self) -> list[Span]:
        """Spans accepted, in order of arrival."""
        return self._store.spans()

    @property
    def lines(self) -> list[LogLine]:
        """Log lines accepted, from Loki pushes and OTLP, in order of arrival."""
        return self._store.lines()

    @property
    def samples(self) -> list[Sample]:
        """Metric samples accepted, from Prometheus text and OTLP, in order of arrival."""
        return self._store.samples()

    @property
    def requests(self) -> list[Request]:
        """Every request whose body was read, whatever it was answered."""
        return self._store.requests()

    @property
    def counts(self) -> Counts:
        """How many of each, without turning anything into records."""
        return self._store.counts()

    @property
    def skipped(self) -> list[str]:
        """Lines of Prometheus text that could not be read; VictoriaMetrics skips such lines in silence."""
        return list(self._judge.skipped)

    def traces(self) -> dict[str, list[Span]]:
        """Spans by trace id, the newest trace last, each trace's spans by start time."""
        traces: dict[str, list[Span]] = {}
        for span in self.spans:
            traces.setdefault(span.trace_id, []).append(span)
        return {trace_id: sorted(spans, key=lambda span: span.start_ns) for trace_id, spans in traces.items()}

    def wait_for(
        self,
        predicate: Callable[[Receiver], object] | None = None,
        *,
        spans: int = 0,
        lines: int = 0,
        samples: int = 0,
        requests: int = 0,
        timeout: float = 20.0,
    ) -> bool:
        """Wait until at least so many have arrived and ``predicate(receiver)`` is true.

        True, or ``TimeoutError`` after ``timeout`` seconds with what did arrive.
        """

        def done() -> bool:
            if self._failures:
                return True
            have = self.counts
            enough = have.spans >= spans and have.lines >= lines and have.samples >= samples
            return enough and have.requests >= requests and bool(predicate is None or predicate(self))

        arrived = self._store.wait(done, timeout)
        self._raise_failure()
        if not arrived:
            wanted = {"spans": spans, "lines": lines, "samples": samples, "requests": requests}
            asked = [f"{count} {kind}" for kind, count in wanted.items() if count]
            asked += ["what the predicate asks for"] if predicate else []
            last = "; ".join(f"{r.method} {r.path} answered {r.status}" for r in self.requests[-3:])
            have = self.counts
            raise TimeoutError(
                f"waited {timeout:g} s for {' and '.join(asked)}; arrived: {have.requests} requests"
                f" with {have.spans} spans, {have.lines} lines, {have.samples} samples"
                + (f" (last: {last})" if last else "")
            )
        return True

    def clear(self) -> None:
        """Forget what has arrived; faults stay."""
        self._store.clear()
        self._judge.clear()

    # Misbehaving

    def behave(self, fault: Fault, *, times: int | None = None, path: str | None = None) -> Step:
        """Meet requests with ``fault`` from now on: ``times`` requests, or until told otherwise.

        ``path`` limits it to request paths that end so (``"/v1/traces"``, also for gRPC). Faults with
        ``times`` are worked off in the order given; one without is replaced by the next for the same path.
        ``Refuse`` and ``Blackhole`` are about the port: they replace whatever was there and know neither.
        ``ValueError`` for what makes no sense.
        """
        if not isinstance(fault, Refuse | Blackhole):
            self._open()
            return self._script.add(fault, times, path)
        if times is not None or path is not None:
            raise ValueError(f"{type(fault).__name__} closes the port: it takes neither times nor path")
        self._script.clear()
        step = self._script.add(fault, None, None, self._open)
        if isinstance(fault, Blackhole):
            self._server.swallow()
        else:
            self._server.shut()
        if self._grpc is not None:
            self._grpc.shut()
        return step

    def recover(self) -> None:
        """Behave again: no fault is left, what hangs is cut, the port is open."""
        self._script.clear()
        self._open()

    def _open(self) -> None:
        self._server.open()
        if self._grpc is not None:
            self._grpc.open()

    def close(self) -> None:
        """End at once, whatever hangs. A failure inside the receiver is raised here, if not before."""
        self._server.closed.set()
        self._script.clear()
        self._server.close()
        if self._grpc is not None:
            self._grpc.close()
        self._store.wake()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if error is None:
            self._raise_failure()

    def _failed(self, error: BaseException) -> None:
        self._failures.append(error)
        self._store.wake()

    def _raise_failure(self) -> None:
        if self._failures:
            raise RuntimeError("the receiver failed while it answered a request") from self._failures.pop(0)

    # Answering

    def _handle(self, exchange: Exchange) -> None:
        step = self._script.take(exchange.path)
        fault = step.fault if step else None
        if isinstance(fault, Hang) and fault.at == "body":
            self._hang(exchange, step, fault)
        if isinstance(fault, Reset) and fault.after == "head":
            exchange.reset()
        wait = pace(fault.bytes_per_second, step.ended) if step and isinstance(fault, Slow) else None
        body = exchange.read(wait) if wait else exchange.read()
        verdict = self._judge.judge(exchange.method, exchange.path, exchange.query, exchange.headers, body, fault)
        request = Request(
            method=exchange.method,
            path=exchange.path,
            query=exchange.query,
            headers=exchange.headers,
            body=body,
            size=len(body),
            time=self._clock(),
            status=-1 if isinstance(fault, Hang | Reset | Raw) else verdict.status,
        )
        # Stored before it is answered: whoever has the answer finds the records here.
        self._store.add(request, verdict.kind, verdict.count, verdict.records)
        if isinstance(fault, Hang):
            self._hang(exchange, step, fault)
        if isinstance(fault, Raw):
            exchange.write(fault.answer)
            raise Cut
        answer = exchange.answer(verdict.status, verdict.headers, b"" if exchange.method == "HEAD" else verdict.body)
        if isinstance(fault, Reset):
            if fault.after == "answer":
                exchange.write(answer[: len(answer) // 2])
            exchange.reset()
        if wait is None:
            exchange.write(answer)
            return
        for start in range(0, len(answer), 4):
            wait(4)
            exchange.write(answer[start : start + 4])

    def _hang(self, exchange: Exchange, step: Step | None, fault: Hang) -> None:
        assert step is not None
        deadline = None if fault.seconds is None else time.monotonic() + fault.seconds
        while not step.ended.wait(0.1) and not self._server.closed.is_set() and exchange.peer_is_there():
            if deadline is not None and time.monotonic() > deadline:
                break
        raise Cut
