"""The stack on paper: ports, files, commands and variables, for whichever parts are there."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import pytest
import yaml

from telemetry.stack import composed, engine, layout, processes
from telemetry.stack.composed import Places
from telemetry.stack.layout import Layout
from telemetry.stack.parts import NAMES, OWNERS, PARTS, PORTS, PortError, needed, ports
from tests.backends.process import eventually

ROOT = Path(__file__).parents[2]
ALL = {name: f"/opt/bin/{PARTS[name].programs[0]}" for name in NAMES}


def laid_out(*names: str, **given: int) -> Layout:
    return Layout(Path("/srv/stack"), ports(given), {name: ALL[name] for name in NAMES if name in (names or NAMES)})


# --- ports ------------------------------------------------------------------------------------------------


def test_no_two_parts_want_the_same_port_though_loki_and_tempo_would() -> None:
    assert len(set(PORTS.values())) == len(PORTS)
    assert PORTS["loki-grpc"] != 9095 or PORTS["tempo-grpc"] != 9095
    assert PORTS["loki-gossip"] != PORTS["tempo-gossip"]


def test_every_port_belongs_to_a_part() -> None:
    assert OWNERS.keys() == PORTS.keys()
    assert set(OWNERS.values()) == set(NAMES)


def test_ports_move_together_or_one_by_one() -> None:
    moved = ports({"grafana": 8080}, 1000)
    assert (moved["grafana"], moved["loki"], moved["otlp-http"]) == (8080, 4100, 5318)


@pytest.mark.parametrize(
    ("given", "offset", "words"),
    [
        ({"graphana": 1}, 0, "no port is called graphana"),
        ({"loki": 70000}, 0, "loki=70000"),
        ({}, 60000, "a port lies between 1 and 65535"),
        ({"loki": 3200}, 0, "loki and tempo both want 3200"),
    ],
)
def test_ports_that_cannot_be_are_named(given: dict[str, int], offset: int, words: str) -> None:
    with pytest.raises(PortError, match=words):
        ports(given, offset)


def test_without_alloy_tempo_takes_what_services_send() -> None:
    alone = needed(["tempo", "loki"], ports({}))
    assert (alone["otlp-http"], alone["otlp-grpc"]) == (4318, 4317)
    assert "tempo-otlp-http" not in alone
    assert "alloy" not in alone
    assert 'http: {endpoint: "127.0.0.1:4318"}' in layout.configuration(laid_out("tempo"))["etc/tempo.yaml"]
    both = layout.configuration(laid_out("tempo", "alloy"))
    assert 'http: {endpoint: "127.0.0.1:14318"}' in both["etc/tempo.yaml"]
    assert 'endpoint = "127.0.0.1:4318"' in both["etc/config.alloy"]


# --- files and commands -----------------------------------------------------------------------------------


def test_only_files_of_parts_that_are_there_are_written() -> None:
    assert set(layout.configuration(laid_out("loki", "victoriametrics"))) == {"etc/loki.yaml"}
    assert {"etc/loki.yaml", "etc/tempo.yaml", "etc/config.alloy", "etc/grafana.ini"} <= set(
        layout.configuration(laid_out())
    )


def test_no_hole_is_left_and_every_yaml_file_reads() -> None:
    for name, text in layout.configuration(laid_out()).items():
        assert "@{" not in text, name
        if name.endswith(".yaml"):
            assert isinstance(yaml.safe_load(text), dict), name


def test_everything_that_is_kept_lies_in_the_folder_and_everything_listens_on_the_loopback() -> None:
    texts = layout.configuration(laid_out())
    for name in ("etc/loki.yaml", "etc/tempo.yaml", "etc/grafana.ini"):
        assert "/srv/stack/data/" in texts[name]
        assert "0.0.0.0" not in texts[name]
    tempo = yaml.safe_load(texts["etc/tempo.yaml"])
    # Tempo keeps these in /var/tempo unless each is named.
    assert tempo["live_store"]["wal"]["path"] == "/srv/stack/data/tempo/live-store"
    assert tempo["backend_scheduler"]["local_work_path"].startswith("/srv/stack/data/")
    for name in NAMES:
        words = layout.command(laid_out(), name)
        assert words[0] == ALL[name]
        assert not [word for word in words if "0.0.0.0" in word or "=:" in word]


def test_nothing_reports_usage() -> None:
    texts = layout.configuration(laid_out())
    assert yaml.safe_load(texts["etc/loki.yaml"])["analytics"] == {"reporting_enabled": False}
    assert yaml.safe_load(texts["etc/tempo.yaml"])["usage_report"] == {"reporting_enabled": False}
    assert "--disable-reporting" in layout.command(laid_out(), "alloy")
    assert "reporting_enabled = false" in texts["etc/grafana.ini"]


def test_grafana_is_provisioned_with_the_uids_that_dashboards_and_alerts_name() -> None:
    texts = layout.configuration(laid_out(loki=3999))
    sources = yaml.safe_load(texts["etc/provisioning/datasources/fleetglass.yaml"])["datasources"]
    assert {source["uid"]: source["url"] for source in sources} == {
        "VictoriaMetrics": "http://127.0.0.1:8428",
        "loki": "http://127.0.0.1:3999",
        "tempo": "http://127.0.0.1:3200",
    }
    assert "etc/dashboards/fleetglass-overview.json" in texts
    [provider] = yaml.safe_load(texts["etc/provisioning/dashboards/fleetglass.yaml"])["providers"]
    assert provider["options"]["path"] == "/srv/stack/etc/dashboards"


def test_the_first_values_file_watches_what_is_there_and_makes_rules() -> None:
    text = layout.first_values(laid_out("victoriametrics", "loki", "vmalert", "alloy"))
    assert [each["job"] for each in yaml.safe_load(text)["exporters"]] == [
        "victoriametrics",
        "loki",
        "vmalert",
        "alloy",
        "node-exporter",
    ]
    rules = layout.rules(text)
    groups = yaml.safe_load(rules["etc/rules/fleetglass.yaml"])["groups"]
    assert {"fleetglass-telemetry", "fleetglass-absent"} <= {group["name"] for group in groups}
    # Without Alloy nobody scrapes, and a guard for what nobody scrapes would fire for ever.
    assert yaml.safe_load(layout.first_values(laid_out("victoriametrics", "vmalert")))["exporters"] == []


def test_the_first_values_file_names_the_jobs_that_the_stack_scrapes() -> None:
    whole = laid_out()
    scraped = layout.configuration(whole)["etc/config.alloy"]
    jobs = set(re.findall(r'"job" = "([^"]+)"', scraped))
    jobs |= set(re.findall(r'target_label = "job"\s+replacement\s+= "([^"]+)"', scraped))
    watched = [(each["kind"], each["job"]) for each in yaml.safe_load(layout.first_values(whole))["exporters"]]
    assert {job for _, job in watched} == jobs
    # One name for the host's metrics wherever they come from: the module, vmagent, the example of alert values.
    module = (ROOT / "alloy/modules/host_metrics.alloy").read_text("utf-8")
    [default] = re.findall(r'argument "job" \{\n\t+optional = true\n\t+default  = "([^"]+)"', module)
    vmagent = yaml.safe_load((ROOT / "alloy/vmagent/scrape.yaml").read_text("utf-8"))["scrape_configs"]
    example = yaml.safe_load((ROOT / "examples/alerts/values.yaml").read_text("utf-8"))["exporters"]
    names = {each["job"] for each in example if each["kind"] == "node"} | {dict(watched)["node"], default}
    assert names == {layout.MACHINE}
    assert layout.MACHINE in {each["job_name"] for each in vmagent}


def test_variables_send_through_alloy_where_there_is_one_and_directly_where_there_is_none() -> None:
    assert layout.environment(laid_out("victoriametrics", "loki", "tempo", "alloy")) == {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318",
        "OTEL_METRICS_EXPORTER": "otlp",
        "FLEETGLASS_TEMPO_QUERY_URL": "http://127.0.0.1:3200",
        "FLEETGLASS_LOKI_QUERY_URL": "http://127.0.0.1:3100",
        "FLEETGLASS_METRICS_QUERY_URL": "http://127.0.0.1:8428",
    }
    assert layout.environment(laid_out("victoriametrics", "tempo")) == {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318",
        "OTEL_LOGS_EXPORTER": "none",
        "FLEETGLASS_METRICS_PUSH_URL": "http://127.0.0.1:8428",
        "FLEETGLASS_TEMPO_QUERY_URL": "http://127.0.0.1:3200",
        "FLEETGLASS_METRICS_QUERY_URL": "http://127.0.0.1:8428",
    }


# --- containers -------------------------------------------------------------------------------------------


def test_the_compose_folder_holds_all_that_is_mounted_and_its_secrets_are_made_once(tmp_path: Path) -> None:
    composed.write(tmp_path, ports({"grafana": 3001}))
    file = yaml.safe_load((tmp_path / "compose.yaml").read_text("utf-8"))
    for service in file["services"].values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert source in file["volumes"] or (tmp_path / source).exists(), source
    assert file["services"]["grafana"]["ports"] == ["127.0.0.1:${GRAFANA_PORT:-3001}:3000"]
    secret = tmp_path / ".env"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    first = secret.read_text("utf-8")
    (tmp_path / "values.yaml").write_text((tmp_path / "values.yaml").read_text("utf-8") + "# mine\n", "utf-8")
    composed.write(tmp_path, ports({}))
    assert secret.read_text("utf-8") == first
    assert "# mine" in (tmp_path / "values.yaml").read_text("utf-8")
    assert composed.environment(tmp_path)["OTEL_EXPORTER_OTLP_ENDPOINT"] == "http://127.0.0.1:4318"


def test_servers_in_containers_listen_where_others_reach_them_and_talk_by_name() -> None:
    texts = composed.configuration()
    tempo = yaml.safe_load(texts["tempo.yaml"])
    assert tempo["distributor"]["receivers"]["otlp"]["protocols"] == {
        "grpc": {"endpoint": "0.0.0.0:4317"},
        "http": {"endpoint": "0.0.0.0:4318"},
    }
    assert tempo["storage"]["trace"]["wal"]["path"] == "/var/tempo/wal"
    assert yaml.safe_load(texts["loki.yaml"])["common"]["path_prefix"] == "/loki"
    assert 'endpoint = "http://loki:3100/otlp"' in texts["config.alloy"]
    assert 'endpoint = "http://tempo:4318"' in texts["config.alloy"]
    assert 'url            = "http://victoriametrics:8428/api/v1/write"' in texts["config.alloy"]


def test_paths_of_the_compose_file_can_lead_elsewhere() -> None:
    text = composed.compose(PORTS, Places(dashboards="../boards"))
    assert "../boards:/var/lib/fleetglass/dashboards:ro" in text


def test_a_client_without_a_daemon_is_no_container_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Docker's command is often there where nothing answers it."""
    docker = tmp_path / "docker"
    docker.write_text('#!/bin/sh\n[ "$1" = compose ]\n', encoding="utf-8")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert engine.find() is None
    docker.write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")
    assert engine.find() == ("docker", "compose")
    docker.unlink()
    assert engine.find() is None


def test_compose_is_given_the_written_folder_under_one_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A program that writes down how it is called, in place of an engine that is not to be had here."""
    docker = tmp_path / "docker"
    docker.write_text('#!/bin/sh\n[ "$1 $2" = "compose version" ] || echo "$@"\n', encoding="utf-8")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    said: list[str] = []
    engine.up(tmp_path, ports({"grafana": 3001}), said.append)
    file = tmp_path / "compose" / "compose.yaml"
    project = f"compose --project-name fleetglass --file {file}"
    assert file.is_file()
    assert f"{project} up --detach --wait\n" in capfd.readouterr().out
    engine.down(tmp_path)
    assert f"{project} down\n" in capfd.readouterr().out
    assert engine.status(tmp_path) == f"{project} ps --all"
    docker.write_text("#!/bin/sh\n[ $# -eq 2 ] || [ $1 = info ]\n", encoding="utf-8")
    with pytest.raises(engine.EngineError, match="ended with 1"):
        engine.down(tmp_path)


# --- processes --------------------------------------------------------------------------------------------


def test_a_process_is_known_by_its_pid_and_its_start(tmp_path: Path) -> None:
    record = processes.start(["/bin/sh", "-c", "pwd; exec sleep 60"], tmp_path, tmp_path / "log")
    try:
        assert processes.alive(record)
        said = tmp_path / "log"
        assert eventually(lambda: said.read_text("utf-8").strip() == str(tmp_path)), "it runs in the folder given"
        stranger = processes.Record(record.pid, record.began - 1, record.command, record.boot)
        assert not processes.alive(stranger)
        assert processes.stop({stranger: 0.1}) == []
        assert processes.alive(record), "a pid that is another's by now is left alone"
        rebooted = processes.Record(record.pid, record.began, record.command, "another boot")
        assert not processes.alive(rebooted)
    finally:
        assert processes.stop({record: 30}) == []
    assert not processes.alive(record)


def test_what_does_not_want_to_end_is_made_to(tmp_path: Path) -> None:
    script = "trap '' TERM; echo ready; while :; do sleep 0.1; done"
    record = processes.start(["/bin/sh", "-c", script], tmp_path, tmp_path / "log")
    from tests.backends.process import eventually

    assert eventually(lambda: "ready" in (tmp_path / "log").read_text("utf-8"), timeout=20)
    assert processes.stop({record: 0.3}) == [record]
    assert not processes.alive(record)


def test_the_remains_of_a_process_do_not_count_as_one(tmp_path: Path) -> None:
    record = processes.start(["/bin/true"], tmp_path, tmp_path / "log")
    from tests.backends.process import eventually

    assert eventually(lambda: not processes.alive(record), timeout=20)
    os.waitpid(record.pid, 0)
