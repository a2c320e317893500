"""A small HTTP server for ``/metrics`` and ``/healthz``, for processes that serve nothing else.

prometheus-client's own server does not fit: it reverse-resolves its address while it binds, has no bound
on threads, answers any path, and a forked child keeps the parent's port open.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import socket
import socketserver
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from telemetry import faults

Render = Callable[[str | None], tuple[bytes, str]]
"""From an ``Accept`` header to a body and its content type."""

REQUESTS_AT_ONCE = 16
READ_SECONDS = 10.0
_COMPRESS_FROM = 1024


class MetricsServer:
    """A listening server on a daemon thread. ``address`` is where it listens, as host and port."""

    def __init__(self, listening: _Listening) -> None:
        self._listening: _Listening | None = listening
        self.address: tuple[str, int] = listening.server_address[0], listening.server_address[1]  # type: ignore[assignment]
        self._thread = threading.Thread(
            target=listening.serve_forever, kwargs={"poll_interval": 1.0}, name="fleetglass-metrics", daemon=True
        )
        self._thread.start()
        _running.append(self)

    @property
    def url(self) -> str:
        """Where to scrape."""
        host, port = self.address
        return f"http://{f'[{host}]' if ':' in host else host}:{port}/metrics"

    def stop(self, timeout: float = 1.0) -> None:
        """Close the port and end the thread; within ``timeout`` seconds, whatever a request is doing."""
        listening, self._listening = self._listening, None
        if listening is None:
            return
        _running.remove(self)
        stopper = threading.Thread(target=listening.shutdown, name="fleetglass-metrics-stop", daemon=True)
        stopper.start()
        with contextlib.suppress(OSError):  # a connection wakes the loop, which would else look up once a second
            socket.create_connection(self.address, 0.2).close()
        stopper.join(timeout)
        listening.server_close()

    def after_fork_in_child(self) -> None:
        """Close the child's copy of the parent's port: its thread is not here to serve it."""
        listening, self._listening = self._listening, None
        if listening is not None:
            listening.socket.close()


def start(listen: str, render: Render) -> MetricsServer | None:
    """Serve at ``listen``: ``host:port``, ``[::1]:port``, ``:port`` for every address, port 0 for a free one.

    A port that can't be had is said in one sentence, and None is returned: the process goes on unscraped.
    """
    try:
        host, port = parse_listen(listen)
        family = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        return MetricsServer(_Listening((host, port), family, render))
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: no thread to be had
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        faults.say(f"no metrics on {listen}: {reason}; set FLEETGLASS_METRICS_LISTEN to a free address, or to off")
        return None


def parse_listen(listen: str) -> tuple[str, int]:
    """Host and port of ``host:port``. Raises ValueError with what was expected."""
    parts = urlsplit(f"//{listen}")
    try:
        port = parts.port
    except ValueError:
        port = None
    if port is None or parts.path or parts.username:
        raise ValueError(f"{listen!r} is not host:port")
    return parts.hostname or "", port


class _Listening(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # a hung collector must not hold up the end of the process

    def __init__(self, address: tuple[str, int], family: int, render: Render) -> None:
        self.address_family = family
        self.render = render
        self._free = threading.BoundedSemaphore(REQUESTS_AT_ONCE)
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        # HTTPServer asks the resolver for its own name here, which can take seconds, and uses it for nothing.
        socketserver.TCPServer.server_bind(self)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread to be had
            self._free.release()
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is nobody's fault."""


class _Handler(BaseHTTPRequestHandler):
    server: _Listening
    timeout = READ_SECONDS
    server_version = "fleetglass"
    sys_version = ""

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def __getattr__(self, name: str) -> Any:
        # http.server looks for do_<METHOD> and answers 501 where there is none; the right answer is 405.
        if name.startswith("do_"):
            return self._refuse
        raise AttributeError(name)

    def _answer(self) -> None:
        path = urlsplit(self.path).path
        if path == "/healthz":
            self._send(200, b"ok\n", "text/plain; charset=utf-8")
        elif path == "/metrics":
            try:
                body, content_type = self.server.render(self.headers.get("Accept"))
            except Exception as error:
                self._send(503, f"{error}\n".encode(), "text/plain; charset=utf-8")
                if not isinstance(error, TimeoutError):  # that one has been reported where it arose
                    faults.report("metrics.server", error)
                return
            self._send(200, body, content_type)
        else:
            self._send(404, b"metrics are at /metrics\n", "text/plain; charset=utf-8")

    def _refuse(self) -> None:
        self._send(405, b"use GET\n", "text/plain; charset=utf-8", Allow="GET, HEAD")

    def _send(self, status: int, body: bytes, content_type: str, **headers: str) -> None:
        if len(body) >= _COMPRESS_FROM and "gzip" in self.headers.get("Accept-Encoding", ""):
            body = gzip.compress(body, 1, mtime=0)
            headers["Content-Encoding"] = "gzip"
        self.send_response(status)
        for name, value in {"Content-Type": content_type, "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Scrapes are no news."""


_running: list[MetricsServer] = []


def _after_fork_in_child() -> None:
    for server in _running:
        server.after_fork_in_child()
    _running.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
