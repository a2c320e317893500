"""The spans, lines and metrics that a block of code emits, in memory, with ids and times that never vary."""

from __future__ import annotations

import copy
import itertools
import logging
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self

import opentelemetry.sdk.trace as sdk
from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from telemetry import pipeline
from telemetry.logs.formatters import LogfmtFormatter
from telemetry.logs.line import level_name
from telemetry.logs.otlp import severity
from telemetry.scrub import Scrubber
from telemetry.testing import decode_otlp
from telemetry.testing.records import LogLine, Sample, Span
from telemetry.traces import provider
from telemetry.traces.encode import SpanEncoder
from telemetry.traces.export import engine

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from telemetry.pipeline import Telemetry

START_NS = 1_767_225_600 * 10**9
"""2026-01-01T00:00:00Z, when each capture begins."""

STEP_NS = 1_000_000

_SUMMED = ("counter", "histogram", "summary", "gaugehistogram")
_RESTLESS = ("python_", "process_", "target_info")  # change by themselves


class Captured:
    """A context manager: what is emitted inside it, by whomever in this process, is here.

    Trace ids and span ids count 1, 2, 3…; the clock starts at 2026-01-01T00:00:00Z and steps one
    millisecond each time a span starts or ends, an event is added, or a line is logged.

    It works with and without ``telemetry.setup()``, called before the block or in it; what was set up in
    the block is shut down at its end. Network sinks and stdout go on as configured: they get the same
    spans, and lines with their real times. Without ``setup()`` the root logger lets INFO through.

    Spans are those made through OpenTelemetry's API, unless a provider other than fleetglass's was set for
    the process: then only ``telemetry.span`` and ``traced`` show. Lines are what would reach the root logger.
    """

    def __init__(self) -> None:
        self.now_ns: int = START_NS - STEP_NS
        self._ticks = itertools.count(START_NS, STEP_NS)
        self._ids = _CountingIds()
        self._spans: list[sdk.ReadableSpan] = []
        self._lines: list[LogLine] = []
        self._before: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
        self._undo = ExitStack()

    # What was emitted

    @property
    def spans(self) -> list[Span]:
        """The spans that ended, in that order, as a backend gets them: without secrets, values as OTLP has them."""
        tel = pipeline.active()
        scrubber = tel.scrubber if tel is not None else Scrubber()
        encoder = SpanEncoder(scrubber)
        spans: list[Span] = []
        for span in list(self._spans):  # one by one: a request groups them by scope
            encoded = ExportTraceServiceRequest.FromString(encoder.request([span]))
            spans += (one for one in decode_otlp.records(encoded) if isinstance(one, Span))
        return spans

    def traces(self) -> dict[str, list[Span]]:
        """The spans by trace id, each trace's by start time."""
        traces: dict[str, list[Span]] = {}
        for span in self.spans:
            traces.setdefault(span.trace_id, []).append(span)
        return {trace_id: sorted(spans, key=lambda span: span.start_ns) for trace_id, spans in traces.items()}

    @property
    def lines(self) -> list[LogLine]:
        """The log lines in order, as logfmt. ``fields`` reads one, ``attributes`` has the extra fields as given."""
        return list(self._lines)

    @property
    def samples(self) -> list[Sample]:
        """Every sample that has changed: counters, histograms and summaries by how much, others as they are now.

        From the exposition, so ours and the user's. Figures of the interpreter and the process are left out.
        """
        changed = []
        for kind, name, labels, value in self._read():
            before = self._before.get((name, labels))
            by = value - (before or 0.0) if kind in _SUMMED else value
            if by if kind in _SUMMED else value != before:
                changed.append(Sample(name, dict(labels), by, self.now_ns // 1_000_000, "prometheus"))
        return changed

    def value(self, name: str, **labels: str) -> float:
        """The sum of ``samples`` called ``name`` whose labels include ``labels``; 0.0 where nothing has changed."""
        return sum(
            sample.value for sample in self.samples if sample.name == name and labels.items() <= sample.labels.items()
        )

    def clear(self) -> None:
        """Forget what was emitted so far; ids and clock go on."""
        self._spans.clear()
        self._lines.clear()
        self._before = {(name, labels): value for _, name, labels, value in self._read()}

    # Beginning and end

    def __enter__(self) -> Self:
        before = pipeline.active()
        with ExitStack() as undo:
            self._tap_traces(undo)
            self._tap_logs(undo, before)
            # Nothing can have counted before prometheus-client was there, and it is not brought in for that.
            if "prometheus_client" in sys.modules:
                self._before = {(name, labels): value for _, name, labels, value in self._read()}
            undo.callback(_shut_down, before)  # undone first: it puts the root logger back as setup() found it
            self._undo = undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace_: TracebackType | None
    ) -> None:
        self._undo.close()

    def _tick(self) -> int:
        self.now_ns = next(self._ticks)
        return self.now_ns

    def _tap_traces(self, undo: ExitStack) -> None:
        if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            provider.install()  # stays, and does nothing without an engine
        # The SDK's spans ask this one function for their times, unless they are given some.
        _replace(undo, sdk, "time_ns", self._tick)
        undo.callback(provider.PROVIDER.tap, None)
        provider.PROVIDER.tap(self._engine)

    def _engine(self, given: trace.TracerProvider | None) -> trace.TracerProvider:
        keep = _Keep(self._spans)
        if not isinstance(given, sdk.TracerProvider):
            return engine({"service.name": "captured"}, ALWAYS_ON, [keep], self._ids)
        tapped = sdk.TracerProvider(
            sampler=given.sampler,
            resource=given.resource,
            shutdown_on_exit=False,
            id_generator=self._ids,
            span_limits=given._span_limits,
        )
        tapped.add_span_processor(keep)
        tapped.add_span_processor(given._active_span_processor)
        return tapped

    def _tap_logs(self, undo: ExitStack, before: Telemetry | None) -> None:
        original = logging.Logger.callHandlers

        def call_handlers(logger: logging.Logger, record: logging.LogRecord) -> None:
            if _reaches_root(logger):
                self._lines.append(self._line(record))
            original(logger, record)

        # Here and not by a handler: handlers come and go with setup(), dictConfig() and basicConfig().
        _replace(undo, logging.Logger, "callHandlers", call_handlers)
        if before is None and logging.root.level > logging.INFO:
            undo.callback(logging.root.setLevel, logging.root.level)
            logging.root.setLevel(logging.INFO)

    def _line(self, record: logging.LogRecord) -> LogLine:
        tel = pipeline.active()
        at = self._tick()
        own = copy.copy(record)
        # Half a microsecond more, since a float of seconds is only good to a quarter of one: it must not round down
        own.created = (at + 500) / 1e9
        own.__dict__.pop("_fleetglass", None)
        event, line = LogfmtFormatter(tel.scrubber if tel is not None else None).render(own)
        labels = tel.identity.loki_labels(tel.config.loki_labels) if tel is not None else {}
        fields: Mapping[str, Any] = event.fields if event.ready is None else event.ready.fields
        return LogLine(
            line=line,
            timestamp_ns=at,
            labels=labels,
            attributes=dict(fields),
            source="captured",
            severity=level_name(record.levelname),
            severity_number=severity(record.levelno),
            trace_id=event.trace_id,
            span_id=event.span_id,
        )

    @staticmethod
    def _read() -> list[tuple[str, str, tuple[tuple[str, str], ...], float]]:
        from telemetry.metrics import exposition

        return [
            (family.type, sample.name, tuple(sorted(sample.labels.items())), float(sample.value))
            for family in exposition.collect(None)
            if not family.name.startswith(_RESTLESS)
            for sample in family.samples
            if not sample.name.endswith("_created")
        ]


class _CountingIds(IdGenerator):
    def __init__(self) -> None:
        self._traces = itertools.count(1)
        self._spans = itertools.count(1)

    def generate_trace_id(self) -> int:
        return next(self._traces)

    def generate_span_id(self) -> int:
        return next(self._spans)


class _Keep(sdk.SpanProcessor):
    def __init__(self, spans: list[sdk.ReadableSpan]) -> None:
        self._spans = spans

    def on_end(self, span: sdk.ReadableSpan) -> None:
        if span.context is not None and span.context.trace_flags.sampled:
            self._spans.append(span)


def _reaches_root(logger: logging.Logger) -> bool:
    current: logging.Logger | None = logger
    while current is not None and current.parent is not None:
        if not current.propagate:
            return False
        current = current.parent
    return True


def _replace(undo: ExitStack, owner: Any, name: str, value: Callable[..., Any]) -> None:
    undo.callback(setattr, owner, name, getattr(owner, name))
    setattr(owner, name, value)


def _shut_down(before: Telemetry | None) -> None:
    tel = pipeline.active()
    if tel is not None and tel is not before:
        tel.shutdown(1.0)
