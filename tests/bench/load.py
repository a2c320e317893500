"""HTTP load over loopback: keep-alive connections on raw sockets and one epoll.

A request costs this client some 15 µs, so that one core of it outruns any Python server on another;
``busy`` in its result says how much of its core it used, and the bench tells it.
"""

from __future__ import annotations

import select
import socket
import time
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence


class Load(msgspec.Struct, frozen=True):
    """One window: requests answered, seconds from the first byte out to the last answer in, share of a
    core that the client itself used."""

    completed: int
    seconds: float
    busy: float


def requests(paths: Sequence[str]) -> list[bytes]:
    """A plain GET for each path, as a browser's keep-alive connection would send it."""
    return [
        f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: application/json\r\nuser-agent: bench/1\r\n\r\n".encode()
        for path in paths
    ]


def run(port: int, sends: Sequence[bytes], seconds: float, connections: int = 16) -> Load:
    """Keep ``connections`` requests in flight for ``seconds``, then wait for those still out.

    Every request sent is answered before this returns; an answer that is not 200, a closed
    connection or a silence of five seconds raises ``RuntimeError``.
    """
    sockets = {}
    poll = select.epoll()
    for _ in range(connections):
        sock = socket.create_connection(("127.0.0.1", port))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sockets[sock.fileno()] = sock
        poll.register(sock.fileno(), select.EPOLLIN)
    buffers = dict.fromkeys(sockets, b"")
    completed = sent = 0
    busy = time.process_time()
    start = time.perf_counter()
    deadline = start + seconds
    try:
        for sock in sockets.values():
            sock.send(sends[sent % len(sends)])
            sent += 1
        while completed < sent:
            ready = poll.poll(5)
            if not ready:
                raise RuntimeError(f"{sent - completed} requests stayed unanswered for five seconds")
            going_on = time.perf_counter() < deadline
            for descriptor, _ in ready:
                sock = sockets[descriptor]
                data = sock.recv(65536)
                if not data:
                    raise RuntimeError("the server closed a connection in the middle of the load")
                buffers[descriptor] += data
                if not _complete(buffers[descriptor]):
                    continue
                buffers[descriptor] = b""
                completed += 1
                if going_on:
                    sock.send(sends[sent % len(sends)])
                    sent += 1
        elapsed = time.perf_counter() - start
        return Load(completed, elapsed, (time.process_time() - busy) / elapsed)
    finally:
        poll.close()
        for sock in sockets.values():
            sock.close()


def _complete(answer: bytes) -> bool:
    """Whether one whole answer is there; nothing is pipelined, so nothing can follow it."""
    end = answer.find(b"\r\n\r\n")
    if end < 0:
        return False
    if not answer.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(f"the server answered {answer[:end].splitlines()[0]!r}")
    mark = answer.find(b"content-length: ")
    if mark < 0:
        raise RuntimeError("the server answered without content-length")
    return len(answer) >= end + 4 + int(answer[mark + 16 : answer.index(b"\r", mark)])
