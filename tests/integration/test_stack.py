"""``fleetglass stack`` as a person runs it: up, probed, down, with nothing left running and its data kept."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from telemetry.stack import native, processes
from telemetry.stack.parts import PARTS, PORTS
from tests.backends import build, programs
from tests.backends.process import answers, eventually, free_ports, request

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.timeout(300)


class Stack:
    """The command, with these programs on PATH and nothing else, everything in one folder, on free ports."""

    def __init__(self, folder: Path, *names: str) -> None:
        self.folder = folder / "kept"
        self.bin = folder / "bin"
        self.bin.mkdir()
        for name in names:
            if programs.find(name) is None:
                if name in build.BACKENDS and os.environ.get("FLEETGLASS_REQUIRE_BACKENDS") == "1":
                    pytest.fail(programs.missing(name), pytrace=False)
                pytest.skip(programs.missing(name))
            (self.bin / name).symlink_to(programs.program(name))
        self.ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))

    def __call__(self, *arguments: str, verb: str = "stack", **more: str) -> subprocess.CompletedProcess[str]:
        environ = {
            **os.environ,
            "PATH": str(self.bin),
            "PYTHONPATH": str(ROOT),
            "FLEETGLASS_STACK_DIR": str(self.folder),
            **more,
        }
        command = [sys.executable, "-m", "telemetry", verb, *arguments]
        return subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=280)

    def up(self) -> subprocess.CompletedProcess[str]:
        given = [word for name, port in self.ports.items() for word in ("--port", f"{name}={port}")]
        return self("up", *given)

    def status(self) -> tuple[int, dict[str, dict[str, Any]]]:
        done = self("status", "--json")
        return done.returncode, {part["name"]: part for part in json.loads(done.stdout)["parts"]}

    def env(self) -> dict[str, str]:
        lines = self("env").stdout.splitlines()
        return dict(line.removeprefix("export ").split("=", 1) for line in lines)

    def probe(self, *arguments: str) -> dict[str, Any]:
        done = self("--json", "--timeout", "60", *arguments, verb="probe", **self.env())
        said: dict[str, Any] = json.loads(done.stdout)
        assert done.returncode == 0, said
        return said


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Stack]:
    """VictoriaMetrics and vmalert alone, as where nothing else is installed."""
    stack = Stack(tmp_path, "victoria-metrics", "vmalert")
    yield stack
    native.down(stack.folder, lambda sentence: None)


def nothing_left(stack: Stack) -> bool:
    """No process has the folder in its command line."""
    mine = str(stack.folder).encode()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if mine in (entry / "cmdline").read_bytes() and processes.began(int(entry.name)) is not None:
                return False
        except OSError:
            continue
    return True


@pytest.mark.slow
def test_up_probe_status_down_and_up_again_with_what_was_kept(store: Stack) -> None:
    first = store.up()
    assert first.returncode == 0, first.stderr
    assert "Loki is missing, and everything else does without" in first.stdout
    assert f"export FLEETGLASS_METRICS_PUSH_URL=http://127.0.0.1:{store.ports['victoriametrics']}" in first.stdout
    code, parts = store.status()
    assert code == 0
    assert {name: part["state"] for name, part in parts.items() if part["state"] != "down"} == {
        "victoriametrics": "ready",
        "vmalert": "ready",
    }
    pids = {name: part["pid"] for name, part in parts.items()}

    said = store.probe("--only", "metrics", "--require", "metrics")
    assert said["signals"][2]["service"] == "fleetglass-probe"

    again = store.up()
    assert again.returncode == 0
    assert "started" not in again.stderr
    assert {name: part["pid"] for name, part in store.status()[1].items()} == pids, "what runs is left as it is"

    ended = store("down")
    assert (ended.returncode, ended.stdout) == (0, "ended vmalert, VictoriaMetrics\n")
    assert nothing_left(store)
    assert store.status()[0] == 1
    assert store("down").stdout == "nothing of the stack was running\n"

    assert store("up").returncode == 0, "the ports are remembered"
    query = f"http://127.0.0.1:{store.ports['victoriametrics']}/api/v1/query?nocache=1&query="
    kept = f'{query}count(last_over_time(telemetry_probe_timestamp_seconds{{job="fleetglass-probe"}}[1h]))'
    found = eventually(lambda: request("GET", kept.replace(" ", "%20")).json()["data"]["result"], timeout=30)
    assert found[0]["value"][1] == "1"
    assert store("down").returncode == 0
    assert nothing_left(store)


@pytest.mark.slow
def test_ports_do_not_change_under_a_running_stack(store: Stack) -> None:
    assert store.up().returncode == 0
    [other] = free_ports(1)
    done = store("up", "--port", f"vmalert={other}")
    assert done.returncode == 1
    assert "runs on other ports than these" in done.stderr
    assert store.status()[0] == 0


@pytest.mark.slow
def test_alerts_are_made_from_the_values_file_and_evaluated(store: Stack) -> None:
    assert store.up().returncode == 0
    rules = f"http://127.0.0.1:{store.ports['vmalert']}/api/v1/rules"
    groups = {group["name"] for group in request("GET", rules).ok().json()["data"]["groups"]}
    assert "fleetglass-telemetry" in groups
    store("down")
    values = store.folder / "values.yaml"
    values.write_text(
        values.read_text("utf-8").replace("services: []", "services:\n  - {name: shop, availability: 0.99}")
    )
    assert store.up().returncode == 0
    text = request("GET", rules).ok().text
    assert "shop" in text


@pytest.mark.slow
def test_a_part_that_dies_is_said_to_have_ended_and_alone_is_started_again(store: Stack) -> None:
    assert store.up().returncode == 0
    parts = store.status()[1]
    os.kill(parts["vmalert"]["pid"], signal.SIGKILL)
    code, now = eventually(
        lambda: store.status() if store.status()[1]["vmalert"]["state"] == "ended" else None, timeout=20
    )
    assert code == 1
    assert "ENDED" in store("status").stdout
    assert store.up().returncode == 0
    after = store.status()[1]
    assert after["vmalert"]["state"] == "ready"
    assert after["victoriametrics"]["pid"] == now["victoriametrics"]["pid"]


def test_down_ends_only_what_it_started(store: Stack) -> None:
    """A pid file that a reboot left behind names somebody else's process."""
    (store.folder / "run").mkdir(parents=True)
    other = subprocess.Popen(["/bin/sleep", "60"])
    try:
        record = processes.Record(other.pid, 12345, ("x",), processes.boot_id())
        stale = {"record": record, "ports": store.ports, "program": "x"}
        import msgspec

        (store.folder / "run" / "loki.json").write_bytes(msgspec.json.encode(stale))
        assert store.status()[1]["loki"]["state"] == "ended"
        assert store("down").stdout == "nothing of the stack was running\n"
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_a_port_that_is_taken_is_named_before_anything_starts(store: Stack) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", store.ports["vmalert"]))
        taken.listen()
        done = store.up()
    assert done.returncode == 1
    assert f"port {store.ports['vmalert']} (vmalert)" in done.stderr
    assert "--port NAME=NUMBER" in done.stderr
    assert store.status()[0] == 1
    assert not answers(f"http://127.0.0.1:{store.ports['victoriametrics']}/health")


@pytest.mark.slow
def test_a_part_that_cannot_start_shows_the_end_of_its_log(store: Stack) -> None:
    (store.folder / "data").mkdir(parents=True)
    (store.folder / "data" / "victoriametrics").write_text("in the way", encoding="utf-8")
    done = store.up()
    assert done.returncode == 1
    assert "VictoriaMetrics has ended; the end of" in done.stderr
    assert "data/victoriametrics" in done.stderr
    assert store("down").returncode == 0
    assert nothing_left(store)


def test_a_values_file_that_cannot_be_used_is_told_by_line_and_starts_nothing(store: Stack) -> None:
    store.folder.mkdir()
    (store.folder / "values.yaml").write_text("runbooks: nowhere\ndashboards: http://x\n", encoding="utf-8")
    done = store.up()
    assert done.returncode == 1
    assert "values.yaml" in done.stderr
    assert "Traceback" not in done.stderr
    assert store.status()[0] == 1


def test_where_no_program_is_there_each_is_named_with_how_to_get_it(tmp_path: Path) -> None:
    done = Stack(tmp_path).up()
    assert done.returncode == 1
    for part in PARTS.values():
        assert f"{part.title}: {part.get}" in done.stderr


def test_another_program_of_that_name_is_not_taken_for_it(store: Stack) -> None:
    """Debian has a genetics program that is called loki."""
    genetics = store.bin / "loki"
    genetics.write_text("#!/bin/sh\necho LOKI 2.4.7\n", encoding="utf-8")
    genetics.chmod(0o755)
    done = store.up()
    assert "Loki is missing" in done.stdout
    assert store.status()[1]["loki"]["state"] == "down"


# --- with everything there is -----------------------------------------------------------------------------


@pytest.mark.stack
@pytest.mark.slow
def test_without_alloy_everything_goes_straight_to_its_store(tmp_path: Path) -> None:
    stack = Stack(tmp_path, "victoria-metrics", "loki", "tempo")
    try:
        assert stack.up().returncode == 0
        assert stack.env()["FLEETGLASS_LOKI_URL"] == f"http://127.0.0.1:{stack.ports['loki']}"
        said = stack.probe("--require", "traces,logs,metrics")
        assert [each["state"] for each in said["signals"]] == ["arrived"] * 3
    finally:
        native.down(stack.folder, lambda sentence: None)
    assert nothing_left(stack)


@pytest.mark.stack
@pytest.mark.slow
def test_the_whole_stack_comes_up_is_probed_green_goes_down_and_keeps_what_it_had(tmp_path: Path) -> None:
    stack = Stack(tmp_path, "victoria-metrics", "vmalert", "loki", "tempo", "alloy")
    try:
        done = stack.up()
        assert done.returncode == 0, done.stderr
        states = {name: part["state"] for name, part in stack.status()[1].items()}
        assert states.pop("grafana") == "down"
        assert set(states.values()) == {"ready"}
        first = stack.probe("--require", "traces,logs,metrics")
        assert [each["state"] for each in first["signals"]] == ["arrived"] * 3
        text = (stack.folder / "etc" / "config.alloy").read_bytes()
        formatted = subprocess.run(
            [programs.program("alloy"), "fmt", str(stack.folder / "etc" / "config.alloy")],
            capture_output=True,
            check=True,
        )
        assert formatted.stdout == text

        assert stack("down").returncode == 0
        assert nothing_left(stack)

        assert stack.up().returncode == 0
        variables = stack.env()
        trace = f"{variables['FLEETGLASS_TEMPO_QUERY_URL']}/api/traces/{first['trace_id']}"
        assert eventually(lambda: request("GET", trace).status == 200, timeout=60), "Tempo kept the trace"
        logs = f"{variables['FLEETGLASS_LOKI_QUERY_URL']}/loki/api/v1/query_range?since=1h&query="
        found = request("GET", logs + "%7Bservice_name%3D%22fleetglass-probe%22%7D").ok().json()["data"]["result"]
        assert found, "Loki kept the line"
        up = f"{variables['FLEETGLASS_METRICS_QUERY_URL']}/api/v1/query?nocache=1&query=up"
        jobs = eventually(
            lambda: (
                {"loki", "tempo", "victoriametrics", "vmalert", "alloy", "node-exporter"}
                <= {
                    each["metric"]["job"]
                    for each in request("GET", up).json()["data"]["result"]
                    if each["value"][1] == "1"
                }
            ),
            timeout=60,
        )
        assert jobs, "Alloy scrapes the machine and the stack itself"
        assert stack.probe()["status"] == 0
    finally:
        native.down(stack.folder, lambda sentence: None)
    assert nothing_left(stack)
