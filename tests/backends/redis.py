"""A real ``redis-server`` that tests may kill, stop for a while and start again; nothing is kept on disk."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from tests.backends.process import ServerError, free_ports

MISSING = "redis-server is missing: install Debian's redis-server, or Valkey under that name"


class Redis:
    """One server on a free port of the loopback. ``url`` stays the same over restarts."""

    def __init__(self, folder: Path, *options: str) -> None:
        self._folder = folder
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_ports(1)[0]
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.start()

    def start(self) -> None:
        """Start it and wait until it answers; raises ServerError when it does not."""
        found = shutil.which("redis-server")
        if found is None:
            raise ServerError(MISSING)
        bound = shutil.which("setpriv")
        prefix = [bound, "--pdeathsig", "KILL"] if bound else []
        listen = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        with (self._folder / "redis.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*prefix, found, *listen, *self._options], cwd=self._folder, stdout=log, stderr=log
            )
        deadline = time.monotonic() + 30
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise ServerError(f"redis-server did not start:\n{(self._folder / 'redis.log').read_text()}")
            time.sleep(0.02)

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1.0) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(100).startswith((b"+PONG", b"-NOAUTH"))
        except OSError:
            return False

    def pause(self) -> None:
        """Stop it as it stands: connections stay, nothing is answered."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it at once; what it knew is lost."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self) -> None:
        self.kill()
        self.start()

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        os.kill(self._process.pid, number)
