"""A real PostgreSQL for the tests of this folder: one server a session, and a database of its own for each test."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql

from examples.platform.postgres import Postgres
from telemetry.fleet import profiles, schema
from tests.backends import postgres
from tests.backends.postgres import prepare

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def server() -> Iterator[Postgres]:
    """PostgreSQL for the session; tests that stop or stall one start their own."""
    with postgres.running() as running:
        yield running


@pytest.fixture
def database(server: Postgres) -> str:
    """The address of an empty database."""
    name = f"test_{next(_numbers)}"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    return server.url_of(name)


@pytest.fixture
def queue(database: str) -> str:
    """The address of a database with windforce's queue and what we ask to be added to it."""
    with psycopg.connect(database, autocommit=True) as connection:
        prepare(connection)
    return database


@pytest.fixture
def fleet(server: Postgres, queue: str) -> str:
    """The address of such a database with all that ``fleetglass schema print`` writes, applied as an operator would."""
    script = schema.script(profiles.WINDFORCE)
    command = [server.program("psql"), queue, "-q", "-v", "ON_ERROR_STOP=1", "-f", "-"]
    done = subprocess.run(command, input=script, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return queue
