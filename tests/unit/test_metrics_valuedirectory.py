"""The shared directory, as far as one process can tell; kills and real pids are in the integration tests."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from prometheus_client.mmap_dict import mmap_key
from prometheus_client.samples import Sample

from telemetry.metrics import valuedirectory
from telemetry.metrics.valuedirectory import Directory, has_open, start_time
from telemetry.metrics.valuefiles import pack

KEY = mmap_key("jobs", "jobs_total", [], [], "Help.")
GAUGE = mmap_key("depth", "depth", [], [], "Help.")


def dead_pid() -> int:
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    return done.pid


def put(folder: Path, name: str, key: str = KEY, value: float = 1.0) -> Path:
    path = folder / name
    path.write_bytes(pack({key: (value, 0.0)}))
    return path


def samples(folder: Path) -> list[Sample]:
    return [sample for family in Directory(folder).families() for sample in family.samples]


def total(folder: Path) -> float:
    return sum(sample.value for sample in samples(folder))


def test_a_start_time_is_that_of_the_process_and_none_for_the_dead() -> None:
    mine = start_time(os.getpid())
    assert mine is not None
    assert mine.isdigit() or mine == "?"
    assert start_time(dead_pid()) is None


def test_a_zombie_is_dead() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    deadline = time.monotonic() + 10
    while start_time(child.pid) is not None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert start_time(child.pid) is None
    child.wait()


def test_an_open_file_is_found_by_what_it_is_and_not_by_its_name(tmp_path: Path) -> None:
    path = put(tmp_path, "counter_1.db")
    assert has_open(os.getpid(), path) is False
    with path.open("rb"):
        moved = path.rename(tmp_path / "moved")
        assert has_open(os.getpid(), moved) is True
    assert has_open(dead_pid(), moved) is None


def test_a_claim_puts_aside_what_a_dead_process_left_under_our_pid(tmp_path: Path) -> None:
    pid = os.getpid()
    put(tmp_path, f"counter_{pid}.db", value=5)
    put(tmp_path, f"gauge_livesum_{pid}.db", GAUGE)
    put(tmp_path, f"gauge_all_{pid}.db", GAUGE)
    (tmp_path / f"{pid}.owner").write_text("1")
    directory = Directory(tmp_path)
    directory.claim()
    assert not list(tmp_path.glob(f"*_{pid}.db"))
    assert (tmp_path / f"{pid}.owner").read_text() == start_time(pid)
    assert total(tmp_path) == 5


def test_a_second_claim_leaves_our_own_files_alone(tmp_path: Path) -> None:
    directory = Directory(tmp_path)
    directory.claim()
    mine = put(tmp_path, f"counter_{os.getpid()}.db")
    directory.claim()
    assert mine.exists()
    assert total(tmp_path) == 1
    assert mine.exists(), "the owner file says that we live"


def test_files_of_the_dead_become_one_and_their_owners_go(tmp_path: Path) -> None:
    for _ in range(3):
        pid = dead_pid()
        put(tmp_path, f"counter_{pid}.db", value=2)
        (tmp_path / f"{pid}.owner").write_text("1")
    assert total(tmp_path) == 6
    assert sorted(path.name for path in tmp_path.iterdir()) == ["counter_folded-1.db", "fold.lock"]
    put(tmp_path, f"counter_{dead_pid()}.db", value=1)
    assert total(tmp_path) == 7
    assert sorted(path.name for path in tmp_path.iterdir()) == ["counter_folded-2.db", "fold.lock"]


@pytest.mark.parametrize(
    ("left", "expected"),
    [
        ({"counter_7.dead-2": 1}, 11),  # killed before the commit: still to be folded
        ({"counter_7.dead-1": 1}, 10),  # killed after the commit: in the folded file already
        ({"counter_folded.new": 99}, 10),  # killed while it wrote
        ({"counter_folded-0.db": 9}, 10),  # killed before it removed the former one
    ],
)
def test_a_folding_that_was_killed_is_completed(tmp_path: Path, left: dict[str, float], expected: float) -> None:
    put(tmp_path, "counter_folded-1.db", value=10)
    for name, value in left.items():
        put(tmp_path, name, value=value)
    assert total(tmp_path) == expected
    assert total(tmp_path) == expected
    assert len(list(tmp_path.glob("counter_*.db"))) == 1
    assert not list(tmp_path.glob("*.dead-*"))


@pytest.mark.expects_fault("metrics.multiprocess")
def test_a_full_disk_stops_the_folding_and_not_the_counting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    put(tmp_path, f"counter_{dead_pid()}.db", value=3)
    monkeypatch.setattr(Path, "write_bytes", full)
    assert total(tmp_path) == 3
    assert total(tmp_path) == 3
    monkeypatch.undo()
    assert total(tmp_path) == 3
    assert (tmp_path / "counter_folded-1.db").exists()


@pytest.mark.expects_fault("metrics.multiprocess")
def test_a_file_that_somebody_else_put_there_stops_nothing(tmp_path: Path) -> None:
    put(tmp_path, "counter_folded-x.db", value=4)
    put(tmp_path, f"gauge_sum_{dead_pid()}.db", GAUGE, value=3)
    (tmp_path / "readme.txt").write_text("hello")
    assert total(tmp_path) == 7


def test_gauges_of_every_process_are_kept_for_a_bounded_number_of_the_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(valuedirectory, "DEAD_GAUGES_KEPT", 3)
    monkeypatch.setattr(valuedirectory, "start_time", lambda pid: None)
    for pid in range(1, 6):
        os.utime(put(tmp_path, f"gauge_all_{pid}.db", GAUGE), (pid, pid))
    assert sorted(sample.labels["pid"] for sample in samples(tmp_path)) == ["3", "4", "5"]


def test_threads_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(valuedirectory, "LOCK_SECONDS", 0.05)
    directory = Directory(tmp_path)
    with directory._lock(), pytest.raises(TimeoutError, match=r"fold\.lock"):
        directory.families()
    directory.families()
