"""PostgreSQL for tests: one server a session, a database of its own for each test."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from examples.platform.postgres import Postgres
from telemetry.worker import schema

WINDFORCE = Path(__file__).parents[2] / "examples" / "platform" / "windforce.sql"


@contextmanager
def running(settings: Mapping[str, str] | None = None) -> Iterator[Postgres]:
    """A server until the block is left.

    Its folder is no pytest folder: for root the server runs as nobody, who may not enter those.
    """
    folder = Path(tempfile.mkdtemp(prefix="fleetglass-postgres-"))
    folder.chmod(0o755)
    server = Postgres.start(folder, settings)
    try:
        yield server
    finally:
        server.down("immediate")
        shutil.rmtree(folder, ignore_errors=True)


def prepare(connection: psycopg.Connection[Any]) -> None:
    """Make windforce's tables, and add to them what we ask a platform to add."""
    connection.execute(WINDFORCE.read_text("utf-8"))
    connection.execute(schema.worker_ping())
    connection.execute(schema.carrier_column())
