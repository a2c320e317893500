"""Statistics of paired rounds: pure functions over what was measured, no clocks and no I/O.

On a shared machine two figures taken minutes apart can't be compared, so every bench measures its
variants side by side in short rounds (A B C, B C A, C A B, …) and compares within a round only.
What is told is the median over rounds, and the lowest and highest round beside it.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Spread(msgspec.Struct, frozen=True):
    """The median of some rounds, with the lowest and the highest."""

    median: float
    low: float
    high: float
    rounds: int


def spread(values: Sequence[float]) -> Spread:
    """Median, lowest and highest of one value per round; ``ValueError`` when there was no round."""
    if not values:
        raise ValueError("no round was measured, so there is nothing to tell")
    return Spread(statistics.median(values), min(values), max(values), len(values))


def schedule(variants: Sequence[str], rounds: int) -> Iterator[tuple[int, str]]:
    """Each variant once a round, the order turned by one every round.

    A machine that slows down in the course of a round then slows each variant as often as the others.
    """
    for number in range(rounds):
        turn = number % len(variants)
        for variant in (*variants[turn:], *variants[:turn]):
            yield number, variant


def ratios(values: Sequence[float], against: Sequence[float]) -> list[float]:
    """One ratio per round, ``values`` over ``against``; both hold one value for each of the same rounds."""
    if len(values) != len(against):
        raise ValueError(f"{len(values)} rounds can't be paired with {len(against)}")
    return [value / base for value, base in zip(values, against, strict=True)]


def over(values: Sequence[float], floor: Sequence[float]) -> list[float]:
    """What each round cost on top of the floor of the same round."""
    if len(values) != len(floor):
        raise ValueError(f"{len(values)} rounds can't be paired with {len(floor)}")
    return [value - base for value, base in zip(values, floor, strict=True)]
