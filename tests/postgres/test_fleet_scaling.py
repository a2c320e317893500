"""The scaler's query on a real PostgreSQL, through the view that ``fleetglass schema print`` writes."""

from __future__ import annotations

import psycopg
import pytest

from telemetry.fleet import profiles, schema
from telemetry.fleet.model import WorkerGroup
from telemetry.fleet.queue import CAP
from telemetry.fleet.scaling import Scaling, pending_sql

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


def test_counts_end_at_the_cap_for_each_tag(connection):
    connection.execute("INSERT INTO job_queue (tag) SELECT 'gpu' FROM generate_series(1, %s)", (CAP + 500,))
    connection.execute("INSERT INTO job_queue (tag) VALUES ('cpu')")
    assert number(connection, asked("gpu", "cpu")) == CAP + 1
