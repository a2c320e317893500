"""Source maps: decoded right, bounded, found only in the operator's directory, and never in a report's way.

``sourcemaps/app-3f2a9c1b.js.map`` was written by esbuild 0.28 for a bundle of two small modules.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.errors import sourcemaps
from ingest.errors.fingerprint import OTHER, fingerprint
from ingest.errors.mappings import BadMap, Origin, SourceMap
from ingest.errors.report import Report
from ingest.errors.sourcemaps import MapFolder, SourceMaps, source_line
from telemetry.metrics.registry import REGISTRY
from tests.loki_grammar import detected_level, logfmt

MAPS = Path(__file__).parent / "sourcemaps"
MAP = (MAPS / "app-3f2a9c1b.js.map").read_bytes()
BUNDLE = "https://console.example/assets/app-3f2a9c1b.js"
STACK = f"""TypeError: Cannot read properties of undefined (reading 'name')
    at n ({BUNDLE}:1:30)
    at r ({BUNDLE}:1:63)
    at o ({BUNDLE}:1:87)
    at globalThis.start ({BUNDLE}:1:135)
    at Array.map (<anonymous>)
    at https://console.example/other.js:2:3"""
RESOLVED = """\
    at validate (src/form.ts:2:24)
    at saveForm (src/app.ts:6:18)
    at onClick (src/app.ts:11:17)
    at start (src/app.ts:15:56)
    at map (<unknown>)
    at https://console.example/other.js:2:3"""


def document(**fields) -> bytes:
    return json.dumps({"version": 3, "sources": ["a.ts"], "names": ["n"], "mappings": "AAAAA"} | fields).encode()


NESTED = json.dumps(
    {"version": 3, "sections": [{"offset": {"line": 0, "column": 0}, "map": {"version": 3, "sections": []}}]}
).encode()


@pytest.fixture
def folder(tmp_path):
    shutil.copy(MAPS / "app-3f2a9c1b.js.map", tmp_path)
    return tmp_path


@pytest.fixture
def lines():
    made: list[str] = []
    return made


@pytest.fixture
def worker(folder, lines):
    maps = SourceMaps(str(folder), lambda line: lines.append(line.line), lambda: 1_796_038_559.1234)
    yield maps
    maps.close()


def counted(result: str) -> float:
    return REGISTRY.get_sample_value("frontend_sourcemaps_total", {"result": result}) or 0.0


# Decoding


def test_what_esbuild_wrote_is_read_back():
    read = SourceMap.read(MAP)
    assert read.find(1, 30) == Origin("src/form.ts", 2, 24, "")
    assert read.find(1, 63) == Origin("src/app.ts", 6, 18, "validate")
    assert read.find(1, 87) == Origin("src/app.ts", 11, 17, "saveForm")


def test_places_that_no_source_has():
    read = SourceMap.read(document(mappings="AAAAA,K;;CAAC"))
    assert read.find(1, 1) == Origin("a.ts", 1, 1, "n")
    assert read.find(1, 5) == Origin("a.ts", 1, 1, "n")
    assert read.find(1, 6) is None  # a segment of one number ends what is known
    assert read.find(2, 1) is None
    assert read.find(3, 1) is None
    assert read.find(3, 2) == Origin("a.ts", 1, 2, "")
    assert read.find(0, 1) is None
    assert read.find(10**9, 10**9) is None


def test_an_index_map_is_one_map():
    part = json.loads(document())
    sections = [
        {"offset": {"line": 0, "column": 10}, "map": part},
        {"offset": {"line": 4, "column": 0}, "map": part | {"sources": ["b.ts"], "names": ["m"]}},
    ]
    read = SourceMap.read(json.dumps({"version": 3, "sections": sections}).encode())
    assert read.find(1, 10) is None
    assert read.find(1, 11) == Origin("a.ts", 1, 1, "n")
    assert read.find(5, 1) == Origin("b.ts", 1, 1, "m")


@pytest.mark.parametrize(
    ("root", "source", "path"),
    [
        (None, "../../src/jobs.ts", "src/jobs.ts"),
        ("", "webpack://console/./src/jobs.ts?a1b2", "src/jobs.ts"),
        ("webpack:///", "src/jobs.ts", "src/jobs.ts"),
        ("/build", "jobs.ts", "build/jobs.ts"),
        (None, None, ""),
    ],
)
def test_sources_are_named_from_their_root(root, source, path):
    assert SourceMap.read(document(sourceRoot=root, sources=[source])).find(1, 1).source == path


def test_the_guard_against_inclusion_as_a_script_is_skipped():
    assert len(SourceMap.read(b")]}'\n" + document())) == 1


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{}", b"[]", b"\xff", document(version=2), document(mappings="AAAA!"), document(mappings="AA"),
        document(mappings="g"), document(mappings="ggggggggggggA"), document(mappings="ACAA"),
        document(mappings="AADA"), document(mappings="AAAAC"), document(mappings="D"), document(mappings="K,J"),
        document(sources=[]), NESTED,
        b'{"version":3,"sections":[' + b'{"offset":{"line":0,"column":0},"map":{"version":3,"sections":[' * 5000,
    ],
)  # fmt: skip
def test_what_is_no_source_map_is_refused(data):
    with pytest.raises(BadMap):
        SourceMap.read(data)


@given(
    mappings=st.text("AABCDEgK9/,;,", max_size=60) | st.text(max_size=9),
    sources=st.lists(st.none() | st.text(max_size=5), max_size=3),
    names=st.lists(st.text(max_size=5), max_size=3),
    place=st.tuples(st.integers(-2, 9), st.integers(-2, 99)),
)
def test_any_mappings_are_a_map_or_none(mappings, sources, names, place):
    try:
        read = SourceMap.read(document(mappings=mappings, sources=sources, names=names))
    except BadMap:
        return
    found = read.find(*place)
    assert found is None or (found.line >= 1 and found.column >= 1)


def test_a_map_of_too_many_segments_is_refused(monkeypatch):
    monkeypatch.setattr("ingest.errors.mappings.MAX_SEGMENTS", 5000)
    with pytest.raises(BadMap, match="more than 5,000 segments"):
        SourceMap.read(document(mappings="AAAA," * 6000))


# Files


def test_equal_names_are_told_apart_by_release_and_folder(tmp_path):
    for path in ("1.0/app.js.map", "2.0/app.js.map", "assets/jobs/index.js.map", "assets/users/index.js.map"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(MAP)
    found = MapFolder(str(tmp_path))
    assert found.find("https://c.example/app.js", "2.0") == tmp_path / "2.0/app.js.map"
    assert found.find("https://c.example/app.js", "3.0") is None  # both fit as well, so none does
    assert found.find("https://c.example/assets/users/index.js?v=1", "") == tmp_path / "assets/users/index.js.map"
    assert found.find("https://c.example/nowhere.js", "2.0") is None


@pytest.mark.parametrize(
    "address",
    ["https://c.example/../../etc/passwd", "../secret.js", "/etc/passwd", "..", "", "https://c.example/%2e%2e/secret.js",
     "file:///etc/passwd", "a\x00b", "secret.js/", "\\..\\secret.js", "....//secret"],
)  # fmt: skip
def test_no_report_reaches_a_file_outside(tmp_path, address):
    inside = tmp_path / "maps"
    inside.mkdir()
    (tmp_path / "secret.js.map").write_bytes(MAP)
    (tmp_path / "secret.map").write_bytes(MAP)
    assert MapFolder(str(inside)).find(address, "..") is None


def test_links_may_not_lead_outside(tmp_path):
    inside = tmp_path / "maps"
    inside.mkdir()
    (tmp_path / "secret.js.map").write_bytes(MAP)
    (inside / "app.js.map").symlink_to(tmp_path / "secret.js.map")
    assert MapFolder(str(inside)).find("https://c.example/app.js", "") is None


def test_a_mounted_config_map_is_read_once(tmp_path):
    # Kubernetes: app.js.map -> ..data/app.js.map, ..data -> ..2026_11_30
    version = tmp_path / "..2026_11_30"
    version.mkdir()
    (version / "app.js.map").write_bytes(MAP)
    (tmp_path / "..data").symlink_to("..2026_11_30")
    (tmp_path / "app.js.map").symlink_to("..data/app.js.map")
    assert MapFolder(str(tmp_path)).find("https://c.example/app.js", "") == tmp_path / "app.js.map"


# Stacks


def test_a_minified_stack_in_terms_of_the_sources(worker):
    assert worker.resolve(Report(stack=STACK)) == RESOLVED


@pytest.mark.parametrize("form", ["n@{0}:1:30\nr@{0}:1:63", "    at async n ({0}:1:30)\n    at async r ({0}:1:63)"])
def test_other_engines_are_resolved_as_well(worker, form):
    assert "src/form.ts:2:24" in worker.resolve(Report(stack=form.format(BUNDLE)))


def test_a_stack_that_no_map_knows_gives_no_line(worker, lines):
    before = counted("unmapped")
    worker.offer(Report(stack="f@https://c.example/other.js:1:1"), "9f2c01d4a7b3e856")
    worker.close()
    assert (lines, counted("unmapped")) == ([], before + 1)


def test_the_second_line(worker, lines):
    report = Report(stack=STACK, build="production", release="1.4.2", url="/jobs?token=s3cret", message="m")
    worker.offer(report, fp := fingerprint("error", "m", STACK))
    worker.close()
    (line,) = lines
    read = logfmt(line, strict=True)
    assert read == {
        "ts": "2026-11-30T11:35:59.123Z",
        "level": "info",
        "logger": "frontend",
        "fp": fp,
        "build": "production",
        "release": "1.4.2",
        "stack": RESOLVED,
    }
    assert " frontend-source " in line
    assert "frontend-error" not in line  # counts of errors stay what they are
    assert detected_level(line) == "info"


def test_hostile_sources_break_no_line():
    stack = '\n" email="ceo@acme.example\u202e\x00' * 300
    made = source_line(Report(build='"' * 99), stack, 0.0, "9f2c01d4a7b3e856")
    read = logfmt(made.line, strict=True)
    assert {name: str(value) for name, value in made.fields.items() if name != "msg"} == read
    assert len(made.line.encode()) < 8192
    assert read["cut"].startswith("build:198,stack:")


def test_an_error_of_a_release_is_resolved_once(worker, lines):
    for _ in range(5):
        worker.offer(Report(stack=STACK, release="1"), "9f2c01d4a7b3e856")
    worker.offer(Report(stack=STACK, release="2"), "9f2c01d4a7b3e856")
    worker.offer(Report(stack=STACK), OTHER)
    worker.offer(Report(), "0000000000000000")
    worker.close()
    assert len(lines) == 2


def test_offering_never_waits_and_what_is_too_much_is_counted(worker, lines, monkeypatch):
    held, released = threading.Event(), threading.Event()

    def hang(_: Report) -> str:
        held.set()
        released.wait(30)
        return RESOLVED

    monkeypatch.setattr(worker, "resolve", hang)
    before = counted("dropped")
    worker.offer(Report(stack=STACK), f"{0:016x}")
    assert held.wait(30)
    start = time.perf_counter()
    for number in range(1, 200):
        worker.offer(Report(stack=STACK), f"{number:016x}")
    assert time.perf_counter() - start < 10.0
    assert counted("dropped") == before + 199 - 64
    released.set()
    worker.close(5)
    assert len(lines) == 65


def test_files_that_change_are_read_again_and_broken_ones_said(folder, worker, caplog):
    path = folder / "app-3f2a9c1b.js.map"
    assert worker.resolve(Report(stack=STACK)) == RESOLVED
    path.write_bytes(b"{}")
    os.utime(path, ns=(1, 1))
    with caplog.at_level(logging.WARNING, "ingest"):
        assert worker.resolve(Report(stack=STACK)) is None
        assert worker.resolve(Report(stack=STACK)) is None
    assert [record.getMessage().partition(".map ")[2] for record in caplog.records] == [
        "is not used: not the JSON of a source map"
    ]
    path.unlink()
    assert worker.resolve(Report(stack=STACK)) is None


def test_large_files_and_pipes_are_not_read(folder, worker, caplog, monkeypatch):
    monkeypatch.setattr(sourcemaps, "MAX_MAP_BYTES", 100)
    os.mkfifo(folder / "pipe.js.map")
    assert worker.resolve(Report(stack=STACK)) is None
    assert worker.resolve(Report(stack="f@https://c.example/pipe.js:1:1")) is None
    assert [record.getMessage().rpartition(": ")[2] for record in caplog.records] == [
        "more than 100 bytes",
        "not a file",
    ]


def test_maps_make_room_for_each_other(folder, worker, monkeypatch):
    for name in ("b", "c"):
        (folder / f"{name}.js.map").write_bytes(MAP)
    monkeypatch.setattr(sourcemaps, "MAX_SEGMENTS", len(SourceMap.read(MAP)) * 2)
    for name in ("app-3f2a9c1b", "b", "c"):
        assert worker.resolve(Report(stack=f"f@https://c.example/{name}.js:1:30"))
    assert [path.name for path in worker._maps] == ["b.js.map", "c.js.map"]
