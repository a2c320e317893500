"""The configurations of ``alloy/`` in a real Alloy: ``config.alloy`` with Loki, Tempo and VictoriaMetrics behind it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pytest

from tests.backends import programs
from tests.backends.process import eventually, free_ports
from tests.backends.servers import Sample, VictoriaMetrics
from tests.backends.stack import Alloy, Loki, LokiEntry, Tempo
from tests.integration.apps.lines import PAGE_TRACE
from tests.integration.test_one_identity import COUNT, ROUTE, running

pytestmark = [pytest.mark.stack, pytest.mark.slow, pytest.mark.timeout(180)]

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "alloy"
FILES = [FOLDER / "config.alloy", *sorted(FOLDER.glob("kubernetes/*.alloy")), *sorted(FOLDER.glob("modules/*.alloy"))]


@pytest.fixture(scope="session")
def alloy() -> str:
    """The path of Alloy."""
    if programs.find("alloy") is None:
        pytest.skip(programs.missing("alloy"))
    return programs.program("alloy")


@dataclass(frozen=True)
class Shipped:
    """The running ``config.alloy`` and the folders that it reads."""

    alloy: Alloy
    logs: Path
    targets: Path

    @property
    def endpoint(self) -> str:
        """Where services send OTLP over HTTP."""
        return f"http://127.0.0.1:{self.alloy.ports[1]}"


@pytest.fixture(scope="module")
def shipped(
    alloy: str, loki: Loki, tempo: Tempo, victoria_metrics: VictoriaMetrics, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shipped]:
    folder = tmp_path_factory.mktemp("alloy")
    logs, targets = folder / "logs", folder / "targets"
    logs.mkdir()
    targets.mkdir()

    def environ(ports: Sequence[int]) -> dict[str, str]:
        return {
            "LOKI_URL": loki.url,
            "TEMPO_OTLP_URL": tempo.http_endpoint,
            "VICTORIAMETRICS_URL": victoria_metrics.url,
            "OTLP_GRPC_LISTEN": f"127.0.0.1:{ports[0]}",
            "OTLP_HTTP_LISTEN": f"127.0.0.1:{ports[1]}",
            "LOG_FILES": f"{logs}/*.log",
            "SCRAPE_TARGETS": f"{targets}/*.json",
            "ENVIRONMENT_NAME": "test",
        }

    server = Alloy.start(folder, FOLDER / "config.alloy", 2, environ)
    try:
        yield Shipped(server, logs, targets)
    finally:
        server.stop()


@pytest.fixture
def service() -> str:
    """A service name that no other test uses."""
    return f"alloyed-{uuid.uuid4().hex[:12]}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(FOLDER)))
def test_alloy_finds_every_file_formatted_and_valid(alloy: str, path: Path) -> None:
    for command in (["fmt", "--test"], ["validate"]):
        done = subprocess.run([alloy, *command, str(path)], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_service_behind_config_alloy_is_one_identity_in_loki_tempo_and_victoriametrics(
    service: str, shipped: Shipped, loki: Loki, tempo: Tempo, victoria_metrics: VictoriaMetrics, tmp_path: Path
) -> None:
    settings = {"OTEL_EXPORTER_OTLP_ENDPOINT": shipped.endpoint, "OTEL_METRICS_EXPORTER": "otlp"}
    with running(service, tmp_path, settings) as app:
        app.get("/users/7")
        scraped = _scraped(shipped, victoria_metrics, service, app.address)
        app.end()

    stream = f'{{service_name="{service}", deployment_environment_name="test"}}'
    [access] = eventually(lambda: loki.query(f'{stream} | logfmt --strict | logger="access"'), timeout=30)
    assert access.parsed["msg"] == f"GET {ROUTE} 200"
    [span] = eventually(lambda: tempo.trace(access.metadata["trace_id"]), timeout=30)
    instance = span.resource["service.instance.id"]
    assert (span.service, span.name) == (service, f"GET {ROUTE}")

    counted = f'{COUNT}{{job="{service}",instance="{instance}",http_route="{ROUTE}"}}'
    [pushed] = eventually(lambda: victoria_metrics.query(counted), timeout=30)
    assert (pushed.value, scraped.value) == (1, 1)
    [info] = victoria_metrics.query(f'target_info{{job="{service}",instance="{instance}"}}')
    assert info.labels["deployment_environment_name"] == "test"


def _scraped(shipped: Shipped, metrics: VictoriaMetrics, service: str, address: str) -> Sample:
    """The request counter as Alloy scrapes it from ``address``, which it is told by a file of targets."""
    file = shipped.targets / f"{service}.json"
    file.write_text(json.dumps([{"targets": [address], "labels": {"job": service}}]), encoding="utf-8")
    counted = f'{COUNT}{{job="{service}",instance="{address}",http_route="{ROUTE}"}}'
    [sample] = eventually(lambda: metrics.query(counted), timeout=60)
    file.unlink()
    return sample


@pytest.mark.parametrize("form", ["logfmt", "json"])
def test_lines_of_a_file_keep_their_time_and_trace_and_bring_no_labels_of_the_page(
    form: str, service: str, shipped: Shipped, loki: Loki
) -> None:
    written = write_lines(shipped.logs / f"{service}.log", service, 40, {"FLEETGLASS_LOG_FORMAT": form})
    stream = f'{{service_name="{service}"}}'
    entries = eventually(lambda: _all(loki, stream, len(written)), timeout=60)

    assert [entry.line for entry in entries] == written
    for entry in entries:
        time = re.search(r'ts"?[=:]"?([\d:.TZ-]+)', entry.line)
        assert time is not None
        assert entry.time // 1_000_000 == round(datetime.fromisoformat(time[1]).timestamp() * 1000)
        trace = re.search(r'trace_id"?[=:]"?([0-9a-f]{32})', entry.line)
        assert entry.metadata.get("trace_id") == (trace[1] if trace else None)
        assert Path(entry.metadata["log_file_path"]).name == f"{service}.log"
    assert [entry.metadata.get("trace_id") for entry in entries].count(PAGE_TRACE) == 40
    assert loki.series(stream) == [{"service_name": service, "deployment_environment_name": "test"}]
    assert shipped.alloy.sum("loki_process_dropped_lines_total") == 0, "the limit is far above a test"


def write_lines(file: Path, service: str, count: int, settings: Mapping[str, str]) -> list[str]:
    """Let a process write to ``file``, ``count`` browser errors among it; the lines."""
    command = [sys.executable, "-m", "tests.integration.apps.lines", service, str(count)]
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "FLEETGLASS_STRICT": "1", **settings}
    with file.open("wb") as output:
        subprocess.run(command, cwd=ROOT, env=environ, stdout=output, timeout=60, check=True)
    return file.read_text(encoding="utf-8").splitlines()


def _all(loki: Loki, stream: str, count: int) -> list[LokiEntry]:
    entries = loki.query(stream)
    return entries if len(entries) >= count else []


def test_the_host_and_alloy_itself_are_in_victoriametrics(shipped: Shipped, victoria_metrics: VictoriaMetrics) -> None:
    [node] = eventually(lambda: victoria_metrics.query('node_boot_time_seconds{job="node-exporter"}'), timeout=60)
    [built] = eventually(lambda: victoria_metrics.query('alloy_build_info{job="alloy"}'), timeout=60)
    assert node.labels["instance"] == built.labels["instance"] == os.uname().nodename
    assert victoria_metrics.query('alloy_config_last_load_successful{job="alloy"} == 1') != []
    assert shipped.alloy.unhealthy() == ""


@pytest.mark.parametrize("name", ["node", "gateway"])
def test_the_configurations_for_a_cluster_load_with_all_their_modules(name: str, alloy: str, tmp_path: Path) -> None:
    # No cluster here: the API server is an address that nobody listens on, and ports are free ones.
    (nobody,) = free_ports(1)
    kubeconfig = tmp_path / "kubeconfig"
    cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{nobody}"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    users = [{"name": "u", "user": {}}]
    kubeconfig.write_text(
        json.dumps({"clusters": [cluster], "contexts": [context], "users": users, "current-context": "c"})
    )

    def config(ports: Sequence[int]) -> str:
        text = (FOLDER / "kubernetes" / f"{name}.alloy").read_text(encoding="utf-8")
        text = text.replace('"/host/root"', '"/"').replace('"/host/root', '"')
        for port in ports:
            text = re.sub(r'"(?:0\.0\.0\.0|127\.0\.0\.1):43\d\d"', f'"127.0.0.1:{port}"', text, count=1)
        targets = re.compile(r'(fleetglass\.pod_targets "\w+" \{)\s')
        assert targets.search(text)
        return targets.sub(rf'\1\n\tkubeconfig = "{kubeconfig}"\n', text).replace(
            'rootfs_path = ""', 'rootfs_path = "/"'
        )

    server = Alloy.start(tmp_path, config, 4, lambda ports: {"ALLOY_MODULES": str(FOLDER / "modules")})
    try:
        assert server.unhealthy() == ""
        assert server.sum("alloy_component_controller_running_components", health_type="healthy") > 10
    finally:
        server.stop()
