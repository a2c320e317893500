"""Each rule of lint finds its trap, names file, line and thing, and is silent where the trap isn't."""

from __future__ import annotations

import pytest

from telemetry.grafana.lint.rulebook import RULES
from telemetry.grafana.lint.run import File, Options, lint
from tests.lint_cases import alerts, boards, configurations, datasources, queries
from tests.lint_cases.case import BOARD, Case, board

CASES: list[Case] = [
    *boards.CASES,
    *queries.CASES,
    *datasources.CASES,
    *alerts.CASES,
    *configurations.CASES,
]


def run(files, options=None):
    return lint([File(name, text) for name, text in sorted(files.items())], options or Options()).findings


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_lint_finds(case: Case):
    found = [finding for finding in run(case.files, case.options) if finding.rule == case.rule]
    name, text = next(iter(case.files.items()))
    line = next(number for number, each in enumerate(text.splitlines(), 1) if case.at in each) + case.shift
    here = [finding for finding in found if finding.file == name and finding.line == line]
    assert here, f"nothing from {case.rule} in line {line}, but {list(map(str, found))}"
    fitting = [finding for finding in here if case.says in finding.message and case.where in finding.where]
    assert fitting, list(map(str, here))
    assert fitting[0].level == case.level
    assert fitting[0].message.strip()


@pytest.mark.parametrize("case", [case for case in CASES if case.good is not None], ids=lambda case: case.name)
def test_lint_is_silent_where_that_is_mended(case: Case):
    assert case.good is not None
    found = [finding for finding in run(case.good, case.options) if finding.rule == case.rule]
    assert not found, list(map(str, found))


def test_every_rule_has_a_trap_and_a_file_without_it():
    """What a file that is named for nothing gets is tested where files are read."""
    assert {case.rule for case in CASES} | {"nothing-known"} == RULES.keys()
    assert {case.rule for case in CASES if case.good is not None} | {"nothing-known"} == RULES.keys()


def test_every_public_issue_that_lint_can_see_has_its_trap():
    names = " ".join(case.name for case in CASES)
    for issue in (
        "grafana#110740",
        "grafana#123178",
        "grafana#128167",
        "grafana#121408",
        "grafana-image-renderer#978",
        "faro-web-sdk#2036",
        "loki#16174",
        "loki#14037",
        "loki#9869",
        "flux2-monitoring-example#44",
        "flux2#4652",
        "VictoriaMetrics#1169",
        "opentelemetry-collector-contrib#33212",
        "VictoriaMetrics#10889",
    ):
        assert f"({issue})" in names, issue


def test_a_good_dashboard_has_no_findings():
    assert BOARD["uid"] == "shop"
    assert not run({"board.json": board()})
