"""The judge over the committed corpus, over random hostile bodies, and over what hypothesis makes up."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ingest.errors.line import MAX_LINE_BYTES
from tests.fuzz import bodies
from tests.fuzz.judge import CORPUS, judge

CASES = sorted(CORPUS.iterdir())
REFUSED = {"bad-utf8", "empty", "gzip", "nested", "not-an-object", "utf16"}

# Everything that JSON can hold, half surrogates too, and with pleasure what loggers stumble over.
HOSTILE = st.lists(
    st.sampled_from(bodies.FRAGMENTS) | st.text(st.characters(exclude_categories=()), max_size=20), max_size=12
).map("".join)
VALUES = st.recursive(
    HOSTILE | st.sampled_from(bodies.ODD_VALUES) | st.integers() | st.floats(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(HOSTILE, inner, max_size=4),
    max_leaves=8,
)
REPORTS = st.dictionaries(st.sampled_from(bodies.KEYS) | HOSTILE, VALUES, max_size=9)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.name)
def test_a_case_that_was_found_once_stays_right(path: Path) -> None:
    line = judge(path.read_bytes())
    assert path.name.startswith("found-") or (line is None) == (path.name in REFUSED)


@settings(max_examples=400, deadline=None)
@given(report=REPORTS, escaped=st.booleans())
def test_every_report_makes_one_line_that_gives_back_what_it_stores(report: dict[str, object], escaped: bool) -> None:
    try:
        body = json.dumps(report, ensure_ascii=escaped).encode()
    except UnicodeEncodeError:  # half surrogates have no UTF-8; as JSON escapes they have
        body = json.dumps(report).encode()
    line = judge(body)
    assert line is not None
    assert len(line.encode()) <= MAX_LINE_BYTES


@settings(max_examples=200, deadline=None)
@example(b"")
@given(st.binary(max_size=200) | st.sampled_from(bodies.RAW))
def test_bytes_of_any_kind_are_a_line_or_one_sentence(body: bytes) -> None:
    judge(body)
    judge(b'{"message":"' + body + b'"}')


@pytest.mark.parametrize("seed", range(4))
def test_random_hostile_bodies(seed: int) -> None:
    rng = random.Random(seed)
    body = bodies.body(rng)
    for _ in range(250):
        judge(body)
        body = bodies.mutated(body, rng) if rng.random() < 0.5 else bodies.body(rng)
