"""Everything that a platform may add to its database for us, printed for it to read and apply; we never apply any."""

from __future__ import annotations

from typing import Final

from telemetry.fleet.election import LEASE
from telemetry.fleet.indexes import indexes
from telemetry.fleet.profiles import Profile
from telemetry.fleet.queue import pending_sql
from telemetry.worker import schema as worker
from telemetry.worker.tables import Tables

VIEW: Final = "telemetry.queue_pending"
_HEAD: Final = """\
-- For a platform with the tables of {name}. Read it, then apply what you want: psql -f this.sql
-- Indexes are made beside running work, which psql does only outside of a transaction.
"""


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
