"""The ``fleetglass`` command: an overview, a version, and every setting in effect with its source."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from telemetry import cli
from telemetry.config import SETTINGS, ConfigError, Problem

SECRET = "hunter2-very-secret"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = cli.main(arguments)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def rows(text: str) -> dict[str, list[str]]:
    """Cells of each setting by its name."""
    found = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().split("  ") if cell.strip()]
        if line.startswith("  ") and len(cells) == 3:
            found[cells[0]] = cells[1:]
    return found


# --- the command itself


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"], ["help"]])
def test_help_names_every_command(capsys, arguments):
    status, out, err = run(capsys, *arguments)
    assert (status, err) == (0, "")
    for name, command in cli.COMMANDS.items():
        assert f"  {name}" in out
        assert command.summary in out
    assert all(len(line) <= 100 for line in out.splitlines())


def test_the_version_is_that_of_the_distribution(capsys):
    from importlib.metadata import version

    assert run(capsys, "--version") == (0, f"fleetglass {version('fleetglass')}\n", "")


def test_a_misspelt_command_is_told_its_name(capsys):
    status, out, err = run(capsys, "confg")
    assert (status, out) == (2, "")
    assert "no command 'confg'; did you mean config?" in err


@pytest.mark.parametrize("name", list(cli.COMMANDS))
def test_every_command_explains_itself(capsys, name):
    with pytest.raises(SystemExit) as ended:
        cli.main([name, "--help"])
    assert ended.value.code == 0
    assert f"usage: fleetglass {name}" in capsys.readouterr().out


def test_a_command_whose_extra_is_missing_says_what_to_install(capsys, monkeypatch):
    monkeypatch.setattr(cli, "COMMANDS", {"serve": cli.Command("serve", "no_such_module:run", extra="ingest")})
    status, _, err = run(capsys, "serve")
    assert status == 1
    assert "needs no_such_module" in err
    assert "pip install 'fleetglass[ingest]'" in err


def test_a_command_that_meets_wrong_settings_lists_them_and_shows_no_traceback(capsys, monkeypatch):
    def refuse(arguments: list[str]) -> int:
        raise ConfigError((Problem("FLEETGLASS_LISTEN", "'x'", "host:port"),))

    monkeypatch.setattr(cli, "COMMANDS", {"serve": cli.Command("serve", "telemetry.cli:refuse")})
    monkeypatch.setattr(cli, "refuse", refuse, raising=False)
    status, _, err = run(capsys, "serve")
    assert status == 2
    assert err.startswith("fleetglass serve: 1 setting can't be used:\n  FLEETGLASS_LISTEN = 'x'\n")


def test_an_interrupt_ends_quietly(capsys, monkeypatch):
    def interrupted(arguments: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "COMMANDS", {"serve": cli.Command("serve", "telemetry.cli:interrupted")})
    monkeypatch.setattr(cli, "interrupted", interrupted, raising=False)
    assert run(capsys, "serve") == (130, "", "")


# --- fleetglass config


def test_config_shows_each_setting_its_value_and_where_it_came_from(capsys, monkeypatch):
    monkeypatch.setenv("OTEL_SERVICE_NAME", "api")
    monkeypatch.setenv("FLEETGLASS_QUEUE_BYTES", "64m")
    status, out, err = run(capsys, "config")
    assert (status, err) == (0, "")
    shown = rows(out)
    assert shown["service"] == ["api", "OTEL_SERVICE_NAME"]
    assert shown["queue_bytes"] == ["64 MiB", "FLEETGLASS_QUEUE_BYTES"]
    assert shown["linger"] == ["1 s", "default (FLEETGLASS_LINGER)"]
    assert shown["loki_url"] == ["(unset)", "default (FLEETGLASS_LOKI_URL)"]
    expected = {s.name for s in SETTINGS if s.section != "command" and s.group != "OTLP, per signal"}
    assert expected <= shown.keys()


def test_config_shows_no_secret(capsys, monkeypatch):
    for name, value in {
        "FLEETGLASS_LOKI_URL": f"http://me:{SECRET}@loki:3100",
        "FLEETGLASS_LOKI_USER": "me",
        "FLEETGLASS_LOKI_PASSWORD": SECRET,
        "FLEETGLASS_LOKI_HEADERS": f"x={SECRET}",
        "FLEETGLASS_METRICS_PUSH_URL": f"http://me:{SECRET}@vm",
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://me:{SECRET}@collector:4318",
        "OTEL_EXPORTER_OTLP_HEADERS": f"x={SECRET}",
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS": f"x={SECRET}",
        "FLEETGLASS_TOKENS": f'{{"{SECRET}": {{"email": "a@b.example"}}}}',
        "FLEETGLASS_TOKEN": SECRET,
    }.items():
        monkeypatch.setenv(name, value)
    for arguments in ([], ["--json"], ["--set"]):
        _, out, err = run(capsys, "config", *arguments)
        assert SECRET not in out + err
        assert "***" in out


def test_config_shows_settings_of_single_signals_once_they_are_set(capsys, monkeypatch):
    assert "otlp_logs_endpoint" not in rows(run(capsys, "config")[1])
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "http://logs:4318/v1/logs")
    assert "otlp_logs_endpoint" in rows(run(capsys, "config")[1])


def test_config_lists_what_is_wrong_on_stderr_and_still_shows_the_rest(capsys, monkeypatch):
    monkeypatch.setenv("FLEETGLASS_LINGER", "soon")
    monkeypatch.setenv("FLEETGLASS_LISTEN", "8000")
    monkeypatch.setenv("FLEETGLASS_LISTN", "0.0.0.0:80")
    status, out, err = run(capsys, "config")
    assert status == 2
    assert rows(out)["linger"] == ["(refused)", "FLEETGLASS_LINGER"]
    assert "3 settings can't be used" in err
    assert err.count("FLEETGLASS_LISTN") == 1


def test_config_says_what_goes_where(capsys, monkeypatch):
    assert "  traces   nowhere\n  logs     stdout\n  metrics  /metrics to scrape\n" in run(capsys, "config")[1]
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318")
    monkeypatch.setenv("FLEETGLASS_LOKI_URL", "http://loki:3100")
    monkeypatch.setenv("FLEETGLASS_METRICS_PUSH_URL", "http://vm:8428")
    assert (
        "  traces   OTLP (http/protobuf) to http://collector:4318/v1/traces\n"
        "  logs     Loki push to http://loki:3100/loki/api/v1/push\n"
        "  metrics  push to http://vm:8428/api/v1/import/prometheus every 15 s, /metrics to scrape\n"
    ) in run(capsys, "config")[1]
    monkeypatch.setenv("FLEETGLASS_ROLE", "worker")
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "otlp")
    out = run(capsys, "config")[1]
    assert "OTLP (http/protobuf) to http://collector:4318/v1/metrics, /metrics on 127.0.0.1:9464 to scrape" in out
    assert "metrics go over OTLP and are not pushed" in out


def test_config_points_out_doubtful_combinations_and_variables_that_nobody_reads(capsys, monkeypatch):
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
    monkeypatch.setenv("OTEL_SERVICE_NAEM", "api")
    out = run(capsys, "config")[1]
    assert "no OTLP endpoint is set: traces are not sent" in out
    assert "OTEL_SERVICE_NAEM" in out


def test_config_as_json_is_for_programs(capsys, monkeypatch):
    monkeypatch.setenv("OTEL_SERVICE_NAME", "api")
    monkeypatch.setenv("FLEETGLASS_LINGER", "soon")
    status, out, _ = run(capsys, "config", "--json", "--set")
    document = json.loads(out)
    assert status == 2
    assert document["settings"][0] == {
        "name": "service",
        "environment": "OTEL_SERVICE_NAME",
        "value": "api",
        "source": "OTEL_SERVICE_NAME",
    }
    assert document["problems"][0]["name"] == "FLEETGLASS_LINGER"
    assert document["warnings"] == document["unread"] == []


def test_config_of_an_empty_environment_with_set_only(capsys, monkeypatch):
    for name in ("FLEETGLASS_REQUIRE_BACKENDS", "FLEETGLASS_BACKENDS_DIR"):  # these stay set while tests run
        monkeypatch.delenv(name, raising=False)
    assert run(capsys, "config", "--set")[1].startswith("Every setting is at its default.\n")


# --- as a program


def test_it_runs_as_a_script_and_as_a_module():
    environ = {"PATH": os.environ["PATH"], "OTEL_SERVICE_NAME": "api"}
    script = Path(sys.executable).with_name("fleetglass")
    for program in ([sys.executable, "-m", "telemetry"], [str(script)]):
        done = subprocess.run([*program, "config"], env=environ, capture_output=True, text=True, check=True)
        assert rows(done.stdout)["service"] == ["api", "OTEL_SERVICE_NAME"]


def test_a_reader_that_has_left_causes_no_traceback():
    reading, writing = os.pipe()
    os.close(reading)
    program = [sys.executable, "-m", "telemetry", "config"]
    done = subprocess.run(
        program, env={"PATH": os.environ["PATH"]}, stdout=writing, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


def test_help_loads_no_part_of_the_library():
    program = "import sys; from telemetry.cli import main; main(['--help']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True)
    assert not {"telemetry.config", "msgspec", "opentelemetry"} & set(done.stdout.split())
