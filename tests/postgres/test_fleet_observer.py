"""The exporter on a real PostgreSQL: what it serves, and that it serves nothing of what it could not read."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from examples.platform.postgres import Postgres
from telemetry.fleet import indexes, profiles
from telemetry.fleet.election import Election
from telemetry.fleet.model import Windows
from telemetry.fleet.observer import Observer
from telemetry.fleet.publish import FAMILIES
from telemetry.metrics.registry import REGISTRY
from telemetry.worker.patience import Patience
from tests.backends import postgres
from tests.backends.pgbouncer import pooled
from tests.backends.process import eventually, free_ports
from tests.postgres.test_fleet_queue import completed, jobs

pytestmark = pytest.mark.timeout(180)
ROOT = Path(__file__).parents[2]
SLOW: dict[str, Any] = {"statement_timeout": 30, "detail_timeout": 30, "deadline": 60}

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def samples(observer: Observer) -> Samples:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in observer.families()
        for sample in family.samples
    }


def one(found: Samples, name: str, **labels: str) -> float | None:
    return found.get((name, tuple(sorted(labels.items()))))


def gauges(found: Samples) -> set[str]:
    """Names of what is said of queue and fleet, without what the observer says of itself."""
    return {name for name, _ in found if not name.startswith("fleet_queue_observer_")}


@contextmanager
def observing(url: str, **more: Any) -> Iterator[Observer]:
    """An observer that reads when it is told, and has read for long enough to believe in silence."""
    observer = Observer(url, **{**SLOW, "interval": 3600, "detail_interval": 3600, **more})
    observer._patience = Patience(after=0.0, gap=3600.0)
    try:
        yield observer
    finally:
        observer._session.close()


def again(observer: Observer) -> Samples:
    """What it serves after another read of every part."""
    observer._reads = {part: msgspec.structs.replace(read, began=-1e9) for part, read in observer.reads().items()}
    observer.step()
    return samples(observer)


def group(
    url: str, name: str, tags: list[str], replicas: int = 1, low: int | None = None, high: int | None = None
) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(
            "INSERT INTO worker_group (name, tags, desired_replicas, autoscale_min, autoscale_max) "
            "VALUES (%s, %s, %s, %s, %s)",
            (name, tags, replicas, low, high),
        )


def worker(url: str, name: str, of: str, tags: list[str], ago: float = 1.0, version: str = "1", **more: Any) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(
            "INSERT INTO worker_ping (worker, worker_group, tags, version, ping_at, running_jobs, status, "
            "draining_since) VALUES (%(name)s, %(of)s, %(tags)s, %(version)s, "
            "now() - make_interval(secs => %(ago)s), %(running)s, "
            "%(status)s, now() - make_interval(secs => %(draining)s))",
            {"name": name, "of": of, "tags": tags, "version": version, "ago": ago}
            | {"running": more.get("running", 0), "draining": more.get("draining")}
            | {"status": "draining" if "draining" in more else "active"},
        )


def test_the_queue_is_told_by_group_and_tag(fleet):
    group(fleet, "heavy", ["gpu", "shared"])
    group(fleet, "light", ["cpu", "shared"])
    jobs(fleet, "gpu", 3, "-90 seconds")
    jobs(fleet, "shared", 2)
    jobs(fleet, "odd", 1)
    jobs(fleet, "gpu", 1, started="-10 seconds")
    completed(fleet, "gpu", 4.0)
    with observing(fleet) as observer:
        found = again(observer)
    assert one(found, "fleet_queue_pending", group="heavy", tag="gpu") == 3
    assert one(found, "fleet_queue_pending", group="light", tag="cpu") == 0
    assert one(found, "fleet_queue_oldest_age_seconds", group="light", tag="cpu") == 0
    assert one(found, "fleet_queue_oldest_timestamp_seconds", group="light", tag="cpu") is None
    assert one(found, "fleet_queue_pending", group="", tag="shared") == 2
    assert one(found, "fleet_queue_pending", group="", tag="odd") == 1
    assert 85 < one(found, "fleet_queue_oldest_age_seconds", group="heavy", tag="gpu") < 170
    assert one(found, "fleet_queue_pending_exact", group="heavy", tag="gpu") == 3
    assert one(found, "fleet_queue_running", group="heavy", tag="gpu") == 1
    assert one(found, "fleet_queue_wait_p95_seconds", group="heavy", tag="gpu") > 4
    assert one(found, "fleet_queue_wait_p50_seconds", group="light", tag="cpu") is None
    assert one(found, "fleet_queue_observer_up", part="queue") == 1
    assert one(found, "fleet_queue_observer_errors_total", part="detail", reason="lock_timeout") == 0


def test_a_tag_that_nobody_declared_and_whose_jobs_never_wait_is_told_all_the_same(fleet):
    """A job that is claimed at once is never seen waiting; it runs, dies and fails like any other."""
    jobs(fleet, "gpu", 1, started="-10 minutes")
    completed(fleet, "cpu", 0.1, status="failure")
    with observing(fleet) as observer:
        found = again(observer)
    assert one(found, "fleet_queue_running", group="", tag="gpu") == 1
    assert one(found, "fleet_queue_overdue_jobs", group="", tag="gpu") == 1
    assert one(found, "fleet_queue_pending", group="", tag="gpu") == 0
    assert one(found, "fleet_queue_failed_jobs", group="", tag="cpu") == 1
    assert one(found, "fleet_queue_wait_p50_seconds", group="", tag="cpu") is not None


def test_every_family_of_the_observer_can_be_served(fleet):
    """A board or an alert that names one would otherwise wait for ever."""
    group(fleet, "heavy", ["gpu"])
    worker(fleet, "w1", "heavy", ["gpu"])
    jobs(fleet, "gpu", 1)
    completed(fleet, "gpu", 4.0)
    with psycopg.connect(fleet, autocommit=True) as connection:
        connection.execute("VACUUM job_queue")
    with observing(fleet) as observer:
        served = {name for name, _ in again(observer)}
    # A server this young has had no autovacuum, and it is no replica: that has a test of its own.
    assert set(FAMILIES) - served == {
        "fleet_queue_last_autovacuum_timestamp_seconds",
        "fleet_queue_replica_lag_seconds",
    }
    assert served <= set(FAMILIES)


def test_an_index_that_comes_later_is_used_from_then_on(queue):
    jobs(queue, "gpu", 3)
    with observing(queue) as observer:
        assert one(again(observer), "fleet_queue_pending", group="", tag="gpu") == 3
        assert not observer._skipping
        with psycopg.connect(queue, autocommit=True) as connection:
            connection.execute(indexes.indexes(profiles.WINDFORCE)[0].ddl)
        again(observer)
        assert observer._skipping
        assert one(again(observer), "fleet_queue_pending", group="", tag="gpu") == 3


def test_after_the_last_job_was_claimed_the_age_is_zero_on_the_next_scrape(fleet):
    ids = jobs(fleet, "gpu", 2, "-1 hour")
    with observing(fleet) as observer:
        assert one(again(observer), "fleet_queue_oldest_age_seconds", group="", tag="gpu") > 3000
        with psycopg.connect(fleet) as connection:
            connection.execute("DELETE FROM job_queue WHERE job_id = ANY(%s)", (ids,))
        found = again(observer)
    assert one(found, "fleet_queue_oldest_age_seconds", group="", tag="gpu") == 0
    assert one(found, "fleet_queue_pending", group="", tag="gpu") == 0
    assert one(found, "fleet_queue_oldest_timestamp_seconds", group="", tag="gpu") is None


def test_while_the_database_is_away_every_gauge_is_gone_and_nothing_is_zero():
    with postgres.running() as server:
        with psycopg.connect(server.url, autocommit=True) as connection:
            postgres.prepare(connection)
        jobs(server.url, "gpu", 5)
        with observing(server.url) as observer:
            assert "fleet_queue_pending" in gauges(again(observer))
            succeeded = one(samples(observer), "fleet_queue_observer_last_success_timestamp_seconds", part="queue")
            server.down()
            found = again(observer)
            assert gauges(found) == set()
            assert {one(found, "fleet_queue_observer_up", part=part) for part in ("queue", "detail", "workers")} == {0}
            assert one(found, "fleet_queue_observer_errors_total", part="queue", reason="connection") == 1
            assert one(found, "fleet_queue_observer_last_success_timestamp_seconds", part="queue") == succeeded
            server.up()
            found = again(observer)
            assert one(found, "fleet_queue_pending", group="", tag="gpu") == 5
            assert one(found, "fleet_queue_observer_up", part="queue") == 1


def test_ddl_that_locks_the_queue_costs_its_gauges_and_no_others(fleet):
    jobs(fleet, "gpu", 5)
    group(fleet, "heavy", ["gpu"])
    with observing(fleet) as observer, psycopg.connect(fleet) as other:
        again(observer)
        other.execute("LOCK TABLE job_queue IN ACCESS EXCLUSIVE MODE")
        found = again(observer)
        other.rollback()
    assert one(found, "fleet_queue_observer_errors_total", part="queue", reason="lock_timeout") == 1
    assert one(found, "fleet_queue_observer_up", part="workers") == 1
    assert not any(name.startswith(("fleet_queue_", "fleet_tag_")) for name in gauges(found))
    assert one(found, "fleet_worker_group_drift", group="heavy", state="missing") == 1


def test_a_read_that_is_overdue_is_not_served(fleet):
    jobs(fleet, "gpu", 5)
    with observing(fleet) as observer:
        again(observer)
        assert "fleet_queue_pending" in gauges(samples(observer))
        observer._every = dict.fromkeys(observer._every, -1e6)
        found = samples(observer)
        assert gauges(found) == set()
        assert one(found, "fleet_queue_observer_up", part="queue") == 0


WORKER = """
import sys, time
from telemetry.worker.heartbeat import Heartbeat
with Heartbeat(sys.argv[1], group="heavy", tags=("gpu",), interval=1.0, deadline=0.9):
    time.sleep(600)
"""


def test_a_worker_killed_without_a_word_stops_being_alive(fleet):
    """It was shown as up for ever, since nobody had said that it went."""
    group(fleet, "heavy", ["gpu"])
    process = subprocess.Popen([sys.executable, "-c", WORKER, fleet], cwd=ROOT)
    try:
        with observing(fleet, windows=Windows(alive=6.0), heartbeat=1.0) as observer:
            assert eventually(lambda: one(again(observer), "fleet_worker_group_alive", group="heavy") == 1, timeout=60)
            process.kill()
            assert eventually(lambda: one(again(observer), "fleet_worker_group_alive", group="heavy") == 0, timeout=60)
            found = samples(observer)
            assert one(found, "fleet_worker_group_lost", group="heavy") == 1
            assert one(found, "fleet_worker_group_drift", group="heavy", state="missing") == 1
    finally:
        process.kill()
        process.wait()


def test_a_worker_that_was_killed_is_not_alive_for_longer_than_the_window(fleet):
    group(fleet, "heavy", ["gpu"], 2)
    worker(fleet, "killed", "heavy", ["gpu"], ago=1)
    worker(fleet, "living", "heavy", ["gpu"], ago=1)
    with observing(fleet) as observer:
        assert one(again(observer), "fleet_worker_group_alive", group="heavy") == 2
        with psycopg.connect(fleet) as connection:
            connection.execute("UPDATE worker_ping SET ping_at = now() - interval '61 s' WHERE worker = 'killed'")
            connection.execute("UPDATE worker_ping SET ping_at = now() WHERE worker = 'living'")
        found = again(observer)
        assert one(found, "fleet_worker_group_alive", group="heavy") == 1
        assert one(found, "fleet_worker_group_lost", group="heavy") == 1
        assert one(found, "fleet_worker_group_drift", group="heavy", state="scaled") == 1
        assert observer.picture().observed["heavy"].lost == ("killed",)


def test_ten_thousand_workers_have_as_many_series_as_one(fleet):
    group(fleet, "heavy", ["gpu"], 1)
    worker(fleet, "w", "heavy", ["gpu"])
    with observing(fleet) as observer:
        before = len(again(observer))
        with psycopg.connect(fleet) as connection:
            connection.execute(
                "INSERT INTO worker_ping (worker, worker_group, tags) "
                "SELECT 'pod-' || n, 'heavy', '{gpu}' FROM generate_series(1, 10000) n"
            )
        found = again(observer)
        assert len(found) == before
        assert one(found, "fleet_worker_group_alive", group="heavy") == 10_001


def test_groups_and_tags_that_nobody_asked_for_are_bounded(fleet):
    with psycopg.connect(fleet) as connection:
        connection.execute(
            "INSERT INTO worker_ping (worker, worker_group) SELECT 'w' || n, 'g' || n FROM generate_series(1, 300) n"
        )
        connection.execute("INSERT INTO job_queue (tag) SELECT 't' || n FROM generate_series(1, 500) n")
        connection.execute("INSERT INTO job_queue (tag) SELECT 'busy' FROM generate_series(1, 9)")
    with observing(fleet) as observer:
        found = again(observer)
    groups = {dict(labels)["group"] for name, labels in found if name == "fleet_worker_group_alive"}
    assert len(groups) == 51
    assert one(found, "fleet_worker_group_alive", group="__other__") == 250
    tags = {dict(labels)["tag"] for name, labels in found if name == "fleet_queue_pending"}
    assert len(tags) == 201
    assert one(found, "fleet_queue_pending", group="", tag="busy") == 9
    assert one(found, "fleet_queue_pending", group="", tag="__other__") == 301
    assert one(found, "fleet_tag_coverage", tag="__other__", reason="no_route") == 1


def test_a_group_scaled_to_nothing_is_no_alarm_until_its_work_has_waited(fleet):
    group(fleet, "burst", ["gpu"], 0, 0, 3)
    with observing(fleet) as observer:
        found = again(observer)
        assert one(found, "fleet_worker_group_drift", group="burst", state="ok") == 1
        assert one(found, "fleet_tag_coverage", tag="gpu", reason="idle") == 1
        jobs(fleet, "gpu", 1, "-30 seconds")
        assert one(again(observer), "fleet_worker_group_drift", group="burst", state="ok") == 1
        jobs(fleet, "gpu", 1, "-130 seconds")
        found = again(observer)
        assert one(found, "fleet_worker_group_drift", group="burst", state="missing") == 1
        assert one(found, "fleet_worker_group_drift_danger", group="burst") == 1
        assert one(found, "fleet_tag_coverage", tag="gpu", reason="no_live_workers") == 1


def test_a_tag_with_workers_but_no_claims_is_stuck(fleet):
    group(fleet, "heavy", ["gpu"])
    worker(fleet, "w", "heavy", ["gpu"])
    jobs(fleet, "gpu", 1, "-20 minutes")
    with observing(fleet) as observer:
        assert one(again(observer), "fleet_tag_coverage", tag="gpu", reason="stuck") == 1
        completed(fleet, "gpu", 1.0, ago="2 minutes")
        assert one(again(observer), "fleet_tag_coverage", tag="gpu", reason="covered") == 1


def test_without_the_minute_s_read_nothing_is_called_stuck(fleet):
    worker(fleet, "w", "heavy", ["gpu"])
    jobs(fleet, "gpu", 1, "-20 minutes")
    with psycopg.connect(fleet) as other, observing(fleet) as observer:
        other.execute("LOCK TABLE job_completed IN ACCESS EXCLUSIVE MODE")
        found = again(observer)
        assert one(found, "fleet_queue_observer_up", part="detail") == 0
        assert one(found, "fleet_tag_coverage", tag="gpu", reason="covered") == 1
        other.rollback()


def test_tags_of_the_catalogue_are_there_before_anybody_waits(fleet):
    with observing(fleet, catalogue=lambda: ["render", "train"]) as observer:
        found = again(observer)
        assert one(found, "fleet_queue_pending", group="", tag="render") == 0
        assert one(found, "fleet_tag_coverage", tag="train", reason="no_route") == 1
        assert one(found, "fleet_queue_observer_up", part="catalogue") == 1


def test_a_query_may_give_the_catalogue_and_its_failure_is_its_own(fleet):
    asks = msgspec.structs.replace(profiles.WINDFORCE, catalogue="SELECT unnest(tags) FROM worker_group")
    group(fleet, "heavy", ["gpu"])
    with observing(fleet, profile=asks) as observer:
        again(observer)
        assert observer.picture().parts.catalogue == {"gpu"}


@pytest.mark.expects_fault("fleet.observer")
def test_a_catalogue_that_fails_takes_nothing_else_down(fleet):
    def broken() -> list[str]:
        raise RuntimeError("no catalogue today")

    with observing(fleet, catalogue=broken) as observer:
        found = again(observer)
    assert one(found, "fleet_queue_observer_up", part="catalogue") == 0
    assert one(found, "fleet_queue_observer_errors_total", part="catalogue", reason="refused") == 1
    assert one(found, "fleet_queue_observer_up", part="queue") == 1


@pytest.mark.expects_fault("fleet.observer")
def test_a_timestamp_without_a_zone_is_refused_not_read(fleet):
    with psycopg.connect(fleet, autocommit=True) as connection:
        connection.execute("DROP VIEW telemetry.queue_pending")
        connection.execute("ALTER TABLE job_queue ALTER scheduled_for TYPE timestamp")
    jobs(fleet, "gpu", 1)
    with observing(fleet) as observer:
        found = again(observer)
    assert one(found, "fleet_queue_observer_errors_total", part="queue", reason="schema") == 1
    assert not any(name.startswith("fleet_queue_") for name in gauges(found))


def test_a_row_of_the_registry_that_can_not_be_right_costs_its_own_badge_only(fleet):
    group(fleet, "wrong", ["gpu"], 1, 5, 2)
    group(fleet, "right", ["cpu"], 1)
    worker(fleet, "w", "wrong", ["gpu"])
    with observing(fleet) as observer:
        found = again(observer)
    assert one(found, "fleet_worker_groups_broken") == 1
    assert one(found, "fleet_worker_group_drift_valid", group="wrong") == 0
    assert one(found, "fleet_worker_group_drift", group="wrong", state="ok") is None
    assert one(found, "fleet_worker_group_drift", group="right", state="missing") == 1


def test_just_after_an_outage_nothing_is_said_of_who_is_missing(fleet):
    group(fleet, "heavy", ["gpu"])
    jobs(fleet, "gpu", 1)
    with observing(fleet) as observer:
        observer._patience = Patience(after=60.0, gap=3600.0)
        found = again(observer)
    assert one(found, "fleet_worker_group_drift_valid", group="heavy") == 0
    assert one(found, "fleet_worker_group_alive", group="heavy") == 0
    assert not {"fleet_worker_group_drift", "fleet_tag_coverage"} & gauges(found)
    assert one(found, "fleet_queue_pending", group="heavy", tag="gpu") == 1


def test_the_badge_keeps_its_time_while_it_stays(fleet):
    group(fleet, "heavy", ["gpu"])
    name = "fleet_worker_group_drift_since_timestamp_seconds"
    with observing(fleet) as observer:
        first = one(again(observer), name, group="heavy")
        assert one(again(observer), name, group="heavy") == first
        worker(fleet, "w", "heavy", ["gpu"])
        assert one(again(observer), name, group="heavy") > first


def test_when_the_lease_moves_the_old_exporter_serves_nothing_any_more(fleet):
    jobs(fleet, "gpu", 5)
    first, second = Election(holder="a", ttl=7200), Election(holder="b", ttl=7200)
    with observing(fleet, election=first) as old, observing(fleet, election=second) as new:
        assert one(again(old), "fleet_queue_pending", group="", tag="gpu") == 5
        waiting = again(new)
        assert gauges(waiting) == set()
        assert one(waiting, "fleet_queue_observer_leader") == 0
        assert one(waiting, "fleet_queue_observer_up", part="queue") is None
        with psycopg.connect(fleet, autocommit=True) as connection:
            connection.execute("UPDATE telemetry.exporter_lease SET expires_at = now() - interval '1 s'")
        assert one(again(new), "fleet_queue_pending", group="", tag="gpu") == 5
        found = again(old)
        assert gauges(found) == set()
        assert one(found, "fleet_queue_observer_leader") == 0


def test_an_exporter_that_is_cut_off_lets_go_when_its_lease_has_lapsed(fleet, monkeypatch):
    jobs(fleet, "gpu", 5)
    with observing(fleet, election=Election(ttl=7200)) as observer:
        assert "fleet_queue_pending" in gauges(again(observer))
        later = time.monotonic() + 7300
        monkeypatch.setattr("telemetry.fleet.election.time.monotonic", lambda: later)
        assert gauges(samples(observer)) == set()


def test_an_exporter_that_could_never_ask_who_leads_says_that_it_reads_nothing():
    """With nobody in the lead and no series at all, an alert on them would have nothing to fire on."""
    with observing("postgresql://postgres@127.0.0.1:1/nowhere", election=Election(ttl=7200)) as observer:
        found = again(observer)
    assert gauges(found) == set()
    assert one(found, "fleet_queue_observer_leader") == 0
    assert one(found, "fleet_queue_observer_up", part="queue") == 0
    assert one(found, "fleet_queue_observer_errors_total", part="queue", reason="connection") == 1


@pytest.mark.expects_fault("fleet.observer")
def test_without_the_table_of_the_lease_nobody_reads_and_it_is_said(queue):
    with observing(queue, election=Election(ttl=7200)) as observer:
        found = again(observer)
    assert one(found, "fleet_queue_observer_up", part="queue") == 0
    assert one(found, "fleet_queue_observer_errors_total", part="queue", reason="schema") == 1


FORKED = """
import os, sys, time
from prometheus_client import generate_latest
from telemetry.fleet.observer import Observer
from telemetry.metrics.registry import REGISTRY
with Observer(sys.argv[1], statement_timeout=30, detail_timeout=30, deadline=60):
    while b"fleet_queue_pending{" not in generate_latest(REGISTRY):
        time.sleep(0.05)
    child = os.fork()
    if not child:
        os._exit(generate_latest(REGISTRY).count(b"fleet_queue") != 0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_child_serves_nothing_of_what_its_parent_read(fleet):
    jobs(fleet, "gpu", 1)
    command = [sys.executable, "-c", FORKED, fleet]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "0\n", done.stderr


def test_two_exporters_without_an_election_say_the_same_so_that_a_maximum_counts_once(fleet):
    jobs(fleet, "gpu", 5)
    with observing(fleet) as one_of_them, observing(fleet) as other:
        found = [again(each) for each in (one_of_them, other)]
    assert [one(each, "fleet_queue_pending", group="", tag="gpu") for each in found] == [5, 5]
    assert found[0].keys() == found[1].keys()


def test_a_clock_that_is_wrong_here_changes_no_age(fleet, monkeypatch):
    jobs(fleet, "gpu", 1, "-90 seconds")
    worker(fleet, "w", "heavy", ["gpu"], ago=5)
    real = time.time
    monkeypatch.setattr("time.time", lambda: real() - 86_400)
    with observing(fleet) as observer:
        found = again(observer)
    assert 85 < one(found, "fleet_queue_oldest_age_seconds", group="", tag="gpu") < 170
    assert 4 < one(found, "fleet_worker_group_last_ping_age_seconds", group="heavy") < 60
    assert one(found, "fleet_queue_observer_last_success_timestamp_seconds", part="queue") > real() - 3600


def test_a_worker_whose_clock_runs_ahead_is_alive_and_counted_as_such(fleet):
    worker(fleet, "w", "heavy", ["gpu"], ago=-30)
    with observing(fleet) as observer:
        found = again(observer)
    assert one(found, "fleet_worker_group_alive", group="heavy") == 1
    assert one(found, "fleet_worker_group_clock_skewed", group="heavy") == 1
    assert one(found, "fleet_worker_group_last_ping_age_seconds", group="heavy") == 0


@contextmanager
def replica(primary: Postgres) -> Iterator[Postgres]:
    """A streaming standby of ``primary``."""
    folder = Path(tempfile.mkdtemp(prefix="fleetglass-replica-"))
    folder.chmod(0o755)
    standby = Postgres(folder)
    if standby._owner:
        os.chown(folder, standby._owner["user"], standby._owner["group"])
    address = f"host=127.0.0.1 port={primary.port} user=postgres"
    copy = [primary.program("pg_basebackup"), "-d", address, "-D", str(standby.data), "-R", "-c", "fast", "--no-sync"]
    subprocess.run(copy, check=True, capture_output=True, timeout=120, **standby._owner)
    (standby.port,) = free_ports(1)
    standby.up()
    try:
        yield standby
    finally:
        standby.down("immediate")
        shutil.rmtree(folder, ignore_errors=True)


def test_a_replica_that_is_read_says_how_far_it_is_behind():
    with postgres.running() as primary:
        with psycopg.connect(primary.url, autocommit=True) as connection:
            postgres.prepare(connection)
        jobs(primary.url, "gpu", 1)
        with replica(primary) as standby, observing(standby.url) as observer:
            lag = "fleet_queue_replica_lag_seconds"
            assert eventually(lambda: one(again(observer), lag) == 0, timeout=60)
            jobs(primary.url, "gpu", 1)
            pending = {"name": "fleet_queue_pending", "group": "", "tag": "gpu"}
            assert eventually(lambda: one(again(observer), **pending) == 2, timeout=60)
            with psycopg.connect(standby.url, autocommit=True) as connection:
                connection.execute("SELECT pg_wal_replay_pause()")
            jobs(primary.url, "gpu", 1)
            assert eventually(lambda: (one(again(observer), lag) or 0) > 0, timeout=60)
            assert one(samples(observer), **pending) == 2
            primary.down("immediate")
            assert eventually(lambda: one(again(observer), lag) is None, timeout=60), "nobody knows how far any more"


def test_it_runs_by_itself_through_a_pooler_and_serves_in_metrics(server, fleet):
    jobs(fleet, "gpu", 5)
    with pooled(server, fleet.rpartition("/")[2]) as url:
        with Observer(url, interval=0.2, detail_interval=0.2, election=Election(ttl=60), **SLOW):
            assert eventually(lambda: served("fleet_queue_pending", tag="gpu") == 5, timeout=60)
            jobs(fleet, "gpu", 2)
            assert eventually(lambda: served("fleet_queue_pending", tag="gpu") == 7, timeout=60)
        assert served("fleet_queue_observer_leader") is None
        with psycopg.connect(fleet) as connection:
            assert connection.execute("SELECT count(*) FROM telemetry.exporter_lease").fetchone() == (0,)


def served(name: str, **labels: str) -> float | None:
    for family in text_string_to_metric_families(generate_latest(REGISTRY).decode()):
        for sample in family.samples:
            if sample.name == name and labels.items() <= sample.labels.items():
                return sample.value
    return None


def test_windforce_core_s_registry_of_workers_is_read(database):
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE worker_registry (id text PRIMARY KEY, worker_group text, engine_version text, "
            "build_revision text, tags jsonb, labels jsonb, slots int, status text, started_at timestamptz, "
            "last_heartbeat_at timestamptz)"
        )
        connection.execute(
            "INSERT INTO worker_registry VALUES ('a', 'g', '1', 'r', '[\"gpu\"]', '{}', 4, 'active', now(), now()), "
            "('b', 'g', '2', 'r', '[]', '{}', 4, 'draining', now(), now())"
        )
    with observing(database, profile=profiles.CORE, windows=Windows(alive=90), heartbeat=15) as observer:
        found = again(observer)
        assert {worker.id: worker.tags for worker in observer.picture().parts.workers.workers} == {
            "a": ("gpu",),
            "b": (),
        }
    assert one(found, "fleet_worker_group_alive", group="g") == 2
    assert one(found, "fleet_worker_group_draining", group="g") == 1
    assert one(found, "fleet_worker_group_versions", group="g") == 2
    assert one(found, "fleet_worker_group_drift_valid", group="g") == 0, "nobody says what was asked for"


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"heartbeat": 30}, "three heartbeats"),
        ({"windows": Windows(alive=120)}, "longer than the zombie timeout"),
        ({"windows": Windows(stuck=3600)}, "in the last 600 s only"),
        ({"election": Election(ttl=10)}, "lapses between two reads"),
    ],
)
def test_times_that_do_not_fit_together_are_refused(wrong, sentence):
    with pytest.raises(ValueError, match=sentence):
        Observer("postgresql://127.0.0.1:1/x", **wrong)
