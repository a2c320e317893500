"""The rules: when a bucket is empty, which fingerprints fold, what a window has to tell."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.errors.fingerprint import OTHER
from ingest.limits.rules import (
    MINUTE,
    NOBODY,
    Account,
    Closing,
    Rate,
    Sample,
    Thresholds,
    Window,
    admit,
    closing,
    fold,
    refusal,
    take,
)

RATE = Rate.of(1.0, 20)
CEILING = Rate.of(5000.0, 5000)
EMPTY = -math.inf


def drain(rate: Rate, times: list[float], full_at: float = EMPTY) -> list[bool]:
    taken = []
    for now in times:
        full_at, wait = take(full_at, now, rate)
        taken.append(not wait)
    return taken


@pytest.mark.parametrize(
    ("times", "admitted"),
    [
        ([0.0] * 25, 20),  # the burst
        ([0.0] * 20 + [0.999], 20),
        ([0.0] * 20 + [1.0], 21),  # one a second after that
        ([0.0] * 20 + [1.0, 1.0, 2.0, 2.0], 22),
        ([0.0] * 20 + [1e6] * 25, 40),  # full again, and no fuller
        ([float(second) for second in range(100)], 100),
        ([second / 2 for second in range(100)], 69),  # 49.5 s at 1/s, and the burst
    ],
)
def test_a_bucket_gives_its_burst_then_its_rate(times, admitted):
    assert sum(drain(RATE, times)) == admitted


def test_an_empty_bucket_says_how_long_to_wait():
    full_at = EMPTY
    for _ in range(20):
        full_at, _ = take(full_at, 0.0, RATE)
    assert take(full_at, 0.25, RATE) == (full_at, 0.75)


@pytest.mark.parametrize(("wait", "seconds"), [(0.001, 1), (0.9, 1), (1.0, 1), (1.0000000001, 1), (1.1, 2), (59.5, 60)])
def test_retry_after_is_in_whole_seconds_and_never_0(wait, seconds):
    assert refusal("rate_limited", wait).retry_after == seconds


def test_who_waits_as_long_as_told_is_admitted():
    full_at, total = EMPTY, EMPTY
    for _ in range(20):
        full_at, total, decision = admit(full_at, total, 7.3, RATE, CEILING)
        assert decision.refused is None
    full_at, total, decision = admit(full_at, total, 7.3, RATE, CEILING)
    assert (decision.refused, decision.retry_after) == ("rate_limited", 1)
    assert admit(full_at, total, 7.3 + decision.retry_after, RATE, CEILING)[2].refused is None


@given(st.lists(st.floats(0, 100), max_size=200), st.floats(0.01, 50), st.integers(1, 30))
def test_no_more_comes_through_in_any_stretch_than_burst_and_rate_allow(moments, per_second, burst):
    times = sorted(moments)
    taken = [now for now, ok in zip(times, drain(Rate.of(per_second, burst), times), strict=True) if ok]
    for start in range(len(taken)):
        for end in range(start, len(taken)):
            assert end - start + 1 <= burst + (taken[end] - taken[start]) * per_second + 1e-6


@given(st.lists(st.floats(0, 50), min_size=1, max_size=60), st.integers(1, 10))
def test_a_clock_that_jumps_back_locks_nobody_out_for_longer_than_a_bucket_takes_to_fill(moments, burst):
    rate = Rate.of(1.0, burst)
    full_at = EMPTY
    for now in moments:
        full_at, wait = take(full_at, now, rate)
        assert wait <= 1.0 + 1e-6


def test_a_rate_of_0_is_no_limit():
    assert all(drain(Rate.of(0.0, 20), [0.0] * 1000))


def test_a_refusal_takes_from_neither_bucket():
    empty_own = 40.0
    own, total, decision = admit(empty_own, EMPTY, 0.0, RATE, CEILING)
    assert (own, total, decision.refused) == (empty_own, EMPTY, "rate_limited")
    empty_total = 2.0
    own, total, decision = admit(EMPTY, empty_total, 0.0, RATE, CEILING)
    assert (own, total, decision.refused, decision.retry_after) == (EMPTY, empty_total, "ceiling", 1)


def test_the_ceiling_bounds_all_principals_together():
    total, admitted = EMPTY, 0
    for _ in range(6000):
        _, total, decision = admit(EMPTY, total, 0.0, RATE, CEILING)
        admitted += decision.refused is None
    assert admitted == 5000


def test_fingerprints_beyond_the_cap_fold_until_the_minute_is_over():
    account, outcomes = NOBODY, []
    for number in (0, 1, 2, 3, 1, 4):
        account, folded = fold(account, f"f{number}", 100.0, 3)
        outcomes.append(folded)
    assert outcomes == ["f0", "f1", "f2", OTHER, "f1", OTHER]
    assert fold(account, "f3", 100.0 + MINUTE - 0.001, 3)[1] == OTHER
    assert fold(account, "f3", 100.0 + MINUTE, 3)[1] == "f3"


def test_a_cap_of_0_is_none_and_other_takes_no_place():
    assert fold(NOBODY, "f", 0.0, 0) == (NOBODY, "f")
    assert fold(NOBODY, OTHER, 0.0, 1) == (NOBODY, OTHER)


@given(st.lists(st.tuples(st.floats(0, 200), st.integers(0, 9)), max_size=100), st.integers(1, 5))
def test_no_minute_sees_more_fingerprints_than_the_cap_twice(events, cap):
    account, minutes = Account(), {}
    for now, number in sorted(events):
        account, folded = fold(account, str(number), now, cap)
        if folded != OTHER:
            minutes.setdefault(account.minute_ends, set()).add(folded)
    assert all(len(seen) <= cap for seen in minutes.values())


def test_a_window_whose_first_line_told_everything_has_nothing_to_tell():
    key = ("mina@acme.example", "acme", "error", "f")
    assert closing(key, Window(10.0), "expired") is None
    said = Sample(message="m")
    assert closing(key, Window(10.0, 7, said), "evicted") == Closing(key, 7, said, "evicted")


def test_the_defaults_forget_nothing_that_matters():
    limits = Thresholds()
    assert limits.principals >= limits.ceiling * limits.burst / limits.rate
    assert limits.windows >= limits.ceiling * limits.window
