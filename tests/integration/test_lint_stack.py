"""Real Loki and Tempo accept what lint can read, and refuse what it refuses."""

from __future__ import annotations

import time
from urllib.parse import urlencode

import pytest

from tests.backends.process import request
from tests.lint_cases.grammar import LOGQL, LOGQL_BAD, TRACEQL, TRACEQL_BAD

pytestmark = [pytest.mark.stack, pytest.mark.timeout(180)]


def test_loki_reads_logql_as_lint_does(loki):
    def status(text):
        return request("GET", f"{loki.url}/loki/api/v1/format_query?{urlencode({'query': text})}", timeout=30).status

    assert [text for text in LOGQL if status(text) != 200] == []
    # Megabytes of parentheses are no query that anybody writes, and too long for a URL.
    assert [text for text, _ in LOGQL_BAD if len(text) < 1000 and status(text) == 200] == []


def test_tempo_reads_traceql_as_lint_does(tempo):
    now = int(time.time())

    def status(text):
        # Queries for series have a route of their own.
        route = "metrics/query_range" if "rate()" in text or "over_time" in text else "search"
        query = urlencode({"q": text, "start": now - 600, "end": now, "step": "60s"})
        return request("GET", f"{tempo.url}/api/{route}?{query}", timeout=30).status

    assert [text for text in TRACEQL if status(text) != 200] == []
    assert [text for text, _ in TRACEQL_BAD if status(text) == 200] == []
