"""The directory of value files that the workers of a service share: who lives, what the dead have left.

Folding keeps it small: files of dead processes become one for each kind. Whoever scrapes folds, under a lock
that the kernel takes back from a process that is killed; a folding that ends halfway is completed, or begun
anew, by the next one, and nothing is counted twice.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from prometheus_client.metrics_core import Metric

from telemetry import faults
from telemetry.metrics import valuefiles
from telemetry.metrics.valuefiles import FileName, Values

WHERE = "metrics.multiprocess"
LOCK_SECONDS = 5.0
DEAD_GAUGES_KEPT = 100
"""Files of mode ``all`` that are kept of dead processes: the mode promises them, a disk can't hold all."""


def start_time(pid: int) -> str | None:
    """When process ``pid`` started, in clock ticks since boot; None when it is dead, or a zombie.

    Without ``/proc`` (macOS) the answer for a live process is ``?``.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        if Path("/proc/self/stat").exists():
            return None
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return None
        except OSError:
            pass
        return "?"
    fields = stat.rpartition(")")[2].split()  # the command before it may hold anything
    return None if fields[0] in "ZXx" else fields[19]


def has_open(pid: int, path: Path) -> bool | None:
    """Whether ``pid`` has ``path`` open; None when that can't be seen."""
    try:
        wanted = path.stat()
        descriptors = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return None
    for descriptor in descriptors:
        with suppress(OSError):
            found = descriptor.stat()
            if (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino):
                return True
    return False


class Directory:
    """The directory of value files, as all processes of a service share it."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._told: set[str] = set()
        self._in_process = threading.Lock()

    # -- this process ------------------------------------------------------------------------------

    def claim(self) -> None:
        """Say that this pid is ours from now on; what another process left under it is put aside.

        To be called before metrics are made, and in each forked child.
        """
        pid = os.getpid()
        began = start_time(pid) or "?"
        owner = self._owner(pid)
        if owner == began:
            return
        for path in self.path.glob(f"*_{pid}.db"):
            name = valuefiles.parse_name(path.name)
            if name is None:
                continue
            if has_open(pid, path):
                if owner is not None and name.kind.startswith("gauge"):
                    faults.say(
                        f"gauges made before telemetry.setup() go on from those of a dead process that had pid {pid}; "
                        f"call setup() first, or empty {self.path} when the service starts"
                    )
            elif name.live or name.kind not in valuefiles.FOLDABLE:
                path.unlink(missing_ok=True)
            else:
                with suppress(FileNotFoundError):
                    path.rename(path.with_name(f"{name.kind}_{pid}-{time.time_ns()}.db"))
        fresh = self.path / f"{pid}.owner.new"
        fresh.write_text(began, encoding="ascii")
        fresh.replace(self.path / f"{pid}.owner")

    def _owner(self, pid: int) -> str | None:
        try:
            return (self.path / f"{pid}.owner").read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            return None

    def _alive(self, pid: int, path: Path) -> bool:
        began = start_time(pid)
        if began is None:
            return False
        owner = self._owner(pid)
        if owner == began:
            return True
        opened = has_open(pid, path)
        return opened if opened is not None else owner is None

    # -- all processes -----------------------------------------------------------------------------

    def families(self) -> list[Metric]:
        """The families of all processes; folds what the dead have left. Raises TimeoutError without the lock."""
        with self._lock():
            self._fold()
            files = []
            for path in sorted(self.path.iterdir()):
                name = self._readable(path.name)
                if name is not None:
                    files.append((name, self._read(path)))
        return valuefiles.families(files)

    def fold(self) -> None:
        """Fold what the dead have left (``families`` does it too)."""
        with self._lock():
            self._fold()

    def _readable(self, filename: str) -> FileName | None:
        # Where folding failed (a full disk), what was taken for it still counts.
        return valuefiles.parse_name(f"{filename.partition('.dead-')[0]}.db" if ".dead-" in filename else filename)

    def _fold(self) -> None:
        dead: dict[str, list[Path]] = {}
        pids: set[int] = set()
        for path in self.path.glob("*.db"):
            name = valuefiles.parse_name(path.name)
            if name is None or name.owner.startswith("folded"):
                continue
            if name.pid is not None and self._alive(name.pid, path):
                pids.add(name.pid)
                continue
            dead.setdefault(name.kind, []).append(path)
        for kind, paths in dead.items():
            if kind.startswith("gauge_live"):
                for path in paths:
                    path.unlink(missing_ok=True)
            elif kind not in valuefiles.FOLDABLE:
                for path in sorted(paths, key=lambda each: each.stat().st_mtime)[:-DEAD_GAUGES_KEPT]:
                    path.unlink(missing_ok=True)
        for kind in valuefiles.FOLDABLE:
            try:
                self._fold_kind(kind, dead.get(kind, []))
            except (OSError, ValueError) as error:  # a full disk, or a file that somebody else has put here
                faults.report(WHERE, error)
        for path in self.path.glob("*.owner"):
            pid = int(path.stem) if path.stem.isdigit() else 0
            if pid not in pids and start_time(pid) != self._owner(pid):
                path.unlink(missing_ok=True)

    def _fold_kind(self, kind: str, dead: list[Path]) -> None:
        """Fold dead files of one kind; safe to be killed at any point.

        A dead file is first renamed to ``….dead-<n>``, n one above the generation of the folded file there is.
        The rename of the new folded file commits: a dead file whose n it has reached is in it.
        """
        folded = {int(path.stem.rpartition("-")[2]): path for path in self.path.glob(f"{kind}_folded-*.db")}
        generation = max(folded, default=0)
        sources = []
        for path in self.path.glob(f"{kind}_*.dead-*"):
            if int(path.name.rpartition("-")[2]) <= generation:
                path.unlink(missing_ok=True)
            else:
                sources.append(path)
        for number, path in folded.items():
            if number < generation:
                path.unlink(missing_ok=True)
        sources += [taken for path in dead if (taken := self._take(path, generation + 1))]
        if not sources:
            return
        values = self._read(folded[generation]) if folded else {}
        for path in sources:
            valuefiles.merge(kind, values, self._read(path))
        fresh = self.path / f"{kind}_folded.new"
        fresh.write_bytes(valuefiles.pack(values))
        fresh.replace(self.path / f"{kind}_folded-{generation + 1}.db")
        for path in [*sources, *folded.values()]:
            path.unlink(missing_ok=True)

    def _take(self, path: Path, generation: int) -> Path | None:
        taken = path.with_name(f"{path.stem}.dead-{generation}")
        if taken.exists():  # the pid died twice since a folding that failed
            taken = path.with_name(f"{path.stem}-{time.time_ns()}.dead-{generation}")
        try:
            path.rename(taken)
        except FileNotFoundError:  # a new process with the same pid has put it aside just now
            return None
        pid = path.stem.rpartition("_")[2]
        if pid.isdigit() and has_open(int(pid), taken):
            taken.rename(path)  # a new process with the same pid has opened it just now, and goes on in it
            return None
        return taken

    def _read(self, path: Path) -> Values:
        try:
            values, problem = valuefiles.read(path)
        except FileNotFoundError:  # a live gauge that a hook of the server's has removed
            return {}
        if problem and path.name not in self._told:
            self._told.add(path.name)
            faults.report(WHERE, f"{path.name} is damaged ({problem}); {len(values)} values of it are kept")
        return values

    @contextmanager
    def _lock(self) -> Iterator[None]:
        deadline = time.monotonic() + LOCK_SECONDS
        late = TimeoutError(f"{self.path / 'fold.lock'} is held for more than {LOCK_SECONDS:g} s")
        # A record lock belongs to the process: it shuts out no thread, and a forked child does not inherit it.
        if not self._in_process.acquire(timeout=LOCK_SECONDS):
            raise late
        try:
            with file_lock(self.path / "fold.lock", deadline) as held:
                if not held:
                    raise late
                yield
        finally:
            self._in_process.release()

    def after_fork_in_child(self) -> None:
        """A thread of the parent's may have held the lock; and the child has a pid of its own."""
        self._in_process = threading.Lock()
        self.claim()


@contextmanager
def file_lock(path: Path, deadline: float) -> Iterator[bool]:
    """Hold an exclusive record lock on ``path``; False when it can't be had before ``deadline`` (monotonic)."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while not (held := try_lock(descriptor)) and time.monotonic() < deadline:
            time.sleep(0.01)
        yield held
    finally:
        os.close(descriptor)


def try_lock(descriptor: int) -> bool:
    """Take an exclusive record lock now; False when another process holds it."""
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
