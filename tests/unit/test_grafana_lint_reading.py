"""How lint reads: lines of values in JSON and YAML, LogQL, PromQL with Grafana's variables, and files of any shape."""

from __future__ import annotations

import copy
import itertools
import json
from typing import Any

import pytest
import yaml

from telemetry.grafana import datasources
from telemetry.grafana.lint import logql, logqltree, promql, traceql
from telemetry.grafana.lint.across import anchors_of
from telemetry.grafana.lint.documents import (
    MOST_VALUES,
    Document,
    Place,
    Unreadable,
    embedded,
    read,
    read_json,
    read_yaml,
)
from telemetry.grafana.lint.run import File, lint
from telemetry.grafana.lint.things import language_of, seconds
from telemetry.grafana.lint.variables import AUTO, RATE_INTERVAL, filled
from telemetry.grafana.queries.frontend import LOGQL as OURS
from telemetry.grafana.queries.frontend import PROMQL
from tests.lint_cases import alerts, configurations
from tests.lint_cases.boards import v2
from tests.lint_cases.case import BOARD, board, rules
from tests.lint_cases.grammar import LOGQL, LOGQL_BAD, TRACEQL, TRACEQL_BAD, WITH_VARIABLES

# --- lines


def test_json_keeps_the_line_of_every_value():
    text = '{\n "a": [1,\n  {"b": "x\\ny"}],\n\n "c": -1.5e3, "d": [], "e": {}, "f": null\n}\n'
    document = read_json("x.json", text)
    assert document.data == json.loads(text)
    assert document.lines["a", 0] == 2
    assert document.lines["a", 1, "b"] == 3
    assert document.lines["c",] == document.lines["f",] == 5
    assert document.line(("a", 1, "nothing", "below")) == 3


def test_json_is_read_as_python_reads_it():
    for value in (BOARD, {"ü": "\ud83d\ude00", "": [True, False, None, 0, -0.0, 1e-9, 10**30]}, [], "x", 1):
        for indent in (None, 2):
            text = json.dumps(value, indent=indent)
            assert read_json("x.json", text).data == json.loads(text)


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ('{"a": 1,\n}', 2, "a key in double quotes"),
        ('{"a"\n 1}', 2, "':' was expected"),
        ("[1\n 2]", 2, "',' or ']'"),
        ('{"a": 1\n "b": 2}', 2, "',' or '}'"),
        ("\n\nnul", 3, "a value was expected"),
        ("[01]", 1, "',' or ']'"),
        ('{} {"a": 1}', 1, "something follows"),
        ('"abc', 1, "Unterminated string"),
        ("", 1, "a value was expected"),
        ("[" * 100_000, 1, "nested too deeply"),
    ],
)
def test_what_is_no_json_is_told_with_its_line(text, line, says):
    with pytest.raises(Unreadable, match="JSON") as raised:
        read_json("x.json", text)
    assert raised.value.line == line
    assert says in raised.value.message


def test_yaml_keeps_the_line_of_every_key():
    text = "# head\na:\n  - b: 1\n    c: |\n      one\n      two\n---\nd: {e: f,\n  g: h}\n---\n"
    first, second = read_yaml("x.yaml", text)
    assert (first.data, second.data) == tuple(yaml.safe_load_all(text))[:2]
    assert first.lines["a", 0, "b"] == 3
    assert first.lines["a", 0, "c"] == 4
    assert first.blocks == {("a", 0, "c")}
    assert second.lines["d", "g"] == 9


BOMB = "a: &a [1]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in itertools.pairwise("abcdefghi")
)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: &a [*a]\n", "an alias lies inside what it stands for"),
        ("a: 2024-13-01\n", "can't be read"),
        ("a: [1\n", "This is not YAML"),
        ("a: *nothing\n", "undefined alias"),
        ("a: !!python/object:os.system {}\n", "could not determine a constructor"),
        (BOMB, f"more than {MOST_VALUES} values"),
    ],
)
def test_what_is_no_yaml_is_told(text, says):
    with pytest.raises(Unreadable) as raised:
        read_yaml("x.yaml", text)
    assert says in raised.value.message


def test_text_within_yaml_has_the_lines_of_its_file():
    text = 'data:\n  a.json: |\n    {\n      "x": 1\n    }\n  b.json: "{\\n\\"x\\": 1}"\n'
    (document,) = read("x.yaml", text)
    block, quoted = Place(document, ("data", "a.json")), Place(document, ("data", "b.json"))
    assert embedded(block, "a.json", "a.json")[0].lines["x",] == 4
    assert embedded(quoted, "b.json", "b.json")[0].lines["x",] == 6
    assert Place(document, ("data", "c.json")).value is None


# --- PromQL with variables


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("rate(x[$__rate_interval])", f"rate(x[{RATE_INTERVAL}])"),
        ("rate(x[${__auto}])", f"rate(x[{AUTO}])"),
        ("rate(x[$window] offset $shift)", "rate(x[5m] offset 5m)"),
        ("sum by ($by) (${metric:raw}_total)", "sum by (by) (metric_total)"),
        ("x > $limit", "x > 3"),
        ("x{job=~\"$job\", a='[[b]]'}", "x{job=~\"$job\", a='[[b]]'}"),
        ("[[old]]", "old"),
    ],
)
def test_variables_become_what_the_grammar_can_read(text, made):
    assert filled(text, {"limit": "3"}) == made


@pytest.mark.parametrize("query", PROMQL, ids=lambda query: query.name)
def test_promql_of_ours_can_be_read(query):
    assert not promql.read(query.expression).problem


@pytest.mark.parametrize(
    ("text", "counters"),
    [
        ("a_total", ["a_total"]),
        ("rate(a_total[5m]) > 0", []),
        ("absent(a_total)", []),
        ("b unless a_total", []),
        ("a_total unless b", ["a_total"]),
        ("a_total unless a_total offset 5m", []),
        ("b and on () (c or a_total)", []),
        ("max_over_time(a_total[5m])", ["a_total"]),
        ('{__name__="a_total"}', ["a_total"]),
    ],
)
def test_a_counter_as_it_stands_is_found(text, counters):
    assert list(promql.raw_counters(promql.read(text))) == counters


@pytest.mark.parametrize(
    ("text", "unsafe"),
    [
        ("a / b", True),
        ("a / (b > 0)", False),
        ("a / clamp_min(b, 1)", False),
        ("a / 2", False),
        ("rate(a[5m]) / rate(b[5m]) > 0.1", False),
        ("rate(a[5m]) / rate(b[5m]) > bool 0.1", True),
        ("node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes", False),
        ("a / count(b)", False),
        ("a / (rate(b[5m]) + 1)", False),
        ("a / (rate(b[5m]) * 2)", True),
    ],
)
def test_a_division_by_what_may_be_0_is_found(text, unsafe):
    assert promql.unsafe_ratio(promql.read(text)) is unsafe


# --- LogQL


@pytest.mark.parametrize("text", [*LOGQL, *WITH_VARIABLES, *(query.expression for query in OURS)])
def test_logql_can_be_read(text):
    assert not logql.read(text).problem


@pytest.mark.parametrize(("text", "says"), LOGQL_BAD, ids=[text[:40] for text, _ in LOGQL_BAD])
def test_what_is_no_logql_is_told(text, says):
    read = logql.read(text)
    assert read.tree is None
    assert says in read.problem


def test_a_tree_of_logql_knows_stages_filters_and_groups():
    read = logql.read('sum by (k) (sum_over_time({a="b"} |= "x" | logfmt | w="v" | keep k, r | unwrap r [5m])) > 1')
    assert read.is_metric
    (lines,) = read.queries()
    assert [stage.kind for stage in lines.stages] == ["|=", "logfmt", "label", "keep", "unwrap"]
    assert lines.stages[2].filters == (logqltree.Matcher("w", "=", "v"),)
    assert lines.range == "5m"
    assert [node.name for node, _ in read.nodes() if isinstance(node, logqltree.Call)] == ["sum", "sum_over_time"]
    assert not logql.read('{a="b"} |= "x"').is_metric


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ('sum(count_over_time({a="b"} |= "x" [5m])) > 1', "logql"),
        ('rate({a="b"} | logfmt [5m])', "logql"),
        ('bytes_rate({a="b"}[5m])', "logql"),
        ('rate(x{a=~"b|logfmt"}[5m]) > 1', "promql"),
        ('x{a="b"} != y', "promql"),
        ("up == 0", "promql"),
    ],
)
def test_a_rule_file_tells_its_language(text, language):
    assert language_of(text) == language


@pytest.mark.parametrize(
    ("text", "found"),
    [("1m30s", 90), ("0", 0), ("5", None), (15, 15), ("1h", 3600), ("x", None), (None, None), ("1.5d", 129600)],
)
def test_durations_are_seconds(text, found):
    assert seconds(text) == found


@pytest.mark.parametrize(("text", "says"), TRACEQL_BAD)
def test_what_is_no_traceql_is_told(text, says):
    assert says in traceql.problem(text)


@pytest.mark.parametrize("text", TRACEQL)
def test_traceql_can_be_read(text):
    assert not traceql.problem(text)


def test_headings_become_anchors_as_on_github():
    page = "# It's `a`, B\n## [Link](x.md) here\n## Twice\n## Twice\n```\n# code\n```\n### 한글 제목\n"
    assert anchors_of(page) == {"its-a-b", "link-here", "twice", "twice-1", "한글-제목"}


# --- files of any shape

SHAPES = {
    "board.json": json.loads(board()),
    "v2.json": json.loads(v2()),
    "rules.yaml": yaml.safe_load(rules('rate(frontend_errors_total{job="x"}[5m]) > 1')["rules.yaml"]),
    "managed.yaml": yaml.safe_load(alerts.MANAGED),
    "datasources.yaml": yaml.safe_load(datasources.text(datasources.Settings(tenant="x", replace=True))),
    "shop.yaml": yaml.safe_load(configurations.SHOP),
    "compose.yaml": yaml.safe_load(configurations.GRAFANA + configurations.ALLOY.replace("services:\n", "")),
    "tempo.yaml": yaml.safe_load(configurations.TEMPO),
    "loki.yaml": yaml.safe_load(configurations.LOKI),
    "kustomization.yaml": yaml.safe_load(configurations.generated('"1"')["kustomization.yaml"]),
}
ODD: list[Any] = [None, 0, "", [], {}, [None], {"a": []}, True, ["x"], {"x": {"y": 1}}]


def _paths(value: Any, path: tuple[Any, ...] = ()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from _paths(inner, (*path, key))


@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", SHAPES)
def test_no_value_of_another_type_breaks_lint(name):
    """Every value of a good file is replaced by values of every other type, one at a time."""
    for path in list(_paths(SHAPES[name]))[1:]:
        for odd in ODD:
            made = copy.deepcopy(SHAPES[name])
            inner = made
            for step in path[:-1]:
                inner = inner[step]
            inner[path[-1]] = odd
            report = lint([File(name, json.dumps(made, default=str))])
            assert report.files == 1, path


def test_a_document_is_asked_for_what_it_lacks():
    document = Document(file="x", data={"a": [1]}, lines={(): 1})
    assert document.at(("a", 0)) == 1
    assert document.at(("a", 5)) is None
    assert document.at(("a", 0, "b")) is None
    assert document.line(("a", 0)) == 1
