"""What the queries of several subjects have in common: whose series are meant, and what stands for nothing."""

from __future__ import annotations

from typing import Final

MINE: Final = 'job=~"${job}", instance=~"${instance}"'
"""The series of what the reader has chosen."""

NEVER: Final = "1e-9"
"""A rate below which nothing happens: a share of nothing is 0 with it as the least that is divided by."""


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
