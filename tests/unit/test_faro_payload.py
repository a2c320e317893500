"""What the Faro Web SDK sends, and which reports it becomes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ingest.errors.fingerprint import fingerprint
from ingest.errors.report import Report, Unreadable
from ingest.faro.payload import LEFT, MAX_FRAMES, MAX_ITEM_BYTES, MAX_ITEMS, Batch, read

TRACE = "0af7651916cd43dd8448eb211c80319c"
# As @grafana/faro-web-sdk 2.12.1 writes it in Chromium, shortened.
SENT = {
    "meta": {
        "browser": {"name": "Chrome", "version": "140"},
        "sdk": {"version": "2.12.1"},
        "app": {"name": "console", "version": "1.4.2", "environment": "production"},
        "session": {"id": "qFtBwYQ7kz", "attributes": {"isSampled": "true"}},
        "page": {"url": "https://console.example/jobs?token=s3cret", "id": "jobs"},
        "user": {"email": "ceo@acme.example", "username": "ceo"},
    },
    "exceptions": [
        {
            "type": "TypeError",
            "value": "Cannot read properties of undefined (reading 'total')",
            "timestamp": "2026-11-30T11:35:59.123Z",
            "trace": {"trace_id": TRACE, "span_id": "b7ad6b7169203331"},
            "stacktrace": {
                "frames": [
                    {"filename": "https://console.example/app.js", "function": "total", "lineno": 10, "colno": 5},
                    {"filename": "https://console.example/app.js", "function": "?", "lineno": 1, "colno": 2},
                ]
            },
            "context": {"cause": "x"},
        }
    ],
    "logs": [{"message": "m", "level": "info"}, {"message": "n", "level": "warn"}],
    "measurements": [{"type": "web-vitals", "values": {"lcp": 1}}],
    "events": [{"name": "session_start"}],
    "traces": {"resourceSpans": [{"scopeSpans": []}]},
}
MESSAGE = "TypeError: Cannot read properties of undefined (reading 'total')"


def batch(**exception: Any) -> Batch:
    return read(json.dumps({"exceptions": [exception]}).encode())


def one(**exception: Any) -> Report:
    (report,) = batch(**exception).reports
    return report


def test_a_batch_of_the_sdk():
    assert read(json.dumps(SENT).encode()) == Batch(
        reports=(
            Report(
                kind="error",
                message=MESSAGE,
                stack=f"{MESSAGE}\n    at total (https://console.example/app.js:10:5)\n"
                "    at https://console.example/app.js:1:2",
                url="https://console.example/jobs?token=s3cret",  # the line drops the query, as for any report
                build="production",
                release="1.4.2",
                trace_id=TRACE,
            ),
        ),
        left={"logs": 2, "measurements": 1, "events": 1, "traces": 1},
    )


def test_a_release_says_more_than_a_version():
    sent = {"meta": {"app": {"release": "2026.11", "version": "1.4.2"}}, "exceptions": [{}]}
    assert read(json.dumps(sent).encode()).reports[0].release == "2026.11"


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("TypeError", "x is undefined", "TypeError: x is undefined"),
        ("Error", "", "Error"),
        ("", "plain words", "plain words"),
        (None, None, ""),
        ("AbortError", "AbortError: gone", "AbortError: gone"),
        ("AbortError", "AbortError", "AbortError"),
        (7, {"a": 1}, '7: {"a":1}'),
        ("Error", "half an emoji \ud83d", "Error: half an emoji \ud83d"),
    ],
)
def test_messages_read_as_javascript_writes_errors(kind, value, message):
    assert one(type=kind, value=value).message == message


def test_a_rejection_whose_reason_is_no_error():
    report = one(type="UnhandledRejection", value="Non-Error promise rejection captured with value: 0")
    assert (report.kind, report.message) == (
        "unhandledrejection",
        "Non-Error promise rejection captured with value: 0",
    )


# The same error as each engine's own stack, and as the SDK's frames of it.
V8 = (
    "TypeError: x is undefined\n    at Form.save (https://c.example/assets/app-3f2a9c1b.js:10:5)\n"
    "    at Array.map (<anonymous>)\n    at async submit (https://c.example/assets/app-3f2a9c1b.js:20:7)"
)
V8_FRAMES = [
    {"filename": "https://c.example/assets/app-3f2a9c1b.js", "function": "Form.save", "lineno": 10, "colno": 5},
    {"filename": "<anonymous>", "function": "Array.map"},
    {"filename": "https://c.example/assets/app-3f2a9c1b.js", "function": "async submit", "lineno": 20, "colno": 7},
]
GECKO = (
    "save@https://c.example/assets/app-3f2a9c1b.js:10:5\nsave/<@https://c.example/assets/app-3f2a9c1b.js:11:5\n"
    "async*submit@https://c.example/assets/app-3f2a9c1b.js:20:7"
)
GECKO_FRAMES = [
    {"filename": "https://c.example/assets/app-3f2a9c1b.js", "function": "save", "lineno": 10, "colno": 5},
    {"filename": "https://c.example/assets/app-3f2a9c1b.js", "function": "save/<", "lineno": 11, "colno": 5},
    {"filename": "https://c.example/assets/app-3f2a9c1b.js", "function": "async*submit", "lineno": 20, "colno": 7},
]
JSC = (
    "save@https://c.example/app.js:10:5\nmap@[native code]\nhttps://c.example/app.js:20:7\n"
    "module code@https://c.example/app.js:30:1"
)
JSC_FRAMES = [
    {"filename": "https://c.example/app.js", "function": "save", "lineno": 10, "colno": 5},
    {"filename": "[native code]", "function": "map"},
    {"filename": "https://c.example/app.js", "function": "?", "lineno": 20, "colno": 7},
    {"filename": "https://c.example/app.js", "function": "module code", "lineno": 30, "colno": 1},
]


@pytest.mark.parametrize(("stack", "frames"), [(V8, V8_FRAMES), (GECKO, GECKO_FRAMES), (JSC, JSC_FRAMES)])
def test_an_error_has_the_fingerprint_that_our_own_client_would_have_given_it(stack, frames):
    report = one(type="TypeError", value="x is undefined", stacktrace={"frames": frames})
    expected = fingerprint("error", "TypeError: x is undefined", stack)
    assert fingerprint(report.kind, report.message, report.stack) == expected


@pytest.mark.parametrize(
    ("frame", "line"),
    [
        ({"filename": "a.js", "function": "f", "lineno": 3}, "    at f (a.js:3)"),
        ({"filename": "a.js", "function": "f", "lineno": "3", "colno": "4"}, "    at f (a.js:3:4)"),
        ({"filename": "a.js", "function": "f", "lineno": -1, "colno": 1e400}, "    at f (a.js)"),
        ({"filename": "a.js", "lineno": 10**30}, "    at a.js"),
        ({"filename": "a.js\n    at g (b.js:1:1)", "lineno": True}, "    at a.js at g (b.js:1:1)"),
        ({"function": "map"}, "    at map ([native code])"),
        ({}, "    at [native code]"),
    ],
)
def test_a_frame_is_one_line_whatever_it_holds(frame, line):
    assert one(value="m", stacktrace={"frames": [frame]}).stack == f"m\n{line}"


def test_recursion_is_cut_to_the_innermost_frames():
    frames = [{"filename": "a.js", "function": f"f{n}"} for n in range(MAX_FRAMES + 5)]
    lines = one(value="m", stacktrace={"frames": frames}).stack.splitlines()
    assert (lines[1], lines[-1]) == ("    at f0 (a.js)", f"    at f{MAX_FRAMES - 1} (a.js)")


@pytest.mark.parametrize("stacktrace", [None, {}, [], 7, {"frames": None}, {"frames": []}, {"frames": [1, "x", None]}])
def test_without_frames_there_is_no_stack(stacktrace):
    assert one(value="m", stacktrace=stacktrace).stack == ""


def test_a_bad_item_costs_itself_only():
    large = {"type": "Error", "value": "x" * MAX_ITEM_BYTES}
    sent = {"exceptions": [{"value": "a"}, None, 7, "text", [], large, {"value": "b"}]}
    got = read(json.dumps(sent).encode())
    assert [report.message for report in got.reports] == ["a", "b"]
    assert (got.malformed, got.oversized, got.exceptions) == (4, 1, 7)


def test_an_item_is_measured_in_bytes():
    empty = len(json.dumps({"value": ""}, separators=(",", ":")))
    fits = "가" * ((MAX_ITEM_BYTES - empty) // 3)
    assert (batch(value=fits).oversized, batch(value=fits + "가").oversized) == (0, 1)


def test_more_items_than_a_batch_holds_are_dropped():
    got = read(json.dumps({"exceptions": [{"value": str(n)} for n in range(MAX_ITEMS + 3)]}).encode())
    assert (len(got.reports), got.oversized) == (MAX_ITEMS, 3)


@pytest.mark.parametrize(
    "body",
    [b"{}", b'\xef\xbb\xbf{"meta":null}', b'{"exceptions":null,"logs":[]}', b'{"meta":[],"x":"\\ud83d","y":NaN}'],
)
def test_a_batch_of_nothing(body):
    assert read(body) == Batch()


@pytest.mark.parametrize(
    "meta", [None, 7, "x", [], {"app": 7, "page": "x"}, {"app": {"environment": None}, "page": []}]
)
def test_odd_metas_say_nothing(meta):
    assert read(json.dumps({"meta": meta, "exceptions": {"value": "m"}}).encode()).reports == (
        Report(kind="error", message="m"),
    )


def test_what_is_left_is_counted_by_the_known_kinds_only():
    sent = {kind: [1, 2] for kind in LEFT} | {"replays": [1], "traces": {"resourceSpans": 5}}
    assert read(json.dumps(sent).encode()).left == {"logs": 2, "measurements": 2, "events": 2, "traces": 1}


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "empty"),
        (b"[]", "not an object"),
        (b"null", "not an object"),
        (b'{"exceptions":[}', "not valid JSON"),
        (b'{"exceptions":[{"value":"\xfc"}]}', "not valid UTF-8"),
        (b"\x1f\x8b\x08\x00", "not valid"),
        (b'{"exceptions":' + b"[" * 80_000, "nested too deeply"),
        (b'{"exceptions":[{"value":' + b"[" * 50_000 + b"]" * 50_000 + b"}]}", "nested too deeply"),
        (b'{"x":' + b"[" * 120_000 + b"]" * 120_000 + b"}", "nested too deeply"),
    ],
)
def test_what_is_no_batch_is_refused_with_a_sentence(body, why):
    with pytest.raises(Unreadable, match=why):
        read(body)
