"""Every query of the *Frontend errors* dashboard, on real servers, over what the real ingest application made."""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from litestar.testing import TestClient

from ingest.app import create_app
from ingest.errors.route import PATH
from ingest.faro.route import PATH as FARO
from ingest.principal import Principal
from ingest.settings import Settings
from telemetry.grafana.alerts.frontend import ALERTS
from telemetry.grafana.queries.frontend import CANARIES, LOGQL, QUERIES
from telemetry.grafana.records import Query
from telemetry.metrics.registry import REGISTRY
from tests.backends.process import ServerError, eventually
from tests.backends.servers import Sample, VictoriaMetrics
from tests.backends.stack import Loki

BY_NAME = {query.name: query for query in QUERIES}
PEOPLE = {
    "mina": Principal("mina@acme.example", "acme"),
    "jun": Principal("jun@acme.example", "acme"),
    "ceo": Principal("ceo@other.example", "other"),
}
SECOND = 1_000_000_000


def each(queries):
    return pytest.mark.parametrize("query", queries, ids=lambda query: query.name)


def send(client: Any, who: str, message: str, **more: Any) -> None:
    body = {"kind": "error", "message": message, "url": "/jobs", **more}
    assert client.post(PATH, content=json.dumps(body), headers={"Authorization": f"Bearer {who}"}).status_code == 204


class Made(logging.Handler):
    """The application's lines, as they come."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[Any] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.ready_line)  # type: ignore[attr-defined]


@dataclass
class Day:
    """Lines of the day before, and of the last minutes."""

    before: list[Any]
    now: list[Any]

    def fp(self, message: str) -> str:
        return next(line.fields["fp"] for line in self.now if line.fields["message"] == message)


@pytest.fixture(scope="module")
def day() -> Day:
    """Two lives of the service: repeats are told at the end of each."""
    made: list[list[Any]] = []
    logger = logging.getLogger("frontend")
    for sends in (_yesterday, _today):
        keeper = Made()
        logger.addHandler(keeper)
        logger.setLevel(logging.ERROR)
        try:
            with TestClient(create_app(Settings(tokens=PEOPLE, limit_rate=0, limit_fingerprints=0))) as client:
                sends(client)
        finally:
            logger.removeHandler(keeper)
        made.append(keeper.lines)
    return Day(*made)


def _yesterday(client: Any) -> None:
    send(client, "mina", "known for long")


def _today(client: Any) -> None:
    for _ in range(7):
        send(client, "mina", "known for long")
    for who in ("mina", "jun", "ceo"):
        send(client, who, "new since the release", repeat=50)
    send(client, "jun", 'forged" email="ceo@other.example" fp="0" level="info\nline=2', kind="react")
    send(client, "jun", "frontend-error \ud83d \x1b[31m", kind="unhandledrejection", stack="\x01" * 2000)
    batch = {"exceptions": [{"type": "TypeError", "value": "x"}]}
    assert client.post(FARO, json=batch, headers={"Authorization": "Bearer ceo"}).status_code == 202


@dataclass
class Stored:
    """The day in Loki, under a service of its own."""

    loki: Loki
    values: Mapping[str, str]
    day: Day

    def ask(self, query: Query, **values: str) -> list[dict[str, Any]]:
        """Labels and value of each series, or the fields of each line."""
        expression = query.filled({**self.values, **values})
        if query.shape == "lines":
            found = self.loki.query(expression, since=2 * 86400)
            return [{**entry.metadata, **entry.parsed, "line": entry.line} for entry in found]
        return [{**sample.labels, "value": sample.value} for sample in self.loki.metric(expression)]


@pytest.fixture(scope="module")
def stored(loki: Loki, day: Day) -> Stored:
    service, now = f"frontend-{uuid.uuid4().hex[:8]}", time.time_ns()
    labels = {"service_name": service}
    # Loki looks for lines of the last three hours only where it has those that are not in its store yet.
    loki.push(labels, [[str(now - 2 * 3600 * SECOND + n), line.line] for n, line in enumerate(day.before)])
    others = [
        'ts=x level=info logger=access msg="GET unmatched 404" method=GET path=/frontend-error status=404',
        'ts=x level=info logger=frontend frontend-source fp="0f9690f917cfa397" stack="at f (frontend-error.ts:1:2)"',
    ]
    lines = [*(line.line for line in day.now), *others]
    loki.push(labels, [[str(now - 60 * SECOND + n), line] for n, line in enumerate(lines)])
    count = f'sum(count_over_time({{service_name="{service}"}} [1h]))'
    assert eventually(lambda: [s.value for s in loki.metric(count)] == [float(len(lines))], timeout=30)
    values = {
        "service": service,
        "workspace": "acme",
        "fp": day.fp("new since the release"),
        "email": "jun@acme.example",
        "__auto": "10m",
        "__range": "1h",
    }
    return Stored(loki, values, day)


def by(rows: list[dict[str, Any]], label: str) -> dict[str, float]:
    return {row[label]: row["value"] for row in rows}


@pytest.mark.stack
@pytest.mark.timeout(180)
class TestLoki:
    @each(LOGQL)
    def test_it_runs_without_an_error_and_finds_something_unless_it_is_a_canary(self, stored: Stored, query: Query):
        rows = stored.ask(query)
        assert bool(rows) != query.stays_empty, rows
        assert not any(name.startswith("__error") for row in rows for name in row)

    @each(CANARIES)
    def test_a_canary_sings(self, stored: Stored, query: Query):
        broken = {
            "unreadable": 'level=error logger=frontend frontend-error email="a" kind="error" message="x" y"',
            "wrong_level": 'detected_level=info level=error logger=frontend frontend-error email="a" fp="other"',
            "unbound": 'level=error logger=frontend frontend-error email="" fp="other"',
            "unfingerprinted": 'level=error logger=frontend frontend-error email="a" fp="mine"',
        }
        service = f"canary-{uuid.uuid4().hex[:8]}"
        entry: list[Any] = [str(time.time_ns()), broken[query.name]]
        if query.name == "wrong_level":
            entry.append({"detected_level": "info"})
        stored.loki.push({"service_name": service}, [entry])
        assert eventually(lambda: stored.ask(query, service=service), timeout=10)

    def test_lines_and_occurrences(self, stored: Stored):
        lines = by(stored.ask(BY_NAME["lines_by_kind"]), "kind")
        assert lines == {"error": 6.0, "react": 1.0, "unhandledrejection": 1.0}
        occurrences = by(stored.ask(BY_NAME["occurrences_by_kind"]), "kind")
        assert occurrences == {"error": 7.0 + 3 * 50 + 1, "react": 1.0, "unhandledrejection": 1.0}

    def test_the_most_frequent_of_a_workspace(self, stored: Stored):
        rows = stored.ask(BY_NAME["top"])
        fp = stored.day.fp
        counts = by(rows, "fp")
        assert counts[fp("new since the release")] == 100.0
        assert counts[fp("known for long")] == 7.0
        assert len(counts) == 4
        others = by(stored.ask(BY_NAME["top"], workspace="other"), "fp")
        assert others == {fp("new since the release"): 50.0, fp("TypeError: x"): 1.0}

    def test_what_is_new_was_not_there_the_day_before(self, stored: Stored):
        counts = by(stored.ask(BY_NAME["top_new"]), "fp")
        assert stored.day.fp("known for long") not in counts
        assert counts[stored.day.fp("new since the release")] == 100.0
        assert len(counts) == 3

    def test_people(self, stored: Stored):
        assert [row["value"] for row in stored.ask(BY_NAME["users_hit"])] == [3.0]
        most = by(stored.ask(BY_NAME["most_hit"]), "email")
        assert most == {"mina@acme.example": 57.0, "jun@acme.example": 52.0}
        mine = stored.ask(BY_NAME["of_user"])
        assert len(mine) == 3
        assert {row["email"] for row in mine} == {"jun@acme.example"}

    def test_lines_to_read(self, stored: Stored):
        assert len(stored.ask(BY_NAME["latest"], workspace=".+")) == 9
        assert len(stored.ask(BY_NAME["of_workspace"])) == 7
        assert len(stored.ask(BY_NAME["of_fingerprint"])) == 3
        (forged,) = [row for row in stored.ask(BY_NAME["latest"]) if row["kind"] == "react"]
        assert forged["line"].startswith('react jun@acme.example /jobs x1 forged" email=')

    def test_a_spike_is_found_among_more_fingerprints_than_loki_counts_at_once(self, stored: Stored):
        """One caller with 501 fingerprints silences an alert that groups by fp."""

        def firing(service: str) -> list[tuple[str, float]]:
            condition = ALERTS[0].condition.replace("${service}", service)
            return [(sample.labels["fp"], sample.value) for sample in stored.loki.metric(condition)]

        assert firing(stored.values["service"]) == [(stored.day.fp("new since the release"), 150.0)]
        service, now = f"spike-{uuid.uuid4().hex[:8]}", time.time_ns()
        line = next(line for line in stored.day.now if line.fields["message"] == "new since the release")
        fps = [f"{n * 0x9E3779B97F4A7C15 % 2**64:016x}" for n in range(1, 2001)]
        often = [line.line.replace(str(line.fields["fp"]), fp) for fp in fps]
        lines = [each.replace("repeat=50", "repeat=1") for each in often] + [often[0]] * 3
        stored.loki.push({"service_name": service}, [[str(now + n), each] for n, each in enumerate(lines)])
        assert eventually(lambda: firing(service), timeout=20) == [(fps[0], 151.0)]
        naive = f'sum by (fp) (count_over_time({{service_name="{service}"}} | logfmt | keep fp [5m]))'
        with pytest.raises(ServerError, match="500"):
            stored.loki.metric(naive)


# Values of the counters at some minutes before now. The names and labels are those of the real exposition.
def frontend_samples() -> dict[str, float]:
    return {
        f"{sample.name}{{{','.join(f'{k}={json.dumps(v)}' for k, v in sample.labels.items())}}}": sample.value
        for family in REGISTRY.collect()
        for sample in family.samples
        if sample.name.startswith("frontend_") and not sample.name.endswith("_created")
    }


@dataclass
class Counted:
    store: VictoriaMetrics
    job: str

    def push(self, samples: Mapping[str, float], minutes: float) -> None:
        at = int((time.time() - 60 * minutes) * 1000)
        lines = [f'{name[:-1]},job="{self.job}",instance="a:1"}} {value} {at}' for name, value in samples.items()]
        self.store.push("\n".join(lines).replace("{,", "{") + "\n")

    def ask(self, expression: str) -> list[Sample]:
        mine = expression.replace("frontend_errors_total[", f'frontend_errors_total{{job="{self.job}"}}[')
        return [s for s in self.store.query(mine, at=time.time()) if s.labels.get("job", self.job) == self.job]


@pytest.fixture(scope="module")
def counted(victoria_metrics: VictoriaMetrics) -> Counted:
    """The exposition before and after the application took, dropped and refused reports."""
    counted = Counted(victoria_metrics, f"frontend-{uuid.uuid4().hex[:8]}")
    with TestClient(create_app(Settings(tokens=PEOPLE, limit_rate=0.001, limit_burst=40))) as client:
        send(client, "mina", "warm")  # so that every counter is there before
        _mixed(client)
        before = frontend_samples()
        for _ in range(6):
            _mixed(client)
        after = frontend_samples()
    # Pushed as a scraper would have seen them: nothing for an hour, then all of it within three minutes.
    for minutes in range(70, 3, -1):
        counted.push(before, minutes)
    for minutes in (3, 2, 1, 0):
        counted.push(after, minutes)
    return counted


def _mixed(client: Any) -> None:
    send(client, "mina", "often", repeat=30)
    send(client, "mina", "ResizeObserver loop limit exceeded")
    assert client.post(PATH, content=b"[", headers={"Authorization": "Bearer mina"}).status_code == 400
    assert client.post(PATH, content=b"{}").status_code == 401
    logs = {"logs": [{"message": "m"}]}
    assert client.post(FARO, json=logs, headers={"Authorization": "Bearer mina"}).status_code == 202


class TestVictoriaMetrics:
    @pytest.mark.parametrize(("name", "value"), [("errors_now", 6 * 30), ("refused_now", 12)])
    def test_what_happened_in_the_time_shown(self, counted: Counted, name: str, value: float):
        (found,) = counted.ask(BY_NAME[name].filled({"job": counted.job, "instance": ".+", "__range": "10m"}))
        assert found.value == pytest.approx(value)

    def test_the_spikes_twin_fires(self, counted: Counted):
        (found,) = counted.ask(ALERTS[1].condition)
        assert (found.labels["kind"], found.value) == ("error", pytest.approx(180))

    def test_a_load_that_is_usual_is_no_spike(self, counted: Counted):
        usual = Counted(counted.store, f"usual-{uuid.uuid4().hex[:8]}")
        for minutes in range(80, -1, -1):
            usual.push({'frontend_errors_total{kind="error"}': 50.0 * (80 - minutes)}, minutes)
        assert usual.ask("sum(increase(frontend_errors_total[5m]))")[0].value > 200
        assert usual.ask(ALERTS[1].condition) == []

    def test_an_ingest_that_refuses_is_told_by_reason(self, counted: Counted):
        found = counted.ask(ALERTS[2].condition)
        shares = {sample.labels["result"]: sample.value for sample in found}
        assert shares == {"malformed": pytest.approx(0.25), "unauthorized": pytest.approx(0.25)}

    def test_a_few_reports_say_nothing(self, counted: Counted):
        few = Counted(counted.store, f"few-{uuid.uuid4().hex[:8]}")
        for minutes, value in ((5, 0), (0, 15)):
            few.push({'frontend_reports_total{result="malformed"}': value}, minutes)
        assert few.ask(ALERTS[2].condition) == []
