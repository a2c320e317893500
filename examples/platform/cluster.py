"""The part of Kubernetes: it keeps as many processes running as there are to be, and replaces those that end.

A pod here is a process with a name that stays, as in a StatefulSet: its successor comes once it has gone, at once
after a drain, after a back-off where it died.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import psycopg

from examples.platform.pods import Pod
from examples.platform.scaling import Group, Scaler, groups
from examples.platform.times import ARRIVES, BACK_OFF

TICK: Final = 0.2
LOOK: Final = 1.0
"""Seconds between two looks at the registry and the backlog."""

log = logging.getLogger("cluster")


class Cluster:
    """Runs the platform's processes from ``start()`` to ``stop()``; ``environ`` is theirs beside our own.

    ``api_socket`` is handed down to the API server. What processes print is in ``folder``. ``mend`` is called while
    the database is away.
    """

    def __init__(
        self, url: str, folder: Path, environ: Mapping[str, str], api_socket: int, *, mend: Callable[[], object]
    ) -> None:
        self._url, self._folder, self._socket, self._mend = url, folder, api_socket, mend
        self._environ = {**environ, "DATABASE_URL": url}
        self._lock = threading.RLock()
        self._pods: dict[str, Pod] = {}
        self._wanted: set[str] = set()
        self._scaler = Scaler()
        self._connection: psycopg.Connection[Any] | None = None
        self._looked = 0.0
        self._begun = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cluster", daemon=True)

    def start(self) -> None:
        """Start the processes, and keep them running."""
        self._want("platform-api", ["examples.platform.api"], {"API_SOCKET": str(self._socket)})
        self._want("platform-scheduler", ["examples.platform.scheduler"], {})
        self._thread.start()

    def stop(self, grace: float = 0.7) -> None:
        """End them all: ``grace`` seconds to drain, then SIGKILL."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()
        running = [pod.process for pod in self._pods.values() if pod.process is not None]
        for process in running:
            process.terminate()
        deadline = time.monotonic() + grace
        for process in running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
            process.kill()
            process.wait()
            assert process.stdin is not None, "it was a pipe"
            process.stdin.close()
        if self._connection is not None:
            self._connection.close()

    def pods(self) -> dict[str, int]:
        """Running pods and their process ids."""
        with self._lock:
            return {pod.name: pod.process.pid for pod in self._pods.values() if pod.process is not None}

    def end(self, name: str, *, drain: bool) -> bool:
        """SIGTERM or SIGKILL to a pod, as ``kubectl delete pod`` with or without grace; False: there is none such."""
        with self._lock:
            pod = self._pods.get(name)
            if pod is None or not pod.runs:
                return False
            log.warning("%s %s", "draining" if drain else "killing", name, extra={"pod": name})
            pod.signal(signal.SIGTERM if drain else signal.SIGKILL)
            return True

    def _run(self) -> None:
        while not self._stop.wait(TICK):
            now = time.monotonic()
            with self._lock:
                if now - self._looked >= LOOK:
                    self._looked = now
                    self._look(now)
                for pod in self._pods.values():
                    self._reconcile(pod, now)

    def _look(self, now: float) -> None:
        """What there is to be; while the database is away, what there was to be."""
        try:
            if self._connection is None or self._connection.closed:
                self._connection = psycopg.connect(self._url, autocommit=True, connect_timeout=2)
            found = groups(self._connection)
        except psycopg.Error as error:
            log.warning("the registry can't be read: %s", str(error).strip())
            if self._connection is not None:
                self._connection.close()
            self._mend()
            return
        arrives = now + ARRIVES if self._begun else now
        names = {"platform-api", "platform-scheduler"}
        for group in found.values():
            for number in range(self._scaler.replicas(group, now)):
                name = f"{group.name}-{number}"
                names.add(name)
                self._want(name, ["examples.platform.worker"], self._of(group), group.grace + 10, arrives)
        self._wanted = names
        self._begun = True

    def _of(self, group: Group) -> dict[str, str]:
        return {
            "WORKER_GROUP": group.name,
            "WORKER_TAGS": ",".join(group.tags),
            "WORKER_GRACE": str(group.grace),
            "NODE_NAME": "this-machine",
        }

    def _want(
        self, name: str, command: list[str], environ: Mapping[str, str], grace: float = 2.0, arrives: float = 0.0
    ) -> None:
        if name not in self._wanted:
            pod = self._pods.setdefault(name, Pod(name, command, {**self._environ, **environ}, grace))
            pod.again_at = max(pod.again_at, arrives)
        self._wanted.add(name)

    def _reconcile(self, pod: Pod, now: float) -> None:
        asked = pod.kill_at is not None
        code = pod.ended()
        if code is not None and not asked:
            pod.again_at = now + BACK_OFF
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            log.error("%s died (%s); again in %g s", pod.name, how, BACK_OFF, extra={"pod": pod.name})
        wanted = pod.name in self._wanted
        if not pod.runs and wanted and now >= pod.again_at:
            log.info("starting %s", pod.name, extra={"pod": pod.name})
            pod.start(self._folder, (self._socket,) if pod.name == "platform-api" else ())
        elif pod.runs and not wanted and pod.kill_at is None:
            log.info("scaling down: draining %s", pod.name, extra={"pod": pod.name})
            pod.signal(signal.SIGTERM)
        elif pod.kill_at is not None and now > pod.kill_at:
            pod.signal(signal.SIGKILL)
