"""Reading who is there and what was asked for: rows of the platform's tables as the records that decisions take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import psycopg

from telemetry.fleet.model import Windows, Worker, WorkerGroup
from telemetry.fleet.profiles import Pings, Profile, Registry
from telemetry.worker.tables import Tables

ROWS = 20_000
"""How many workers are read at most: twenty times the fleet this is made for."""


class Roll(msgspec.Struct, frozen=True, kw_only=True):
    """One read, at ``at`` by the server's clock, as Unix time.

    ``epoch`` names the life of the server that answered. ``groups`` is None when the platform has no registry;
    ``broken`` are groups whose row can't be right, each with why: nothing is concluded about them. ``cut`` says that
    there were more workers than ``ROWS``.
    """

    at: float
    epoch: str
    workers: tuple[Worker, ...] = ()
    groups: Mapping[str, WorkerGroup] | None = None
    broken: Mapping[str, str] = {}
    cut: bool = False


def workers_sql(pings: Pings) -> str:
    """The workers that are not gone yet; ages by the database's clock, on both sides."""

    def column(name: str, otherwise: str, kind: str = "") -> str:
        return f'p."{name}"{kind}' if name else otherwise

    def seconds(since: str) -> str:
        return f"extract(epoch FROM clock_timestamp() - {since})::float8"

    tags = f'p."{pings.tags}"'
    if pings.tags_are_json:
        tags = f"CASE WHEN jsonb_typeof({tags}) = 'array' THEN ARRAY(SELECT jsonb_array_elements_text({tags})) END"
    draining = "NULL::float8"
    if pings.status:
        # Without a column for it nobody knows since when; it counts as just begun, and so never as overdue.
        since = f"coalesce({seconds(column(pings.draining_since, 'NULL::timestamptz'))}, 0)"
        draining = f"CASE WHEN p.\"{pings.status}\"::text = 'draining' THEN {since} END"
    current = f"coalesce({column(pings.current_job, 'NULL', '::text')}, '')"
    running = column(pings.running_jobs, f"({current} <> '')::int")
    return f"""\
SELECT p."{pings.id}"::text, coalesce(p."{pings.group}"::text, ''), {seconds(f'p."{pings.ping_at}"')},
    coalesce({tags}::text[], '{{}}'), coalesce({column(pings.version, "''", "::text")}, ''),
    coalesce({column(pings.node, "''", "::text")}, ''), {draining}, {running}::int, {current},
    coalesce({column(pings.jobs_executed, "0")}, 0)::bigint,
    coalesce({seconds(column(pings.started_at, "NULL::timestamptz"))}, 0)
FROM {Tables.quoted(pings.table)} p
WHERE p."{pings.ping_at}" > now() - make_interval(secs => %s) ORDER BY p."{pings.ping_at}" DESC LIMIT {ROWS + 1}"""


def groups_sql(registry: Registry) -> str:
    """The groups as they were asked for."""

    def column(name: str, otherwise: str) -> str:
        return f'g."{name}"' if name else otherwise

    def words(name: str) -> str:
        if not name:
            return "'{}'::text[]"
        found = f'g."{name}"'
        if registry.tags_are_json:
            found = (
                f"CASE WHEN jsonb_typeof({found}) = 'array' THEN ARRAY(SELECT jsonb_array_elements_text({found})) END"
            )
        return f"coalesce({found}::text[], '{{}}')"

    return f"""\
SELECT g."{registry.name}"::text, {words(registry.tags)}, {words(registry.capabilities)},
    coalesce(g."{registry.desired_replicas}", 0)::int,
    {column(registry.autoscale_min, "NULL")}::int, {column(registry.autoscale_max, "NULL")}::int,
    coalesce({column(registry.drain_timeout, "NULL")}, 600)::float8, coalesce({column(registry.enabled, "true")}, true)
FROM {Tables.quoted(registry.table)} g"""


def read_roll(connection: psycopg.Connection[Any], profile: Profile, windows: Windows) -> Roll:
    """Workers and groups within the caller's transaction. Raises psycopg.Error."""
    clock = connection.execute(
        "SELECT extract(epoch FROM clock_timestamp())::float8, pg_postmaster_start_time()::text"
    ).fetchone()
    assert clock is not None, "a SELECT without FROM has a row"
    rows: list[Any] = []
    if profile.pings is not None:
        rows = connection.execute(workers_sql(profile.pings).encode(), (windows.tombstone,)).fetchall()
    groups: dict[str, WorkerGroup] | None = None
    broken: dict[str, str] = {}
    if profile.registry is not None:
        groups = {}
        for row in connection.execute(groups_sql(profile.registry).encode()):
            try:
                groups[row[0]] = _group(*row)
            except ValueError as error:
                broken[row[0]] = str(error)
    return Roll(
        at=clock[0],
        epoch=clock[1],
        workers=tuple(_worker(*row) for row in rows[:ROWS]),
        groups=groups,
        broken=broken,
        cut=len(rows) > ROWS,
    )


def _worker(*row: Any) -> Worker:
    worker, group, age, tags, version, node, draining, running, current, executed, up = row
    return Worker(
        id=worker,
        group=group,
        age=age,
        tags=tuple(tag for tag in tags if tag),
        version=version,
        node=node,
        draining_for=draining,
        running_jobs=running,
        current_job=current,
        jobs_executed=executed,
        up_for=up,
    )


def _group(*row: Any) -> WorkerGroup:
    name, tags, capabilities, replicas, low, high, drain, enabled = row
    return WorkerGroup(
        name=name,
        tags=tuple(tag for tag in tags if tag),
        capabilities=tuple(each for each in capabilities if each),
        desired_replicas=replicas,
        autoscale_min=low,
        autoscale_max=high,
        drain_timeout=drain,
        enabled=enabled,
    )
