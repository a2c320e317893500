"""Statistics of paired claim rounds and of repeated reads: pure functions over what was measured.

A block is three rounds next to each other, in random order: one with the exporter on, two with it off. The first of
those two is what both others are divided by, so that ``on/off`` and the control ``off/off`` are seen under the same
noise. Throughput is compared by its logarithm, so that 2 % more and 2 % less weigh the same.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Sequence

import msgspec

DRAWS = 10_000
"""How often chance is asked."""


class Reads(msgspec.Struct, frozen=True):
    """Some readings of one figure: the median, the highest, how many."""

    p50: float
    highest: float
    count: int


class Effect(msgspec.Struct, frozen=True):
    """A ratio of throughputs over all pairs: the median, its 95 % interval by bootstrap, lowest and highest."""

    median: float
    low: float
    high: float
    lowest: float
    highest: float
    pairs: int


class Verdict(msgspec.Struct, frozen=True):
    """Whether the exporter's rounds differ from the others.

    ``p`` is that of a permutation test, two-sided: how often a round picked blindly from each block is as far off as
    the exporter's were. ``effect`` is the ratio that it tests, ``seen`` the smallest loss, as a share of throughput,
    that this many blocks of this noise find significant four times out of five.
    """

    effect: float
    p: float
    seen: float
    blocks: int


def reads(values: Sequence[float]) -> Reads:
    """Median and highest; ValueError where nothing was read."""
    if not values:
        raise ValueError("nothing was read, so there is nothing to tell")
    return Reads(statistics.median(values), max(values), len(values))


def ratios(of: Sequence[float], against: Sequence[float]) -> list[float]:
    """One ratio for each pair; ValueError where they can't be paired."""
    if len(of) != len(against):
        raise ValueError(f"{len(of)} rounds can't be paired with {len(against)}")
    return [each / base for each, base in zip(of, against, strict=True)]


def effect(pairs: Sequence[float], *, seed: int = 1, draws: int = DRAWS) -> Effect:
    """What ``pairs``, one ratio each, say together."""
    if not pairs:
        raise ValueError("no pair was measured, so there is nothing to tell")
    low, high = interval(pairs, statistics.median, seed=seed, draws=draws)
    return Effect(statistics.median(pairs), low, high, min(pairs), max(pairs), len(pairs))


def interval(
    values: Sequence[float], statistic: Callable[[Sequence[float]], float], *, seed: int = 1, draws: int = DRAWS
) -> tuple[float, float]:
    """The 95 % interval of ``statistic`` by percentile bootstrap."""
    rng = random.Random(seed)
    found = sorted(statistic(rng.choices(values, k=len(values))) for _ in range(draws))
    return found[int(0.025 * draws)], found[int(0.975 * draws) - 1]


def verdict(
    on: Sequence[float], off: Sequence[float], control: Sequence[float], *, seed: int = 1, draws: int = DRAWS
) -> Verdict:
    """Test the rounds ``on`` against both others of their blocks.

    If the exporter made no difference, it would not matter which round of a block is called its: the order within a
    block was random. ValueError without blocks, or where they are not whole.
    """
    if not on or not len(on) == len(off) == len(control):
        raise ValueError(f"{len(on)} rounds on, {len(off)} and {len(control)} off are no blocks of three")
    blocks = [tuple(math.log(each) for each in block) for block in zip(on, off, control, strict=True)]
    apart = [tuple(_apart(block, place) for place in range(3)) for block in blocks]
    seen = statistics.fmean(each[0] for each in apart)
    rng = random.Random(seed)
    chance = [sum(each[int(rng.random() * 3)] for each in apart) / len(apart) for _ in range(draws)]
    # The exporter's own labelling is one of those that chance may draw, so that p is never 0. What differs by less
    # than arithmetic can tell is as far off.
    p = (1 + sum(abs(each) >= abs(seen) - 1e-12 for each in chance)) / (1 + draws)
    critical = sorted(abs(each) for each in chance)[int(0.95 * draws)]
    visible = critical + 0.8416 * statistics.pstdev(chance)
    return Verdict(math.exp(seen), p, 1 - math.exp(-visible), len(blocks))


def _apart(block: tuple[float, ...], place: int) -> float:
    """How far one round of a block is from the mean of the others."""
    return block[place] - statistics.fmean(each for at, each in enumerate(block) if at != place)
