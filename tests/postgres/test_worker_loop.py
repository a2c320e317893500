"""A worker in one line on a real PostgreSQL: what it claims, how runs end, what it does when the database is away."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from telemetry.worker import AsyncJobLoop, Job, JobLoop, Tables, enqueue_span
from telemetry.worker import loop as loop_module
from telemetry.worker.failures import FAILURES
from tests.backends import postgres
from tests.backends.pgbouncer import pooled
from tests.backends.process import eventually
from tests.postgres.working import ZOMBIE, enqueue, job, reaping, rows

pytestmark = pytest.mark.timeout(240)
KINDS = ("threads", "tasks")


class Work:
    """The work of both kinds: it counts, and does what the job's tag says."""

    def __init__(self) -> None:
        self.ran: Counter[Any] = Counter()
        self.order: list[Any] = []
        self.now = self.most = 0
        self.go = threading.Event()
        self.lock = threading.Lock()

    def _begin(self, job: Job) -> None:
        with self.lock:
            self.ran[job.id] += 1
            self.order.append(job.id)
            self.now += 1
            self.most = max(self.most, self.now)

    def _end(self, job: Job) -> None:
        with self.lock:
            self.now -= 1
        if job.tag == "bad":
            raise ValueError("no such model")
        if job.tag == "exit":
            raise SystemExit(3)

    def sync(self, job: Job) -> None:
        self._begin(job)
        try:
            while job.tag == "slow" and not self.go.is_set():
                time.sleep(0.01)
            if job.tag == "short":
                time.sleep(0.02)
        finally:
            self._end(job)

    async def coroutine(self, job: Job) -> None:
        self._begin(job)
        try:
            while job.tag == "slow" and not self.go.is_set():  # noqa: ASYNC110 - a test's thread sets it
                await asyncio.sleep(0.01)
            if job.tag == "short":
                await asyncio.sleep(0.02)
        finally:
            self._end(job)


@contextmanager
def looping(kind: str, url: str, work: Work, *, tags=("t",), concurrency: int = 1, **more: Any) -> Iterator[Any]:
    """A loop in a thread, drained and waited for when the block is left."""
    options = {"poll": 0.05, "interval": 1.0, "deadline": 0.9, "grace": 60.0, **more}
    loop: JobLoop | AsyncJobLoop
    if kind == "threads":
        loop = JobLoop(url, group="g", tags=tags, concurrency=concurrency, **options)
    else:
        loop = AsyncJobLoop(url, group="g", tags=tags, concurrency=concurrency, **options)
    failed: list[BaseException] = []

    def run() -> None:
        try:
            if isinstance(loop, JobLoop):
                loop.run(work.sync)
            else:
                asyncio.run(loop.run(work.coroutine))
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield loop
    finally:
        loop.drain()
        thread.join(120)
    assert not thread.is_alive()
    if failed:
        raise failed[0]


def all_completed(url: str) -> bool:
    return rows(url, "SELECT count(*) AS n FROM job_queue") == [{"n": 0}]


@pytest.mark.parametrize("kind", KINDS)
def test_it_claims_what_is_due_under_its_tags_and_nothing_else_the_urgent_first(kind, queue):
    rows(
        queue,
        "INSERT INTO job_queue (tag, scheduled_for, running, worker, started_at, canceled_by) VALUES "
        "('t', now() + interval '1 hour', false, NULL, NULL, NULL), "
        "('t', now(), true, 'another', now(), NULL), "
        "('t', now(), false, NULL, NULL, 'mina'), "
        "('other', now(), false, NULL, NULL, NULL)",
    )
    late, soon, urgent = (
        rows(queue, f"INSERT INTO job_queue (tag, scheduled_for, priority) VALUES {values} RETURNING job_id")[0][
            "job_id"
        ]
        for values in (
            "('t', now() - interval '1 minute', 0)",
            "('t', now() - interval '2 minutes', 0)",
            "('t', now(), 5)",
        )
    )
    work = Work()
    with looping(kind, queue, work):
        assert eventually(lambda: len(work.order) == 3, timeout=60)
        assert eventually(lambda: job(queue, late)["status"] == "success", timeout=60)
    assert work.order == [urgent, soon, late]
    assert rows(queue, "SELECT count(*) AS n FROM job_queue") == [{"n": 4}]
    assert rows(queue, "SELECT * FROM worker_ping") == []


@pytest.mark.parametrize("kind", KINDS)
def test_how_a_job_ends_is_in_its_row_its_span_its_lines_and_the_metrics(kind, queue, telemetry_captured):
    with enqueue_span("good") as carrier:
        pass
    (good,), (bad,), (leaving,) = enqueue(queue, "good", 1, carrier), enqueue(queue, "bad"), enqueue(queue, "exit")
    with looping(kind, queue, Work(), tags=("good", "bad", "exit")):
        assert eventually(lambda: all_completed(queue), timeout=60)
    assert [job(queue, each)["status"] for each in (good, bad, leaving)] == ["success", "failure", "failure"]
    spans = {span.name: span for span in telemetry_captured.spans}
    assert spans["process good"].trace_id == spans["send good"].trace_id
    assert spans["process good"].parent_id == spans["send good"].span_id
    assert spans["wait good"].parent_id == spans["send good"].span_id
    assert spans["process bad"].events[0].attributes["exception.message"] == "no such model"
    failed = {
        line.fields["job_id"]: line.fields for line in telemetry_captured.lines if line.fields["level"] == "error"
    }
    assert set(failed) == {str(bad), str(leaving)}
    assert failed[str(bad)]["trace_id"] == spans["process bad"].trace_id
    assert telemetry_captured.value("fleet_job_executed_total", tag="bad", group="g", outcome="failure") == 1
    assert telemetry_captured.value("fleet_job_wait_seconds_count", tag="good", group="g") == 1


@pytest.mark.parametrize("kind", KINDS)
def test_it_runs_as_many_at_a_time_as_it_was_told(kind, queue):
    enqueue(queue, "slow", 5)
    work = Work()
    with looping(kind, queue, work, tags=("slow",), concurrency=3):
        assert eventually(lambda: work.now == 3, timeout=60)
        assert eventually(
            lambda: rows(queue, "SELECT running_jobs FROM worker_ping") == [{"running_jobs": 3}], timeout=60
        )
        work.go.set()
        assert eventually(lambda: all_completed(queue), timeout=60)
    assert work.most == 3


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_that_was_given_to_somebody_else_is_cancelled_and_completes_nothing(kind, queue, telemetry_captured):
    (slow,) = enqueue(queue, "slow")
    work = Work()
    with looping(kind, queue, work, tags=("slow",)):
        assert eventually(lambda: work.now == 1, timeout=60)
        rows(queue, "UPDATE job_queue SET started_at = clock_timestamp(), worker = 'another' WHERE running")
        assert eventually(lambda: work.now == 0, timeout=60)
        assert eventually(
            lambda: telemetry_captured.value("fleet_job_executed_total", tag="slow", group="g", outcome="lost") == 1,
            timeout=60,
        )
    assert (job(queue, slow)["running"], job(queue, slow)["worker"]) == (True, "another")
    assert rows(queue, "SELECT * FROM job_completed") == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_completion_that_comes_too_late_is_fenced_off(kind, queue, telemetry_captured):
    """The heartbeat has not noticed yet: only the fence stands between two completions."""
    (slow,) = enqueue(queue, "slow")
    work = Work()
    with looping(kind, queue, work, tags=("slow",), interval=600.0, deadline=20.0) as loop:
        assert eventually(lambda: work.now == 1, timeout=60)
        # Taken away, and given back to the same worker: the start alone tells the two runs apart.
        rows(queue, "UPDATE job_queue SET started_at = clock_timestamp() WHERE running")
        work.go.set()
        assert eventually(
            lambda: telemetry_captured.value("fleet_job_executed_total", tag="slow", group="g", outcome="lost") == 1,
            timeout=60,
        )
        assert job(queue, slow)["worker"] == loop.worker
    assert rows(queue, "SELECT * FROM job_completed") == []
    (run,) = [span for span in telemetry_captured.spans if span.name == "process slow"]
    assert run.attributes["job.outcome"] == "lost"


@pytest.mark.slow
def test_several_workers_of_both_kinds_run_each_job_once(queue):
    jobs = enqueue(queue, "t", 200)
    one, two = Work(), Work()
    with looping("threads", queue, one, concurrency=4), looping("tasks", queue, two, concurrency=4):
        assert eventually(lambda: all_completed(queue), timeout=120)
    assert one.ran + two.ran == Counter(jobs)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_restart_of_the_database_under_load_loses_no_job_and_completes_none_twice(kind):
    # Off, as tests have it, a crash may lose what was committed, as any database's would.
    with postgres.running({"synchronous_commit": "on"}) as server:
        with psycopg.connect(server.url, autocommit=True) as connection:
            postgres.prepare(connection)
        jobs = enqueue(server.url, "short", 150)
        work = Work()
        with reaping(server.url) as requeued, looping(kind, server.url, work, tags=("short",), concurrency=4):
            assert eventually(lambda: len(work.ran) > 20, timeout=60)
            server.restart("fast")
            assert eventually(lambda: len(work.ran) > 80, timeout=90)
            server.restart("immediate")
            assert eventually(lambda: all_completed(server.url), timeout=120), server.log.read_text()[-2000:]
        done = rows(server.url, "SELECT job_id, status FROM job_completed")
        assert {row["job_id"] for row in done} == set(jobs)
        assert {row["status"] for row in done} == {"success"}
        # A claim that arrived though nobody heard so is for the reaper; whoever ran twice was requeued between.
        assert {each for each, times in work.ran.items() if times > 1} <= set(requeued)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_an_outage_longer_than_the_zombie_timeout_gives_no_living_job_back(kind):
    """Just after it every ping is old: the first read saw one worker of twenty alive, and every job reapable."""
    with postgres.running() as server:
        with psycopg.connect(server.url, autocommit=True) as connection:
            postgres.prepare(connection)
        jobs = enqueue(server.url, "slow", 4)
        work = Work()
        with reaping(server.url) as requeued, contextlib.ExitStack() as several:
            for _ in jobs:  # whoever looks first finds one of them that has not pinged yet
                several.enter_context(looping(kind, server.url, work, tags=("slow",), interval=3.0, deadline=2.9))
            several.callback(work.go.set)
            assert eventually(lambda: work.now == 4, timeout=60)
            server.down()
            back = time.monotonic() + ZOMBIE + 3
            assert eventually(lambda: time.monotonic() > back, timeout=60)
            server.up()
            up_for = "SELECT now() - pg_postmaster_start_time() > make_interval(secs => %(long)s) AS yes"
            assert eventually(lambda: rows(server.url, up_for, {"long": 2.5 * ZOMBIE})[0]["yes"], timeout=90)
            assert (work.now, dict(requeued)) == (4, {})
            work.go.set()
            assert eventually(lambda: all_completed(server.url), timeout=60)
        assert work.ran == Counter(jobs)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_claims_and_completions_that_the_database_did_not_take_are_counted_by_why(
    kind, monkeypatch, telemetry_captured
):
    def counted(doing: str, reason: str) -> float | None:
        return telemetry_captured.value(f"fleet_job_{doing}_failures_total", reason=reason)

    with postgres.running() as server:
        with psycopg.connect(server.url, autocommit=True) as connection:
            postgres.prepare(connection)
        (slow,) = enqueue(server.url, "slow")
        work = Work()
        with looping(kind, server.url, work, tags=("slow",), concurrency=2):
            assert eventually(lambda: work.now == 1, timeout=60)
            claims = [counted("claim", reason) for reason in FAILURES]
            assert claims == [0, 0, 0], "a rate sees the first of each"
            server.down()
            assert eventually(lambda: counted("claim", "connection"), timeout=60)
            work.go.set()
            assert eventually(lambda: counted("completion", "connection"), timeout=60)
            server.up()
            assert eventually(lambda: all_completed(server.url), timeout=60)
            monkeypatch.setattr(loop_module, "_ANSWERS_WITHIN", 2.0)
            try:
                server.hang()
                assert eventually(lambda: counted("claim", "timeout"), timeout=60)
            finally:
                server.go_on()
        assert job(server.url, slow)["status"] == "success"
    assert counted("claim", "refused") == counted("completion", "refused") == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_database_that_hangs_holds_up_no_drain(kind):
    with postgres.running() as server:
        with psycopg.connect(server.url, autocommit=True) as connection:
            postgres.prepare(connection)
        try:
            with looping(kind, server.url, Work(), grace=900.0):
                assert eventually(lambda: rows(server.url, "SELECT * FROM worker_ping"), timeout=60)
                server.hang()
        finally:
            server.go_on()


@pytest.mark.parametrize("kind", KINDS)
def test_through_a_pooler_in_transaction_mode_claims_heartbeats_and_completions_work(kind, server, queue):
    database = queue.rsplit("/", 1)[1]
    jobs = enqueue(queue, "t", 60)
    work = Work()
    with pooled(server, database) as url:
        with looping(kind, url, work, concurrency=4) as one, looping("threads", url, work, concurrency=2) as two:
            there = "SELECT worker FROM worker_ping"
            assert eventually(lambda: {r["worker"] for r in rows(queue, there)} == {one.worker, two.worker}, timeout=60)
            first = rows(queue, "SELECT max(ping_at) AS at FROM worker_ping")[0]["at"]
            assert eventually(lambda: all_completed(queue), timeout=60)
            assert eventually(
                lambda: rows(queue, "SELECT min(ping_at) AS at FROM worker_ping")[0]["at"] > first, timeout=60
            )
        assert rows(queue, there) == []
    assert work.ran == Counter(jobs)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("zone", ["Asia/Seoul", "America/St_Johns"])
def test_the_time_zone_of_a_session_moves_no_wait_no_ping_and_no_fence(kind, zone, queue, telemetry_captured):
    enqueue(queue, "slow")
    work = Work()
    with looping(kind, f"{queue}?options=-c%20timezone%3D{zone}", work, tags=("slow",)):
        assert eventually(lambda: work.now == 1, timeout=60)
        fresh = "SELECT ping > now() - interval '20 s' AS fresh FROM job_runtime"
        first = rows(queue, "SELECT ping FROM job_runtime")[0]["ping"]
        assert eventually(lambda: rows(queue, "SELECT ping FROM job_runtime")[0]["ping"] > first, timeout=60)
        assert rows(queue, fresh) == [{"fresh": True}]
        work.go.set()
        assert eventually(lambda: all_completed(queue), timeout=60)
    assert [row["status"] for row in rows(queue, "SELECT status FROM job_completed")] == ["success"]
    assert telemetry_captured.value("fleet_job_wait_seconds_sum", tag="slow", group="g") < 60
    assert telemetry_captured.value("fleet_job_executed_total", tag="slow", group="g", outcome="success") == 1


@pytest.mark.parametrize("kind", KINDS)
def test_tables_that_are_not_there_end_the_loop_with_that_error(kind, queue, telemetry_captured):
    with (
        pytest.raises(psycopg.errors.UndefinedTable, match="no_such_queue"),
        looping(kind, queue, Work(), tables=Tables(job_queue="no_such_queue")) as loop,
    ):
        assert eventually(lambda: not loop._drain.claiming, timeout=60)
    assert telemetry_captured.value("fleet_job_claim_failures_total", reason="refused") == 1


def test_a_worker_that_runs_nothing_is_refused():
    with pytest.raises(ValueError, match="concurrency=0 must be 1 or more"):
        JobLoop("postgresql://127.0.0.1:1/x", group="g", tags=("t",), concurrency=0)
