"""Noise: what no owner of a page can mend."""

from __future__ import annotations

import time

import pytest

from ingest.errors.noise import noise
from ingest.errors.report import Report

OURS = "https://c.example/app.js:1:2"


@pytest.mark.parametrize(
    ("message", "stack", "reason"),
    [
        ("Script error.", "", "script_error"),
        ("Script error", "", "script_error"),
        ("Uncaught Script error.", "Script error.", "script_error"),
        ("Script error.", f"    at f ({OURS})", None),
        ("My script error.", "", None),
        ("ResizeObserver loop limit exceeded", "", "resize_observer"),
        ("ResizeObserver loop completed with undelivered notifications.", "", "resize_observer"),
        ("Uncaught Error: ResizeObserver loop limit exceeded", f"at f ({OURS})", "resize_observer"),
        ("Error: ResizeObserver loop completed with undelivered notifications", "", "resize_observer"),
        ("ResizeObserver is not defined", "", None),
        ("x", "TypeError: x\n    at chrome-extension://abc/content.js:1:2", "extension"),
        ("x", f"TypeError: x\n    at f (chrome-extension://abc/content.js:1:2)\n    at g ({OURS})", "extension"),
        ("x", "f@moz-extension://abc/content.js:1:2", "extension"),
        ("x", "f@safari-web-extension://ABC/content.js:1:2", "extension"),
        ("x", "f@safari-extension://com.acme/ab/content.js:1:2", "extension"),
        ("x", "f@webkit-masked-url://hidden/:12:34", "extension"),
        ("x", "map@[native code]\nf@webkit-masked-url://hidden/:12:34", "extension"),
        ("x", "    at Array.map (<anonymous>)\n    at chrome-extension://abc/content.js:1:2", "extension"),
        # Extensions wrap what pages call: the page threw, further in.
        ("x", f"    at f ({OURS})\n    at chrome-extension://abc/wrap.js:1:2", None),
        ("cannot reach chrome-extension://abc/", f"    at f ({OURS})", None),
        ("x", "Error: chrome-extension://abc/ is blocked", None),
        ("", "", None),
    ],
)
def test_what_is_noise(message, stack, reason):
    assert noise(Report(message=message, stack=stack)) == reason


def test_a_hostile_stack_costs_what_it_weighs():
    start = time.thread_time()  # the processor's time: the machine may be busy with others
    for piece in ("-extension:", "\n", "at (", "@", "webkit-masked-url:"):
        noise(Report(message=piece * 9, stack="-extension:" + piece * 8000))
    assert time.thread_time() - start < 0.25
