"""Is the queue moving? What is read of it, and how: the statements, and frozen records of what they say.

``pending`` reads what every scrape needs: the age of the oldest due job of each tag, found by skipping from tag to tag
through the index, and a count that stops at ``CAP``. Its cost does not grow with the backlog. ``detail`` reads what
does cost: running jobs, waits, exact counts, failures, overdue rows. docs/fleet.md has the rules and the figures.

Ages and waits are the database's own arithmetic in seconds, so that no clock and no time zone of a client has a part.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
import psycopg

from telemetry.fleet.profiles import Completed, Profile, Queue
from telemetry.worker.tables import Tables

CAP: Final = 1000
"""How far the jobs of a tag are counted on every scrape; one more is *more than that*."""
TAGS: Final = 2000
"""How many tags are looked at; a platform with a tag for each job must not cost us its whole queue."""
WAIT_WINDOW: Final = 300.0
"""Seconds of claims that the wait is taken from."""
CLAIM_WINDOW: Final = 600.0
"""Seconds in which the last claim of a tag is looked for."""
CLAIMS: Final = 50_000
"""How many jobs that ended the wait is taken from, the newest claims first: all of them up to 80 claims a second."""
_SINCE: Final = "greatest(0, extract(epoch FROM clock_timestamp() - max(started)))::float8"


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """Due, unclaimed jobs of a tag. ``capped``: there are more than ``count``.

    ``oldest_age`` counts seconds, ``oldest_at`` is Unix time; both None when nothing is due.
    """

    count: int = 0
    capped: bool = False
    oldest_age: float | None = None
    oldest_at: float | None = None


class Detail(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a tag once a minute. None is what this platform's tables don't tell.

    ``waits`` are p50 and p95 in seconds of jobs claimed within ``WAIT_WINDOW``, None without one. ``last_claim`` is
    how many seconds ago a job was last claimed, None if not within ``CLAIM_WINDOW``.
    """

    pending: int = 0
    running: int = 0
    waits: tuple[float, float] | None = None
    skewed: int = 0
    last_claim: float | None = None
    failed: int | None = None
    at_limit: int | None = None
    overdue: int | None = None


class Upkeep(msgspec.Struct, frozen=True, kw_only=True):
    """Whether dead rows of the queue's table go away. Ages count seconds.

    ``snapshot_age`` is that of the oldest transaction whose snapshot holds dead rows back, ``snapshot_xids`` the same
    in transactions, replication slots and prepared ones included; None when this role may not see others' sessions.
    ``replica_lag`` is how far a replica is behind, None on a primary, and on a replica that receives nothing.
    """

    dead: int
    live: int
    autovacuum_at: float | None = None
    snapshot_age: float | None = None
    snapshot_xids: int | None = None
    replica_lag: float | None = None


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """One read of ``pending``: at ``at`` by the server's clock, as Unix time. ``cut``: there were more tags still."""

    at: float
    tags: Mapping[str, Pending]
    cut: bool = False


class Details(msgspec.Struct, frozen=True, kw_only=True):
    """One read of ``detail``. ``nothing`` is what a tag without jobs has."""

    at: float
    tags: Mapping[str, Detail]
    nothing: Detail = Detail()
    upkeep: Upkeep | None = None


def claimable(queue: Queue, alias: str = "q") -> str:
    """The predicate by which a worker claims, but for the tag and for being due; partial indexes repeat it."""
    name = _columns(alias)
    found = [f"{name(queue.running)} = false"]
    if queue.canceled_by:
        found.append(f"{name(queue.canceled_by)} IS NULL")
    if queue.suspend:
        found.append(f"{name(queue.suspend)} = 0")
    return " AND ".join(found)


def pending_sql(queue: Queue) -> str:
    """One row for each tag that anything claimable waits under, due or not; the view is made of the same text.

    The count is in the order of the index for the planner's sake: without it a scan of the table looks cheap for a
    tag of average size, and is not for a rare one. Tags are found from the last to the first: that way each is met at
    its newest job, and claims that are dead but not yet cleared away, which lie at its oldest, are gone through once.
    """
    table, tag, due, claim = Tables.quoted(queue.table), f'"{queue.tag}"', f'"{queue.scheduled_for}"', claimable(queue)
    return f"""\
WITH RECURSIVE tags AS (
    (SELECT q.{tag} AS tag, 1 AS place FROM {table} q WHERE {claim} AND q.{tag} IS NOT NULL
        ORDER BY q.{tag} DESC LIMIT 1)
    UNION ALL
    SELECT (SELECT q.{tag} FROM {table} q WHERE {claim} AND q.{tag} < tags.tag ORDER BY q.{tag} DESC LIMIT 1), place + 1
    FROM tags WHERE tags.tag IS NOT NULL AND place <= {TAGS}
)
SELECT tags.tag::text AS tag, least(counted.found, {CAP}) AS pending,
    greatest(0, coalesce(extract(epoch FROM clock_timestamp() - counted.due), 0))::float8 AS oldest_age_s,
    counted.found > {CAP} AS capped, extract(epoch FROM counted.due)::float8 AS oldest_at
FROM tags
CROSS JOIN LATERAL (
    SELECT count(*) AS found, min(upto.due) AS due FROM (
        SELECT q.{due} AS due FROM {table} q
        WHERE {claim} AND q.{tag} = tags.tag AND q.{due} <= now() ORDER BY q.{due} LIMIT {CAP + 1}
    ) upto
) counted
WHERE tags.tag IS NOT NULL"""


def scan_sql(queue: Queue) -> str:
    """The same rows by one pass over the table: without the index, skipping would pass over it three times a tag."""
    tag, due = f'q."{queue.tag}"', f'q."{queue.scheduled_for}"'
    when = f"FILTER (WHERE {due} <= now())"
    return f"""\
SELECT {tag}::text, least(count(*) {when}, {CAP}),
    greatest(0, coalesce(extract(epoch FROM clock_timestamp() - min({due}) {when}), 0))::float8,
    count(*) {when} > {CAP}, extract(epoch FROM min({due}) {when})::float8
FROM {Tables.quoted(queue.table)} q WHERE {claimable(queue)} AND {tag} IS NOT NULL
GROUP BY {tag} ORDER BY {tag} DESC LIMIT {TAGS + 1}"""


def exact_sql(profile: Profile) -> str:
    """Due, unclaimed jobs by tag, all of them, in one pass over the table.

    The key is counted, which the index of pending jobs does not have: through that index each row that was written
    since the last vacuum is a page to be looked at, and the planner, who counts those as of then, takes it gladly.
    """
    queue = _queue(profile)
    return (
        f'SELECT q."{queue.tag}"::text, count(q."{queue.id}") FROM {Tables.quoted(queue.table)} q\n'
        f'WHERE {claimable(queue)} AND q."{queue.scheduled_for}" <= now() GROUP BY 1'
    )


def running_sql(profile: Profile) -> str:
    """Running jobs by tag; parents that wait for their children occupy no worker and are left out."""
    queue, join, kind = _queue(profile), "", ""
    jobs = profile.jobs
    if jobs is not None and jobs.kind and jobs.parents:
        join = f'JOIN {Tables.quoted(jobs.table)} j ON j."{jobs.id}" = q."{queue.id}" '
        kind = f' AND j."{jobs.kind}"::text NOT IN ({_words(jobs.parents)})'
    return (
        f'SELECT q."{queue.tag}"::text, count(*) FROM {Tables.quoted(queue.table)} q {join}\n'
        f'WHERE q."{queue.running}"{kind} GROUP BY 1'
    )


def claims_sql(profile: Profile) -> str:
    """By tag: p50 and p95 of the wait, claims before they were due, seconds since the last claim; and how many rows.

    Jobs that ended alone would leave out those that still run, which started late as likely as early. A job that a
    reaper gave back counts its failed run as wait; where restarts are counted it is left out. Above ``CLAIMS`` what
    ended earlier is left out: sorting ten minutes of a thousand claims a second took two seconds of the platform's own.
    """
    completed = profile.completed
    known = completed is not None and completed.scheduled_for
    counted = f"FILTER (WHERE started > now() - interval '{WAIT_WINDOW:.0f} seconds' AND restarts = 0)"
    wait = "extract(epoch FROM started - due)"
    waits = (
        f"percentile_cont(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY greatest(0, {wait})) {counted}"
        if known
        else "NULL::float8[]"
    )
    skewed = f"count(*) FILTER (WHERE started < due AND started > now() - interval '{WAIT_WINDOW:.0f} seconds')"
    return (
        f"SELECT tag, {waits}, {skewed}, {_SINCE}, sum(count(*)) OVER ()\n"
        f"FROM (\n    {_claims(profile, CLAIMS)}\n) claims GROUP BY tag"
    )


def last_claims_sql(profile: Profile) -> str:
    """Seconds since the last claim, by tag, over all claims of ``CLAIM_WINDOW``: nothing is sorted for that."""
    return f"SELECT tag, {_SINCE}\nFROM (\n    {_claims(profile)}\n) claims GROUP BY tag"


def _claims(profile: Profile, limit: int | None = None) -> str:
    """Claims of ``CLAIM_WINDOW``: of jobs that run, and of those that ended the newest ``limit``."""
    queue, parts = _queue(profile), []
    restarts = f'q."{queue.restarts}"' if queue.restarts else "0"
    window = f"now() - interval '{CLAIM_WINDOW:.0f} seconds'"
    parts.append(
        f'SELECT q."{queue.tag}"::text AS tag, q."{queue.started_at}" AS started, q."{queue.scheduled_for}" AS due, '
        f"{restarts} AS restarts\n    FROM {Tables.quoted(queue.table)} q "
        f'WHERE q."{queue.running}" AND q."{queue.started_at}" > {window}'
    )
    completed = profile.completed
    if completed is not None:
        due = f'c."{completed.scheduled_for}"' if completed.scheduled_for else "NULL"
        tag, join = _tag_of(profile, completed)
        newest = f'\n        ORDER BY c."{completed.started_at}" DESC LIMIT {limit}' if limit is not None else ""
        parts.append(
            f'SELECT {tag}, c."{completed.started_at}", {due}, 0\n'
            f"    FROM (SELECT * FROM {Tables.quoted(completed.table)} c "
            f'WHERE c."{completed.started_at}" > {window}{newest}) c {join}'
        )
    return "\n    UNION ALL ".join(parts)


def failed_sql(profile: Profile) -> str | None:
    """Jobs that ended in failure within ``WAIT_WINDOW``, by tag."""
    completed = profile.completed
    if completed is None:
        return None
    tag, join = _tag_of(profile, completed)
    return (
        f"SELECT {tag}, count(*) FROM {Tables.quoted(completed.table)} c {join}\n"
        f"WHERE {failed(completed, 'c')}\n"
        f"    AND c.\"{completed.completed_at}\" > now() - interval '{WAIT_WINDOW:.0f} seconds' GROUP BY 1"
    )


def failed(completed: Completed, alias: str) -> str:
    """The predicate of a failure; the partial index repeats it."""
    return f"{_columns(alias)(completed.status)} IN ({_words(completed.failed)})"


def at_limit_sql(profile: Profile) -> str | None:
    """Jobs in the queue that the next reaping gives up, by tag."""
    queue = _queue(profile)
    if not queue.restarts:
        return None
    return (
        f'SELECT q."{queue.tag}"::text, count(*) FROM {Tables.quoted(queue.table)} q\n'
        f'WHERE q."{queue.restarts}" >= {queue.restart_limit:d} GROUP BY 1'
    )


def overdue_sql(profile: Profile) -> str | None:
    """Running jobs whose worker has not pinged them for the zombie timeout, by tag: a reaper takes them back."""
    queue, runtime = _queue(profile), profile.runtime
    if runtime is None:
        return None
    cutoff = f"now() - interval '{profile.zombie_timeout:.0f} seconds'"
    ping = f'r."{runtime.ping}"'
    return (
        f'SELECT q."{queue.tag}"::text, count(*) FROM {Tables.quoted(queue.table)} q\n'
        f'LEFT JOIN {Tables.quoted(runtime.table)} r ON r."{runtime.id}" = q."{queue.id}"\n'
        f'WHERE q."{queue.running}" AND CASE WHEN r."{runtime.id}" IS NULL\n'
        f'    THEN q."{queue.started_at}" < {cutoff} ELSE {ping} IS NULL OR {ping} < {cutoff} END GROUP BY 1'
    )


UPKEEP_SQL: Final = """\
SELECT coalesce(pg_stat_get_dead_tuples(queue.oid), 0), coalesce(pg_stat_get_live_tuples(queue.oid), 0),
    extract(epoch FROM pg_stat_get_last_autovacuum_time(queue.oid))::float8,
    CASE WHEN seen.all THEN coalesce(extract(epoch FROM clock_timestamp() - least(
        (SELECT min(xact_start) FROM pg_stat_activity WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid()),
        (SELECT min(prepared) FROM pg_prepared_xacts))), 0)::float8 END,
    CASE WHEN seen.all THEN greatest(0,
        (SELECT max(age(backend_xmin)) FROM pg_stat_activity WHERE pid <> pg_backend_pid()),
        (SELECT max(age(transaction)) FROM pg_prepared_xacts),
        (SELECT max(age(xmin)) FROM pg_replication_slots)) END,
    CASE WHEN pg_is_in_recovery() AND EXISTS (SELECT FROM pg_stat_wal_receiver WHERE status = 'streaming') THEN
        CASE WHEN pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() THEN 0
            ELSE extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp())::float8 END END
FROM (SELECT to_regclass(%s)::oid AS oid) queue,
    (SELECT pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') AS all) seen"""


def statements(profile: Profile, *, skipping: bool = True) -> dict[str, str]:
    """Every statement on the platform's tables, by what it reads; what the profile's tables don't tell is left out.

    ``skipping`` says that the queue has the index for it.
    """
    if profile.queue is None:
        return {}
    made = {
        "pending": pending_sql(profile.queue) if skipping else scan_sql(profile.queue),
        "exact": exact_sql(profile),
        "running": running_sql(profile),
        "claims": claims_sql(profile),
        "last_claims": last_claims_sql(profile),
        "failed": failed_sql(profile),
        "at_limit": at_limit_sql(profile),
        "overdue": overdue_sql(profile),
    }
    return {name: text for name, text in made.items() if text is not None}


def read_pending(connection: psycopg.Connection[Any], profile: Profile, *, skipping: bool = True) -> Reading:
    """What waits, by tag, within the caller's transaction; ``skipping`` as above. Raises psycopg.Error."""
    make = pending_sql if skipping else scan_sql
    rows = connection.execute(make(_queue(profile)).encode()).fetchall()
    tags = {
        tag: Pending(count=count, capped=capped, oldest_age=age if at is not None else None, oldest_at=at)
        for tag, count, age, capped, at in rows[:TAGS]
    }
    return Reading(at=_now(connection), tags=tags, cut=len(rows) > TAGS)


def read_detail(connection: psycopg.Connection[Any], profile: Profile) -> Details:
    """What runs, waited and failed, by tag, within the caller's transaction. Raises psycopg.Error."""
    texts = statements(profile)
    counts = {
        name: dict(connection.execute(texts[name].encode()).fetchall())
        for name in ("exact", "running", "failed", "at_limit", "overdue")
        if name in texts
    }
    rows = connection.execute(texts["claims"].encode()).fetchall()
    claims = {tag: (waits, skewed, last) for tag, waits, skewed, last, _ in rows}
    if rows and rows[0][-1] >= CLAIMS:
        # That nobody claims under a tag must be seen, and not taken from where the newest claims end.
        for tag, last in connection.execute(texts["last_claims"].encode()):
            waits, skewed, _ = claims.get(tag, (None, 0, None))
            claims[tag] = (waits, skewed, last)
    told = [name for name in ("failed", "at_limit", "overdue") if name in counts]
    tags: dict[str, Detail] = {}
    for tag in {tag for each in (*counts.values(), claims) for tag in each if tag is not None}:
        waits, skewed, last = claims.get(tag, (None, 0, None))
        tags[tag] = Detail(
            pending=counts["exact"].get(tag, 0),
            running=counts["running"].get(tag, 0),
            waits=(float(waits[0]), float(waits[1])) if waits and waits[0] is not None else None,
            skewed=skewed,
            last_claim=last,
            **{name: counts[name].get(tag, 0) for name in told},
        )
    row = connection.execute(UPKEEP_SQL, (Tables.quoted(_queue(profile).table),)).fetchone()
    upkeep = None
    if row is not None:
        upkeep = Upkeep(
            dead=row[0],
            live=row[1],
            autovacuum_at=row[2],
            snapshot_age=row[3],
            snapshot_xids=row[4],
            replica_lag=row[5],
        )
    nothing: dict[str, Any] = dict.fromkeys(told, 0)
    return Details(at=_now(connection), tags=tags, nothing=Detail(**nothing), upkeep=upkeep)


def _queue(profile: Profile) -> Queue:
    if profile.queue is None:
        raise ValueError(f"profile {profile.name} has no queue")
    return profile.queue


def _tag_of(profile: Profile, completed: Completed) -> tuple[str, str]:
    """Where the tag of a job that ended is, and the join that leads there."""
    if completed.tag:
        return f'c."{completed.tag}"::text', ""
    jobs = profile.jobs
    assert jobs is not None, "the profile was checked for it"
    return f'j."{jobs.tag}"::text', f'JOIN {Tables.quoted(jobs.table)} j ON j."{jobs.id}" = c."{completed.id}" '


def _columns(alias: str) -> Any:
    return lambda name: f'{alias}."{name}"' if alias else f'"{name}"'


def _words(words: tuple[str, ...]) -> str:
    return ", ".join(f"'{word}'" for word in words)


def _now(connection: psycopg.Connection[Any]) -> float:
    row = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
    assert row is not None, "a SELECT without FROM has a row"
    return float(row[0])
