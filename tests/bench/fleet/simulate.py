"""What reading costs while the fleet works: minutes of claims at a rate since the last vacuum, a scrape each 15 s.

Every stage begins with a vacuum, and with as much recent history as its rate would have left. Heartbeats never stop.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import ExitStack
from typing import Any, Final, Self

import msgspec
import psycopg

from tests.bench.child import Child
from tests.bench.fleet import claims
from tests.bench.fleet.cost import Meter, between, plans, texts
from tests.bench.fleet.estate import Estate
from tests.bench.fleet.exporter import INTERVAL, WHOLE
from tests.bench.fleet.figures import Ledger, Scrape, Stage

FLAT_OUT: Final = 1_500.0
"""Claims a second of which the history before a stage flat out is made."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A stage to run: claims a second (0: as fast as they go), scrapes in it, whether a snapshot is held.

    ``scattered``: the jobs that wait lie in the table in no order at all, from then on.
    """

    name: str
    rate: float
    scrapes: int
    held: bool = False
    scattered: bool = False
    explained: bool = False


STAGES: Final = (
    Plan(name="50 claims/s", rate=50, scrapes=22, explained=True),
    Plan(name="200 claims/s", rate=200, scrapes=4),
    Plan(name="500 claims/s", rate=500, scrapes=4),
    Plan(name="1,000 claims/s", rate=1_000, scrapes=4),
    Plan(name="flat out", rate=0, scrapes=4, explained=True),
    Plan(name="300 claims/s, a snapshot held", rate=300, scrapes=8, held=True, explained=True),
    Plan(name="50 claims/s, jobs scattered over the table", rate=50, scrapes=12, scattered=True),
)


def named(names: str) -> list[Plan]:
    """The stages of these names, parted by semicolons; all where none is named. Raises ValueError for a wrong one."""
    wanted = [name.strip() for name in names.split(";") if name.strip()]
    wrong = set(wanted) - {plan.name for plan in STAGES}
    if wrong:
        raise ValueError(f"no stage is called {', '.join(wrong)}; there are {'; '.join(plan.name for plan in STAGES)}")
    return [plan for plan in STAGES if not wanted or plan.name in wanted]


class Bench:
    """The estate with its fleet and the exporter, each in a process of its own."""

    def __init__(
        self, estate: Estate, stack: ExitStack, *, interval: float = INTERVAL, limits: dict[str, float] | None = None
    ) -> None:
        self.estate, self.interval = estate, interval
        scale = msgspec.json.encode(estate.scale).decode()
        # Of an earlier run: its workers, and a lease that would make this exporter wait.
        estate.run("DELETE FROM worker_ping", "DELETE FROM telemetry.exporter_lease")
        self.workers = stack.enter_context(Child("tests.bench.fleet.workers", estate.url, scale, core=None))
        given = msgspec.json.encode(limits or {}).decode()
        self.exporter = stack.enter_context(
            Child("tests.bench.fleet.exporter", estate.observer_url, str(interval), given, core=None)
        )
        self.meter = Meter(estate)

    def tables(self) -> dict[str, int]:
        """Rows that say what became of the jobs."""
        pending, running = self.estate.run(
            "SELECT count(*) FILTER (WHERE NOT running), count(*) FILTER (WHERE running) FROM job_queue"
        )[0]
        return {"pending": pending, "running": running, "ended": self.estate.one("SELECT count(*) FROM job_completed")}

    def stage(self, plan: Plan) -> Stage:
        """Run one."""
        estate, average = self.estate, os.getloadavg()[0]
        if plan.scattered:
            estate.scatter()
        estate.settle(plan.rate or FLAT_OUT)
        before, counted = self.tables(), self.workers.ask("counts")
        with ExitStack() as stack:
            if plan.held:
                holder = stack.enter_context(psycopg.connect(estate.url))
                holder.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                holder.execute("SELECT FROM job_queue LIMIT 1")
            # Python keeps up with as much; above that, and flat out, it is pgbench that claims.
            load: Any = stack.enter_context(_Pgbench(estate, plan.rate) if not 0 < plan.rate <= 500 else _Steady(self))
            load.go(plan.rate, plan.scrapes * self.interval + (8 if plan.explained else 2))
            began = time.monotonic()
            scrapes = [self._scrape(began, number, plan) for number in range(1, plan.scrapes + 1)]
            seconds = time.monotonic() - began
            explained = plans(estate, tuple(texts())) if plan.explained else {}
            jobs, rate = load.end()
        after, done = self.tables(), self.workers.ask("counts")
        ledger = Ledger(
            claimed=done["claimed"] - counted["claimed"] + jobs,
            completed=done["completed"] - counted["completed"] + jobs,
            enqueued=done["enqueued"] - counted["enqueued"] + jobs,
            pings=done["pings"] - counted["pings"],
            late=done["late"],
            **{name: after[name] - before[name] for name in after},
        )
        rate = rate or ledger.claimed / seconds
        return Stage(plan.name, plan.rate, rate, seconds, plan.held, scrapes, ledger, explained, average)

    def _scrape(self, began: float, number: int, plan: Plan) -> Scrape:
        time.sleep(max(0.0, began + number * self.interval - time.monotonic()))
        at, before = time.monotonic() - began, self.meter.account()
        # The last is a whole one whatever its number, so that the end of every stage is told in full.
        whole = number % WHOLE == 0 or number == plan.scrapes
        found = self.exporter.ask("step", whole=whole)
        spent = between(before, self.meter.account())
        return Scrape(at, self.estate.dead(), spent, found["alive"], found["oldest_ping"], found["failed"])


class _Steady:
    """Claims by the workers themselves."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._bench.workers.ask("churn", rate=0)

    def go(self, rate: float, _seconds: float) -> None:
        self._bench.workers.ask("churn", rate=rate)

    def end(self) -> tuple[int, float]:
        """Nothing beside what the workers count themselves."""
        self._bench.workers.ask("churn", rate=0)
        return 0, 0.0


class _Pgbench:
    """Claims by pgbench, in a thread that waits for it."""

    def __init__(self, estate: Estate, rate: float) -> None:
        self._estate, self._rate = estate, rate or None
        self._thread: threading.Thread | None = None
        self._result: claims.Claimed | None = None
        self._error: Exception | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread is not None:
            self._thread.join()

    def go(self, _rate: float, seconds: float) -> None:
        def run() -> None:
            try:
                self._result = claims.run(self._estate, seconds, rate=self._rate)
            except Exception as error:
                self._error = error

        self._thread = threading.Thread(target=run)
        self._thread.start()

    def end(self) -> tuple[int, float]:
        """Jobs, and jobs a second."""
        assert self._thread is not None
        self._thread.join()
        if self._error is not None:
            raise RuntimeError("pgbench ended early") from self._error
        assert self._result is not None
        return self._result.jobs, self._result.rate
