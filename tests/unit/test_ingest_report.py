"""What a browser may send, and what becomes of it: kept and coerced, or refused with one sentence."""

from __future__ import annotations

import pytest

from ingest.errors.report import Report, Unreadable, read


def test_a_plain_report():
    body = b"""{"kind":"error","message":"TypeError: x is undefined","stack":"at f (a.js:1:2)","url":"/jobs",
        "build":"production","release":"1.4.2","trace_id":"0AF7651916CD43DD8448EB211C80319C","repeat":3}"""
    assert read(body) == Report(
        kind="error",
        message="TypeError: x is undefined",
        stack="at f (a.js:1:2)",
        url="/jobs",
        build="production",
        release="1.4.2",
        trace_id="0af7651916cd43dd8448eb211c80319c",
        repeat=3,
    )


def test_an_empty_object_is_a_report_that_says_nothing():
    assert read(b"{}") == Report()


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (b'"x"', "x"),
        (b"null", ""),
        (b"17", "17"),
        (b"1.5", "1.5"),
        (b"true", "true"),
        (b'{"a":[1,null]}', '{"a":[1,null]}'),
        (b'["\\ud83d"]', '["\ud83d"]'),
        (b"NaN", "NaN"),
        (b"-Infinity", "-Infinity"),
        (b"1e999", "Infinity"),
        (b"9" * 5000, "Infinity"),
        (b'"a\nb\tc"', "a\nb\tc"),
        (b'"\\u0000"', "\x00"),
        (b'"half an emoji \\ud83d"', "half an emoji \ud83d"),
        (b'"\\ud83d\\ude00"', "😀"),
        ('"결제 실패"'.encode(), "결제 실패"),
    ],
)
@pytest.mark.parametrize("field", ["message", "stack", "url", "build", "release"])
def test_texts_are_coerced(field, sent, kept):
    assert getattr(read(b'{"%s":%s}' % (field.encode(), sent)), field) == kept


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (b'"error"', "error"),
        (b'"unhandledrejection"', "unhandledrejection"),
        (b'"react"', "react"),
        (b'"other"', "other"),
        (b'"console"', "other"),
        (b'"ERROR"', "other"),
        (b"null", "other"),
        (b"[[1]]", "other"),
        (b"7", "other"),
    ],
)
def test_kind_is_an_enum(sent, kept):
    assert read(b'{"kind":' + sent + b"}").kind == kept


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (b"1", 1),
        (b"1000", 1000),
        (b"1001", 1000),
        (b"0", 1),
        (b"-5", 1),
        (b"2.9", 2),
        (b'"12"', 12),
        (b'"99999999999999999999"', 1000),
        (b'"many"', 1),
        (b'"\xd9\xa3"', 1),
        (b"true", 1),
        (b"null", 1),
        (b"NaN", 1),
        (b"Infinity", 1000),
        (b"1e999", 1000),
        (b"9" * 5000, 1000),
        (b"[3]", 1),
    ],
)
def test_repeat_is_clamped(sent, kept):
    assert read(b'{"repeat":' + sent + b"}").repeat == kept


@pytest.mark.parametrize(
    "sent",
    [
        b'"0af7651916cd43dd8448eb211c80319"',
        b'"0af7651916cd43dd8448eb211c80319c0"',
        b'"0af7651916cd43dd8448eb211c80319g"',
        b'"00000000000000000000000000000000"',
        b'"' + "٣".encode() * 32 + b'"',
        b"12345678901234567890123456789012",
        b"null",
    ],
)
def test_a_trace_id_is_32_hex_digits_or_nothing(sent):
    assert read(b'{"trace_id":' + sent + b"}").trace_id is None


def test_unknown_keys_are_ignored_and_the_last_of_equal_keys_counts():
    assert read(b'{"kind":"error","user":{"email":"ceo@b.c"},"kind":"react"}') == Report(kind="react")
    assert read(b'{"kind":"error","x":"\\ud83d","kind":"react"}') == Report(kind="react")


def test_a_byte_order_mark_is_skipped():
    assert read(b'\xef\xbb\xbf{"message":"m"}').message == "m"
    assert read(b'\xef\xbb\xbf{"message":"\\udc00"}').message == "\udc00"


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"", "The body is empty; a JSON object is expected."),
        (b" \n", "The body is empty; a JSON object is expected."),
        (b'{"message":"\xfc"}', "The body is not valid UTF-8."),
        ('{"message":"m"}'.encode("utf-16"), "The body is not valid UTF-8."),
        (b'{"a":1,}', "The body is not valid JSON."),
        (b'{"message":"m"} x', "The body is not valid JSON."),
        (b'{"message":"m', "The body is not valid JSON."),
        (b"kind=error&message=m", "The body is not valid JSON."),
        (b"\x1f\x8b\x08\x00\x00", "The body is not valid UTF-8."),
        (b"[]", "The body is valid JSON, but not an object."),
        (b"null", "The body is valid JSON, but not an object."),
        (b'"text"', "The body is valid JSON, but not an object."),
        (b"NaN", "The body is valid JSON, but not an object."),
    ],
)
def test_what_cannot_be_read_is_said_in_one_sentence(body, sentence):
    with pytest.raises(Unreadable) as refused:
        read(body)
    assert str(refused.value) == sentence


@pytest.mark.parametrize(
    "body",
    [
        b'{"x":' + b"[" * 8000,
        b'{"message":' + b"[" * 5000 + b"]" * 5000 + b"}",
        b"[" * 8000,
        b'{"a":' * 2500,
        b'{"bad":"\\ud83d","x":' + b"[" * 8000,
    ],
)
def test_a_body_nested_without_end_is_refused_or_read_but_never_a_fault(body):
    # How deep the parsers go depends on the Python: 3.13 reads on where 3.11 gives up, and finds the end missing.
    try:
        kept = read(body).message
    except Unreadable as refused:
        assert str(refused) in {"The body is nested too deeply.", "The body is not valid JSON."}
    else:
        assert kept.startswith("[[[")


@pytest.mark.parametrize("depth", [1, 100, 400, 800, 900, 950, 990, 1000, 1100])
def test_any_depth_is_kept_or_refused_but_never_a_fault(depth):
    body = b'{"message":' + b"[" * depth + b"]" * depth + b"}"
    try:
        kept = read(body).message
    except Unreadable as refused:
        kept = str(refused)
    assert kept in {"[" * depth + "]" * depth, "The body is nested too deeply."}
