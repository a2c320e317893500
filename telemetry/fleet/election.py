"""One exporter of several: whoever holds the row of the lease reads the queue, and the others serve nothing of it.

A session's advisory lock would not do: behind PgBouncer in transaction mode it belongs to nobody. The database's clock
decides who may take the lease; its holder stops believing in it by a clock of its own, counted from before it asked,
so that it is never held twice. A holder that can't reach the database loses it in silence, like everybody else.
"""

from __future__ import annotations

import time
from typing import Any, Final

import psycopg

from telemetry.worker.heartbeat import worker_id
from telemetry.worker.tables import Tables

LEASE: Final = "telemetry.exporter_lease"

_TAKE: Final = """
INSERT INTO {lease} AS l (name, holder, expires_at)
VALUES (%(name)s, %(holder)s, clock_timestamp() + make_interval(secs => %(ttl)s))
ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at,
    term = l.term + (l.holder <> excluded.holder)::int
WHERE l.holder = excluded.holder OR l.expires_at < clock_timestamp()
RETURNING holder
"""
_LEAVE: Final = "DELETE FROM {lease} WHERE name = %(name)s AND holder = %(holder)s"


class Election:
    """A share in the lease ``name``. ``ttl`` counts seconds: how long it is held without being taken again.

    Each must have a ``holder`` of its own; the default is the pod's or machine's name with a nonce.
    """

    def __init__(
        self, *, name: str = "queue", holder: str | None = None, ttl: float = 45.0, lease: str = LEASE
    ) -> None:
        if not Tables.is_name(lease):
            raise ValueError(f"lease={lease!r} is no name of a table, such as {LEASE}")
        self.holder = holder or worker_id()
        self.ttl = ttl
        self._values = {"name": name, "holder": self.holder, "ttl": ttl}
        self._take, self._leave = (text.format(lease=Tables.quoted(lease)).encode() for text in (_TAKE, _LEAVE))
        self._until = float("-inf")

    @property
    def held(self) -> bool:
        """Whether nobody else can be exporting now."""
        return time.monotonic() < self._until

    def campaign(self, connection: psycopg.Connection[Any]) -> bool:
        """Take the lease, or keep it, within the caller's transaction; whether we have it. Raises psycopg.Error.

        Believe it only after the commit: call ``won`` with what ``time.monotonic()`` said before.
        """
        return connection.execute(self._take, self._values).fetchone() is not None

    def won(self, asked_at: float) -> None:
        """The lease is ours, asked for at ``asked_at`` by the monotonic clock."""
        self._until = asked_at + self.ttl

    def lost(self) -> None:
        """Somebody else has it."""
        self._until = float("-inf")

    def leave(self, connection: psycopg.Connection[Any]) -> None:
        """Give it back, so that nobody waits for it to lapse. Raises psycopg.Error."""
        self.lost()
        connection.execute(self._leave, self._values)
