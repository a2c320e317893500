"""What runs around a platform's queue, each in a process of its own that serves ``/metrics``: ``fleet.py KIND …``.

``observer PORT SERVICE URL [elected]`` reads the database. ``worker PORT SERVICE URL GROUP TAGS VERSION FOLDER`` runs
jobs: *bad* ones fail, *slow* and *doomed* ones end when FOLDER has a file ``go``. ``strays PORT SERVICE URL FOLDER``
are workers of several groups that claim nothing, one whose clock is wrong, and a reaper that is at work while FOLDER
has a file ``reap``. Times are short: a worker that was silent for ``ALIVE`` seconds is lost.
"""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from pathlib import Path

import msgspec
import psycopg

import telemetry
from telemetry.fleet.election import Election
from telemetry.fleet.model import Windows
from telemetry.fleet.observer import Observer
from telemetry.fleet.profiles import WINDFORCE
from telemetry.worker import Heartbeat, Job, JobLoop, Reaper, job_span
from telemetry.worker.roster import Roster

ALIVE = 20.0
BEAT = {"interval": 3.0, "deadline": 2.9}
STRAYS = (
    ("light", ("cpu",), 2),
    ("disabled", ("old",), 1),
    ("stray", ("odd",), 1),
    ("broken", ("broken",), 1),
    ("hung", ("jam",), 1),
)
"""Groups, their tags, and how many workers they have: too many, none allowed, unasked for, with a row that is wrong."""


def observe(url: str, *elected: str) -> None:
    observer = Observer(
        url,
        profile=msgspec.structs.replace(WINDFORCE, zombie_timeout=ALIVE),
        interval=2.0,
        detail_interval=2.0,
        windows=Windows(alive=ALIVE),
        heartbeat=BEAT["interval"],
        election=Election(ttl=20.0) if elected else None,
        statement_timeout=30.0,  # the machine is busy with other tests
        detail_timeout=30.0,
        deadline=60.0,
    )
    with observer:
        while True:
            time.sleep(60)


def run_jobs(url: str, group: str, tags: str, version: str, folder: str) -> None:
    go = Path(folder) / "go"

    def work(job: Job) -> None:
        if job.tag == "bad":
            raise ValueError("no such model")
        while job.tag in {"slow", "doomed"} and not go.exists():
            time.sleep(0.05)

    JobLoop(
        url, group=group, tags=tuple(tags.split(",")), version=version, concurrency=3, grace=1.0, poll=0.1, **BEAT
    ).run(work)


def stray(url: str, folder: str) -> None:
    reap = Path(folder) / "reap"
    leaving = Roster()
    leaving.drain()
    with ExitStack() as alive:
        for group, tags, count in STRAYS:
            for _ in range(count):
                alive.enter_context(Heartbeat(url, group=group, tags=tags, version="1", **BEAT))
        alive.enter_context(Heartbeat(url, group="leaving", tags=("bye",), version="1", roster=leaving, **BEAT))
        with job_span(None, job_id="0", tag="early", group="stray", waited=-2.0):
            pass  # claimed by a clock of its own, before it was due
        reaper = Reaper(zombie_timeout=ALIVE, interval=5.0)
        with psycopg.connect(url, autocommit=True) as connection:
            while True:
                time.sleep(0.2)
                if reap.exists():
                    reaper.reap(connection)


kind, port, service, *rest = sys.argv[1:]
telemetry.setup(service, role="worker", metrics_listen=f"127.0.0.1:{port}")
{"observer": observe, "worker": run_jobs, "strays": stray}[kind](*rest)
