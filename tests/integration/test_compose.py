"""``examples/compose.yaml``: read by compose's own code, and what it starts, in one piece with what it mounts."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from telemetry import cli
from telemetry.stack import composed
from tests.backends import programs
from tests.backends.process import free_ports
from tests.backends.stack import Alloy, Tempo

ROOT = Path(__file__).parents[2]
FILE = ROOT / "examples" / "compose.yaml"
SECRETS = {"FLEETGLASS_RENDERER_TOKEN": "a-token-of-a-test", "GRAFANA_PASSWORD": "a-password-of-a-test"}


def resolved(file: Path = FILE, **variables: str) -> subprocess.CompletedProcess[str]:
    if programs.find("compose-check") is None:
        if os.environ.get("FLEETGLASS_REQUIRE_BACKENDS") == "1":
            pytest.fail(programs.missing("compose-check"), pytrace=False)
        pytest.skip(programs.missing("compose-check"))
    environ = {"PATH": os.environ["PATH"], **variables}
    command = [programs.program("compose-check"), str(file)]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=30)


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    """The project as compose resolves it."""
    done = resolved(**SECRETS)
    assert done.returncode == 0, done.stderr
    read: dict[str, Any] = json.loads(done.stdout)
    return read


@pytest.mark.parametrize("name", composed.example())
def test_the_example_is_what_make_docs_writes(name: str) -> None:
    assert (FILE.parent / name).read_text("utf-8") == composed.example()[name], "run `make docs`"


def test_compose_reads_it_and_knows_all_seven_services(project: dict[str, Any]) -> None:
    assert set(project["services"]) == {
        "victoriametrics",
        "vmalert",
        "loki",
        "tempo",
        "alloy",
        "renderer",
        "grafana",
    }
    assert set(project["volumes"]) == {"victoriametrics", "loki", "tempo", "alloy", "grafana"}


@pytest.mark.parametrize("absent", SECRETS)
def test_it_does_not_start_without_its_secrets(absent: str) -> None:
    done = resolved(**{name: value for name, value in SECRETS.items() if name != absent})
    assert done.returncode == 1
    assert absent in done.stderr


def test_a_file_that_compose_would_refuse_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "compose.yaml"
    file.write_text(FILE.read_text("utf-8").replace("depends_on: {victoriametrics:", "depends_on: {victoria:"))
    assert resolved(file, **SECRETS).returncode == 1


def test_every_image_is_pinned_to_a_version_and_every_service_has_a_health_check(project: dict[str, Any]) -> None:
    for name, service in project["services"].items():
        assert re.fullmatch(r"docker\.io/[a-z/-]+:v?\d+\.\d+\.\d+", service["image"]), name
        assert service["healthcheck"]["test"][0] == "CMD", name
        assert service["restart"] == "unless-stopped"
    store = re.search(r"v1\.(\d+)\.", project["services"]["victoriametrics"]["image"])
    # VictoriaMetrics#10889: from 1.132 to 1.141 a unit leaked onto the names of other metrics that came over OTLP.
    assert store is not None
    assert int(store[1]) >= 142


def test_everything_that_is_mounted_is_there(project: dict[str, Any]) -> None:
    mounted = [volume for service in project["services"].values() for volume in service.get("volumes", [])]
    for volume in mounted:
        if volume["type"] == "bind":
            assert Path(volume["source"]).exists(), volume
            assert volume["read_only"] is True
    assert sum(volume["type"] == "bind" for volume in mounted) == 7


def test_nothing_is_published_beyond_the_loopback_and_every_port_can_be_chosen(project: dict[str, Any]) -> None:
    published = [port for service in project["services"].values() for port in service.get("ports", [])]
    assert {port["host_ip"] for port in published} == {"127.0.0.1"}
    assert {port["published"] for port in published} == {
        *("8428", "8880", "3100", "3200", "12345", "4317", "4318", "3000"),
    }
    moved = json.loads(resolved(**SECRETS, GRAFANA_PORT="3001").stdout)["services"]["grafana"]
    assert moved["ports"][0]["published"] == "3001"
    assert moved["environment"]["GF_SERVER_ROOT_URL"] == "http://localhost:3001/"


def test_grafana_and_its_renderer_share_a_token_that_is_not_the_default(project: dict[str, Any]) -> None:
    """grafana/grafana-image-renderer#978: 401 for every picture; grafana/grafana#121408: `-` stops Grafana."""
    grafana = project["services"]["grafana"]["environment"]
    renderer = project["services"]["renderer"]["environment"]
    assert grafana["GF_RENDERING_RENDERER_TOKEN"] == renderer["AUTH_TOKEN"] == SECRETS["FLEETGLASS_RENDERER_TOKEN"]
    assert grafana["GF_RENDERING_SERVER_URL"].startswith("http://renderer:")
    assert grafana["GF_RENDERING_CALLBACK_URL"] == "http://grafana:3000/"


def test_no_usage_is_reported(project: dict[str, Any]) -> None:
    assert project["services"]["grafana"]["environment"]["GF_ANALYTICS_REPORTING_ENABLED"] == "false"
    assert "--disable-reporting" in project["services"]["alloy"]["command"]
    for name, key, switch in (
        ("loki", "analytics", "reporting_enabled"),
        ("tempo", "usage_report", "reporting_enabled"),
    ):
        config = yaml.safe_load((FILE.parent / "stack" / f"{name}.yaml").read_text("utf-8"))
        assert config[key][switch] is False


@pytest.mark.stack
@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        ("loki", ["-verify-config", "-config.file=examples/stack/loki.yaml"]),
        ("tempo", ["-config.verify", "-config.file=examples/stack/tempo.yaml"]),
        ("alloy", ["validate", "examples/stack/config.alloy"]),
    ],
)
def test_each_server_takes_its_configuration(program: str, arguments: list[str]) -> None:
    if programs.find(program) is None:
        pytest.skip(programs.missing(program))
    command = [programs.program(program), *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_our_own_checks_find_no_fault_with_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["grafana", "lint", str(FILE), str(FILE.parent / "stack")]) == 0
    assert cli.main(["alloy", "check", str(FILE.parent / "stack" / "config.alloy")]) == 0
    assert "0 errors, 0 notices" in capsys.readouterr().out


@pytest.mark.stack
@pytest.mark.slow
@pytest.mark.timeout(150)
def test_the_health_checks_of_tempo_and_alloy_tell_ready_from_not(
    project: dict[str, Any], tempo: Tempo, start_alloy: Callable[..., Alloy]
) -> None:
    [port] = free_ports(1)
    for name, url in (("tempo", tempo.url), ("alloy", start_alloy("").url)):
        check = project["services"][name]["healthcheck"]["test"][1:]
        check[0] = {"/tempo": programs.find("tempo")}.get(check[0], check[0])
        usual = {"tempo": 3200, "alloy": 12345}[name]
        for there, status in ((urlsplit(url).port, 0), (port, 1)):
            command = [str(word).replace(str(usual), str(there)) for word in check]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
            assert done.returncode == status, (command, done.stderr)
