"""What the page shows, read from the receiver that stands in for Loki, Tempo and VictoriaMetrics.

Everything on the page has made the whole way: through the library's queues, over HTTP, into a receiver that
decoded it. Only the ledger is read from the library itself, since it is the account of that way.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any
from urllib.parse import urlsplit

import msgspec

from examples.demo.figures import Figures
from telemetry import Telemetry
from telemetry.testing import LogLine, Receiver, Span

_TICK_SECONDS = 0.15
_SHOWN_LINES = 400
# Of each kind: jobs come by themselves, and must not push out what somebody has just done.
_SHOWN_TRACES = 20
_SHOWN_SPANS = 30
_LEVEL = re.compile(r"\blevel=(\w+)")
_LOGGER = re.compile(r"\blogger=(\S+)")
_JOB = re.compile(r"\bjob_id=")
_FRONTEND = re.compile(r'logger=frontend frontend-error .*? kind="(\w+)"')


class Feed:
    """Lines, traces and counters as the page wants them; each page that is open follows on its own."""

    def __init__(self, receiver: Receiver, running: Telemetry, service: str) -> None:
        self._receiver = receiver
        self._running = running
        self._figures = Figures(service)
        self._seen_samples = 0
        self._figured: dict[str, Any] = self._figures.shown()

    async def events(self, stopping: Callable[[], bool]) -> AsyncIterator[tuple[str, Any]]:
        """``(name, value)``: first ``snapshot`` and ``counters``, then what is new, until ``stopping()``."""
        lines, seen_lines = self._news("lines", 0)
        spans, seen_spans = self._news("spans", 0)
        yield "snapshot", {"lines": lines_of(lines[-_SHOWN_LINES:]), "traces": self._traces(spans)}
        counters: Any = None
        while True:
            latest = self.counters()
            if latest != counters:
                counters = latest
                yield "counters", counters
            lines, seen_lines = self._news("lines", seen_lines)
            if lines:
                yield "lines", lines_of(lines)
            spans, seen_spans = self._news("spans", seen_spans)
            if spans:
                yield "traces", self._traces(spans)
            if stopping():
                return
            await asyncio.sleep(_TICK_SECONDS)

    def _news(self, kind: str, seen: int) -> tuple[list[Any], int]:
        """The records of one kind that arrived since ``seen`` had, and how many have arrived by now."""
        while True:
            total: int = getattr(self._receiver.counts, kind)
            if total <= seen:
                return [], seen
            records: list[Any] = getattr(self._receiver, kind)
            if getattr(self._receiver.counts, kind) == total:  # nothing came in between: the list ends at total
                return records[-(total - seen) :], total

    def _traces(self, news: Iterable[Span]) -> list[dict[str, Any]]:
        """The whole traces that ``news`` belongs to, oldest first."""
        wanted = {span.trace_id for span in news}
        traces = [trace_of(spans) for trace_id, spans in self._receiver.traces().items() if trace_id in wanted]
        traces.sort(key=lambda trace: trace["spans"][0]["start_ms"])
        kept = {
            trace["trace_id"]
            for kind in ("request", "job")
            for trace in [trace for trace in traces if trace["kind"] == kind][-_SHOWN_TRACES:]
        }
        return [trace for trace in traces if trace["trace_id"] in kept]

    def counters(self) -> dict[str, Any]:
        """Counters and gauges as they were pushed, and the ledger as it stands."""
        samples, self._seen_samples = self._news("samples", self._seen_samples)
        if samples:
            self._figures.take(samples)
            self._figured = self._figures.shown()
        return {**self._figured, "ledger": [_ledger_row(row) for row in self._running.health().rows]}


def lines_of(lines: Iterable[LogLine]) -> list[dict[str, Any]]:
    """Lines with what the page needs to colour, filter and link them."""
    return [line_of(line) for line in lines]


def line_of(line: LogLine) -> dict[str, Any]:
    """One line; ``kind`` is ``frontend``, ``access``, ``job`` or ``app``."""
    level, logger = _LEVEL.search(line.line), _LOGGER.search(line.line)
    name = logger[1] if logger else ""
    frontend = _FRONTEND.search(line.line)
    return {
        "line": line.line,
        "kind": "frontend"
        if frontend
        else "access"
        if name == "access"
        else "job"
        if _JOB.search(line.line)
        else "app",
        "frontend_kind": frontend[1] if frontend else None,
        "level": level[1] if level else "",
        "trace_id": line.trace_id or line.attributes.get("trace_id", ""),
    }


def trace_of(spans: list[Span]) -> dict[str, Any]:
    """One trace, each span after its parent with its depth; a span whose parent is missing counts as a root.

    Of a long one the first spans are shown, ``count`` says how many there are. It is a ``job`` if one was enqueued.
    """
    ids = {span.span_id for span in spans}
    children: dict[str, list[Span]] = {}
    for span in spans:
        children.setdefault(span.parent_id if span.parent_id in ids else "", []).append(span)
    shown: list[dict[str, Any]] = []
    waiting = [(span, 0) for span in reversed(children.get("", []))]
    while waiting:
        span, depth = waiting.pop()
        shown.append(_bar(span, depth))
        waiting.extend((child, depth + 1) for child in reversed(children.get(span.span_id, [])))
    return {
        "trace_id": spans[0].trace_id,
        "kind": "job" if any(span.kind in {"producer", "consumer"} for span in spans) else "request",
        "count": len(shown),
        "failed": any(span["status"] == "error" for span in shown),
        "spans": shown[:_SHOWN_SPANS],
    }


def _bar(span: Span, depth: int) -> dict[str, Any]:
    return {
        "name": _name(span),
        "service": str(span.resource.get("service.name", "")),
        "kind": span.kind,
        "depth": depth,
        "start_ms": span.start_ns / 1e6,
        "duration_ms": span.duration_ms,
        "status": span.status,
        "status_message": span.status_message,
        "http_status": span.attributes.get("http.response.status_code"),
    }


def _name(span: Span) -> str:
    """The span's name; a client's, which is only the method, with the path that it calls."""
    url = str(span.attributes.get("url.full") or span.attributes.get("http.url") or "")
    return f"{span.name} {urlsplit(url).path}" if span.kind == "client" and url else span.name


def _ledger_row(row: Any) -> dict[str, Any]:
    return {
        "signal": row.signal,
        "sink": row.sink,
        "emitted": row.emitted,
        "delivered": row.delivered,
        "dropped": row.lost,
        "pending": row.pending,
    }


def server_sent(name: str, value: Any) -> bytes:
    """One server-sent event; JSON holds no raw line end, so that one ``data`` line is enough."""
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(value) + b"\n\n"
