"""Every logfmt line that our tests emit, hostile ones included, is read by a real Loki without an error."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from tests import loki_grammar
from tests.backends.process import eventually
from tests.backends.stack import Loki

ROOT = Path(__file__).parents[2]
EMITTERS = ("tests/unit/test_log_lines.py", "tests/unit/test_logs.py", "tests/unit/test_ingest_line.py")


@pytest.mark.stack
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_no_line_that_the_tests_emit_is_an_error_to_a_strict_logfmt(loki: Loki, tmp_path: Path) -> None:
    path = tmp_path / "lines"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.line_recorder", "--lines-to", str(path), *EMITTERS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(lines) > 500, "hypothesis alone makes some hundred"

    run = uuid.uuid4().hex[:8]
    now = time.time_ns()
    for start in range(0, len(lines), 200):
        part = lines[start : start + 200]
        loki.push({"service_name": f"lines-{run}"}, [[str(now + start + i), line] for i, line in enumerate(part)])
    stream = f'{{service_name="lines-{run}"}}'
    eventually(lambda: len(loki.query(stream)) == len(lines))

    broken = loki.query(f'{stream} | logfmt --strict | __error__!=""')
    assert [entry.line for entry in broken] == []
    stored = {entry.time - now: entry for entry in loki.query(f"{stream} | logfmt --strict")}
    for number, line in enumerate(lines):
        entry = stored[number]
        ours = {key: value for key, value in loki_grammar.logfmt(line, strict=True).items() if value}
        theirs = {key: value for key, value in entry.parsed.items() if value}
        assert {key.removesuffix("_extracted"): value for key, value in theirs.items()} == ours, line
        assert entry.metadata["detected_level"] == loki_grammar.detected_level(line), line
