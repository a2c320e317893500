"""The unit tests of every alert, run by a real vmalert-tool; a real vmalert reads what is rendered."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from telemetry.grafana.alerts import rulefiles
from telemetry.grafana.alerts.command import command, run
from telemetry.grafana.alerts.rules import rule_set
from telemetry.grafana.alerts.unittests import Unit, units
from telemetry.grafana.alerts.values import read
from tests.backends import build, programs
from tests.backends.vmalert import refusal

EXAMPLE = Path(__file__).parents[2] / "examples" / "alerts" / "values.yaml"
UNITS = list(units(read(EXAMPLE)))


def needed(name: str) -> str:
    """The program ``name``; skips, or fails where backends are required, without it."""
    found = programs.find(name)
    if found is None:
        assert name in build.BACKENDS
        if os.environ.get("FLEETGLASS_REQUIRE_BACKENDS") == "1":
            pytest.fail(programs.missing(name), pytrace=False)
        pytest.skip(programs.missing(name))
    return str(found)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_an_alert_fires_not_early_resolves_and_tells_of_missing_data(unit: Unit, tmp_path: Path) -> None:
    said = run(needed("vmalert-tool"), unit.write(tmp_path))
    assert said is None, said


SHOP = next(unit for unit in UNITS if unit.name.startswith("telemetry-records-dropped"))
HOUR = next(unit for unit in UNITS if unit.name.startswith("error-budget-burn-6h"))
LATE, UNSERVED, REQUEUED, SNAPSHOT, VACUUM, MISSING, SHORT, SKEW, BEATS, FAILING, OLD = (
    next(unit for unit in UNITS if unit.name.startswith(f"{name}-windforce-observer"))
    for name in (
        "queue-late",
        "queue-tag-unserved",
        "queue-jobs-requeued",
        "queue-snapshot-held",
        "queue-vacuum-missing",
        "worker-group-missing",
        "worker-group-short",
        "worker-version-skew",
        "worker-heartbeat-failing",
        "fleet-read-failing",
        "fleet-read-old",
    )
)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("unit", "right", "wrong"),
    [
        (SHOP, "> 0.01", "> 0.0112"),
        (SHOP, "[10m]", "[9m]"),
        (SHOP, "for: 5m", "for: 4m"),
        (SHOP, "keep_firing_for: 5m", "keep_firing_for: 3m"),
        (HOUR, "burnrate:6h > 6 ", "burnrate:6h > 5.5 "),
        (HOUR, "burnrate:30m > 6 ", "burnrate:5m > 6 "),
        (HOUR, "for: 15m", "for: 10m"),
        (HOUR, "sum_over_time(slo:errors:rate5m[6h])", "sum_over_time(slo:errors:rate5m[3h])"),
        (HOUR, '=~"5.."', '=~"50[01]"'),
        # A second exporter doubles what is summed, and what is asked of each exporter ends with it.
        (LATE, "max by (group, tag)", "sum by (group, tag)"),
        (LATE, "max by (group, tag)", "max by (group, tag, instance)"),
        (LATE, "> 300", ">= 300"),
        (LATE, 'group!~"gpu"', 'group!~"none"'),
        (UNSERVED, 'reason="no_live_workers"', 'reason=~"no_live_workers|idle"'),
        (UNSERVED, "and on (tag)", "or on (tag)"),
        (UNSERVED, "for: 3m", "for: 150s"),
        (REQUEUED, "or (fleet_queue_requeues_total", "or 0 * (fleet_queue_requeues_total"),
        (REQUEUED, "> 10\n", "> 11\n"),
        (SNAPSHOT, "> 1000000", "> 1000001"),
        (SNAPSHOT, "and on ()", "or on ()"),
        (VACUUM, "< 3600", "< 3570"),
        (VACUUM, "0.4 * ", "0.3 * "),
        (MISSING, "desired_min", "desired_max"),
        (MISSING, "for: 1m", "for: 30s"),
        (SHORT, 'state="scaled"', 'state=~"scaled|missing"'),
        (SKEW, "> 1\n", "> 0\n"),
        (BEATS, "unless on (job, instance)", "and on (job, instance)"),
        (BEATS, "< 60", "< 90"),
        # What a predecessor read is no excuse.
        (
            FAILING,
            'avg_over_time((max by (part) (fleet_queue_observer_up{job="windforce-observer"}))[10m:30s])',
            'max by (part) (avg_over_time(fleet_queue_observer_up{job="windforce-observer"}[10m]))',
        ),
        (OLD, "> 600", "> 570"),
        (OLD, "[10m]", "[9m]"),
        (OLD, 'part=~"queue|workers"', 'part=~".+"'),
    ],
)
def test_a_rule_that_was_changed_fails_its_tests(unit: Unit, right: str, wrong: str, tmp_path: Path) -> None:
    tool = needed("vmalert-tool")
    assert right in unit.rules
    said = run(tool, Unit(unit.name, unit.rules.replace(right, wrong), unit.tests).write(tmp_path))
    assert said is not None
    assert "failed to run unit test" in said


def test_the_command_runs_them_with_the_tool_that_it_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = tmp_path / "alerts.yaml"
    values.write_text("runbooks: https://r.example\ndashboards: https://g.example\nexporters: [{kind: loki, job: l}]\n")
    assert command(["test", "--values", str(values), "--write", str(tmp_path / "written")]) == 0
    written = [Path(line) for line in capsys.readouterr().out.splitlines()]
    assert {"exporter-absent-l.l", "loki-discards-lines.l"} < {path.parent.name for path in written}
    for path in written:
        if path.parent.name == "exporter-absent-l.l":
            assert run(needed("vmalert-tool"), path) is None


@pytest.mark.parametrize("kind", ["vmalert", "vmrule", "prometheus"])
def test_vmalert_takes_what_is_rendered(kind: str, tmp_path: Path) -> None:
    needed("vmalert")
    values = read(EXAMPLE)
    text = getattr(rulefiles, kind)(rule_set(values), values)
    content = yaml.safe_load(text)
    path = tmp_path / "rules.yaml"
    # A VMRule is an envelope around what vmalert reads.
    path.write_text(yaml.safe_dump(content["spec"]) if kind == "vmrule" else text, encoding="utf-8")
    assert refusal(path) == ""
    broken = text.replace("sum by (job)", "sum by job)", 1)
    path.write_text(yaml.safe_dump(yaml.safe_load(broken).get("spec", yaml.safe_load(broken))), encoding="utf-8")
    assert "invalid expression" in refusal(path)
