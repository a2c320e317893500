"""Workers and reapers whose own clocks are wrong by minutes: the database's clock counts, nothing moves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest

from tests.backends.clocks import wrong
from tests.backends.process import eventually
from tests.postgres.working import ROOT, ZOMBIE, enqueue, job, reaping, rows, stays_ours, worker

pytestmark = [pytest.mark.timeout(240), pytest.mark.slow]
SKEWS = (480.0, -480.0)
"""Seconds; Loki refuses lines from more than ten minutes ahead."""


@pytest.mark.parametrize("skew", SKEWS)
@pytest.mark.parametrize("kind", ["threads", "tasks", "hand"])
def test_a_worker_whose_clock_is_wrong_waits_pings_drains_and_completes_by_the_databases_clock(
    kind, skew, queue, tmp_path, telemetry_receiver
):
    environ = {**telemetry_receiver.environ(), **wrong(skew)}
    (slow,) = enqueue(queue, "slow")
    with reaping(queue) as requeued, worker(kind, queue, tmp_path, environ=environ) as program:
        assert program.runs(slow), program.said
        began = rows(queue, "SELECT ping_at FROM worker_ping")[0]["ping_at"]
        assert eventually(lambda: stays_ours(queue, slow, began), timeout=90)
        fresh = "SELECT abs(extract(epoch FROM now() - {})) < 30 AS fresh FROM worker_ping"
        assert rows(queue, fresh.format("ping_at")) == [{"fresh": True}]
        program.end()
        assert eventually(lambda: rows(queue, "SELECT status FROM worker_ping") == [{"status": "draining"}], timeout=60)
        assert rows(queue, fresh.format("draining_since")) == [{"fresh": True}]
        (tmp_path / "go").touch()
        assert program.code() == 0, program.said
        assert not requeued
    assert job(queue, slow)["status"] == "success"
    took = "SELECT extract(epoch FROM completed_at - started_at)::float8 AS took FROM job_completed"
    assert 0 < rows(queue, took)[0]["took"] < 200

    (line,) = [line for line in telemetry_receiver.lines if line.fields.get("msg") == "running slow"]
    off = datetime.fromisoformat(line.fields["ts"]).timestamp() - time.time()
    assert abs(off - skew) < 240, "its clock is wrong indeed"
    samples = {sample.name: sample.value for sample in telemetry_receiver.samples}
    assert "fleet_job_clock_skew_total" not in samples
    if kind != "hand":  # which tells nothing of its waits
        assert 0 <= samples["fleet_job_wait_seconds_sum"] < 60
        assert samples["fleet_job_wait_seconds_count"] == 1


@pytest.mark.parametrize("skew", SKEWS)
def test_a_worker_whose_clock_is_wrong_is_fenced_off_all_the_same(skew, queue, tmp_path, telemetry_receiver):
    environ = {**telemetry_receiver.environ(), **wrong(skew)}
    (slow,) = enqueue(queue, "slow")
    with worker("threads", queue, tmp_path, environ=environ) as program:
        assert program.runs(slow), program.said
        rows(queue, "UPDATE job_queue SET started_at = clock_timestamp() WHERE running")
        lost = "SELECT running_jobs FROM worker_ping"
        assert eventually(lambda: rows(queue, lost) == [{"running_jobs": 0}], timeout=60), program.said
        (tmp_path / "go").touch()
        program.end()
        assert program.code() == 0, program.said
    assert job(queue, slow)["running"]
    assert rows(queue, "SELECT * FROM job_completed") == []
    (run,) = [span for span in telemetry_receiver.spans if span.name == "process slow"]
    assert run.attributes["job.outcome"] == "lost"


@contextmanager
def reaper(url: str, log: Path, environ: Mapping[str, str]) -> Iterator[None]:
    """A reaper in a process of its own, whose output goes to ``log``."""
    program = str(Path(__file__).with_name("reaper_program.py"))
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, program, url, str(ZOMBIE)],
            stdout=out,
            stderr=out,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environ},
        )
    try:
        yield
    finally:
        process.kill()
        process.wait(30)


def said(*logs: Path) -> list[list[str]]:
    return [line.split() for log in logs for line in log.read_text().splitlines()]


def test_reapers_whose_clocks_are_wrong_spare_what_lives_and_take_what_died_once(queue, tmp_path):
    logs = [tmp_path / f"reaper{skew:+.0f}" for skew in SKEWS]
    (slow,) = enqueue(queue, "slow")
    with (
        reaper(queue, logs[0], wrong(SKEWS[0])),
        reaper(queue, logs[1], wrong(SKEWS[1])),
        worker("threads", queue, tmp_path / "worker") as program,
    ):
        assert program.runs(slow), program.said
        began = rows(queue, "SELECT now() AS now")[0]["now"]
        assert eventually(lambda: stays_ours(queue, slow, began), timeout=90)
        clocks = [float(words[1]) - time.time() for words in said(*logs)]
        assert len(clocks) == 2, "nothing was requeued"
        assert abs(clocks[0] - SKEWS[0]) < 240 > abs(clocks[1] - SKEWS[1])
        program.end(signal.SIGKILL)
        assert program.code() == -signal.SIGKILL
        assert eventually(lambda: not job(queue, slow)["running"], timeout=90)
        assert eventually(lambda: len(said(*logs)) > 2, timeout=30)
    assert Counter(words[1] for words in said(*logs) if words[0] == "requeued") == {str(slow): 1}
    assert job(queue, slow)["restarts"] == 1
