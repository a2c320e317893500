"""The console's reads behind a real observer of a real PostgreSQL, and while that server is away."""

from __future__ import annotations

import json
import os
import sys

import msgspec
import psycopg
import pytest
from litestar.testing import TestClient

from ingest.app import create_app
from ingest.principal import Principal
from ingest.settings import Settings
from telemetry import cli
from telemetry.fleet.election import Election
from telemetry.fleet.observer import PARTS, Observer
from telemetry.fleet.snapshot import snapshot
from tests.backends import postgres
from tests.backends.process import Server, eventually, request
from tests.postgres.test_fleet_observer import again, group, observing, worker
from tests.postgres.test_fleet_queue import jobs

pytestmark = pytest.mark.timeout(180)
SETTINGS = Settings(tokens={"t": Principal("root@acme.example", "acme", ("super_admin",))})


def read(observer: Observer, what: str, **params):
    with TestClient(create_app(SETTINGS, fleet=lambda: snapshot(observer))) as http:
        answer = http.get(f"/api/admin/{what}", headers={"authorization": "Bearer t"}, params=params)
    assert answer.status_code == 200
    return answer.json()


def conditions(told) -> dict[str, str]:
    return {each["part"]: each["condition"] for each in told["sources"]}


def test_a_group_as_asked_for_and_as_seen(fleet):
    group(fleet, "heavy", ["gpu"], replicas=2)
    worker(fleet, "h-1", "heavy", ["gpu"], running=1)
    jobs(fleet, "gpu", 3, "-90 seconds")
    jobs(fleet, "orphan", 1)
    with observing(fleet) as observer:
        before = read(observer, "fleet")
        assert conditions(before) == dict.fromkeys(("queue", "workers", "detail", "catalogue"), "unread")
        assert before["groups"] == []
        observer.step()
        told, coverage = read(observer, "fleet", workers=True), read(observer, "coverage")
    (heavy,) = told["groups"]
    assert conditions(told) == dict.fromkeys(("queue", "workers", "detail", "catalogue"), "fresh")
    assert heavy["desired"]["value"]["low"] == 2
    assert heavy["desired"]["source"] == "worker_group"
    assert heavy["observed"]["value"]["busy"] == 1
    assert heavy["observed"]["source"] == "worker_ping"
    assert (heavy["badge"]["value"]["badge"], heavy["badge"]["value"]["direction"]) == ("scaled", "under")
    assert heavy["backlog"]["value"]["pending"] == 3
    assert heavy["backlog"]["value"]["oldest_age"] > 85
    assert [each["id"] for each in heavy["workers"]["value"]] == ["h-1"]
    assert all(0 <= heavy[name]["age"] < 170 for name in ("desired", "observed", "badge", "backlog"))
    assert {each["tag"]: each["reason"] for each in coverage["tags"]["value"]} == {
        "gpu": "covered",
        "orphan": "no_route",
    }
    assert coverage["catalogue"]["value"] == []
    assert coverage["catalogue"]["source"] == "app, action"


def test_a_platform_without_a_catalogue_has_none_and_that_is_no_failure(fleet):
    with psycopg.connect(fleet, autocommit=True) as connection:
        connection.execute("DROP TABLE action, app")
    jobs(fleet, "orphan", 1)
    with observing(fleet) as observer:
        observer.step()
        coverage = read(observer, "coverage")
    assert conditions(coverage)["catalogue"] == "none"
    assert coverage["catalogue"]["state"] == "absent"
    assert [each["tag"] for each in coverage["tags"]["value"]] == ["orphan"]


def test_a_capability_that_nobody_provides_is_told_beside_the_tags(fleet):
    with psycopg.connect(fleet, autocommit=True) as connection:
        connection.execute("INSERT INTO app (workspace_id, app_key, capabilities) VALUES ('w', 'shots', '{browser}')")
        connection.execute(
            "INSERT INTO worker_group (name, tags, capabilities, desired_replicas) "
            "VALUES ('arms', '{arm}', '{arm64}', 1)"
        )
    with observing(fleet) as observer:
        observer.step()
        coverage = read(observer, "coverage")
    capabilities = {each["tag"]: (each["reason"], each["level"]) for each in coverage["capabilities"]["value"]}
    assert capabilities == {"arm64": ("idle", "info"), "browser": ("no_route", "danger")}
    assert {each["tag"] for each in coverage["tags"]["value"]} == {"arm", "arm64", "browser"}


def test_a_catalogue_of_the_platforms_own_is_a_source(fleet):
    with observing(fleet, catalogue=lambda: ["gpu", "forgotten"]) as observer:
        observer.step()
        coverage = read(observer, "coverage")
    assert coverage["catalogue"]["value"] == ["forgotten", "gpu"]
    assert conditions(coverage)["catalogue"] == "fresh"
    assert {each["tag"]: each["reason"] for each in coverage["tags"]["value"]}["forgotten"] == "no_route"


def test_a_read_that_is_too_old_is_stale_and_what_it_said_is_unknown(fleet):
    group(fleet, "heavy", ["gpu"])
    with observing(fleet) as observer:
        observer.step()
        observer._reads = {part: msgspec.structs.replace(each, began=-1e9) for part, each in observer.reads().items()}
        told = read(observer, "fleet")
    assert conditions(told)["workers"] == "stale"
    (heavy,) = told["groups"]
    assert (heavy["observed"]["state"], heavy["observed"]["why"], heavy["observed"]["value"]) == (
        "unknown",
        "stale",
        None,
    )


def test_an_exporter_that_was_not_elected_says_that_another_reads(fleet):
    with observing(fleet, election=Election(ttl=1e6)) as leader, observing(fleet, election=Election(ttl=1e6)) as other:
        leader.step()
        other.step()
        assert conditions(read(leader, "fleet"))["queue"] == "fresh"
        told = read(other, "fleet")
    assert {conditions(told)[part] for part in PARTS if part != "catalogue"} == {"elsewhere"}


@pytest.mark.expects_fault("fleet.observer")
def test_one_table_that_cannot_be_read_leaves_the_rest_known(fleet):
    group(fleet, "heavy", ["gpu"])
    with observing(fleet) as observer:
        observer.step()
        with psycopg.connect(fleet) as connection:
            connection.execute("ALTER TABLE job_queue RENAME TO elsewhere")
        again(observer)
        told = read(observer, "fleet")
    (heavy,) = told["groups"]
    assert (heavy["backlog"]["state"], heavy["backlog"]["why"]) == ("unknown", "failed")
    assert heavy["backlog"]["detail"] == "schema"
    assert heavy["observed"]["state"] == "known"


def test_while_the_server_is_away_everything_is_unknown_and_nothing_is_0():
    with postgres.running() as server:
        with psycopg.connect(server.url, autocommit=True) as connection:
            postgres.prepare(connection)
        group(server.url, "heavy", ["gpu"])
        worker(server.url, "h-1", "heavy", ["gpu"])
        with observing(server.url) as observer:
            observer.step()
            assert read(observer, "fleet")["groups"][0]["observed"]["value"]["alive"] == 1
            server.down("immediate")
            again(observer)
            told, coverage = read(observer, "fleet"), read(observer, "coverage")
    assert {conditions(told)[part] for part in ("queue", "workers", "detail")} == {"failed"}
    assert {each["reason"] for each in told["sources"] if each["part"] != "catalogue"} == {"connection"}
    (heavy,) = told["groups"]
    assert heavy["group"] == "heavy"
    for name in ("badge", "desired", "observed", "backlog"):
        assert (heavy[name]["state"], heavy[name]["value"], heavy[name]["why"]) == ("unknown", None, "failed")
    assert (coverage["tags"]["state"], coverage["waiting"]["state"]) == ("unknown", "unknown")
    assert told["settled"] is False


# --- the service as a process


def environ(**more: str) -> dict[str, str]:
    tokens = json.dumps({"t": {"email": "root@acme.example", "workspace": "acme", "roles": ["super_admin"]}})
    return {**os.environ, "FLEETGLASS_TOKENS": tokens, "FLEETGLASS_FLEET": "true", **more}


def test_fleetglass_serve_observes_and_tells(fleet, tmp_path):
    group(fleet, "heavy", ["gpu"], replicas=2)
    worker(fleet, "h-1", "heavy", ["gpu"])
    server, ports = Server.start(
        "ingest",
        tmp_path,
        1,
        lambda ports: [sys.executable, "-m", "telemetry", "serve", "--listen", f"127.0.0.1:{ports[0]}"],
        lambda ports: f"http://127.0.0.1:{ports[0]}/healthz",
        60,
        environ=environ(DATABASE_URL=fleet),
    )
    try:
        base = f"http://127.0.0.1:{ports[0]}"

        def told():
            answer = request("GET", f"{base}/api/admin/fleet", headers={"Authorization": "Bearer t"}).ok().json()
            return answer if set(conditions(answer).values()) == {"fresh"} else None

        answer = eventually(told, timeout=60)
        (heavy,) = answer["groups"]
        assert heavy["desired"]["value"]["low"] == 2
        assert heavy["observed"]["value"]["alive"] == 1
        # Until it has read for a minute it does not believe that the second one is not there.
        assert heavy["badge"]["why"] == ("" if answer["settled"] else "settling")
        assert request("GET", f"{base}/api/admin/fleet").status == 401
        exposed = request("GET", f"{base}/metrics").ok().text
        assert 'fleet_worker_group_alive{group="heavy"} 1.0' in exposed
    finally:
        server.stop()
    assert "Traceback" not in server.log.read_text()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "DATABASE_URL = (unset)\n      expected the platform's PostgreSQL"),
        ({"FLEETGLASS_QUEUE_PROFILE": "windows"}, "FLEETGLASS_QUEUE_PROFILE = 'windows'"),
    ],
)
def test_it_does_not_start_without_what_it_needs(more, said, monkeypatch, capsys):
    for name, value in environ(**more).items():
        monkeypatch.setenv(name, value)
    assert cli.main(["serve"]) == 2
    assert said in capsys.readouterr().err
