"""The heartbeat of a worker on a real PostgreSQL: restarted, hung, without its table; jobs that were taken away."""

from __future__ import annotations

import asyncio
import threading
import uuid
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from telemetry.metrics import registry
from telemetry.worker.heartbeat import AsyncHeartbeat, Heartbeat
from telemetry.worker.roster import Roster
from telemetry.worker.tables import Tables
from tests.backends import postgres
from tests.backends.process import eventually

pytestmark = pytest.mark.timeout(180)
QUICK = {"interval": 0.5, "deadline": 0.4}


def rows(url: str, query: str = "SELECT *, now() - ping_at AS age FROM worker_ping ORDER BY worker") -> list[dict]:
    with psycopg.connect(url, row_factory=dict_row, connect_timeout=20) as connection:
        return connection.execute(query).fetchall()


def claim(url: str, worker: str) -> tuple[uuid.UUID, Any]:
    """A running job of ``worker``, and when the claim says it started."""
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "INSERT INTO job_queue (tag, running, started_at, worker) VALUES ('t', true, now(), %s) "
            "RETURNING job_id, started_at",
            (worker,),
        ).fetchone()
        assert found is not None
        connection.execute("INSERT INTO job_runtime VALUES (%s, now() - interval '50 s')", (found[0],))
        return found


def failures(reason: str) -> float:
    return registry.counter("fleet_worker_heartbeat_failures_total").child(reason)._value.get()


def fresh(url: str, seconds: float = 5.0) -> bool:
    return all(row["age"].total_seconds() < seconds for row in rows(url))


def test_a_worker_is_there_while_it_lives_and_gone_when_it_ends_well(queue):
    with Heartbeat(queue, group="heavy", tags=("gpu", "cpu"), node="n1", version="7", **QUICK) as heartbeat:
        (row,) = rows(queue)
        assert row["worker"] == heartbeat.worker
        assert row["worker_group"] == "heavy"
        assert row["tags"] == ["gpu", "cpu"]
        assert (row["node_name"], row["version"], row["status"], row["running_jobs"]) == ("n1", "7", "active", 0)
        arrived = registry.gauge("fleet_worker_heartbeat_last_success_timestamp_seconds").child()._value.get()
        assert abs(arrived - row["ping_at"].timestamp()) < 60
        first = row["ping_at"]
        assert eventually(lambda: rows(queue)[0]["ping_at"] > first, timeout=30)
        assert rows(queue)[0]["started_at"] == row["started_at"]
    assert rows(queue) == []


def test_what_a_worker_does_is_in_its_row(queue):
    roster = Roster()
    with Heartbeat(queue, group="g", roster=roster, **QUICK) as heartbeat:
        first, second = claim(queue, heartbeat.worker), claim(queue, heartbeat.worker)
        roster.begin(*first)
        roster.begin(*second)
        assert eventually(lambda: rows(queue)[0]["running_jobs"] == 2, timeout=30)
        assert rows(queue)[0]["current_job"] == str(first[0])
        roster.end(*first)
        assert eventually(lambda: rows(queue)[0]["jobs_executed"] == 1, timeout=30)
        assert rows(queue)[0]["current_job"] == str(second[0])


def test_a_drain_is_told_at_once_and_when_it_began(queue):
    roster = Roster()
    with Heartbeat(queue, group="g", roster=roster, interval=60.0, deadline=20.0):
        roster.drain()
        assert eventually(lambda: rows(queue)[0]["status"] == "draining", timeout=30)
        began = rows(queue)[0]["draining_since"]
        assert began is not None
        roster.drain()
        assert rows(queue)[0]["draining_since"] == began


def test_running_jobs_are_kept_alive_and_those_of_others_are_not(queue):
    roster = Roster()
    with Heartbeat(queue, group="g", roster=roster, **QUICK) as heartbeat:
        mine, others = claim(queue, heartbeat.worker), claim(queue, "somebody-else")
        roster.begin(*mine)
        pinged = "SELECT job_id FROM job_runtime WHERE ping > now() - interval '40 s'"
        assert eventually(lambda: rows(queue, pinged) == [{"job_id": mine[0]}], timeout=30)
        roster.begin(*others)
        assert eventually(lambda: len(roster.running) == 1, timeout=30)
        assert rows(queue, pinged) == [{"job_id": mine[0]}]


def test_a_job_that_was_taken_away_is_told_even_when_it_came_back_to_the_same_worker(queue):
    lost: list[Any] = []
    roster = Roster(lost.append)
    with Heartbeat(queue, group="g", roster=roster, **QUICK) as heartbeat:
        kept, taken, again = (claim(queue, heartbeat.worker) for _ in range(3))
        for job in (kept, taken, again):
            roster.begin(*job)
        with psycopg.connect(queue) as connection:
            connection.execute("UPDATE job_queue SET running = false, worker = NULL WHERE job_id = %s", (taken[0],))
            connection.execute("UPDATE job_queue SET started_at = clock_timestamp() WHERE job_id = %s", (again[0],))
        assert eventually(lambda: len(lost) == 2, timeout=30)
        assert {job.id for job in lost} == {taken[0], again[0]}
        assert [job.id for job in roster.running] == [kept[0]]


def test_a_job_that_has_just_ended_is_not_called_lost(queue):
    lost: list[Any] = []
    roster = Roster(lost.append)

    async def scenario() -> None:
        async with AsyncHeartbeat(queue, group="g", roster=roster, interval=60.0, deadline=20.0) as heartbeat:
            job = claim(queue, heartbeat.me.worker)
            roster.begin(*job)
            with psycopg.connect(queue) as connection:
                connection.execute("DELETE FROM job_queue WHERE job_id = %s", (job[0],))
            await heartbeat.beat()
            roster.end(*job)
            await heartbeat.beat()

    asyncio.run(scenario())
    assert lost == []
    assert roster.executed == 1


def test_a_job_whose_claim_wrote_no_ping_is_not_called_lost(queue):
    lost: list[Any] = []
    roster = Roster(lost.append)

    async def scenario() -> None:
        async with AsyncHeartbeat(queue, group="g", roster=roster, interval=60.0, deadline=20.0) as heartbeat:
            job = claim(queue, heartbeat.me.worker)
            with psycopg.connect(queue) as connection:
                connection.execute("DELETE FROM job_runtime")
            roster.begin(*job)
            for _ in range(3):
                assert await heartbeat.beat()

    asyncio.run(scenario())
    assert lost == []
    assert len(roster.running) == 1


def test_the_end_of_a_lost_run_leaves_the_next_run_of_that_job_alone():
    roster, first, second = Roster(), datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
    roster.begin("j", first)
    roster.take_away(roster.running[0])
    roster.begin("j", second)
    roster.end("j", first)
    assert [job.started_at for job in roster.running] == [second]


def test_a_restart_of_the_database_is_survived():
    with postgres.running() as server:
        with psycopg.connect(server.url, autocommit=True) as connection:
            postgres.prepare(connection)
        with Heartbeat(server.url, group="g", **QUICK):
            for mode in ("fast", "immediate"):
                server.restart(mode)
                assert eventually(lambda: fresh(server.url, 2.0), timeout=60), server.log.read_text()[-2000:]
            assert len(rows(server.url)) == 1


def test_a_database_that_hangs_is_noticed_by_the_heartbeat_itself():
    with postgres.running() as server:
        with psycopg.connect(server.url, autocommit=True) as connection:
            postgres.prepare(connection)
        with Heartbeat(server.url, group="g", **QUICK):
            before = failures("timeout")
            server.hang()
            # Nothing answers and nothing closes: only a deadline of our own can tell.
            assert eventually(lambda: failures("timeout") >= before + 2, timeout=60)
            server.go_on()
            assert eventually(lambda: fresh(server.url, 2.0), timeout=60)


def test_a_database_that_is_away_at_the_start_and_at_the_end_holds_nobody_up():
    with postgres.running() as server:
        with psycopg.connect(server.url, autocommit=True) as connection:
            postgres.prepare(connection)
        server.down()
        with Heartbeat(server.url, group="g", **QUICK):
            server.up()
            assert eventually(lambda: len(rows(server.url)) == 1, timeout=60)
            server.hang()
        server.go_on()
        # It could not take its leave: the row stays, and lapses like that of a worker that was killed.
        assert len(rows(server.url)) <= 1


@pytest.mark.expects_fault("worker.heartbeat")
def test_a_table_that_is_not_there_is_said_and_the_worker_goes_on(database):
    before = failures("refused")
    with Heartbeat(database, group="g", **QUICK):
        assert eventually(lambda: failures("refused") > before + 1, timeout=30)


def test_two_starts_in_one_pod_have_two_rows(queue, monkeypatch):
    monkeypatch.setenv("POD_NAME", "heavy-0")
    with Heartbeat(queue, group="g", **QUICK) as one, Heartbeat(queue, group="g", **QUICK) as two:
        assert one.worker != two.worker
        assert {row["worker"] for row in rows(queue)} == {one.worker, two.worker}
        assert one.worker.startswith("heavy-0-")


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"deadline": 11.0}, "deadline=11 s must be above 0 and below interval=10 s"),
        ({"deadline": 0.0}, "deadline=0 s"),
    ],
)
def test_what_can_not_work_is_said_where_it_is_written(wrong, sentence):
    with pytest.raises(ValueError, match=sentence), Heartbeat("postgresql://127.0.0.1:1/x", group="g", **wrong):
        pass


@pytest.mark.parametrize("wrong", [{"worker_ping": "a;b"}, {"job_queue": "a.b.c"}, {"job_id_type": "uuid[]); --"}])
def test_what_is_no_name_of_a_table_never_reaches_sql(wrong):
    with pytest.raises(ValueError, match="is no "):
        Tables(**wrong)


def test_a_roster_takes_jobs_from_many_threads():
    roster = Roster()

    def work(first: int) -> None:
        for number in range(first, first + 500):
            now = datetime.now(UTC)
            roster.begin(number, now)
            roster.end(number, now)

    threads = [threading.Thread(target=work, args=(first * 1000,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert roster.executed == 2000
    assert roster.running == ()
