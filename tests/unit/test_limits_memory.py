"""What one process keeps: sums that are exact whatever happens, and a bound on everything."""

from __future__ import annotations

import asyncio
import gc
import sys
import time
import tracemalloc
from collections import Counter
from contextvars import ContextVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ingest.errors.fingerprint import OTHER
from ingest.limits import Limits
from ingest.limits.memory import Accounts, Windows
from ingest.limits.rules import Sample, Thresholds
from telemetry.metrics.registry import REGISTRY

SMALL = Thresholds(rate=0.5, burst=3, ceiling=4.0, fingerprints=2, window=10.0, principals=3, windows=4)
EMAILS = ["a@x.example", "b@x.example", "c@x.example", "d@x.example", "e@x.example"]


def sample(fingerprint: str) -> Sample:
    return Sample(message=fingerprint)


class EverythingIsToldOnce(RuleBasedStateMachine):
    """Reports, time, sweeps, evictions (there is room for four windows) and ends, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.told: Counter[tuple[str, ...]] = Counter()
        self.sent: Counter[tuple[str, ...]] = Counter()
        self.open: dict[tuple[str, ...], float] = {}
        self.windows = Windows(SMALL, self.close)

    def close(self, closing) -> None:
        assert closing.repeat >= 1
        assert closing.sample.message == closing.key[3]
        self.told[closing.key] += closing.repeat
        opened = self.open.pop(closing.key)
        if closing.cause == "expired":
            assert self.now >= opened + SMALL.window

    @rule(email=st.sampled_from(EMAILS), fp=st.sampled_from("fgh"), repeat=st.integers(1, 1000))
    def report(self, email, fp, repeat):
        key = (email, "acme", "error", fp)
        self.sent[key] += repeat
        if self.windows.count(key, repeat, self.now, sample):
            assert self.now < self.open[key] + SMALL.window, "counted into a window that is over"
        else:
            # Either none was open, or it is over by now, told or without anything to tell.
            assert key not in self.open or self.now >= self.open[key] + SMALL.window
            self.told[key] += repeat
            self.windows.open(key, self.now)
            self.open[key] = self.now
        self.forget_silent()

    @rule(seconds=st.floats(0, 15))
    def wait(self, seconds):
        self.now += seconds

    @rule(most=st.integers(1, 3))
    def sweep(self, most):
        more = self.windows.close_due(self.now, most)
        self.forget_silent()
        if not more:
            assert all(self.now < opened + SMALL.window for opened in self.open.values())

    @rule()
    def end(self):
        self.windows.close_all()
        self.forget_silent()
        assert not self.open
        assert self.told == self.sent

    def forget_silent(self):
        """Windows that went without a line told nothing because there was nothing to tell."""
        self.open = {key: opened for key, opened in self.open.items() if key in self.windows}

    @invariant()
    def nothing_is_lost_or_doubled(self):
        waiting = Counter({key: window.suppressed for key, window in self.windows._windows.items()})
        assert self.told + waiting == self.sent

    @invariant()
    def no_more_windows_than_allowed(self):
        assert len(self.windows) <= SMALL.windows


TestEverythingIsToldOnce = EverythingIsToldOnce.TestCase


class LimitsMachine(RuleBasedStateMachine):
    """The whole of it: what is admitted and then logged or counted sums up, under folding as well."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.sent = self.logged = 0
        self.closed: list = []
        self.lines: Counter[tuple[str, float]] = Counter()
        self.limits = Limits(SMALL, self.closed.append, clock=lambda: self.now)
        self.limits._arm = lambda delay: None  # time passes in `wait` only

    def run(self, step):
        try:
            step.send(None)
        except StopIteration as stop:
            return stop.value
        raise AssertionError("memory never waits")

    @rule(email=st.sampled_from(EMAILS), fp=st.sampled_from("fghijk"), repeat=st.integers(1, 1000))
    def report(self, email, fp, repeat):
        if self.run(self.limits.admit(email)).refused is not None:
            return
        self.sent += repeat
        seen = self.run(self.limits.meet((email, "acme", "error", fp), repeat, sample))
        assert seen.fingerprint in (fp, OTHER)
        if not seen.counted:
            self.logged += repeat

    @rule(seconds=st.floats(0, 100))
    def wait(self, seconds):
        self.now += seconds
        self.limits._windows.close_due(self.now, 100)

    @rule()
    def end(self):
        self.limits._windows.close_all()
        assert self.logged + sum(closing.repeat for closing in self.closed) == self.sent

    @invariant()
    def bounded(self):
        assert len(self.limits._accounts) <= SMALL.principals
        assert len(self.limits._windows) <= SMALL.windows


TestLimits = LimitsMachine.TestCase


async def meet(limits: Limits, fp: str, *, email: str = EMAILS[0], kind: str = "error", repeat: int = 1):
    return await limits.meet((email, "acme", kind, fp), repeat, sample)


async def test_the_first_is_logged_and_repeats_are_told_at_the_end():
    closed = []
    limits = Limits(Thresholds(), closed.append)
    async with limits.running():
        assert not (await meet(limits, "f", repeat=5)).counted
        for repeat in (1, 1000, 2):
            assert (await meet(limits, "f", repeat=repeat)).counted
        assert not (await meet(limits, "f", email=EMAILS[1])).counted
        assert not (await meet(limits, "g")).counted
        assert closed == []
    (closing,) = closed
    assert (closing.key, closing.repeat, closing.cause) == ((EMAILS[0], "acme", "error", "f"), 1003, "shutdown")


async def until(condition, seconds=30.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        await asyncio.sleep(0.02)


async def test_a_window_closes_by_itself():
    closed = []
    limits = Limits(Thresholds(window=0.2), closed.append)
    await meet(limits, "f")
    await meet(limits, "f")
    await until(lambda: closed)
    assert [closing.cause for closing in closed] == ["expired"]


async def test_kinds_that_fold_into_other_stay_apart():
    closed = []
    limits = Limits(Thresholds(fingerprints=1), closed.append)
    async with limits.running():
        assert (await meet(limits, "f")).fingerprint == "f"
        for fp, kind, counted in (("g", "error", False), ("h", "error", True), ("i", "react", False)):
            seen = await meet(limits, fp, kind=kind)
            assert (seen.fingerprint, seen.counted) == (OTHER, counted)
        assert (await meet(limits, "f")).counted
    assert sorted((closing.key[2:], closing.repeat) for closing in closed) == [
        (("error", "f"), 1),
        (("error", OTHER), 1),
    ]


async def test_a_window_of_0_logs_everything():
    limits = Limits(Thresholds(window=0.0), pytest.fail)
    async with limits.running():
        assert [(await meet(limits, "f")).counted for _ in range(5)] == [False] * 5


@pytest.mark.expects_fault("ingest.limits")
async def test_a_closing_line_that_fails_takes_nobody_along():
    told = []

    def emit(closing):
        told.append(closing)
        raise OSError("disk full")

    limits = Limits(Thresholds(), emit)
    async with limits.running():
        for fp in "ff", "gg":
            await meet(limits, fp)
            await meet(limits, fp)
    assert len(told) == 2


async def test_closing_lines_belong_to_no_request():
    request = ContextVar("request", default="none")
    seen = []
    limits = Limits(Thresholds(window=0.05), lambda closing: seen.append(request.get()))
    request.set("the one that opened it")
    await meet(limits, "f")
    await meet(limits, "f")
    await until(lambda: seen)
    assert seen == ["none"]


async def test_open_windows_and_closings_are_measured():
    def value(name, labels=None):
        return REGISTRY.get_sample_value(name, labels or {}) or 0.0

    before = value("frontend_windows_closed_total", {"cause": "shutdown"})
    limits = Limits(Thresholds(), lambda closing: None)
    async with limits.running():
        await meet(limits, "f")
        await meet(limits, "f")
        await until(lambda: value("frontend_windows_open") == 1.0)
    assert value("frontend_windows_open") == 0.0
    assert value("frontend_windows_closed_total", {"cause": "shutdown"}) == before + 1


@pytest.mark.slow
def test_a_million_principals_weigh_no_more_than_the_bound():
    """One report each, at the ceiling's pace; what is kept at the end was made in the last 100,000 and is weighed."""
    kept = 20_000
    limits = Thresholds(principals=kept, windows=kept)
    accounts, windows = Accounts(limits), Windows(limits, lambda closing: None)

    def send(numbers: range) -> None:
        for number in numbers:
            now = number / 5000
            email = f"somebody.{number}@workspace.example"
            if accounts.admit(email, now).refused is None:
                key = (email, f"workspace-{number % 1000}", "error", accounts.fold(email, f"{number:016x}", now))
                windows.open(key, now)

    send(range(900_000))
    gc.collect()
    tracemalloc.start()
    send(range(900_000, 1_000_000))
    weight, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    weight += sys.getsizeof(accounts._accounts) + sys.getsizeof(windows._windows)
    print(f"\n{weight / kept:,.0f} bytes a principal with a window")
    assert len(accounts) == len(windows) == kept
    assert weight < kept * 1100
