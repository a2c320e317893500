"""The PostgreSQL that the demo and the tests start: it comes up, comes back, hangs and crashes as it is told."""

from __future__ import annotations

import psycopg
import pytest

from tests.backends import postgres

pytestmark = pytest.mark.timeout(180)


def test_it_comes_back_with_its_data_after_a_restart_and_after_a_crash():
    with postgres.running() as server:
        with psycopg.connect(server.url) as connection:
            connection.execute("CREATE TABLE kept (n int)")
        server.restart("fast")
        with psycopg.connect(server.url) as connection:
            connection.execute("INSERT INTO kept VALUES (1)")
        server.restart("immediate")
        with psycopg.connect(server.url) as connection:
            connection.execute("SELECT count(*) FROM kept")


def test_a_hung_server_answers_nobody_until_it_goes_on():
    with postgres.running() as server:
        server.hang()
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(server.url, connect_timeout=2)
        server.go_on()
        with psycopg.connect(server.url, connect_timeout=20) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)


def test_each_test_has_a_database_of_its_own(database):
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM pg_stat_user_tables").fetchone() == (0,)
