"""How many series the exporter serves for 10, 1,000 and 10,000 workers of the same groups."""

from __future__ import annotations

from collections.abc import Sequence

import psycopg
from psycopg import sql

from telemetry.fleet.observer import Observer
from tests.backends.postgres import prepare
from tests.bench.fleet.cost import WORKERS, Meter, between, total
from tests.bench.fleet.estate import OBSERVER, Estate
from tests.bench.fleet.figures import Counted

WORKERS_OF = (10, 1_000, 10_000)


def counted(estate: Estate, numbers: Sequence[int] = WORKERS_OF) -> list[Counted]:
    """In a database of its own, with the groups of the estate and nothing in the queue."""
    estate.run("DROP DATABASE IF EXISTS bench_series", "CREATE DATABASE bench_series")
    url, found = estate.server.url_of("bench_series"), []
    with psycopg.connect(url, autocommit=True) as connection:
        prepare(connection)
        connection.execute("CREATE EXTENSION pg_stat_statements")
        connection.execute(
            sql.SQL("GRANT SELECT ON ALL TABLES IN SCHEMA public TO {}").format(sql.Identifier(OBSERVER))
        )
        for group in range(estate.scale.groups):
            connection.execute(
                "INSERT INTO worker_group (name, tags, desired_replicas) VALUES (%s, %s, 1)",
                (f"group-{group}", estate.scale.tags_of(group)),
            )
        meter = Meter(Estate(estate.server, estate.scale, "bench_series"))
        for number in numbers:
            connection.execute("TRUNCATE worker_ping")
            connection.execute(
                "INSERT INTO worker_ping (worker, worker_group, tags, version, node_name, running_jobs) "
                "SELECT 'worker-' || n, 'group-' || n %% %s, ARRAY['tag-' || n %% %s], '1.0.0', 'node', 4 "
                "FROM generate_series(1, %s) n",
                (estate.scale.groups, estate.scale.tags, number),
            )
            connection.execute("ANALYZE worker_ping")
            before = meter.account()
            observer = Observer(estate.server.url_of("bench_series", OBSERVER))
            try:
                observer.step()
                series = sum(len(family.samples) for family in observer.families())
            finally:
                observer._session.close()
            spent = total(between(before, meter.account()), WORKERS)
            assert spent is not None
            found.append(Counted(number, series, spent.ms, spent.buffers))
    estate.run("DROP DATABASE bench_series")
    return found
