"""The scaler's query on a real PostgreSQL, through the view that ``fleetglass schema print`` writes."""

from __future__ import annotations

import psycopg
import pytest
import yaml

from telemetry import cli
from telemetry.fleet import profiles, schema
from telemetry.fleet.model import WorkerGroup
from telemetry.fleet.queue import CAP
from telemetry.fleet.scaling import Scaling, pending_sql
from tests.postgres.test_fleet_observer import again, observing

pytestmark = pytest.mark.timeout(180)


def asked(*tags: str) -> str:
    return pending_sql(Scaling(group=WorkerGroup(name="gpu", tags=tags), target_queue_depth=20))


def number(connection: psycopg.Connection, query: str) -> float:
    """One row of one number, as KEDA scans it; anything else would be an error there."""
    ((found,),) = connection.execute(query.encode()).fetchall()
    return float(found)


@pytest.fixture
def connection(queue):
    with psycopg.connect(queue, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA IF NOT EXISTS telemetry")
        connection.execute(schema.view(profiles.WINDFORCE).encode())
        yield connection


def test_keda_5686_an_empty_queue_is_0_and_not_null(connection):
    assert number(connection, asked("gpu")) == 0.0


def test_due_unclaimed_jobs_of_the_groups_tags_are_counted_and_no_others(connection):
    connection.execute(
        """INSERT INTO job_queue (tag, scheduled_for, running, canceled_by) VALUES
        ('gpu', now(), false, NULL), ('gpu', now() - interval '1 hour', false, NULL), ('gpu.large', now(), false, NULL),
        ('gpu', now() + interval '1 hour', false, NULL), ('gpu', now(), true, NULL), ('gpu', now(), false, 'me'),
        ('cpu', now(), false, NULL)"""
    )
    assert number(connection, asked("gpu", "gpu.large")) == 3.0
    assert number(connection, asked("gpu.large")) == 1.0
    assert number(connection, asked("nobody")) == 0.0


@pytest.mark.parametrize("tag", ["it's", "';--", 'say "hi"', "back\\slash", "\\'", "한글", "a\nb", "%s", "$1"])
def test_a_tag_is_data_whatever_is_in_it(connection, tag):
    connection.execute("INSERT INTO job_queue (tag) VALUES (%s), ('other')", (tag,))
    assert number(connection, asked(tag)) == 1.0


def test_the_exporter_serves_the_number_that_the_scaler_reads(connection, queue):
    connection.execute(
        "INSERT INTO worker_group (name, tags, autoscale_min, autoscale_max) VALUES ('gpu', '{gpu,large}', 0, 4)"
    )
    for many in (0, 7, CAP, CAP + 3):
        connection.execute("TRUNCATE job_queue CASCADE")
        connection.execute("INSERT INTO job_queue (tag) SELECT 'gpu' FROM generate_series(1, %s)", (many,))
        connection.execute("INSERT INTO job_queue (tag) VALUES ('large'), ('cpu')")
        connection.execute("INSERT INTO job_queue (tag, scheduled_for) VALUES ('gpu', now() + interval '1 hour')")
        with observing(queue) as observer:
            found = again(observer)
        served = [
            value
            for (name, labels), value in found.items()
            if name == "fleet_queue_pending" and dict(labels)["tag"] in {"gpu", "large"}
        ]
        assert len(served) == 2
        assert sum(served) == number(connection, asked("gpu", "large")) == min(many, CAP) + 1


def test_counts_end_at_the_cap_for_each_tag(connection):
    connection.execute("INSERT INTO job_queue (tag) SELECT 'gpu' FROM generate_series(1, %s)", (CAP + 500,))
    connection.execute("INSERT INTO job_queue (tag) VALUES ('cpu')")
    assert number(connection, asked("gpu", "cpu")) == CAP + 1


# --- the registry

FILE = """
source: {type: postgresql, name: keda}
runbooks: https://r.example
dashboards: https://g.example
groups: [{name: gpu, termination_grace: 580, polling_interval: 20}]
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "scaling.yaml"
    path.write_text(FILE)
    return str(path)


def test_what_the_file_does_not_say_comes_from_the_row_of_the_registry(connection, queue, file, monkeypatch, capsys):
    monkeypatch.setenv("DATABASE_URL", queue)
    connection.execute(
        "INSERT INTO worker_group (name, tags, autoscale_min, autoscale_max, target_queue_depth) "
        "VALUES ('gpu', '{gpu,large}', 0, 4, 25), ('other', '{}', NULL, NULL, NULL)"
    )
    assert cli.main(["scaling", "render", "--registry", file]) == 0
    spec = next(yaml.safe_load_all(capsys.readouterr().out))["spec"]
    assert (spec["minReplicaCount"], spec["maxReplicaCount"], spec["cooldownPeriod"]) == (0, 4, 600)
    assert spec["pollingInterval"] == 20
    (trigger,) = spec["triggers"]
    assert trigger["metadata"]["targetQueryValue"] == "25"
    assert trigger["metadata"]["query"].endswith("IN ('gpu', 'large')")


def test_a_registry_under_other_names_is_read_through_its_mapping(
    connection, queue, file, tmp_path, monkeypatch, capsys
):
    connection.execute("CREATE TABLE pools (title text, labels jsonb, lo int, hi int, target_queue_depth int, n int)")
    connection.execute("""INSERT INTO pools VALUES ('gpu', '["gpu"]', 1, 2, 5, 1)""")
    (tmp_path / "ours.toml").write_text(
        '[registry]\ntable = "pools"\nname = "title"\ntags = "labels"\ntags_are_json = true\nautoscale_min = "lo"\n'
        'autoscale_max = "hi"\ndesired_replicas = "n"\ndrain_timeout = ""\nenabled = ""\n'
    )
    monkeypatch.setenv("DATABASE_URL", queue)
    monkeypatch.setenv("FLEETGLASS_QUEUE_PROFILE", str(tmp_path / "ours.toml"))
    assert cli.main(["scaling", "render", "--registry", file]) == 2
    told = capsys.readouterr().err
    # Neither its drain nor its cooldown is told, so the defaults stand, which don't fit.
    assert "a drain takes up to 600 s, and terminationGracePeriodSeconds is 580" in told
    assert "cooldown_period is 300 s" in told


def test_a_group_that_the_registry_does_not_have_is_told(connection, queue, file, monkeypatch, capsys):
    monkeypatch.setenv("DATABASE_URL", queue)
    assert cli.main(["scaling", "render", "--registry", file]) == 2
    assert "group gpu: the registry has none of that name" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("environ", "status", "said"),
    [
        ({}, 2, "DATABASE_URL is not set"),
        ({"DATABASE_URL": "postgresql://127.0.0.1:1/x"}, 1, "connection: "),
        ({"FLEETGLASS_QUEUE_PROFILE": "windmill"}, 2, "this profile has no registry"),
        ({"FLEETGLASS_QUEUE_PROFILE": "windows"}, 2, "'windows' is neither a profile"),
    ],
)
def test_a_registry_that_cannot_be_read_is_a_sentence(environ, status, said, file, monkeypatch, capsys):
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert cli.main(["scaling", "render", "--registry", file]) == status
    told = capsys.readouterr()
    assert told.out == ""
    assert f"fleetglass scaling: {said}" in told.err
