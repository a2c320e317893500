"""arq for tests: its worker and who enqueues, each in a process that has arq and the Redis client that arq takes."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.backends import overlay

APPS = Path(__file__).with_name("apps")
QUIET = {"FLEETGLASS_METRICS_LISTEN": "off", "FLEETGLASS_STDOUT": "off"}


class Arq:
    """arq on the Redis at ``url``; what its processes tell goes to the address in ``environ``."""

    def __init__(self, url: str, folder: Path, environ: Mapping[str, str]) -> None:
        if overlay.path("arq") is None:
            pytest.skip(overlay.missing("arq"))
        environment = overlay.environ("arq")
        path = f"{environment['PYTHONPATH']}:{APPS}"
        self.environ = {**environment, "PYTHONPATH": path, "REDIS": url, **QUIET, **environ}
        """The environment of its processes."""
        self._folder = folder

    def enqueue(self, how: str, *jobs: str) -> list[str]:
        """Enqueue jobs, each a function and its arguments; their ids."""
        command = [sys.executable, str(APPS / "arq_enqueue.py"), how, ",".join(jobs)]
        done = subprocess.run(
            command, env=self.environ, cwd=self._folder, capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    @contextmanager
    def worker(self, settings: str = "WorkerSettings", **environ: str) -> Iterator[subprocess.Popen[bytes]]:
        """arq's own command in a process; killed when the block is left, if it is still there."""
        with (self._folder / "arq.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "arq", f"arq_jobs.{settings}"],
                cwd=self._folder,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**self.environ, **environ},
            )
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait(30)

    @property
    def said(self) -> str:
        """What the workers wrote so far."""
        return (self._folder / "arq.log").read_text("utf-8", "replace")
