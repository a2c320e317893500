"""A real PgBouncer in transaction mode before a test's PostgreSQL (Debian package pgbouncer)."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from examples.platform.postgres import Postgres
from tests.backends.process import free_ports

PROGRAM = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


@contextmanager
def pooled(server: Postgres, database: str, size: int = 2) -> Iterator[str]:
    """The address of ``database`` through a pooler with ``size`` server connections, each lent for a transaction."""
    if PROGRAM is None:
        pytest.skip("pgbouncer is not installed: apt-get install pgbouncer")
    folder = Path(tempfile.mkdtemp(prefix="fleetglass-pgbouncer-"))
    (port,) = free_ports(1)
    (folder / "users.txt").write_text('"postgres" ""\n')
    (folder / "pgbouncer.ini").write_text(
        f"[databases]\n{database} = host=127.0.0.1 port={server.port} dbname={database} user=postgres\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n"
        f"auth_file = {folder}/users.txt\npool_mode = transaction\ndefault_pool_size = {size}\nlogfile =\n"
    )
    owner = {}
    if os.geteuid() == 0:  # it refuses to run as root
        nobody = pwd.getpwnam("nobody")
        owner = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        folder.chmod(0o755)
    log = folder / "log"
    with log.open("wb") as out:
        process = subprocess.Popen([PROGRAM, str(folder / "pgbouncer.ini")], stdout=out, stderr=out, **owner)
    url = f"postgresql://postgres@127.0.0.1:{port}/{database}"
    try:
        deadline = time.monotonic() + 30
        while True:
            try:
                psycopg.connect(url, connect_timeout=5).close()
                break
            except psycopg.OperationalError:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise AssertionError(f"pgbouncer did not come up:\n{log.read_text()}") from None
                time.sleep(0.05)
        yield url
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)
