"""A reader that nobody feels, and that tells why it could not read: limits, deadline, locks, loss of the connection."""

from __future__ import annotations

import threading

import psycopg
import pytest
from psycopg import errors

from telemetry.fleet.election import Election
from telemetry.fleet.profiles import WINDFORCE
from telemetry.fleet.queue import read_pending
from telemetry.fleet.session import REASONS, SchemaError, Session, address, reason
from tests.backends import postgres
from tests.backends.pgbouncer import pooled
from tests.backends.process import eventually

pytestmark = pytest.mark.timeout(180)


def why(session: Session, query: str = "SELECT count(*) FROM job_queue") -> str:
    with pytest.raises((psycopg.Error, TimeoutError)) as caught, session.read() as connection:
        connection.execute(query)
    found = reason(caught.value)
    assert found in REASONS
    return found


def answers(session: Session) -> bool:
    with session.read() as connection:
        return connection.execute("SELECT 1").fetchone() == (1,)


@pytest.fixture
def session(queue):
    made = Session(queue, statement_timeout=20, deadline=60)
    yield made
    made.close()


def test_it_can_not_write(session):
    assert why(session, "DELETE FROM job_queue") == "refused"
    assert answers(session)


def test_a_statement_that_takes_too_long_is_ended_by_the_server(queue):
    session = Session(queue, statement_timeout=2, deadline=60)
    assert why(session, "SELECT pg_sleep(50)") == "statement_timeout"
    assert answers(session), "the connection is good for the next read"
    session.close()


def test_ddl_that_holds_the_table_is_not_waited_for(queue, session):
    with psycopg.connect(queue) as other:
        other.execute("LOCK TABLE job_queue IN ACCESS EXCLUSIVE MODE")
        assert why(session) == "lock_timeout"
        other.rollback()
    assert answers(session)


def test_claims_are_not_waited_for_and_do_not_wait(queue, session):
    with psycopg.connect(queue) as worker:
        worker.execute("INSERT INTO job_queue (tag) VALUES ('gpu')")
        worker.commit()
        worker.execute("SELECT * FROM job_queue FOR UPDATE SKIP LOCKED")
        with session.read() as connection:
            assert read_pending(connection, WINDFORCE).tags["gpu"].count == 1
            worker.execute("UPDATE job_queue SET running = true, started_at = now()")
            worker.commit()


def test_what_is_missing_or_forbidden_has_its_own_reason(queue, session):
    assert why(session, "SELECT * FROM nowhere") == "schema"
    assert why(session, "SELECT colour FROM job_queue") == "schema"
    with psycopg.connect(queue, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS stranger")
        connection.execute("CREATE ROLE stranger LOGIN")
    stranger = Session(queue.replace("postgres@", "stranger@"))
    assert why(stranger) == "permission"
    stranger.close()


def test_a_server_that_is_away_or_throws_us_out_is_a_lost_connection_and_then_comes_back():
    with postgres.running() as server:
        session = Session(server.url, statement_timeout=20, deadline=60)
        assert answers(session)
        server.down()
        assert why(session, "SELECT 1") == "connection"
        server.up()
        assert answers(session)
        server.restart()
        assert answers(session), "a connection that died while it idled is made again, and nobody hears of it"
        session.close()


def test_a_server_that_hangs_is_left_at_our_own_deadline():
    with postgres.running() as server:
        session = Session(server.url, statement_timeout=20, deadline=3.0, connect_timeout=2.0)
        assert answers(session)
        server.hang()
        assert why(session, "SELECT 1") == "deadline"
        assert why(session, "SELECT 1") in {"connection", "deadline"}
        server.go_on()
        assert eventually(lambda: _answers_again(session), timeout=60)
        session.close()


def _answers_again(session: Session) -> bool:
    try:
        return answers(session)
    except (psycopg.Error, TimeoutError):
        return False


def test_the_limits_of_one_client_never_reach_another_through_the_pooler(server, queue):
    name = queue.rpartition("/")[2]
    with pooled(server, name, size=1) as url:
        one, two = Session(url, statement_timeout=7, deadline=60), Session(url, deadline=60)
        with one.read() as connection:
            assert connection.execute("SHOW statement_timeout").fetchone() == ("7s",)
        with two.read() as connection:
            assert connection.execute("SHOW statement_timeout").fetchone() == ("2s",)
        one.close()
        two.close()


def test_a_driver_in_the_address_is_not_ours():
    assert address("postgresql+asyncpg://u@h/d") == "postgresql://u@h/d"
    assert address("host=h dbname=d+e") == "host=h dbname=d+e"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (TimeoutError(), "deadline"),
        (errors.QueryCanceled(), "statement_timeout"),
        (errors.LockNotAvailable(), "lock_timeout"),
        (errors.InsufficientPrivilege(), "permission"),
        (SchemaError(("a column is missing",)), "schema"),
        (errors.TooManyConnections(), "connection"),
        (OSError("no route"), "connection"),
        (errors.DivisionByZero(), "refused"),
        (ValueError("not what was asked for"), "refused"),
    ],
)
def test_every_error_has_one_reason_of_a_closed_list(error, expected):
    assert reason(error) == expected


def take(url: str, one: Election) -> bool:
    session = Session(url, statement_timeout=20, lock_timeout=20, deadline=60)  # a busy machine keeps a row for long
    try:
        with session.write() as connection:
            return one.campaign(connection)
    finally:
        session.close()


def test_one_of_many_has_the_lease_and_keeps_it(fleet):
    many = [Election(holder=f"exporter-{number}") for number in range(8)]
    won: list[str] = []
    start = threading.Barrier(len(many))

    def run(one: Election) -> None:
        start.wait(60)
        for _ in range(5):
            if take(fleet, one):
                won.append(one.holder)

    threads = [threading.Thread(target=run, args=(one,)) for one in many]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert len(won) == 5
    assert len(set(won)) == 1


def test_a_lease_that_lapsed_goes_to_another_and_the_term_says_so(fleet):
    first, second = Election(holder="a"), Election(holder="b")
    assert take(fleet, first)
    assert not take(fleet, second)
    with psycopg.connect(fleet, autocommit=True) as connection:
        connection.execute("UPDATE telemetry.exporter_lease SET expires_at = now() - interval '1 s'")
        assert take(fleet, second)
        assert not take(fleet, first)
        assert connection.execute("SELECT holder, term FROM telemetry.exporter_lease").fetchall() == [("b", 2)]
        second.leave(connection)
    assert take(fleet, first)


def test_a_holder_stops_believing_in_its_lease_by_itself(monkeypatch):
    now = 100.0
    monkeypatch.setattr("telemetry.fleet.election.time.monotonic", lambda: now)
    one = Election(ttl=30)
    assert not one.held
    one.won(95.0)
    assert one.held
    now = 124.9
    assert one.held
    now = 125.0
    assert not one.held


def test_the_lease_works_through_a_pooler(server, fleet):
    with pooled(server, fleet.rpartition("/")[2]) as url:
        first, second = Election(holder="a"), Election(holder="b")
        assert [take(url, first), take(url, second), take(url, first)] == [True, False, True]
