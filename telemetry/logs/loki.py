"""Loki push on python-logging-loki: its handler, registry and contract; our encoder and Shipper.

``LokiHandler`` is a ``logging_loki.LokiHandler``: ``tags``, ``auth``, ``version``, ``extra={"tags": …}`` and
``dictConfig`` use hold. What it adds: batches, bounds, retries, record time, tenant, structured metadata,
accounting. What it changes: tags of a record go into the line, since as labels each value would open a
stream (``compat_labels=True`` brings the old labels back for those who migrate).

Rules of the push API are those of Loki 3.8 (``pkg/loghttp/push``, ``pkg/validation/limits.go``).
"""

from __future__ import annotations

import base64
import json
import logging
import re
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import logging_loki
import msgspec
from logging_loki.emitter import LokiEmitterV0, LokiEmitterV1

from telemetry import delivery, faults, ledger
from telemetry.delivery import Shipper, Verdict
from telemetry.logs.event import ReadyLine
from telemetry.logs.formatters import LineFormatter, LogfmtFormatter
from telemetry.logs.handlers import ship
from telemetry.logs.quick import Stamp, Stamped
from telemetry.text import printable
from telemetry.transport import HttpTransport, Response

PUSH_PATH = "/loki/api/v1/push"
MAX_AGE = 55 * 60.0
"""Seconds: Loki takes entries out of order back to an hour before the newest of their stream."""

_IGNORED = re.compile(rb"total ignored:\s*(\d+)\s*out of\s*(\d+)")
_json = msgspec.json.Encoder().encode


def push_url(url: str) -> str:
    """``url`` with Loki's push path where it has none."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=PUSH_PATH)) if parts.path in ("", "/") else url


def classify(response: Response, count: int) -> Verdict:
    """What Loki made of a push of ``count`` entries."""
    status = response.status
    if status == 204:
        return Verdict("delivered")
    message = f"Loki answered {status}: {response.excerpt}" if response.excerpt else f"Loki answered {status}"
    if status == 400:
        told = _IGNORED.search(response.body)
        if told:  # the others of the same request are stored
            return Verdict("delivered", rejected=min(int(told[1]), count), message=message)
        return Verdict("split", message=message)
    if status == 413:
        return Verdict("split", message=message)
    if status in (408, 429) or status >= 500:  # the push endpoint, unlike OTLP's, says 500 for passing faults
        return Verdict("retry", retry_after=response.retry_after, message=message)
    if status == 260:
        message = "Loki answered 260: ingestion is blocked for this tenant"
    elif 300 <= status < 400:
        where = response.headers.get("location", "nowhere")
        message = f"Loki answered {status}, a redirect to {where}: give the final push URL"
    return Verdict("rejected", message=message)


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One encoded entry: the stream it belongs to, as a JSON object of labels, and ``[ns, line, metadata]``."""

    stream: bytes
    value: bytes


class LokiSink:
    """Encodes and pushes entries to one URL."""

    name = "loki"
    signal = "logs"
    max_age: float | None = MAX_AGE

    def __init__(self, url: str, headers: Mapping[str, str] | None = None, timeout: float = 10.0) -> None:
        self._transport = HttpTransport(push_url(url), headers)
        self._timeout = timeout
        self._count = 0

    def encode(self, entries: list[Entry]) -> bytes:
        """The JSON body of one push, entries grouped by stream."""
        self._count = len(entries)
        streams: dict[bytes, list[bytes]] = {}
        for entry in entries:
            streams.setdefault(entry.stream, []).append(entry.value)
        parts = [b'{"stream":%b,"values":[%b]}' % (stream, b",".join(values)) for stream, values in streams.items()]
        return b'{"streams":[%b]}' % b",".join(parts)

    def send(self, body: bytes, timeout: float) -> Verdict:
        """Push ``body``."""
        response = self._transport.post(body, "application/json", min(timeout, self._timeout))
        return classify(response, self._count)

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()


class Encoder:
    """Events to entries of one stream; times are unique within a millisecond, since Loki drops equal entries."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        self.stream = _json({str(name): str(value) for name, value in labels.items()})
        self._last = 0

    def __call__(self, event: Stamped, line: str, stream: bytes | None = None) -> tuple[Entry, int]:
        """The entry, in the stream of labels ``stream`` or our own, and its cost in bytes."""
        ns = event.ns
        last = self._last
        if last - 1_000_000 < ns <= last:
            ns = last + 1
        self._last = ns
        trace_id = event.trace_id
        if trace_id:
            value = b'["%d",%b,{"trace_id":"%b"}]' % (ns, _json(line), trace_id.encode())
        else:
            value = b'["%d",%b]' % (ns, _json(line))
        return Entry(stream or self.stream, value), len(value) + delivery.ENTRY_OVERHEAD


class LokiEmitter(LokiEmitterV1):  # type: ignore[misc]  # the package has no types
    """Version "2" in python-logging-loki's registry: queues the entry instead of posting it."""

    compat_labels = False
    handler: LokiHandler

    def __call__(self, record: logging.LogRecord, line: str) -> None:
        """Queue ``line`` for ``record``."""
        self.handler.queue(record, line)

    def build_tags(self, record: logging.LogRecord) -> dict[str, Any]:
        """The labels of a record: the handler's tags, as strings; upstream's own set with ``compat_labels``."""
        tags = dict(self.tags)
        if self.compat_labels:
            try:
                tags = super().build_tags(record)
            except Exception:  # tags of a record that can't be read, or are named by no text
                tags |= {self.level_tag: printable(record.levelname).lower(), self.logger_tag: record.name}
        return {self.format_label(str(name)): str(value) for name, value in tags.items()}

    def build_payload(self, record: logging.LogRecord, line: str) -> dict[str, Any]:
        """The push of this one record, in the shape of ``logging_loki``."""
        entry = self.handler.entry_of(record, line)
        return {"streams": [{"stream": json.loads(entry.stream), "values": [json.loads(entry.value)]}]}

    def close(self) -> None:
        """Nothing to close: the connection belongs to the sender thread."""


logging_loki.LokiHandler.emitters["2"] = LokiEmitter


class LokiHandler(logging_loki.LokiHandler):  # type: ignore[misc]  # the package has no types
    """Sends records to Loki through a Shipper, in the manner of ``logging_loki.LokiHandler``.

    Args:
        url: Base URL of Loki, or its push URL.
        tags: Labels of the stream. Few and fixed; without ``service_name`` Loki guesses one.
        auth: User and password for basic authentication.
        version: Name of an emitter in ``LokiHandler.emitters``. Upstream's "0" and "1" mean ours, "2", as
            well: they post each record while the caller waits. One that somebody else registered is used.
        tenant: ``X-Scope-OrgID``, where Loki keeps tenants.
        headers: Further headers of each push.
        compat_labels: Make ``severity``, ``logger`` and each record's tags labels, as upstream does.
        shipper: The Shipper of a ``Telemetry``; without one the handler opens its own.
        formatter: What makes the line; logfmt without one.

    Raises:
        ValueError: ``version`` is not registered.
    """

    emitter: Any

    def __init__(
        self,
        url: str,
        tags: Mapping[str, Any] | None = None,
        auth: tuple[str, str] | None = None,
        version: str = "2",
        *,
        tenant: str | None = None,
        headers: Mapping[str, str] | None = None,
        compat_labels: bool = False,
        shipper: Shipper | None = None,
        formatter: LineFormatter | None = None,
    ) -> None:
        super().__init__(url, dict(tags or {}), auth, version or "2")
        if type(self.emitter) in (LokiEmitterV0, LokiEmitterV1):
            self.emitter = LokiEmitter(url, dict(tags or {}), auth)
        self.emitter.handler = self
        self.emitter.compat_labels = compat_labels
        self._compat = compat_labels
        self._usual = type(self.emitter) is LokiEmitter and not compat_labels
        self._lines = formatter or LogfmtFormatter()
        self._verbatim = self._usual and type(self._lines) is LogfmtFormatter and type(self) is LokiHandler
        self._encoder = Encoder(self.emitter.build_tags(_BLANK) if self._usual else dict(tags or {}))
        self._own = shipper is None
        self.shipper = shipper or _open(url, auth, tenant, headers)

    def handle(self, record: logging.LogRecord) -> bool:
        """Filter and emit, without the handler's lock."""
        if self.filters:
            kept: Any = self.filter(record)
            if not kept:
                return False
            record = record if kept is True else kept
        self.emit(record)
        return True

    def emit(self, record: logging.LogRecord) -> None:
        """Queue one record; records of the sending threads are left out."""
        if threading.get_ident() in delivery.SENDERS:
            return
        if self._usual and self.formatter is None:
            ship(self.shipper, self._encoder, self._lines.brief, record)
            return
        try:  # labels, text or emitter of the user's own: python-logging-loki's own way
            self.emitter(record, self._lines.format(record) if self.formatter is None else self.format(record))
        except Exception:
            self.handleError(record)

    @property
    def verbatim(self) -> bool:
        """Whether a sound ready line is sent as it is, in the handler's own stream: ``take`` may be called then."""
        return self._verbatim and self.formatter is None

    def take(self, line: ReadyLine, ns: int) -> None:
        """Queue a sound line of ``ns``, Unix nanoseconds."""
        if threading.get_ident() not in delivery.SENDERS:
            ship(self.shipper, self._encoder, _as_it_is, (Stamp(ns, line.trace_id or ""), line.line))

    def queue(self, record: logging.LogRecord, line: str | None) -> None:
        """Queue ``record`` as ``line``, or as our own line where None."""
        event, ours = self._lines.brief(record)
        entry, cost = self._entry(record, event, ours if line is None else line)
        if self.shipper.put(entry, cost, event.ns / 1e9) and event.mended:
            self.shipper.row.mended()

    def entry_of(self, record: logging.LogRecord, line: str) -> Entry:
        """The entry that ``record`` becomes as ``line``."""
        return self._entry(record, self._lines.brief(record)[0], line)[0]

    def _entry(self, record: logging.LogRecord, event: Stamped, line: str) -> tuple[Entry, int]:
        stream = _json(self.emitter.build_tags(record)) if self._compat else self._encoder.stream
        return self._encoder(event, line.encode(errors="replace").decode(), stream)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the stdlib's name
        """Count the record as lost to a fault of ours."""
        self.shipper.drop("internal")
        faults.report("logs.loki", sys.exc_info()[1] or "a record could not be emitted")

    def flush(self, timeout: float = 3.0) -> None:
        """Deliver what is queued, in ``timeout`` seconds at most; only for a handler that opened its own Shipper."""
        if self._own:
            self.shipper.flush(time.monotonic() + timeout)

    def close(self) -> None:
        """Deliver what is queued and take no more; only for a handler that opened its own Shipper."""
        if self._own:
            self.shipper.close(time.monotonic() + 3.0)
            ledger.PROCESS.close(self.shipper.row)
        logging.Handler.close(self)


_BLANK = logging.LogRecord("", 0, "", 0, "", None, None)


def _as_it_is(made: tuple[Stamp, str]) -> tuple[Stamp, str]:
    return made


def authorization(auth: tuple[str, str] | None, tenant: str | None) -> dict[str, str]:
    """Headers for basic authentication and for the tenant, where given."""
    headers: dict[str, str] = {}
    if auth is not None:
        headers["Authorization"] = "Basic " + base64.b64encode(":".join(auth).encode()).decode()
    if tenant:
        headers["X-Scope-OrgID"] = tenant
    return headers


def _open(url: str, auth: tuple[str, str] | None, tenant: str | None, headers: Mapping[str, str] | None) -> Shipper:
    sink = LokiSink(url, {**authorization(auth, tenant), **(headers or {})})
    taken = {row.sink for row in ledger.PROCESS.rows()}
    names = ("loki_handler", *(f"loki_handler_{number}" for number in range(2, len(taken) + 3)))
    return Shipper(sink, ledger.PROCESS.open("logs", next(name for name in names if name not in taken)))
