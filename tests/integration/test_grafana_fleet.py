"""The dashboards *Queue* and *Fleet* on real servers, over platforms whose trouble is known.

Every PromQL query of theirs, and of the Overview's row on jobs, runs on VictoriaMetrics, over what observers, workers
and a reaper tell of a real PostgreSQL. LogQL and TraceQL run where Loki and Tempo are on PATH.
"""

from __future__ import annotations

import os
import re
import signal
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import pytest

from examples.platform.postgres import Postgres
from telemetry.catalogue import METRICS
from telemetry.fleet.coverage import DANGERS
from telemetry.grafana.boards import BOARDS
from telemetry.grafana.queries import fleet, queue
from telemetry.grafana.records import Dashboard, Explore, Query
from tests.backends import postgres
from tests.backends.process import eventually
from tests.backends.servers import Sample, VictoriaMetrics
from tests.backends.stack import Loki, Tempo
from tests.integration import estate_fleet
from tests.integration.estate_fleet import Platform
from tests.integration.test_grafana_boards import WINDOW, search
from tests.postgres.test_fleet_observer import replica
from tests.postgres.test_worker_trace import enqueued

CHOICES = {"instance": ".+", "group": ".*", "tag": ".+", **WINDOW}
SILENT = "SELECT tag, worker, restarts, now() - ping FROM job_queue LEFT JOIN job_runtime USING (job_id) WHERE running"
OF_A_REPLICA = {"fleet_queue_replica_lag_seconds"}
"""What only an observer of a replica tells."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def cases(language: str, *, rests_at_zero: bool = False) -> list[Any]:
    found: dict[str, Any] = {}
    for board in BOARDS:
        for query in board.queries:
            wanted = query.language == language and estate_fleet.tells(board, query)
            if wanted and (query.rests_at_zero or not rests_at_zero):
                found[query.name] = pytest.param(query, id=query.name)
    return list(found.values())


def links() -> list[Explore]:
    found: dict[Explore, None] = {}
    for panel in (panel for board in estate_fleet.BOARDS for panel in board.panels):
        for link in (*panel.links, *(link for column in panel.columns for link in column.links)):
            if isinstance(link, Explore):
                found[link] = None
    return list(found)


def ask(platform: Platform, query: Query, job: str | None = None, **chosen: str) -> list[Sample]:
    """What a panel is answered, with everything of ``platform`` chosen unless told otherwise."""
    return platform.store.query(query.filled({**CHOICES, "job": job or platform.jobs, **chosen}))


def number(platform: Platform, query: Query, **chosen: str) -> float | None:
    """The one number of a stat; None for nothing."""
    found = ask(platform, query, **chosen)
    assert len(found) <= 1
    return found[0].value if found else None


def by(label: str, platform: Platform, query: Query, **chosen: str) -> dict[str, float]:
    """The values of a table's column by one of its labels."""
    found = ask(platform, query, **chosen)
    values = {sample.labels.get(label, ""): sample.value for sample in found}
    assert len(values) == len(found), "each row once, however many exporters there are"
    return values


def becomes(read: Callable[[], Any], expected: Any) -> None:
    """Wait until it is so: a scrape that comes too late on a busy machine takes everything away until the next."""
    assert eventually(lambda: read() == expected, timeout=60, interval=0.2), read()


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres.running(estate_fleet.VACUUMING) as running:
        yield running


@pytest.fixture(scope="module")
def make(
    server: Postgres, victoria_metrics: VictoriaMetrics, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    """``make(word)`` is a new platform, ``make(word, url)`` one on the database at ``url``."""

    def platform(word: str, url: str = "", environ: Mapping[str, str] | None = None) -> Platform:
        name = f"{word}-{uuid.uuid4().hex[:8]}"
        folder = tmp_path_factory.mktemp(word)
        return Platform(name, url or estate_fleet.database(server, name), folder, victoria_metrics, environ or {})

    return platform


@pytest.fixture(scope="module")
def rest(make: Any) -> Iterator[Platform]:
    with estate_fleet.at_rest(make("rest")) as platform:
        assert eventually(lambda: ask(platform, fleet.OUT_OF_SYNC), timeout=120, interval=0.5), "no badge was given"
        yield platform


@pytest.fixture(scope="module")
def busy(make: Any) -> Iterator[Platform]:
    with estate_fleet.in_trouble(make("busy")) as platform:
        # The last to come: a job whose worker was just killed is overdue, and the worker itself lost.
        for query, value in ((queue.OVERDUE_NOW, 1), (fleet.LOST_WORKERS, 2), (fleet.OUT_OF_SYNC, 6)):
            found = eventually(lambda: number(platform, query) == value, timeout=120, interval=0.5)  # noqa: B023
            assert found, (query.name, number(platform, query), platform.rows(SILENT))
        yield platform


@pytest.fixture(scope="module")
def standby(server: Postgres, busy: Platform, make: Any) -> Iterator[Platform]:
    """An observer of a replica."""
    with replica(server) as copy:
        platform = make("replica", copy.url_of(busy.name))
        with platform.run("observer", "observer"):
            yield platform


class TestNumbers:
    """What was set up is what the boards say."""

    @pytest.mark.parametrize(
        ("query", "value"),
        [
            pytest.param(query, value, id=query.name)
            for query, value in (
                (queue.WAITING_NOW, 1014),  # counts end at 1000 for a tag, and orphan has 1005
                (queue.RUNNING_NOW, 2),
                (queue.UNSERVED_NOW, 6),
                (queue.OVERDUE_NOW, 1),
                (queue.TAGS_CUT, 0),
                (fleet.OUT_OF_SYNC, 6),
                (fleet.WITHOUT_BADGE, 1),
                (fleet.ALIVE_NOW, 10),
                (fleet.SHORT_NOW, 3),
                (fleet.LOST_WORKERS, 2),
                (fleet.SKEWED_VERSIONS, 1),
                (fleet.UNSERVED_TAGS, 7),
                (fleet.BROKEN_ROWS, 1),
                (fleet.OUT_OF_SYNC_OF_ALL, 6),
                (fleet.UNSERVED_OF_ALL, 7),
            )
        ],
    )
    def test_a_stat_is_what_was_set_up_with_two_exporters_at_work(
        self, busy: Platform, query: Query, value: float
    ) -> None:
        becomes(lambda: number(busy, query), value)

    def test_two_exporters_do_not_double_what_waits(self, busy: Platform) -> None:
        """gitlab-ci-pipelines-exporter#1001, airflow#66810."""
        selector = f'fleet_queue_pending{{job=~"{busy.jobs}", tag="gpu"}}'
        becomes(lambda: [each.value for each in busy.store.query(selector)], [5, 5])
        becomes(lambda: number(busy, queue.WAITING_NOW, tag="gpu"), 5)
        becomes(lambda: by("tag", busy, queue.WAITING_OF_TAG, tag="gpu"), {"gpu": 5})
        becomes(lambda: number(busy, queue.LEADERS), 2)
        becomes(lambda: number(busy, queue.EXPORTERS), 2)

    def test_each_group_has_the_badge_that_it_deserves(self, busy: Platform) -> None:
        badges = {number: badge for badge, number in fleet.BADGES.items()}
        becomes(
            lambda: {group: badges[int(value)] for group, value in by("group", busy, fleet.BADGE_OF_GROUP).items()},
            {
                "heavy": "ok",
                "hung": "ok",
                "asleep": "ok",
                "light": "scaled",
                "disabled": "draining",
                "leaving": "draining",
                "gpu": "missing",
                "burst": "missing",
                "stray": "unregistered",
            },
        )
        becomes(lambda: {name for name, value in by("group", busy, fleet.DANGER_OF_GROUP).items() if value}, {"burst"})
        becomes(lambda: by("group", busy, fleet.BADGE_AGE_OF_GROUP, group="gpu").get("gpu", 0) > 0, True)
        skewed = fleet.CLOCKS_BY_GROUP
        becomes(lambda: {name for name, value in by("group", busy, skewed).items() if value}, {"stray"})

    @pytest.mark.parametrize(
        ("query", "values"),
        [
            pytest.param(query, values, id=query.name)
            for query, values in (
                (fleet.LEAST_OF_GROUP, {"heavy": 1, "gpu": 2, "burst": 0}),
                (fleet.MOST_OF_GROUP, {"heavy": 3, "gpu": 2, "burst": 3}),
                (fleet.ENABLED_OF_GROUP, {"heavy": 1, "disabled": 0}),
                (fleet.ALIVE_OF_GROUP, {"heavy": 2, "light": 2, "leaving": 1, "gpu": 0}),
                (fleet.ACTIVE_OF_GROUP, {"heavy": 2, "light": 2, "leaving": 0}),
                (fleet.DRAINING_OF_GROUP, {"heavy": 0, "leaving": 1}),
                (fleet.BUSY_OF_GROUP, {"heavy": 1, "light": 0}),
                (fleet.JOBS_BY_GROUP, {"heavy": 1, "light": 0}),
                (fleet.LOST_OF_GROUP, {"heavy": 2, "light": 0}),
                (fleet.VERSIONS_OF_GROUP, {"heavy": 2, "light": 1}),
            )
        ],
    )
    def test_a_group_is_told_as_it_was_asked_for_and_as_it_is(
        self, busy: Platform, query: Query, values: dict[str, float]
    ) -> None:
        becomes(lambda: by("group", busy, query, group="|".join(values)), values)

    def test_each_tag_has_the_verdict_that_it_deserves_and_the_worst_come_first(self, busy: Platform) -> None:
        verdicts = {number: verdict for verdict, number in fleet.VERDICTS.items()}
        becomes(
            lambda: {tag: verdicts[int(value)] for tag, value in by("tag", busy, fleet.VERDICT_OF_TAG).items()},
            {
                **dict.fromkeys(("orphan", "worn", "printed"), "no_route"),
                **dict.fromkeys(("gpu", "burst", "shared"), "no_live_workers"),
                "jam": "stuck",
                **dict.fromkeys(("bye", "night"), "idle"),
                **dict.fromkeys(("quick", "bad", "slow", "cpu"), "covered"),
            },
        )
        assert min(fleet.VERDICTS[each] for each in DANGERS) > max(fleet.VERDICTS[each] for each in ("covered", "idle"))
        serving = {"slow": 2, "quick": 1, "jam": 1, "gpu": 0}
        becomes(lambda: by("tag", busy, fleet.SERVING_OF_TAG, tag="|".join(serving)), serving)

    def test_a_tag_is_told_in_full(self, busy: Platform) -> None:
        for query, values in (
            (queue.WAITING_OF_TAG, {"orphan": 1005, "gpu": 5, "quick": 0}),
            (queue.CAPPED_OF_TAG, {"orphan": 1, "gpu": 0}),
            (queue.AT_LIMIT_OF_TAG, {"worn": 1, "gpu": 0}),
            (queue.OVERDUE_OF_TAG, {"doomed": 1, "slow": 0}),
            (queue.RUNNING_OF_TAG, {"doomed": 1, "slow": 1}),
        ):
            becomes(lambda query=query, values=values: by("tag", busy, query, tag="|".join(values)), values)
        becomes(lambda: by("tag", busy, queue.OLDEST_OF_TAG, tag="jam").get("jam", 0) > 1200, True)
        # A tag that two groups share is under none, and not lost while all groups are chosen.
        becomes(lambda: by("group", busy, queue.WAITING_OF_TAG, tag="shared"), {"": 4})
        assert ask(busy, queue.WAITING_OF_TAG, tag="shared", group="heavy|light") == []

    def test_how_runs_ended_and_what_reapers_did_is_seen(self, busy: Platform) -> None:
        def ended(tag: str, outcome: str) -> float:
            text = f'sum(fleet_job_executed_total{{job=~"{busy.jobs}", tag="{tag}", outcome="{outcome}"}})'
            return sum(each.value for each in busy.store.query(text))

        becomes(lambda: (ended("bad", "failure"), ended("bad", "success"), ended("slow", "lost")), (2, 0, 1))
        assert ended("quick", "success") >= 6
        becomes(lambda: by("tag", busy, queue.UNSUCCESSFUL_SHARE, tag="bad|quick"), {"bad": 1, "quick": 0})
        becomes(lambda: max(sample.value for sample in ask(busy, queue.EXECUTED_BY_OUTCOME)) > 0, True)
        becomes(lambda: number(busy, queue.SKEWED_NOW), 1)
        becomes(lambda: (number(busy, queue.REQUEUED_NOW), number(busy, queue.GIVEN_UP_NOW)), (1, 1))
        for query in (queue.REQUEUED_BY_TAG, queue.GIVEN_UP_BY_TAG):
            becomes(lambda query=query: "doomed" in {each.labels.get("tag") for each in ask(busy, query)}, True)


@pytest.mark.parametrize("query", cases("promql"))
def test_a_query_finds_what_was_told(busy: Platform, standby: Platform, query: Query) -> None:
    busy.enqueue("quick")  # waits are those of jobs claimed in the last five minutes
    platform = standby if any(name in query.expression for name in OF_A_REPLICA) else busy
    found = eventually(lambda: ask(platform, query), timeout=60, interval=0.5)
    assert found
    assert all(sample.value == sample.value for sample in found), "NaN is not drawn"


@pytest.mark.parametrize("query", cases("promql", rests_at_zero=True))
def test_an_error_panel_at_rest_shows_zero(rest: Platform, query: Query) -> None:
    assert eventually(lambda: {sample.value for sample in ask(rest, query)} == {0.0}, timeout=60), ask(rest, query)


@pytest.mark.parametrize("query", cases("promql", rests_at_zero=True))
def test_an_error_panel_shows_nothing_for_a_source_that_is_not_there(rest: Platform, query: Query) -> None:
    assert ask(rest, query, job="nobody") == []


@pytest.mark.parametrize("board", estate_fleet.BOARDS, ids=lambda board: board.uid)
def test_a_variable_offers_what_there_is(busy: Platform, board: Dashboard) -> None:
    offered: dict[str, set[str]] = {}
    for variable in board.variables:
        if variable.kind == "labels":
            selector, _, label = variable.choices.rpartition(", ")
            text = Query(name="", language="promql", expression=selector, shape="table", about="")
            found = busy.store.series(text.filled({**CHOICES, "job": busy.jobs}))
            offered[variable.name] = {series[label] for series in found if series.get(label)}
    assert {f"{word}-{busy.name}" for word in ("observer", "executor", "strays")} <= offered["job"]
    assert len(offered["instance"]) >= 5
    assert {"heavy", "gpu"} <= offered["group"]
    assert {"quick", "orphan"} <= offered["tag"]


@pytest.mark.parametrize("name", estate_fleet.NAMES)
def test_a_metric_of_the_catalogue_is_told_by_running_code(busy: Platform, standby: Platform, name: str) -> None:
    platform = standby if name in OF_A_REPLICA else busy
    busy.enqueue("quick")
    sample = f"{name}_count" if METRICS[name].kind == "histogram" else name
    found = eventually(lambda: platform.store.query(f'{sample}{{job=~"{platform.jobs}"}}'), timeout=60, interval=0.5)
    assert found
    # VictoriaMetrics knows no empty labels: a tag that nobody's group has comes without one.
    assert set.union(*(set(each.labels) for each in found)) - {"__name__", "job", "instance"} == set(
        METRICS[name].labels
    )


def test_a_lease_that_moves_and_a_queue_that_drains_leave_no_number_behind(make: Any) -> None:
    """temporal#8375, armada#4904: the old owner's gauges; laravel-prometheus#80, temporal#7970: the last job's age."""
    platform = make("moving")
    platform.enqueue("gpu", 5, ago=3600)
    with ExitStack() as running:
        servers = [
            running.enter_context(platform.run("observer", "observer", "elected", number=each)) for each in (1, 2)
        ]
        becomes(lambda: number(platform, queue.WAITING_NOW), 5)
        becomes(lambda: (number(platform, queue.OLDEST_NOW) or 0) > 3000, True)
        becomes(lambda: len(_leaders(platform)), 1)
        (before,) = _leaders(platform)
        # It hangs until its lease has lapsed, and another reads.
        old = next(each for each in servers if each.address == before)
        os.kill(old.pid, signal.SIGSTOP)
        try:
            assert eventually(lambda: _leaders(platform) - {before}, timeout=90)
            platform.rows(
                "DELETE FROM job_queue WHERE job_id IN (SELECT job_id FROM job_queue ORDER BY job_id LIMIT 3)"
            )
            becomes(lambda: number(platform, queue.WAITING_NOW), 2)
        finally:
            os.kill(old.pid, signal.SIGCONT)
        becomes(lambda: (number(platform, queue.EXPORTERS), number(platform, queue.LEADERS)), (2, 1))
        assert platform.store.query(f'fleet_queue_pending{{job=~"{platform.jobs}", instance="{before}"}}') == []
        becomes(lambda: number(platform, queue.WAITING_NOW), 2)

        platform.rows("DELETE FROM job_queue")
        becomes(lambda: number(platform, queue.OLDEST_NOW), 0)
        becomes(lambda: number(platform, queue.WAITING_NOW), 0)
        assert ask(platform, queue.DUE_SINCE_OF_TAG) == []
    # Nobody reads any more: nothing is shown, and nothing is 0.
    assert eventually(lambda: ask(platform, queue.WAITING_NOW) == [], timeout=60)
    assert ask(platform, queue.OLDEST_NOW) == ask(platform, fleet.OUT_OF_SYNC) == []


def _leaders(platform: Platform) -> set[str]:
    found = platform.store.query(f'fleet_queue_observer_leader{{job=~"{platform.jobs}"}} == 1')
    return {sample.labels["instance"] for sample in found}


@pytest.fixture(scope="module")
def told(make: Any, loki: Loki, tempo: Tempo) -> Iterator[Platform]:
    """A platform whose worker tells Loki and Tempo what became of three jobs, each of which waited."""
    environ = {"FLEETGLASS_LOKI_URL": loki.push_url, "OTEL_EXPORTER_OTLP_ENDPOINT": tempo.http_endpoint}
    platform = make("told", environ=environ)
    for tag in ("quick", "bad", "slow"):
        enqueued(platform.url, tag, environ)
    platform.rows("UPDATE job_queue SET scheduled_for = now() - interval '5 seconds'")
    with platform.run("worker", "executor", "heavy", "quick,bad,slow", "1", str(platform.folder)):
        assert platform.holds("SELECT count(*) = 2 FROM job_completed")
        assert platform.holds("SELECT bool_and(now() - started_at > interval '11 seconds') FROM job_queue")
        (platform.folder / "go").touch()
        assert platform.holds("SELECT count(*) = 3 FROM job_completed")
        yield platform


@pytest.mark.stack
class TestLokiAndTempo:
    @pytest.mark.parametrize("query", [*cases("logql"), *cases("traceql")])
    def test_a_query_finds_the_failed_job(self, told: Platform, loki: Loki, tempo: Tempo, query: Query) -> None:
        text = query.filled({**CHOICES, "job": told.jobs})
        if query.language == "traceql":
            # Tempo leaves the last 30 seconds out of a search.
            assert eventually(lambda: search(tempo, text), timeout=120, interval=1)
        else:
            found = eventually(lambda: loki.query(text), timeout=60)
            assert [entry.parsed["tag"] for entry in found] == ["bad"]
            assert found[0].parsed["msg"] == "job failed"
            # One click from the line to the trace.
            trace_id = found[0].metadata["trace_id"]
            assert eventually(lambda: len(tempo.trace(trace_id)) >= 4, timeout=60)

    def test_other_tags_and_other_services_are_left_out(self, told: Platform, loki: Loki) -> None:
        assert eventually(lambda: loki.query(queue.FAILURE_LINES.filled({**CHOICES, "job": told.jobs})), timeout=60)
        for chosen in ({"tag": "quick"}, {"job": "nobody"}):
            assert loki.query(queue.FAILURE_LINES.filled({**CHOICES, "job": told.jobs, **chosen})) == []

    @pytest.mark.parametrize("link", links(), ids=lambda link: f"{link.source}: {link.title}")
    def test_a_link_opens_what_there_is(self, told: Platform, loki: Loki, tempo: Tempo, link: Explore) -> None:
        tag = "slow" if "duration>10s" in link.expression else "bad"
        labels = {"job": f"executor-{told.name}", "tag": tag, "group": "heavy", "outcome": "failure"}
        found = {f"__field.labels.{name}": value for name, value in labels.items()}
        found |= {"__data.fields.Tag": tag, "__data.fields.Group": "heavy"}
        text = re.sub(r"\$\{([^}]+)\}", lambda match: found[match[1]], link.expression)
        if link.source == "logs":
            assert eventually(lambda: loki.query(text), timeout=60)
        else:
            assert eventually(lambda: search(tempo, text), timeout=120, interval=1)
