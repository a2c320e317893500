"""Multiprocess mode with real processes, kill -9 and pids that come again.

Symptoms: totals that fall when a worker is respawned, gauges of the dead that stay, one cut file that makes
every scrape fail, a directory that grows with each respawn.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.mmap_dict import MmapedDict, mmap_key
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from telemetry.testing import Receiver
from tests.backends.process import eventually

APP = Path(__file__).parent / "apps" / "metrics_worker.py"
ERRORS = ("frontend_errors_total", {"kind": "error"})
ACTIVE = ("http_server_active_requests", {"http_request_method": "GET"})


class Worker:
    """A process that does what it is told."""

    def __init__(self, folder: Path, environment: dict[str, str] | None = None) -> None:
        given = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(folder), **(environment or {})}
        self._log = folder.parent / f"worker-{time.time_ns()}.log"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-u", str(APP)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=given,
                text=True,
                cwd=APP.parents[3],
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def said(self) -> str:
        return self._log.read_text(encoding="utf-8")

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def do(self, line: str) -> Any:
        self.tell(line)
        assert self.process.stdout is not None
        answer = self.process.stdout.readline()
        assert answer, f"the worker is gone: {self.said}"
        return json.loads(answer)

    def value(self, sample: tuple[str, dict[str, str]]) -> float | None:
        return value(self.do("scrape()"), sample)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(30)


def value(text: str, sample: tuple[str, dict[str, str]]) -> float | None:
    name, labels = sample
    found = [
        s.value
        for family in parse_text(text)
        for s in family.samples
        if s.name == name and labels.items() <= s.labels.items()
    ]
    return sum(found) if found else None


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "values"
    path.mkdir()
    return path


@pytest.fixture
def worker(folder: Path) -> Iterator[Callable[..., Worker]]:
    workers: list[Worker] = []

    def start(*, started: bool = True, environment: dict[str, str] | None = None) -> Worker:
        workers.append(Worker(folder, environment))
        if started:
            workers[-1].do("start()")
        return workers[-1]

    yield start
    for each in workers:
        each.process.kill()
        each.process.wait(30)
        for pipe in (each.process.stdin, each.process.stdout):
            if pipe is not None:
                pipe.close()


def test_a_scrape_of_any_worker_speaks_for_all(worker: Callable[..., Worker]) -> None:
    one, two = worker(), worker()
    one.do("count(2)")
    two.do("count(3)")
    one.do("active(1)")
    two.do("active(4)")
    one.do("observe(0.2)")
    two.do("observe(0.3)")
    for each in (one, two):
        assert each.value(ERRORS) == 5
        assert each.value(ACTIVE) == 5
    text = one.do("scrape('application/openmetrics-text')")
    families = {family.name: family for family in parse_openmetrics(text)}
    wait = families["http_server_request_duration_seconds"]
    assert wait.unit == "seconds"
    assert {s.value for s in wait.samples if s.name.endswith("_count")} == {2.0}
    assert {"target", "telemetry_build"} <= families.keys()
    assert one.do("faults()") == {}


def test_a_killed_workers_gauges_disappear_and_its_totals_stay(worker: Callable[..., Worker], folder: Path) -> None:
    one, two = worker(), worker()
    for each in (one, two):
        each.do("count(5)")
        each.do("active(3)")
        each.do("observe(0.2)")
    two.kill()
    assert one.value(ERRORS) == 10
    assert one.value(ACTIVE) == 3
    assert one.value(("http_server_request_duration_seconds_count", {})) == 2
    assert not list(folder.glob(f"*_{two.pid}.*"))
    one.kill()
    three = worker()
    assert three.value(ERRORS) == 10
    assert three.value(ACTIVE) is None


def test_a_directory_does_not_grow_with_respawns_and_no_count_is_lost(
    worker: Callable[..., Worker], folder: Path
) -> None:
    one = worker()
    seen = 0
    for rounds in range(1, 5):
        one.do("respawn(10)")
        assert one.value(ERRORS) == 10 * rounds
        files = len(list(folder.iterdir()))
        assert rounds == 1 or files == seen
        seen = files
    assert seen < 15
    assert one.value(("http_server_request_duration_seconds_count", {})) == 40
    assert one.value(ACTIVE) is None


def leave(folder: Path, pid: int, files: dict[str, dict[tuple[str, str, str], float]]) -> None:
    """What a dead process with ``pid`` leaves: by kind, values by family, sample and label value."""
    (folder / f"{pid}.owner").write_text("1")
    for kind, values in files.items():
        file = MmapedDict(str(folder / f"{kind}_{pid}.db"))
        for (family, sample, label), number in values.items():
            labels = {"error": "kind", "GET": "http_request_method"}
            names, given = ([labels[label]], [label]) if label else ([], [])
            file.write_value(mmap_key(family, sample, names, given, "Help."), number, 0.0)
        file.close()


OLD = {
    "counter": {("frontend_errors", "frontend_errors_total", "error"): 100.0},
    "gauge_livesum": {("http_server_active_requests", "http_server_active_requests", "GET"): 50.0},
    "gauge_max": {("peak", "peak", ""): 9.0},
}


def test_a_pid_that_comes_again_goes_on_counting_and_inherits_no_gauge(
    worker: Callable[..., Worker], folder: Path
) -> None:
    reborn = worker(started=False)
    leave(folder, reborn.pid, OLD)
    reborn.do("start()")
    reborn.do("count(1)")
    assert reborn.value(ACTIVE) is None
    reborn.do("active(2)")
    assert reborn.value(ERRORS) == 101
    assert reborn.value(ACTIVE) == 2
    assert reborn.value(("peak", {})) == 9
    reborn.kill()
    other = worker()
    assert other.value(ERRORS) == 101
    assert other.value(ACTIVE) is None
    assert other.value(("peak", {})) == 9


def test_a_pid_that_another_program_has_now_does_not_keep_the_dead_alive(
    worker: Callable[..., Worker], folder: Path
) -> None:
    one = worker()
    leave(folder, os.getpid(), OLD)  # this test process is alive, and none of the service's
    assert one.value(ACTIVE) is None
    assert one.value(ERRORS) == 100
    assert not list(folder.glob(f"*_{os.getpid()}.db"))


def test_a_worker_that_never_called_setup_is_alive_all_the_same(worker: Callable[..., Worker]) -> None:
    plain, one = worker(started=False), worker()
    plain.do("count(4)")
    plain.do("active(4)")
    assert one.value(ERRORS) == 4
    assert one.value(ACTIVE) == 4
    plain.kill()
    assert one.value(ERRORS) == 4
    assert one.value(ACTIVE) is None


def test_gauges_made_before_setup_under_a_pid_that_comes_again_are_said(
    worker: Callable[..., Worker], folder: Path
) -> None:
    reborn = worker(started=False)
    leave(folder, reborn.pid, OLD)
    reborn.do("active(1)")
    reborn.do("start()")
    assert f"a dead process that had pid {reborn.pid}" in reborn.said


def test_files_cut_by_a_kill_neither_break_the_scrape_nor_hide_the_others(
    worker: Callable[..., Worker], folder: Path
) -> None:
    one, two, three = worker(), worker(), worker()
    for each in (one, two, three):
        each.do("count(5)")
        each.do("observe(0.1)")
    two.kill()
    three.kill()
    counters = folder / f"counter_{two.pid}.db"
    counters.write_bytes(counters.read_bytes()[:60])
    (folder / f"histogram_{two.pid}.db").write_bytes(b"")
    junk = folder / f"counter_{three.pid}.db"
    data = bytearray(junk.read_bytes())
    data[8:12] = b"\xff\xff\xff\x7f"
    junk.write_bytes(bytes(data))
    (folder / "counter_0.db").write_bytes(b"\1")
    assert one.value(ERRORS) == 5
    assert one.value(("http_server_request_duration_seconds_count", {})) == 2
    assert one.do("faults()") == {"metrics.multiprocess": 3}
    assert "is damaged" in one.said
    assert one.value(ERRORS) == 5
    assert one.do("faults()") == {"metrics.multiprocess": 3}, "what was folded is not found damaged again"
    assert one.value(("telemetry_internal_faults_total", {"where": "metrics.multiprocess"})) == 3


@pytest.mark.parametrize("step", range(12))
def test_a_process_killed_while_it_folds_costs_no_count_and_makes_none(
    worker: Callable[..., Worker], step: int
) -> None:
    one = worker()
    one.do("respawn(1)")
    assert one.value(ERRORS) == 1  # there is a folded file to begin with
    one.do("respawn(2)")
    one.do(f"die_at({step})")
    one.tell("scrape()")
    with suppress(subprocess.TimeoutExpired):  # it may have fewer steps to do than this
        one.process.wait(30)
    two = worker()
    assert two.value(ERRORS) == 3
    assert two.value(("http_server_request_duration_seconds_count", {})) == 3
    assert two.value(ERRORS) == 3
    assert two.do("faults()") == {}


def test_totals_never_fall_while_workers_die_and_others_scrape(worker: Callable[..., Worker]) -> None:
    forker, one, two = worker(), worker(), worker()
    stop = threading.Event()
    seen: dict[int, list[float]] = {0: [], 1: []}

    def watch(index: int, each: Worker) -> None:
        while not stop.is_set():
            seen[index].append(each.value(ERRORS) or 0)

    threads = [threading.Thread(target=watch, args=pair) for pair in enumerate((one, two))]
    for thread in threads:
        thread.start()
    forker.do("respawn(60)")
    stop.set()
    for thread in threads:
        thread.join(30)
    for values in seen.values():
        assert values == sorted(values)
    assert one.value(ERRORS) == 60
    assert one.do("faults()") == two.do("faults()") == {}


def test_a_locked_directory_fails_the_scrape_and_not_the_worker(worker: Callable[..., Worker], folder: Path) -> None:
    one = worker()
    one.do("count(1)")
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import fcntl, sys; f = open(sys.argv[1], 'a'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); input()",
            str(folder / "fold.lock"),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert holder.stdout is not None
        holder.stdout.readline()
        one.do(
            "__import__('telemetry.metrics.valuedirectory').metrics.valuedirectory.__dict__.update(LOCK_SECONDS=0.2)"
        )
        assert one.value(ERRORS) is None
        assert one.do("faults()") == {"metrics.collect": 1}
    finally:
        holder.kill()
        holder.communicate()
    assert one.value(ERRORS) == 1


def test_the_ledgers_of_all_workers_are_added_up(worker: Callable[..., Worker]) -> None:
    with Receiver() as receiver:
        environment = {"FLEETGLASS_LOKI_URL": receiver.url, "FLEETGLASS_LINGER": "0.05"}
        one, two = worker(environment=environment), worker(environment=environment)
        for each, lines in ((one, 3), (two, 4)):
            each.do(f"[__import__('logging').getLogger('app').warning('line') for _ in range({lines})]")
            assert each.do("__import__('telemetry').active().flush(30)")
        row = {"signal": "logs", "sink": "loki"}
        # The other worker writes once a second.
        assert eventually(lambda: one.value(("telemetry_records_delivered_total", row)) == 7)
        assert one.value(("telemetry_records_emitted_total", row)) == 7
        assert one.value(("telemetry_records_pending", row)) == 0
        two.kill()
        assert one.value(("telemetry_records_delivered_total", row)) == 7


def test_one_worker_pushes_for_all_and_another_takes_over(worker: Callable[..., Worker]) -> None:
    with Receiver() as receiver:
        environment = {"FLEETGLASS_METRICS_PUSH_URL": receiver.url, "FLEETGLASS_METRICS_PUSH_INTERVAL": "1"}
        one, two = worker(environment=environment), worker(environment=environment)
        one.do("count(2)")
        two.do("count(3)")

        def errors(seen: Receiver) -> list[Any]:
            return [s for s in seen.samples if s.name == "frontend_errors_total"]

        assert receiver.wait_for(lambda seen: errors(seen) and errors(seen)[-1].value == 5, timeout=30)
        may = {
            each: each.do("__import__('telemetry.metrics.multiprocess').metrics.multiprocess.may_push()")
            for each in (one, two)
        }
        assert sorted(may.values()) == [False, True]
        leader = next(each for each, leads in may.items() if leads)
        leader.kill()
        before = len(errors(receiver))
        assert receiver.wait_for(lambda seen: len(errors(seen)) > before + 1, timeout=30)
        pushed = errors(receiver)
        assert len({s.labels["instance"] for s in pushed}) == 1
        assert [s.value for s in pushed] == sorted(s.value for s in pushed)
        assert pushed[-1].value == 5


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        cwd=APP.parents[3],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_a_directory_named_too_late_is_said_and_the_process_goes_on(folder: Path) -> None:
    done = run(
        "import prometheus_client, telemetry\n"
        f"tel = telemetry.setup(service='late', stdout='off', multiproc_dir={str(folder)!r})\n"
        "prometheus_client.Counter('mine', 'Mine.').inc()\n"
        "print(tel.metrics()[0].decode())\n"
    )
    assert done.returncode == 0, done.stderr
    assert "PROMETHEUS_MULTIPROC_DIR has to be set before prometheus_client is imported" in done.stderr
    assert "mine_total 1.0" in done.stdout


def test_a_directory_given_as_an_argument_is_made_and_used(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "there"
    done = run(
        "import telemetry\n"
        f"tel = telemetry.setup(service='early', stdout='off', multiproc_dir={str(folder)!r})\n"
        "import prometheus_client\n"
        "prometheus_client.Counter('mine', 'Mine.').inc()\n"
        "print(tel.metrics()[0].decode())\n"
    )
    assert done.returncode == 0, done.stderr
    assert "mine_total 1.0" in done.stdout
    assert "process_resident" not in done.stdout
    assert list(folder.glob("counter_*.db"))


def test_opentelemetry_instruments_are_said_not_to_work(folder: Path) -> None:
    done = run(
        "import telemetry\n"
        "tel = telemetry.setup(service='both', stdout='off')\n"
        "from opentelemetry import metrics\n"
        "for name in ('one', 'two'): metrics.get_meter(name).create_counter('things').add(1)\n"
        "print(tel.metrics()[0].decode())\n",
        PROMETHEUS_MULTIPROC_DIR=str(folder),
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("OpenTelemetry metrics are not kept in multiprocess mode") == 1
    assert "things" not in done.stdout
