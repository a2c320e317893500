"""What the exporter's statements cost by the server's own accounts: pg_stat_statements, for its role alone.

Time is planning and execution as the server's clock saw it, so it holds what the process waited for a core.
Buffers are pages of 8 KiB that execution touched, cached or not.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import psycopg

from telemetry.fleet.catalogue import dedicated_sql, uses_sql
from telemetry.fleet.model import Windows
from telemetry.fleet.profiles import WINDFORCE
from telemetry.fleet.queue import UPKEEP_SQL, pending_sql, statements
from telemetry.fleet.session import Session
from telemetry.fleet.workers import groups_sql, workers_sql
from tests.bench.fleet.estate import OBSERVER, Estate

AROUND: Final = "around"
"""Everything but the reads: BEGIN, SET LOCAL, COMMIT, the clock, the check of the schema, the lease."""
SCRAPE: Final = ("pending",)
WORKERS: Final = ("workers", "groups")
CATALOGUE: Final = ("catalogue", "dedicated")
DETAIL: Final = ("exact", "running", "claims", "last_claims", "failed", "at_limit", "overdue", "upkeep")


class Cost(msgspec.Struct, frozen=True):
    """Milliseconds on the server, buffers touched, and those of them that were not in shared buffers."""

    ms: float = 0.0
    buffers: int = 0
    read: int = 0
    calls: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.ms + other.ms, self.buffers + other.buffers, self.read + other.read, self.calls + other.calls)

    def __sub__(self, other: Cost) -> Cost:
        return Cost(self.ms - other.ms, self.buffers - other.buffers, self.read - other.read, self.calls - other.calls)


Costs = Mapping[str, Cost]


def between(before: Costs, after: Costs) -> dict[str, Cost]:
    """What was spent from one account to the next, by read; reads that did not happen are left out."""
    spent = {name: cost - before.get(name, Cost()) for name, cost in after.items()}
    return {name: cost for name, cost in spent.items() if cost.calls}


def total(costs: Costs, names: tuple[str, ...]) -> Cost | None:
    """What ``names`` cost together; None where none of them was read."""
    found = [costs[name] for name in names if name in costs]
    return sum(found, Cost()) if found else None


def texts() -> dict[str, str]:
    """The exporter's reads as they are sent."""
    pings, registry, apps = WINDFORCE.pings, WINDFORCE.registry, WINDFORCE.apps
    assert pings is not None
    assert registry is not None
    assert apps is not None
    return {
        **statements(WINDFORCE),
        "upkeep": UPKEEP_SQL,
        "workers": workers_sql(pings),
        "groups": groups_sql(registry),
        "catalogue": uses_sql(apps, WINDFORCE.actions),
        "dedicated": dedicated_sql(registry),
    }


_VALUES: Final[Mapping[str, tuple[Any, ...]]] = {
    "workers": (Windows().tombstone,),
    "upkeep": ('"job_queue"',),
}

_ACCOUNT: Final = """
SELECT queryid, total_plan_time + total_exec_time, shared_blks_hit + shared_blks_read + local_blks_hit
    + local_blks_read, shared_blks_read, calls
FROM pg_stat_statements WHERE userid = %s::regrole
"""


class Meter:
    """Reads the account, and knows which statement is which by the server's own id for it."""

    def __init__(self, estate: Estate) -> None:
        self._estate = estate
        self._names: dict[int, str] = {}
        with psycopg.connect(estate.observer_url, autocommit=True) as connection:
            for name, text in texts().items():
                asked = f"EXPLAIN (VERBOSE, FORMAT JSON) {text}".encode()
                row = connection.execute(asked, _VALUES.get(name)).fetchone()
                assert row is not None
                found = row[0] if not isinstance(row[0], str) else json.loads(row[0])
                self._names[found[0]["Query Identifier"]] = name

    def account(self) -> dict[str, Cost]:
        """All that was spent so far, by read."""
        found: dict[str, Cost] = {}
        for queryid, ms, buffers, read, calls in self._estate.run(_ACCOUNT, values=(OBSERVER,)):
            name = self._names.get(queryid, AROUND)
            found[name] = found.get(name, Cost()) + Cost(ms, buffers, read, calls)
        return found


def unindexed(estate: Estate) -> dict[str, Cost]:
    """What each read costs while the advised indexes are gone, run twice and told of the second time.

    ``pending`` is then one pass over the table, as the exporter reads it; ``view`` skips as ever, as scalers do.
    """
    queue = WINDFORCE.queue
    assert queue is not None
    asked = {**statements(WINDFORCE, skipping=False), "view": pending_sql(queue)}
    session = Session(estate.observer_url, statement_timeout=120, deadline=150)
    found = {}
    try:
        for name, text in asked.items():
            for _ in range(2):
                with session.read() as connection:
                    row = connection.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {text}".encode()).fetchone()
            assert row is not None
            plan = row[0][0]["Plan"]
            hit, read = plan["Shared Hit Blocks"], plan["Shared Read Blocks"]
            found[name] = Cost(row[0][0]["Execution Time"], hit + read, read, 1)
    finally:
        session.close()
    return found


def plans(estate: Estate, names: tuple[str, ...]) -> dict[str, str]:
    """How the server runs each read now: EXPLAIN (ANALYZE, BUFFERS, SETTINGS), as the exporter, in its session."""
    session = Session(estate.observer_url, statement_timeout=30, deadline=60)
    found = {}
    try:
        for name in names:
            with session.read() as connection:
                asked = f"EXPLAIN (ANALYZE, BUFFERS, SETTINGS) {texts()[name]}".encode()
                found[name] = "\n".join(row[0] for row in connection.execute(asked, _VALUES.get(name)))
    finally:
        session.close()
    return found
