"""One record, one line: whatever is put into it, Loki's grammar gives it back and nothing forges a field."""

from __future__ import annotations

import datetime as dt
import json
import logging
import sys
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.logs import ConsoleFormatter, JsonFormatter, LogfmtFormatter, ReadyLine, bind, logfmt
from telemetry.logs.event import Event, Names
from telemetry.logs.line import LINE_LIMIT, fit, logfmt_line
from telemetry.scrub import Scrubber
from tests import loki_grammar


def record(
    message: object = "hello", *args: object, level: int = logging.INFO, name: str = "app", **extra: object
) -> Any:
    made = logging.getLogger(name).makeRecord(name, level, "f.py", 1, message, args, None, extra=extra)
    made.created = 1796040000.1234
    return made


def line(made: logging.LogRecord) -> str:
    return LogfmtFormatter().format(made)


def read(text: str) -> dict[str, str]:
    """The fields as Loki's ``| logfmt --strict`` gives them; it must find no error."""
    fields = loki_grammar.logfmt(text, strict=True)
    assert "__error__" not in fields, (fields, text)
    return fields


def test_the_line_as_documented() -> None:
    assert line(record("order %s placed", "A-1", amount=12.5, user="Kim Lee", retry=None, ok=True)) == (
        'ts=2026-11-30T12:00:00.123Z level=info logger=app msg="order A-1 placed" '
        'amount=12.5 user="Kim Lee" retry=null ok=true'
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("", ""),
        ("a=b", "a=b"),
        ('say "hi"', 'say "hi"'),
        ("back\\slash", "back\\slash"),
        ("a\\b\nc", "a\\b\nc"),
        ("tab\there", "tab\there"),
        ("`tick`", "`tick`"),
        ("한글 😀", "한글 😀"),
        ("\x00\x1b[31m\x7f\x9b", "\x00\x1b[31m\x7f\x9b"),
        ("\u202eevil\u2028", "\u202eevil\u2028"),
        ("half \ud83d emoji", "half ? emoji"),
        ("lost \ufffd char", "lost ? char"),
    ],
)
def test_values_come_back_as_they_were(value: str, text: str) -> None:
    fields = read(line(record("m", v=value, after="1")))
    assert fields.get("v", "") == text
    assert fields["after"] == "1"


@given(st.text(), st.text(), st.dictionaries(st.text(max_size=20), st.text() | st.integers() | st.floats(), max_size=4))
def test_no_text_forges_or_breaks_a_field(message: str, value: str, extra: dict[str, Any]) -> None:
    made = record(message, v=value)
    made.__dict__.update({k: v for k, v in extra.items() if k not in vars(made)})
    made.__dict__["last"] = "end"
    fields = read(line(made))
    assert (fields["level"], fields["logger"], fields["last"]) == ("info", "app", "end")
    if not logfmt.is_lossy(message) and "[scrubbed]" not in line(made):
        assert fields.get("msg", "") == message


@pytest.mark.parametrize(
    "text", ['x" email="ceo@b.c" y="', "x\nlevel=critical msg=forged", 'a\\" level=error', "x level=error trace_id=0"]
)
def test_a_message_cannot_forge_a_field(text: str) -> None:
    fields = read(line(record(text)))
    assert fields == {"ts": "2026-11-30T12:00:00.123Z", "level": "info", "logger": "app", "msg": text}


def test_extra_keys_that_collide_with_ours_are_renamed() -> None:
    made = record("m", ts="x", logger="z", trace_id="t", span_id="s", cut="c")
    made.__dict__["level"] = "y"
    fields = read(line(made))
    assert fields["level"] == "info"
    assert fields["extra_level"] == "y"
    assert {"extra_ts", "extra_logger", "extra_trace_id", "extra_span_id", "extra_cut"} <= set(fields)


@pytest.mark.parametrize("key", ["a b", 'a"b', "a=b", "", "1st", "ключ", "\ud800", "a\nb", "x" * 500, 7, None, ("a",)])
def test_odd_keys_become_names(key: Any) -> None:
    made = record("m")
    made.__dict__[key] = "v"
    assert "v" in read(line(made)).values()


class Unprintable:
    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


def nested(depth: int) -> Any:
    value: Any = "end"
    for _ in range(depth):
        value = [value]
    return value


CYCLE: list[Any] = []
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    "value",
    [
        ValueError("bad"),
        b"\xff\x00bytes",
        {1, 2},
        2**70,
        float("nan"),
        {"a": {"b": [1, {2: "x"}]}},
        {("t",): 1},
        object(),
        Unprintable(),
        CYCLE,
        nested(5000),
        dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
        uuid.UUID(int=1),
        "\ud800",
        ["\ud800"],
        type,
    ],
    ids=lambda value: type(value).__name__,
)
def test_any_value_is_a_message_and_a_field(value: Any) -> None:
    """otel-python #3389, #4100, #4409: a non-primitive body kills the export."""
    made = record(value, v=value)
    fields = read(line(made))
    assert fields["v"] == fields["msg"]
    json.loads(JsonFormatter().format(record(value, v=value)))
    assert ConsoleFormatter().format(record(value, v=value))


def test_a_message_that_does_not_fit_its_arguments_is_mended_and_told() -> None:
    """contrib 0.66b2 lets ``logger.info("%d", "x")`` raise into the application."""
    event = Event(record("%d items", "many"), Names(Scrubber()))
    assert event.mended
    assert read(logfmt_line(event))["msg"] == '%d items [args ["many"] do not fit: TypeError]'


def test_nested_secrets_do_not_leave_the_process() -> None:
    text = line(record("login password=hunter2", password="hunter2", body={"user": "kim", "api_key": "hunter2"}))
    assert "hunter2" not in text
    assert "hunter2" not in JsonFormatter().format(record("m", d={"token": "hunter2"}))


def test_an_exception_stands_on_one_line_with_its_cause() -> None:
    try:
        try:
            int("x")
        except ValueError as error:
            raise KeyError("outer") from error
    except KeyError:
        made = record("failed", level=logging.ERROR)
        made.exc_info = sys.exc_info()
    text = line(made)
    assert "\n" not in text
    fields = read(text)
    assert fields["exception_type"] == "KeyError"
    assert "ValueError: invalid literal" in fields["exception_stacktrace"]
    assert fields["exception_stacktrace"].endswith("KeyError: 'outer'")


def test_a_huge_line_is_cut_between_escapes_and_says_so() -> None:
    made = record("m" * 50_000, a="\x01" * 20_000, b="한" * 20_000, small="kept")
    made.exc_text = "Traceback\n" + "frame\n" * 10_000 + "ValueError: the end"
    text = line(made)
    assert len(text.encode()) <= LINE_LIMIT
    fields = read(text)
    assert fields["small"] == "kept"
    assert fields["exception_stacktrace"].endswith("ValueError: the end"), "a stack keeps its end"
    assert fields["cut"] == "msg:50000,a:120000,b:60000,exception_stacktrace:70030"


def test_thousands_of_fields_do_not_break_the_limit() -> None:
    text = line(record("m", **{f"k{i}": "v" * 40 for i in range(3000)}))
    assert len(text.encode()) <= LINE_LIMIT
    assert "cut" in read(text)


@given(st.dictionaries(st.text("abc", min_size=1, max_size=6), st.integers(0, 30_000), max_size=40))
def test_fit_cuts_only_the_longest(sizes: dict[str, int]) -> None:
    kept = fit(sizes, 10_000)
    assert sum(kept.values()) <= 10_000
    cut = {key for key in kept if kept[key] < sizes[key]}
    if cut and set(kept) == set(sizes):
        assert max((sizes[key] for key in set(kept) - cut), default=0) <= max(kept[key] for key in cut)


def test_json_holds_the_same_fields_with_their_types() -> None:
    made = record("order placed", amount=12.5, user="한글\u202e\x1b", big=2**70)
    text = JsonFormatter().format(made)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "한글" in text
    assert json.loads(text) == {
        "ts": "2026-11-30T12:00:00.123Z",
        "level": "info",
        "logger": "app",
        "msg": "order placed",
        "amount": 12.5,
        "user": "한글\u202e\x1b",
        "big": 2**70,
    }


def test_a_huge_json_line_is_valid_json_below_the_limit() -> None:
    for made in (record("m" * 50_000, a="\x01" * 20_000), record("m", **{f"k{i}": "v" * 40 for i in range(3000)})):
        text = JsonFormatter().format(made)
        assert len(text.encode()) <= LINE_LIMIT
        assert "cut" in json.loads(text)


def test_a_ready_line_passes_untouched_and_takes_no_bound_field() -> None:
    ready = ReadyLine('ts=x level=error logger=frontend frontend-error kind="error"', {"kind": "error"}, "ab" * 16)
    with bind(job_id=7):
        made = record("ignored", level=logging.ERROR, ready_line=ready)
        assert line(made) == ready.line
        made = record("ignored", level=logging.ERROR, name="frontend", ready_line=ready)
        assert json.loads(JsonFormatter().format(made)) == {
            "ts": "2026-11-30T12:00:00.123Z",
            "level": "error",
            "logger": "frontend",
            "kind": "error",
            "trace_id": "ab" * 16,
        }


def test_console_shows_colour_only_when_asked_and_never_raw_controls() -> None:
    assert "\x1b[32m" in ConsoleFormatter(colour=True).format(record("hi", v=1))
    assert "\x1b" not in ConsoleFormatter(colour=False).format(record("hi \x1b[31m", v="\x1b"))


def test_console_keeps_a_traceback_readable() -> None:
    made = record("failed")
    made.exc_text = "Traceback\n  File x\nValueError: bad"
    assert ConsoleFormatter(colour=False).format(made).endswith("\nTraceback\n  File x\nValueError: bad")


def test_one_record_is_rendered_once_for_all_handlers() -> None:
    calls = []

    class Counted:
        def __str__(self) -> str:
            calls.append(1)
            return "x"

    made = record("m", v=Counted())
    formatter = LogfmtFormatter()
    assert formatter.format(made) == formatter.format(made)
    assert len(calls) == 1


@given(st.text(), st.integers(0, 60))
def test_cut_escaped_keeps_a_prefix(value: str, size: int) -> None:
    text, original = logfmt.cut_escaped(value, size)
    assert len(text.encode()) <= size
    whole = json.loads(f'"{logfmt.escape(value)}"')
    assert whole.startswith(json.loads(f'"{text}"'))
    assert (original > 0) == (len(logfmt.escape(value).encode()) > size)


@given(st.text(), st.integers(0, 60))
def test_tail_keeps_a_suffix(value: str, size: int) -> None:
    escaped = logfmt.escape(value)
    text = logfmt.tail(escaped, size)
    assert len(text.encode()) <= size
    assert json.loads(f'"{escaped}"').endswith(json.loads(f'"{text}"'))


def test_detected_level_is_the_record_level() -> None:
    for level, name in ((10, "debug"), (20, "info"), (30, "warn"), (40, "error"), (50, "critical")):
        assert loki_grammar.detected_level(line(record("Failed to load info panel", level=level))) == name


def test_a_ready_line_that_is_none_is_a_field_like_any_other() -> None:
    assert read(line(record("m", ready_line="text")))["ready_line"] == "text"


@pytest.mark.parametrize(
    ("created", "shown"), [(1796040000.25, ".250Z"), (1796040000.999, ".999Z"), (1796040000.0, ".000Z")]
)
def test_the_millisecond_of_a_record_is_its_own(created: float, shown: str) -> None:
    """``created`` times a billion is beyond what a float holds: .250 came out as .249."""
    made = record("m")
    made.created = created
    assert line(made).split()[0].endswith(shown)
