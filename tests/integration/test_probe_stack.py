"""``fleetglass probe`` against real Loki, Tempo and VictoriaMetrics: direct, through Alloy, and broken on purpose."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.backends import programs, stack
from tests.backends.process import Server, free_ports
from tests.backends.servers import VictoriaMetrics
from tests.backends.stack import Alloy, Loki, Tempo
from tests.probing import Probe, by_signal, failed

ROOT = Path(__file__).parents[2]
SIGNALS = ("traces", "logs", "metrics")

pytestmark = [pytest.mark.stack, pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Probe:
    """The command under settings."""
    return Probe(monkeypatch, capsys)


def green(said: dict[str, Any], *signals: str) -> None:
    assert said["status"] == 0, said
    assert [said[signal]["state"] for signal in signals or SIGNALS] == ["arrived"] * len(signals or SIGNALS)
    assert {said[signal]["service"] for signal in signals or SIGNALS} == {"fleetglass-probe"}


# --- green ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_all_three_arrive_directly(
    probe: Probe, protocol: str, tempo: Tempo, loki: Loki, victoria_metrics: VictoriaMetrics
) -> None:
    said = probe(
        {
            "OTEL_EXPORTER_OTLP_ENDPOINT": tempo.grpc_endpoint if protocol == "grpc" else tempo.http_endpoint,
            "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
            "FLEETGLASS_LOKI_URL": loki.url,
            "FLEETGLASS_METRICS_PUSH_URL": victoria_metrics.url,
            "FLEETGLASS_TEMPO_QUERY_URL": tempo.url,
        }
    )
    green(said)
    assert said["traces"]["instance"] == said["metrics"]["instance"] == said["expected"]["instance"]
    [span] = tempo.trace(said["trace_id"])
    assert span.resource["service.instance.id"] == said["traces"]["instance"]


def test_lines_arrive_over_lokis_own_otlp_endpoint(probe: Probe, loki: Loki) -> None:
    said = probe({"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": loki.otlp_logs_url}, "--only", "logs")
    green(said, "logs")
    assert said["logs"]["instance"] == said["expected"]["instance"]


@pytest.fixture(scope="module")
def alloy(
    loki: Loki, tempo: Tempo, victoria_metrics: VictoriaMetrics, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Alloy]:
    """The shipped ``config.alloy`` before the three backends; its ports are those of OTLP over gRPC and HTTP."""
    if programs.find("alloy") is None:
        pytest.skip(programs.missing("alloy"))
    folder = tmp_path_factory.mktemp("alloy")

    def environ(ports: Sequence[int]) -> dict[str, str]:
        return {
            "LOKI_URL": loki.url,
            "TEMPO_OTLP_URL": tempo.http_endpoint,
            "VICTORIAMETRICS_URL": victoria_metrics.url,
            "OTLP_GRPC_LISTEN": f"127.0.0.1:{ports[0]}",
            "OTLP_HTTP_LISTEN": f"127.0.0.1:{ports[1]}",
            "LOG_FILES": f"{folder}/*.log.none",
            "SCRAPE_TARGETS": f"{folder}/*.json",
        }

    server = Alloy.start(folder, ROOT / "alloy" / "config.alloy", 2, environ)
    yield server
    server.stop()


def reading(loki: Loki, tempo: Tempo, metrics: VictoriaMetrics) -> dict[str, str]:
    return {
        "FLEETGLASS_TEMPO_QUERY_URL": tempo.url,
        "FLEETGLASS_LOKI_QUERY_URL": loki.url,
        "FLEETGLASS_METRICS_QUERY_URL": metrics.url,
    }


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_all_three_arrive_through_alloy(
    probe: Probe, protocol: str, alloy: Alloy, tempo: Tempo, loki: Loki, victoria_metrics: VictoriaMetrics
) -> None:
    port = alloy.ports[0 if protocol == "grpc" else 1]
    said = probe(
        {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}",
            "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
            "OTEL_METRICS_EXPORTER": "otlp",
        }
        | reading(loki, tempo, victoria_metrics),
    )
    green(said)
    assert said["metrics"]["instance"] == said["expected"]["instance"]


# --- broken -----------------------------------------------------------------------------------------------


def test_alloys_two_ports_mixed_up(
    probe: Probe, alloy: Alloy, tempo: Tempo, loki: Loki, victoria_metrics: VictoriaMetrics
) -> None:
    common = reading(loki, tempo, victoria_metrics) | {"OTEL_METRICS_EXPORTER": "otlp"}
    said = probe(common | {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{alloy.ports[0]}"}, timeout=5)
    for signal in SIGNALS:
        failed(said, signal, "protocol", "speaks gRPC, not HTTP/1.1")
    grpc = {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{alloy.ports[1]}"}
    said = probe(common | grpc, timeout=5)
    for signal in SIGNALS:
        failed(said, signal, "protocol", "speaks HTTP/1.1, not gRPC")


def test_lokis_two_paths_mixed_up(probe: Probe, loki: Loki) -> None:
    """grafana/loki#16174 and #14037: a push to /otlp, OTLP to /loki/api/v1/push."""
    failed(probe({"FLEETGLASS_LOKI_URL": loki.otlp_logs_url}), "logs", "path", "takes pushes at /loki/api/v1/push")
    failed(probe({"FLEETGLASS_LOKI_URL": loki.otlp_endpoint}), "logs", "path", "takes pushes at /loki/api/v1/push")
    failed(probe({"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": loki.push_url}), "logs", "path", "Loki at /otlp/v1/logs")


def test_tempos_own_port_takes_no_otlp(probe: Probe, tempo: Tempo) -> None:
    said = probe({"OTEL_EXPORTER_OTLP_ENDPOINT": tempo.url, "OTEL_LOGS_EXPORTER": "none"})
    failed(said, "traces", "path", "takes traces at /v1/traces")


def test_a_tempo_that_was_not_sent_to_does_not_know_the_trace(
    probe: Probe, alloy: Alloy, tempo: Tempo, tmp_path: Path
) -> None:
    other = Tempo.start(tmp_path)
    try:
        environ = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": tempo.http_endpoint,
            "OTEL_LOGS_EXPORTER": "none",
            "FLEETGLASS_TEMPO_QUERY_URL": other.url,
        }
        said = probe(environ, timeout=12)
        failed(said, "traces", "lost", "Acknowledged by", "FLEETGLASS_TEMPO_QUERY_URL names another store")
    finally:
        other.stop()


def test_a_query_address_that_is_lokis_is_not_taken_for_tempos(probe: Probe, tempo: Tempo, loki: Loki) -> None:
    environ = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": tempo.http_endpoint,
        "OTEL_LOGS_EXPORTER": "none",
        "FLEETGLASS_TEMPO_QUERY_URL": loki.url,
    }
    failed(probe(environ), "traces", "path", "Tempo's API lies at /api/traces")


@pytest.fixture(scope="module")
def tenants(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a Loki that keeps tenants."""
    if programs.find("loki") is None:
        pytest.skip(programs.missing("loki"))
    folder = tmp_path_factory.mktemp("tenants")
    binary = programs.program("loki")

    def command(ports: Sequence[int]) -> list[str]:
        config = stack._LOKI_CONFIG.format(http=ports[0], grpc=ports[1], gossip=ports[2], folder=folder)
        text = config.replace("auth_enabled: false", "auth_enabled: true")
        (folder / "loki.yaml").write_text(text, encoding="utf-8")
        return [binary, "-config.file=loki.yaml"]

    server, ports = Server.start("loki", folder, 3, command, lambda ports: f"http://127.0.0.1:{ports[0]}/ready", 90)
    yield f"http://127.0.0.1:{ports[0]}"
    server.stop()


def test_a_loki_that_keeps_tenants_asks_for_one_and_knows_which(probe: Probe, tenants: str) -> None:
    environ = {"FLEETGLASS_LOKI_URL": tenants}
    failed(probe(environ), "logs", "tenant", "keeps tenants and was told none: set FLEETGLASS_LOKI_TENANT")
    over_otlp = {"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": f"{tenants}/otlp/v1/logs"}
    failed(probe(over_otlp), "logs", "tenant", "x-scope-orgid in OTEL_EXPORTER_OTLP_HEADERS")

    green(probe(environ | {"FLEETGLASS_LOKI_TENANT": "a"}), "logs")
    wrong = environ | {"FLEETGLASS_LOKI_TENANT": "a", "FLEETGLASS_QUERY_HEADERS": "x-scope-orgid=b"}
    failed(probe(wrong, timeout=12), "logs", "tenant", "Arrived under tenant a, but is read under tenant b")


_PUSH = """\
loki.source.api "in" {{
	http {{
		listen_address = "127.0.0.1"
		listen_port    = {port}
	}}
	forward_to = [loki.process.lines.receiver]
}}

loki.process "lines" {{
	forward_to = [loki.write.loki.receiver]

	{stage}
}}

loki.write "loki" {{
	endpoint {{
		url = "{url}"
	}}
}}
"""


@pytest.mark.parametrize(
    ("stage", "trouble", "words"),
    [
        ('stage.label_drop {\n\t\tvalues = ["service_name"]\n\t}', "label", 'service_name="unknown_service"'),
        ('stage.static_labels {\n\t\tvalues = {service_name = "gateway"}\n\t}', "identity", 'service_name="gateway"'),
        ('stage.drop {\n\t\texpression = "probe"\n\t}', "lost", "a collector between them drops it"),
    ],
    ids=["label dropped", "label replaced", "line dropped"],
)
def test_what_alloy_does_to_lines_on_the_way_is_noticed(
    probe: Probe, start_alloy: Callable[..., Alloy], loki: Loki, stage: str, trouble: str, words: str
) -> None:
    def config(ports: Sequence[int]) -> str:
        return _PUSH.format(port=ports[0], stage=stage, url=loki.push_url)

    server = start_alloy(config, 1)
    environ = {
        "FLEETGLASS_LOKI_URL": f"http://127.0.0.1:{server.ports[0]}",
        "FLEETGLASS_LOKI_QUERY_URL": loki.url,
    }
    failed(probe(environ, timeout=20), "logs", trouble, words)


def test_a_push_receiver_is_not_asked_for_what_it_took(
    probe: Probe, start_alloy: Callable[..., Alloy], loki: Loki
) -> None:
    """Alloy takes pushes as Loki does, and answers no query: the address to read from has to be given."""
    server = start_alloy(lambda ports: _PUSH.format(port=ports[0], stage="", url=loki.push_url), 1)
    said = probe({"FLEETGLASS_LOKI_URL": f"http://127.0.0.1:{server.ports[0]}"})
    failed(said, "logs", "path", "can't be read back", "FLEETGLASS_LOKI_QUERY_URL")


_SHIFTED = """\
import os, sys, time
real, real_ns, shift = time.time, time.time_ns, float(os.environ["SHIFT"])
time.time = lambda: real() + shift
time.time_ns = lambda: real_ns() + int(shift * 1e9)
from telemetry.cli import main
sys.exit(main(sys.argv[1:]))
"""


def shifted(environ: Mapping[str, str], shift: float) -> dict[str, Any]:
    """The probe on a machine whose clock is ``shift`` seconds ahead."""
    done = subprocess.run(
        [sys.executable, "-c", _SHIFTED, "probe", "--json", "--timeout", "30"],
        env={**os.environ, "PYTHONPATH": str(ROOT), "SHIFT": str(shift), **environ},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return by_signal(json.loads(done.stdout))


@pytest.mark.parametrize(("shift", "words"), [(-9 * 86400.0, "216 h ahead of ours"), (3 * 3600.0, "3 h behind ours")])
def test_a_time_that_loki_refuses_is_a_matter_of_clocks(loki: Loki, shift: float, words: str) -> None:
    failed(shifted({"FLEETGLASS_LOKI_URL": loki.url}, shift), "logs", "clock", "refused the time", words, "NTP")


def test_a_time_that_tempo_takes_is_still_a_matter_of_clocks(tempo: Tempo) -> None:
    environ = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": tempo.http_endpoint,
        "OTEL_LOGS_EXPORTER": "none",
        "FLEETGLASS_TEMPO_QUERY_URL": tempo.url,
    }
    failed(shifted(environ, 600.0), "traces", "clock", "10 min behind ours")


def test_nobody_there_is_said_of_each_of_the_three(probe: Probe) -> None:
    otlp, logs, metrics = free_ports(3)
    said = probe(
        {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{otlp}",
            "FLEETGLASS_LOKI_URL": f"http://127.0.0.1:{logs}",
            "FLEETGLASS_METRICS_PUSH_URL": f"http://127.0.0.1:{metrics}",
        },
        timeout=3,
    )
    for signal, port in zip(SIGNALS, (otlp, logs, metrics), strict=True):
        failed(said, signal, "refused", f"Nothing listens at 127.0.0.1:{port}")
