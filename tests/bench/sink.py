"""The receiving side of every bench: a process that takes telemetry over HTTP as cheaply as it can.

It answers as the real receivers do (OTLP 200, Loki 204, Prometheus import 204), keeps each body with
the time it came, and decodes nothing until asked: decoding at rate would compete with the load
generator on the same core. What it counts is therefore decoded from what really arrived.
"""

from __future__ import annotations

import asyncio
import gzip
import re
import sys
import threading
import time
from collections import defaultdict
from typing import Any

import msgspec
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.bench import child

OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n"
NO_CONTENT = b"HTTP/1.1 204 No Content\r\n\r\n"
REFUSED = b"HTTP/1.1 501 Not Implemented\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


_FRONTEND = " logger=frontend frontend-error "
_REPEAT = re.compile(r' fp="[0-9a-z]+" repeat=(\d+) ')


class Arrivals:
    """Bodies as they came, and what was decoded of them, by service."""

    def __init__(self) -> None:
        self.waiting: list[tuple[float, str, bool, bytes]] = []
        self.records: dict[str, set[bytes | str]] = defaultdict(set)
        self.repeats: dict[str, int] = defaultdict(int)
        self.last: dict[str, float] = {}
        self.requests = 0

    def decode(self) -> None:
        """Decode what has come since the last call."""
        waiting, self.waiting = self.waiting, []
        for moment, path, zipped, body in waiting:
            self.requests += 1
            plain = gzip.decompress(body) if zipped else body
            if path.startswith("/v1/traces"):
                self._spans(moment, plain)
            elif path.startswith("/loki/"):
                self._lines(moment, plain)

    def _spans(self, moment: float, body: bytes) -> None:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            service = next(a.value.string_value for a in resource.resource.attributes if a.key == "service.name")
            for scope in resource.scope_spans:
                self._add(f"spans {service}", moment, [span.trace_id + span.span_id for span in scope.spans])

    def _lines(self, moment: float, body: bytes) -> None:
        for stream in msgspec.json.decode(body)["streams"]:
            self._add(
                f"lines {stream['stream']['service_name']}", moment, [value[0] + value[1] for value in stream["values"]]
            )

    def _add(self, key: str, moment: float, records: list[Any]) -> None:
        known = self.records[key]
        before = len(known)
        known.update(records)
        self.repeats[key] += len(records) - (len(known) - before)
        self.last[key] = moment

    def count(self, key: str) -> dict[str, Any]:
        """How many distinct records came under ``key`` (``spans service`` or ``lines service``), how many
        of them again, and when the last body came (CLOCK_MONOTONIC, the same in every process)."""
        self.decode()
        return {"received": len(self.records[key]), "repeats": self.repeats[key], "last": self.last.get(key, 0.0)}

    def frontend(self, service: str) -> dict[str, int]:
        """How many lines of browser errors came from ``service``, and what their ``repeat`` sums to."""
        self.decode()
        found = [_REPEAT.search(str(line)) for line in self.records[f"lines {service}"] if _FRONTEND in str(line)]
        assert all(found), "a line without repeat"
        return {"lines": len(found), "repeats": sum(int(match[1]) for match in found if match)}


class Connection(asyncio.Protocol):
    def __init__(self, arrivals: Arrivals) -> None:
        self._arrivals = arrivals
        self._buffer = bytearray()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        while (end := buffer.find(b"\r\n\r\n")) >= 0:
            head = bytes(buffer[:end]).lower()
            mark = head.find(b"content-length:")
            if mark < 0:
                self._transport.write(REFUSED)
                self._transport.close()
                return
            length = int(head[mark + 15 :].split(b"\r\n", 1)[0])
            if len(buffer) < end + 4 + length:
                return
            body = bytes(buffer[end + 4 : end + 4 + length])
            del buffer[: end + 4 + length]
            path = head.split(b" ", 2)[1].decode("ascii")
            self._transport.write(OK if path.startswith("/v1/") else NO_CONTENT)
            self._arrivals.waiting.append((time.monotonic(), path, b"content-encoding: gzip" in head, body))


class Sink:
    """The parent's end: where to send to, and what came."""

    def __init__(self, core: int | None) -> None:
        self._child = child.Child("tests.bench.sink", core=core)
        self.url = f"http://127.0.0.1:{self._child.hello['port']}"

    def count(self, key: str) -> int:
        """Distinct records under ``key``; ``RuntimeError`` if any came twice, which no bench may cause."""
        answer = self._child.ask("count", key=key)
        if answer["repeats"]:
            raise RuntimeError(f"{answer['repeats']} records of {key!r} came more than once")
        return int(answer["received"])

    def frontend(self, service: str) -> tuple[int, int]:
        """Lines of browser errors from ``service``, and the sum of their ``repeat``."""
        answer = self._child.ask("frontend", service=service)
        return int(answer["lines"]), int(answer["repeats"])

    def wait(self, key: str, count: int, timeout: float = 60.0) -> float:
        """Until ``count`` records came; gives when the last body did (CLOCK_MONOTONIC seconds)."""
        deadline = time.monotonic() + timeout
        while (answer := self._child.ask("count", key=key))["received"] < count:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{answer['received']} of {count} records of {key!r} came within {timeout} s")
            time.sleep(0.005)
        return float(answer["last"])

    def close(self) -> None:
        self._child.close()


async def _run(arrivals: Arrivals) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(arrivals), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    over = asyncio.Event()

    def obey() -> None:
        child.serve({"count": arrivals.count, "frontend": arrivals.frontend}, port=port)
        loop.call_soon_threadsafe(over.set)

    threading.Thread(target=obey, daemon=True).start()
    await over.wait()


if __name__ == "__main__":
    child.enter()
    sys.setswitchinterval(0.001)  # a long decode must not hold up the answers
    asyncio.run(_run(Arrivals()))
