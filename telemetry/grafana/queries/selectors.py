"""What the queries of several subjects have in common: whose series are meant, and what stands for nothing."""

from __future__ import annotations

from typing import Final

from telemetry.grafana.records import Query

MINE: Final = 'job=~"${job}", instance=~"${instance}"'
"""The series of what the reader has chosen."""

NEVER: Final = "1e-9"
"""A rate below which nothing happens: a share of nothing is 0 with it as the least that is divided by."""


def now(name: str, expression: str, legend: str, about: str, *, rests_at_zero: bool = False) -> Query:
    """A query for the values of this moment, each a row."""
    return Query(
        name=name,
        language="promql",
        expression=expression,
        shape="table",
        legend=legend,
        about=about,
        rests_at_zero=rests_at_zero,
    )


def series(name: str, expression: str, legend: str, about: str, *, rests_at_zero: bool = False) -> Query:
    """A query for curves over the time shown."""
    return Query(
        name=name,
        language="promql",
        expression=expression,
        shape="series",
        legend=legend,
        about=about,
        rests_at_zero=rests_at_zero,
    )


def alive(by: str) -> str:
    """0 for each group whose processes tell of themselves now, and nothing for one that doesn't."""
    return f"0 * {total(f'target_info{{{MINE}}}', by)}"


def total(expression: str, by: str) -> str:
    """The sum of ``expression`` by labels; of all where ``by`` is empty."""
    return f"sum by ({by}) ({expression})" if by else f"sum({expression})"


def rate(metric: str, matchers: str = "") -> str:
    """What happens a second, by the chosen series of the counter ``metric`` with more ``matchers``."""
    return f"rate({metric}{{{_both(matchers)}}}[$__rate_interval])"


def increase(metric: str, matchers: str = "") -> str:
    """How often it happened in the time shown."""
    return f"increase({metric}{{{_both(matchers)}}}[$__range])"


def _both(matchers: str) -> str:
    return f"{MINE}, {matchers}" if matchers else MINE
