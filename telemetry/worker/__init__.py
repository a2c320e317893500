"""For processes that take jobs from a queue: the job's trace across the queue, its log fields and its metrics.

Names that need the driver of PostgreSQL (extra ``fleet``) are fetched on first use: a job's span does without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from telemetry import lazy
from telemetry.worker.carrier import Carrier, carry, read, read_columns
from telemetry.worker.jobs import OUTCOMES, JobCancelled, Run, enqueue_span, job_span

if TYPE_CHECKING:
    from telemetry.worker.claims import Job
    from telemetry.worker.drain import Drain
    from telemetry.worker.heartbeat import AsyncHeartbeat, Heartbeat, worker_id
    from telemetry.worker.held import Held
    from telemetry.worker.loop import AsyncJobLoop, JobLoop
    from telemetry.worker.reaper import Reaped, Reaper
    from telemetry.worker.roster import Roster
    from telemetry.worker.tables import Tables

_HOME = {
    "AsyncHeartbeat": "telemetry.worker.heartbeat",
    "AsyncJobLoop": "telemetry.worker.loop",
    "Drain": "telemetry.worker.drain",
    "Heartbeat": "telemetry.worker.heartbeat",
    "Held": "telemetry.worker.held",
    "Job": "telemetry.worker.claims",
    "JobLoop": "telemetry.worker.loop",
    "Reaped": "telemetry.worker.reaper",
    "Reaper": "telemetry.worker.reaper",
    "Roster": "telemetry.worker.roster",
    "Tables": "telemetry.worker.tables",
    "worker_id": "telemetry.worker.heartbeat",
}

__all__ = [
    "OUTCOMES",
    "AsyncHeartbeat",
    "AsyncJobLoop",
    "Carrier",
    "Drain",
    "Heartbeat",
    "Held",
    "Job",
    "JobCancelled",
    "JobLoop",
    "Reaped",
    "Reaper",
    "Roster",
    "Run",
    "Tables",
    "carry",
    "enqueue_span",
    "job_span",
    "read",
    "read_columns",
    "worker_id",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy.names(__name__, _HOME)
