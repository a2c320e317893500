"""Ten thousand lines made of hostile reports, pushed to a real Loki: none is an error to it, all are errors of ours."""

from __future__ import annotations

import random
import time
import uuid

import pytest

from ingest.errors.fingerprint import fingerprint
from ingest.errors.line import ready_line
from ingest.errors.report import Unreadable, read
from tests.backends.process import eventually
from tests.backends.stack import Loki
from tests.fuzz.bodies import body
from tests.fuzz.judge import CALLER, CORPUS

LINES = 10_000
SEED = 20261130
_BATCH = 500  # some 1 MB, and few enough streams for Loki's limits
_PAGE = 1000


def hostile_lines() -> dict[str, dict[str, str]]:
    """Lines, each with what is stored in it; no two alike."""
    rng = random.Random(SEED)
    bodies = [path.read_bytes() for path in sorted(CORPUS.iterdir())]
    made: dict[str, dict[str, str]] = {}
    while len(made) < LINES:
        try:
            report = read(bodies.pop() if bodies else body(rng))
        except Unreadable:
            continue
        fp = fingerprint(report.kind, report.message, report.stack)
        ready = ready_line(report, CALLER, time.time() + len(made) / 1000, fp)
        made[ready.line] = {name: str(value) for name, value in ready.fields.items() if name != "msg"}
    return made


@pytest.mark.stack
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_ten_thousand_hostile_lines_are_read_back_by_a_strict_loki(loki: Loki) -> None:
    stored = hostile_lines()
    lines = list(stored)
    service = f"hostile-{uuid.uuid4().hex[:8]}"
    now = time.time_ns() - LINES
    for start in range(0, LINES, _BATCH):
        part = lines[start : start + _BATCH]
        loki.push({"service_name": service}, [[str(now + start + i), line] for i, line in enumerate(part)])
        time.sleep(0.3)  # 4 MB a second are what Loki takes of a tenant
    stream = f'{{service_name="{service}"}} |= "frontend-error"'
    count = f"sum(count_over_time({stream} [1h]))"
    eventually(lambda: [sample.value for sample in loki.metric(count)] == [float(LINES)], timeout=60)

    assert loki.query(f'{stream} | logfmt --strict | __error__!=""') == []
    assert loki.query(f'{stream} | detected_level!="error"') == []
    frontend = f'{stream} | logfmt --strict | logger="frontend" | detected_level="error"'
    assert [sample.value for sample in loki.metric(f"sum(count_over_time({frontend} [1h]))")] == [float(LINES)]
    occurrences = f"sum(sum_over_time({frontend} | keep repeat | unwrap repeat [1h]))"
    assert [s.value for s in loki.metric(occurrences)] == [float(sum(int(f["repeat"]) for f in stored.values()))]

    read_back = 0
    for start in range(0, LINES, _PAGE):
        entries = loki.query(f"{stream} | logfmt --strict", start=now + start, end=now + start + _PAGE, limit=_PAGE)
        for entry in entries:
            expected = {name: value for name, value in stored[entry.line].items() if value}
            assert {name: value for name, value in entry.parsed.items() if value} == expected, entry.line
            assert entry.metadata["detected_level"] == "error"
        read_back += len(entries)
    assert read_back == LINES
