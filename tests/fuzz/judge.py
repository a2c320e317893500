"""What must hold for whatever a browser sends: the whole pure core, bytes to line, judged by Loki's grammar."""

from __future__ import annotations

import re
from pathlib import Path

from ingest.errors.fingerprint import fingerprint
from ingest.errors.line import BUDGETS, MAX_LINE_BYTES, ready_line
from ingest.errors.noise import REASONS, noise
from ingest.errors.report import KINDS, Report, Unreadable, read
from ingest.errors.urls import bare_stack, bare_text, bare_url
from ingest.principal import Principal
from telemetry import scrub
from tests.loki_grammar import Problem, detected_level, scan

CORPUS = Path(__file__).parent / "corpus"
NOW = 1_796_038_559.1234
# Identity providers are no friends either.
CALLER = Principal(email='mi\u202ena"\n\\=\x85@acme.example 한글😀', workspace="a`c=m e")

_HEAD = ["ts", "level", "logger", "frontend-error", "email", "workspace", "kind", "url", "build", "fp", "repeat"]
_ODD = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ufffd\ud800-\udfff]")
_LOST = re.compile("[\ufffd\ud800-\udfff]")
_FP = re.compile(r"[0-9a-f]{16}")


def judge(body: bytes) -> str | None:
    """The line of ``body``, None for one that is refused. Raises AssertionError, or whatever the core lets out."""
    try:
        report = read(body)
    except Unreadable as unreadable:
        sentence = str(unreadable)
        assert re.fullmatch(r"The body [^.\n]+\.", sentence), sentence
        return None
    assert report.kind in KINDS
    assert 1 <= report.repeat <= 1000
    assert noise(report) in (None, *REASONS)
    fp = fingerprint(report.kind, report.message, report.stack)
    assert _FP.fullmatch(fp)
    made = ready_line(report, CALLER, NOW, fp)
    values = _read_back(made.line)
    assert (values["email"], values["workspace"]) == (CALLER.email, CALLER.workspace)
    assert (values["level"], values["logger"], values["fp"]) == ("error", "frontend", fp)
    assert values.get("trace_id") == report.trace_id
    stored = {name: str(value) for name, value in made.fields.items() if name != "msg"}
    assert values == stored | {"frontend-error": ""}
    _judge_texts(stored, report)
    return made.line


def _read_back(line: str) -> dict[str, str]:
    """What Loki reads, each pair in its place; the line is short, whole, and an error."""
    assert len(line.encode()) <= MAX_LINE_BYTES
    assert not _ODD.search(line)
    read_back = list(scan(line))
    assert not [item for item in read_back if isinstance(item, Problem)]
    pairs = [(item.key.decode(), item.value.decode()) for item in read_back if not isinstance(item, Problem)]
    values = dict(pairs)
    names = [name for name, _ in pairs]
    optional = [name for name in ("release", "trace_id", "cut") if name in names]
    assert names == [*_HEAD, *optional, "message", "stack"], "a field was forged, lost or moved"
    assert line.startswith("ts=2026-11-30T11:35:59.123Z level=error logger=frontend frontend-error email=")
    assert detected_level(line) == "error"
    return values


def _judge_texts(stored: dict[str, str], report: Report) -> None:
    """The line says what the report said, cut at most."""
    cut = {part.partition(":")[0] for part in stored.get("cut", "").split(",")}
    whole = {
        "url": bare_url(report.url),
        "build": scrub.text(report.build),
        "release": scrub.text(report.release),
        "message": scrub.text(bare_text(report.message)),
        "stack": scrub.text(bare_stack(report.stack)),
    }
    for name, value in whole.items():
        said = _LOST.sub("?", value)
        kept = stored.get(name, "")
        assert kept == said or (name in cut and said.startswith(kept) and len(kept) * 6 > BUDGETS[name] - 24), name
