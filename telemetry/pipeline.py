"""``setup()`` wires the three signals of this process; ``Telemetry`` is what it returns.

Everything that opens a connection or starts a thread does so with the first record, in whichever process
that record is made: a fork needs no second ``setup()``.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import msgspec

from telemetry import config as settings
from telemetry import faults, ledger, sigterm
from telemetry.config import Config
from telemetry.delivery import MOMENT, Limits, Lineage, Shipper, Sink, SinkHealth
from telemetry.identity import Identity, detect
from telemetry.ledger import RowSnapshot
from telemetry.scrub import Scrubber
from telemetry.version import VERSION

if TYPE_CHECKING:
    import logging

    from opentelemetry.sdk.trace.id_generator import IdGenerator

    from telemetry.metrics.push import Pusher
    from telemetry.metrics.server import MetricsServer

_active: Telemetry | None = None
_lock = threading.RLock()
_closed_rows: list[ledger.Row] = []


class Health(msgspec.Struct, frozen=True):
    """How telemetry itself fares: the ledger's rows, each sink, and internal faults by part.

    ``ok`` is False when records were lost, a sink's last call failed, or a fault of ours was counted.
    """

    service: str
    instance: str
    role: str
    ok: bool
    rows: tuple[RowSnapshot, ...]
    sinks: tuple[SinkHealth, ...]
    faults: dict[str, int]


class Telemetry:
    """The telemetry of this process. Made by ``setup()``; a context manager that shuts down at its end.

    Attributes:
        config: The settings in effect.
        sources: Where each setting came from: ``argument``, ``environment NAME`` or ``default``.
        identity: Who is speaking; anew in a forked child.
        ledger: The account of every record.
        shippers: One for each network sink.
    """

    def __init__(self, loaded: settings.Loaded) -> None:
        self.config: Config = loaded.config
        self.sources: Mapping[str, str] = loaded.sources
        self.scrubber = Scrubber(self.config.scrub_keys)
        self.identity: Identity = detect(self.config, sdk_version=_sdk_version())
        self.ledger = ledger.PROCESS
        self.shippers: list[Shipper] = []
        self.draining = False
        self.pusher: Pusher | None = None
        self.server: MetricsServer | None = None
        self._ids: IdGenerator | None = None
        self._processors: list[Any] = []
        self._lineage = Lineage()
        self._shutting = threading.RLock()
        self._closed = False
        self._clean = True
        self._said_losses = False

    # -- wiring ------------------------------------------------------------------------------------

    def _start(self) -> None:
        faults.set_strict(self.config.strict)
        self._start_traces()
        self._start_logs()
        self._start_metrics()
        if self.config.instrument:
            from telemetry.traces.instrument import instrument

            instrument(self.config.instrument)
        if self.config.sigterm:
            sigterm.install(self.shutdown, self._hurry, self._inside_a_lock)

    def ship(self, sink: Sink) -> Shipper:
        """A Shipper for ``sink`` with the configured bounds and a row in the ledger."""
        c = self.config
        limits = Limits(
            queue_bytes=c.queue_bytes, queue_records=c.queue_records, batch_bytes=c.batch_bytes, linger=c.linger
        )
        shipper = Shipper(sink, self.ledger.open(sink.signal, sink.name), limits)
        self.shippers.append(shipper)
        return shipper

    def _start_traces(self) -> None:
        from telemetry.traces import propagation, provider

        propagation.use(self.config.propagators)
        provider.install()
        if self.config.disabled:
            return
        target = self.config.otlp("traces")
        if target is not None:
            from telemetry.traces.export import ShippingProcessor, SpanSink

            self._processors.append(ShippingProcessor(self.ship(SpanSink(target, self.scrubber))))
        self._use_engine()

    def _use_engine(self) -> None:
        from telemetry.traces import provider
        from telemetry.traces.export import engine
        from telemetry.traces.sampling import sampler

        chosen = sampler(self.config.sampler, self.config.sampler_arg)
        provider.PROVIDER.use(engine(self.identity.attributes, chosen, self._processors, self._ids))

    def _start_logs(self) -> None:
        from telemetry.logs import formatters, install, uncaught
        from telemetry.logs.handlers import SinkHandler, StdoutHandler

        c = self.config
        kind = formatters.JsonFormatter if c.log_format == "json" else formatters.LogfmtFormatter
        lines: formatters.LineFormatter = kind(self.scrubber)
        handlers: list[logging.Handler] = []
        loki, otlp = c.loki(), c.otlp("logs")
        if loki is not None:
            from telemetry.logs.loki import LokiHandler, LokiSink

            sink = LokiSink(loki.url, loki.headers)
            labels = self.identity.loki_labels(c.loki_labels)
            handlers.append(LokiHandler(loki.url, labels, shipper=self.ship(sink), formatter=lines))
        elif otlp is not None:
            from telemetry.logs.otlp import Encoder, OtlpLogSink

            shipper = self.ship(OtlpLogSink(otlp, lambda: self.identity.attributes, VERSION))
            handlers.append(SinkHandler(shipper, Encoder(attributes=c.otlp_log_body == "attributes"), lines))
        terminal = sys.stdout is not None and sys.stdout.isatty()
        stdout: logging.Handler | None = None
        if c.stdout == "on" or (c.stdout == "auto" and (not handlers or terminal)):
            if handlers and not terminal:
                faults.say(
                    "FLEETGLASS_STDOUT=on beside a network log sink: where a collector reads stdout, "
                    "each log is stored twice"
                )
            text = formatters.ConsoleFormatter(terminal, self.scrubber) if c.log_format == "console" else lines
            stdout = StdoutHandler(text)
            handlers.append(stdout)
        install.install(handlers, stdout, c.log_level, c.log_levels)
        uncaught.install(quiet=stdout is not None)

    def _start_metrics(self) -> None:
        from telemetry.metrics import multiprocess

        multiprocess.prepare(self.config.multiproc_dir)  # before anything imports prometheus-client
        from telemetry.metrics import registry

        registry.set_label_limit(self.config.metrics_label_values)
        if self.config.metrics_exporter == "none":
            return
        from telemetry.metrics import bridge

        bridge.install()
        if self.config.multiproc_dir and multiprocess.active():
            multiprocess.start(self.config.multiproc_dir)
        listen = self.config.metrics_listen
        by_name = self.sources.get("metrics_listen", "default") != "default"
        if listen != "off" and (by_name or self.config.role in ("worker", "agent")):
            from telemetry.metrics import server

            self.server = server.start(listen, self.metrics)
        self._start_push()

    def _start_push(self) -> None:
        push, otlp = self.config.metrics_push(), self.config.otlp("metrics")
        if push is None and otlp is None:
            return
        from telemetry.metrics import exposition, multiprocess
        from telemetry.metrics.push import OtlpMetricsSink, Pusher, PushSink, push_text

        if otlp is not None:
            from telemetry.metrics.otlp import encode
            from telemetry.otlp import channel, resource_message

            started = time.time()
            shipper = self.ship(OtlpMetricsSink(channel("metrics", otlp)))

            def body(at: float) -> bytes:
                instance = multiprocess.instance(self.identity.instance)
                resource = resource_message({**self.identity.attributes, "service.instance.id": instance})
                return encode(exposition.collect(self.identity), resource, start=started, at=at)

        else:
            assert push is not None
            shipper = self.ship(PushSink(push.url, push.headers))

            def body(at: float) -> bytes:
                labels = {"job": self.identity.job, "instance": multiprocess.instance(self.identity.instance)}
                return push_text(exposition.collect(self.identity), labels, at)

        self.pusher = Pusher(
            shipper,
            body,
            self.config.metrics_push_interval,
            name=self.identity.instance,
            may_push=multiprocess.may_push,
        )
        self.pusher.start()

    def _before_fork(self) -> None:
        """In the process that forks."""
        if self.shippers and not self._closed:
            self._lineage.before_fork()

    def after_fork(self) -> None:
        """In a forked child: an identity of its own; queues and figures have begun at zero already."""
        self._shutting = threading.RLock()
        self._lineage.after_fork_in_child()
        self.identity = detect(self.config, sdk_version=_sdk_version())
        if not self._closed:
            if not self.config.disabled:
                self._use_engine()
            _finish_with_multiprocessing(self)

    # -- the host's side ---------------------------------------------------------------------------

    def flush(self, timeout: float | None = None) -> bool:
        """Deliver everything emitted before the call, in ``timeout`` seconds at most (default: the shutdown timeout).

        True only if all of it was delivered. A loss is told by the first flush after it, and kept by ``health()``.
        """
        deadline = time.monotonic() + (self.config.shutdown_timeout if timeout is None else timeout)
        self._push_until(deadline)
        return self._flush_until(deadline)

    def drain(self, timeout: float | None = None) -> bool:
        """The service has ended and its process will: deliver everything in ``timeout`` seconds at most.

        For the end of an ASGI lifespan, after which a server may run ``shutdown()`` (uvicorn) or nothing at all
        (granian). What a sink could not deliver is given up here, counted and said on stderr, so that the
        end of the process takes no second deadline; sinks that delivered stay open for the server's last lines.
        """
        deadline = time.monotonic() + (self.config.shutdown_timeout if timeout is None else timeout)
        self._push_until(deadline)
        if self._flush_until(deadline):
            return True
        stuck = [sink for sink, shipper in enumerate(self.shippers) if shipper.row.pending]
        self._close(stuck, deadline, whole=self._whole(timeout))
        self._say_losses()
        return False

    def _whole(self, timeout: float | None) -> bool:
        return timeout is None or timeout >= self.config.shutdown_timeout

    def _close(self, sinks: Sequence[int], deadline: float, *, whole: bool) -> bool:
        """Close these of the shippers by ``deadline``, ``whole`` if that is no less than the shutdown timeout.

        A sink that a forked child has just waited for in vain gets a moment only; a child leaves word of such.
        """
        now, patience = time.monotonic(), self.config.shutdown_timeout
        cut = [self._lineage.child_waited_in_vain(sink, within=patience) for sink in sinks]
        until = [min(deadline, now + MOMENT) if each else deadline for each in cut]
        shippers = [self.shippers[sink] for sink in sinks]
        lost = [shipper.row.dropped["deadline"] for shipper in shippers]
        for shipper, end in zip(shippers, until, strict=True):
            shipper.begin_close(end)
        clean = all([shipper.close(end) for shipper, end in zip(shippers, until, strict=True)])
        for sink, shipper, before, short in zip(sinks, shippers, lost, cut, strict=True):
            silent = time.time() - (shipper.last_delivery or 0.0) >= patience
            if (whole or short) and silent and shipper.row.dropped["deadline"] > before:
                self._lineage.waited_in_vain(sink)
        return clean

    def _say_losses(self) -> None:
        """Once, at the end: nobody reads the ledger of a process that is gone."""
        if self._said_losses:
            return
        self._said_losses = True
        for row in self.ledger.snapshot():
            if row.lost:
                reasons = ", ".join(f"{reason} {count}" for reason, count in row.dropped.items())
                faults.say(f"{row.signal} to {row.sink}: {row.lost} of {row.emitted} records lost ({reasons})")

    def _hurry(self) -> None:
        for shipper in self.shippers:
            shipper.hurry()

    def _flush_until(self, deadline: float) -> bool:
        self._hurry()
        return all([shipper.flush(deadline) for shipper in self.shippers])

    def _push_until(self, deadline: float) -> None:
        """One last batch of metrics; a collector that hangs costs no more than the deadline, and no other sink."""
        self._hurry()
        if self.pusher is not None:
            self.pusher.push_within(deadline - time.monotonic())

    def shutdown(self, timeout: float | None = None) -> bool:
        """Deliver what is queued and end: one deadline of ``timeout`` seconds (default 3) for all sinks together.

        True only if everything was delivered. What the deadline cuts off is in the ledger as dropped. Stdlib
        logging is left as ``setup()`` found it, and a new ``setup()`` works. A second call returns at once.
        """
        deadline = time.monotonic() + (self.config.shutdown_timeout if timeout is None else timeout)
        if not self._shutting.acquire(timeout=max(0.0, deadline - time.monotonic())):
            return False
        try:
            if self._closed:
                return self._clean
            self.draining = True
            self._push_until(deadline)
            if self.pusher is not None:
                self.pusher.stop()
            self._clean = self._close(range(len(self.shippers)), deadline, whole=self._whole(timeout))
            self._closed = True
            self._say_losses()
            self._take_down()
        finally:
            self._shutting.release()
        return self._clean

    def _take_down(self) -> None:
        global _active
        from telemetry.logs import install, uncaught
        from telemetry.metrics import multiprocess
        from telemetry.traces import provider

        multiprocess.sync()
        with _lock:
            if _active is not self:
                return
            _active = None
            _closed_rows[:] = [shipper.row for shipper in self.shippers]
        install.uninstall()
        uncaught.uninstall()
        provider.PROVIDER.use(None)
        if self.server is not None:
            self.server.stop(0.2)
        if self.config.instrument:
            from telemetry.traces.instrument import uninstrument

            uninstrument()
        sigterm.uninstall()
        atexit.unregister(self.shutdown)

    def health(self) -> Health:
        """How telemetry itself fares, now."""
        own = {id(shipper.row): shipper.row for shipper in self.shippers}
        rows = tuple(row.snapshot() for row in [*own.values(), *(r for r in self.ledger.rows() if id(r) not in own)])
        sinks = tuple(shipper.health() for shipper in self.shippers)
        counted = faults.counts()
        ok = not counted and not any(row.lost for row in rows) and not any(sink.last_error for sink in sinks)
        return Health(self.identity.service, self.identity.instance, self.identity.role, ok, rows, sinks, counted)

    def metrics(self, accept: str | None = None) -> tuple[bytes, str]:
        """The exposition for an ``Accept`` header: body and content type. Blocks: call it off an event loop."""
        from telemetry.metrics import exposition

        return exposition.render(accept, identity=self.identity)

    def _inside_a_lock(self) -> bool:
        # What threading.Condition asks of an RLock: does the calling thread hold it?
        return any(shipper.row.lock._is_owned() for shipper in self.shippers)  # type: ignore[attr-defined]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()


def setup(service: str | None = None, *, role: str | None = None, **arguments: Any) -> Telemetry:
    """Wire traces, logs and metrics of this process; call it once, before threads and servers start.

    Arguments are the fields of ``Config`` by name; each has an environment variable too, and an argument
    wins (docs/reference/settings.md). With nothing configured, lines go to stdout, ``/metrics`` can be
    scraped, trace ids are made and passed on, and nothing is exported.

    A second call returns the first ``Telemetry``, with a warning where it asks for other settings. After
    ``shutdown()`` a new call begins anew.

    Raises:
        ConfigError: some settings can't be used; it names all of them.
    """
    global _active
    given = {"service": service, "role": role, **arguments}
    loaded = settings.load({name: value for name, value in given.items() if value is not None})
    with _lock:
        if _active is not None:
            if loaded.config != _active.config:
                warnings.warn(
                    f"telemetry.setup() was called before as service {_active.config.service!r}; the first call holds",
                    stacklevel=2,
                )
            return _active
        ledger.PROCESS.close_all(_closed_rows)
        telemetry = Telemetry(loaded)
        for sentence in loaded.warnings():
            faults.say(sentence)
        _active = telemetry
        try:
            telemetry._start()
        except BaseException:
            telemetry.shutdown(0)
            raise
        atexit.register(telemetry.shutdown)
        _forked.add(telemetry)
        process = sys.modules.get("multiprocessing.process")
        if process is not None and process.parent_process() is not None:
            _finalize(telemetry)  # set up inside such a child: a server's worker process
        return telemetry


def active() -> Telemetry | None:
    """The ``Telemetry`` of this process between ``setup()`` and ``shutdown()``, else None."""
    return _active


def _sdk_version() -> str:
    from opentelemetry.sdk.version import __version__

    return __version__


def _finish_with_multiprocessing(telemetry: Telemetry) -> None:
    """Flush at the end of a multiprocessing child, which leaves by ``os._exit`` and runs no atexit hook."""
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        # The child clears its finalizers and then runs these: only what they register stays.
        util.register_after_fork(telemetry, _finalize)


def _finalize(telemetry: Telemetry) -> None:
    from multiprocessing.util import Finalize

    Finalize(None, telemetry.shutdown, exitpriority=-100)


_forked: weakref.WeakSet[Telemetry] = weakref.WeakSet()


def _before_fork() -> None:
    for telemetry in list(_forked):
        telemetry._before_fork()


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.RLock()
    for telemetry in list(_forked):
        telemetry.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork_in_child)
