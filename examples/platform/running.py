"""The whole platform in one block: PostgreSQL, the processes, and nothing left of them afterwards."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from examples.platform.cluster import Cluster
from examples.platform.database import prepare
from examples.platform.postgres import Postgres

# Waits for the end of its stdin, which is ours: then nothing of the database stays, even if we were killed.
_CARETAKER: Final = """
cat >/dev/null
pid=$(head -n 1 "$1/postgres/data/postmaster.pid" 2>/dev/null) && kill -QUIT "$pid" 2>/dev/null && sleep 1
rm -rf "$1"
"""


class Platform:
    """A running platform; ``api`` is the address of its API server."""

    def __init__(self, api: str, database: Postgres, url: str, cluster: Cluster) -> None:
        self.api, self.database, self.url, self.cluster = api, database, url, cluster


@contextmanager
def platform(environ: Mapping[str, str]) -> Iterator[Platform]:
    """A platform until the block is left; ``environ`` says where its processes send what they tell.

    Raises PostgresError when there is no PostgreSQL to be had, in a sentence.
    """
    folder = Path(tempfile.mkdtemp(prefix="fleetglass-platform-"))
    folder.chmod(0o755)  # for root the server runs as nobody, who has to come in
    caretaker = subprocess.Popen(
        ["/bin/sh", "-c", _CARETAKER, "caretaker", str(folder)], stdin=subprocess.PIPE, start_new_session=True
    )
    assert caretaker.stdin is not None, "it is a pipe"
    try:
        (folder / "pods").mkdir()
        database = Postgres.start(folder / "postgres")
        try:
            url = prepare(database)
            with socket.create_server(("127.0.0.1", 0)) as api:
                cluster = Cluster(url, folder / "pods", environ, api.fileno())
                try:
                    cluster.start()
                    yield Platform(f"http://127.0.0.1:{api.getsockname()[1]}", database, url, cluster)
                finally:
                    cluster.stop()
        finally:
            database.down("immediate")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        caretaker.stdin.close()
        caretaker.wait()
