"""The reader of Loki's grammar that other tests judge our lines by.

Each row was compared with Loki 3.8's own decoder; the comparison with 126,000 random lines lies outside the
repository, since it needs Loki's source.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.logs import logfmt as encoder
from tests.loki_grammar import ERROR, ERROR_DETAILS, Pair, Problem, detected_level, logfmt, logfmt_expressions, scan

STRICT_ERROR = "LogfmtParserErr"


def pairs(line: str | bytes) -> list[tuple[bytes, bytes]]:
    return [tuple(item) for item in scan(line) if isinstance(item, Pair)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", []),
        (" \t\n\x00\x1b ", []),
        ("a=1 b=2", [(b"a", b"1"), (b"b", b"2")]),
        ("a=1\x00b=2\x1bc=3\nd=4", [(b"a", b"1"), (b"b", b"2"), (b"c", b"3"), (b"d", b"4")]),
        ("frontend-error a=1 last", [(b"frontend-error", b""), (b"a", b"1"), (b"last", b"")]),
        ("a= b=", [(b"a", b""), (b"b", b"")]),
        ('a="" b="x y"', [(b"a", b""), (b"b", b"x y")]),
        ("a=\\n", [(b"a", b"\\n")]),
        ('a="x\ny\x01"', [(b"a", b"x\ny\x01")]),
        ('a="\\"\\\\\\/\\\'\\b\\f\\n\\r\\t\\u00e9"', [(b"a", b"\"\\/'\b\f\n\r\t\xc3\xa9")]),
        ('a="\\ud83d\\ude00"', [(b"a", "😀".encode())]),
        ('a="\\ud83d" b="\\ude00\\ud83d"', [(b"a", b"\xef\xbf\xbd"), (b"b", b"\xef\xbf\xbd" * 2)]),
        ('a="x"b=1', [(b"a", b"x"), (b"b", b"1")]),
        (b'a="\xff" b="\\n\xff"', [(b"a", b"\xff"), (b"b", b"\n\xef\xbf\xbd")]),
    ],
)
def test_pairs(line, expected):
    assert pairs(line) == expected


@pytest.mark.parametrize(
    ("line", "expected", "message"),
    [
        ("=x a=1", [(b"a", b"1")], "unexpected '='"),
        ('k"x a=1', [(b"a", b"1")], "unexpected '\"'"),
        ("url=/r?a=b a=1", [(b"a", b"1")], "unexpected '='"),
        ('v=x"y a=1', [(b"a", b"1")], "unexpected '\"'"),
        ('v="\\x1b" a=1', [(b"a", b"1")], "invalid quoted value"),
        ('v="\\0" a=1', [(b"a", b"1")], "invalid quoted value"),
        ('v="\\U0001f600" a=1', [(b"a", b"1")], "invalid quoted value"),
        ('v="\\u00g0" a=1', [(b"a", b"1")], "invalid quoted value"),
        ('v="open a=1 b=2', [], "unterminated quoted value"),
        ('v="open\\" a=1', [], "unterminated quoted value"),
        (b"k\xff=1 a=1", [(b"a", b"1")], "invalid key"),
        ("k\ufffd a=1", [(b"a", b"1")], "invalid key"),
    ],
)
def test_a_broken_pair_is_lost_and_only_strict_mode_says_so(line, expected, message):
    assert pairs(line) == expected
    assert [item.message for item in scan(line) if isinstance(item, Problem)] == [message]
    assert ERROR not in logfmt(line)
    strict = logfmt(b"first=1 " + (line if isinstance(line, bytes) else line.encode()), strict=True)
    details = strict.pop(ERROR_DETAILS)
    assert strict == {"first": "1", ERROR: STRICT_ERROR}
    assert details.endswith(f" : {message}")


def test_strict_mode_minds_neither_bare_keys_nor_space_at_the_end():
    assert logfmt("frontend-error a=1 \n", strict=True) == {"a": "1"}


def test_bare_logfmt_takes_the_first_of_equal_keys_and_the_expression_form_the_last():
    line = 'email="true@b.c" message="x" email="ceo@b.c" y=""'
    assert logfmt(line)["email"] == "true@b.c"
    assert logfmt_expressions(line, "email", "message") == {"email": "ceo@b.c", "message": "x"}


def test_an_empty_first_value_leaves_the_key_to_the_next():
    assert logfmt('a="" a=2') == {"a": "2"}
    assert logfmt('a="" a=2', keep_empty=True) == {"a": ""}


def test_a_replacement_character_becomes_a_space_or_empties_the_value():
    assert logfmt("a=x\ufffdy") == {"a": "x y"}
    assert logfmt(b"a=x\xffy") == {"a": "x y"}
    assert logfmt_expressions("a=x\ufffdy", "a") == {"a": ""}


@pytest.mark.parametrize(
    ("key", "name"),
    [("http.method", "http_method"), ("9lives", "_9lives"), ("이름", "__"), ("a-b/c", "a_b_c"), ("\u0085a", "a")],
)
def test_label_names(key, name):
    assert logfmt(f"{key}=1") == {name: "1"}


def test_a_key_that_is_a_label_or_metadata_already_is_renamed():
    assert logfmt("a=1 b=2", labels={"a": "x"}, metadata={"b": "y"}) == {"a_extracted": "1", "b_extracted": "2"}
    assert logfmt_expressions("a=1 b=2", "a", "b", labels={"a": "x"}) == {"a_extracted": "1", "b": "2"}


def test_the_expression_form_reads_no_further_after_a_second_clash():
    assert logfmt_expressions("a=1 a=2 b=3", "a", "b", labels={"a": "x"}) == {"a_extracted": "1", "b": ""}


def test_the_expression_form_renames():
    assert logfmt_expressions("a=1", "b", c="a") == {"b": "", "c": "1"}


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("level=error msg=info", "error"),
        ("lvl=WRN x=1", "warn"),
        ("severity=debug level=critical", "critical"),
        ("msg=x level=Information", "info"),
        ('v="\\x1b" level=error', "error"),  # the scan stops, the word in the text is found
        ('v="\\x1b" lvl=wrn', "unknown"),
        ('frontend-error message="TypeError: x is undefined"', "unknown"),
        ('frontend-error message="Failed to load info panel"', "info"),
        ('level=error frontend-error message="Failed to load info panel"', "error"),
        ("an ERROR: after a warning", "error"),
        ("misc:error", "unknown"),
        ("(fatal)", "fatal"),
        ('{"a": {"level": "warn"}}', "warn"),
        ('{"a": {"b": {"level": "warn"}}}', "warn"),  # too deep for the field, but the word stands in the text
        ('{"a": {"b": {"level": "wrn"}}}', "unknown"),
        ("", "unknown"),
    ],
)
def test_detected_level_of_a_line(line, level):
    assert detected_level(line) == level


def test_detected_level_prefers_metadata_then_labels_then_severity_number():
    line = "level=debug"
    assert detected_level(line, metadata={"detected_level": "ERR"}) == "error"
    assert detected_level(line, labels={"level": "warn"}, metadata={"level": "info"}) == "warn"
    assert detected_level(line, metadata={"severity_text": "odd"}) == "odd"
    assert detected_level(line, metadata={"severity_number": "17"}) == "error"
    assert detected_level(line, metadata={"severity_number": "9"}) == "info"
    assert detected_level(line, metadata={"severity_number": "0"}) == "unknown"


@given(st.lists(st.text(alphabet=st.characters(exclude_categories=[])), max_size=4))
def test_what_our_encoder_quotes_is_read_back_in_strict_mode(values):
    line = " ".join(f"k{index}={encoder.bare(value)}" for index, value in enumerate(values))
    read = logfmt(line, strict=True, keep_empty=True)
    assert ERROR not in read
    for index, value in enumerate(values):
        if not encoder.is_lossy(value):
            assert read[f"k{index}"] == value
