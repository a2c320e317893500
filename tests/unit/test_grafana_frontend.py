"""The records of the *Frontend errors* dashboard hold together, and no query falls into a trap that real Loki has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ingest.errors.route import RESULTS
from telemetry.catalogue import METRICS
from telemetry.grafana.alerts.frontend import ALERTS
from telemetry.grafana.boards.frontend import DASHBOARD
from telemetry.grafana.queries.frontend import CANARIES, LOGQL, NOT_REFUSED, PROMQL, QUERIES
from telemetry.grafana.records import MACROS, Query

RUNBOOKS = Path(__file__).parents[2] / "docs" / "runbooks"
VARIABLES = {variable.name for variable in DASHBOARD.variables}
BY_NAME = {query.name: query for query in QUERIES}


def each(queries):
    return pytest.mark.parametrize("query", queries, ids=lambda query: query.name)


def test_every_query_has_a_name_and_a_place_of_its_own():
    assert len(BY_NAME) == len(QUERIES)
    shown = set(DASHBOARD.queries) | {alert.query for alert in ALERTS}
    # These two are for Explore: with the workspace `.+` the panel Latest says the same.
    assert set(QUERIES) - shown == {BY_NAME["of_workspace"]}


@each(QUERIES)
def test_a_sentence_says_what_it_answers_and_its_places_can_be_filled(query: Query):
    assert query.about.endswith(".")
    assert query.places <= VARIABLES | set(MACROS)
    assert "$" not in query.filled(dict.fromkeys(query.places, "x"))
    with pytest.raises(KeyError):
        (query if query.places else BY_NAME["latest"]).filled({})


@each(LOGQL)
def test_logql_keeps_clear_of_the_traps(query: Query):
    assert '|= "frontend-error"' in query.expression
    assert not re.search(r"logfmt (?!--strict)[a-z]", query.expression), "| logfmt a, b extracts one key only"
    if query.name != "unreadable":
        assert query.expression.count("| logfmt") == query.expression.count('| logger="frontend" | level="error"')
    for by in re.findall(r"sum by \(([^)]*)\)", query.expression):
        if by != "kind":
            assert re.search(r'workspace="\$|`fp="', query.expression), "by fp or email only within bounds"
    if "unwrap" in query.expression:
        assert query.expression.count("| keep ") >= query.expression.count("| unwrap ")
    if query.shape == "series":
        assert "[$__auto]" in query.expression


@each(PROMQL)
def test_promql_asks_for_metrics_and_labels_that_exist(query: Query):
    names = set(re.findall(r"(?:frontend|telemetry)_[a-z_]+", query.expression))
    assert names <= METRICS.keys()
    known = {"job", "instance"}.union(*(METRICS[name].labels for name in names))
    labels = re.findall(r"(\w+)(?:=~|!~|=|!=)\"", query.expression)
    grouped = [label for by in re.findall(r"by \(([^)]*)\)", query.expression) for label in by.split(", ")]
    assert {*labels, *grouped} <= known


def test_what_is_no_refusal_is_a_result():
    assert set(NOT_REFUSED) < set(RESULTS)


def test_every_canary_is_shown():
    assert len(CANARIES) == 4
    assert all(query.shape == "lines" for query in CANARIES)


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.uid)
def test_an_alert_leads_to_a_heading_of_a_runbook(alert):
    page, _, anchor = alert.runbook.partition("#")
    headings = re.findall(r"^#+ (.*)$", (RUNBOOKS / page).read_text(), re.MULTILINE)
    assert anchor in {heading.lower().replace(" ", "-") for heading in headings}
    assert alert.query.shape == "table"
    assert alert.query.places <= {"service"}, "an alert has no reader who chooses"
    assert set(re.findall(r"{{(\w+)}}", alert.summary)) - {"value"} <= set(re.findall(r"\w+", alert.query.expression))
    assert alert.condition == f"({alert.query.expression}) > {alert.above:g}"


def test_a_spike_in_loki_has_a_twin_of_bounded_labels():
    spike, twin, *_ = ALERTS
    assert (spike.query.language, twin.query.language) == ("logql", "promql")
    assert (spike.runbook, spike.above) == (twin.runbook, twin.above)
    assert spike.on_error == "alerting"
