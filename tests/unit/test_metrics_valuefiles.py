"""Value files of multiprocess mode, read and written byte for byte as prometheus-client does."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from prometheus_client.mmap_dict import MmapedDict, mmap_key
from prometheus_client.multiprocess import MultiProcessCollector

from telemetry.metrics import valuefiles
from telemetry.metrics.valuefiles import FileName, Values, families, merge, pack, parse_key, parse_name, read


def key(family: str, sample: str, **labels: str) -> str:
    return mmap_key(family, sample, list(labels), list(labels.values()), "Help.")


def upstream(path: Path, values: dict[str, tuple[float, float]]) -> None:
    """A file that prometheus-client wrote."""
    file = MmapedDict(str(path))
    for each, (value, at) in values.items():
        file.write_value(each, value, at)
    file.close()


VALUES = {
    key("jobs", "jobs_total", queue="mail"): (3.0, 0.0),
    key("jobs", "jobs_total", queue="한글"): (0.5, 12.25),
    key("longer_by_a_byte", "longer_by_a_byte_total"): (1e300, 0.0),
}


def test_a_file_of_prometheus_clients_is_read(tmp_path: Path) -> None:
    upstream(tmp_path / "counter_1.db", VALUES)
    assert read(tmp_path / "counter_1.db") == (VALUES, "")


def test_a_file_of_ours_is_read_by_prometheus_client(tmp_path: Path) -> None:
    path = tmp_path / "counter_1.db"
    path.write_bytes(pack(VALUES))
    found = {k: (value, at) for k, value, at, _ in MmapedDict.read_all_values_from_file(str(path))}
    assert found == VALUES
    assert read(path) == (VALUES, "")


def test_a_file_that_grew_is_read(tmp_path: Path) -> None:
    many = {key("jobs", "jobs_total", queue=str(number)): (float(number), 0.0) for number in range(3000)}
    upstream(tmp_path / "counter_1.db", many)
    assert read(tmp_path / "counter_1.db") == (many, "")


def test_an_empty_file_is_a_process_that_has_just_begun(tmp_path: Path) -> None:
    path = tmp_path / "counter_1.db"
    path.write_bytes(b"")
    assert read(path) == ({}, "")
    path.write_bytes(b"\0" * 65536)
    assert read(path) == ({}, "")


@pytest.mark.parametrize("cut", range(0, 400, 7))
def test_a_file_cut_anywhere_gives_its_whole_entries(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "counter_1.db"
    data = pack(VALUES)
    path.write_bytes(data[:cut])
    values, problem = read(path)
    assert values.items() <= VALUES.items()
    assert bool(problem) == (0 < cut < len(data))


@pytest.mark.parametrize("at", [8, 12, 13])
@pytest.mark.parametrize("junk", [b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\0\0\0"])
def test_a_file_with_junk_in_it_gives_what_stands_before(tmp_path: Path, at: int, junk: bytes) -> None:
    path = tmp_path / "counter_1.db"
    data = bytearray(pack(VALUES))
    data[at : at + 4] = junk
    path.write_bytes(bytes(data))
    values, problem = read(path)
    assert not values
    assert "byte 8" in problem


def test_keys_of_another_shape_are_none() -> None:
    for text in ("", "{", "[1]", "7", json.dumps(["a", "b", "c", "d"]), json.dumps(["a", "b", {}, "d", "e"])):
        assert parse_key(text) is None


def test_the_cache_of_keys_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(valuefiles, "_MOST_PARSED", 5)
    monkeypatch.setattr(valuefiles, "_parsed", {})
    for number in range(20):
        parse_key(key("a", "a", n=str(number)))
    assert len(valuefiles._parsed) <= 5


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("counter_12.db", FileName("counter", "12")),
        ("gauge_livesum_12.db", FileName("gauge_livesum", "12")),
        ("histogram_12-99.db", FileName("histogram", "12-99")),
        ("counter_folded-3.db", FileName("counter", "folded-3")),
        ("counter.db", None),
        ("counter_12.db.new", None),
        ("gauge_12.db", None),
        ("12.owner", None),
    ],
)
def test_file_names(name: str, expected: FileName | None) -> None:
    assert parse_name(name) == expected


def test_only_a_pid_is_a_pid() -> None:
    assert FileName("counter", "12").pid == 12
    assert FileName("counter", "12-99").pid is None
    assert FileName("counter", "folded-3").pid is None


def test_what_dead_processes_leave_is_put_together_by_kind() -> None:
    def merged(kind: str, *values: tuple[float, float]) -> tuple[float, float]:
        into: Values = {}
        for each in values:
            merge(kind, into, {"k": each})
        return into["k"]

    assert merged("counter", (1, 0), (2, 0))[0] == 3
    assert merged("histogram", (1, 0), (2, 0))[0] == 3
    assert merged("gauge_sum", (1, 0), (2, 0))[0] == 3
    assert merged("gauge_min", (1, 0), (2, 0))[0] == 1
    assert merged("gauge_max", (1, 0), (2, 0))[0] == 2
    assert merged("gauge_mostrecent", (1, 20), (2, 10)) == (1, 20)
    assert merged("gauge_mostrecent", (1, 10), (2, 20)) == (2, 20)


def test_families_are_those_that_prometheus_clients_collector_makes(tmp_path: Path) -> None:
    gauge, wait = key("depth", "depth", q="a"), "wait_seconds"
    for pid, factor in ((1, 1.0), (2, 10.0)):
        upstream(tmp_path / f"counter_{pid}.db", {k: (v[0] * factor, 0.0) for k, v in VALUES.items()})
        upstream(tmp_path / f"summary_{pid}.db", {key("size", "size_count"): (factor, 0.0)})
        upstream(
            tmp_path / f"histogram_{pid}.db",
            {
                key(wait, "wait_seconds_sum", q="a"): (factor, 0.0),
                **{key(wait, "wait_seconds_bucket", q="a", le=le): (factor, 0.0) for le in ("+Inf", "0.1", "1.0")},
            },
        )
        for mode in ("all", "liveall", "min", "livemin", "max", "sum", "livesum", "livemax"):
            upstream(tmp_path / f"gauge_{mode}_{pid}.db", {gauge.replace("depth", mode): (factor, 0.0)})
        for mode in ("mostrecent", "livemostrecent"):
            upstream(tmp_path / f"gauge_{mode}_{pid}.db", {gauge.replace("depth", mode): (factor, 5.0 - pid)})
    paths = sorted(tmp_path.glob("*.db"))
    ours = families((name, read(path)[0]) for path in paths if (name := parse_name(path.name)))
    theirs = MultiProcessCollector.merge([str(path) for path in paths])

    def flat(found: object) -> set[tuple[object, ...]]:
        return {
            (family.name, family.type, family.documentation, s.name, tuple(sorted(s.labels.items())), s.value)
            for family in found  # type: ignore[attr-defined]
            for s in family.samples
        }

    assert flat(ours) == flat(theirs)
    assert len(flat(ours)) > 15


def test_one_name_of_two_kinds_is_the_first() -> None:
    k = key("jobs", "jobs_total")
    found = families([(FileName("counter", "1"), {k: (1.0, 0.0)}), (FileName("gauge_livesum", "1"), {k: (9.0, 0.0)})])
    assert [(family.type, [s.value for s in family.samples]) for family in found] == [("counter", [1.0])]


def test_the_header_says_how_much_is_used() -> None:
    assert struct.unpack_from("i", pack({}))[0] == 8
    assert struct.unpack_from("i", pack(VALUES))[0] == len(pack(VALUES))
