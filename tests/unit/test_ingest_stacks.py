"""Frames out of stacks as the engines write them. ``engine_stacks.json`` holds what three real browsers said.

It was written by one page in Chromium 156, Firefox ESR 153 and WebKitGTK 2.50, its origin replaced.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from ingest.errors.stacks import Frame, frame, frames

ENGINES = json.loads((Path(__file__).parent / "engine_stacks.json").read_text())
APP = "https://console.example/assets/app-3f2a9c1b.js"


def seen(stack: str) -> list[tuple[str, str, int]]:
    """Name, file without query, and line of every frame that is not the engine's."""
    return [(f.name, f.file.partition("?")[0], f.line) for f in frames(stack) if not f.native]


@pytest.mark.parametrize("case", ["method", "constructor", "getter", "member", "anonymous", "timer", "json", "native"])
def test_three_real_engines_give_the_same_frames(case):
    chromium, firefox, webkit = (seen(ENGINES[engine][case]["stack"]) for engine in ("chromium", "firefox", "webkit"))
    assert chromium == firefox == webkit
    assert chromium[0][1] == APP


def test_evaluated_code_is_told_by_each_engine_in_its_own_way():
    for engine in ENGINES:
        called = list(frames(ENGINES[engine]["eval"]["stack"]))
        assert [f.name for f in called if f.evaluated and f.name] == ["evaluated"]
        assert seen(ENGINES[engine]["eval"]["stack"])[0] == ("inner", APP, 13)


def test_what_an_await_resumed_is_marked():
    called = list(frames(ENGINES["chromium"]["async"]["stack"]))
    assert [(f.name, f.resumed) for f in called] == [
        ("inner", False), ("fetchAll", False), ("load", True), ("later", True),
    ]  # fmt: skip


A = "https://c.example/a.js"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        # V8
        (f"    at save ({A}:10:5)", Frame("save", A, 10, 5)),
        (f"    at {A}:10:5", Frame("", A, 10, 5)),
        (f"    at async {A}:10:5", Frame("", A, 10, 5, resumed=True)),
        (f"    at async Form.save ({A}:10:5)", Frame("Form.save", A, 10, 5, resumed=True)),
        (f"    at new Form ({A}:1:2)", Frame("Form", A, 1, 2)),
        (f"    at Object.foo [as bar] ({A}:1:2)", Frame("Object.foo", A, 1, 2)),
        (f"    at get total [as total] ({A}:1:2)", Frame("total", A, 1, 2)),
        (f"    at Object.<anonymous> ({A}:1:2)", Frame("Object.<anonymous>", A, 1, 2)),
        ("    at Array.map (<anonymous>)", Frame("Array.map", "", native=True)),
        ("    at Array.forEach (native)", Frame("Array.forEach", "", native=True)),
        ("    at async Promise.all (index 0)", Frame("Promise.all", "", native=True, resumed=True)),
        ("    at <anonymous>", Frame("", "", native=True)),
        ("    at <anonymous>:1:5", Frame("", "", 1, 5, evaluated=True)),
        (f"    at eval (eval at foo ({A}:3:4), <anonymous>:1:1)", Frame("eval", A, 3, 4, evaluated=True)),
        (
            f"at baz (eval at foo (eval at speak ({A}:21:17)), <anonymous>:1:30)",
            Frame("baz", A, 21, 17, evaluated=True),
        ),
        ("    at f (https://c.example/a(1).js:1:2)", Frame("f", "https://c.example/a(1).js", 1, 2)),
        ("    at f (webpack-internal:///./src/a.ts?:1:2)", Frame("f", "webpack-internal:///./src/a.ts?", 1, 2)),
        ("    at f (file:///C:/a.js:1:2)", Frame("f", "file:///C:/a.js", 1, 2)),
        ("    at f (C:\\a.js:1:2)", Frame("f", "C:\\a.js", 1, 2)),
        (
            "    at w (wasm://wasm/00b0:wasm-function[12]:0x34)",
            Frame("w", "wasm://wasm/00b0", 1),
        ),
        # Gecko
        (f"save@{A}:10:5", Frame("save", A, 10, 5)),
        (f"@{A}:10:5", Frame("", A, 10, 5)),
        (f"save@{A}:10", Frame("save", A, 10)),
        (f"async*save@{A}:10:5", Frame("save", A, 10, 5, resumed=True)),
        (f"setTimeout handler*save@{A}:10:5", Frame("save", A, 10, 5, resumed=True)),
        (f"promise callback*@{A}:10:5", Frame("", A, 10, 5, resumed=True)),
        (f"save/<@{A}:10:5", Frame("save/<", A, 10, 5)),
        (f"get total@{A}:10:5", Frame("total", A, 10, 5)),
        (f"f@{A} line 26 > eval:2:96", Frame("f", A, 26, evaluated=True)),
        (f"f@{A} line 26 > eval line 2 > eval:1:30", Frame("f", A, 26, evaluated=True)),
        (f"anonymous@{A} line 26 > Function:3:7", Frame("anonymous", A, 26, evaluated=True)),
        ("map@self-hosted:221:17", Frame("map", "self-hosted", 221, 17, native=True)),
        ("who@http://localhost:5000/@stuff/foo.js:3:9", Frame("who", "http://localhost:5000/@stuff/foo.js", 3, 9)),
        ("f@resource://path/bundle.js:5:1", Frame("f", "resource://path/bundle.js", 5, 1)),
        # JavaScriptCore
        ("map@[native code]", Frame("map", "", native=True)),
        ("[native code]", Frame("", "", native=True)),
        (f"global code@{A}:1:1", Frame("global code", A, 1, 1)),
        (f"module code@{A}:1:1", Frame("module code", A, 1, 1)),
        ("https://unpkg.com/react@19/r.js:1:2", Frame("", "https://unpkg.com/react@19/r.js", 1, 2)),
        ("eval code@", Frame("eval code", "", evaluated=True)),
        ("evaluated@", Frame("evaluated", "", evaluated=True)),
    ],
)
def test_a_line_is_a_frame(line, expected):
    assert frame(line) == expected


@pytest.mark.parametrize(
    "line",
    [
        "",
        "   ",
        "TypeError: x is undefined",
        "Error: mail bob@acme.example",
        "Error: send it to bob@",
        "Failed to load https://c.example/a.js:1:2",
        "at least one item is required",
        "at the end (of the line)",
        "    at (",
        "eval code",
        "x@y",
        "a:1:2",
        "https://c.example/a.js",
        f"f@{A}:0:0",
        f"f@{A}:٣:٣",
        f"f@{A}:9999999999:99999999999",
    ],
)
def test_a_line_is_none(line):
    assert frame(line) is None


@pytest.mark.parametrize(
    ("function", "name"),
    [
        ("save", "save"),
        ("Object.save", "save"),
        ("Form.prototype.save", "save"),
        ("exports/save", "save"),
        ("Form/this.save", "save"),
        ("save/<", ""),
        ("x<", ""),
        ("Object.<anonymous>", ""),
        ("<anonymous>", ""),
        ("anonymous", ""),
        ("global code", ""),
        ("", ""),
    ],
)
def test_names_are_spelled_alike(function, name):
    assert Frame(function, "a.js").name == name


@pytest.mark.parametrize(
    "piece",
    ["\n", "at ", " (", "@", ":", "://", "*", "/", ".", "a", "eval at (", " line 1 > eval", ":1", "\nat a", "\n@:1:1"],
)
def test_hostile_stacks_cost_what_they_weigh(piece):
    stack = "    at " + piece * (16384 // len(piece))
    start = time.thread_time()  # the processor's time: the machine may be busy with others
    for called in (*frames(stack), *frames(stack.removeprefix("    at "))):
        assert called.name is not None
    assert time.thread_time() - start < 0.25
