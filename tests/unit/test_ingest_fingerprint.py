"""``fp``: equal for the same error in another browser, build, user; different for other errors."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.errors.fingerprint import fingerprint, folded_file

ENGINES = json.loads((Path(__file__).parent / "engine_stacks.json").read_text())
CASES = sorted(ENGINES["chromium"])


def of(message: str = "m", stack: str = "", kind: str = "error") -> str:
    return fingerprint(kind, message, stack)


@pytest.mark.parametrize("case", CASES)
def test_real_chrome_firefox_and_safari_agree_on_the_place(case):
    assert len({of("m", ENGINES[engine][case]["stack"]) for engine in ENGINES}) == 1


@pytest.mark.parametrize("case", ["constructor", "getter", "anonymous", "function"])
def test_real_chrome_firefox_and_safari_agree_where_the_page_words_the_message(case):
    assert len({of(ENGINES[engine][case]["message"], ENGINES[engine][case]["stack"]) for engine in ENGINES}) == 1


def test_other_places_and_messages_are_other_errors():
    places = {
        of("m", ENGINES["chromium"][case]["stack"]) for case in ("method", "constructor", "eval", "timer", "then")
    }
    assert len(places) == 5
    assert of("x is undefined") != of("y is undefined")
    assert of(kind="error") != of(kind="react")


def test_it_is_16_hex_digits_and_stays_what_it_is():
    # Operators keep fingerprints in silences and tickets: a release must not change them without need.
    assert of("TypeError: x is undefined", "save@https://c.example/app.js:10:5") == "3b1fe967f34cbeec"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Job 17 failed", "Job 4711 failed"),
        ("took 1.5 s", "took 1,234.56 s"),
        ("job_17 is gone", "job_18 is gone"),
        ("user 3f2504e0-4f89-11d3-9a0c-0305e82c3301", "user aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"),
        ("commit deadbeefcafe", "commit 0123456789abcdef"),
        ("trace 0af7651916cd43dd8448eb211c80319c", "trace 4bf92f3577b34da6a3ce929d0e0e4736"),
        ("at 0x1F", "at 0xfe"),
        ('no "acme" there', 'no "other one" there'),
        ("no 'acme' there", "no 'other one' there"),
        ("no `acme` there", "no `other one` there"),
        ("no “acme” there", "no “b” there"),
        ("작업 12개 실패", "작업 345개 실패"),
        ("「결제」 실패", "「주문」 실패"),
        ('cut in the middle of "a quo', 'cut in the middle of "another'),
        ("Uncaught TypeError: x", "TypeError: x"),
        ("Uncaught (in promise) TypeError: x", "TypeError: x"),
        ("a  b\n c", "a b c"),
        ("GET /jobs?id=a failed", "GET /jobs?id=b failed"),
        ("2026-11-30T11:35:59Z it broke", "2025-01-01T01:02:03.456Z it broke"),
        (
            "Failed to fetch dynamically imported module: https://a.example/assets/Jobs-DiwrgTda.js",
            "Failed to fetch dynamically imported module: https://b.example/assets/Jobs-B1x-Yz_a.js",
        ),
        (
            "Loading chunk 5 failed.\n(error: https://c.example/js/5.3f2a9c1b.chunk.js)",
            "Loading chunk 17 failed.\n(error: https://c.example/js/17.99aa00bb.chunk.js)",
        ),
        (
            "Unexpected token '<', \"<!DOCTYPE html>\" is not valid JSON",
            "Unexpected token 'o', \"ok\" is not valid JSON",
        ),
    ],
)
def test_what_varies_in_a_message_is_folded(one, other):
    assert of(one) == of(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [("can't open it", "can't close it"), ("don't do 'a', can't", "don't do 'b', won't"), ("decade", "facade")],
)
def test_apostrophes_are_no_quotes_and_words_are_no_ids(one, other):
    assert of(one) != of(other)


def test_numbers_by_which_frameworks_name_their_errors_are_kept():
    react = "Error: Minified React error #{}; visit https://react.dev/errors/{}?args[]={} for the full message"
    assert of(react.format(418, 418, "HTML")) == of(react.format(418, 418, "text"))
    assert of(react.format(418, 418, "")) != of(react.format(423, 423, ""))
    assert of("Error: NG0100") != of("Error: NG0950")
    assert of("Job #17 failed") == of("Job #18 failed")


@pytest.mark.parametrize(
    ("file", "folded"),
    [
        ("https://c.example/app.3f2a9c1b.js", "app.js"),
        ("https://c.example/app-3f2a9c1b.js", "app.js"),
        ("https://c.example/app.js?v=3f2a9c1b", "app.js"),
        ("https://c.example/app.js#x", "app.js"),
        ("https://c.example/assets/index-DiwrgTda.js", "assets/index.js"),
        ("https://c.example/assets/index-B1x-Yz_a.js", "assets/index.js"),
        ("https://c.example/assets/index-3WXQK2LM.js", "assets/index.js"),
        ("https://c.example/assets/index.BkR3x9_z.mjs", "assets/index.mjs"),
        ("https://c.example/static/js/main.8e2f.chunk.js", "js/main.chunk.js"),
        ("https://c.example/static/js/123.8e2fab01.chunk.js", "js/chunk.js"),
        ("https://c.example/_next/static/chunks/app/jobs/page-3f2a9c1b4d5e6f70.js", "jobs/page.js"),
        ("https://c.example/_next/static/chunks/4f3c2b1a.js", "chunks/#.js"),
        ("https://c.example/3f2a9c1b/app.js", "#/app.js"),
        ("https://c.example/jquery-3.7.1.min.js", "jquery.min.js"),
        ("https://c.example/jobs/1234", "jobs/#"),
        ("https://c.example/", ""),
        ("https://c.example", ""),
        ("https://c.example/userSettings.js", "userSettings.js"),
        ("https://c.example/app-settings.js", "app-settings.js"),
        ("https://c.example/Form-Controls.tsx", "Form-Controls.tsx"),
        ("webpack-internal:///./src/pages/Jobs.tsx?", "pages/Jobs.tsx"),
        ("webpack-internal:///./app.ts", "app.ts"),
        ("blob:https://c.example/3f2504e0-4f89-11d3-9a0c-0305e82c3301", "#"),
        ("file:///C:/console/app.js", "console/app.js"),
        ("app.js", "app.js"),
        ("", ""),
    ],
)
def test_content_hashes_in_file_names_are_folded(file, folded):
    assert folded_file(file) == folded


@pytest.mark.parametrize("name", ["a", "Xe", "t0", "fme", "_3e"])
def test_minified_names_change_from_build_to_build(name):
    one = of("m", f"    at {name} (https://c.example/app-3f2a9c1b.js:1:5123)")
    assert (
        one == of("m", "    at q (https://c.example/app-99aa00bb.js:1:77)") == of("m", "@https://c.example/app.js:9:9")
    )


def test_positions_and_hosts_do_not_count():
    assert of("m", "save@https://a.example/app.js:10:5") == of("m", "    at save (http://localhost:5173/app.js:99:1)")


def test_the_engines_own_frames_and_those_of_extensions_do_not_count():
    plain = "each@https://c.example/a.js:1:1\nload@https://c.example/a.js:2:1"
    for extra in ("map@[native code]", "x@moz-extension://abc/wrap.js:1:1", "x@webkit-masked-url://hidden/:1:1"):
        assert of("m", plain.replace("\n", f"\n{extra}\n")) == of("m", plain)


def test_async_callers_that_only_some_engines_tell_do_not_count():
    plain = "    at step (https://c.example/a.js:1:1)"
    assert of("m", plain + "\n    at async load (https://c.example/a.js:2:1)") == of("m", plain)
    assert of("m", "step@https://c.example/a.js:1:1\nasync*load@https://c.example/a.js:2:1") == of("m", plain)
    alone = "    at async load (https://c.example/a.js:2:1)"
    assert of("m", alone) != of("m", "")


def test_recursion_of_any_depth_is_one_error():
    once = "    at walk (https://c.example/a.js:1:1)\n"
    start = "    at start (https://c.example/a.js:9:1)"
    assert of("m", once + start) == of("m", once * 8 + start)


def test_a_report_without_a_message_is_known_by_the_first_line_of_its_stack():
    frame = "\n    at save (https://c.example/a.js:1:1)"
    assert of("", "TypeError: x is undefined" + frame) == of("TypeError: x is undefined", frame)
    assert of("", "save@https://c.example/a.js:1:1") == of("", frame)


def test_the_folded_rest_of_a_long_message_does_not_count():
    assert of("x " * 200 + "a") == of("x " * 200 + "b")
    assert of('bad "' + "a" * 5000) == of('bad "' + "b" * 9000)


NAMES = st.from_regex(r"[A-Za-z_$][A-Za-z0-9_$]{0,12}", fullmatch=True) | st.just("")
FILES = st.from_regex(
    r"https?://[a-z]{1,9}(\.[a-z]{2,5}){1,2}(:[0-9]{2,4})?(/[@A-Za-z0-9_.~-]{1,12}){1,4}\.(js|mjs|tsx)", fullmatch=True
)
CALLS = st.lists(st.tuples(NAMES, FILES, st.integers(1, 99_999), st.integers(1, 999_999)), min_size=1, max_size=8)


def v8(calls, header="TypeError: m"):
    where = [(name, f"{file}:{line}:{column}") for name, file, line, column in calls]
    return "\n".join([header, *(f"    at {name} ({place})" if name else f"    at {place}" for name, place in where)])


def gecko(calls):
    return "".join(f"{name}@{file}:{line}:{column}\n" for name, file, line, column in calls)


def jsc(calls):
    lines = [f"{name or 'global code'}@{file}:{line}:{column + 7}" for name, file, line, column in calls]
    return "\n".join([*lines[:1], "map@[native code]", *lines[1:]])


@given(CALLS)
def test_one_call_chain_is_one_fingerprint_in_all_three_grammars(calls):
    assert of("m", v8(calls)) == of("m", gecko(calls)) == of("m", jsc(calls))
    moved = [(name, file.replace("://", "://cdn-"), line + 1, column + 1) for name, file, line, column in calls]
    assert of("m", gecko(moved)) == of("m", v8(calls))


@given(CALLS, st.from_regex(r"[0-9a-f]{8}", fullmatch=True), st.from_regex(r"[0-9a-f]{8}", fullmatch=True))
def test_one_call_chain_is_one_fingerprint_in_every_build(calls, one, other):
    def built(content: str):
        return [(name, file.replace(".", f".{content}.", 1), line, col) for name, file, line, col in flat]

    flat = [(name, "https://c/" + file.rsplit("/", 1)[-1], line, col) for name, file, line, col in calls]
    assert of("m", v8(built(one))) == of("m", gecko(built(other)))


@given(kind=st.text(max_size=20), message=st.text(), stack=st.text())
def test_whatever_is_sent_has_a_fingerprint(kind, message, stack):
    made = fingerprint(kind, message, stack)
    assert len(made) == 16
    assert int(made, 16) >= 0
    assert made == fingerprint(kind, message, stack)


def test_half_surrogates_are_no_obstacle():
    assert len(of("\ud83d", "\udc00@\ud83d:1:1")) == 16


@pytest.mark.parametrize(
    "piece",
    ['"', "'", "`", "“", "a", "1", "a1", "-", "1.", "a-", "_", "://", "https://", "http:", "f.", "(in promise) ",
     "x'y ", "\n", " ", "at a (", "@a:1:1\n", "ab12-", "a~", "3f2504e0-"],
)  # fmt: skip
def test_hostile_text_costs_what_it_weighs(piece):
    text = piece * (16384 // len(piece))
    start = time.thread_time()  # the processor's time: the machine may be busy with others
    for message, stack in (
        (text, ""),
        ("", text),
        ("", f"f@https://c.example/{text}.js:1:1"),
        ("x" + text, "at " + text),
    ):
        fingerprint("error", message, stack)
    assert time.thread_time() - start < 0.25
