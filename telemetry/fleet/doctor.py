"""What the reads of a platform's queue cost on its own server, and which indexes would make them cheap.

Statements are explained as they are run, in read-only transactions with the exporter's limits. Nothing is created.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

import msgspec
import psycopg

from telemetry.fleet import catalogue
from telemetry.fleet.indexes import Index, indexes, missing, skips
from telemetry.fleet.profiles import Profile, check
from telemetry.fleet.queue import UPKEEP_SQL, statements
from telemetry.fleet.session import Reason, SchemaError, Session, reason
from telemetry.worker.tables import Tables


class Scan(msgspec.Struct, frozen=True):
    """One access to a table: how (``Index Only Scan``, ``Seq Scan``, …), and through which index."""

    table: str
    how: str
    index: str = ""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How one statement was run: milliseconds, buffers of 8 KiB that it touched, its scans; or why it was not."""

    name: str
    milliseconds: float = 0.0
    buffers: int = 0
    scans: tuple[Scan, ...] = ()
    reason: Reason | None = None
    said: str = ""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What the doctor found. ``sees_snapshots`` is None when it could not be asked.

    ``catalogue`` is False where nothing says which tags the platform uses.
    """

    server: str = ""
    differences: tuple[str, ...] = ()
    plans: tuple[Plan, ...] = ()
    missing: tuple[Index, ...] = ()
    invalid: tuple[str, ...] = ()
    dead: int | None = None
    live: int | None = None
    sees_snapshots: bool | None = None
    catalogue: bool = True

    @property
    def well(self) -> bool:
        """Whether everything can be read; an index that is missing is advice."""
        return not self.differences and all(plan.reason is None for plan in self.plans)


def examine(session: Session, profile: Profile) -> Report:
    """Look at everything. Raises psycopg.Error or TimeoutError when the server can't be asked at all."""
    with session.read() as connection:
        server = str(connection.info.server_version // 10_000)
        differences = check(connection, profile)
        skipping = skips(connection, profile)
        declared = ""
        try:
            declared = catalogue.statement(connection, profile)
        except SchemaError as error:
            differences = tuple(dict.fromkeys((*differences, *error.problems)))
    if differences:
        return Report(server=server, differences=differences)
    asked = statements(profile, skipping=skipping) | ({"catalogue": declared} if declared else {})
    plans = tuple(_explained(session, name, text) for name, text in asked.items())
    with session.read() as connection:
        absent, invalid = missing(connection, indexes(profile))
        upkeep = None
        if profile.queue is not None:
            upkeep = connection.execute(UPKEEP_SQL, (Tables.quoted(profile.queue.table),)).fetchone()
    return Report(
        server=server,
        plans=plans,
        missing=absent,
        invalid=invalid,
        dead=upkeep[0] if upkeep else None,
        live=upkeep[1] if upkeep else None,
        sees_snapshots=upkeep[3] is not None if upkeep else None,
        catalogue=bool(declared),
    )


def _explained(session: Session, name: str, text: str) -> Plan:
    try:
        with session.read() as connection:
            row = connection.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {text}".encode()).fetchone()
    except (psycopg.Error, TimeoutError) as error:
        return Plan(name=name, reason=reason(error), said=str(error).partition("\n")[0])
    assert row is not None, "EXPLAIN has a row"
    root = row[0][0]
    plan = root["Plan"]
    scans = dict.fromkeys(
        Scan(node["Relation Name"], node["Node Type"], node.get("Index Name", ""))
        for node in _nodes(plan)
        if "Relation Name" in node
    )
    buffers = plan.get("Shared Hit Blocks", 0) + plan.get("Shared Read Blocks", 0)
    return Plan(name=name, milliseconds=root["Execution Time"], buffers=buffers, scans=tuple(scans))


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)


_BLOATED: Final = (
    "the queue's table holds {dead} dead rows beside {live} live ones, and every read goes through them: look for a "
    "snapshot that is held, and let autovacuum come more often"
)
_BLIND: Final = (
    "this role may not see others' sessions, so the age of the oldest snapshot stays unknown: GRANT pg_read_all_stats "
    "to it"
)
_UNDECLARED: Final = (
    "nothing says which tags the platform's actions use, so a tag that nobody serves is seen only once jobs wait under "
    "it: give a query as catalogue in the profile"
)
Severity = Literal["good", "advice", "bad"]


def told(report: Report, profile: Profile) -> Iterator[tuple[Severity, str]]:
    """The report as sentences, each with how much it matters."""
    yield "good", f"PostgreSQL {report.server}, profile {profile.name}"
    for difference in report.differences:
        yield "bad", difference
    if report.differences:
        yield "bad", "nothing is read until tables and profile agree: map other names with --profile FILE.toml"
        return
    yield "good", "every table and column that the profile names is there, with a type that can be read"
    for plan in report.plans:
        yield _judged(plan)
    for index in report.missing:
        yield "advice", f"{index.table} has no index for {index.serves}\n{index.cost}\n{index.ddl}"
    for name in report.invalid:
        yield "advice", f"the index {name} is invalid, as one that was broken off is: DROP INDEX CONCURRENTLY {name};"
    if report.dead is not None and report.live is not None and report.dead > max(10_000, report.live):
        yield "advice", _BLOATED.format(dead=report.dead, live=report.live)
    if report.sees_snapshots is False:
        yield "advice", _BLIND
    if not report.catalogue:
        yield "advice", _UNDECLARED


def _judged(plan: Plan) -> tuple[Severity, str]:
    if plan.reason is not None:
        return "bad", f"{plan.name}: {plan.reason}: {plan.said}"
    cost = f"{plan.name}: {plan.milliseconds:.1f} ms, {plan.buffers} buffers"
    whole = sorted({scan.table for scan in plan.scans if scan.how == "Seq Scan"})
    # A catalogue is small, and read whole.
    if whole and plan.name != "catalogue":
        return "advice", f"{cost}, reads all of {', '.join(whole)}"
    ways = dict.fromkeys(f"{scan.how} {scan.index or scan.table}" for scan in plan.scans)
    return "good", f"{cost}, {', '.join(ways)}"
