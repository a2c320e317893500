"""Every query, and every query that a link opens, parses as Grafana's editors and Prometheus parse it."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from telemetry.grafana.boards import BOARDS
from telemetry.grafana.records import Dashboard, Explore, Language
from tests.backends import npm

SCRIPT = Path(__file__).with_name("grammars.mjs")
LANGUAGES: dict[str, Language] = {"metrics": "promql", "logs": "logql", "traces": "traceql"}
# What Grafana puts in before it parses, or sends.
MACROS = {"__auto": "5m", "__range": "1h", "__rate_interval": "1m"}

Check = Callable[[Iterable[tuple[str, str]]], list[int | None]]


@pytest.fixture(scope="session")
def first_errors(packages: Path) -> Check:
    def check(queries: Iterable[tuple[str, str]]) -> list[int | None]:
        done = subprocess.run(
            [npm.node(), str(SCRIPT)], input=json.dumps(list(queries)), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return check


def filled(expression: str) -> str:
    """With a value for each macro and variable, those of data links among them."""

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        return MACROS.get(name, ".+" if name in {"job", "instance", "route"} else "x")

    return re.sub(r"\$\{([\w.:]+)\}|\$(__\w+)", value, expression)


def queries_of(board: Dashboard) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = [(query.language, filled(query.expression)) for query in board.queries]
    for panel in board.panels:
        for link in (*panel.links, *(link for column in panel.columns for link in column.links)):
            if isinstance(link, Explore):
                found.append((LANGUAGES[link.source], filled(link.expression)))
    return found


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)
def test_every_query_and_link_of_a_dashboard_parses(board: Dashboard, first_errors: Check) -> None:
    queries = queries_of(board)
    assert not any("$" in text for _, text in queries)
    wrong = [(query, at) for query, at in zip(queries, first_errors(queries), strict=True) if at is not None]
    assert not wrong


def test_what_makes_no_sense_is_found(first_errors: Check) -> None:
    queries = [
        ("logql", '{service_name="a"} |= frontend'),
        ("logql", '{service_name="a"} | logfmt | keep a, [5m]'),
        ("traceql", "{ status = }"),
        ("promql", "sum by (job (rate(a_total[5m]))"),
        ("promql", "rate(a_total[5m])"),
        ("traceql", "{ status = error }"),
        ("logql", '{service_name="a"} |= "frontend"'),
    ]
    errors = first_errors(queries)
    assert [at is not None for at in errors] == [True] * 4 + [False] * 3


def test_every_alert_of_loki_parses(first_errors: Check) -> None:
    from telemetry.grafana.queries.frontend import QUERIES

    queries = [(query.language, filled(query.expression)) for query in QUERIES]
    assert first_errors(queries) == [None] * len(queries)
