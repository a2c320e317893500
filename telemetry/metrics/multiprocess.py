"""Multiprocess mode: prometheus-client's value files of several workers as one exposition.

On with ``PROMETHEUS_MULTIPROC_DIR``, which prometheus-client reads when it is imported. What is added to its
own collector, for workers that are killed and respawned:

- Live gauges of a dead process disappear at the next scrape. A process is alive when its pid is, with the
  start time (``/proc/<pid>/stat``, field 22) that it left in ``<pid>.owner``, or has the file open itself:
  a pid that is in use again does not pass for the dead one.
- A new process with an old pid starts with gauges and counters of its own.
- Files of dead processes are folded into one for each kind, under a lock, so that the directory does not grow
  with every respawn; no total goes down by it, also when the folding process is killed halfway.
- A file that is cut or damaged is read as far as it is whole, and counted as an internal fault.

Exemplars, Info, Enum, custom collectors and OpenTelemetry instruments do not work in this mode, as in
prometheus-client. All processes must see each other's pids: one container, one directory. A directory kept
over a restart of the container is fine.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from telemetry import faults, ledger

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from telemetry.metrics.valuedirectory import Directory

VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
SYNC_SECONDS = 1.0
FOLD_SECONDS = 60.0


def prepare(directory: str | None) -> bool:
    """Turn the mode on for this process; True when it is on. To be called before prometheus-client is imported.

    ``directory`` is made where it is missing. What stands in the way is said in one sentence.
    """
    if not directory:
        return active()
    try:
        Path(directory).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        faults.say(f"no multiprocess metrics: {directory} can't be made: {error.strerror}")
        return False
    if "prometheus_client" in sys.modules and not active():
        faults.say(
            f"no multiprocess metrics: {VARIABLE} has to be set before prometheus_client is imported; "
            "set it in the environment of the process"
        )
        return False
    os.environ[VARIABLE] = directory
    return True


def active() -> bool:
    """Whether values of this process go to files: decided when prometheus-client is imported."""
    values = sys.modules.get("prometheus_client.values")
    if values is None:
        return bool(os.environ.get(VARIABLE))
    return bool(values.ValueClass._multiprocess)


class Workers:
    """This process among the others: it claims its pid, mirrors its ledger into files, and may push for all.

    The ledger and the fault counts live in memory; once a second, and before each scrape, their increase goes
    into counters of the catalogue's names. A killed process takes less than a second of it along.
    """

    def __init__(self, directory: Directory) -> None:
        self.directory = directory
        self._written: dict[tuple[str, ...], float] = {}
        self._lead: int | None = None
        self._start_afresh()

    def _start_afresh(self) -> None:
        self._syncing = threading.RLock()
        self._written.clear()

    def start(self) -> None:
        """Claim the pid, fold what the dead have left, and mirror from now on."""
        self.directory.claim()
        try:
            self.directory.fold()
        except (OSError, TimeoutError) as error:  # a scrape will do it
            faults.report("metrics.multiprocess", error)
        self._mirror()

    def _mirror(self) -> None:
        with suppress(RuntimeError):  # no threads to be had at interpreter shutdown: scrapes and shutdown still sync
            threading.Thread(target=self._run, name="fleetglass-mirror", daemon=True).start()

    def _run(self) -> None:
        fold_at = time.monotonic() + FOLD_SECONDS
        while True:
            time.sleep(SYNC_SECONDS)
            try:
                self.sync()
                if time.monotonic() >= fold_at:  # scrapes fold too, but perhaps nobody scrapes
                    fold_at += FOLD_SECONDS
                    self.directory.fold()
            except Exception as error:
                faults.report("metrics.multiprocess", error)

    def sync(self) -> None:
        """Write what the ledger and the fault counts have gained into this process's files."""
        from telemetry.metrics import registry

        with self._syncing:
            for where, count in faults.counts().items():
                self._raise("telemetry_internal_faults_total", (where,), count)
            for row in ledger.PROCESS.snapshot():
                name = (row.signal, row.sink)
                self._raise("telemetry_records_emitted_total", name, row.emitted)
                self._raise("telemetry_records_delivered_total", name, row.delivered)
                self._raise("telemetry_records_degraded_total", name, row.degraded)
                for reason in ledger.REASONS:
                    self._raise("telemetry_records_dropped_total", (*name, reason), row.dropped.get(reason, 0))
                registry.gauge("telemetry_records_pending").child(*name).set(row.pending)

    def _raise(self, name: str, labels: tuple[str, ...], count: float) -> None:
        from telemetry.metrics import registry

        before = self._written.get((name, *labels), 0)
        # A row that begins at zero again belongs to a new setup(): what it holds is all new.
        registry.counter(name).child(*labels).inc(count - before if count >= before else count)
        self._written[name, *labels] = count

    def families(self) -> list[Metric]:
        """The families of all processes, this one up to date."""
        self.sync()
        return self.directory.families()

    def leads(self) -> bool:
        """Whether this process is the one that pushes for all. When it dies, the next to ask takes over."""
        from telemetry.metrics.valuedirectory import try_lock

        if self._lead is None:
            descriptor = os.open(self.directory.path / "push.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            if not try_lock(descriptor):
                os.close(descriptor)
                return False
            self._lead = descriptor
        return True

    def shared_instance(self, instance: str) -> str:
        """The ``instance`` that whoever pushes for all goes under: that of the first to ask, ours if it is we.

        A total that went on under another instance would look like a new series at its full height.
        """
        path = self.directory.path / "push.instance"
        with suppress(FileExistsError):
            fresh = path.with_name(f"push.instance.{os.getpid()}")
            fresh.write_text(instance, encoding="utf-8")
            try:
                os.link(fresh, path)
            finally:
                fresh.unlink()
        return path.read_text(encoding="utf-8")

    def after_fork_in_child(self) -> None:
        """The child is a worker of its own, with nothing to its name."""
        if self._lead is not None:
            os.close(self._lead)
            self._lead = None
        self._start_afresh()
        self.directory.after_fork_in_child()
        self._mirror()


_workers: Workers | None = None


def start(directory: str) -> Workers | None:
    """Join the workers that share ``directory``, and have ``/metrics`` speak for all of them; once per process.

    None when the mode can't be turned on any more, which is said in one sentence.
    """
    global _workers
    if not prepare(directory):
        return None
    from telemetry.metrics import accounts
    from telemetry.metrics.exposition import DEFAULT, Source
    from telemetry.metrics.valuedirectory import Directory

    if _workers is None:
        workers = Workers(Directory(directory))
        try:
            workers.start()
        except OSError as error:
            faults.say(f"no multiprocess metrics: {directory} can't be written: {error.strerror}")
            return None
        _workers = workers
        DEFAULT.replace_sources(
            Source("the workers", _workers.families),
            Source("fleetglass", lambda: [accounts.build_family()]),
        )
    return _workers


def sync() -> None:
    """At the end of a shutdown: write what this process's ledger has gained into its files. Else nothing."""
    if _workers is not None:
        try:
            _workers.sync()
        except Exception as error:
            faults.report("metrics.multiprocess", error)


def may_push() -> bool:
    """Whether this process is to push: always, but in multiprocess mode, where one pushes for all."""
    return _workers is None or _workers.leads()


def instance(own: str) -> str:
    """The ``instance`` to push under: ``own``, but in multiprocess mode, where all use the same."""
    return own if _workers is None else _workers.shared_instance(own)


def _value_lock() -> Any:
    """The lock that all value files of this process share; None when prometheus-client is built otherwise.

    A thread that holds it at a fork would leave it held in the child for ever, so we hold it ourselves then.
    """
    values = sys.modules.get("prometheus_client.values")
    method: Any = getattr(values.ValueClass, "get", None) if values is not None else None
    cells = zip(method.__code__.co_freevars, method.__closure__ or (), strict=False) if method is not None else ()
    return next((cell.cell_contents for name, cell in cells if name == "lock"), None)


_held: list[Any] = []


def _before_fork() -> None:
    lock = _value_lock() if _workers is not None else None
    if lock is not None and lock.acquire(timeout=1.0):
        _held.append(lock)


def _release() -> None:
    while _held:
        _held.pop().release()


def _after_fork_in_child() -> None:
    _release()
    if _workers is not None:
        try:
            _workers.after_fork_in_child()
        except OSError as error:
            faults.report("metrics.multiprocess", error)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_release, after_in_child=_after_fork_in_child)
