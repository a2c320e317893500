"""An HTTP/1.1 server small enough to misbehave on purpose: own sockets, a thread for each connection.

``http.server`` hides the socket and spends most of a small request on parsing headers; a receiver needs to
reset, stall and refuse, and to keep up with benchmarks.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import ssl
import struct
import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from http import HTTPStatus
from io import BufferedReader
from typing import cast

_MAX_HEAD = 256 * 1024
_LINGER_RST = struct.pack("ii", 1, 0)  # close with this sends RST instead of FIN


class Cut(Exception):
    """The connection is over: the client went away, or the receiver ends it."""


class Exchange:
    """One request on its connection: the head is read, the body on demand, the answer is up to the handler."""

    def __init__(
        self, sock: socket.socket, stream: BufferedReader, method: str, target: str, headers: dict[str, str]
    ) -> None:
        self.method = method
        self.path, _, self.query = target.partition("?")
        self.headers = headers
        self.keep_alive = headers.get("connection", "").lower() != "close"
        self.wire_size = 0
        self._sock = sock
        self._stream = stream

    def read(self, wait: Callable[[int], None] = lambda _: None) -> bytes:
        """The body without its framing. ``wait(n)`` is called after each n bytes, to slow the reading down."""
        if self.headers.get("expect", "").lower() == "100-continue":
            self._sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            return self._read_chunks(wait)
        try:
            size = int(self.headers.get("content-length", "0"))
        except ValueError:
            raise Cut from None
        return self._exactly(size, wait)

    def _read_chunks(self, wait: Callable[[int], None]) -> bytes:
        parts = []
        while True:
            try:
                size = int(self._stream.readline(1024).split(b";")[0], 16)
            except ValueError:
                raise Cut from None
            if not size:
                break
            parts.append(self._exactly(size, wait))
            self._stream.readline(1024)
        while self._stream.readline(_MAX_HEAD).strip():  # trailers
            pass
        return b"".join(parts)

    def _exactly(self, size: int, wait: Callable[[int], None]) -> bytes:
        parts = []
        while size:
            part = self._stream.read1(min(size, 1 << 16)) if size > 1 << 16 else self._stream.read(size)
            if not part:
                raise Cut
            parts.append(part)
            size -= len(part)
            wait(len(part))
        return b"".join(parts)

    def answer(self, status: int, headers: Mapping[str, str], body: bytes) -> bytes:
        """The bytes of an answer."""
        try:
            reason = HTTPStatus(status).phrase
        except ValueError:
            reason = "Unassigned"
        lines = [f"HTTP/1.1 {status} {reason}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if status != 204 and status >= 200:
            lines.append(f"Content-Length: {len(body)}")
        if not self.keep_alive:
            lines.append("Connection: close")
        return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace") + body

    def write(self, data: bytes) -> None:
        """Send these bytes as they are."""
        self._sock.sendall(data)

    def peer_is_there(self) -> bool:
        """False once the client has closed its side (always True over TLS, where one can't peek)."""
        if isinstance(self._sock, ssl.SSLSocket):
            return True
        try:
            return self._sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) != b""
        except BlockingIOError:
            return True

    def reset(self) -> None:
        """End the connection with RST."""
        with contextlib.suppress(OSError):
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_RST)
        raise Cut


class HttpServer:
    """Listens on one loopback port from ``start()`` to ``close()``; in between the port may be shut and reopened."""

    def __init__(
        self,
        handle: Callable[[Exchange], None],
        failed: Callable[[BaseException], None],
        tls: ssl.SSLContext | None,
    ) -> None:
        self._handle = handle
        self._failed = failed
        self._tls = tls
        self._lock = threading.Lock()
        self._port_lock = threading.RLock()  # one opens or shuts the port at a time
        self._connections: dict[socket.socket, threading.Thread] = {}
        self._listener: socket.socket | None = None
        self._acceptor: threading.Thread | None = None
        self._plugs: list[socket.socket] = []
        self.closed = threading.Event()
        # Bound but never listening: it keeps the port ours while nothing listens on it.
        self._holder = self._bind(0)
        self.port: int = self._holder.getsockname()[1]
        _servers.add(self)
        self.open()

    @staticmethod
    def _bind(port: int) -> socket.socket:
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.bind(("127.0.0.1", port))
        return sock

    def open(self) -> None:
        """Listen (again) on the same port."""
        with self._port_lock:
            if not self.closed.is_set() and (self._listener is None or self._plugs):
                self._open()

    def _open(self) -> None:
        self.shut()
        listener = self._bind(self.port)
        listener.listen(512)
        wake, waker = socket.socketpair()
        self._listener, self._waker = listener, waker
        self._acceptor = threading.Thread(
            target=self._accept, args=(listener, wake), name="telemetry-receiver", daemon=True
        )
        self._acceptor.start()

    def shut(self) -> None:
        """Stop listening and cut every connection: from now on connection refused."""
        with self._port_lock:
            self._shut()

    def _shut(self) -> None:
        if self._acceptor is not None:
            self._waker.send(b"x")
            self._acceptor.join(2.0)
            self._waker.close()
            self._acceptor = None
        if self._listener is not None:
            # shutdown, not only close: a forked child may hold the same socket
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None
        for plug in self._plugs:
            plug.close()
        self._plugs.clear()
        self.cut()

    def cut(self) -> None:
        """Reset every open connection."""
        with self._lock:
            connections = dict(self._connections)
        for sock in connections:
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_RST)
                sock.shutdown(socket.SHUT_RDWR)
        for thread in connections.values():
            if thread is not threading.current_thread():
                thread.join(1.0)

    def swallow(self) -> None:
        """Listen with a full accept queue: Linux then drops each SYN, and ``connect`` hangs."""
        if not sys.platform.startswith("linux"):
            raise NotImplementedError(
                f"Blackhole needs Linux, which drops a SYN when the queue is full, not {sys.platform}"
            )
        with self._port_lock:
            self._shut()
            self._listener = self._bind(self.port)
            self._listener.listen(0)
            for _ in range(3):  # the queue takes backlog + 1; a further SYN is never answered
                plug = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
                plug.setblocking(False)
                plug.connect_ex(("127.0.0.1", self.port))
                self._plugs.append(plug)

    def close(self) -> None:
        """End at once, whatever hangs."""
        self.closed.set()
        self.shut()
        self._holder.close()

    def leave_to_parent(self) -> None:
        """In a forked child: let go of the sockets, else none is closed or reset before the child ends too."""
        self.closed.set()
        sockets = [self._holder, *self._connections, *self._plugs, *([self._listener] if self._listener else [])]
        for sock in sockets:
            if sock.fileno() >= 0:
                os.close(sock.detach())

    def _accept(self, listener: socket.socket, wake: socket.socket) -> None:
        with selectors.DefaultSelector() as selector, wake:
            selector.register(listener, selectors.EVENT_READ)
            selector.register(wake, selectors.EVENT_READ)
            while True:
                ready = {key.fileobj for key, _ in selector.select()}
                if wake in ready:
                    return
                try:
                    sock, _ = listener.accept()
                except OSError:  # the client was gone before we looked
                    continue
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                thread = threading.Thread(target=self._serve, args=(sock,), name="telemetry-receiver-peer", daemon=True)
                with self._lock:
                    self._connections[sock] = thread
                thread.start()

    def _serve(self, raw: socket.socket) -> None:
        sock = raw
        try:
            if self._tls is not None:
                sock = self._tls.wrap_socket(raw, server_side=True)
                with self._lock:
                    self._connections[sock] = self._connections.pop(raw, threading.current_thread())
            with cast("BufferedReader", sock.makefile("rb", buffering=1 << 16)) as stream:
                while not self.closed.is_set():
                    exchange = _read_head(sock, stream)
                    if exchange is None:
                        break
                    self._handle(exchange)
                    if not exchange.keep_alive:
                        break
        except (Cut, OSError):  # ended on purpose or by the client; ssl's errors are OSErrors
            pass
        except Exception as error:  # a predicate of the test's failed, or this receiver did: the test must hear of it
            self._failed(error)
        finally:
            with self._lock:
                self._connections.pop(sock, None)
                self._connections.pop(raw, None)
            sock.close()


_servers: weakref.WeakSet[HttpServer] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for server in list(_servers):
        server.leave_to_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


def _read_head(sock: socket.socket, stream: BufferedReader) -> Exchange | None:
    line = stream.readline(_MAX_HEAD)
    if line in (b"\r\n", b"\n"):
        line = stream.readline(_MAX_HEAD)
    if not line:
        return None
    words = line.decode("latin-1").split()
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise Cut
    headers: dict[str, str] = {}
    while (line := stream.readline(_MAX_HEAD)) not in (b"\r\n", b"\n"):
        if not line:
            return None
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.lower()] = value.strip()
    return Exchange(sock, stream, words[0], words[1], headers)


def pace(bytes_per_second: float, ended: threading.Event) -> Callable[[int], None]:
    """A ``wait`` that lets no more than so many bytes a second pass, and gives up once ``ended``."""
    start = time.monotonic()
    passed = 0

    def wait(size: int) -> None:
        nonlocal passed
        passed += size
        if ended.wait(max(0.0, start + passed / bytes_per_second - time.monotonic())):
            raise Cut

    return wait
