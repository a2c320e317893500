"""Claims and completions on windforce's tables: its predicate, the carrier's last run, and a fence.

Both are written as generators that give SQL and take the row it returned, so that the same few steps serve a
connection that blocks and one in an event loop. Each runs in one transaction, without anything that a pooler in
transaction mode would lose.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack
from datetime import datetime
from types import TracebackType
from typing import Any, Final

import msgspec
import psycopg
from psycopg.types.json import Jsonb

from telemetry.worker.jobs import Run, job_span
from telemetry.worker.tables import Tables

Row = tuple[Any, ...]
Query = tuple[str, dict[str, Any]]

# The row is locked before it is written, so that the run that begins here is in the same version of it as the claim:
# a second update would leave another dead row in the index for each job.
_NEXT: Final = """
SELECT job_id, tag, {carrier}, extract(epoch FROM now() - scheduled_for)::float8 FROM {queue}
WHERE running = false AND canceled_by IS NULL AND scheduled_for <= now() AND tag = ANY(%(tags)s)
ORDER BY {order} LIMIT 1 FOR UPDATE SKIP LOCKED
"""

_TAKE: Final = """
WITH mine AS (
    UPDATE {queue} SET running = true, started_at = now(), worker = %(worker)s, {carrier} = %(carrier)s
    WHERE job_id = %(id)s RETURNING job_id, started_at
), pinged AS (
    INSERT INTO {runtime} (job_id, ping) SELECT job_id, now() FROM mine
    ON CONFLICT (job_id) DO UPDATE SET ping = now()
)
SELECT started_at FROM mine
"""

_COMPLETE: Final = """
WITH done AS (
    DELETE FROM {queue}
    WHERE job_id = %(id)s AND running AND worker = %(worker)s AND started_at = %(started_at)s
    RETURNING job_id, tag, scheduled_for, started_at, worker
)
INSERT INTO {completed} (job_id, tag, status, scheduled_for, started_at, worker)
SELECT job_id, tag, %(status)s, scheduled_for, started_at, worker FROM done
RETURNING job_id
"""

_COMPLETED_BY_US: Final = """
SELECT job_id FROM {completed} WHERE job_id = %(id)s AND worker = %(worker)s AND started_at = %(started_at)s
"""


class Job(msgspec.Struct, frozen=True):
    """A job that was claimed. ``waited`` counts seconds from when it was due; ``run`` is its span and outcome."""

    id: Any
    tag: str
    started_at: datetime
    waited: float
    run: Run


class Claims:
    """What one worker of ``group`` claims: jobs under ``tags``, in the ``order`` of an ORDER BY of its queue."""

    def __init__(
        self,
        *,
        worker: str,
        group: str,
        tags: tuple[str, ...],
        order: str = "priority DESC, scheduled_for",
        tables: Tables | None = None,
    ) -> None:
        self._worker, self._group, self._tags = worker, group, tags
        tables = tables or Tables()
        names = {
            "queue": tables.quoted(tables.job_queue),
            "runtime": tables.quoted(tables.job_runtime),
            "completed": tables.quoted(tables.job_completed),
            "carrier": tables.quoted(tables.carrier),
            "order": order,
        }
        self._next, self._take, self._complete, self._completed_by_us = (
            text.format(**names) for text in (_NEXT, _TAKE, _COMPLETE, _COMPLETED_BY_US)
        )

    def claim(self, running: ExitStack, may: Callable[[], bool]) -> Generator[Query, Row | None, Job | None]:
        """Claim the next job, if there is one and we still ``may``; its span is entered on ``running``."""
        found = yield self._next, {"tags": list(self._tags)}
        if found is None or not may():
            return None
        job_id, tag, carrier, waited = found
        run = running.enter_context(job_span(carrier, job_id=str(job_id), tag=tag, group=self._group, waited=waited))
        running.push(_unclaimed(run))
        taken = yield self._take, {"id": job_id, "worker": self._worker, "carrier": Jsonb(run.carrier)}
        assert taken is not None, "the row is locked"
        return Job(job_id, tag, taken[0], waited, run)

    def complete(self, job: Job, status: str, *, again: bool) -> Generator[Query, Row | None, bool]:
        """Write how ``job`` ended; False if it was not ours any more. ``again``: the first try may have arrived."""
        fence = {"id": job.id, "worker": self._worker, "started_at": job.started_at}
        done = yield self._complete, {**fence, "status": status}
        if done is None and again:
            done = yield self._completed_by_us, fence
        return done is not None


def _unclaimed(
    run: Run,
) -> Callable[[type[BaseException] | None, BaseException | None, TracebackType | None], None]:
    """A claim whose commit nobody answered is nobody's: if it arrived after all, the reaper takes it back."""

    def ended(_kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None) -> None:
        if isinstance(error, psycopg.Error) and run.outcome is None:
            run.outcome = "lost"

    return ended
