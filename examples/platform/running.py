"""The whole platform in one block: PostgreSQL, the processes, and nothing left of them afterwards."""

from __future__ import annotations

import json
import logging
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
from examples.platform.postgres import Postgres, PostgresError
from ingest.principal import Principal
from telemetry.version import VERSION

# Waits for the end of its stdin, which is ours: then nothing of the database stays, even if we were killed.
_CARETAKER: Final = """
cat >/dev/null
pid=$(head -n 1 "$1/postgres/data/postmaster.pid" 2>/dev/null) && kill -QUIT "$pid" 2>/dev/null && sleep 1
rm -rf "$1"
"""


# Every claim leaves a dead row behind. A queue is vacuumed often, or its indexes fill up with them.
_VACUUMED: Final = {
    "autovacuum_naptime": "5s",
    "autovacuum_vacuum_threshold": "20",
    "autovacuum_vacuum_scale_factor": "0",
}

log = logging.getLogger("cluster")


def environ_for(
    destination: Mapping[str, str], tokens: Mapping[str, Principal], environment: str = "example"
) -> dict[str, str]:
    """The environment of the platform's processes: all of them tell ``destination``, and take these tokens."""
    principals = {
        token: {"email": who.email, "workspace": who.workspace, "roles": who.roles} for token, who in tokens.items()
    }
    return {
        "FLEETGLASS_STDOUT": "off",
        "FLEETGLASS_METRICS_LISTEN": "off",  # they push; six processes on one machine can't share a port
        "FLEETGLASS_METRICS_PUSH_INTERVAL": "2",
        "FLEETGLASS_LINGER": "0.2",
        "FLEETGLASS_LOG_LEVELS": "uvicorn=WARNING",
        "FLEETGLASS_ENVIRONMENT": environment,
        "FLEETGLASS_SERVICE_VERSION": VERSION,
        "FLEETGLASS_TOKENS": json.dumps(principals),
        **destination,
    }


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
        database = Postgres.start(folder / "postgres", _VACUUMED)
        try:
            url = prepare(database)
            with socket.create_server(("127.0.0.1", 0)) as api:
                cluster = Cluster(url, folder / "pods", environ, api.fileno(), mend=lambda: _mend(database))
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


def _mend(database: Postgres) -> None:
    """Start the database again if it has ended."""
    if database.runs:
        return
    log.error("PostgreSQL has ended; starting it again")
    try:
        database.up()
    except PostgresError as error:
        log.error("it does not start, trying again: %s", error)
