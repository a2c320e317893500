"""For processes that take jobs from a queue: the job's trace across the queue, its log fields and its metrics."""

from telemetry.worker.carrier import Carrier, carry, read, read_columns
from telemetry.worker.jobs import OUTCOMES, Run, enqueue_span, job_span

__all__ = [
    "OUTCOMES",
    "Carrier",
    "Run",
    "carry",
    "enqueue_span",
    "job_span",
    "read",
    "read_columns",
]
