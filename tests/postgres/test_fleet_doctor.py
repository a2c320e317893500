"""``fleetglass queue doctor`` and ``fleetglass schema print`` on a real PostgreSQL."""

from __future__ import annotations

import json
import subprocess

import psycopg
import pytest

from telemetry.cli import main
from telemetry.fleet.indexes import conditions, indexes
from telemetry.fleet.profiles import WINDFORCE, WINDMILL
from tests.postgres.test_fleet_queue import WINDMILL_TABLES, jobs

pytestmark = pytest.mark.timeout(180)


def doctor(capsys, monkeypatch, url: str, *more: str) -> tuple[int, str]:
    monkeypatch.setenv("DATABASE_URL", url)
    status = main(["queue", "doctor", "--timeout", "30", *more])
    said = capsys.readouterr()
    return status, said.out + said.err


def test_missing_indexes_are_named_with_what_they_cost_and_never_made(queue, capsys, monkeypatch):
    jobs(queue, "gpu", 10)
    status, text = doctor(capsys, monkeypatch, queue)
    assert status == 0, text
    assert "pending: " in text
    assert "reads all of job_queue" in text
    assert "costs claims 6 %" in text
    for index in indexes(WINDFORCE):
        assert index.ddl.splitlines()[0] in text
    with psycopg.connect(queue) as connection:
        assert connection.execute("SELECT count(*) FROM pg_class WHERE relname LIKE '%obs%'").fetchone() == (0,)


def test_with_what_is_advised_nothing_is_missing(fleet, capsys, monkeypatch):
    with psycopg.connect(fleet, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO job_queue (tag, scheduled_for) SELECT 't' || n % 5, now() FROM generate_series(1, 20000) n"
        )
        connection.execute("VACUUM (ANALYZE) job_queue")
    status, text = doctor(capsys, monkeypatch, fleet)
    assert status == 0
    assert "has no index" not in text
    assert "Index Only Scan jq_obs_pending" in text
    status, text = doctor(capsys, monkeypatch, fleet, "--json")
    assert json.loads(text)["missing"] == []


def test_an_index_of_another_name_serves_as_well(fleet, capsys, monkeypatch):
    with psycopg.connect(fleet, autocommit=True) as connection:
        connection.execute("ALTER INDEX jq_obs_pending RENAME TO theirs")
        connection.execute("DROP INDEX jc_obs_started")
        connection.execute("CREATE INDEX wide ON job_completed (started_at, tag)")
    assert "has no index" not in doctor(capsys, monkeypatch, fleet)[1]


def test_an_index_whose_build_was_broken_off_is_not_taken_for_one(fleet, capsys, monkeypatch):
    with psycopg.connect(fleet, autocommit=True) as connection:
        connection.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'jq_obs_running'::regclass")
    assert "the index jq_obs_running is invalid" in doctor(capsys, monkeypatch, fleet)[1]


def test_tables_that_differ_are_told_and_nothing_is_run(queue, capsys, monkeypatch):
    with psycopg.connect(queue, autocommit=True) as connection:
        connection.execute("ALTER TABLE job_queue ALTER scheduled_for TYPE timestamp")
    status, text = doctor(capsys, monkeypatch, queue)
    assert status == 1
    assert "!! queue: job_queue.scheduled_for (scheduled_for) is a timestamp without time zone" in text
    assert "buffers" not in text


def test_a_role_that_may_not_read_is_told_which_read_failed(fleet, capsys, monkeypatch):
    with psycopg.connect(fleet, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS narrow")
        connection.execute("CREATE ROLE narrow LOGIN")
        connection.execute("GRANT SELECT ON job_queue TO narrow")
    status, text = doctor(capsys, monkeypatch, fleet.replace("postgres@", "narrow@"))
    assert status == 1
    assert "!! overdue: permission: permission denied for table job_runtime" in text
    assert "pg_read_all_stats" in text
    with psycopg.connect(fleet, autocommit=True) as connection:
        connection.execute("DROP OWNED BY narrow")


def test_what_can_not_be_asked_is_one_sentence(capsys, monkeypatch):
    status, text = doctor(capsys, monkeypatch, "postgresql://postgres@127.0.0.1:1/nowhere")
    assert status == 1
    assert text.startswith("fleetglass queue: connection: ")
    monkeypatch.delenv("DATABASE_URL")
    assert main(["queue", "doctor"]) == 2
    assert "DATABASE_URL is not set" in capsys.readouterr().err
    monkeypatch.setenv("DATABASE_URL", "postgresql://x@y/z")
    assert main(["queue", "doctor", "--profile", "sidekiq"]) == 2
    assert "neither a profile (windforce, windmill, windforce-core)" in capsys.readouterr().err


@pytest.mark.parametrize("profile", [WINDFORCE, WINDMILL], ids=lambda profile: profile.name)
def test_the_printed_schema_is_applied_twice_without_complaint(server, database, capsys, profile):
    tables = WINDMILL_TABLES
    if profile is WINDFORCE:
        from tests.backends.postgres import WINDFORCE as FILE

        tables = FILE.read_text("utf-8")
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(tables)
    assert main(["schema", "print", "--profile", profile.name]) == 0
    script = capsys.readouterr().out
    command = [server.program("psql"), database, "-q", "-v", "ON_ERROR_STOP=1", "-f", "-"]
    for _ in range(2):
        done = subprocess.run(command, input=script, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT * FROM telemetry.queue_pending").fetchall() == []
        assert connection.execute("SELECT count(*) FROM pg_index WHERE NOT indisvalid").fetchone() == (0,)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ('"running" = false AND "canceled_by" IS NULL', "((running = false) AND (canceled_by IS NULL))"),
        ('"running" = false', "(NOT running)"),
        ('"running"', "running"),
        ("\"status\" IN ('failure', 'lost')", "(status = ANY (ARRAY['failure'::text, 'lost'::text]))"),
        ("\"status\" IN ('failure')", "(status = 'failure'::job_status)"),
        ('"suspend" = 0', "(suspend = 0)"),
    ],
)
def test_a_predicate_is_known_again_as_the_server_writes_it(ours, theirs):
    assert conditions(ours) == conditions(theirs)
