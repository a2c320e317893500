"""The dashboards meet the bar: every panel says what it shows and what to do, every link leads somewhere."""

from __future__ import annotations

import itertools
import json
import re
from urllib.parse import parse_qs, quote

import promql_parser
import pytest

from telemetry.catalogue import METRICS
from telemetry.grafana import classic
from telemetry.grafana.boards import BOARDS
from telemetry.grafana.foreign import FOREIGN
from telemetry.grafana.lint import promql
from telemetry.grafana.records import SOURCES, Dashboard, Explore, Jump, Link, Panel, Query

BY_UID = {board.uid: board for board in BOARDS}
QUERIES = {query.name: query for board in BOARDS for query in board.queries}
each_board = pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)
each_panel = pytest.mark.parametrize(
    ("board", "panel"),
    [pytest.param(board, panel, id=f"{board.uid}-{panel.id}") for board in BOARDS for panel in board.panels],
)
each_query = pytest.mark.parametrize("query", QUERIES.values(), ids=lambda query: query.name)


def links(panel: Panel) -> list[Link]:
    return [*panel.links, *(link for column in panel.columns for link in column.links)]


def grouped(query: Query) -> set[str]:
    """Labels that a query's series have: those of the outermost grouping, or all that are named."""
    return {label.strip() for by in re.findall(r"by \(([^)]*)\)", query.expression) for label in by.split(",")} - {"le"}


# --- the files


@each_board
def test_the_file_is_what_the_record_makes(board: Dashboard) -> None:
    path = classic.FOLDER / f"{board.uid}.json"
    assert path.read_text("utf-8") == classic.text(board), f"{path.name} is out of date: run `make dashboards`"
    assert classic.text(board) == classic.text(board)


def test_there_is_a_file_for_each_record_and_no_other() -> None:
    assert {path.stem for path in classic.FOLDER.glob("*.json")} == set(BY_UID)


def test_a_file_of_a_board_that_is_gone_is_taken_away(tmp_path) -> None:
    (tmp_path / "gone.json").write_text("{}")
    assert [path.name for path in classic.write(BOARDS[:1], tmp_path)] == ["fleetglass-overview.json"]
    assert [path.name for path in tmp_path.iterdir()] == ["fleetglass-overview.json"]


# --- as Grafana reads them


def panels_of(model: dict) -> list[dict]:
    inner = [panel for row in model["panels"] for panel in row.get("panels", [])]
    return [panel for panel in [*model["panels"], *inner] if panel["type"] != "row"]


@each_board
def test_panels_lie_within_the_page_and_beside_each_other(board: Dashboard) -> None:
    model = classic.model(board)
    taken: dict[tuple[int, int], int] = {}
    for panel in model["panels"]:
        at = panel["gridPos"]
        assert at["x"] >= 0
        assert at["x"] + at["w"] <= 24
        for cell in itertools.product(range(at["x"], at["x"] + at["w"]), range(at["y"], at["y"] + at["h"])):
            assert cell not in taken, f"{panel['title']} lies on panel {taken[cell]}"
            taken[cell] = panel["id"]
    for row in model["panels"]:
        assert (row["type"] == "row" and row["collapsed"]) == bool(row.get("panels"))
        for panel in row.get("panels", []):
            assert panel["gridPos"]["y"] > row["gridPos"]["y"]


@each_board
def test_ids_are_there_once_and_small_enough_to_last(board: Dashboard) -> None:
    model = classic.model(board)
    ids = [panel["id"] for panel in [*model["panels"], *panels_of(model)] if panel["type"] == "row"]
    ids += [panel["id"] for panel in panels_of(model)]
    assert len(set(ids)) == len(ids)
    assert [panel.id for panel in board.panels] == list(range(1, len(list(board.panels)) + 1))


@each_board
def test_nothing_names_a_datasource_but_by_a_variable(board: Dashboard) -> None:
    model = classic.model(board)
    named = {variable["name"] for variable in model["templating"]["list"] if variable["type"] == "datasource"}
    found = set(re.findall(r'"uid": "([^"]+)"', classic.text(board))) - {board.uid}
    assert found <= {f"${{{name}}}" for name in named}
    assert 39 <= model["schemaVersion"] <= 42
    assert model["editable"] is False
    assert all("placement" not in link for link in model["links"])


@each_board
def test_readers_choose_among_all_and_anew_when_the_time_changes(board: Dashboard) -> None:
    chosen = {variable["name"]: variable for variable in classic.model(board)["templating"]["list"]}
    for variable in chosen.values():
        if variable["type"] == "query":
            assert (variable["multi"], variable["includeAll"]) == (True, True)
            # A tag that two groups share has no group, and must not be lost where all are chosen.
            assert variable["allValue"] == (".*" if variable["name"] == "group" else ".+")
            assert variable["refresh"] == 2
    assert {"job", "instance"} <= chosen.keys()
    assert next(iter(chosen)) == "metrics"


@each_board
def test_the_other_dashboards_are_one_click_away_with_time_and_choices(board: Dashboard) -> None:
    (link,) = classic.model(board)["links"]
    assert (link["type"], link["keepTime"], link["includeVars"]) == ("dashboards", True, True)
    assert set(link["tags"]) <= set(board.tags)


# --- what panels say


@each_board
def test_the_first_row_answers_whether_it_is_ok(board: Dashboard) -> None:
    first = board.rows[0]
    assert first.title == "Is it OK?"
    assert {panel.kind for panel in first.panels} == {"stat"}
    assert sum(bool(panel.steps or panel.meanings) for panel in first.panels) >= 4
    assert sum(panel.width for panel in first.panels) == 24


@each_board
def test_a_page_is_short_enough_to_be_read(board: Dashboard) -> None:
    assert sum(len(row.panels) for row in board.rows if not row.collapsed) <= 20
    assert board.description.endswith("?") or "?" in board.description
    for row in board.rows:
        assert row.about.endswith(".")


@each_panel
def test_a_panel_says_what_it_shows_what_is_normal_and_what_to_do(board: Dashboard, panel: Panel) -> None:
    assert panel.title
    assert panel.description.endswith((".", "?"))
    assert "Normal:" in panel.description
    assert len(panel.description) > 60
    assert panel.no_value
    assert panel.unit
    assert panel.queries
    assert len({query.language for query in panel.queries}) == 1
    if panel.kind in {"timeseries", "states"}:
        assert panel.least == 0
        assert all(query.legend for query in panel.queries)
        assert len({query.legend for query in panel.queries}) == len(panel.queries)


@each_panel
def test_what_a_panel_needs_is_what_its_queries_give(board: Dashboard, panel: Panel) -> None:
    shapes = {
        "stat": {"table"},
        "table": {"table"},
        "timeseries": {"series"},
        "states": {"series"},
        "logs": {"lines"},
        "traces": {"traces"},
    }
    assert {query.shape for query in panel.queries} <= shapes[panel.kind]
    assert bool(panel.columns) == (panel.kind == "table")
    assert panel.sorted_by in {column.title for column in panel.columns if column.unit} or panel.kind != "table"
    by_name = {query.name: query for query in panel.queries}
    labels = set.union(*map(grouped, panel.queries))
    for column in panel.columns:
        assert column.field in by_name or column.field in labels, column.field
    assert by_name.keys() <= {column.field for column in panel.columns} or panel.kind != "table"


@each_panel
def test_a_link_leads_somewhere(board: Dashboard, panel: Panel) -> None:
    variables = {variable.name for variable in board.variables}
    labels = set.union(*map(grouped, panel.queries))
    titles = {column.title for column in panel.columns}
    for link in links(panel):
        if isinstance(link, Jump):
            there = BY_UID[link.uid]
            assert set(link.values) <= {variable.name for variable in there.variables}
            text = " ".join(link.values.values())
        else:
            assert link.source in variables
            text = link.expression
        for place in re.findall(r"\$\{([^}]+)\}", text):
            assert place not in {"job", "instance", "route"}, "All of a choice has no value that an address can hold"
            kind, _, name = place.rpartition(".")
            if kind == "__field.labels":
                assert name in labels, f"{panel.title}: the series have no label {name}"
            elif kind == "__data.fields":
                assert name in titles
            else:
                assert place in variables
                # A format of its own would put values into the address as they are: a plus means a blank there.
                assert ":" not in place


@each_panel
def test_metrics_lead_to_lines_or_traces_or_a_dashboard(board: Dashboard, panel: Panel) -> None:
    """VictoriaMetrics stores no exemplars: a curve leads on by its labels and the time."""
    if panel.kind in {"timeseries", "states"} and panel.source == "metrics":
        assert panel.links
    if panel.kind == "states":
        assert panel.meanings


def test_a_link_to_explore_is_what_explore_reads() -> None:
    link = Explore("x", "traces", '{resource.service.name="${__field.labels.job}" && duration>1s}')
    address = classic._link(link)["url"]
    filled = {"traces": "tempo-2", "__field.labels.job": "a+b&c", "__from": "17", "__to": "18"}

    def value(match: re.Match[str]) -> str:
        name, _, form = match[1].partition(":")
        assert form == ("" if name in {"__from", "__to"} else "percentencode")
        return quote(filled[name], safe="")

    # As Grafana fills it in, and as a browser's URLSearchParams takes it apart.
    path, _, query = re.sub(r"\$\{([^}]+)\}", value, address).partition("?")
    parameters = parse_qs(query, strict_parsing=True)
    assert (path, parameters["schemaVersion"]) == ("/explore", ["1"])
    pane = json.loads(parameters["panes"][0])["a"]
    assert pane["range"] == {"from": "17", "to": "18"}
    assert pane["datasource"] == "tempo-2"
    (asked,) = pane["queries"]
    assert asked["query"] == '{resource.service.name="a+b&c" && duration>1s}'
    assert (asked["queryType"], asked["datasource"]) == ("traceql", {"type": "tempo", "uid": "tempo-2"})


# --- what queries ask


@each_query
def test_a_query_follows_the_rules_of_the_house(query: Query) -> None:
    text = query.expression
    assert query.about.endswith(".")
    assert "vector(0)" not in text
    assert "topk" not in text or query.shape == "table"
    if query.language == "promql":
        assert not re.search(r"rate\([^)]*\[(?!\$__rate_interval)", text)
        assert not re.search(r"increase\([^)]*\[(?!\$__range)", text)
        assert "job=~" in text
        assert "instance=~" in text
        for quantile in re.findall(r"histogram_quantile\((.*)", text):
            assert re.search(r"by \([^)]*le\)", quantile)
        if " / " in text:
            assert "clamp_min(" in text
    if query.language == "logql" and query.shape == "series":
        assert "[$__auto]" in text


def test_a_gauge_of_several_exporters_counts_once_before_anything_is_added_up() -> None:
    """gitlab-ci-pipelines-exporter#1001, airflow#66810: replicas doubled what waits."""
    seen = 0
    for query in QUERIES.values():
        for selector in promql.read(query.expression).selectors() if query.language == "promql" else ():
            spec = METRICS.get(selector.metric)
            # Who leads is asked of each exporter.
            if spec is None or spec.name == "fleet_queue_observer_leader":
                continue
            if (spec.origin, spec.kind) == ("telemetry.fleet.observer", "gauge"):
                around = [node for node in selector.around if isinstance(node, promql_parser.AggregateExpr)]
                assert str(around[-1].op) in {"max", "min"}, query.name
                seen += 1
    assert seen > 50


def test_one_name_is_one_query() -> None:
    for board in BOARDS:
        for query in board.queries:
            assert QUERIES[query.name] == query


def test_every_metric_of_ours_is_on_a_panel() -> None:
    shown = " ".join(query.expression for query in QUERIES.values())
    missing = {name for name in METRICS if not re.search(rf"\b{name}(_count|_bucket)?\b", shown)}
    assert missing == set()


@each_query
def test_a_query_asks_for_metrics_that_are_known_to_exist(query: Query) -> None:
    if query.language == "promql":
        names = {re.sub(r"_(bucket|count)$", "", name) for name in re.findall(r"\b([a-z]\w+)(?=\{)", query.expression)}
        assert names
        assert names <= METRICS.keys() | FOREIGN.keys()


def test_each_language_has_its_datasource() -> None:
    assert {query.language for query in QUERIES.values()} == set(SOURCES)
