"""``fleetglass probe`` against real backends: green where all is well, and the right sentence for each way to break it.

VictoriaMetrics, VictoriaLogs and the Collector stand on their own here; Loki and Tempo are in test_probe_stack.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from telemetry import cli
from telemetry.testing import Receiver
from telemetry.testing.faults import Blackhole, Hang, Redirect, Refuse, Status
from tests.backends import programs
from tests.backends.process import Server, free_ports
from tests.backends.servers import Collector, VictoriaLogs, VictoriaMetrics
from tests.probing import Probe, by_signal, failed

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.timeout(150)


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Probe:
    """The command under settings."""
    return Probe(monkeypatch, capsys)


def settings(metrics: VictoriaMetrics | str = "", logs: VictoriaLogs | None = None) -> dict[str, str]:
    url = metrics if isinstance(metrics, str) else metrics.url
    return ({"FLEETGLASS_METRICS_PUSH_URL": url} if url else {}) | (
        {"FLEETGLASS_LOKI_URL": logs.push_url} if logs else {}
    )


@contextmanager
def victoria(folder: Path, *flags: str, scheme: str = "http") -> Iterator[str]:
    """A VictoriaMetrics with ``flags`` of its own; its URL."""
    if programs.find("victoria-metrics") is None:
        pytest.skip(programs.missing("victoria-metrics"))
    binary = programs.program("victoria-metrics")

    def command(ports: Sequence[int]) -> list[str]:
        own = ["-storageDataPath=data", f"-httpListenAddr=127.0.0.1:{ports[0]}", "-inmemoryDataFlushInterval=1s"]
        return [binary, *own, f"-pprofAuthKey=x{ports[1]}", *flags]

    # A second listener in clear text says that it is up, whatever the first one asks for.
    def ready(ports: Sequence[int]) -> str:
        return f"http://127.0.0.1:{ports[0]}/health"

    server, ports = Server.start(
        "victoria-metrics", folder, 2, command, ready, 30, status=400 if scheme == "https" else 200
    )
    try:
        yield f"{scheme}://127.0.0.1:{ports[0]}"
    finally:
        server.stop()


# --- green ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_is_configured_arrives_under_one_identity(
    probe: Probe, victoria_metrics: VictoriaMetrics, victoria_logs: VictoriaLogs
) -> None:
    said = probe(settings(victoria_metrics, victoria_logs))
    assert said["status"] == 0
    assert [said[signal]["state"] for signal in ("traces", "logs", "metrics")] == ["unsent", "arrived", "arrived"]
    assert said["logs"]["service"] == said["metrics"]["service"] == "fleetglass-probe"
    assert said["metrics"]["instance"] == said["expected"]["instance"]
    assert 0 < said["logs"]["late"] < 60
    [line] = victoria_logs.query(f'"{said["trace_id"]}"')
    assert line["trace_id"] == said["trace_id"], "the line is of the probe's own trace"


@pytest.mark.slow
def test_another_name_and_a_namespace_are_expected_where_they_are_set(
    probe: Probe, victoria_metrics: VictoriaMetrics, victoria_logs: VictoriaLogs
) -> None:
    environ = settings(victoria_metrics, victoria_logs) | {"FLEETGLASS_SERVICE_NAMESPACE": "team"}
    said = probe(environ, "--service", "smoke")
    assert said["status"] == 0
    assert (said["logs"]["service"], said["metrics"]["service"]) == ("smoke", "team/smoke")


def test_the_table_is_for_people(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, victoria_logs: VictoriaLogs
) -> None:
    monkeypatch.setenv("FLEETGLASS_LOKI_URL", victoria_logs.push_url)
    assert cli.main(["probe", "--timeout", "60"]) == 0
    shown = capsys.readouterr().out
    assert f"Loki push to {victoria_logs.push_url}" in shown
    assert "service_name=fleetglass-probe" in shown
    assert "traces: No OTLP endpoint is set" in shown


def test_a_service_without_settings_has_nothing_to_probe(probe: Probe) -> None:
    said = probe({})
    assert said["status"] == 2
    assert all(each["state"] == "unsent" and each["sentence"] for each in said["signals"])


def test_a_signal_that_must_be_there_fails_the_run_where_it_is_not_configured(
    probe: Probe, victoria_logs: VictoriaLogs
) -> None:
    assert probe(settings(logs=victoria_logs), "--require", "logs,traces")["status"] == 1
    assert probe(settings(logs=victoria_logs), "--require", "logs")["status"] == 0


def test_wrong_settings_are_named_and_nothing_is_sent(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEETGLASS_TEMPO_QUERY_URL", "tempo:3200")
    assert cli.main(["probe"]) == 2
    assert "FLEETGLASS_TEMPO_QUERY_URL" in capsys.readouterr().err


# --- broken on the way out --------------------------------------------------------------------------------


def test_a_wrong_path_of_each_backend_is_called_one(
    probe: Probe, victoria_metrics: VictoriaMetrics, victoria_logs: VictoriaLogs, otelcol: Collector
) -> None:
    said = probe(
        {
            "FLEETGLASS_METRICS_PUSH_URL": f"{victoria_metrics.url}/api/v1/push",
            "FLEETGLASS_LOKI_URL": f"{victoria_logs.url}/loki/api/v1/push",
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": otelcol.http_endpoint,
        }
    )
    failed(said, "metrics", "path", "/api/v1/import/prometheus", "FLEETGLASS_METRICS_PUSH_URL")
    failed(said, "logs", "path", "/insert/loki/api/v1/push", "FLEETGLASS_LOKI_URL")
    failed(said, "traces", "path", "takes traces at /v1/traces", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


@pytest.mark.slow
def test_a_grpc_port_spoken_http_is_told_from_a_dead_one(
    probe: Probe, otelcol: Collector, victoria_metrics: VictoriaMetrics
) -> None:
    environ = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": otelcol.grpc_endpoint,
        "FLEETGLASS_METRICS_PUSH_URL": otelcol.grpc_endpoint,
    }
    said = probe(environ, timeout=4)
    failed(said, "traces", "protocol", "speaks gRPC, not HTTP/1.1", "4318")
    failed(said, "metrics", "protocol", "VictoriaMetrics' HTTP port (8428)")


@pytest.mark.slow
def test_an_http_port_spoken_grpc_is_told_from_a_dead_one(probe: Probe, otelcol: Collector) -> None:
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": otelcol.http_endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
    failed(probe(environ, timeout=4), "traces", "protocol", "speaks HTTP/1.1, not gRPC", "4317")


@pytest.mark.slow
def test_tls_on_one_side_only_is_said_to_be_that(
    probe: Probe, otelcol: Collector, victoria_metrics: VictoriaMetrics
) -> None:
    environ = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": otelcol.grpc_endpoint.removeprefix("http://"),  # gRPC's default is TLS
        "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
        "FLEETGLASS_METRICS_PUSH_URL": victoria_metrics.url.replace("http:", "https:"),
    }
    said = probe(environ, timeout=4)
    failed(said, "traces", "tls", "speaks clear text", "OTEL_EXPORTER_OTLP_INSECURE=true")
    failed(said, "metrics", "tls", "speaks clear text", "write http://")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate that nobody trusts, and its key."""
    folder = tmp_path_factory.mktemp("certificate")
    made, key = folder / "cert.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=127.0.0.1",
               "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(made)]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    return made, key


@pytest.mark.slow
def test_a_tls_port_spoken_plain_and_an_untrusted_certificate_are_two_things(
    probe: Probe, tmp_path: Path, certificate: tuple[Path, Path]
) -> None:
    made, key = certificate
    flags = ("-tls", f"-tlsCertFile={made}", f"-tlsKeyFile={key}")
    with victoria(tmp_path, *flags, scheme="https") as url:
        plain = probe(settings(url.replace("https:", "http:")), timeout=4)
        failed(plain, "metrics", "tls", "speaks TLS", "write https://")
        strange = probe(settings(url), timeout=4)
        failed(strange, "metrics", "tls", "certificate", "SSL_CERT_FILE")


@pytest.mark.slow
def test_missing_credentials_are_asked_for_on_both_ways(probe: Probe, tmp_path: Path) -> None:
    with victoria(tmp_path, "-httpAuth.username=u", "-httpAuth.password=secret-word") as url:
        failed(probe(settings(url)), "metrics", "auth", "answered 401", "user:password@")
        known = url.replace("http://", "http://u:secret-word@")
        said = probe(settings(known))
        assert said["status"] == 0, "credentials of the push serve for reading at the same host"
        assert "secret-word" not in json.dumps(said)


@pytest.mark.slow
def test_a_name_that_does_not_resolve_and_a_port_where_nobody_is(probe: Probe) -> None:
    [port] = free_ports(1)
    environ = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://tempo.nowhere.invalid:4318",
        "FLEETGLASS_LOKI_URL": f"http://127.0.0.1:{port}",
    }
    said = probe(environ, timeout=3)
    failed(said, "traces", "unresolved", "tempo.nowhere.invalid does not resolve")
    failed(said, "logs", "refused", f"Nothing listens at 127.0.0.1:{port}", "FLEETGLASS_LOKI_URL")


@pytest.mark.slow
def test_a_black_hole_and_a_backend_that_hangs_are_two_things(probe: Probe) -> None:
    with Receiver() as hole, Receiver() as hung:
        hole.behave(Blackhole())
        hung.behave(Hang())
        environ = {"FLEETGLASS_LOKI_URL": hole.url, "FLEETGLASS_METRICS_PUSH_URL": hung.url}
        said = probe(environ, timeout=4)
        failed(said, "logs", "unreachable", "does not take a connection", "NetworkPolicy")
        failed(said, "metrics", "silent", "says nothing")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "trouble", "words"),
    [
        (Status(401, body="no org id\n"), "tenant", "FLEETGLASS_LOKI_TENANT"),
        (Redirect("/login", status=302), "redirect", "a redirect to /login"),
        (Status(400, body="entry has timestamp too old: 2020-01-01"), "clock", "refused the time of the record"),
        (Refuse(), "refused", "connection refused"),
    ],
    ids=["no tenant", "a login page", "too old", "gone"],
)
def test_what_a_log_store_answers_is_put_into_plain_words(probe: Probe, fault: Any, trouble: str, words: str) -> None:
    with Receiver() as receiver:
        receiver.behave(fault)
        said = probe({"FLEETGLASS_LOKI_URL": receiver.url}, timeout=4)
        failed(said, "logs", trouble, words)
        receiver.recover()


# --- broken on the way back -------------------------------------------------------------------------------


@pytest.mark.slow
def test_victoriametrics_own_otlp_endpoint_makes_no_job(probe: Probe, victoria_metrics: VictoriaMetrics) -> None:
    environ = {
        "OTEL_METRICS_EXPORTER": "otlp",
        "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": victoria_metrics.otlp_metrics_url,
    }
    failed(probe(environ), "metrics", "label", "own OTLP endpoint makes none", "otelcol.exporter.prometheus")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "trouble", "words"),
    [
        ("{action: replace, target_label: job, replacement: renamed}", "identity", 'job="renamed" instead of'),
        ("{action: labeldrop, regex: instance}", "label", "without the label instance"),
        ("{action: replace, target_label: instance, replacement: 'vm:1'}", "identity", 'instance="vm:1" instead of'),
        ("{action: drop, source_labels: [__name__], regex: 'telemetry_probe.*'}", "lost", "not in VictoriaMetrics"),
    ],
    ids=["job renamed", "instance dropped", "instance renamed", "series dropped"],
)
def test_a_relabel_rule_that_breaks_the_identity_is_noticed(
    probe: Probe, tmp_path: Path, rule: str, trouble: str, words: str
) -> None:
    (tmp_path / "relabel.yaml").write_text(f"- {rule}\n", encoding="utf-8")
    with victoria(tmp_path, "-relabelConfig=relabel.yaml") as url:
        said = probe(settings(url), timeout=12 if trouble == "lost" else 60)
        failed(said, "metrics", trouble, words)


@pytest.mark.slow
def test_what_a_collector_keeps_to_itself_is_told_from_what_is_refused(
    probe: Probe, otelcol: Collector, victoria_metrics: VictoriaMetrics, victoria_logs: VictoriaLogs
) -> None:
    [port] = free_ports(1)
    environ = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": otelcol.http_endpoint,
        "OTEL_METRICS_EXPORTER": "otlp",
        "FLEETGLASS_METRICS_QUERY_URL": victoria_metrics.url,
        "FLEETGLASS_LOKI_QUERY_URL": f"{victoria_logs.url}/select/logsql",
        "FLEETGLASS_TEMPO_QUERY_URL": f"http://127.0.0.1:{port}",
    }
    said = probe(environ, timeout=12)
    failed(said, "metrics", "lost", "a collector between them drops it", "FLEETGLASS_METRICS_QUERY_URL")
    failed(said, "logs", "lost", "not in VictoriaLogs")
    failed(said, "traces", "refused", "Acknowledged by", "can't be read back", "FLEETGLASS_TEMPO_QUERY_URL")
    [span] = [each for each in otelcol.spans("fleetglass-probe") if each.trace_id == said["trace_id"]]
    assert span.name == "fleetglass probe"


@pytest.mark.slow
def test_a_query_address_that_is_no_such_api_is_called_a_wrong_path(
    probe: Probe, victoria_metrics: VictoriaMetrics, victoria_logs: VictoriaLogs
) -> None:
    environ = settings(victoria_metrics, victoria_logs) | {
        "FLEETGLASS_METRICS_QUERY_URL": victoria_logs.url,
        "FLEETGLASS_LOKI_QUERY_URL": victoria_metrics.url,
    }
    said = probe(environ, timeout=20)
    failed(said, "metrics", "path", "the Prometheus API lies at /api/v1")
    failed(said, "logs", "path", "Loki's API lies at /loki/api/v1")


_SHIFTED = """\
import os, sys, time
real, shift = time.time, float(os.environ["SHIFT"])
time.time = lambda: real() + shift
real_ns = time.time_ns
time.time_ns = lambda: real_ns() + int(shift * 1e9)
from telemetry.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("shift", "words"), [(-7200.0, "is 120 min ahead of ours"), (120.0, "s behind ours")])
def test_a_machine_whose_clock_is_wrong_is_told_by_how_much(
    victoria_metrics: VictoriaMetrics, shift: float, words: str
) -> None:
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "SHIFT": str(shift)} | settings(victoria_metrics)
    done = subprocess.run(
        [sys.executable, "-c", _SHIFTED, "probe", "--json", "--timeout", "60"],
        env=environ,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    said = by_signal(json.loads(done.stdout))
    failed(said, "metrics", "clock", words, "NTP")
    assert done.returncode == 1
