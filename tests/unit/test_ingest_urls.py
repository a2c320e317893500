"""Queries, fragments and user info leave addresses, wherever the address stands."""

from __future__ import annotations

import time

import pytest

from ingest.errors.urls import bare_stack, bare_text, bare_url

SECRET = "?token=s3cret#access_token=s3cret"


@pytest.mark.parametrize(
    ("url", "bare"),
    [
        ("https://console.example/jobs" + SECRET, "https://console.example/jobs"),
        ("/jobs" + SECRET, "/jobs"),
        ("/jobs#a?b", "/jobs"),
        ("https://user:pw@console.example/a@b", "https://console.example/a@b"),
        ("https://user:p@w@console.example/", "https://console.example/"),
        ("https://console.example/#/route", "https://console.example/"),
        ("?token=s3cret", ""),
        ("/r/작업/1", "/r/작업/1"),
        ("", ""),
    ],
)
def test_url(url, bare):
    assert bare_url(url) == bare


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("GET https://x.example/a" + SECRET + " failed", "GET https://x.example/a failed"),
        ("GET /a" + SECRET + ": 500", "GET /a: 500"),
        ("at index.html?token=s3cret", "at index.html"),
        ("see (https://x.example/a?q=1).", "see (https://x.example/a)."),
        ("route #access_token=s3cret", "route "),
        ("to #/jobs?token=s3cret", "to "),
        ('{"url":"/a?token=s3cret","n":1}', '{"url":"/a","n":1}'),
        ("https://u:p@x.example/a", "https://x.example/a"),
        ("?token=1:2:3", ""),
        # What is no address stays.
        ("What is this?", "What is this?"),
        ("Is it /jobs?", "Is it /jobs?"),
        ("C# and F#", "C# and F#"),
        ("a ? b : c", "a ? b : c"),
        ("issue #12", "issue #12"),
        ("Cannot read user?.name", "Cannot read user?.name"),
        ("mail ops@example.com", "mail ops@example.com"),
        ("Unexpected token '<', \"<!DOCTYPE html>\" is not valid JSON", None),
    ],
)
def test_text(text, bare):
    assert bare_text(text) == (text if bare is None else bare)


@pytest.mark.parametrize(
    ("frame", "bare"),
    [
        ("    at f (https://x.example/a.js?v=s3cret:10:5)", "    at f (https://x.example/a.js:10:5)"),
        ("    at https://x.example/a.js" + SECRET + ":10:5", "    at https://x.example/a.js:10:5"),
        ("f@https://x.example/a.js?v=s3cret:10:5", "f@https://x.example/a.js:10:5"),
        ("f/<@https://x.example/a.js#s3cret:10:5", "f/<@https://x.example/a.js:10:5"),
        (
            "    at eval (eval at g (https://x.example/a.js?v=1:2:3), <anonymous>:1:1)",
            "    at eval (eval at g (https://x.example/a.js:2:3), <anonymous>:1:1)",
        ),
        ("Error: GET /a?token=ab:123456 failed", "Error: GET /a failed"),
        ("    at f (a.js:10:5)", "    at f (a.js:10:5)"),
        (
            "    at async f (webpack-internal:///./src/a.ts?:10:5)",
            "    at async f (webpack-internal:///./src/a.ts:10:5)",
        ),
    ],
)
def test_stack_keeps_line_and_column(frame, bare):
    assert bare_stack(frame) == bare


@pytest.mark.parametrize(
    "piece", ["a.", "?", "/?", "#", "@", "://", "://u@", "?a=", "&", ":1", ")", "a/b?c=d:1:1", "\\", "'", "?\x00"]
)
def test_hostile_text_costs_what_it_weighs(piece):
    text = "/x?" + piece * (16384 // len(piece))
    start = time.thread_time()  # the processor's time: the machine may be busy with others
    for drop in (bare_url, bare_text, bare_stack):
        drop(text)
    assert time.thread_time() - start < 0.25
