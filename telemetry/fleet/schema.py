"""Everything that a platform may add to its database for us, printed for it to read and apply; we never apply any."""

from __future__ import annotations

from typing import Final

import msgspec

from telemetry.fleet.election import LEASE
from telemetry.fleet.profiles import Profile
from telemetry.fleet.queue import claimable, failed, pending_sql
from telemetry.worker import schema as worker
from telemetry.worker.tables import Tables

VIEW: Final = "telemetry.queue_pending"
CLAIM_COST: Final = (
    "With the other one on the queue it costs claims 6 % (median of six pairs of runs): every claim changes both."
)

_HEAD: Final = """\
-- For a platform with the tables of {name}. Read it, then apply what you want: psql -f this.sql
-- Indexes are made beside running work, which psql does only outside of a transaction.
"""


class Index(msgspec.Struct, frozen=True, kw_only=True):
    """An index that a read wants. ``serves`` says which; ``cost`` what it costs whoever writes."""

    name: str
    table: str
    keys: tuple[str, ...]
    include: tuple[str, ...] = ()
    where: str = ""
    serves: str
    cost: str

    @property
    def ddl(self) -> str:
        """The statement that makes it, beside running work."""
        include = f" INCLUDE ({_list(self.include)})" if self.include else ""
        where = f"\n    WHERE {self.where}" if self.where else ""
        made = (
            f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {self.name} ON {Tables.quoted(self.table)} ({_list(self.keys)})"
        )
        return f"{made}{include}{where};"


def indexes(profile: Profile) -> tuple[Index, ...]:
    """The indexes that the reads of ``profile`` want."""
    queue, completed = profile.queue, profile.completed
    found = []
    if queue is not None:
        found += [
            Index(
                name="jq_obs_pending",
                table=queue.table,
                keys=(queue.tag, queue.scheduled_for),
                where=claimable(queue, ""),
                serves="oldest age and count of each tag, on every scrape",
                cost=CLAIM_COST,
            ),
            Index(
                name="jq_obs_running",
                table=queue.table,
                keys=(queue.tag, queue.started_at),
                where=f'"{queue.running}"',
                serves="running jobs and their waits, every minute",
                cost=CLAIM_COST,
            ),
        ]
        if queue.restarts:
            found.append(
                Index(
                    name="jq_obs_restarts",
                    table=queue.table,
                    keys=(queue.tag,),
                    where=f'"{queue.restarts}" >= {queue.restart_limit:d}',
                    serves="jobs at their restart limit, every minute",
                    cost="It costs next to nothing: only jobs at the limit are in it.",
                )
            )
    if completed is not None:
        include = tuple(name for name in (completed.tag, completed.scheduled_for) if name)
        found += [
            Index(
                name="jc_obs_started",
                table=completed.table,
                keys=(completed.started_at,),
                include=include,
                serves="waits and the last claim of each tag, every minute",
                cost="It costs claims nothing; each completion adds an entry.",
            ),
            Index(
                name="jc_obs_failed",
                table=completed.table,
                keys=(completed.completed_at,),
                include=tuple(name for name in (completed.tag,) if name),
                where=failed(completed, ""),
                serves="failures of each tag, every minute",
                cost="It costs claims nothing; each failure adds an entry.",
            ),
        ]
    return tuple(found)


def view(profile: Profile) -> str:
    """The DDL of the view that scalers read: the exporter's own statement, so that both go by the same numbers."""
    if profile.queue is None:
        return ""
    return (
        "-- What waits, by tag; counts end at the cap. A scaler asks:\n"
        f"--   SELECT coalesce(sum(pending), 0) FROM {VIEW} WHERE tag IN ('…')\n"
        f"CREATE OR REPLACE VIEW {VIEW} AS\n{pending_sql(profile.queue)};\n"
    )


def lease() -> str:
    """The DDL of the row that elects one exporter of several."""
    return f"""\
-- Which exporter reads the queue, where there are several.
CREATE TABLE IF NOT EXISTS {LEASE} (
    name       text PRIMARY KEY,
    holder     text NOT NULL,
    term       bigint NOT NULL DEFAULT 1,
    expires_at timestamptz NOT NULL
);
"""


def rights(role: str = "fleetglass") -> str:
    """What the exporter's role needs, as a comment: whom to grant it to is the platform's to say."""
    return f"""\
-- Rights of the exporter's role, here {role}: SELECT on the tables of its profile, and these.
--   GRANT USAGE ON SCHEMA telemetry TO {role};
--   GRANT SELECT ON {VIEW} TO {role};
--   GRANT SELECT, INSERT, UPDATE, DELETE ON {LEASE} TO {role};
--   GRANT pg_read_all_stats TO {role};  -- or the age of the oldest snapshot stays unknown
"""


def script(profile: Profile) -> str:
    """All DDL for ``profile``, for psql. Statements that make indexes can't be in a transaction, so don't wrap it."""
    pings, queue = profile.pings, profile.queue
    parts = [
        _HEAD.format(name=profile.name),
        "CREATE SCHEMA IF NOT EXISTS telemetry;\n",
        view(profile),
        lease(),
    ]
    if pings == Profile().pings:
        parts.append(worker.worker_ping(Tables()))
    if queue is not None:
        parts.append(worker.carrier_column(Tables(job_queue=queue.table)))
    parts += [f"-- For {index.serves}. {index.cost}\n{index.ddl}\n" for index in indexes(profile)]
    parts.append(rights())
    return "\n".join(part for part in parts if part)


def _list(names: tuple[str, ...]) -> str:
    return ", ".join(f'"{name}"' for name in names)
