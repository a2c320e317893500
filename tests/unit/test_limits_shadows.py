"""What a process remembers of windows in the store: told by it only where nobody else can have told it."""

from __future__ import annotations

import pytest

from ingest.limits.rules import Sample
from ingest.limits.scripts import GRACE_MS, LATEST_MS
from ingest.limits.shadows import Shadows
from ingest.limits.store import Closed, Met, Told

KEY = ("mina@acme.example", "acme", "error", "f")
SAID = Sample(message="m")


class Process:
    def __init__(self, most: int = 100) -> None:
        self.told = []
        self.shadows = Shadows(most, self.told.append)

    def open(self, ends: int = 10_000, life: str = "one") -> None:
        self.shadows.met(KEY, 1, SAID, Met(False, ends, "f", life))

    def count(self, repeat: int, ends: int = 10_000, life: str = "one", fp: str = "f") -> None:
        self.shadows.met(KEY, repeat, SAID, Met(True, ends, fp, life))

    def sweep(self, at: int, *told: Told, life: str = "one", more: bool = False) -> None:
        self.shadows.closed(Closed(told, 0, at, at - GRACE_MS, more, life), "expired")

    @property
    def repeats(self) -> list[tuple[int, str]]:
        return [(closing.repeat, closing.cause) for closing in self.told]


@pytest.fixture
def process() -> Process:
    return Process()


def test_what_this_process_took_out_is_told_with_everybodys_part(process):
    process.open()
    process.count(3)
    process.sweep(10_100, Told(KEY, 10_000, 8, SAID, False))
    process.sweep(99_000)
    assert process.repeats == [(8, "expired")]
    assert len(process.shadows) == 0


def test_what_another_closed_is_told_by_the_other(process):
    process.count(3)
    process.sweep(10_100)
    assert len(process.shadows) == 1  # its opener may yet be about to
    process.sweep(10_000 + GRACE_MS)
    assert len(process.shadows) == 0
    assert process.repeats == []


def test_what_another_left_is_told_as_adopted(process):
    process.sweep(10_000 + GRACE_MS, Told(KEY, 10_000, 8, SAID, True))
    assert process.repeats == [(8, "adopted")]


def test_a_sweep_that_left_some_proves_nothing(process):
    process.count(3)
    process.sweep(99_000, more=True)
    assert len(process.shadows) == 1


def test_parts_of_a_lost_life_are_told(process):
    process.open()
    process.count(3)
    process.count(4)
    process.sweep(5_000)
    process.sweep(6_000, life="two")
    assert process.repeats == [(7, "store_lost")]
    process.sweep(99_000, life="two")
    assert len(process.told) == 1


def test_of_a_lost_life_others_windows_that_had_ended_were_told_by_others(process):
    process.count(3, ends=10_000)
    process.count(4, ends=12_000)
    process.sweep(11_000)
    process.sweep(13_000, life="two")
    assert process.repeats == [(4, "store_lost")]


def test_of_a_lost_life_ones_own_windows_are_told_even_when_they_had_ended(process):
    process.open()
    process.count(3)
    process.shadows.closed(Closed((), 0, 10_500, 10_500 - GRACE_MS, True, "one"), "expired")
    process.sweep(13_000, life="two")
    assert process.repeats == [(3, "store_lost")]


def test_a_store_that_is_away_is_waited_for_until_it_has_forgotten(process):
    process.count(3)
    process.shadows.unreachable(10_000 + LATEST_MS)
    assert process.repeats == []
    process.shadows.unreachable(10_001 + LATEST_MS)
    assert process.repeats == [(3, "store_lost")]


def test_windows_of_one_key_stay_apart_and_folded_ones_go_by_their_fold(process):
    process.count(1, ends=10_000)
    process.count(2, ends=22_000)
    process.count(4, fp="other")
    process.shadows.tell_all()
    assert process.repeats == [(1, "store_lost"), (2, "store_lost"), (4, "store_lost")]
    assert [closing.key[3] for closing in process.told] == ["f", "f", "other"]


def test_there_is_room_for_so_many():
    process = Process(most=3)
    for ends in range(10):
        process.open(ends)
        process.count(1, ends)
    assert len(process.shadows) == len(process.shadows._mine) == 3
