"""Rows in ``worker_ping`` for workers whose jobs another library claims, retries and reaps.

So a fleet on Celery, Procrastinate or arq has its place beside the others. The jobs themselves are told of and not
pinged: their queue is not ours to read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from telemetry import pipeline
from telemetry.worker.heartbeat import AsyncHeartbeat, Heartbeat
from telemetry.worker.roster import Roster


class Presence:
    """What an adapter was told about the heartbeat of its workers.

    ``more`` goes to ``Heartbeat``: ``tags``, ``node``, ``version``, ``interval``, ``deadline``, ``tables``. Node and
    version are those of ``telemetry.setup()`` unless told. Raises TypeError and ValueError for what can't be.
    """

    def __init__(self, conninfo: str, group: str, more: dict[str, Any]) -> None:
        if not group:
            raise ValueError("heartbeat= needs group=, the worker group under which the fleet counts these workers")
        self._conninfo, self._arguments = conninfo, {**more, "group": group, "ping_jobs": False}
        AsyncHeartbeat(conninfo, **self._arguments)  # what is wrong is said where it is written

    @classmethod
    def told(cls, conninfo: str | None, group: str, more: dict[str, Any]) -> Presence | None:
        """None without an address; then there must not be ``more`` either."""
        if conninfo is None:
            if more:
                raise TypeError(f"{', '.join(f'{name}=' for name in more)} needs heartbeat=, the database's address")
            return None
        return cls(conninfo, group, more)

    def heartbeat(self, roster: Roster, tags: Iterable[str]) -> Heartbeat:
        """The heartbeat of a worker that starts now, under an id of its own; ``tags`` where none were told."""
        found = pipeline.active()
        known = found.identity.attributes if found is not None else {}
        arguments = {
            "tags": tuple(sorted(tags)),
            "node": known.get("k8s.node.name"),
            "version": str(known.get("service.version", "")),
            **self._arguments,
        }
        return Heartbeat(self._conninfo, roster=roster, **arguments)
