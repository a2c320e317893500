"""Every query of every dashboard on real servers, over what our running code and real exporters tell.

The data comes from a service of ours under load, the same service at rest, and a node_exporter, which VictoriaMetrics
scrapes; from the service where it pushes; and from what a real Alloy was recorded to tell of itself. LogQL and TraceQL
run where Loki and Tempo are on PATH. What is told of queues and fleets is in ``test_grafana_fleet``.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from telemetry.catalogue import METRICS
from telemetry.grafana.boards import BOARDS
from telemetry.grafana.queries import alloy
from telemetry.grafana.records import Dashboard, Explore, Query
from tests.backends.process import eventually, request
from tests.backends.redis import MISSING, Redis
from tests.backends.servers import Collector, NodeExporter, Sample, VictoriaLogs, VictoriaMetrics
from tests.backends.stack import Loki, Tempo
from tests.integration import estate, estate_fleet

WINDOW = {"__rate_interval": "10m", "__range": "10m", "__auto": "10m"}
HOST = "fleetglass-host"
ROOT = Path(__file__).parents[2]
EXPOSITIONS = ROOT / "tests" / "expositions"
SERVICES = [board for board in BOARDS if board not in estate_fleet.BOARDS]
# A kernel without pressure stall information has nothing to tell.
NO_PRESSURE = not Path("/proc/pressure/cpu").exists()


def cases(language: str, *, rests_at_zero: bool = False) -> list[Any]:
    """Each dashboard and query of ``language``, once a dashboard."""
    found: dict[tuple[str, str], Any] = {}
    for board in BOARDS:
        for query in board.queries:
            wanted = query.language == language and not estate_fleet.tells(board, query)
            wanted = wanted and (not rests_at_zero or (query.rests_at_zero and board.uid != HOST))
            if wanted and not (NO_PRESSURE and "node_pressure_" in query.expression):
                found[board.uid, query.name] = pytest.param(board, query, id=f"{board.uid}-{query.name}")
    return list(found.values())


def links() -> list[Explore]:
    """Each query that a click opens in Explore."""
    found: dict[Explore, None] = {}
    for panel in (panel for board in SERVICES for panel in board.panels):
        for link in (*panel.links, *(link for column in panel.columns for link in column.links)):
            if isinstance(link, Explore):
                found[link] = None
    return list(found)


@dataclass
class Scraped:
    """What VictoriaMetrics has scraped: who was under load, who is at rest, and the hosts."""

    store: VictoriaMetrics
    busy: estate.Service
    rest: estate.Service
    host: str
    alloy: str
    choices: dict[str, str] = field(default_factory=lambda: {"instance": ".+", "route": ".+", **WINDOW})

    def ask(self, query: Query, job: str) -> list[Sample]:
        return self.store.query(query.filled({**self.choices, "job": job}))

    def job_of(self, board: Dashboard, query: Query | None = None) -> str:
        if query in alloy.QUERIES:
            return self.alloy
        return self.host if board.uid == HOST else self.busy.job


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    if shutil.which("redis-server") is None:
        pytest.skip(MISSING)
    server = Redis(tmp_path_factory.mktemp("redis"))
    yield server
    server.kill()


@pytest.fixture(scope="module")
def scraped(
    victoria_metrics: VictoriaMetrics,
    victoria_logs: VictoriaLogs,
    otelcol: Collector,
    node_exporter: NodeExporter,
    redis: Redis,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Scraped]:
    mark = uuid.uuid4().hex[:8]
    settings = {
        "FLEETGLASS_LOKI_URL": victoria_logs.push_url,
        "OTEL_EXPORTER_OTLP_ENDPOINT": otelcol.http_endpoint,
        "FLEETGLASS_STORE_URL": redis.url,
    }
    store = victoria_metrics
    with (
        estate.service(f"busy-{mark}", tmp_path_factory.mktemp("busy"), settings) as busy,
        estate.service(f"rest-{mark}", tmp_path_factory.mktemp("rest"), settings) as rest,
        store.scraping(busy.address, busy.job),
        store.scraping(rest.address, rest.job),
        store.scraping(node_exporter.address, f"node-{mark}"),
    ):
        rest.get("/items/2")
        busy.load()
        busy.get("/break")
        scrapes = f'min by (job) (count_over_time(up{{job=~".+-{mark}"}}[10m]))'
        assert eventually(lambda: _all_at_least(store.query(scrapes), 3, 3), timeout=60)
        busy.load()
        served = f'sum(http_server_request_duration_seconds_count{{job="{busy.job}",http_route="/items/{{item}}"}})'
        assert eventually(lambda: _all_at_least(store.query(served), 1, 8), timeout=60)
        assert eventually(lambda: _all_at_least(store.query(scrapes), 3, 8), timeout=60)
        record(store, f"alloy-{mark}", "alloy")
        probe(store, busy.job)
        yield Scraped(store, busy, rest, f"node-{mark}", f"alloy-{mark}")


def record(store: VictoriaMetrics, job: str, exposition: str) -> None:
    """Import what an exporter was recorded to tell, as if a scraper had found the same for ten minutes."""
    body = (EXPOSITIONS / f"{exposition}.txt").read_bytes()
    for seconds in range(0, 600, 15):
        labels = [("extra_label", f"job={job}"), ("extra_label", "instance=edge-1")]
        at = int((time.time() - seconds) * 1000)
        request("POST", f"{store.push_url}?{urlencode([('timestamp', at), *labels])}", body).ok()


def probe(store: VictoriaMetrics, job: str) -> None:
    """Run ``fleetglass probe`` for its metric alone."""
    command = [sys.executable, "-m", "telemetry", "probe", "--only", "metrics", "--service", job]
    environ = {**os.environ, "FLEETGLASS_METRICS_PUSH_URL": store.url}
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False, timeout=50)
    assert done.returncode == 0, done.stdout + done.stderr


def _all_at_least(samples: list[Sample], count: int, least: float) -> bool:
    return len(samples) == count and all(sample.value >= least for sample in samples)


@pytest.mark.slow
@pytest.mark.timeout(180)
class TestVictoriaMetrics:
    @pytest.mark.parametrize(("board", "query"), cases("promql"))
    def test_a_query_finds_what_was_told(self, scraped: Scraped, board: Dashboard, query: Query) -> None:
        found = eventually(lambda: scraped.ask(query, scraped.job_of(board, query)), timeout=20, interval=0.5)
        assert found
        assert all(sample.value == sample.value for sample in found), "NaN is not drawn"

    @pytest.mark.parametrize(("board", "query"), cases("promql", rests_at_zero=True))
    def test_an_error_panel_at_rest_shows_zero(self, scraped: Scraped, board: Dashboard, query: Query) -> None:
        job = scraped.alloy if query in alloy.QUERIES else scraped.rest.job
        # A scrape that comes too late on a busy machine takes everything away until the next one.
        assert eventually(lambda: {sample.value for sample in scraped.ask(query, job)} == {0.0}, timeout=20), (
            scraped.ask(query, job)
        )

    @pytest.mark.parametrize(("board", "query"), cases("promql", rests_at_zero=True))
    def test_an_error_panel_shows_nothing_for_a_source_that_is_not_there(
        self, scraped: Scraped, board: Dashboard, query: Query
    ) -> None:
        assert scraped.ask(query, "nobody") == []

    @pytest.mark.parametrize("board", SERVICES, ids=lambda board: board.uid)
    def test_a_variable_offers_what_there_is(self, scraped: Scraped, board: Dashboard) -> None:
        values = {**scraped.choices, "job": scraped.job_of(board)}
        for variable in board.variables:
            if variable.kind == "labels":
                selector, _, label = variable.choices.rpartition(", ")
                selector = Query(name="", language="promql", expression=selector, shape="table", about="").filled(
                    values
                )
                offered = {series[label] for series in scraped.store.series(selector)}
                assert offered, variable.name
                if label == "job":
                    assert values["job"] in offered

    @pytest.mark.parametrize("name", sorted(set(METRICS) - set(estate_fleet.NAMES)))
    def test_a_metric_of_the_catalogue_is_told_by_running_code(self, scraped: Scraped, name: str) -> None:
        sample = f"{name}_count" if METRICS[name].kind == "histogram" else name
        found = scraped.store.query(f'{sample}{{job="{scraped.busy.job}"}}')
        assert found
        if METRICS[name].kind != "info":
            assert {label for each in found for label in each.labels} - {"__name__", "job", "instance"} == set(
                METRICS[name].labels
            )

    def test_what_went_wrong_is_seen(self, scraped: Scraped) -> None:
        """The queries that rest at zero are not zero because they look away."""
        by_name = {query.name: query for board in BOARDS for query in board.queries}
        for name in (
            "failed_share_now",
            "routes_failed_now",
            "faults_now",
            "overflows_now",
            "errors_now",
            "refused_now",
            "noise_by_reason",
            "faro_ignored",
        ):
            assert max(sample.value for sample in scraped.ask(by_name[name], scraped.busy.job)) > 0, name
        (share,) = scraped.ask(by_name["failed_share_by_job"], scraped.busy.job)
        assert 0 < share.value < 0.5
        routes = {
            each.labels["http_route"]: each.value for each in scraped.ask(by_name["p95_of_route"], scraped.busy.job)
        }
        assert routes["/items/{item}"] > 0.5


@pytest.fixture(scope="module")
def pushed(
    scraped: Scraped, victoria_logs: VictoriaLogs, redis: Redis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[estate.Service]:
    """The same service under load, in a place where nobody can scrape it."""
    settings = {
        "FLEETGLASS_LOKI_URL": victoria_logs.push_url,
        "FLEETGLASS_STORE_URL": redis.url,
        "FLEETGLASS_METRICS_PUSH_URL": scraped.store.url,
        "FLEETGLASS_METRICS_PUSH_INTERVAL": "1",
    }
    job = f"pushed-{uuid.uuid4().hex[:8]}"
    with estate.service(job, tmp_path_factory.mktemp("pushed"), settings) as busy:
        busy.load()
        count = f'sum(http_server_request_duration_seconds_count{{job="{job}",http_route="/items/{{item}}"}})'
        assert eventually(lambda: _all_at_least(scraped.store.query(count), 1, 4), timeout=60)
        busy.load()
        assert eventually(lambda: _all_at_least(scraped.store.query(count), 1, 8), timeout=60)
        yield busy


def asked_of_a_service() -> list[Any]:
    """What is asked of a service's own series: `up` is a scraper's, a probe's sample comes from elsewhere."""
    foreign = {query.name for query in alloy.QUERIES} | {"probed"}
    return [
        case
        for case in cases("promql")
        if case.values[0].uid != HOST and case.values[1].name not in foreign and "up{" not in case.values[1].expression
    ]


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize(("board", "query"), asked_of_a_service())
def test_a_query_finds_what_was_pushed(
    scraped: Scraped, pushed: estate.Service, board: Dashboard, query: Query
) -> None:
    assert eventually(lambda: scraped.ask(query, pushed.job), timeout=20, interval=0.5)


@dataclass
class Stored:
    """A service's lines in Loki and its traces in Tempo."""

    loki: Loki
    tempo: Tempo
    values: Mapping[str, str]


@pytest.fixture(scope="module")
def stored(loki: Loki, tempo: Tempo, tmp_path_factory: pytest.TempPathFactory) -> Stored:
    job = f"told-{uuid.uuid4().hex[:8]}"
    settings = {"FLEETGLASS_LOKI_URL": loki.url, "OTEL_EXPORTER_OTLP_ENDPOINT": tempo.http_endpoint}
    with estate.service(job, tmp_path_factory.mktemp("told"), settings) as busy:
        busy.load()
        lines = f'{{service_name="{job}"}} |= "frontend-error" | logfmt | logger="frontend"'
        found = eventually(lambda: loki.query(f"{lines} | email=`jun@acme.example`"), timeout=30)
    values = {
        "job": job,
        "service": job,
        "workspace": "acme",
        "email": "jun@acme.example",
        "fp": found[0].parsed["fp"],
        **WINDOW,
    }
    return Stored(loki, tempo, values)


@pytest.mark.stack
@pytest.mark.slow
@pytest.mark.timeout(240)
class TestLokiAndTempo:
    @pytest.mark.parametrize(("board", "query"), cases("logql"))
    def test_a_query_finds_the_lines(self, stored: Stored, board: Dashboard, query: Query) -> None:
        expression = query.filled(stored.values)
        if query.shape == "lines":
            found = eventually(lambda: stored.loki.query(expression), timeout=0 if query.stays_empty else 30)
            assert bool(found) != query.stays_empty
            assert not any("__error__" in entry.parsed for entry in found)
        else:
            assert eventually(lambda: stored.loki.metric(expression), timeout=30)

    @pytest.mark.parametrize(("board", "query"), cases("traceql"))
    def test_a_query_finds_the_traces(self, stored: Stored, board: Dashboard, query: Query) -> None:
        # Tempo leaves the last 30 seconds out of a search.
        assert eventually(lambda: search(stored.tempo, query.filled(stored.values)), timeout=120, interval=1)

    @pytest.mark.parametrize("link", links(), ids=lambda link: f"{link.source}: {link.title}")
    def test_a_link_opens_what_there_is(self, stored: Stored, link: Explore) -> None:
        """With the labels of a real series, or the cells of a real row, in its places."""
        labels = {"job": stored.values["job"], "http_route": "/items/{item}", "http_response_status_code": "500"}
        found = {
            **{f"__field.labels.{name}": value for name, value in {**labels, "kind": "error"}.items()},
            "__data.fields.Service": labels["job"],
            "__data.fields.Route": labels["http_route"],
            **stored.values,
        }
        text = re.sub(r"\$\{([^}]+)\}", lambda match: found[match[1]], link.expression)
        if link.source == "logs":
            assert eventually(lambda: stored.loki.query(text), timeout=30)
        else:
            assert eventually(lambda: search(stored.tempo, text), timeout=120, interval=1)


def search(tempo: Tempo, traceql: str) -> list[object]:
    """The traces that Tempo finds."""
    answer = request("GET", f"{tempo.url}/api/search?{urlencode({'q': traceql, 'limit': 20})}", timeout=30)
    return list(answer.ok().json()["traces"])
