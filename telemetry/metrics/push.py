"""Pushing samples, for processes that nobody can scrape: to VictoriaMetrics, or over OTLP.

A ``Pusher`` collects at an interval and hands the whole batch to a Shipper as one record; the ledger counts
batches, not samples. Samples carry their time of collection, so that a late or repeated delivery is exact.

A process that ends sends no staleness markers: VictoriaMetrics' import can't take them. Its last samples
stay visible for the lookback of a query (five minutes by default), and a sum over instances counts the old
process beside its successor for that long, unless the successor pushes under the same ``instance``.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
import zlib
from collections.abc import Callable, Iterable, Mapping
from queue import Empty, SimpleQueue

from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Sample

from telemetry import faults
from telemetry.delivery import Shipper, Verdict
from telemetry.metrics import textformat
from telemetry.otlp import Channel
from telemetry.transport import HttpTransport, Response, TlsFiles

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Encode = Callable[[float], bytes]
"""Collects and encodes; takes the time of collection (Unix seconds). Empty when there is nothing to push."""


def push_text(families: Iterable[Metric], labels: Mapping[str, str], at: float) -> bytes:
    """``families`` as Prometheus text with times in milliseconds.

    ``labels`` (job, instance and what is configured) go onto each sample that has none of that name;
    ``at`` (Unix seconds) is the time of each sample that brings none. A family that can't be written is
    counted as a fault and left out.
    """
    parts = []
    for family in families:
        # Not by Metric's constructor, which would append the unit to a name that lacks it.
        stamped = Metric(family.name, family.documentation, family.type)
        stamped.samples = [_stamped(sample, labels, at) for sample in family.samples]
        try:
            parts.append(textformat.text_family(stamped))
        except Exception as error:
            faults.report("metrics.push", f"family {family.name!r} can't be written: {type(error).__name__}: {error}")
    return b"".join(parts)


def _stamped(sample: Sample, labels: Mapping[str, str], at: float) -> Sample:
    timestamp = at if sample.timestamp is None else sample.timestamp
    return Sample(sample.name, {**labels, **sample.labels}, sample.value, timestamp)


class PushSink:
    """Sends batches to ``url``, VictoriaMetrics' ``/api/v1/import/prometheus`` or what takes the same."""

    name = "victoriametrics"
    signal = "metrics"
    max_age: float | None = None

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str] | None = None,
        *,
        timeout: float = 10.0,
        tls: TlsFiles | None = None,
    ) -> None:
        self._transport = HttpTransport(url, headers, tls=tls)
        self._timeout = timeout

    def encode(self, entries: list[bytes]) -> bytes:
        """Batches as one body: each ends with a line's end."""
        return b"".join(entries)

    def send(self, body: bytes, timeout: float) -> Verdict:
        """POST ``body``."""
        return classify(self._transport.post(body, CONTENT_TYPE, min(timeout, self._timeout)))

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()


class OtlpMetricsSink:
    """Sends export requests over OTLP."""

    name = "otlp"
    signal = "metrics"
    max_age: float | None = None

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def encode(self, entries: list[bytes]) -> bytes:
        """Requests as one: protobuf messages written one after the other are merged, lists joined."""
        return b"".join(entries)

    def send(self, body: bytes, timeout: float) -> Verdict:
        """Export ``body``. OTLP counts refused data points; a batch with any of them counts as one refused."""
        verdict = self._channel.export(body, timeout)
        if verdict.kind == "delivered" and verdict.rejected:
            return Verdict("delivered", rejected=1, message=verdict.message)
        return verdict

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()


def classify(response: Response) -> Verdict:
    """What VictoriaMetrics (or vmagent, or a proxy before it) made of an import."""
    status = response.status
    if 200 <= status < 300:
        return Verdict("delivered")
    message = f"the metrics import answered {status}: {response.excerpt}".rstrip(": ")
    if status in (408, 429) or status >= 500:
        return Verdict("retry", retry_after=response.retry_after, message=message)
    if status in (400, 413):
        return Verdict("split", message=message)
    if 300 <= status < 400:
        where = response.headers.get("location", "nowhere")
        message = f"the metrics import answered {status}, a redirect to {where}: give the final URL"
    return Verdict("rejected", message=message)


class Pusher:
    """Puts one batch to ``shipper`` every ``interval`` seconds, on a daemon thread, and whenever asked.

    ``name`` (the instance) spreads the first push over the interval, so that a fleet that starts at once does
    not push at once. ``may_push`` is asked before each push: in multiprocess mode one process pushes for all.
    A forked child has a thread of its own; its batches are encoded with the identity of the child, since
    ``encode`` is called anew each time.
    """

    def __init__(
        self,
        shipper: Shipper,
        encode: Encode,
        interval: float = 15.0,
        *,
        name: str = "",
        may_push: Callable[[], bool] = lambda: True,
    ) -> None:
        self._shipper = shipper
        self._encode = encode
        self._interval = interval
        self._phase = zlib.crc32(name.encode()) / 2**32 if name else 1.0
        self._may_push = may_push
        self._wanted = False
        self._start_afresh()
        _pushers.add(self)

    def _start_afresh(self) -> None:
        self._asked: SimpleQueue[SimpleQueue[None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._pushing = threading.RLock()
        self._gate = threading.RLock()  # held for moments only, so that stop() waits for no collector
        self._stopped = False

    def start(self) -> None:
        """Begin to push; the first batch comes within one interval."""
        self._wanted, self._stopped = True, False
        thread = threading.Thread(target=self._run, args=(self._asked,), name="fleetglass-push", daemon=True)
        try:
            thread.start()
            self._thread = thread
        except RuntimeError as error:  # interpreter shutdown, or no threads to be had: flush and shutdown still push
            faults.report("metrics.push", error)

    def push(self) -> bool:
        """Collect now and queue the batch; False when it was dropped, or there was nothing to collect from."""
        try:
            if not self._may_push():
                return False
            with self._pushing:
                at = time.time()
                body = self._encode(at)
                with self._gate:  # a batch that comes after the end is none, and none that was lost
                    return not self._stopped and bool(body) and self._shipper.put(body, len(body), at)
        except Exception as error:  # a hung collector, or a part of ours at fault: no record has come to be
            faults.report("metrics.push", error)
            return False

    def push_within(self, seconds: float) -> None:
        """Have the thread push now, and wait ``seconds`` for it at most: a collector that hangs must hold up nobody.

        Without a thread the caller pushes. (One made for this alone could not be started by ``atexit``:
        Python 3.12 refuses.)
        """
        if self._thread is None or not self._thread.is_alive():
            self.push()
            return
        done: SimpleQueue[None] = SimpleQueue()
        self._asked.put(done)
        with contextlib.suppress(Empty):
            done.get(timeout=max(0.0, seconds))

    def stop(self) -> None:
        """End the thread, without waiting for it. The last ``push`` is the caller's, before the Shipper closes."""
        with self._gate:
            self._wanted, self._stopped = False, True
        self._asked.put(None)

    def after_fork_in_child(self) -> None:
        """Push for the child as for the parent."""
        self._start_afresh()
        if self._wanted:
            self.start()

    def _run(self, asked: SimpleQueue[SimpleQueue[None] | None]) -> None:
        due = time.monotonic() + self._interval * self._phase
        while True:
            try:
                done = asked.get(timeout=max(0.0, due - time.monotonic()))
            except Empty:
                self.push()
                due += self._interval
                late = time.monotonic() - due
                if late > 0:  # a suspended machine, or collectors slower than the interval: skip, don't catch up
                    due += (late // self._interval + 1) * self._interval
                continue
            if done is None:
                return
            self.push()
            done.put(None)


_pushers: weakref.WeakSet[Pusher] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for pusher in list(_pushers):
        pusher.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
