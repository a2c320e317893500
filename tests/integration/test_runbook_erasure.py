"""Erasure by email, as the runbook says it: the query of its command, on a real Loki that may delete."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from ingest.errors.line import ready_line
from ingest.errors.report import Report
from ingest.principal import Principal
from tests.backends import programs
from tests.backends.process import eventually, request
from tests.backends.stack import Loki

RUNBOOK = Path(__file__).parents[2] / "docs" / "runbooks" / "frontend-errors.md"
SERVICE = {"service_name": "fleetglass-ingest"}
# What the runbook asks for, in seconds instead of hours.
DELETING = """\
compactor:
  working_directory: {folder}/data/compactor
  retention_enabled: true
  delete_request_store: filesystem
  delete_request_cancel_period: 5s
  compaction_interval: 10s
  retention_delete_delay: 1s
ingester: {{chunk_idle_period: 2s, flush_check_period: 2s}}
"""


@pytest.fixture
def loki(tmp_path: Path) -> Iterator[Loki]:
    if programs.find("loki") is None:
        pytest.skip(programs.missing("loki"))
    server = Loki.start(tmp_path, DELETING)
    yield server
    server.stop()


def delete(loki: Loki, query: str, end: float) -> int:
    asked = urlencode({"query": query, "start": str(int(end) - 3600), "end": str(int(end))})
    return request("POST", f"{loki.url}/loki/api/v1/delete?{asked}").status


@pytest.mark.stack
@pytest.mark.slow
@pytest.mark.timeout(200)
def test_the_lines_of_one_person_go_and_no_others(loki: Loki):
    query = re.search(r"--data-urlencode 'query=(.*?)'", RUNBOOK.read_text())[1]
    assert "mina@acme.example" in query
    people = ("mina@acme.example", "mina@acme.example.evil", "jun@acme.example")
    texts = ("broken", 'told of email="mina@acme.example" by the page')
    now = time.time()
    lines = [
        ready_line(Report(kind="error", message=text), Principal(email, "acme"), now, "other").line
        for email in people
        for text in texts
    ]
    loki.push(SERVICE, [[str(int((now - 60) * 1e9) + n), line] for n, line in enumerate(lines)])

    assert delete(loki, query, now + 3600) == 400  # an end in the future
    assert delete(loki, query, now) == 204

    def processed() -> bool:
        (asked,) = request("GET", f"{loki.url}/loki/api/v1/delete").ok().json()
        return (asked["query"], asked["status"]) == (query, "processed")

    # Only then the first query: Loki keeps what it knows of deletions for minutes.
    assert eventually(processed, timeout=100, interval=1)
    left = [entry.parsed["email"] for entry in loki.query('{service_name="fleetglass-ingest"} | logfmt')]
    assert left == [people[1]] * 2 + [people[2]] * 2
