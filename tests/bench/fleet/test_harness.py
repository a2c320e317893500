"""The bench of reads at scale, small: every part of it runs, its ledger is exact, and no read goes through a table."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from telemetry.fleet.indexes import indexes
from telemetry.fleet.profiles import WINDFORCE
from tests.bench.fleet import claims, pairs, report, series, simulate
from tests.bench.fleet.cost import CATALOGUE, DETAIL, SCRAPE, WORKERS, between, plans, total
from tests.bench.fleet.estate import Estate, Scale, running
from tests.bench.fleet.exporter import WHOLE
from tests.bench.fleet.figures import Stage

pytestmark = pytest.mark.timeout(180)

SMALL = Scale(history=60_000, pending=5_000, running=200, workers=50)
PATIENT = {"statement_timeout": 30.0, "detail_timeout": 30.0, "deadline": 60.0}
INTERVAL = 0.5


@pytest.fixture(scope="module")
def bench() -> Iterator[simulate.Bench]:
    # Not pytest's folder: for root the server runs as nobody, who may not enter that.
    folder = Path(tempfile.mkdtemp(prefix="fleetglass-bench-"))
    try:
        with ExitStack() as stack:
            estate = stack.enter_context(running(folder, SMALL, {"shared_buffers": "128MB", "max_wal_size": "1GB"}))
            estate.load()
            yield simulate.Bench(estate, stack, interval=INTERVAL, limits=PATIENT)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def count(estate: Estate, table: str) -> int:
    return estate.one(f"SELECT count(*) FROM {table}")


@pytest.fixture(scope="module")
def stage(bench: simulate.Bench) -> Stage:
    return bench.stage(simulate.Plan(name="small", rate=20, scrapes=WHOLE, explained=True))


def test_every_job_is_where_the_ledger_has_it(bench, stage):
    ledger = stage.ledger
    assert ledger.balanced, ledger
    assert 0 < ledger.claimed == ledger.completed
    assert count(bench.estate, "job_runtime") == SMALL.running
    assert count(bench.estate, "worker_ping") == SMALL.workers


def test_each_read_is_accounted_for_by_its_name(stage):
    whole = stage.scrapes[-1]
    assert not whole.failed
    assert whole.alive == SMALL.workers
    # With more claims than waits are taken from, the last of each tag is looked for by itself.
    names = {*SCRAPE, *WORKERS, *DETAIL, *CATALOGUE} - {"last_claims"}
    assert names <= whole.costs.keys()
    assert {name for name in names if whole.costs[name].calls != 1} == set()
    assert not stage.scrapes[0].costs.keys() & set(DETAIL), (
        "running jobs and waits are read each minute, not each scrape"
    )


def test_no_read_of_a_scrape_goes_through_the_queue_and_none_through_the_history(stage):
    for name in SCRAPE:
        assert "Seq Scan on job_queue" not in stage.plans[name]
    for name in DETAIL:
        assert "Seq Scan on job_completed" not in stage.plans[name], stage.plans[name]


def test_a_scrape_touches_what_it_counts_and_what_died_and_not_the_backlog(stage):
    """For each tag one way down the index, at most ``CAP`` jobs with a page each, and the claims since the vacuum."""
    bound = SMALL.tags * (3 * 4 + 1001) + 3 * stage.ledger.claimed
    for scrape in stage.scrapes:
        cost = total(scrape.costs, SCRAPE)
        assert cost is not None
        assert 0 < cost.buffers < bound / 4


def test_pgbench_leaves_as_many_jobs_as_it_found(bench):
    estate = bench.estate
    before = {table: count(estate, table) for table in ("job_queue", "job_completed")}
    tags = estate.run("SELECT DISTINCT tag FROM job_queue ORDER BY 1")
    done = claims.run(estate, 1, clients=2)
    assert done.jobs > 0
    assert done.failed == 0
    assert count(estate, "job_queue") == before["job_queue"]
    assert count(estate, "job_completed") == before["job_completed"] + done.jobs
    assert estate.run("SELECT DISTINCT tag FROM job_queue ORDER BY 1") == tags


def test_blocks_run_in_random_order_and_the_exporter_reads_in_its_own_rounds_only(bench, monkeypatch):
    monkeypatch.setattr(pairs, "FLAT_OUT", 20.0)
    before = bench.meter.account()
    (block,) = pairs.blocks(bench, 1, 1.0, seed=3)
    spent = between(before, bench.meter.account())
    assert sorted(block.order) == ["control", "off", "on"]
    assert min(block.on, block.off, block.control) > 0
    assert 1 <= spent["pending"].calls <= 4, "it reads every half a second, for a second"
    idle = bench.meter.account()
    claims.run(bench.estate, 1, clients=1)
    assert bench.meter.account() == idle


def test_indexes_are_there_again_after_they_were_priced(bench):
    advised = {each.name: each.ddl.replace(" CONCURRENTLY", "") for each in indexes(WINDFORCE)}
    queue = {name: ddl for name, ddl in advised.items() if name.startswith("jq_")}
    priced = pairs.priced(bench, queue, 1, 1.0, seed=1, said=lambda _: None)
    assert priced.indexes == tuple(queue)
    assert len(priced.with_them) == len(priced.without) == 1
    there = bench.estate.run("SELECT indexname FROM pg_indexes WHERE indexname LIKE '%%obs%%'")
    assert {name for (name,) in there} == set(advised)
    without = pairs.bare(bench.estate, advised)
    assert without["pending"].buffers > 100
    assert without["view"].buffers > without["pending"].buffers, "it passes over the table for every tag"
    assert "jq_obs_pending" in plans(bench.estate, SCRAPE)["pending"]


def test_series_do_not_follow_workers(bench):
    counted = series.counted(bench.estate, (10, 500))
    assert [each.workers for each in counted] == [10, 500]
    assert counted[0].series == counted[1].series > 50


def test_a_stage_is_told_in_a_line(stage):
    assert report.stage_line(stage).endswith("ledger exact")
