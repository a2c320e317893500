"""The reference reaper on a real PostgreSQL: each dead job goes back once, whoever else reaps; none after an outage."""

from __future__ import annotations

import threading
import uuid
from collections import Counter

import psycopg
import pytest

from telemetry.worker.patience import Patience
from telemetry.worker.reaper import Reaper
from tests.backends.pgbouncer import pooled

pytestmark = pytest.mark.timeout(180)
DEAD = "2 minutes"


def running_jobs(url: str, count: int, ping: str | None = DEAD, restarts: int = 0) -> list[uuid.UUID]:
    """Running jobs of a worker that last pinged them so long ago; None: that never did, long after the claim."""
    with psycopg.connect(url) as connection:
        made = connection.execute(
            "INSERT INTO job_queue (tag, running, started_at, worker, restarts) "
            "SELECT 'gpu', true, now() - interval '3 minutes', 'gone', %s FROM generate_series(1, %s) RETURNING job_id",
            (restarts, count),
        ).fetchall()
        if ping is not None:
            connection.execute(
                "INSERT INTO job_runtime SELECT job_id, now() - %s::interval FROM job_queue WHERE worker = 'gone' "
                "ON CONFLICT DO NOTHING",
                (ping,),
            )
    return [row[0] for row in made]


def patient(**more) -> Reaper:
    """A reaper that has read for long enough."""
    reaper = Reaper(**more)
    reaper._patience = Patience(after=0.0, gap=3600.0)
    return reaper


def reap(url: str, reaper: Reaper):
    with psycopg.connect(url, autocommit=True) as connection:
        return reaper.reap(connection)


def test_dead_jobs_go_back_and_living_ones_stay(queue):
    dead, alive = running_jobs(queue, 3), running_jobs(queue, 2, "10 seconds")
    found = reap(queue, patient())
    assert {job for job, _ in found.requeued} == set(dead)
    assert {tag for _, tag in found.requeued} == {"gpu"}
    with psycopg.connect(queue) as connection:
        rows = connection.execute("SELECT job_id FROM job_queue WHERE running").fetchall()
        back = connection.execute("SELECT DISTINCT worker, started_at, restarts FROM job_queue WHERE NOT running")
        assert back.fetchall() == [(None, None, 1)]
    assert {row[0] for row in rows} == set(alive)


@pytest.mark.parametrize("zone", ["Asia/Seoul", "America/St_Johns"])
def test_the_time_zone_of_a_session_makes_nobody_dead_or_alive(queue, zone):
    dead, alive = running_jobs(queue, 2), running_jobs(queue, 2, "10 seconds")
    found = reap(f"{queue}?options=-c%20timezone%3D{zone}", patient())
    assert {job for job, _ in found.requeued} == set(dead)
    with psycopg.connect(queue) as connection:
        rows = connection.execute("SELECT job_id FROM job_queue WHERE running").fetchall()
    assert {row[0] for row in rows} == set(alive)


def test_through_a_pooler_in_transaction_mode_several_reapers_requeue_each_job_exactly_once(server, queue):
    jobs, requeued, lock = running_jobs(queue, 250), Counter[uuid.UUID](), threading.Lock()
    start = threading.Barrier(4)

    def reaping(url: str) -> None:
        reaper = patient()
        with psycopg.connect(url, autocommit=True, prepare_threshold=None) as connection:
            start.wait(60)
            while True:
                found = reaper.reap(connection)
                with lock:
                    requeued.update(job for job, _ in found.requeued)
                    if len(requeued) == len(jobs):
                        return

    with pooled(server, queue.rsplit("/", 1)[1]) as url:
        threads = [threading.Thread(target=reaping, args=(url,), daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(90)
        assert requeued == Counter(jobs)
        assert reap(url, patient()).requeued == ()


def test_a_job_whose_worker_died_before_its_first_ping_goes_back_too(queue):
    (job,) = running_jobs(queue, 1, None)
    assert [each for each, _ in reap(queue, patient()).requeued] == [job]


def test_a_job_that_died_too_often_is_given_up(queue):
    (job,) = running_jobs(queue, 1, restarts=3)
    found = reap(queue, patient(restart_limit=3))
    assert [each for each, _ in found.given_up] == [job]
    assert found.requeued == ()
    with psycopg.connect(queue) as connection:
        assert connection.execute("SELECT count(*) FROM job_queue").fetchone() == (0,)
        assert connection.execute("SELECT job_id, status FROM job_completed").fetchall() == [(job, "lost")]


def test_several_reapers_beside_a_worker_that_claims_requeue_each_job_exactly_once(queue):
    """Two reapers requeued one job twice, the second time from its new owner, since the recheck saw the old ping."""
    jobs = running_jobs(queue, 300)
    requeued: Counter[uuid.UUID] = Counter()
    claimed: Counter[uuid.UUID] = Counter()
    lock, stop, start = threading.Lock(), threading.Event(), threading.Barrier(5)

    def reaping() -> None:
        reaper = patient()
        with psycopg.connect(queue, autocommit=True) as connection:
            start.wait(60)
            while not stop.is_set():
                found = reaper.reap(connection)
                with lock:
                    requeued.update(job for job, _ in found.requeued)

    def claiming() -> None:
        with psycopg.connect(queue, autocommit=True) as connection:
            start.wait(60)
            while not stop.is_set():
                got = connection.execute(
                    "WITH next AS (SELECT job_id FROM job_queue WHERE NOT running LIMIT 1 FOR UPDATE SKIP LOCKED), "
                    "mine AS (UPDATE job_queue q SET running = true, started_at = clock_timestamp(), worker = 'new' "
                    "FROM next WHERE q.job_id = next.job_id RETURNING q.job_id) "
                    "UPDATE job_runtime r SET ping = now() FROM mine WHERE r.job_id = mine.job_id RETURNING r.job_id"
                ).fetchone()
                if got:
                    with lock:
                        claimed[got[0]] += 1
                        if len(claimed) == len(jobs):
                            stop.set()

    threads = [threading.Thread(target=reaping) for _ in range(4)] + [threading.Thread(target=claiming)]
    for thread in threads:
        thread.start()
    stop.wait(90)
    stop.set()
    for thread in threads:
        thread.join(60)
    assert requeued == Counter(jobs)
    assert claimed == Counter(jobs)


def test_nothing_is_reaped_before_silence_may_be_believed(queue):
    running_jobs(queue, 20)
    reaper = Reaper(zombie_timeout=60.0)
    assert reap(queue, reaper).requeued == ()
    with psycopg.connect(queue) as connection:
        assert connection.execute("SELECT count(*) FROM job_queue WHERE running").fetchone() == (20,)


def test_a_read_that_fails_starts_the_wait_again(queue):
    reaper = patient()
    with psycopg.connect(queue, autocommit=True) as connection:
        reaper.reap(connection)
        reaper._patience = Patience(after=60.0, gap=3600.0, since=-1e6, last=1e9, epoch=None)
        connection.close()
        with pytest.raises(psycopg.Error):
            reaper.reap(connection)
    assert reaper._patience.since is None


def test_silence_may_be_believed_after_enough_reads_without_a_break():
    one = Patience(after=60.0, gap=20.0)
    for now in range(0, 61, 10):
        one = one.read(float(now), "boot-1")
        assert one.settled(float(now)) == (now >= 60)


def test_silence_may_not_be_believed_after_a_break():
    one = Patience(after=60.0, gap=20.0)
    for now in range(0, 70, 10):
        one = one.read(float(now), "boot-1")
    assert one.settled(60.0)
    assert not one.settled(81.0), "nobody has read for longer than a gap"
    assert not one.read(81.0, "boot-1").settled(81.0), "this process slept"
    assert not one.read(70.0, "boot-2").settled(70.0), "another server: its clients are coming back"
    assert not one.failed().read(70.0, "boot-1").settled(70.0)
    assert one.read(70.0, "boot-1").settled(70.0)
