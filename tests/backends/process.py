"""Start a server on free loopback ports, wait until it answers, stop it by its own process id."""

from __future__ import annotations

import http.client
import json
import random
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

T = TypeVar("T")


class ServerError(RuntimeError):
    """A server that did not start, or an answer that was not a success. The text holds what it said."""


@dataclass(frozen=True)
class Response:
    """One HTTP answer. Header names are lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    def json(self) -> Any:
        return json.loads(self.body)

    def ok(self) -> Response:
        """Itself if the status is 2xx; raises ServerError with the body otherwise."""
        if not 200 <= self.status < 300:
            raise ServerError(f"status {self.status}: {self.text[:500]}")
        return self


def request(
    method: str,
    url: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: float = 30.0,
) -> Response:
    """One HTTP request over a connection of its own; no proxies, no redirects, nothing that gets instrumented.

    Raises OSError or http.client.HTTPException when there is no answer within ``timeout`` seconds.
    """
    parts = urlsplit(url)
    target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    connection = http.client.HTTPConnection(parts.hostname or "127.0.0.1", parts.port, timeout=timeout)
    try:
        connection.request(method, target, body=body, headers=dict(headers or {}))
        answer = connection.getresponse()
        return Response(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
    finally:
        connection.close()


def answers(url: str, status: int = 200) -> bool:
    """True if a GET of ``url`` gives ``status`` now."""
    try:
        return request("GET", url, timeout=2.0).status == status
    except (OSError, http.client.HTTPException):
        return False


def eventually(read: Callable[[], T], *, timeout: float = 30.0, interval: float = 0.05) -> T:
    """What ``read()`` returns once it is truthy; its last value after ``timeout`` seconds, for the caller to assert on.

    Backends show what they stored a little later than they acknowledge it. The time is for a machine that is busy
    with others, and costs nothing where things go as they should.
    """
    deadline = time.monotonic() + timeout
    while True:
        value = read()
        if value or time.monotonic() >= deadline:
            return value
        time.sleep(interval)


# Where the kernel takes a port for each outgoing connection, and for each listener that asks for any.
_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST = 12_000  # above what browsers refuse to talk to


def free_ports(count: int) -> list[int]:
    """``count`` different TCP ports of 127.0.0.1 that nobody listened on a moment ago.

    They are below those that the kernel hands out by itself: between this call and the server's own bind, or while
    a test keeps a server down, no connection of anybody's gets one of them.
    """
    first = int(_EPHEMERAL.read_text().split()[0]) if _EPHEMERAL.exists() else 0
    range_or_any = range(_LOWEST, first) if first - _LOWEST > 1_000 else (0,)
    ports: list[int] = []
    with ExitStack() as stack:
        for _ in range(1_000):
            each = stack.enter_context(socket.socket())
            with suppress(OSError):
                each.bind(("127.0.0.1", random.choice(range_or_any)))
                ports.append(int(each.getsockname()[1]))
            if len(ports) == count:
                return ports
    raise ServerError("no free ports")


class Server:
    """A running server: a child process whose output goes to a log file in its folder."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self.name = name
        self.pid = process.pid
        self.log = log
        self._process = process

    @classmethod
    def start(
        cls,
        name: str,
        folder: Path,
        ports: int,
        command: Callable[[Sequence[int]], Sequence[str]],
        ready: Callable[[Sequence[int]], str],
        timeout: float,
        status: int = 200,
        environ: Mapping[str, str] | None = None,
    ) -> tuple[Server, list[int]]:
        """Run ``command(ports)`` in ``folder`` until ``ready(ports)``, a URL, answers ``status``.

        ``environ`` is the whole environment of the process; None: that of the tests.
        A port may be taken between choosing and binding it, so a server that dies of that gets other ports.
        Raises ServerError with the end of its log when it exits, or isn't ready after ``timeout`` seconds.
        """
        for attempt in range(3):
            chosen = free_ports(ports)
            server = cls._launch(name, command(chosen), folder, environ)
            try:
                server._wait(ready(chosen), timeout, status)
            except ServerError as error:
                server.stop()
                if attempt < 2 and "in use" in str(error).lower():
                    continue
                raise
            except BaseException:
                server.stop()
                raise
            return server, chosen
        raise AssertionError("unreachable")

    @classmethod
    def _launch(cls, name: str, command: Sequence[str], folder: Path, environ: Mapping[str, str] | None) -> Server:
        # A test run that is killed outright can't clean up: let the kernel take the server with it where it can.
        bound = shutil.which("setpriv")
        prefix = [bound, "--pdeathsig", "KILL"] if bound else []
        log = folder / f"{name}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*prefix, *command],
                cwd=folder,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is ours to handle: flush first, then stop it
            )
        return cls(name, process, log)

    def _wait(self, url: str, timeout: float, status: int) -> None:
        deadline = time.monotonic() + timeout
        while not answers(url, status):
            code = self._process.poll()
            if code is not None:
                raise ServerError(f"{self.name} exited with {code} before it was ready:\n{self.log_tail()}")
            if time.monotonic() >= deadline:
                raise ServerError(f"{self.name} was not ready after {timeout:.0f} s:\n{self.log_tail()}")
            time.sleep(0.1)

    def log_tail(self, lines: int = 30) -> str:
        """The last lines that the server wrote."""
        return "\n".join(self.log.read_text("utf-8", "replace").splitlines()[-lines:])

    def stop(self, timeout: float = 3.0) -> None:
        """Ask it to end, then make it: Tempo takes its time, and the data is thrown away. Safe to call again."""
        if self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def finish(self, timeout: float) -> int:
        """Ask it to end and wait for it; the exit code, negative for a signal. Raises ServerError if it stays."""
        self._process.terminate()
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.stop(0)
            raise ServerError(f"{self.name} did not end within {timeout:.0f} s:\n{self.log_tail()}") from None
