"""Reports over loopback: as fast as they are answered, or at a fixed rate whatever the answers do.

At a fixed rate an answer's time counts from when its report was due, so that a server that stalls pays for every
report that would have come meanwhile. Keep-alive connections on raw sockets and one epoll, as in ``load``.
"""

from __future__ import annotations

import random
import select
import socket
import time
from collections import Counter, deque
from typing import TYPE_CHECKING

import msgspec

from tests.bench.b5_alloy import PATH as FARO_PATH
from tests.bench.b5_server import PATH, token

if TYPE_CHECKING:
    from collections.abc import Iterator

SILENCE = 10.0


class Answered(msgspec.Struct, frozen=True):
    """What one run got: answers by status, seconds from due to answered for each, seconds in all, share of a core
    that the client used."""

    statuses: dict[int, int]
    latencies: list[float]
    seconds: float
    busy: float

    def percentile(self, share: float) -> float:
        """Seconds that ``share`` of the answers took at most."""
        found = sorted(self.latencies)
        return found[min(len(found) - 1, int(share * len(found)))]


def request(principal: int, error: int, occurrence: int = 0) -> bytes:
    """A report as the browser client posts it, some 700 bytes of JSON."""
    words = f"{_letters(error)} of {_letters(error * 7 + 3)}"
    frames = "".join(
        f"\n    at {_letters(error + depth)} (https://console.example/assets/index-4f2a.js:{10 + depth}:{error % 90})"
        for depth in range(6)
    )
    body = msgspec.json.encode(
        {
            "kind": "error",
            "message": f"TypeError: can't read {words}, attempt {occurrence}",
            "stack": f"TypeError: can't read {words}{frames}",
            "url": f"https://console.example/jobs/{occurrence}?tab=runs",
            "build": "production",
        }
    )
    head = (
        f"POST {PATH} HTTP/1.1\r\nhost: 127.0.0.1\r\nuser-agent: Mozilla/5.0 (X11; Linux x86_64) bench/1\r\n"
        f"accept: */*\r\ncontent-type: application/json\r\nauthorization: Bearer {token(principal)}\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def batch(user: int, error: int) -> bytes:
    """The same error as Grafana's Faro Web SDK posts it to Alloy, without credentials: some 900 bytes of JSON."""
    words = f"{_letters(error)} of {_letters(error * 7 + 3)}"
    frames = [
        {
            "filename": "https://console.example/assets/index-4f2a.js",
            "function": _letters(error + depth),
            "lineno": 10 + depth,
            "colno": error % 90,
        }
        for depth in range(6)
    ]
    exception = {
        "timestamp": "2026-11-30T12:00:00.000Z",
        "type": "TypeError",
        "value": f"can't read {words}, attempt 0",
        "stacktrace": {"frames": frames},
    }
    meta = {
        "app": {"name": "console", "environment": "production"},
        "page": {"url": "https://console.example/jobs/0"},
        "user": {"email": f"person.{user}@acme.example"},
    }
    body = msgspec.json.encode({"exceptions": [exception], "meta": meta})
    head = (
        f"POST {FARO_PATH} HTTP/1.1\r\nhost: 127.0.0.1\r\nuser-agent: Mozilla/5.0 (X11; Linux x86_64) bench/1\r\n"
        f"accept: */*\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _letters(number: int) -> str:
    # Words, since numbers fold: an error that differs in a number only is the same error.
    text = ""
    for _ in range(6):
        number, digit = divmod(number * 31 + 17, 26)
        text += chr(97 + digit)
    return text


def fresh(principals: int, start: int = 0) -> Iterator[bytes]:
    """Reports that are all different: every principal in turn, then every one with its next error."""
    number = start
    while True:
        yield request(number % principals, number // principals)
        number += 1


def strange(principals: int, start: int = 0) -> Iterator[bytes]:
    """Reports of which each says what none before it said: nothing that was made of another can be used again."""
    number = start
    while True:
        yield request(number % principals, number)
        number += 1


def batches(users: int, start: int = 0) -> Iterator[bytes]:
    """As ``fresh``, for Alloy."""
    number = start
    while True:
        yield batch(number % users, number // users)
        number += 1


def storm(principals: int) -> Iterator[bytes]:
    """The same error from every principal, over and over."""
    number = 0
    while True:
        yield request(number % principals, 7, number)
        number += 1


def daily(principals: int, hot: float, seed: int = 5) -> Iterator[bytes]:
    """Reports as they come: principals at random, half of what each sends a repeat of its usual error, and one page
    in a loop that sends the share ``hot`` of all."""
    dice = random.Random(seed)
    number = 0
    while True:
        number += 1
        if dice.random() < hot:
            yield request(0, 0, number)
        else:
            principal = dice.randrange(1, principals)
            yield request(principal, principal % 50 if dice.random() < 0.5 else dice.randrange(200), number)


class _Connections:
    def __init__(self, port: int, count: int) -> None:
        self.poll = select.epoll()
        self.sockets = {}
        for _ in range(count):
            sock = socket.create_connection(("127.0.0.1", port))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.sockets[sock.fileno()] = sock
            self.poll.register(sock.fileno(), select.EPOLLIN)
        self._buffers = dict.fromkeys(self.sockets, b"")

    def answers(self, timeout: float) -> list[tuple[int, int]]:
        """Connections on which a whole answer has come, with its status."""
        found = []
        for descriptor, _ in self.poll.poll(timeout):
            data = self.sockets[descriptor].recv(65536)
            if not data:
                raise RuntimeError("the server closed a connection in the middle of the load")
            answer = self._buffers[descriptor] + data
            end = answer.find(b"\r\n\r\n")
            head = answer[: end + 2].lower()
            mark = head.find(b"content-length: ")
            length = int(head[mark + 16 : head.index(b"\r", mark)]) if mark >= 0 else 0
            if end < 0 or len(answer) < end + 4 + length:
                self._buffers[descriptor] = answer
                continue
            self._buffers[descriptor] = b""
            found.append((descriptor, int(answer[9:12])))
        return found

    def close(self) -> None:
        self.poll.close()
        for sock in self.sockets.values():
            sock.close()


def flat_out(port: int, reports: Iterator[bytes], seconds: float, connections: int = 16) -> Answered:
    """Keep ``connections`` reports in flight for ``seconds``, then wait for those still out."""
    made = _Connections(port, connections)
    statuses: Counter[int] = Counter()
    busy, start = time.process_time(), time.perf_counter()
    out = 0
    try:
        for sock in made.sockets.values():
            sock.sendall(next(reports))
            out += 1
        while out:
            answers = made.answers(SILENCE)
            if not answers:
                raise RuntimeError(f"{out} reports stayed unanswered for {SILENCE:g} s")
            going_on = time.perf_counter() - start < seconds
            for descriptor, status in answers:
                statuses[status] += 1
                out -= 1
                if going_on:
                    made.sockets[descriptor].sendall(next(reports))
                    out += 1
        elapsed = time.perf_counter() - start
        return Answered(dict(statuses), [], elapsed, (time.process_time() - busy) / elapsed)
    finally:
        made.close()


def at_rate(port: int, reports: Iterator[bytes], rate: float, seconds: float, connections: int = 64) -> Answered:
    """Offer ``rate`` reports a second for ``seconds``, due at equal distances; wait for every answer."""
    made = _Connections(port, connections)
    total = int(rate * seconds)
    statuses: Counter[int] = Counter()
    latencies: list[float] = []
    idle = list(made.sockets)
    due: deque[float] = deque()
    asked: dict[int, float] = {}
    issued = 0
    busy, start = time.process_time(), time.perf_counter()
    last = start
    try:
        while len(latencies) < total:
            now = time.perf_counter()
            while issued < total and start + issued / rate <= now:
                due.append(start + issued / rate)
                issued += 1
            while due and idle:
                descriptor = idle.pop()
                asked[descriptor] = due.popleft()
                made.sockets[descriptor].sendall(next(reports))
            wait = max(0.0, start + issued / rate - time.perf_counter()) if issued < total else 0.5
            for descriptor, status in made.answers(wait):
                last = time.perf_counter()
                statuses[status] += 1
                latencies.append(last - asked.pop(descriptor))
                idle.append(descriptor)
            if time.perf_counter() - last > SILENCE:
                raise RuntimeError(f"{len(asked)} reports stayed unanswered for {SILENCE:g} s")
        elapsed = time.perf_counter() - start
        return Answered(dict(statuses), latencies, elapsed, (time.process_time() - busy) / elapsed)
    finally:
        made.close()
