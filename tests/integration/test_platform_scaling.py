"""How many workers the example's cluster runs for a group: by its backlog, within what was asked for."""

from __future__ import annotations

import pytest

from examples.platform.scaling import Group, Scaler


def group(pending: float = 0, low: int = 1, high: int = 3, target: int | None = 10) -> Group:
    return Group(
        name="light", tags=["mail"], grace=10.0, target=target, cooldown=10.0, low=low, high=high, pending=pending
    )


@pytest.mark.parametrize(("backlog", "replicas"), [(0, 1), (1, 1), (10, 1), (11, 2), (25, 3), (4000, 3)], ids=str)
def test_one_worker_for_each_ten_jobs_within_the_band(backlog, replicas):
    assert Scaler().replicas(group(backlog), 0.0) == replicas


def test_a_group_without_a_target_is_as_many_as_were_asked_for():
    assert Scaler().replicas(group(4000, low=2, high=2, target=None), 0.0) == 2


def test_it_grows_at_once_and_shrinks_when_the_cooldown_has_passed_without_need():
    scaler = Scaler()
    assert scaler.replicas(group(30), 0.0) == 3
    assert scaler.replicas(group(0), 9.0) == 3
    assert scaler.replicas(group(30), 10.0) == 3
    assert scaler.replicas(group(0), 19.0) == 3
    assert scaler.replicas(group(0), 20.5) == 1


def test_what_somebody_asks_for_counts_at_once_in_both_directions():
    scaler = Scaler()
    assert scaler.replicas(group(low=4, high=4), 0.0) == 4
    assert scaler.replicas(group(low=1, high=1), 1.0) == 1
    assert scaler.replicas(group(low=0, high=0), 2.0) == 0


def test_a_group_scaled_to_nothing_comes_back_for_its_backlog():
    scaler = Scaler()
    assert scaler.replicas(group(0, low=0), 0.0) == 0
    assert scaler.replicas(group(1, low=0), 1.0) == 1
