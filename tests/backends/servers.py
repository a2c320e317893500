"""The backends as typed clients: start one, send to it what the library sends, read back what it understood.

Each class has ``start(folder)``, which needs the binary, keeps its data in ``folder`` and returns when the
server is ready, and ``stop()``. Several tests share a running server: a test finds its own records by a
service name that only it uses. Loki and Tempo are in ``stack``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlencode

from tests.backends import otlpjson
from tests.backends.process import Server, request
from tests.backends.programs import program


class Stoppable(Protocol):
    """What every backend class can do."""

    def stop(self) -> None: ...


@dataclass(frozen=True)
class Sample:
    """One element of an instant vector; ``time`` in seconds since the epoch."""

    labels: Mapping[str, str]
    value: float
    time: float


def vector(answer: Any) -> list[Sample]:
    """The samples of a Prometheus API answer whose result is an instant vector."""
    result = answer["data"]["result"]
    return [Sample(each["metric"], float(each["value"][1]), float(each["value"][0])) for each in result]


_SCRAPE_CONFIG = """\
global: {scrape_interval: 1s, scrape_timeout: 1s}
scrape_configs:
  - {job_name: tests, file_sd_configs: [{files: ["targets/*.json"]}]}
"""


class VictoriaMetrics:
    """A single-node VictoriaMetrics with the response cache and the latency offset off."""

    def __init__(self, server: Server, port: int, folder: Path) -> None:
        self.server = server
        self._targets = folder / "targets"
        self.url = f"http://127.0.0.1:{port}"
        self.push_url = f"{self.url}/api/v1/import/prometheus"
        self.otlp_metrics_url = f"{self.url}/opentelemetry/v1/metrics"

    @classmethod
    def start(cls, folder: Path) -> VictoriaMetrics:
        """Start it with its data in ``folder``; ready in about 0.3 s."""
        binary = program("victoria-metrics")
        (folder / "targets").mkdir()
        (folder / "scrape.yaml").write_text(_SCRAPE_CONFIG, encoding="utf-8")

        def command(ports: Sequence[int]) -> list[str]:
            return [
                binary,
                "-storageDataPath=data",
                f"-httpListenAddr=127.0.0.1:{ports[0]}",
                "-search.latencyOffset=0s",
                "-search.disableCache",
                "-opentelemetry.usePrometheusNaming=true",
                "-promscrape.config=scrape.yaml",
                "-promscrape.fileSDCheckInterval=1s",
                "-memory.allowedBytes=256MiB",
            ]

        server, ports = Server.start(
            "victoria-metrics", folder, 1, command, lambda ports: f"http://127.0.0.1:{ports[0]}/health", 30
        )
        return cls(server, ports[0], folder)

    @contextmanager
    def scraping(self, address: str, job: str) -> Iterator[None]:
        """Scrape ``http://address/metrics`` each second meanwhile, under ``job`` and ``instance=address``.

        The first scrape comes within about three seconds.
        """
        file = self._targets / f"{job}-{address.replace(':', '-')}.json"
        written = file.with_suffix(".new")
        written.write_text(json.dumps([{"targets": [address], "labels": {"job": job}}]), encoding="utf-8")
        written.rename(file)
        try:
            yield
        finally:
            file.unlink()

    def push(self, text: str) -> None:
        """Import samples in Prometheus text; a timestamp is milliseconds since the epoch."""
        request("POST", self.push_url, text.encode()).ok()

    def force_flush(self) -> None:
        """Make everything that was imported visible to queries."""
        request("GET", f"{self.url}/internal/force_flush").ok()

    def query(self, promql: str, at: float | None = None) -> list[Sample]:
        """The instant vector of ``promql`` at the time ``at`` (seconds; default five seconds from now).

        Flushes first. The default lies ahead because a sample stamped now is not visible to a query at now.
        """
        self.force_flush()
        moment = time.time() + 5 if at is None else at
        parameters = urlencode({"query": promql, "time": f"{moment:.3f}", "nocache": "1"})
        return vector(request("GET", f"{self.url}/api/v1/query?{parameters}").ok().json())

    def series(self, match: str) -> list[dict[str, str]]:
        """The label sets of the series that ``match`` selects, ``__name__`` among them; the last hour."""
        self.force_flush()
        now = time.time()
        parameters = urlencode({"match[]": match, "start": f"{now - 3600:.0f}", "end": f"{now + 60:.0f}"})
        data = request("GET", f"{self.url}/api/v1/series?{parameters}").ok().json()["data"]
        return [dict(each) for each in data]

    def stop(self) -> None:
        self.server.stop()


class VictoriaLogs:
    """A single-node VictoriaLogs: a reader of Loki pushes that is not Loki."""

    def __init__(self, server: Server, port: int) -> None:
        self.server = server
        self.url = f"http://127.0.0.1:{port}"
        self.push_url = f"{self.url}/insert/loki/api/v1/push"
        self.otlp_logs_url = f"{self.url}/insert/opentelemetry/v1/logs"

    @classmethod
    def start(cls, folder: Path) -> VictoriaLogs:
        """Start it with its data in ``folder``; ready in about 0.3 s."""
        binary = program("victoria-logs")

        def command(ports: Sequence[int]) -> list[str]:
            return [
                binary,
                "-storageDataPath=data",
                f"-httpListenAddr=127.0.0.1:{ports[0]}",
                "-loki.disableMessageParsing",  # a JSON line stays the line, as in Loki
                "-memory.allowedBytes=256MiB",
            ]

        server, ports = Server.start(
            "victoria-logs", folder, 1, command, lambda ports: f"http://127.0.0.1:{ports[0]}/health", 30
        )
        return cls(server, ports[0])

    def force_flush(self) -> None:
        """Make everything that was pushed visible to queries."""
        request("GET", f"{self.url}/internal/force_flush").ok()

    def query(self, logsql: str, limit: int = 10_000) -> list[dict[str, str]]:
        """The records that ``logsql`` finds, oldest first: ``_time``, ``_msg``, ``_stream``, labels and metadata.

        Flushes first. ``{service_name="x"}`` selects by label; a pipe ``unpack_logfmt`` takes the line apart.
        """
        self.force_flush()
        form = urlencode({"query": logsql, "limit": str(limit)}).encode()
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        answer = request("POST", f"{self.url}/select/logsql/query", form, headers).ok()
        found = [json.loads(line) for line in answer.body.splitlines() if line]
        return sorted(found, key=lambda record: str(record.get("_time", "")))

    def stop(self) -> None:
        self.server.stop()


class NodeExporter:
    """A node_exporter, which tells about this host; VictoriaMetrics scrapes ``address``."""

    def __init__(self, server: Server, port: int) -> None:
        self.server = server
        self.address = f"127.0.0.1:{port}"

    @classmethod
    def start(cls, folder: Path) -> NodeExporter:
        """Start it; ready in about 0.2 s."""
        binary = program("node-exporter")

        def command(ports: Sequence[int]) -> list[str]:
            # Its default leaves overlay out, which is the root file system of a container that tests may run in.
            return [
                binary,
                f"--web.listen-address=127.0.0.1:{ports[0]}",
                "--collector.filesystem.fs-types-exclude=^(autofs|cgroup2?|devpts|devtmpfs|mqueue|proc|sysfs|tmpfs)$",
            ]

        server, ports = Server.start(
            "node-exporter", folder, 1, command, lambda ports: f"http://127.0.0.1:{ports[0]}/", 30
        )
        return cls(server, ports[0])

    def stop(self) -> None:
        self.server.stop()


_COLLECTOR_CONFIG = """\
receivers:
  otlp:
    protocols:
      http: {{endpoint: "127.0.0.1:{http}"}}
      grpc: {{endpoint: "127.0.0.1:{grpc}"}}
exporters:
  file: {{path: out.jsonl, flush_interval: 50ms}}
service:
  telemetry: {{metrics: {{level: none}}, logs: {{level: warn}}}}
  pipelines:
    traces: {{receivers: [otlp], exporters: [file]}}
    logs: {{receivers: [otlp], exporters: [file]}}
    metrics: {{receivers: [otlp], exporters: [file]}}
"""


class Collector:
    """An OpenTelemetry Collector that writes what it receives to a file, read here as flat records.

    What it received appears within 0.1 s, so wrap a read in ``eventually``. ``service`` narrows to one
    ``service.name``.
    """

    def __init__(self, server: Server, folder: Path, ports: Sequence[int]) -> None:
        self.server = server
        self.http_endpoint = f"http://127.0.0.1:{ports[0]}"
        self.grpc_endpoint = f"http://127.0.0.1:{ports[1]}"
        self._file = folder / "out.jsonl"
        self._offset = 0
        self._spans: list[otlpjson.Span] = []
        self._logs: list[otlpjson.Log] = []
        self._points: list[otlpjson.Point] = []

    @classmethod
    def start(cls, folder: Path) -> Collector:
        """Start it with its output in ``folder``; ready in about 0.5 s."""
        binary = program("otelcol")

        def command(ports: Sequence[int]) -> list[str]:
            config = _COLLECTOR_CONFIG.format(http=ports[0], grpc=ports[1])
            (folder / "otelcol.yaml").write_text(config, encoding="utf-8")
            return [binary, "--config", "otelcol.yaml"]

        # It has no health page of its own: "not found" from the OTLP port, the last to open, says that it is up.
        def page(ports: Sequence[int]) -> str:
            return f"http://127.0.0.1:{ports[0]}/"

        server, ports = Server.start("otelcol", folder, 2, command, page, 30, status=404)
        return cls(server, folder, ports)

    def spans(self, service: str | None = None) -> list[otlpjson.Span]:
        """The spans received so far, in order of arrival."""
        self._read()
        return [each for each in self._spans if service is None or each.service == service]

    def logs(self, service: str | None = None) -> list[otlpjson.Log]:
        """The log records received so far, in order of arrival."""
        self._read()
        return [each for each in self._logs if service is None or each.service == service]

    def metrics(self, service: str | None = None) -> list[otlpjson.Point]:
        """The metric data points received so far, in order of arrival."""
        self._read()
        return [each for each in self._points if service is None or each.service == service]

    def _read(self) -> None:
        """Take in the complete lines that were written since the last read."""
        if not self._file.exists():
            return
        with self._file.open("rb") as file:
            file.seek(self._offset)
            fresh = file.read()
        complete = fresh[: fresh.rfind(b"\n") + 1]
        self._offset += len(complete)
        for line in complete.splitlines():
            document = json.loads(line)
            self._spans.extend(otlpjson.spans(document))
            self._logs.extend(otlpjson.logs(document))
            self._points.extend(otlpjson.points(document))

    def stop(self) -> None:
        self.server.stop()
