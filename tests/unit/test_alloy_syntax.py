"""The Alloy syntax: what is read, where it stands, and what is said about text that is not Alloy."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from telemetry.alloy.syntax import (
    MAX_DEPTH,
    Access,
    Array,
    Attribute,
    Binary,
    Block,
    Call,
    Group,
    Identifier,
    Index,
    Literal,
    Object,
    Unary,
    parse,
    start,
)
from tests.pace import fastest

CONFIG = """\
// The way in.
otelcol.receiver.otlp "in" {
	http {
		endpoint = "0.0.0.0:4318"
	}

	output {
		traces = [otelcol.exporter.otlp.tempo.input] /* one
		way out */
	}
}

logging {}
"""

EXPRESSIONS = """
a = {b = [1, -2.5e3, "c\\n"], "d e" = `f`} == (null) || !g.h["i"](true, false)
"""


def _value(text: str):
    file = parse(f"a = {text}")
    assert not file.faults, file.faults
    (attribute,) = file.body
    assert isinstance(attribute, Attribute)
    return attribute.value


def _shape(expression) -> object:
    """The tree without positions."""
    match expression:
        case Literal():
            return expression.value
        case Identifier():
            return f"${expression.name}"
        case Access():
            return (".", _shape(expression.target), expression.name)
        case Index():
            return ("[]", _shape(expression.target), _shape(expression.key))
        case Call():
            return ("()", _shape(expression.function), *map(_shape, expression.arguments))
        case Unary():
            return (expression.operator, _shape(expression.operand))
        case Binary():
            return (expression.operator, _shape(expression.left), _shape(expression.right))
        case Group():
            return ("group", _shape(expression.inner))
        case Array():
            return [_shape(item) for item in expression.items]
        case Object():
            return {field.name: _shape(field.value) for field in expression.fields}
    raise AssertionError(expression)


def test_blocks_have_names_labels_bodies_and_places() -> None:
    file = parse(CONFIG, "config.alloy")
    receiver, logging = file.body
    assert isinstance(receiver, Block)
    assert isinstance(logging, Block)
    assert (receiver.name, receiver.label, receiver.identity) == (
        "otelcol.receiver.otlp",
        "in",
        "otelcol.receiver.otlp.in",
    )
    assert (logging.title, receiver.title) == ("logging", 'otelcol.receiver.otlp "in"')
    http, output = receiver.body
    assert isinstance(http, Block)
    assert isinstance(output, Block)
    assert str(http.position) == "config.alloy:3:2"
    assert str(receiver.end) == "config.alloy:11:1"
    (traces,) = output.body
    assert isinstance(traces, Attribute)
    assert str(traces.value.position) == "config.alloy:8:12"
    assert str(logging.position) == "config.alloy:13:1"
    assert [(comment.text.split()[0], comment.position.line) for comment in file.comments] == [("The", 1), ("one", 8)]


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("1 + 2 * 3", ("+", 1, ("*", 2, 3))),
        ("1 - 2 - 3", ("-", ("-", 1, 2), 3)),
        ("2 ^ 3 ^ 4", ("^", 2, ("^", 3, 4))),
        ("-2 ^ 2", ("^", ("-", 2), 2)),
        ("!a && b || c == 1", ("||", ("&&", ("!", "$a"), "$b"), ("==", "$c", 1))),
        ("(1 + 2) % 3", ("%", ("group", ("+", 1, 2)), 3)),
        ("a.b.c", (".", (".", "$a", "b"), "c")),
        ('a["b"][0].c', (".", ("[]", ("[]", "$a", "b"), 0), "c")),
        ('sys.env("X")', ("()", (".", "$sys", "env"), "X")),
        ("concat(a, [1, 2],)", ("()", "$concat", "$a", [1, 2])),
        ("f()", ("()", "$f")),
        ('{a = 1, "b c" = null,}', {"a": 1, "b c": None}),
        ("{\n\ta = true,\n\tb = false,\n}", {"a": True, "b": False}),
        ("[\n\t1,\n\t.5,\n\t2e3,\n]", [1, 0.5, 2000.0]),
        ("010", 8),
        ("1 +\n2", ("+", 1, 2)),
        ('`a\\n\n"b"`', 'a\\n\n"b"'),
        (r'"\t\"\\ \101 \x41 \u00e9 \U0001F600"', '\t"\\ A A é 😀'),
        ("größe", "$größe"),
        ("1 /* not\n the end? yes */", 1),
    ],
)
def test_expressions_are_read_as_alloy_reads_them(text: str, shape: object) -> None:
    assert _shape(_value(text)) == shape


def test_an_expression_starts_where_its_first_part_stands() -> None:
    assert start(_value("alpha.beta[0](1) + 2")).column == 5


@pytest.mark.parametrize(
    ("text", "where", "said"),
    [
        ("a = [1\n]", "1:7", "a list that goes on in the next line needs a comma at the end of this one"),
        ("a = {b = 1 c = 2}", "1:12", "expected , or } here, got c"),
        ("a = 'x'", "1:5", "the character ' has no meaning in Alloy; strings stand in double quotes here"),
        ("# note\na = 1", "1:1", "the character # has no meaning in Alloy; comments begin with // here"),
        ("a: 1", "1:2", "the character : has no meaning in Alloy; values are given with = here"),
        ('a = "x', "1:5", 'this string has no closing " on its line; close it, or use backticks for several lines'),
        ("a = `x\ny", "1:5", "this raw string is never closed; end it with a backtick"),
        ("a = 1\n/* x", "2:1", "this comment is never closed; end it with */"),
        (
            r'a = "\d"',
            "1:5",
            r"\d is no escape that Alloy knows; write \\ for a backslash, or use backticks, where nothing is escaped",
        ),
        ("a {\n\tb {\n", "2:4", "the block b is opened here and never closed; add its }"),
        ('a "b-c" {}', "1:3", 'the label "b-c" is no name: use letters, digits and _, no digit first, as b_c'),
        ("a `b` {}", "1:3", "the label of a has to stand in double quotes, not in backticks"),
        ("a.b = 1", "1:1", "a.b can't be assigned to: an attribute has one name without dots"),
        ('a "b" = 1', "1:7", "the attribute a can't have a label; only blocks have one"),
        ("a = b {}", "1:7", "a block can't be a value; leave the = out if it is a block, or write an object"),
        ("a = 1 b = 2", "1:7", "a statement ends with its line, but b follows; begin a new line before it"),
        ("a = ", "1:5", "expected a value, got the end of the file"),
        ("a = b.\n1", "2:1", "expected a name after the dot, got 1"),
        ("a b", "1:3", "expected = and a value, or { after a, got b"),
        ("true = 1", "1:1", "expected the name of an attribute or a block, got true"),
        ("a = 08", "1:5", "08 reads as octal because of its leading 0 and has a digit above 7; drop the 0"),
        ("a = 1e", "1:5", "the exponent of 1e has no digits; write them or leave the e out"),
        (
            "a = " + "(" * 150,
            f"1:{5 + MAX_DEPTH - 1}",
            "this is nested deeper than 100 levels, or joins more parts than that; split it up",
        ),
    ],
)
def test_text_that_is_not_alloy_is_refused_with_place_and_remedy(text: str, where: str, said: str) -> None:
    file = parse(text, "f")
    assert file.faults, "nothing was said"
    assert (str(file.faults[0].position), file.faults[0].message) == (f"f:{where}", said)


def test_one_broken_statement_hides_neither_the_next_one_nor_its_faults() -> None:
    file = parse("a {\n\tb = [1\n\t]\n\tc = 3\n\td = = 4\n}\ne = 5\n")
    assert [fault.position.line for fault in file.faults] == [2, 5]
    block, after = file.body
    assert isinstance(block, Block)
    assert [(s.name, s.position.line) for s in (*block.body, after)] == [("c", 4), ("e", 7)]


_PIECES = st.sampled_from(
    [
        *"{}[]().,=+-*/%^!<>\"`'\\ \t\n\r#:|&_aZ09éñ²\u0300\ufeff\x00",
        *(
            "||",
            "&&",
            "==",
            "//",
            "/*",
            "*/",
            "null",
            "true",
            "1e",
            "0x",
            '"x"',
            "a.b",
            "\ud800",
            "loki.write",
            '"\\u12',
        ),
    ]
)


@given(st.lists(_PIECES, max_size=60).map("".join))
@settings(max_examples=400, deadline=None)
def test_no_text_makes_the_parser_raise_and_every_fault_lies_inside_the_text(text: str) -> None:
    lines = text.count("\n") + 1
    file = parse(text)
    for fault in file.faults:
        assert 1 <= fault.position.line <= lines
        assert fault.message
    assert [fault.position for fault in file.faults] == sorted(fault.position for fault in file.faults)


@given(st.data())
@settings(max_examples=400, deadline=None)
def test_a_damaged_configuration_never_makes_the_parser_raise(data: st.DataObject) -> None:
    text = CONFIG + EXPRESSIONS
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        text = text[:at] + data.draw(_PIECES) + text[at + data.draw(st.integers(0, 3)) :]
    parse(text)


_NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,6}", fullmatch=True).filter(lambda n: n not in {"true", "false", "null"})
_VALUES = st.recursive(
    st.one_of(
        st.integers(0, 10**12),
        st.booleans(),
        st.none(),
        st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(_NAMES, inner, max_size=4)),
    max_leaves=12,
)


def _written(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case str():
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        case list():
            return "[" + ", ".join(map(_written, value)) + "]"
        case dict():
            return "{" + ", ".join(f"{key} = {_written(item)}" for key, item in value.items()) + "}"
        case _:
            return str(value)


@given(_VALUES)
@settings(max_examples=200, deadline=None)
def test_a_written_value_is_read_back_as_it_was(value: object) -> None:
    assert _shape(_value(_written(value))) == value


@pytest.mark.parametrize(
    "unit", ["(", "x.", "x + ", "a {", "[", "/*", "/**/ ", "-", "2^", "a = {", 'a = "\n', "a = 1\n", "'", "x[0]", '"\\']
)
def test_ten_times_the_text_takes_about_ten_times_the_work_and_not_a_hundred_times(unit: str) -> None:
    """The processor's time, of the best of a few tries. Counting calls by sys.setprofile hung CPython 3.11 once."""

    def seconds(text: str) -> float:
        began = time.thread_time()
        parse(text)
        return time.thread_time() - began

    small = min(seconds("a = " + unit * 1000) for _ in range(5))
    assert fastest(lambda: seconds("a = " + unit * 10_000), 40 * small + 0.005) < 40 * small + 0.005
