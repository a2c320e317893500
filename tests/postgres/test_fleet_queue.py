"""What waits and runs, read from a real PostgreSQL: the claim predicate, ages, caps, waits, plans."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import psycopg
import pytest
from psycopg.rows import dict_row

from telemetry.fleet import profiles, queue
from telemetry.fleet.indexes import skips
from telemetry.fleet.profiles import WINDFORCE, WINDMILL
from telemetry.fleet.session import Session
from tests.backends.pgbouncer import pooled

pytestmark = pytest.mark.timeout(180)

ONE = """
INSERT INTO job_queue (tag, scheduled_for, running, started_at, canceled_by, restarts)
SELECT %(tag)s, now() + %(due)s::interval, %(running)s, now() + %(started)s::interval, %(canceled)s, %(restarts)s
FROM generate_series(1, %(count)s) RETURNING job_id
"""


def jobs(url: str, tag: str, count: int = 1, due: str = "-1 minute", **more: Any) -> list[Any]:
    """Jobs in the queue, ``due`` and ``started`` counted from now."""
    values = {"running": "started" in more, "started": None, "canceled": None, "restarts": 0, **more}
    with psycopg.connect(url) as connection:
        return [row[0] for row in connection.execute(ONE, {"tag": tag, "count": count, "due": due, **values})]


def completed(url: str, tag: str, wait: float, ago: str = "1 minute", status: str = "success") -> None:
    """A job that was claimed so long ago, after ``wait`` seconds, and ended soon."""
    with psycopg.connect(url) as connection:
        connection.execute(
            "INSERT INTO job_completed (job_id, tag, status, scheduled_for, started_at, completed_at) "
            "SELECT gen_random_uuid(), %(tag)s, %(status)s, at - make_interval(secs => %(wait)s), at, "
            "at + interval '1 second' FROM (SELECT now() - %(ago)s::interval AS at) claimed",
            {"tag": tag, "wait": wait, "ago": ago, "status": status},
        )


def pending(url: str, profile: profiles.Profile = WINDFORCE, *, skipping: bool = True) -> queue.Reading:
    session = Session(url, statement_timeout=30, deadline=60)
    try:
        with session.read() as connection:
            return queue.read_pending(connection, profile, skipping=skipping)
    finally:
        session.close()


def detail(url: str, profile: profiles.Profile = WINDFORCE) -> queue.Details:
    session = Session(url, statement_timeout=30, deadline=60)
    try:
        with session.read() as connection:
            return queue.read_detail(connection, profile)
    finally:
        session.close()


def test_only_what_a_worker_could_claim_now_is_pending(fleet):
    jobs(fleet, "gpu", 3, "-90 seconds")
    jobs(fleet, "gpu", 2, "-10 minutes", canceled="somebody")
    jobs(fleet, "gpu", 2, "-10 minutes", started="-5 minutes")
    jobs(fleet, "gpu", 2, "+10 minutes")
    jobs(fleet, "later", 1, "+1 hour")
    found = pending(fleet).tags
    assert found["gpu"].count == 3
    assert found["gpu"].oldest_age == pytest.approx(90, abs=30)
    assert found["later"] == queue.Pending()
    assert detail(fleet).tags["gpu"].pending == 3


def test_without_its_index_one_pass_over_the_table_says_the_same(fleet):
    """Skipping would pass over the whole table for every tag."""
    jobs(fleet, "gpu", 3, "-90 seconds")
    jobs(fleet, "gpu", 2, "-10 minutes", canceled="somebody")
    jobs(fleet, "later", 1, "+1 hour")
    jobs(fleet, "many", queue.CAP + 5)
    skipped, scanned = pending(fleet).tags, pending(fleet, skipping=False).tags
    assert skipped.keys() == scanned.keys()
    for tag, each in scanned.items():
        assert (each.count, each.capped, each.oldest_at) == (
            skipped[tag].count,
            skipped[tag].capped,
            skipped[tag].oldest_at,
        )
    assert scanned["gpu"].oldest_age == pytest.approx(90, abs=60)
    with psycopg.connect(fleet, autocommit=True) as connection:
        assert skips(connection, WINDFORCE)
        nodes, _ = plan(connection, queue.scan_sql(WINDFORCE.queue))
        assert sum("Relation Name" in node for node in nodes) == 1
        connection.execute("DROP INDEX jq_obs_pending")
        assert not skips(connection, WINDFORCE)


def test_an_empty_queue_is_zero_through_the_view_and_never_null(fleet):
    assert pending(fleet).tags == {}
    asked = "SELECT coalesce(sum(pending), 0) FROM telemetry.queue_pending WHERE tag IN ('gpu', 'cpu')"
    with psycopg.connect(fleet) as connection:
        assert connection.execute(asked).fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM telemetry.queue_pending").fetchone() == (0,)


def test_the_view_and_the_exporter_say_the_same(fleet):
    jobs(fleet, "cpu", 7, "-2 minutes")
    jobs(fleet, "gpu", queue.CAP + 1, "-1 minute")
    read = pending(fleet).tags
    with psycopg.connect(fleet, row_factory=dict_row) as connection:
        rows = connection.execute("SELECT * FROM telemetry.queue_pending ORDER BY tag").fetchall()
    assert [(row["tag"], row["pending"], row["capped"]) for row in rows] == [("cpu", 7, False), ("gpu", 1000, True)]
    assert {tag: (each.count, each.capped) for tag, each in read.items()} == {"cpu": (7, False), "gpu": (1000, True)}


def test_the_oldest_age_is_gone_on_the_next_read_after_the_queue_was_drained(fleet):
    ids = jobs(fleet, "gpu", 5, "-1 hour")
    assert pending(fleet).tags["gpu"].oldest_age > 3000
    with psycopg.connect(fleet) as connection:
        connection.execute("DELETE FROM job_queue WHERE job_id = ANY(%s)", (ids,))
    assert pending(fleet).tags == {}


def test_waits_are_of_jobs_that_ended_and_of_those_that_still_run(fleet):
    for wait in (1.0, 2.0, 3.0):
        completed(fleet, "gpu", wait)
    completed(fleet, "gpu", 999.0, ago="7 minutes")
    jobs(fleet, "gpu", 1, "-160 seconds", started="-60 seconds")
    jobs(fleet, "gpu", 1, "-4000 seconds", started="-50 seconds", restarts=1)
    found = detail(fleet).tags["gpu"]
    assert found.waits == (pytest.approx(2.5, abs=0.01), pytest.approx(85.45, abs=0.1))
    assert found.running == 2
    assert found.last_claim == pytest.approx(50, abs=30)


def test_of_very_many_claims_the_newest_are_looked_at(fleet, monkeypatch):
    """Sorting ten minutes of a thousand claims a second was felt by those who claimed."""
    monkeypatch.setattr(queue, "CLAIMS", 3)
    for minute, wait in enumerate((1.0, 2.0, 3.0, 100.0, 200.0)):
        completed(fleet, "gpu", wait, ago=f"{30 * minute + 10} seconds")
    completed(fleet, "rare", 1.0, ago="400 seconds")
    jobs(fleet, "cpu", 1, "-500 seconds", started="-100 seconds")
    found = detail(fleet).tags
    assert found["rare"].last_claim == pytest.approx(400, abs=30), "or it would be called stuck"
    assert found["rare"].waits is None
    assert found["gpu"].waits == (pytest.approx(2.0, abs=0.01), pytest.approx(2.9, abs=0.01))
    assert found["cpu"].last_claim == pytest.approx(100, abs=30), "what still runs is always looked at"


def test_a_job_claimed_before_it_was_due_waited_for_nothing_and_is_counted(fleet):
    completed(fleet, "gpu", -30.0)
    found = detail(fleet).tags["gpu"]
    assert found.waits == (0.0, 0.0)
    assert found.skewed == 1


def test_no_claim_means_no_quantile(fleet):
    jobs(fleet, "gpu", 1)
    assert detail(fleet).tags["gpu"].waits is None
    assert detail(fleet).tags["gpu"].last_claim is None


def test_failures_jobs_at_their_limit_and_overdue_ones_are_counted_by_tag(fleet):
    completed(fleet, "gpu", 1.0, status="failure")
    completed(fleet, "gpu", 1.0, status="lost")
    completed(fleet, "cpu", 1.0)
    jobs(fleet, "gpu", 2, restarts=3)
    pinged, silent, _without_a_row, fresh = (jobs(fleet, "cpu", 1, started="-5 minutes")[0] for _ in range(4))
    with psycopg.connect(fleet) as connection:
        for job, ping in ((pinged, "-2 minutes"), (silent, None)):
            connection.execute("INSERT INTO job_runtime VALUES (%s, now() + %s::interval)", (job, ping))
        connection.execute("INSERT INTO job_runtime VALUES (%s, now())", (fresh,))
    tags = detail(fleet).tags
    assert (tags["gpu"].failed, tags["cpu"].failed) == (2, 0)
    assert (tags["gpu"].at_limit, tags["cpu"].at_limit) == (2, 0)
    assert (tags["gpu"].overdue, tags["cpu"].overdue) == (0, 3)


def test_dead_rows_and_who_holds_them_are_told(fleet):
    ids = jobs(fleet, "gpu", 500)
    holder = psycopg.connect(fleet)
    try:
        holder.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        holder.execute("SELECT count(*) FROM job_queue")
        with psycopg.connect(fleet) as connection:
            connection.execute("DELETE FROM job_queue WHERE job_id = ANY(%s)", (ids,))
            connection.execute("SELECT pg_stat_force_next_flush()")
        held = detail(fleet).upkeep
        assert held is not None
        assert held.dead >= 500
        assert held.snapshot_xids >= 1
        assert held.snapshot_age > 0
    finally:
        holder.close()


def test_a_role_that_may_not_see_others_leaves_the_snapshot_unknown(fleet):
    with psycopg.connect(fleet, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS blind")
        connection.execute("CREATE ROLE blind LOGIN")
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO blind")
    upkeep = detail(fleet.replace("postgres@", "blind@")).upkeep
    assert (upkeep.snapshot_age, upkeep.snapshot_xids) == (None, None)
    with psycopg.connect(fleet, autocommit=True) as connection:
        connection.execute("DROP OWNED BY blind")


@pytest.mark.parametrize("zone", ["Asia/Seoul", "America/St_Johns", "UTC"])
def test_the_time_zone_of_a_session_moves_no_age(fleet, zone):
    jobs(fleet, "gpu", 1, "-90 seconds")
    completed(fleet, "gpu", 5.0)
    with psycopg.connect(fleet, autocommit=True) as connection:
        name = connection.info.dbname
        connection.execute(f"ALTER DATABASE {name} SET timezone = '{zone}'")
    assert pending(fleet).tags["gpu"].oldest_age == pytest.approx(90, abs=60)
    assert detail(fleet).tags["gpu"].waits == (5.0, 5.0)


def test_all_of_it_works_through_a_pooler_in_transaction_mode(server, fleet):
    jobs(fleet, "gpu", 3)
    with pooled(server, fleet.rpartition("/")[2]) as url:
        sessions = [Session(url, statement_timeout=30, deadline=60) for _ in range(5)]
        for _ in range(4):
            for session in sessions:
                with session.read() as connection:
                    assert queue.read_pending(connection, WINDFORCE).tags["gpu"].count == 3
                with session.read() as connection:
                    assert queue.read_detail(connection, WINDFORCE).tags["gpu"].pending == 3
        for session in sessions:
            session.close()
        with psycopg.connect(url, autocommit=True, prepare_threshold=None) as connection:
            left = connection.execute("SELECT current_setting('statement_timeout'), current_setting('jit')").fetchone()
            assert left == ("0", "on"), "a limit was left behind on a server connection that others share"


def plan(connection: psycopg.Connection[Any], text: str) -> tuple[list[dict[str, Any]], int]:
    """Every node of the plan as it was run, and how many buffers it touched."""
    answer = connection.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {text}".encode()).fetchone()
    root = answer[0][0]["Plan"] if not isinstance(answer[0], str) else json.loads(answer[0])[0]["Plan"]
    nodes, todo = [], [root]
    while todo:
        node = todo.pop()
        nodes.append(node)
        todo += node.get("Plans", ())
    return nodes, root["Shared Hit Blocks"] + root["Shared Read Blocks"]


def test_with_the_advised_indexes_what_every_scrape_reads_touches_no_table(fleet):
    """Counting states by scanning the table took seconds, and halved the throughput of claims."""
    with psycopg.connect(fleet, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO job_queue (tag, scheduled_for) SELECT 'tag-' || n % 10, now() - n * interval '1 ms' "
            "FROM generate_series(1, 50000) n"
        )
        connection.execute("VACUUM (ANALYZE) job_queue")
        nodes, buffers = plan(connection, queue.pending_sql(WINDFORCE.queue))
        touched = {(node["Node Type"], node.get("Index Name")) for node in nodes if "Relation Name" in node}
        assert touched == {("Index Only Scan", "jq_obs_pending")}
        assert buffers < 3000
        nodes, _ = plan(connection, queue.exact_sql(WINDFORCE))
        exact = {node["Node Type"] for node in nodes if "Relation Name" in node}
        assert "Index Only Scan" not in exact, "cheap now, and a page for each row once claims have written to them"
        connection.execute("INSERT INTO job_queue (tag) SELECT 'tag-1' FROM generate_series(1, 50000)")
        connection.execute("VACUUM (ANALYZE) job_queue")
        assert plan(connection, queue.pending_sql(WINDFORCE.queue))[1] < 1.5 * buffers, "its cost grew with the backlog"


def test_claims_that_can_not_be_cleared_away_are_gone_through_once(fleet):
    """While a dump holds its snapshot they lie at the head of each tag, and each read finds them there again."""
    with psycopg.connect(fleet, autocommit=True) as connection, psycopg.connect(fleet) as holder:
        connection.execute(
            "INSERT INTO job_queue (tag, scheduled_for) SELECT 'tag-' || n % 10, now() - (20000 - n) * interval '1 ms' "
            "FROM generate_series(1, 20000) n"
        )
        connection.execute("VACUUM (ANALYZE) job_queue")
        holder.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        holder.execute("SELECT FROM job_queue LIMIT 1")
        connection.execute("DELETE FROM job_queue WHERE scheduled_for < now() - interval '10 seconds'")
        claimed = 20_000 - connection.execute("SELECT count(*) FROM job_queue").fetchone()[0]
        nodes, _ = plan(connection, queue.pending_sql(WINDFORCE.queue))
        assert sum(node.get("Heap Fetches", 0) for node in nodes) < claimed + 10 * (queue.CAP + 10)
        assert claimed > 5000


def test_what_is_read_each_minute_goes_by_the_advised_indexes(fleet):
    with psycopg.connect(fleet, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO job_queue (tag, running, started_at) SELECT 'tag-' || n % 10, n % 50 = 0, "
            "CASE WHEN n % 50 = 0 THEN now() - interval '1 minute' END FROM generate_series(1, 50000) n"
        )
        connection.execute(
            "INSERT INTO job_completed (job_id, tag, status, scheduled_for, started_at, completed_at) "
            "SELECT gen_random_uuid(), 'tag-1', CASE WHEN n % 100 = 0 THEN 'failure' ELSE 'success' END, at, at, at "
            "FROM generate_series(1, 50000) n, LATERAL (SELECT now() - n * interval '1 s' AS at) t"
        )
        for table in ("job_queue", "job_completed", "job_runtime"):
            connection.execute(f"VACUUM (ANALYZE) {table}")
        texts = queue.statements(WINDFORCE)
        for name in ("running", "claims", "last_claims", "failed", "at_limit"):
            nodes, _ = plan(connection, texts[name])
            scans = {node["Node Type"] for node in nodes if node.get("Relation Name") in {"job_queue", "job_completed"}}
            assert "Seq Scan" not in scans, name
            if name == "claims":
                assert "Index Only Scan" in scans


WINDMILL_TABLES = """
CREATE TYPE job_kind AS ENUM ('script', 'flow'); CREATE TYPE job_status AS ENUM ('success', 'failure', 'canceled');
CREATE TABLE v2_job (id uuid PRIMARY KEY, tag varchar(50) NOT NULL, kind job_kind NOT NULL);
CREATE TABLE v2_job_queue (id uuid PRIMARY KEY, workspace_id varchar(50), created_at timestamptz DEFAULT now(),
    started_at timestamptz, scheduled_for timestamptz NOT NULL DEFAULT now(), running boolean NOT NULL DEFAULT false,
    canceled_by varchar(255), suspend integer NOT NULL DEFAULT 0, tag varchar(255) NOT NULL);
CREATE TABLE v2_job_runtime (id uuid PRIMARY KEY, ping timestamptz);
CREATE TABLE v2_job_completed (id uuid PRIMARY KEY, started_at timestamptz, completed_at timestamptz NOT NULL,
    status job_status NOT NULL);
CREATE TABLE worker_ping (worker varchar(255) PRIMARY KEY, worker_instance varchar(255), ping_at timestamptz NOT NULL,
    started_at timestamptz NOT NULL, jobs_executed integer NOT NULL DEFAULT 0, custom_tags text[],
    worker_group varchar(255) NOT NULL DEFAULT 'default', wm_version varchar(255), current_job_id uuid);
"""


def test_windmill_suspended_jobs_are_not_pending_and_flows_do_not_run(database):
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(WINDMILL_TABLES)
        assert profiles.check(connection, WINDMILL) == ()
        connection.execute(
            "WITH made AS (INSERT INTO v2_job SELECT gen_random_uuid(), 'deno', kind::job_kind "
            "FROM unnest(ARRAY['script', 'script', 'flow', 'script']) kind RETURNING id, kind), "
            "ranked AS (SELECT *, row_number() OVER (PARTITION BY kind) place FROM made) "
            "INSERT INTO v2_job_queue (id, tag, running, started_at, suspend) "
            "SELECT id, 'deno', kind = 'flow' OR place = 1, now(), (place = 2)::int FROM ranked"
        )
        connection.execute(
            "WITH made AS (INSERT INTO v2_job VALUES (gen_random_uuid(), 'bun', 'script') RETURNING id) "
            "INSERT INTO v2_job_completed SELECT id, now(), now(), 'failure' FROM made"
        )
    assert pending(database, WINDMILL).tags["deno"].count == 1
    tags = detail(database, WINDMILL).tags
    assert tags["deno"].running == 1
    assert tags["bun"].failed == 1
    assert tags["bun"].waits is None, "completed rows don't say when they were due"
    assert tags["deno"].at_limit is None, "nothing counts restarts"


def test_a_schema_that_differs_is_told_column_by_column(queue):
    with psycopg.connect(queue, autocommit=True) as connection:
        assert profiles.check(connection, WINDFORCE) == ()
        connection.execute("ALTER TABLE job_queue ALTER scheduled_for TYPE timestamp, DROP COLUMN canceled_by")
        connection.execute("ALTER TABLE job_queue ALTER restarts TYPE text")
        connection.execute("DROP TABLE worker_group")
        zoned, cancelled, restarts, registry = profiles.check(connection, WINDFORCE)
    assert "job_queue.scheduled_for (scheduled_for) is a timestamp without time zone" in zoned
    assert "Make it timestamptz" in zoned
    assert cancelled == "queue: job_queue.canceled_by (canceled_by) is missing"
    assert restarts.startswith("queue: job_queue.restarts (restarts) is text, expected smallint or integer")
    assert registry == "registry: there is no table worker_group, or this role may not see its schema"


def test_other_tables_are_mapped_from_a_file(database, tmp_path):
    file = tmp_path / "ours.toml"
    file.write_text(
        'registry = false\n[queue]\ntable = "app.Jobs"\nid = "ID"\ntag = "select"\nscheduled_for = "due"\n'
        'running = "busy"\ncanceled_by = ""\nrestarts = ""\n'
    )
    mapped = profiles.load(str(file))
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            'CREATE SCHEMA app; CREATE TABLE app."Jobs" ("ID" bigint, "select" text, due timestamptz, busy boolean, '
            "started_at timestamptz)"
        )
        connection.execute("""INSERT INTO app."Jobs" VALUES (1, 'it''s', now(), false), (2, 'b', now(), true)""")
        assert profiles.check(connection, mapped, ("queue",)) == ()
    assert {tag: each.count for tag, each in pending(database, mapped).tags.items()} == {"it's": 1}
    assert mapped.registry is None


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('[queue]\ntable = "jobs; DROP TABLE jobs"', "is no name of a table"),
        ('[queue]\ntag = "a.b"', "is no name of a column"),
        ('[queue]\ntag = ""', "is no name of a column"),
        ('[completed]\nfailed = ["x\' OR true"]', "is no word that a status"),
        ("[queue]\ncolour = 'red'", "colour"),
        ("base = 'sidekiq'", "base must be one of windforce, windmill, windforce-core"),
        ("[queue", "ours.toml"),
        ('[completed]\ntag = ""', "no table jobs to look it up in"),
    ],
)
def test_a_mapping_that_can_not_be_is_refused_before_any_sql(tmp_path, text, sentence):
    file = tmp_path / "ours.toml"
    file.write_text(text)
    with pytest.raises(ValueError, match=sentence):
        profiles.load(str(file))


def test_more_tags_than_are_looked_at_are_cut_and_said(fleet):
    with psycopg.connect(fleet, autocommit=True) as connection:
        connection.execute("INSERT INTO job_queue (tag) SELECT 't' || n FROM generate_series(1, 2500) n")
        connection.execute("VACUUM (ANALYZE) job_queue")
    found = pending(fleet)
    assert found.cut
    assert len(found.tags) == queue.TAGS


def test_a_profile_survives_being_written_and_read():
    assert msgspec.convert(msgspec.to_builtins(WINDMILL), profiles.Profile) == WINDMILL
