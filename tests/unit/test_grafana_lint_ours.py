"""Lint is clean, notices too, on the dashboards, datasources and alert rules that come with the project."""

from __future__ import annotations

from pathlib import Path

import pytest

from telemetry.catalogue import METRICS
from telemetry.grafana import foreign, shipped
from telemetry.grafana.alerts import provisioning, rulefiles
from telemetry.grafana.alerts.rules import rule_set
from telemetry.grafana.alerts.values import read as read_values
from telemetry.grafana.export import configmap
from telemetry.grafana.lint import promql
from telemetry.grafana.lint.across import Pages, anchors_of
from telemetry.grafana.lint.command import gather
from telemetry.grafana.lint.documents import read
from telemetry.grafana.lint.names import catalogue
from telemetry.grafana.lint.run import File, Options, lint
from telemetry.grafana.lint.things import Things, sort
from telemetry.manifest import dump

ROOT = Path(__file__).parents[2]
FOLDER = Path(shipped.__file__).parent
DOCS = ROOT / "docs"
VALUES = read_values(ROOT / "examples" / "alerts" / "values.yaml")
RULES = rule_set(VALUES)
FORMS = {
    "vmalert": rulefiles.vmalert,
    "prometheus": rulefiles.prometheus,
    "vmrule": rulefiles.vmrule,
    "loki": rulefiles.loki,
    "grafana": provisioning.grafana,
}
BOARDS = [*gather([FOLDER / "dashboards"])]
EXAMPLES = ROOT / "examples"


def options() -> Options:
    pages = {str(page.relative_to(DOCS)): anchors_of(page.read_text(encoding="utf-8")) for page in DOCS.rglob("*.md")}
    return Options(pages=Pages(pages), datasources=frozenset({"loki"}))


def test_dashboards_are_clean():
    report = lint(BOARDS, options())
    assert not report.findings, "\n".join(map(str, report.findings))
    assert report.boards == len(shipped.shipped()) >= 5


@pytest.mark.parametrize("paths", [["kubernetes"], ["stack", "compose.yaml"]], ids=["kubernetes", "compose"])
def test_the_examples_of_a_whole_stack_are_clean(paths):
    files = [*BOARDS, *gather([EXAMPLES / path for path in paths])]
    report = lint(files, options())
    assert not report.findings, "\n".join(map(str, report.findings))
    assert report.datasources == 3


@pytest.mark.parametrize("form", FORMS)
def test_alert_rules_are_clean(form):
    file = File(f"{form}.yaml", FORMS[form](RULES, VALUES))
    report = lint([*BOARDS, file], options())
    assert not report.findings, "\n".join(map(str, report.findings))
    assert report.rules > 0


def test_what_is_excused_says_why_and_still_happens():
    """An exception that excuses nothing any more is one to take out."""
    with_exceptions = lint(BOARDS, options())
    without = lint([file for file in BOARDS if not file.name.endswith(".lint")], options())
    assert with_exceptions.excused == len(without.findings)
    assert {finding.rule for finding in without.findings} == {
        "template-datasource-rule",
        "target-logql-auto-rule",
        "target-counter-agg-rule",
    }


@pytest.mark.parametrize("board", shipped.shipped(), ids=lambda board: board.uid)
def test_configmaps_of_the_dashboards_are_clean(board):
    lint_file = [file for file in BOARDS if file.name.endswith(".lint")]
    text = dump(configmap(board, namespace="monitoring", folder="Fleetglass"))
    file = File(str(FOLDER / "dashboards" / "x.yaml"), text)
    report = lint([*lint_file, file])
    assert not report.findings, "\n".join(map(str, report.findings))
    assert report.boards == 1


def _asked() -> set[str]:
    """Every metric that a dashboard or an alert names."""
    things = Things()
    for file in (*BOARDS, File("vmalert.yaml", rulefiles.vmalert(RULES, VALUES))):
        if not file.name.endswith(".lint"):
            for document in read(file.name, file.text):
                sort(document, things)
    targets = [target for board in things.boards for panel in board.panels for target in panel.targets]
    texts = [target.expression for target in targets if target.language == "promql"]
    texts += [each.text for group in things.groups for rule in group.rules for each in rule.expressions]
    recorded = {rule.name for group in things.groups for rule in group.rules if not rule.alert}
    return {selector.metric for text in texts for selector in promql.read(text).selectors()} - recorded


def test_every_metric_of_dashboards_and_alerts_is_ours_or_in_the_table_of_others():
    known = catalogue()
    unknown = {name for name in _asked() if known.find(name) is None}
    assert not unknown, f"add them to telemetry/grafana/foreign.py: {sorted(unknown)}"


def test_the_table_of_others_holds_nothing_of_ours_and_each_name_fits_its_exporter():
    assert not foreign.FOREIGN.keys() & METRICS.keys()
    for name, metric in foreign.FOREIGN.items():
        owner = foreign.exporter_of(name)
        assert owner is not None
        assert owner.name == metric.exporter
        # Counters of the kernel's own names have no suffix; whatever has it is one.
        assert metric.kind == "counter" or not name.endswith("_total"), name
    assert len(foreign.FOREIGN) == sum(len(exporter.metrics) for exporter in foreign.EXPORTERS)
