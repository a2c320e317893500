"""Lint reads LogQL and TraceQL as the grammars of Grafana's editors do."""

from __future__ import annotations

from tests.grafana.test_grammars import first_errors
from tests.lint_cases.grammar import LOGQL, TRACEQL

__all__ = ["first_errors"]


def test_what_lint_can_read_the_editors_can_read(first_errors):
    queries = [*(("logql", text) for text in LOGQL), *(("traceql", text) for text in TRACEQL)]
    refused = [query for query, error in zip(queries, first_errors(queries), strict=True) if error is not None]
    assert not refused
