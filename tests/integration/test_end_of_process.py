"""The end of a process: whatever ends it, the last records arrive, and a dead backend holds it no longer than agreed.

ASGI servers have a file of their own (test_web_servers.py); here are scripts, workers and forking servers.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from telemetry.testing import Blackhole, Receiver, Refuse, Status
from tests.backends.process import request
from tests.pace import fastest

LIMIT = 3.3
"""Seconds from the signal to the end, where the shutdown deadline is the default of 3."""


class Program:
    """A Python program in a process of its own; ``line()`` reads what it prints."""

    def __init__(self, tmp_path: Path, receiver: Receiver, code: str, *arguments: str, **environ: str) -> None:
        path = tmp_path / "program.py"
        path.write_text(textwrap.dedent(code))
        self.process = subprocess.Popen(
            [sys.executable, *(arguments or [str(path)])],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            start_new_session=True,
            env={**os.environ, **receiver.environ(), "FLEETGLASS_STDOUT": "off", "FLEETGLASS_LINGER": "30", **environ},
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def end(self, number: int = signal.SIGTERM) -> float:
        """Send ``number`` and wait; return the seconds until the process was gone."""
        started = time.monotonic()
        self.process.send_signal(number)
        self.process.wait(30)
        return time.monotonic() - started

    def errors(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.read()


@pytest.fixture
def program(tmp_path: Path, telemetry_receiver: Receiver) -> Iterator[Any]:
    """Start programs that the test's end kills."""
    made: list[Program] = []

    def start(code: str, *arguments: str, **environ: str) -> Program:
        made.append(Program(tmp_path, telemetry_receiver, code, *arguments, **environ))
        return made[-1]

    yield start
    for one in made:
        with contextlib.suppress(ProcessLookupError):  # children that outlived it hold its pipes
            os.killpg(one.process.pid, signal.SIGKILL)
        one.process.communicate(timeout=30)


LOOP = """
    import logging, time, telemetry
    from prometheus_client import Counter
    done = Counter("jobs_done", "Jobs")
    telemetry.setup(service="loop", instance="i-1")
    log = logging.getLogger("loop")
    print("ready", flush=True)
    n = 0
    while True:
        with telemetry.span("step", n=n):
            log.info("step %d", n)
            done.inc()
        n += 1
        print(n, flush=True)
        time.sleep(0.01)
"""


def test_sigterm_loses_the_tail_of_a_plain_script_no_more(program: Any, telemetry_receiver: Receiver) -> None:
    """otel-python #4813, #946; dd-trace-py #8252."""
    running = program(LOOP)
    assert running.line() == "ready"
    while running.line() != "30":
        pass
    assert running.end() < LIMIT
    assert running.process.returncode == -signal.SIGTERM, "the default of the signal still ends it"
    printed = [line for line in running.process.stdout.read().split() if line]
    last = int(printed[-1]) if printed else 30
    messages = [line.line for line in telemetry_receiver.lines]
    spans = [span.attributes["n"] for span in telemetry_receiver.spans]
    assert len(messages) in (last, last + 1), "the last line may have been logged and not printed"
    assert len(spans) in (last, last + 1)
    done = [sample.value for sample in telemetry_receiver.samples if sample.name == "jobs_done_total"]
    assert last <= max(done) <= last + 1
    assert running.errors() == ""


def test_the_ledger_of_a_script_ended_by_sigterm_is_exact(program: Any, telemetry_receiver: Receiver) -> None:
    running = program(LOOP)
    running.line()
    time.sleep(0.5)
    running.end()
    steps = sorted(span.attributes["n"] for span in telemetry_receiver.spans)
    assert steps == list(range(len(steps))), "none twice, none missing"


@pytest.mark.parametrize("fault", [Refuse(), Blackhole(), Status(503)], ids=lambda fault: type(fault).__name__)
def test_a_dead_backend_holds_a_script_no_longer_than_the_deadline(
    program: Any, telemetry_receiver: Receiver, fault: Any
) -> None:
    telemetry_receiver.behave(fault)

    def end() -> float:
        running = program(LOOP)
        running.line()
        time.sleep(0.3)
        took: float = running.end()
        said = running.errors()
        for signal_, sink in (("traces", "otlp"), ("logs", "loki"), ("metrics", "victoriametrics")):
            assert f"{signal_} to {sink}: " in said
        assert "records lost (deadline " in said
        return took

    assert fastest(end, LIMIT) < LIMIT


def test_an_exit_by_sys_exit_an_exception_or_the_end_delivers(program: Any, telemetry_receiver: Receiver) -> None:
    for end, code in (("pass", 0), ("sys.exit(3)", 3), ("raise SystemExit(4)", 4), ("1/0", 1)):
        running = program(
            f"""
            import logging, sys, telemetry
            telemetry.setup(service="x")
            logging.getLogger("x").warning("last words")
            {end}
            """
        )
        assert running.process.wait(30) == code
    telemetry_receiver.wait_for(lambda r: sum("last words" in line.line for line in r.lines) == 4)


def test_a_collector_that_hangs_does_not_hold_the_exit(program: Any, telemetry_receiver: Receiver) -> None:
    """Python 3.12 starts no thread from atexit: the last push then ran, and hung, in the main thread."""
    running = program(
        """
        import logging, threading, telemetry
        from prometheus_client import REGISTRY

        class Hung:
            def describe(self):
                return []

            def collect(self):
                threading.Event().wait()

        REGISTRY.register(Hung())
        telemetry.setup(service="x", shutdown_timeout=1)
        logging.getLogger("x").warning("last words")
        """
    )
    started = time.monotonic()
    running.process.wait(30)
    assert time.monotonic() - started < 20
    assert [line.line.rpartition("msg=")[2] for line in telemetry_receiver.lines] == ['"last words"']


def test_a_handler_of_the_applications_own_is_called_and_ends_in_its_own_way(
    program: Any, telemetry_receiver: Receiver
) -> None:
    running = program(
        """
        import logging, signal, sys, threading, telemetry
        log = logging.getLogger("worker")
        stop = threading.Event()
        def on_term(*_):
            log.warning("draining")
            stop.set()
        signal.signal(signal.SIGTERM, on_term)
        telemetry.setup(service="worker")
        print("ready", flush=True)
        stop.wait()
        log.warning("drained")
        sys.exit(7)
        """
    )
    running.line()
    assert running.end() < LIMIT
    assert running.process.returncode == 7
    said = " ".join(line.line for line in telemetry_receiver.lines)
    assert "msg=draining" in said
    assert "msg=drained" in said


def test_a_second_sigterm_ends_the_process_at_once(program: Any, telemetry_receiver: Receiver) -> None:
    telemetry_receiver.behave(Blackhole())
    running = program(LOOP, FLEETGLASS_SHUTDOWN_TIMEOUT="50")
    running.line()
    time.sleep(0.2)
    running.process.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    assert running.process.poll() is None
    assert running.end() < 20


def test_switched_off_the_signal_keeps_its_default(program: Any, telemetry_receiver: Receiver) -> None:
    running = program(LOOP, FLEETGLASS_SIGTERM="0")
    running.line()
    running.line()
    assert running.end() < LIMIT
    assert telemetry_receiver.lines == []


FORKING = """
    import logging, os, signal, sys, time, telemetry
    telemetry.setup(service="prefork")
    log = logging.getLogger("prefork")
    log.info("parent starts")
    children = []
    for n in range(2):
        pid = os.fork()
        if pid == 0:
            with telemetry.span("child", n=n):
                log.info("child %d works", n)
            os.write(1, b"child\\n")  # whole, also unbuffered
            while True:
                time.sleep(0.01)
        children.append(pid)
    def on_term(*_):
        for pid in children:
            os.kill(pid, signal.SIGTERM)
    signal.signal(signal.SIGTERM, on_term)
    os.write(1, b"parent\\n")
    for pid in children:
        os.waitpid(pid, 0)
    log.info("parent ends")
"""


def test_a_prefork_server_and_its_children_deliver_each_their_own(program: Any, telemetry_receiver: Receiver) -> None:
    running = program(FORKING)
    assert sorted(running.line() for _ in range(3)) == ["child", "child", "parent"]
    time.sleep(0.1)
    assert running.end() < 2 * LIMIT
    messages = sorted(line.line.split("msg=")[1].split(" trace_id")[0] for line in telemetry_receiver.lines)
    assert messages == ['"child 0 works"', '"child 1 works"', '"parent ends"', '"parent starts"']
    assert len({span.resource["service.instance.id"] for span in telemetry_receiver.spans}) == 2


def test_gunicorn_with_preload_delivers_from_its_workers(program: Any, telemetry_receiver: Receiver) -> None:
    """logfire #779: gunicorn --preload; the exporter's thread stayed in the parent."""
    running = program(
        """
        import logging, telemetry
        telemetry.setup(service="wsgi")
        log = logging.getLogger("wsgi.app")
        def app(environ, start_response):
            with telemetry.span("request"):
                log.info("served")
            start_response("200 OK", [("Content-Length", "2")])
            return [b"ok"]
        """,
        "-m", "gunicorn", "--preload", "--workers", "2", "--bind", "127.0.0.1:0", "program:app",
    )  # fmt: skip
    address = _listening(running.process.pid)
    for _ in range(4):
        assert request("GET", f"http://{address}/").ok().body == b"ok"
    assert running.process.poll() is None
    running.end()
    served = [line for line in telemetry_receiver.lines if "msg=served" in line.line]
    assert len(served) == 4
    assert len([span for span in telemetry_receiver.spans if span.name == "request"]) == 4


def _listening(pid: int) -> str:
    """The loopback address on which the process listens, as soon as it does."""
    import psutil

    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        for found in psutil.Process(pid).net_connections(kind="tcp4"):
            if found.status == psutil.CONN_LISTEN:
                return f"{found.laddr.ip}:{found.laddr.port}"
        time.sleep(0.05)
    raise AssertionError("the server does not listen")


def test_a_child_of_multiprocessing_that_sets_up_itself_delivers(program: Any, telemetry_receiver: Receiver) -> None:
    """A spawned child leaves by os._exit as well, after its finalizers: so do granian's workers."""
    running = program(
        """
        import logging, multiprocessing, telemetry
        def work():
            telemetry.setup(service="spawned")
            with telemetry.span("task"):
                logging.getLogger("spawned").info("done")
        if __name__ == "__main__":
            child = multiprocessing.get_context("spawn").Process(target=work)
            child.start()
            child.join()
        """
    )
    assert running.process.wait(30) == 0
    assert len(telemetry_receiver.spans) == len(telemetry_receiver.lines) == 1


def test_a_worker_pool_of_multiprocessing_delivers(program: Any, telemetry_receiver: Receiver) -> None:
    running = program(
        """
        import logging, multiprocessing, telemetry
        def work(n):
            with telemetry.span("task", n=n):
                logging.getLogger("pool").info("task %d", n)
        if __name__ == "__main__":
            telemetry.setup(service="pool")
            context = multiprocessing.get_context("fork")
            pool = context.Pool(2)
            pool.map(work, range(20))
            pool.close()
            pool.join()
        """
    )
    assert running.process.wait(30) == 0
    assert sorted(span.attributes["n"] for span in telemetry_receiver.spans) == list(range(20))
    assert len(telemetry_receiver.lines) == 20


@pytest.mark.parametrize("fault", [Refuse(), Blackhole(), Status(503)], ids=lambda fault: type(fault).__name__)
def test_a_prefork_server_with_a_dead_backend_is_gone_within_one_deadline(
    program: Any, telemetry_receiver: Receiver, fault: Any
) -> None:
    """The parent ends after its children, and does not wait anew for what they have waited for in vain.

    Three interpreters end one after the other, which takes a tenth of a second or, on a busy machine, as long as it
    likes: that is measured with a backend that answers, and taken off.
    """

    def end() -> tuple[float, str]:
        running = program(FORKING)
        assert sorted(running.line() for _ in range(3)) == ["child", "child", "parent"]
        time.sleep(0.2)
        return running.end(), running.errors()

    def longer() -> float:
        telemetry_receiver.recover()
        alive, said = end()
        assert said == ""
        telemetry_receiver.behave(fault)
        dead, said = end()
        for lost in (
            "traces to otlp: 1 of 1 records lost (deadline 1)",
            "logs to loki: 1 of 1 records lost (deadline 1)",
        ):
            assert said.count(lost) == 2, "each child's span and line"
        assert said.count("logs to loki: 2 of 2 records lost (deadline 2)") == 1, "the parent's first and last"
        return dead - alive

    assert fastest(longer, 3.15) < 3.15
