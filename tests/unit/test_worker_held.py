"""A job is told to stop: in a thread, in the main thread while it blocks, in a task; never once its work is over."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime

import pytest

from telemetry.sigterm import Hook
from telemetry.worker import Drain, JobCancelled
from telemetry.worker.held import Held
from tests.backends.process import eventually

NOW = datetime(2026, 1, 1, tzinfo=UTC)
pytestmark = pytest.mark.timeout(120)


def in_thread(work, held: Held) -> tuple[threading.Thread, list[str], threading.Event]:
    said: list[str] = []
    began = threading.Event()

    def run() -> None:
        try:
            with held.cancellable():
                began.set()
                work()
        except JobCancelled:
            said.append("cancelled")
        else:
            said.append("ended")

    thread = threading.Thread(target=run)
    thread.start()
    return thread, said, began


def until(stop: threading.Event) -> None:
    while not stop.is_set():
        time.sleep(0.01)


def test_a_job_in_a_thread_is_interrupted_even_when_it_catches_every_error():
    held, stop = Held("j", NOW), threading.Event()

    def work() -> None:
        while True:
            try:
                until(stop)
            except Exception:
                continue
            return

    thread, said, began = in_thread(work, held)
    assert began.wait(30)
    held.cancel("lost")
    thread.join(30)
    stop.set()
    assert said == ["cancelled"]
    assert held.reason == "lost"


def test_the_first_reason_holds_and_a_job_that_begins_after_it_does_nothing():
    held, ran = Held("j", NOW), []
    held.cancel("cancelled")
    held.cancel("lost")
    thread, said, _ = in_thread(lambda: ran.append(1), held)
    thread.join(30)
    assert (said, ran, held.reason) == (["cancelled"], [], "cancelled")


def test_what_comes_when_the_work_is_over_never_reaches_the_completion():
    """Raced many times: a job either ends or is cancelled, and no exception arrives after its block."""
    reached: list[str] = []
    for _ in range(300):
        held = Held("j", NOW)
        go = threading.Event()

        def run(held: Held = held, go: threading.Event = go) -> None:
            try:
                go.wait(30)
                try:
                    with held.cancellable():
                        sum(range(50))
                except JobCancelled:
                    pass
                for _ in range(50):  # the completion
                    sum(range(20))
            except JobCancelled:
                reached.append("the completion")

        thread = threading.Thread(target=run)
        thread.start()
        go.set()
        held.cancel("cancelled")
        thread.join(30)
        assert not thread.is_alive()
    assert reached == []


def test_a_main_thread_that_blocks_is_interrupted():
    with Drain(grace=60) as drain:
        threading.Timer(0.2, drain.cancel).start()
        began = time.monotonic()
        with pytest.raises(JobCancelled), drain.job("j", NOW) as job, job.cancellable():
            time.sleep(60)
        assert time.monotonic() - began < 50
        assert job.reason == "cancelled"
    assert signal.getsignal(signal.SIGURG) == signal.SIG_DFL


def test_a_main_thread_whose_urgent_signal_belongs_to_the_application_is_interrupted_between_two_steps():
    def theirs(_number: int, _frame: object) -> None:
        raise AssertionError("nobody sends it")

    before = signal.signal(signal.SIGURG, theirs)
    try:
        with Drain(grace=60) as drain:
            threading.Timer(0.2, drain.cancel).start()
            with pytest.raises(JobCancelled), drain.job("j", NOW) as job, job.cancellable():
                until(threading.Event())
        assert signal.getsignal(signal.SIGURG) is theirs
    finally:
        signal.signal(signal.SIGURG, before)


async def test_a_job_in_a_task_is_cancelled_and_its_task_goes_on():
    held = Held("j", NOW)
    asyncio.get_running_loop().call_later(0.05, lambda: threading.Thread(target=held.cancel, args=("lost",)).start())
    with pytest.raises(JobCancelled), held.cancellable():
        await asyncio.sleep(60)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    async with asyncio.timeout(30):
        await asyncio.sleep(0)


async def test_a_task_that_somebody_else_cancels_as_well_stays_cancelled():
    held = Held("j", NOW)

    async def run() -> None:
        with held.cancellable():
            await asyncio.sleep(60)

    task = asyncio.create_task(run())
    await asyncio.sleep(0.05)
    held.cancel("cancelled")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_drain_stops_claims_at_once_and_wakes_who_waits_for_the_next():
    with Drain(grace=60) as drain:
        assert drain.claiming
        assert drain.wait(0.01)
        waiting: list[bool] = []
        thread = threading.Thread(target=lambda: waiting.append(drain.wait(600)))
        thread.start()
        os.kill(os.getpid(), signal.SIGTERM)
        assert not drain.claiming
        thread.join(30)
        assert waiting == [False]
        assert eventually(lambda: drain.roster.draining_for is not None, timeout=30)


async def test_a_drain_wakes_a_coroutine_that_waits_for_the_next():
    with Drain(grace=60) as drain:
        assert await drain.pause(0.01)
        asyncio.get_running_loop().call_later(0.05, drain.begin)
        async with asyncio.timeout(60):
            assert not await drain.pause(600)


def test_a_handler_of_the_application_that_stands_before_is_called_and_its_exit_comes_after_the_drain():
    called: list[int] = []

    def theirs(number: int, _frame: object) -> None:
        called.append(number)
        raise SystemExit(7)

    before = signal.signal(signal.SIGTERM, theirs)
    claiming: list[bool] = []

    def worker() -> None:
        with Drain(grace=60) as drain:
            os.kill(os.getpid(), signal.SIGTERM)
            claiming.append(drain.claiming)

    try:
        with pytest.raises(SystemExit, match="7"):
            worker()
        assert claiming == [False]
        assert called == [signal.SIGTERM]
        assert signal.getsignal(signal.SIGTERM) is theirs
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_handler_that_comes_later_and_calls_the_one_before_drains_and_stays():
    old = signal.getsignal(signal.SIGTERM)
    called: list[int] = []
    try:
        with Drain(grace=60) as drain:
            ours = signal.getsignal(signal.SIGTERM)
            assert callable(ours)

            def theirs(number: int, frame: object) -> None:
                called.append(number)
                ours(number, frame)

            signal.signal(signal.SIGTERM, theirs)
            os.kill(os.getpid(), signal.SIGTERM)
            assert not drain.claiming
        assert signal.getsignal(signal.SIGTERM) is theirs
        assert called == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, old)


def test_telemetrys_hook_that_came_first_or_last_is_as_it_was_after_the_drain():
    old = signal.getsignal(signal.SIGTERM)
    ended: list[str] = []
    hook = Hook(lambda: ended.append("shut down"), lambda: None, lambda: False)
    try:
        signal.signal(signal.SIGTERM, hook)
        with Drain(grace=60) as drain:
            os.kill(os.getpid(), signal.SIGTERM)
            assert not drain.claiming
        assert ended == []
        assert signal.getsignal(signal.SIGTERM) is hook
        signal.signal(signal.SIGTERM, old)
        with Drain(grace=60) as drain:
            later = Hook(lambda: ended.append("shut down"), lambda: None, lambda: False)
            signal.signal(signal.SIGTERM, later)
        assert later.before == old, "a drain that is over is out of the way"
    finally:
        signal.signal(signal.SIGTERM, old)


FORKS = """
import multiprocessing, os, signal, sys, time
from telemetry.worker import Drain
fork = multiprocessing.get_context("fork")
began = fork.Event()
def work():
    began.set()
    time.sleep(600)
with Drain(grace=60) as drain:
    child = fork.Process(target=work)
    child.start()
    began.wait(30)  # Python forgets a signal that comes in the middle of a fork
    child.terminate()
    child.join(60)
    print(child.exitcode, drain.claiming)
"""


def test_a_process_that_a_job_forks_ends_by_its_own_signal():
    done = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, timeout=100, check=False)
    assert done.stdout.split() == ["-15", "True"], done.stderr


def test_a_grace_below_nothing_is_refused():
    with pytest.raises(ValueError, match="grace=-1 s must not be below 0"):
        Drain(grace=-1)
