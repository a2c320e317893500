"""Limits that replicas share through a real server, which is killed, stopped and started again meanwhile."""

from __future__ import annotations

import asyncio
import random
import shutil
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Self

import pytest
import redis
import redis.asyncio as client

from ingest.errors.fingerprint import OTHER
from ingest.limits import Limits, store
from ingest.limits.rules import Sample, Thresholds
from ingest.limits.scripts import GRACE_MS, LATEST_MS
from ingest.limits.shared import RETRY
from ingest.limits.store import BUDGET
from telemetry.metrics.registry import REGISTRY
from tests.backends.redis import MISSING, Redis

EMAIL = "mina@acme.example"
LIMITS = Thresholds(rate=0, ceiling=0, window=2.0)


@pytest.fixture
def server(tmp_path) -> Iterator[Redis]:
    if shutil.which("redis-server") is None:
        pytest.skip(MISSING)
    server = Redis(tmp_path)
    yield server
    server.kill()


@pytest.fixture
async def direct(server: Redis) -> AsyncIterator[client.Redis]:
    """A client of the test's own, closed also where the test fails."""
    async with client.Redis.from_url(server.url, protocol=2) as opened:
        yield opened


class Replica:
    """A replica's limits, and what it would have logged."""

    def __init__(self, server: Redis, limits: Thresholds = LIMITS) -> None:
        self.closed = []
        self.logged: Counter[tuple[str, ...]] = Counter()
        self.sent: Counter[tuple[str, ...]] = Counter()
        self.limits = Limits(limits, self.closed.append, store_url=server.url)
        self._running = self.limits.running()

    @property
    def up(self) -> bool:
        return self.limits._shared.up

    async def __aenter__(self) -> Self:
        await self._running.__aenter__()
        return self

    async def __aexit__(self, *_) -> None:
        await self._running.__aexit__(None, None, None)

    async def die(self) -> None:
        """As kill -9 would have it: nothing is closed, nobody is told."""
        if self.limits._timer is not None:
            self.limits._timer.cancel()
        if self.limits._sweep is not None:
            await self.limits._sweep
        await self.limits._shared._store.disconnect()
        self.limits._shared = None  # what the loop's end still does to `running()` reaches no store

    async def meet(self, fp: str = "f", *, repeat: int = 1, email: str = EMAIL):
        key = (email, "acme", "error", fp)
        self.sent[key] += repeat
        seen = await self.limits.meet(key, repeat, lambda folded: Sample(message=folded))
        if not seen.counted:
            self.logged[*key[:3], seen.fingerprint] += repeat
        return seen

    @property
    def told(self) -> Counter[tuple[str, ...]]:
        told = Counter(self.logged)
        for closing in self.closed:
            told[closing.key] += closing.repeat
        return told

    async def comes_up(self) -> None:
        await wait_for(lambda: self.up)


async def wait_for(condition, seconds: float = 30.0) -> float:
    start = time.monotonic()
    while not condition():
        assert time.monotonic() - start < seconds, "waited in vain"
        await asyncio.sleep(0.02)
    return time.monotonic() - start


def errors() -> Counter[str]:
    reasons = ("timeout", "connection", "refused", "late")
    found = {why: REGISTRY.get_sample_value("frontend_store_errors_total", {"reason": why}) or 0 for why in reasons}
    return Counter(found)


async def test_a_bucket_is_one_for_all_replicas(server):
    limits = Thresholds()
    async with Replica(server, limits) as one, Replica(server, limits) as two:
        start = time.monotonic()
        decisions = [await replica.limits.admit(EMAIL) for _ in range(20) for replica in (one, two)]
        admitted = [decision for decision in decisions if decision.refused is None]
        assert 20 <= len(admitted) <= 21 + time.monotonic() - start  # one a second comes back
        refused = [decision for decision in decisions if decision.refused is not None]
        assert {(decision.refused, decision.retry_after) for decision in refused} == {("rate_limited", 1)}
        assert (await two.limits.admit("jun@acme.example")).refused is None


async def test_what_the_store_refuses_costs_no_token_here(server):
    async with Replica(server, Thresholds(burst=5)) as one, Replica(server, Thresholds(burst=5)) as two:
        for _ in range(5):
            await one.limits.admit(EMAIL)
        for _ in range(10):
            assert (await two.limits.admit(EMAIL)).refused == "rate_limited"
        await asyncio.sleep(1.1)
        assert (await two.limits.admit(EMAIL)).refused is None


async def test_the_ceiling_is_one_for_all_replicas(server):
    limits = Thresholds(rate=0, ceiling=10)
    async with Replica(server, limits) as one, Replica(server, limits) as two:
        start = time.monotonic()
        decisions = [
            (await replica.limits.admit(f"{number}@acme.example")).refused
            for number in range(8)
            for replica in (one, two)
        ]
        assert 10 <= decisions.count(None) <= 11 + 10 * (time.monotonic() - start)
    assert set(decisions) == {None, "ceiling"}


async def test_fingerprints_are_capped_over_all_replicas(server):
    limits = Thresholds(rate=0, ceiling=0, fingerprints=2)
    async with Replica(server, limits) as one, Replica(server, limits) as two:
        seen = [await one.meet("a"), await two.meet("b"), await one.meet("c"), await two.meet("d"), await two.meet("a")]
    assert [each.fingerprint for each in seen] == ["a", "b", OTHER, OTHER, "a"]
    assert [each.counted for each in seen] == [False, False, False, True, True]


async def test_a_window_is_one_for_all_replicas_and_its_opener_closes_it(server):
    async with Replica(server) as one, Replica(server) as two:
        assert not (await one.meet(repeat=3)).counted
        for repeat in (1, 1000, 5):
            assert (await two.meet(repeat=repeat)).counted
        assert (await one.meet()).counted
        took = await wait_for(lambda: one.closed)
        assert took < LIMITS.window + GRACE_MS / 1000, "before another may"
        await asyncio.sleep(GRACE_MS / 1000)
        assert two.closed == []
        (closing,) = one.closed
        assert (closing.repeat, closing.cause, closing.sample.message) == (1007, "expired", "f")
        assert not (await two.meet()).counted
    assert two.closed == []


async def test_windows_without_repeats_say_nothing(server):
    async with Replica(server) as one:
        await one.meet()
        await asyncio.sleep(LIMITS.window + 0.6)
        assert not (await one.meet()).counted
    assert one.closed == []


async def test_a_dead_replicas_windows_are_closed_once_by_another(server):
    one, two, three = Replica(server), Replica(server), Replica(server)
    await one.__aenter__()
    async with two, three:
        await one.meet()
        for replica in (one, two, three):
            await replica.meet(repeat=10)
        await one.die()
        took = await wait_for(lambda: two.closed or three.closed)
        assert took < LIMITS.window + LATEST_MS / 1000, "before the store forgets it"
        await asyncio.sleep(1.0)
    (closing,) = two.closed + three.closed
    assert (closing.repeat, closing.cause) == (30, "adopted")


async def test_a_replica_that_ends_closes_its_windows_at_once(server):
    limits = Thresholds(rate=0, ceiling=0, window=30.0)
    async with Replica(server, limits) as two:
        async with Replica(server, limits) as one:
            await one.meet()
            await two.meet(repeat=4)
        assert [(closing.repeat, closing.cause) for closing in one.closed] == [(4, "shutdown")]
        assert not (await two.meet()).counted
        assert (await two.meet()).counted
    assert [(closing.repeat, closing.cause) for closing in two.closed] == [(1, "shutdown")]


async def test_a_store_that_is_not_there_costs_nothing_but_what_is_shared(server):
    server.kill()
    before = errors()
    start = time.monotonic()
    async with Replica(server) as one:
        assert time.monotonic() - start < BUDGET + 2.0
        assert not (await one.meet()).counted
        assert (await one.meet()).counted
        await asyncio.sleep(0.1)
        found = errors() - before
        assert set(found) == {"connection"}
        assert found.total() <= 1 + (time.monotonic() - start) / RETRY, "asked once, then once in a while"
        server.start()
        await one.comes_up()
        assert REGISTRY.get_sample_value("frontend_store_up") == 1.0
    assert one.told == one.sent


async def test_a_store_that_dies_loses_no_count(server, caplog):
    caplog.set_level("INFO", "ingest")
    async with (
        Replica(server, Thresholds(rate=0, ceiling=0)) as one,
        Replica(server, Thresholds(rate=0, ceiling=0)) as two,
    ):
        await one.meet()
        for _ in range(5):
            await one.meet(repeat=2)
            await two.meet(repeat=3)
        server.kill()
        for replica in (one, two):  # each alone now: logged once, then counted
            assert not (await replica.meet()).counted
            assert (await replica.meet()).counted
        assert REGISTRY.get_sample_value("frontend_store_up") == 0.0
        server.start()
        await one.comes_up()
        await two.comes_up()
        told = [closing for replica in (one, two) for closing in replica.closed]
        assert sorted((closing.repeat, closing.cause) for closing in told) == [(10, "store_lost"), (15, "store_lost")]
        assert not (await one.meet()).counted
        assert (await two.meet()).counted
    assert one.told + two.told == one.sent + two.sent
    said = [record.message for record in caplog.records if record.name == "ingest"]
    assert len([line for line in said if "limits alone" in line]) == 2


async def test_a_replica_that_ends_while_the_store_is_gone_tells_its_part(server):
    async with Replica(server) as one:
        await one.meet()
        await one.meet(repeat=7)
        server.kill()
        await asyncio.sleep(0.5)
    assert one.told == one.sent


async def test_a_store_that_is_stopped_costs_one_budget_and_counts_nothing_late(server):
    limits = Thresholds(rate=0, ceiling=0, window=6.0)
    async with Replica(server, limits) as one:
        await one.meet()
        await one.meet()
        before = errors()
        server.pause()
        start = time.monotonic()
        await asyncio.gather(*(one.meet() for _ in range(30)))
        for _ in range(10):
            await one.meet()
        assert time.monotonic() - start < 5 * BUDGET, "not one for each report"
        assert (errors() - before)["timeout"] >= 1
        server.resume()
        await one.comes_up()
    assert one.told == one.sent


def counted(server: Redis) -> int:
    """What the store has counted, asked over a connection that blocks: the event loop stands still meanwhile."""
    with redis.Redis.from_url(server.url, protocol=2, socket_timeout=20) as blocking:
        return sum(int(blocking.hget(key, "n") or 0) for key in blocking.keys("fleetglass:*:w:*"))


async def in_a_stall(server: Redis, call, done) -> None:
    """Have the store do its part of ``call`` in time, while this process looks for it a budget too late."""
    server.pause()
    calling = asyncio.create_task(call())
    await asyncio.sleep(0.1)  # it is sent, and not answered
    server.resume()
    deadline = time.monotonic() + 20
    while not done() and time.monotonic() < deadline:
        time.sleep(0.005)  # noqa: ASYNC251 - the stall
    time.sleep(1.5 * store.BUDGET)  # noqa: ASYNC251 - the stall
    await calling


@pytest.fixture
def patient(monkeypatch) -> None:
    """The store has time enough to do its part on a busy machine."""
    monkeypatch.setattr(store, "BUDGET", 3.0)


@pytest.mark.slow
async def test_a_process_that_stalls_between_a_count_and_its_answer_counts_once(server, patient):
    async with Replica(server, Thresholds(rate=0, ceiling=0, window=60.0)) as one:
        await one.meet()
        await one.meet(repeat=2)
        before = errors()
        await in_a_stall(server, lambda: one.meet(repeat=5), lambda: counted(server) == 7)
        assert counted(server) == 7
        assert errors() == before
        assert one.up
    assert one.told == one.sent


@pytest.mark.slow
async def test_a_process_that_stalls_while_its_windows_are_taken_out_tells_them(server, patient):
    async with Replica(server, Thresholds(rate=0, ceiling=0, window=60.0)) as one:
        await one.meet()
        await one.meet(repeat=5)
        await in_a_stall(server, lambda: one.limits._shared.sweep(everything=True), lambda: counted(server) == 0)
        assert [closing.repeat for closing in one.closed] == [5]
    assert one.told == one.sent


async def test_a_restart_that_nobody_saw_begins_a_new_life(server):
    async with Replica(server, Thresholds(rate=0, ceiling=0)) as one:
        await one.meet()
        await one.meet(repeat=9)
        life = one.limits._shared._store.life
        server.restart()
        await one.comes_up()
        await wait_for(lambda: one.limits._shared._store.life != life)
        await one.meet(repeat=2)
        await one.meet(repeat=3)
    assert one.told == one.sent


async def test_scripts_that_were_flushed_are_loaded_again_in_the_same_life(server, direct):
    async with Replica(server, Thresholds(rate=0, ceiling=0)) as one:
        await one.meet()
        await direct.script_flush()
        assert (await one.meet(repeat=5)).counted
        assert one.up
    assert [closing.repeat for closing in one.closed] == [5]


@pytest.mark.parametrize(
    ("options", "reason"), [(("--requirepass", "s3cret"), "refused"), (("--maxmemory", "1"), "refused")]
)
async def test_a_store_that_refuses_is_no_store(tmp_path, options, reason):
    if shutil.which("redis-server") is None:
        pytest.skip(MISSING)
    server = Redis(tmp_path, *options)
    before = errors()
    try:
        async with Replica(server, Thresholds()) as one:
            for _ in range(3):
                assert (await one.limits.admit(EMAIL)).refused is None
                await one.meet()
            assert not one.up
    finally:
        server.kill()
    assert set(errors() - before) == {reason}
    assert one.told == one.sent


async def expiries(direct: client.Redis) -> dict[str, int]:
    """Milliseconds until each key of the server ends; -1 for one that never does. None for what ended meanwhile."""
    found = {key.decode(): await direct.pttl(key) for key in [key async for key in direct.scan_iter()]}
    return {key: left for key, left in found.items() if left != -2}


async def test_nothing_stays_in_the_store(server, direct):
    limits = Thresholds(window=0.5)
    async with Replica(server, limits) as one:
        for number in range(300):
            email = f"{number}@acme.example"
            await one.limits.admit(email)
            await one.meet(f"f{number}", email=email)
            await one.meet(f"f{number}", email=email)
        await wait_for(lambda: one.told == one.sent)
        found = await expiries(direct)
    assert [key for key in found if ":w:" in key] == []
    # In its last millisecond a key still has 0 of them.
    assert {key: left for key, left in found.items() if not 0 <= left <= 60_000} == {}
    assert [key for key in found if "acme" in key] == [], "people's names are no keys"


async def test_nothing_stays_in_the_store_where_every_replica_has_died(server, direct):
    """Nobody closes their windows then, and a server that keeps its keys on disk would keep them for ever."""
    short, long = Thresholds(window=2.0), Thresholds(window=30.0, rate=0.05, ceiling=0)
    one, two = Replica(server, short), Replica(server, long)
    await one.__aenter__()
    await two.__aenter__()
    await two.limits.admit(EMAIL)
    await two.meet("long")
    await one.meet("short")
    await one.die()
    await two.die()
    found = await expiries(direct)
    kinds = {key.split(":")[2] for key in found}
    assert kinds == {"b", "f", "w", "d", "o"}, "a key of each kind"
    assert {key: left for key, left in found.items() if not 0 <= left <= 60_000} == {}
    (index,) = [left for key, left in found.items() if key.endswith(":d")]
    assert index > 40_000, "the index of windows outlives the longest of them, whoever opened the last"


@pytest.mark.slow
async def test_the_sums_are_right_whatever_happens_to_the_store(server):
    """Two replicas, some hundred reports a second, and a store that is killed, stopped and restarted meanwhile."""
    dice = random.Random(4)
    limits = Thresholds(rate=0, ceiling=0, window=1.0, fingerprints=0)

    async def traffic(replica: Replica, until: float) -> None:
        while time.monotonic() < until:
            await replica.meet(
                f"f{dice.randrange(8)}", repeat=dice.randrange(1, 9), email=f"{dice.randrange(3)}@x.example"
            )
            await asyncio.sleep(dice.random() * 0.01)

    async with Replica(server, limits) as one, Replica(server, limits) as two:
        flows = [asyncio.create_task(traffic(replica, time.monotonic() + 14)) for replica in (one, one, two, two)]
        await asyncio.sleep(2.5)
        server.pause()
        await asyncio.sleep(2.0)
        server.resume()
        await asyncio.sleep(3.0)
        server.pause()
        await asyncio.sleep(0.4)  # shorter than a budget
        server.resume()
        await asyncio.sleep(2.0)
        await asyncio.gather(*flows)
        await one.comes_up()
        await two.comes_up()
    assert one.told + two.told == one.sent + two.sent
    assert sum(one.sent.values()) > 1000


async def test_what_a_stopped_store_has_given_up_is_told_by_those_who_counted(server):
    """Stopped for longer than a window may stay in the store: nobody else can tell it any more."""
    async with Replica(server) as one:
        await one.meet()
        await one.meet(repeat=6)
        shadows = one.limits._shared._shadows
        server.pause()
        await wait_for(lambda: not one.up)
        ends = next(iter(shadows._shadows.values())).ends
        shadows.unreachable(ends + LATEST_MS)
        assert one.closed == []
        shadows.unreachable(ends + LATEST_MS + 1)
        assert [(closing.repeat, closing.cause) for closing in one.closed] == [(6, "store_lost")]
        server.kill()
    assert one.told == one.sent
