"""How workers end, on a real PostgreSQL with reapers that never rest: drained, past their grace, killed."""

from __future__ import annotations

import contextlib
import signal
import uuid
from collections import Counter
from pathlib import Path

import pytest

from telemetry.testing import Receiver
from telemetry.worker.drain import EXIT_CODE
from tests.backends.process import eventually
from tests.postgres.working import ZOMBIE, enqueue, job, reaping, rows, stays_ours, worker

pytestmark = pytest.mark.timeout(240)
KINDS = ("threads", "tasks", "hand")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_drain_finishes_its_job_and_claims_no_more_while_both_heartbeats_go_on(kind, queue, tmp_path):
    (slow,) = enqueue(queue, "slow")
    with worker(kind, queue, tmp_path) as program, reaping(queue) as requeued:
        assert program.runs(slow), program.said
        program.end()
        assert eventually(lambda: rows(queue, "SELECT status FROM worker_ping") == [{"status": "draining"}], timeout=60)
        later = enqueue(queue, "quick", 3)
        (drained,) = rows(queue, "SELECT ping_at, draining_since FROM worker_ping")
        assert drained["draining_since"] is not None
        assert eventually(lambda: stays_ours(queue, slow, drained["ping_at"]), timeout=90)
        assert rows(queue, "SELECT ping_at > now() - interval '5 s' AS fresh FROM worker_ping") == [{"fresh": True}]
        (tmp_path / "go").touch()
        assert program.code() == 0, program.said
        assert job(queue, slow)["status"] == "success"
        assert rows(queue, "SELECT * FROM worker_ping") == [], "a worker that ended well is not there"
        waiting = rows(queue, "SELECT job_id FROM job_queue WHERE NOT running AND restarts = 0")
        assert {row["job_id"] for row in waiting} == set(later), "nothing was claimed after SIGTERM"
        assert not requeued


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_past_the_grace_the_job_is_cancelled_and_requeued_exactly_once(kind, queue, tmp_path, telemetry_receiver):
    (slow,) = enqueue(queue, "slow")
    one, two = tmp_path / "one", tmp_path / "two"
    with reaping(queue, 3) as requeued:
        with worker(kind, queue, one, grace=1.0, environ=telemetry_receiver.environ()) as program:
            assert program.runs(slow), program.said
            program.end()
            assert program.code() == 0, program.said
        (cancelled,) = eventually(lambda: [s for s in telemetry_receiver.spans if s.name == "process slow"], timeout=60)
        assert cancelled.attributes["job.outcome"] == "cancelled"
        two.mkdir()
        (two / "go").touch()
        with worker(kind, queue, two) as program:
            assert program.runs(slow), program.said
            assert eventually(lambda: job(queue, slow)["status"] == "success", timeout=60)
            program.end()
            assert program.code() == 0, program.said
        assert requeued == {slow: 1}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["threads", "tasks"])
def test_a_job_that_does_not_heed_is_left_behind_by_its_process_which_says_so(
    kind, queue, tmp_path, telemetry_receiver
):
    (stuck,) = enqueue(queue, "stuck")
    with (
        reaping(queue) as requeued,
        worker(kind, queue, tmp_path, grace=1.0, environ=telemetry_receiver.environ()) as program,
    ):
        assert program.runs(stuck), program.said
        assert eventually(lambda: len(rows(queue, "SELECT * FROM worker_ping")) == 1, timeout=60)
        program.end()
        assert program.code() == EXIT_CODE, program.said
        said = [line.line for line in telemetry_receiver.lines if "still run" in line.line]
        assert said, "what was flushed at the end"
        assert str(stuck) in said[0]
        assert eventually(lambda: requeued[stuck] == 1, timeout=90)
    assert requeued == {stuck: 1}


@pytest.mark.slow
def test_a_main_thread_that_blocks_is_interrupted_past_the_grace(queue, tmp_path):
    (stuck,) = enqueue(queue, "stuck")
    with worker("hand", queue, tmp_path, grace=1.0) as program:
        assert program.runs(stuck), program.said
        program.end()
        assert program.code() == 0, program.said
    assert job(queue, stuck)["running"], "it is for the reaper to take"


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_worker_that_is_killed_lapses_and_its_job_goes_back_once_and_links_to_the_run_before(
    kind, queue, tmp_path, telemetry_receiver
):
    """celery-exporter #228: up stays 1 for ever after SIGKILL."""
    (slow,) = enqueue(queue, "slow")
    alive = f"SELECT worker FROM worker_ping WHERE ping_at >= now() - interval '{ZOMBIE} seconds'"
    one, two = tmp_path / "one", tmp_path / "two"
    with reaping(queue, 3) as requeued:
        with worker(kind, queue, one) as program:
            assert program.runs(slow), program.said
            assert eventually(lambda: rows(queue, alive), timeout=60)
            before = job(queue, slow)
            program.end(signal.SIGKILL)
            assert program.code() == -signal.SIGKILL
        assert eventually(lambda: not rows(queue, alive), timeout=60)
        assert len(rows(queue, "SELECT * FROM worker_ping")) == 1, "the tombstone"
        assert eventually(lambda: requeued[slow] == 1, timeout=90)
        two.mkdir()
        (two / "go").touch()
        with worker("threads", queue, two, environ=telemetry_receiver.environ()) as program:
            assert program.runs(slow), program.said
            assert eventually(lambda: job(queue, slow)["status"] == "success", timeout=60)
            program.end()
            assert program.code() == 0, program.said
        assert requeued == {slow: 1}
    (again,) = eventually(lambda: [s for s in telemetry_receiver.spans if s.name == "process slow"], timeout=60)
    if kind != "hand":  # whose claim writes no last run
        _, trace_id, span_id, _ = before["carrier"]["last_run"].split("-")
        assert [(link.trace_id, link.span_id) for link in again.links] == [(trace_id, span_id)]
    assert not [s for s in telemetry_receiver.spans if s.name == "wait slow"], (
        "its wait would hold the run that was lost"
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_what_was_logged_and_traced_to_the_end_of_a_drain_arrives(
    kind, queue, tmp_path: Path, telemetry_receiver: Receiver
):
    """Telemetry's own handler of SIGTERM would end the process at the signal, in the middle of the job."""
    (slow,) = enqueue(queue, "slow")
    environ = {**telemetry_receiver.environ(), "FLEETGLASS_LINGER": "30"}
    with worker(kind, queue, tmp_path, environ=environ) as program:
        assert program.runs(slow), program.said
        program.end()
        assert eventually(lambda: rows(queue, "SELECT status FROM worker_ping") == [{"status": "draining"}], timeout=60)
        (tmp_path / "go").touch()
        assert program.code() == 0, program.said
    spans = {span.name: span for span in telemetry_receiver.spans}
    assert spans["process slow"].attributes["job.outcome"] == "success"
    (line,) = [line for line in telemetry_receiver.lines if line.fields.get("msg") == "running slow"]
    assert line.fields["job_id"] == str(slow)
    assert line.fields["trace_id"] == spans["process slow"].trace_id


@pytest.mark.slow
def test_workers_killed_one_after_another_under_load_lose_no_job_and_complete_none_twice(queue, tmp_path):
    """What a worker held when it was killed goes back once for each time; nothing else runs again."""
    jobs = enqueue(queue, "brief", 150)
    done = "SELECT job_id, status FROM job_completed"
    with reaping(queue, 3) as requeued:
        for number, enough in enumerate((15, 40, 65)):
            kind = KINDS[number]
            with worker(kind, queue, tmp_path / kind) as doomed, worker(kind, queue, tmp_path / f"{kind}-too") as other:
                assert eventually(lambda at=enough: len(rows(queue, done)) >= at, timeout=90), doomed.said + other.said
                for each in (doomed, other):
                    each.end(signal.SIGKILL)
                    assert each.code() == -signal.SIGKILL
        with worker("threads", queue, tmp_path / "last") as last:
            assert eventually(lambda: len(rows(queue, done)) == len(jobs), timeout=120), last.said
            last.end()
            assert last.code() == 0, last.said
        ran = Counter(path.name.split("-", 1)[1] for path in tmp_path.glob("*/ran-*"))
        assert set(ran) == {str(each) for each in jobs}
        for each, times in ran.items():
            assert times <= 1 + requeued[uuid.UUID(each)], "run again by somebody though nobody gave it back"
    assert {row["job_id"] for row in rows(queue, done)} == set(jobs)
    assert rows(queue, "SELECT * FROM job_queue") == []
    assert requeued, "somebody held a job when it was killed"
    assert max(requeued.values()) <= 3


@pytest.mark.slow
def test_a_rolling_restart_under_load_runs_every_job_exactly_once(queue, tmp_path):
    """SIGTERM to one after another, while others claim and reapers never rest: nothing is given back, nothing lost."""
    jobs = enqueue(queue, "brief", 200)
    done = "SELECT job_id FROM job_completed WHERE status = 'success'"
    logs = []
    with contextlib.ExitStack() as running, reaping(queue, 3) as requeued:
        workers = [running.enter_context(worker(kind, queue, tmp_path / f"{kind}-0")) for kind in KINDS]
        for generation, enough in enumerate((20, 60, 100), 1):
            assert eventually(lambda at=enough: len(rows(queue, done)) >= at, timeout=90), workers[0].said
            old = workers.pop(0)
            kind = KINDS[generation - 1]
            workers.append(running.enter_context(worker(kind, queue, tmp_path / f"{kind}-{generation}")))
            old.end()
            assert old.code() == 0, old.said
            logs.append(old)
        assert eventually(lambda: len(rows(queue, done)) == len(jobs), timeout=120), workers[0].said
        for last in workers:
            last.end()
            assert last.code() == 0, last.said
        assert not requeued
    begun = sum(each.said.count("running brief") for each in (*logs, *workers))
    assert begun == len(jobs)
    assert rows(queue, "SELECT * FROM worker_ping") == []
    assert rows(queue, "SELECT * FROM job_queue") == []
