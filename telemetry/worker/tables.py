"""Names of the tables and columns that workers write: those of windforce unless told otherwise."""

from __future__ import annotations

import re

import msgspec

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$]{0,62}(\.[A-Za-z_][A-Za-z0-9_$]{0,62})?")
_TYPE = re.compile(r"[a-z][a-z0-9_ ]{0,30}")


class Tables(msgspec.Struct, frozen=True, kw_only=True):
    """Where pings and jobs are. A name may have its schema before it: ``telemetry.worker_ping``.

    ``worker_ping`` holds one row for each worker process, ``job_queue`` the jobs that wait or run, ``job_runtime``
    the ping of each running job, ``job_completed`` the jobs that ended. ``job_id_type`` is the type of their ids in
    SQL. Raises ValueError for what is no name.
    """

    worker_ping: str = "worker_ping"
    job_queue: str = "job_queue"
    job_runtime: str = "job_runtime"
    job_completed: str = "job_completed"
    carrier: str = "carrier"
    job_id_type: str = "uuid"

    def __post_init__(self) -> None:
        for field in ("worker_ping", "job_queue", "job_runtime", "job_completed", "carrier"):
            if not self.is_name(getattr(self, field)):
                raise ValueError(f"{field}={getattr(self, field)!r} is no name of a table or column, such as job_queue")
        if not _TYPE.fullmatch(self.job_id_type):
            raise ValueError(f"job_id_type={self.job_id_type!r} is no type, such as uuid or bigint")

    @staticmethod
    def is_name(text: str) -> bool:
        """Whether ``text`` names a table or a column and nothing else, with its schema or without."""
        return _NAME.fullmatch(text) is not None

    @staticmethod
    def quoted(name: str) -> str:
        """``name`` as SQL takes it whatever words it is made of."""
        return ".".join(f'"{part}"' for part in name.split("."))
