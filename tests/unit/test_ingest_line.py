"""The line: its form, its order, its budgets, and that Loki reads back what was stored."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.errors.line import BUDGETS, MAX_LINE_BYTES, ready_line
from ingest.errors.report import KINDS, Report, read
from ingest.principal import Principal
from tests.loki_grammar import Problem, detected_level, logfmt, logfmt_expressions, scan

NOW = 1_796_038_559.1234
FP = "9f2c01d4a7b3e856"
ME = Principal(email="mina@acme.example", workspace="acme", roles=("member",))
TRACE = "0af7651916cd43dd8448eb211c80319c"


def line(**fields) -> str:
    return ready_line(Report(**fields), ME, NOW, FP).line


def test_the_whole_line_as_operators_know_it():
    report = Report(
        kind="error",
        message="TypeError: x is undefined",
        stack="TypeError: x is undefined\n    at f (https://c.example/a.js?v=9:10:5)",
        url="https://c.example/jobs?token=s3cret#top",
        build="production",
    )
    assert ready_line(report, ME, NOW, FP).line == (
        "ts=2026-11-30T11:35:59.123Z level=error logger=frontend frontend-error"
        ' email="mina@acme.example" workspace="acme" kind="error" url="https://c.example/jobs" build="production"'
        ' fp="9f2c01d4a7b3e856" repeat=1 message="TypeError: x is undefined"'
        ' stack="TypeError: x is undefined\\n    at f (https://c.example/a.js:10:5)"'
    )


def test_release_trace_id_and_cut_stand_before_the_message_when_there_are_any():
    made = line(release="1.4.2", trace_id=TRACE, repeat=7, message="m" * 2000, stack="s" * 9120)
    keys = re.findall(r" (\w+)=", re.sub(r'"[^"]*"', "", made))
    assert keys == [
        "level", "logger", "email", "workspace", "kind", "url", "build", "fp",
        "repeat", "release", "trace_id", "cut", "message", "stack",
    ]  # fmt: skip
    assert f' repeat=7 release="1.4.2" trace_id="{TRACE}" cut="message:2000,stack:9120" message="' in made


def test_the_trace_id_is_the_pages_or_none():
    assert ready_line(Report(trace_id=TRACE), ME, NOW, FP).trace_id == TRACE
    assert ready_line(Report(), ME, NOW, FP).trace_id is None


@pytest.mark.parametrize("name", ["url", "build", "release", "message", "stack"])
@pytest.mark.parametrize("piece", ["a", "\x01", "한", "😀", '"', "\\", "\n", "\u202e", "\ud83d"])
def test_each_field_is_cut_after_escaping_between_escapes(name, piece):
    # Bare pieces, so that dropping queries and secrets has nothing to say.
    text = "/" + piece * (16000 // len(piece.encode(errors="surrogatepass")))
    made = ready_line(Report(**{name: text}), ME, NOW, FP)
    stored = re.search(rf' {name}="((?:\\.|[^"\\])*)"', made.line)[1]
    size = len(stored.encode())
    assert BUDGETS[name] - 6 < size <= BUDGETS[name]
    assert json.loads(f'"{stored}"') == made.fields[name]
    whole = len(ready_line(Report(), ME, NOW, FP).line.encode())
    assert len(made.line.encode()) == whole + size + len(re.search(r' cut="[^"]*"', made.line)[0]) + (
        len(' release=""') if name == "release" else 0
    )


def test_principals_are_bounded_too():
    made = ready_line(Report(), Principal("e" * 5000, "w" * 5000), NOW, FP)
    assert made.fields["email"] == "e" * 254
    assert made.fields["workspace"] == "w" * 64
    assert made.fields["cut"] == "email:5000,workspace:5000"


@pytest.mark.parametrize("control", [*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, 0x202E, 0x2066, 0xFEFF])
def test_no_control_character_is_ever_raw(control):
    # https://github.com/grafana/loki/issues/6161, /3650
    made = line(message=f"a{chr(control)}b", stack=chr(control), url=f"/{chr(control)}")
    assert not any(ord(char) < 0x20 or chr(control) == char for char in made if char != " ")
    assert logfmt(made, strict=True)["message"] == f"a{chr(control)}b"


def test_a_half_emoji_becomes_a_question_mark():
    # https://github.com/getsentry/relay/issues/5833
    made = ready_line(read(b'{"message":"half \\ud83d","stack":"\\udc00"}'), ME, NOW, FP)
    assert logfmt(made.line, strict=True)["message"] == "half ?"
    made.line.encode()  # what a StreamHandler does


def test_the_replacement_character_does_not_empty_the_field():
    # https://github.com/grafana/loki/issues/13963
    made = line(message="a\ufffdb")
    assert "\ufffd" not in made
    assert logfmt_expressions(made, "message")["message"] == "a?b"


def test_a_newline_beside_another_escape_comes_back():
    # https://github.com/grafana/loki/issues/3927
    assert logfmt(line(message="a\\b\nc"), strict=True)["message"] == "a\\b\nc"


def test_equals_signs_and_backticks_stay_inside_their_quotes():
    # https://github.com/grafana/loki/issues/3467
    assert logfmt(line(url="/r=a=b", message="`a=b`"), strict=True)["url"] == "/r=a=b"
    assert logfmt(line(message="`a=b`"), strict=True)["message"] == "`a=b`"


def test_a_message_cannot_forge_a_field():
    made = line(message='x" email="ceo@acme.example" y="', stack='\\" email="ceo@acme.example" y="\\')
    assert logfmt(made, strict=True)["email"] == ME.email
    assert logfmt_expressions(made, "email", strict=True)["email"] == ME.email


def test_a_message_cannot_forge_a_level():
    assert detected_level(line(message="Failed to load info panel")) == "error"
    assert detected_level(line(message="\nlevel=debug ", stack='" level=info')) == "error"


@pytest.mark.parametrize("field", ["url", "message", "stack"])
def test_secrets_in_addresses_never_reach_the_line(field):
    # https://github.com/getsentry/sentry-javascript/issues/23049
    made = line(**{field: "https://c.example/r?token=s3cret#access_token=s3cret"})
    assert "s3cret" not in made


@pytest.mark.parametrize("field", ["message", "stack", "build", "release"])
def test_secrets_of_known_shape_never_reach_the_line(field):
    made = line(**{field: "401 for Authorization: Bearer abcdefgh12345678, password=hunter2"})
    assert "abcdefgh12345678" not in made
    assert "hunter2" not in made


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists)
BODIES = st.fixed_dictionaries(
    {},
    optional={
        name: JSON | st.text(st.characters(), max_size=3000)
        for name in ("kind", "message", "stack", "url", "build", "release", "trace_id", "repeat", "x")
    },
)


@given(body=BODIES, email=st.text(), workspace=st.text())
def test_whatever_is_read_makes_one_short_line_that_loki_reads_back(body, email, workspace):
    report = read(json.dumps(body).encode())
    made = ready_line(report, Principal(email, workspace), NOW, FP)
    encoded = made.line.encode()
    assert len(encoded) <= MAX_LINE_BYTES
    assert b"\n" not in encoded
    assert not [item for item in scan(made.line) if isinstance(item, Problem)]
    read_back = {item.key.decode(): item.value.decode() for item in scan(made.line)}
    expected = {name: str(value) for name, value in made.fields.items() if name != "msg"}
    assert read_back == expected | {"frontend-error": ""}
    assert detected_level(made.line) == "error"
    assert report.kind in KINDS
