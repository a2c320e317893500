"""Processes that outlive the command: started in a session of their own, known by pid and start time."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

_POLL = 0.05


class Record(msgspec.Struct, frozen=True):
    """A process that was started: ``began`` is its start in clock ticks since boot, which no other of that pid has."""

    pid: int
    began: int
    command: tuple[str, ...]
    boot: str = ""


def boot_id() -> str:
    """What this boot of the machine is called; start times count from it. Empty where the kernel does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


def began(pid: int) -> int | None:
    """When the process ``pid`` started, in clock ticks since boot; None where there is none, or only its remains."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return None
    # proc(5): the name in parentheses may hold anything, so fields are counted from behind it.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in ("Z", "X", "x") else int(fields[19])


def alive(record: Record) -> bool:
    """The very process that was started still runs."""
    return record.boot == boot_id() and began(record.pid) == record.began


def start(command: Sequence[str], folder: Path, log: Path) -> Record:
    """Run ``command`` in ``folder``, its output at the end of ``log``. Raises OSError where it can't be run."""
    # A shell only to change the directory: it becomes the program, under the same pid.
    line = ["/bin/sh", "-c", 'cd "$0" && exec "$@"', str(folder), *command]
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, str(log), flags, 0o644),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    pid = os.posix_spawn(line[0], line, os.environ, file_actions=actions, setsid=True)
    return Record(pid, began(pid) or 0, tuple(command), boot_id())


def stop(patience: Mapping[Record, float]) -> list[Record]:
    """Ask each process to end and, after its number of seconds, make it; those that had to be made.

    A pid that belongs to another process by now is left alone.
    """
    began_at, forced = time.monotonic(), []
    for record in patience:
        _send(record, signal.SIGTERM)
    while left := [record for record in patience if alive(record)]:
        for record in left:
            if record not in forced and time.monotonic() - began_at >= patience[record]:
                forced.append(record)
                _send(record, signal.SIGKILL)
        _reap(left)
        time.sleep(_POLL)
    _reap(patience)
    return forced


def _send(record: Record, number: int) -> None:
    if alive(record):
        with contextlib.suppress(ProcessLookupError):
            os.kill(record.pid, number)


def _reap(records: Iterable[Record]) -> None:
    """Take leave of those that this very process started: init does it for all others."""
    for record in records:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(record.pid, os.WNOHANG)
