"""One trace shows a job from its enqueueing through its wait to its run, across processes, and its lines are in it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.backends import programs
from tests.backends.process import eventually
from tests.backends.stack import Loki, Tempo
from tests.postgres.working import ROOT, rows, worker

pytestmark = pytest.mark.timeout(240)


def enqueued(url: str, tag: str, environ: Mapping[str, str]) -> str:
    """Have another process enqueue a job; the id of its trace."""
    program = str(Path(__file__).with_name("enqueue_program.py"))
    done = subprocess.run(
        [sys.executable, program, url, tag],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "FLEETGLASS_METRICS_LISTEN": "off",
            "FLEETGLASS_STDOUT": "off",
            **environ,
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def ran(queue: str, folder: Path, environ: Mapping[str, str]) -> None:
    """Have a worker run what is there, and end."""
    with worker("threads", queue, folder, environ=environ) as program:
        assert eventually(lambda: rows(queue, "SELECT * FROM job_completed"), timeout=60), program.said
        program.end()
        assert program.code() == 0, program.said


def test_a_job_is_one_trace_across_two_processes(queue, tmp_path, telemetry_receiver):
    environ = telemetry_receiver.environ()
    trace_id = enqueued(queue, "quick", environ)
    ran(queue, tmp_path, environ)
    spans = {span.name: span for span in telemetry_receiver.traces()[trace_id]}
    assert set(spans) == {"POST /jobs", "send quick", "wait quick", "process quick"}
    send, wait, run = spans["send quick"], spans["wait quick"], spans["process quick"]
    assert wait.parent_id == run.parent_id == send.span_id
    assert send.resource["service.name"] == "api"
    assert run.resource["service.name"] == "executor"
    # What went before is over when the next begins; both ends of the wait are told by the database's clock.
    assert wait.end_ns <= run.start_ns
    lines = [line for line in telemetry_receiver.lines if line.trace_id == trace_id or trace_id in line.line]
    (line,) = [line for line in lines if line.fields.get("msg") == "running quick"]
    assert (line.fields["tag"], line.fields["group"]) == ("quick", "g")


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[tuple[Loki, Tempo]]:
    """Loki and Tempo as Grafana has them."""
    for name in ("loki", "tempo"):
        if programs.find(name) is None:
            pytest.skip(programs.missing(name))
    folders = tmp_path / "loki", tmp_path / "tempo"
    for folder in folders:
        folder.mkdir()
    loki = Loki.start(folders[0])
    try:
        tempo = Tempo.start(folders[1])
        try:
            yield loki, tempo
        finally:
            tempo.stop()
    finally:
        loki.stop()


@pytest.mark.stack
@pytest.mark.slow
def test_tempo_shows_the_job_from_enqueueing_to_its_run_and_loki_its_lines_by_the_trace_id(queue, tmp_path, stack):
    loki, tempo = stack
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": tempo.http_endpoint, "FLEETGLASS_LOKI_URL": loki.push_url}
    trace_id = enqueued(queue, "quick", environ)
    rows(queue, "UPDATE job_queue SET scheduled_for = scheduled_for - interval '5 s'")
    ran(queue, tmp_path / "worker", environ)
    (done,) = rows(queue, "SELECT job_id, extract(epoch FROM started_at - scheduled_for) AS waited FROM job_completed")
    assert eventually(lambda: len(tempo.trace(trace_id)) == 4, timeout=60)
    spans = {span.name: span for span in tempo.trace(trace_id)}
    assert set(spans) == {"POST /jobs", "send quick", "wait quick", "process quick"}
    assert spans["process quick"].parent_id == spans["wait quick"].parent_id == spans["send quick"].span_id
    services = [spans[name].resource["service.name"] for name in ("send quick", "wait quick", "process quick")]
    assert services == ["api", "executor", "executor"]
    # How long it waited, as the database has it.
    wait = spans["wait quick"]
    assert abs((wait.end - wait.start) / 1e9 - float(done["waited"])) < 0.01
    # What the button "Logs for this span" asks for.
    logql = f'{{service_name="executor"}} | trace_id = "{trace_id}"'
    assert eventually(lambda: [e for e in loki.query(logql) if 'msg="running quick"' in e.line], timeout=60)
    # By tag, by job id, and by how long it waited; a search leaves out the last half minute.
    for traceql in (
        '{ span.messaging.destination.name = "quick" && kind = consumer }',
        f'{{ span.messaging.message.id = "{done["job_id"]}" }}',
        '{ name = "wait quick" && duration > 4s }',
        f'{{ span.messaging.message.id = "{done["job_id"]}" && span.job.outcome = "success" }}',
    ):
        found = eventually(lambda asked=traceql: tempo.search(asked), timeout=120, interval=1.0)
        assert [int(each, 16) for each in found] == [int(trace_id, 16)], traceql
    assert tempo.search('{ name = "wait quick" && duration > 1h }') == []
