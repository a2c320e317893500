"""What is rendered for a group of workers, before those who read it: vmalert, vmalert-tool, KEDA's definitions."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from telemetry.fleet import scaling_file
from telemetry.grafana.alerts.command import run
from telemetry.grafana.lint.across import Pages, anchors_of
from telemetry.grafana.lint.run import File, Options, lint
from telemetry.grafana.shipped import shipped
from tests.backends import crds, programs
from tests.backends.vmalert import refusal

DOCS = Path(__file__).parents[2] / "docs"
FILE = """
namespace: windforce
source: {type: postgresql, name: keda-postgres}
runbooks: https://r.example/runbooks
dashboards: https://g.example
groups:
- {name: gpu, tags: [gpu, gpu.large], autoscale_min: 0, autoscale_max: 3, target_queue_depth: 20, drain_timeout: 570,
   termination_grace: 580, cooldown_period: 600, slo: 120}
- {name: cpu, tags: ["it's", "한글 \\\\ \\"x\\""], autoscale_min: 1, autoscale_max: 9, target_queue_depth: 5,
   drain_timeout: 20, workload: w-cpu}
"""
STORE = FILE.replace("{type: postgresql, name: keda-postgres}", "{type: prometheus, url: 'http://v:8428', secret: s}")
PLAN = scaling_file.parse(FILE)
GROUPS = scaling_file.scalings(PLAN)


def needed(name: str) -> str:
    found = programs.find(name)
    if found is None:
        pytest.skip(programs.missing(name))
    return str(found)


def rendered(text: str) -> list[dict[str, Any]]:
    plan = scaling_file.parse(text)
    return list(yaml.safe_load_all(scaling_file.kubernetes(scaling_file.scalings(plan), plan.context)))


# --- vmalert


@pytest.mark.parametrize("text", [FILE, STORE], ids=["postgresql", "prometheus"])
def test_vmalert_takes_the_rules_and_refuses_them_broken(text, tmp_path):
    needed("vmalert")
    specs = [each["spec"] for each in rendered(text) if each["kind"] == "VMRule"]
    assert len(specs) == 2
    path = tmp_path / "rules.yaml"
    for spec in specs:
        path.write_text(yaml.safe_dump(spec, allow_unicode=True), encoding="utf-8")
        assert refusal(path) == ""
        path.write_text(yaml.safe_dump(spec, allow_unicode=True).replace("sum(max", "sum(max("), encoding="utf-8")
        assert "invalid expression" in refusal(path)


def test_lint_has_nothing_against_the_rules():
    pages = {str(page.relative_to(DOCS)): anchors_of(page.read_text(encoding="utf-8")) for page in DOCS.rglob("*.md")}
    options = Options(pages=Pages(pages), boards=frozenset(board.uid for board in shipped()))
    for name, text in (
        ("scaling.yaml", scaling_file.kubernetes(GROUPS, PLAN.context)),
        ("rules.yaml", scaling_file.rule_file(GROUPS, PLAN.context)),
    ):
        report = lint([File(name, text, named=True)], options)
        assert not report.findings, "\n".join(map(str, report.findings))
        assert report.rules == 8


# --- when the alerts fire

_GPU, _LARGE = 'fleet_queue_pending{tag="gpu", group="gpu"', 'fleet_queue_pending{tag="gpu.large", group="gpu"'
_ALIVE = 'fleet_worker_group_alive{group="gpu"}'
_OLDEST = 'fleet_queue_oldest_age_seconds{tag="gpu", group="gpu"}'
# What it takes: series by name, then which alerts fire at which minute.
CASES: dict[str, tuple[dict[str, str], dict[int, set[str]]]] = {
    "exactly the target for each replica is enough": (
        {_GPU + "}": "25x40", _LARGE + "}": "15x40", _ALIVE: "2x40", _OLDEST: "0x40"},
        {9: set(), 30: set()},
    ),
    "one job more is behind after ten minutes, and not earlier": (
        {_GPU + "}": "25x40", _LARGE + "}": "16x40", _ALIVE: "2x40", _OLDEST: "0x40"},
        {9: set(), 11: {"WorkerGroupBehind"}},
    ),
    "the backlog of a group that sleeps is behind": (
        {_GPU + "}": "1x40", _LARGE + "}": "0x40", _ALIVE: "0x40", _OLDEST: "0x40"},
        {9: set(), 11: {"WorkerGroupBehind"}},
    ),
    "all that the group may have, and exactly enough": (
        {_GPU + "}": "60x40", _LARGE + "}": "0x40", _ALIVE: "3x40", _OLDEST: "0x40"},
        {30: set()},
    ),
    "more than the group may ever have is overrun, until it is not": (
        {_GPU + "}": "61x20 60x20", _LARGE + "}": "0x40", _ALIVE: "3x40", _OLDEST: "0x40"},
        {4: set(), 6: {"WorkerGroupOverrun"}, 11: {"WorkerGroupBehind", "WorkerGroupOverrun"}, 24: set()},
    ),
    "two exporters of one queue are not added up": (
        {
            _GPU + ', instance="a"}': "40x40",
            _GPU + ', instance="b"}': "40x40",
            _LARGE + ', instance="a"}': "0x40",
            _ALIVE: "2x40",
            _OLDEST: "0x40",
        },
        {30: set()},
    ),
    "an old job is late, however few wait": (
        {_GPU + "}": "1x40", _LARGE + "}": "0x40", _ALIVE: "1x40", _OLDEST: "121x20 120x20"},
        {4: set(), 6: {"WorkerGroupLate"}, 24: set()},
    ),
    "other tags and groups have no part in it": (
        {
            'fleet_queue_pending{tag="gpuXlarge", group=""}': "999x40",
            'fleet_queue_oldest_age_seconds{tag="gpus", group=""}': "9999x40",
            _GPU + "}": "1x40",
            _ALIVE: "1x40",
            'fleet_worker_group_alive{group="cpu"}': "0x40",
        },
        {30: set()},
    ),
    "without numbers nothing is known, and nothing else is said": (
        {_ALIVE: "1x40"},
        {4: set(), 6: {"WorkerGroupUnknown"}},
    ),
    "without workers' numbers nothing is known, and it is not taken for none": (
        {_GPU + "}": "50x40", _LARGE + "}": "0x40", _OLDEST: "0x40"},
        {4: set(), 15: {"WorkerGroupUnknown"}},
    ),
}


def unit(folder: Path, rules: dict[str, Any]) -> Path:
    """A test file for vmalert-tool with all of CASES about the rules of the group gpu."""
    group = rules["groups"][0]
    by_name = {rule["alert"]: rule for rule in group["rules"]}
    tests = []
    for name, (series, fires) in CASES.items():
        checks = [
            {
                "eval_time": f"{minute}m",
                "groupname": group["name"],
                "alertname": alert,
                "exp_alerts": [{"exp_labels": by_name[alert]["labels"]}] if alert in firing else [],
            }
            for minute, firing in fires.items()
            for alert in by_name
        ]
        tests.append(
            {
                "name": name,
                "interval": "1m",
                "input_series": [{"series": each, "values": values} for each, values in series.items()],
                "alert_rule_test": checks,
            }
        )
    stripped = copy.deepcopy(rules)
    for each in stripped["groups"]:
        for rule in each["rules"]:
            del rule["annotations"]  # their text is looked at elsewhere
    (folder / "rules.yaml").write_text(yaml.safe_dump(stripped, allow_unicode=True), encoding="utf-8")
    path = folder / "tests.yaml"
    content = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests}
    path.write_text(yaml.safe_dump(content, allow_unicode=True), encoding="utf-8")
    return path


def rules_of_gpu() -> dict[str, Any]:
    made: dict[str, Any] = yaml.safe_load(scaling_file.rule_file(GROUPS[:1], PLAN.context))
    return made


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_each_alert_fires_when_its_numbers_say_and_at_no_other_time(tmp_path):
    said = run(needed("vmalert-tool"), unit(tmp_path, rules_of_gpu()))
    assert said is None, said


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("right", "wrong"),
    [("> 20 * max(", "> 19 * max("), ("> 20 * 3", "> 20 * 4"), ("> 120", "> 121"), ("sum(max by (tag) ", "sum(")],
)
def test_a_rule_with_another_number_fails_its_tests(right, wrong, tmp_path):
    rules = rules_of_gpu()
    changed = 0
    for rule in rules["groups"][0]["rules"]:
        changed += right in rule["expr"]
        rule["expr"] = rule["expr"].replace(right, wrong)
    assert changed
    said = run(needed("vmalert-tool"), unit(tmp_path, rules))
    assert said is not None
    assert "failed to run unit test" in said


# --- KEDA's own definitions

PLURALS = {"ScaledObject": "scaledobjects", "TriggerAuthentication": "triggerauthentications"}


def objections(content: dict[str, Any]) -> list[str]:
    try:
        return crds.objections(content, "keda.sh", PLURALS[content["kind"]])
    except crds.Missing as missing:
        pytest.skip(str(missing))


@pytest.mark.timeout(200)
@pytest.mark.parametrize("text", [FILE, STORE], ids=["postgresql", "prometheus"])
def test_kedas_own_definitions_take_the_objects(text):
    objects = [each for each in rendered(text) if each["kind"] in PLURALS]
    assert len(objects) == 4
    for each in objects:
        assert objections(each) == []


@pytest.mark.timeout(200)
def test_kedas_own_definitions_refuse_what_is_misspelt_or_of_another_type():
    scaled = next(each for each in rendered(STORE) if each["kind"] == "ScaledObject")
    for path, value in [
        (("spec", "coolDownPeriod"), 600),
        (("spec", "cooldownPeriod"), "600"),
        (("spec", "fallback", "behaviour"), "static"),
        (("spec", "fallback", "behavior"), "whatever"),
        (("spec", "advanced", "horizontalPodAutoscalerConfig", "behavior", "scaledown"), {}),
        (("kind",), "ScaledThing"),
        (("apiVersion",), "keda.sh/v1"),
    ]:
        broken = copy.deepcopy(scaled)
        at = broken
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = value
        try:
            assert crds.objections(broken, "keda.sh", "scaledobjects"), path
        except crds.Missing as missing:
            pytest.skip(str(missing))
