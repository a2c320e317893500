"""Which one of its siblings a process is: a small number, unique among live processes, kept by a file lock.

Slot ``n`` is an exclusive ``flock`` on a file. The kernel lets go of it when the process ends, however
it ends, so the next process takes the same number again and pushed series don't churn. A forked child
shares its parent's open file: it closes that copy (closing doesn't unlock, the parent still has it open)
and claims a slot of its own.

The files lie in ``$XDG_RUNTIME_DIR/fleetglass`` or ``$TMPDIR/fleetglass-<uid>`` (``/tmp`` by default),
mode 0700: processes of different users, or with different such directories, don't see each other.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

import msgspec

try:
    import fcntl
except ImportError:  # not POSIX
    fcntl = None  # type: ignore[assignment]

_MOST = 4096


class _Held(msgspec.Struct, frozen=True):
    """A slot that this process holds. Device and inode tell whether ``fd`` is still our file."""

    number: int
    fd: int
    pid: int
    device: int
    inode: int


_guard = threading.Lock()
_held: dict[Path, _Held] = {}


class Slots:
    """The slots below one directory; without one, the first usable of the per-user runtime directories."""

    def __init__(self, directory: Path | None = None, *, environ: Mapping[str, str] = os.environ) -> None:
        self._directories = runtime_directories(environ) if directory is None else [directory]

    def claim(self, name: str) -> int | None:
        """The slot of this process among all that claim ``name``: the lowest free one.

        The same number each time within one process. None where slots can't be had (no usable directory,
        no ``flock``, more than 4096 siblings); never raises.
        """
        directory = next((found for found in self._directories if _usable(found)), None)
        if directory is None or fcntl is None:
            return None
        base = directory / _file_name(name)
        with _guard:
            held = _held.get(base)
            if held is not None and held.pid != os.getpid():  # forked below Python (uWSGI): no hook has run
                _forget()
                held = None
            if held is not None and _still_ours(held):
                return held.number
            try:
                held = _claim(base)
            except OSError:  # a full or foreign file system; an instance id is not worth failing for
                return None
            if held is None:
                return None
            _held[base] = held
            return held.number


def release() -> None:
    """Give up every slot of this process."""
    with _guard:
        _forget()


def runtime_directories(environ: Mapping[str, str]) -> list[Path]:
    """Where the lock files of this user may lie, in order of preference."""
    if not hasattr(os, "getuid"):
        return []
    temporary = Path(environ.get("TMPDIR") or "/tmp") / f"fleetglass-{os.getuid()}"  # noqa: S108  (owner checked)
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    return [Path(runtime) / "fleetglass", temporary] if runtime.startswith("/") else [temporary]


def _usable(directory: Path) -> bool:
    """Make the directory if need be; whether it is ours alone, so that nobody else can hold or fake a slot."""
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
        found = directory.lstat()
    except OSError:
        return False
    private = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022
    return private and os.access(directory, os.W_OK | os.X_OK)


def _file_name(name: str) -> str:
    """A file name for any service name; a long one is cut and told apart by a checksum."""
    plain = quote(name, safe=" ").replace(" ", "_")
    if len(plain) <= 150:
        return plain
    from hashlib import blake2s

    return f"{plain[:120]}-{blake2s(name.encode('utf-8', 'replace'), digest_size=8).hexdigest()}"


def _claim(base: Path) -> _Held | None:
    number = attempts = 0
    while number < _MOST and attempts < 2 * _MOST:
        attempts += 1
        path = base.with_name(f"{base.name}.{number}.lock")
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(path, flags, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            number += 1
            continue
        except OSError:
            os.close(fd)
            raise
        opened = os.fstat(fd)
        if _same_file(path, opened):
            return _Held(number, fd, os.getpid(), opened.st_dev, opened.st_ino)
        os.close(fd)  # somebody tidied the directory between open and lock; the name is a new file now
    return None


def _same_file(path: Path, opened: os.stat_result) -> bool:
    try:
        named = path.stat()
    except FileNotFoundError:
        return False
    return (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino)


def _still_ours(held: _Held) -> bool:
    """Whether ``fd`` is still the locked file: programs that turn into daemons close all they find open."""
    try:
        found = os.fstat(held.fd)
    except OSError:
        return False
    return (found.st_dev, found.st_ino) == (held.device, held.inode)


def _forget() -> None:
    for held in _held.values():
        if _still_ours(held):
            os.close(held.fd)
    _held.clear()


def _after_fork() -> None:
    _forget()
    _guard.release()


if hasattr(os, "register_at_fork"):
    # The guard is held across the fork, so that no half-claimed file stays open in the child. Registered on
    # import: hooks run in the child in the order of registration, and those of importers claim a slot there.
    os.register_at_fork(before=_guard.acquire, after_in_parent=_guard.release, after_in_child=_after_fork)
