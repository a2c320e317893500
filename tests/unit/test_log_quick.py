"""The quick way to a line says what the long way says, or leaves the record to it."""

from __future__ import annotations

import logging
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry import context, trace

from telemetry.logs import ReadyLine, bind
from telemetry.logs.event import Event, Names
from telemetry.logs.line import logfmt_line
from telemetry.logs.quick import quick_line
from telemetry.scrub import Scrubber

NOW = 1_764_503_932.5
KEYS = ["tenant", "attempt", "password", "level", "a b", "a_b", "1x", "한", "tags", "x.y", "color_message"]
TEXTS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        ["acme", "A-17", "token=abc", "Bearer abcdefghijkl", "a?b", "한글?", "\ud800", "x" * 20_000, "", " "]
    ),
)
VALUES = st.one_of(TEXTS, st.integers(), st.floats(), st.booleans(), st.none(), st.lists(st.integers(), max_size=2))
FIELDS = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4)


def record(message: Any = "order %s placed", args: tuple[Any, ...] = ("A-17",), **extra: Any) -> logging.LogRecord:
    made = logging.LogRecord("shop.orders", logging.INFO, "f.py", 1, message, args, None)
    made.created = NOW
    made.__dict__.update(extra)
    return made


def ways(made: logging.LogRecord, names: Names) -> tuple[Any, Any]:
    long = Event(made, names)
    text = logfmt_line(long)
    return quick_line(made, names), (long.ns, long.trace_id, long.mended, text)


@given(message=TEXTS, fields=FIELDS, bound=FIELDS, traced=st.booleans())
def test_both_ways_say_the_same(message: str, fields: dict[str, Any], bound: dict[str, Any], traced: bool) -> None:
    names = Names(Scrubber())
    here = trace.SpanContext(0x6C268DDA0045B6AD3B7A6578F3DBB267, 0x46DF6F23BE4EF4D0, is_remote=False)
    token = context.attach(trace.set_span_in_context(trace.NonRecordingSpan(here)) if traced else context.Context())
    try:
        with bind(**bound):
            for _ in range(2):  # keys are learnt by the first
                quick, long = ways(record(message, (), **fields), names)
    finally:
        context.detach(token)
    if quick is not None:
        stamp, line = quick
        assert (stamp.ns, stamp.trace_id, stamp.mended, line) == long


def test_an_ordinary_record_is_quick_once_its_keys_are_known() -> None:
    names = Names(Scrubber())
    made = record(tenant="acme", attempt=1, amount=12.5)
    assert quick_line(made, names) is None
    logfmt_line(Event(made, names))
    quick = quick_line(made, names)
    assert quick is not None
    assert quick[1] == (
        "ts=2025-11-30T11:58:52.500Z level=info logger=shop.orders "
        'msg="order A-17 placed" tenant=acme attempt=1 amount=12.5'
    )


@given(line=TEXTS | st.none(), trace_id=st.sampled_from([None, "", "ab" * 16, "AB" * 16, "zz"]))
def test_both_ways_say_the_same_of_a_ready_line(line: Any, trace_id: Any) -> None:
    quick, long = ways(record("ignored", (), ready_line=ReadyLine(line, {}, trace_id)), Names(Scrubber()))
    if quick is not None:
        stamp, text = quick
        assert (stamp.ns, stamp.trace_id, stamp.mended, text) == long


@pytest.mark.parametrize("line", ["level=error msg=ascii", "level=error msg=한글"])
def test_a_sound_ready_line_is_quick(line: str) -> None:
    quick = quick_line(record("ignored", (), ready_line=ReadyLine(line, {}, "ab" * 16)), Names(Scrubber()))
    assert quick is not None
    assert (quick[0].trace_id, quick[1]) == ("ab" * 16, line)


def _failed() -> logging.LogRecord:
    made = record()
    try:
        raise ValueError
    except ValueError:
        made.exc_info = sys.exc_info()
    return made


@pytest.mark.parametrize(
    "made",
    [
        record("%d", ("x",)),
        record(42, ()),
        record(password="hunter2"),
        record(level="mine"),
        record(items=[1]),
        record("한글 \ufffd", ()),
        record("x" * 20_000, ()),
        _failed(),
        record(ready_line=ReadyLine("half \ud800")),
        record(ready_line=ReadyLine("level=info", {}, "no id")),
    ],
    ids=[
        "bad arguments",
        "no text",
        "secret",
        "our key",
        "a list",
        "a lost character",
        "too long",
        "an exception",
        "half a surrogate",
        "an id that is none",
    ],
)
def test_what_is_not_ordinary_takes_the_long_way(made: logging.LogRecord) -> None:
    names = Names(Scrubber())
    assert ways(made, names)[0] is None
    assert ways(made, names)[0] is None
