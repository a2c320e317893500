"""The statistics of paired rounds, and what the report makes of figures: pure functions."""

from __future__ import annotations

import math
import random

import pytest

from tests.bench.fleet import claims, figures, report, simulate, stats
from tests.bench.fleet.cost import Cost, between, total
from tests.bench.fleet.estate import Scale


def rounds(blocks: int, effect: float, noise: float, seed: int = 7) -> tuple[list[float], list[float], list[float]]:
    """Blocks on a machine whose speed wanders a lot from block to block, and by ``noise`` within one."""
    rng = random.Random(seed)
    on, off, control = [], [], []
    for _ in range(blocks):
        speed = 1000 * math.exp(rng.gauss(0, 0.5))
        on.append(speed * effect * math.exp(rng.gauss(0, noise)))
        off.append(speed * math.exp(rng.gauss(0, noise)))
        control.append(speed * math.exp(rng.gauss(0, noise)))
    return on, off, control


def test_a_loss_is_found_although_the_machine_wanders_by_far_more():
    found = stats.verdict(*rounds(21, 0.94, 0.01))
    assert found.p < 0.001
    assert found.effect == pytest.approx(0.94, abs=0.01)


def test_no_loss_is_found_where_there_is_none():
    assert stats.verdict(*rounds(21, 1.0, 0.01)).p > 0.05


def test_runs_without_a_loss_are_rarely_called_one():
    wrong = sum(stats.verdict(*rounds(8, 1.0, 0.02, seed), draws=400).p <= 0.05 for seed in range(40))
    assert wrong <= 7


def test_the_loss_that_is_said_to_be_visible_is_found_four_times_out_of_five():
    visible = stats.verdict(*rounds(21, 1.0, 0.02)).seen
    found = sum(stats.verdict(*rounds(21, 1 - visible, 0.02, seed), draws=400).p <= 0.05 for seed in range(20))
    assert found >= 12


def test_more_blocks_see_smaller_losses():
    assert stats.verdict(*rounds(40, 1.0, 0.02)).seen < stats.verdict(*rounds(10, 1.0, 0.02)).seen


def test_the_interval_holds_the_median_and_narrows_with_less_noise():
    wide, narrow = (stats.effect(stats.ratios(*rounds(21, 0.95, noise)[:2])) for noise in (0.05, 0.005))
    for each in (wide, narrow):
        assert each.lowest <= each.low <= each.median <= each.high <= each.highest
    assert narrow.high - narrow.low < wide.high - wide.low
    assert narrow.low <= 0.95 <= narrow.high


def test_the_same_rounds_say_the_same_again():
    measured = rounds(10, 0.98, 0.02)
    assert stats.verdict(*measured) == stats.verdict(*measured)
    assert stats.effect(measured[0]) == stats.effect(measured[0])


@pytest.mark.parametrize("of", [([1.0], [1.0], []), ([], [], [])])
def test_blocks_that_are_not_whole_are_refused(of):
    with pytest.raises(ValueError, match="no blocks of three"):
        stats.verdict(*of)


def test_nothing_measured_has_no_figure():
    for statistic in (stats.reads, stats.effect):
        with pytest.raises(ValueError, match="nothing to tell"):
            statistic([])
    with pytest.raises(ValueError, match="can't be paired"):
        stats.ratios([1.0, 2.0], [1.0])


def test_an_account_is_what_was_spent_since_and_leaves_out_what_was_not_read():
    before = {"pending": Cost(10, 100, 1, 2), "claims": Cost(50, 500, 0, 1)}
    after = {"pending": Cost(13, 130, 1, 3), "claims": Cost(50, 500, 0, 1), "exact": Cost(7, 70, 7, 1)}
    spent = between(before, after)
    assert spent == {"pending": Cost(3, 30, 0, 1), "exact": Cost(7, 70, 7, 1)}
    assert total(spent, ("pending", "exact", "claims")) == Cost(10, 100, 7, 2)
    assert total(spent, ("claims",)) is None


SAID = """\
number of transactions actually processed: 1460
number of failed transactions: 0 (0.000%)
latency average = 0.684 ms
tps = 1462.862823 (without initial connection time)
"""


def test_pgbench_is_understood_and_anything_else_is_refused():
    assert claims.parsed(SAID) == claims.Claimed(1460, 1462.862823, 0, 0.684)
    with pytest.raises(RuntimeError, match="does not tell rate"):
        claims.parsed(SAID.replace("tps", "jobs"))


def test_pgbench_claims_by_the_library_s_own_predicate():
    text = claims.script(Scale(tags=3, workers=7))
    assert "running = false AND canceled_by IS NULL AND scheduled_for <= now() AND tag = ANY(" in text
    assert "LIMIT 1 FOR UPDATE SKIP LOCKED \\gset" in text
    assert "%(" not in text


def stage(name: str = "50 claims/s", **more: object) -> figures.Stage:
    ledger = figures.Ledger(claimed=50, completed=49, enqueued=52, pending=2, running=1, ended=49, pings=9, late=0.1)
    read = {"pending": Cost(12.5, 700, 0, 1), "exact": Cost(60, 5000, 0, 1)}
    scrapes = [figures.Scrape(15.0, 1234, read, 1000, 10.2, {})]
    given = {"asked": 50.0, "rate": 49.9, "seconds": 15.0, "held": False, "scrapes": scrapes, "ledger": ledger}
    return figures.Stage(name=name, **{**given, "plans": {"pending": "Seq Scan\nPlanning Time: 1 ms"}, **more})


WHERE = figures.Where("2026-11-30", "a machine", 0.1, "PostgreSQL 18", 15.0)


def test_a_job_that_is_nowhere_unbalances_the_ledger():
    ledger = stage().ledger
    assert ledger.balanced
    for name in ("claimed", "completed", "enqueued", "pending", "running", "ended"):
        wrong = {field: getattr(ledger, field) for field in ledger.__struct_fields__}
        assert not figures.Ledger(**{**wrong, name: wrong[name] + 1}).balanced, name


def test_the_page_tells_budgets_ledger_and_plans():
    page = report.page(figures.Results(simulate=figures.Simulated(WHERE, [stage()])))
    assert "| a scrape: oldest age and capped count of each tag | 50 claims/s | at most 50 ms | 12.5 ms | met |" in page
    assert "| at most 6,000 buffers | 700 buffers | met |" in page
    assert "| 50 claims/s | 52 | 50 | 49 | 2 | 1 | 49 | 9 | exact |" in page
    assert "```text\nSeq Scan\n```" in page


def test_a_budget_that_was_exceeded_and_a_read_that_failed_are_told():
    slow = [figures.Scrape(15.0, 9, {"pending": Cost(51, 6001, 0, 1)}, 1000, 1.0, {"detail": "statement_timeout"})]
    page = report.page(figures.Results(simulate=figures.Simulated(WHERE, [stage(scrapes=slow)])))
    assert page.count("**not met**") == 2
    assert "detail: statement_timeout" in page


def test_a_stage_that_ran_again_takes_the_place_of_its_earlier_run():
    before = figures.Simulated(WHERE, [stage("b"), stage("a")])
    again = figures.merged(before, stage("a", rate=1.0), ("a", "b", "c"))
    assert [(each.name, each.rate) for each in again] == [("a", 1.0), ("b", 49.9)]
    assert figures.merged(None, stage("c"), ("a", "b", "c")) == [stage("c")]


def test_stages_are_chosen_by_their_names():
    assert simulate.named("") == list(simulate.STAGES)
    assert [plan.rate for plan in simulate.named("flat out; 50 claims/s")] == [50, 0]
    with pytest.raises(ValueError, match="no stage is called 51 claims/s"):
        simulate.named("51 claims/s")


def test_pairs_tell_both_ratios_and_what_could_have_been_seen():
    on, off, control = rounds(20, 1.0, 0.02)
    blocks = [figures.Block(("on", "off", "control"), *block) for block in zip(on, off, control, strict=True)]
    paired = figures.Paired(WHERE, 20.0, 8, blocks, {"pending": Cost(100, 1, 0, 27), "exact": Cost(300, 1, 0, 7)})
    page = report.page(figures.Results(pairs=paired))
    assert "scraped 27 times, read all 7 times, and took 400 ms" in page
    assert f"| on / off | {stats.effect(stats.ratios(on, off)).median:.4f} |" in page
    assert "| control: off / off |" in page
    assert "four times out of five" in page
