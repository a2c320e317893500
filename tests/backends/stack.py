"""Loki, Tempo and Alloy as typed clients, where they are on PATH. Their tests carry the ``stack`` marker."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.backends import otlpjson
from tests.backends.process import Server, ServerError, request
from tests.backends.programs import program
from tests.backends.servers import Sample, vector


@dataclass(frozen=True)
class LokiEntry:
    """One line with what Loki knows about it; ``time`` in nanoseconds since the epoch.

    ``stream`` are the labels, ``metadata`` the structured metadata (``detected_level`` among it), ``parsed`` what
    a parser stage such as ``| logfmt`` took out of the line.
    """

    line: str
    time: int
    stream: Mapping[str, str]
    metadata: Mapping[str, str]
    parsed: Mapping[str, str]


_LOKI_CONFIG = """\
auth_enabled: false
server:
  http_listen_address: 127.0.0.1
  http_listen_port: {http}
  grpc_listen_address: 127.0.0.1
  grpc_listen_port: {grpc}
  log_level: warn
common:
  instance_addr: 127.0.0.1
  path_prefix: {folder}/data
  replication_factor: 1
  ring: {{kvstore: {{store: inmemory}}}}
  storage:
    filesystem: {{chunks_directory: "{folder}/data/chunks", rules_directory: "{folder}/data/rules"}}
memberlist: {{bind_addr: ["127.0.0.1"], bind_port: {gossip}}}
schema_config:
  configs:
    - {{from: 2024-01-01, store: tsdb, object_store: filesystem, schema: v13, index: {{prefix: index_, period: 24h}}}}
limits_config: {{allow_structured_metadata: true}}
analytics: {{reporting_enabled: false}}
"""


class Loki:
    """A Loki in one process on the filesystem."""

    def __init__(self, server: Server, port: int) -> None:
        self.server = server
        self.url = f"http://127.0.0.1:{port}"
        self.push_url = f"{self.url}/loki/api/v1/push"
        self.otlp_endpoint = f"{self.url}/otlp"
        self.otlp_logs_url = f"{self.url}/otlp/v1/logs"

    @classmethod
    def start(cls, folder: Path, more: str = "") -> Loki:
        """Start it with its data in ``folder`` and ``more`` sections of YAML; ready after about 17 s."""
        binary = program("loki")

        def command(ports: Sequence[int]) -> list[str]:
            config = _LOKI_CONFIG.format(http=ports[0], grpc=ports[1], gossip=ports[2], folder=folder)
            (folder / "loki.yaml").write_text(config + more.format(folder=folder), encoding="utf-8")
            return [binary, "-config.file=loki.yaml"]

        server, ports = Server.start("loki", folder, 3, command, lambda ports: f"http://127.0.0.1:{ports[0]}/ready", 90)
        return cls(server, ports[0])

    def push(self, stream: Mapping[str, str], values: Sequence[Sequence[Any]]) -> None:
        """Push ``values``, each ``[nanoseconds as str, line]`` or with structured metadata as a third element."""
        body = json.dumps({"streams": [{"stream": dict(stream), "values": list(values)}]}).encode()
        request("POST", self.push_url, body, {"Content-Type": "application/json"}).ok()

    def query(
        self, logql: str, *, since: float = 3600.0, limit: int = 5000, start: int | None = None, end: int | None = None
    ) -> list[LokiEntry]:
        """The lines of a log query over the last ``since`` seconds, oldest first.

        ``start`` (included) and ``end`` (excluded) bound it in nanoseconds since the epoch instead.
        """
        now = time.time_ns()
        parameters = urlencode(
            {
                "query": logql,
                "start": str(now - int(since * 1e9) if start is None else start),
                "end": str(now + 60_000_000_000 if end is None else end),
                "limit": str(limit),
                "direction": "forward",
            }
        )
        # With this flag Loki says which label came from where, instead of one flat map.
        headers = {"X-Loki-Response-Encoding-Flags": "categorize-labels"}
        answer = request("GET", f"{self.url}/loki/api/v1/query_range?{parameters}", headers=headers, timeout=30).ok()
        found = []
        for stream in answer.json()["data"]["result"]:
            for moment, line, extra in stream["values"]:
                metadata, parsed = extra.get("structuredMetadata", {}), extra.get("parsed", {})
                found.append(LokiEntry(line, int(moment), stream["stream"], metadata, parsed))
        return sorted(found, key=lambda entry: entry.time)

    def metric(self, logql: str) -> list[Sample]:
        """The instant vector of a metric query (``count_over_time(…)``) a moment from now."""
        parameters = urlencode({"query": logql, "time": str(time.time_ns() + 1_000_000_000)})
        return vector(request("GET", f"{self.url}/loki/api/v1/query?{parameters}", timeout=30).ok().json())

    def series(self, match: str) -> list[dict[str, str]]:
        """The labels of each stream of the last hour that ``match`` selects."""
        parameters = urlencode({"match[]": match, "start": str(time.time_ns() - 3_600_000_000_000)})
        return [
            dict(each) for each in request("GET", f"{self.url}/loki/api/v1/series?{parameters}").ok().json()["data"]
        ]

    def stop(self) -> None:
        self.server.stop()


_TEMPO_CONFIG = """\
stream_over_http_enabled: true
server:
  http_listen_address: 127.0.0.1
  http_listen_port: {http}
  grpc_listen_address: 127.0.0.1
  grpc_listen_port: {internal}
  log_level: warn
distributor:
  receivers:
    otlp:
      protocols:
        grpc: {{endpoint: "127.0.0.1:{grpc}"}}
        http: {{endpoint: "127.0.0.1:{otlp}"}}
storage:
  trace:
    backend: local
    wal: {{path: ./data/wal}}
    local: {{path: ./data/blocks}}
live_store: {{wal: {{path: ./data/live-store}}, shutdown_marker_dir: ./data/shutdown-marker}}
backend_scheduler: {{local_work_path: ./data/scheduler}}
memberlist: {{bind_addr: ["127.0.0.1"], bind_port: {gossip}}}
usage_report: {{reporting_enabled: false}}
"""


class Tempo:
    """A Tempo in one process on the local disk."""

    def __init__(self, server: Server, ports: Sequence[int]) -> None:
        self.server = server
        self.url = f"http://127.0.0.1:{ports[0]}"
        self.http_endpoint = f"http://127.0.0.1:{ports[1]}"
        self.grpc_endpoint = f"http://127.0.0.1:{ports[2]}"

    @classmethod
    def start(cls, folder: Path) -> Tempo:
        """Start it with its data in ``folder``."""
        binary = program("tempo")

        def command(ports: Sequence[int]) -> list[str]:
            http, otlp, grpc, internal, gossip = ports
            config = _TEMPO_CONFIG.format(http=http, otlp=otlp, grpc=grpc, internal=internal, gossip=gossip)
            (folder / "tempo.yaml").write_text(config, encoding="utf-8")
            return [binary, "-config.file=tempo.yaml"]

        server, ports = Server.start(
            "tempo", folder, 5, command, lambda ports: f"http://127.0.0.1:{ports[0]}/ready", 90
        )
        return cls(server, ports)

    def trace(self, trace_id: str) -> list[otlpjson.Span]:
        """The spans of a trace by its id (32 hexadecimal digits); empty where Tempo has none.

        Readable at once, while TraceQL search lags 30 s (``query_end_cutoff``).
        """
        answer = request("GET", f"{self.url}/api/traces/{trace_id}", headers={"Accept": "application/json"})
        if answer.status == 404:
            return []
        return list(otlpjson.spans(answer.ok().json()))

    def search(self, traceql: str) -> list[str]:
        """Ids of the traces that a query finds, as Tempo writes them: without leading zeros. Lags 30 s, see above."""
        answer = request("GET", f"{self.url}/api/search?{urlencode({'q': traceql, 'limit': 20})}")
        return [each["traceID"] for each in answer.ok().json().get("traces", ())]

    def stop(self) -> None:
        self.server.stop()


# One line of an exposition: the name, the labels, the value.
_SAMPLE = re.compile(r"(\w+)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Alloy:
    """An Alloy with a configuration of the test's."""

    def __init__(self, server: Server, ports: Sequence[int]) -> None:
        self.server = server
        self.url = f"http://127.0.0.1:{ports[0]}"
        self.ports = ports[1:]

    @classmethod
    def start(
        cls,
        folder: Path,
        config: Path | Callable[[Sequence[int]], str],
        ports: int = 0,
        environ: Callable[[Sequence[int]], Mapping[str, str]] = lambda ports: {},
    ) -> Alloy:
        """Start it with its data in ``folder``; ready when the configuration is loaded.

        ``config`` is a file, or makes a text from ``ports`` free ports, as ``environ`` makes variables.
        Raises ServerError, with what Alloy said, for a configuration that does not load.
        """
        binary = program("alloy")

        def command(chosen: Sequence[int]) -> list[str]:
            if isinstance(config, Path):
                file = config
            else:
                file = folder / "config.alloy"
                file.write_text(config(chosen[1:]), encoding="utf-8")
            variables = [f"{name}={value}" for name, value in environ(chosen[1:]).items()]
            own = ["--disable-reporting", f"--server.http.listen-addr=127.0.0.1:{chosen[0]}", "--storage.path=data"]
            return ["env", *variables, binary, "run", *own, str(file)]

        def ready(chosen: Sequence[int]) -> str:
            return f"http://127.0.0.1:{chosen[0]}/-/ready"

        # A receiver whose port is taken is only a line in its log: Alloy is ready, and calls itself well.
        for _ in range(3):
            server, chosen = Server.start("alloy", folder, 1 + ports, command, ready, 60)
            if "address already in use" not in server.log.read_text("utf-8", "replace"):
                return cls(server, chosen)
            server.stop()
        raise ServerError(f"alloy found its ports taken three times:\n{server.log_tail()}")

    def unhealthy(self) -> str:
        """What Alloy says of components that are not well; empty where all are."""
        answer = request("GET", f"{self.url}/-/healthy")
        return "" if answer.status == 200 else answer.text

    def metrics(self) -> str:
        """Its exposition."""
        return request("GET", f"{self.url}/metrics").ok().text

    def sum(self, name: str, **labels: str) -> float:
        """The sum of its own series ``name`` that have all of ``labels``; 0 where there is none."""
        total = 0.0
        for line in self.metrics().splitlines():
            match = _SAMPLE.fullmatch(line)
            if match and match[1] == name and labels.items() <= dict(_LABEL.findall(match[2] or "")).items():
                total += float(match[3])
        return total

    def stop(self) -> None:
        self.server.stop()
