"""Report + principal + time -> the line that operators search for.

Form, in this order and with every value of the page's in quotes (DESIGN, HTTP surface):

``ts=… level=error logger=frontend frontend-error email="…" workspace="…" kind="…" url="…" build="…" fp="…" repeat=1
release="…" trace_id="…" cut="…" message="…" stack="…"``

``release``, ``trace_id`` and ``cut`` are there only when they say something. ``level`` comes early, because
Loki finds ``detected_level`` in it and stops looking at the first pair it can't read; ``stack`` comes last,
because a reader that loses the end of a line then loses the least.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Final

import msgspec

from ingest.errors.report import Report
from ingest.errors.urls import bare_stack, bare_text, bare_url
from ingest.principal import Principal
from telemetry import scrub
from telemetry.logs import ReadyLine
from telemetry.logs.line import timestamp
from telemetry.logs.logfmt import cut_escaped

LOGGER: Final = "frontend"
EVENT: Final = "frontend-error"

# UTF-8 bytes of the escaped value. With names and the rest the line stays below MAX_LINE_BYTES, half of the
# 16 KiB at which container runtimes split a line: https://github.com/grafana/alloy/issues/4625
BUDGETS: Final = {
    "email": 254,
    "workspace": 64,
    "url": 512,
    "build": 64,
    "release": 64,
    "message": 1024,
    "stack": 4096,
}
MAX_LINE_BYTES: Final = 8192

# What of a report may be said, by the field that says it.
_CLEAN: Final[Mapping[str, Callable[[str], str]]] = {
    "url": bare_url,
    "build": scrub.text,
    "release": scrub.text,
    "message": lambda text: scrub.text(bare_text(text)),
    "stack": lambda text: scrub.text(bare_stack(text)),
}

_unescape = msgspec.json.Decoder(str).decode
_PAIR = re.compile(r'(\w+)=(?:"((?:[^"\\]|\\.)*)"|([^ ]*))')

# Outcomes that are remembered, since errors repeat: a message or a stack is cut and cleaned once. Longer ones are not,
# so that what senders make up takes some 10 MB at most.
_MANY = 512
_LONGEST_REMEMBERED = 4096


def ready_line(report: Report, principal: Principal, now: float, fp: str) -> ReadyLine:
    """The line of ``report``, received from ``principal`` at ``now`` (seconds since the epoch).

    ``fp`` is its fingerprint, or ``fingerprint.OTHER``: letters and digits, written as they are.

    ``fields`` of the result holds what a logfmt reader finds in the line, so that JSON output says the same.
    """
    cuts: list[str] = []
    email = _written("email", principal.email, cuts)
    workspace = _written("workspace", principal.workspace, cuts)
    url = _written("url", _CLEAN["url"](report.url), cuts)
    build = _written("build", _CLEAN["build"](report.build), cuts)
    release = _written("release", _CLEAN["release"](report.release), cuts) if report.release else ""
    message, size = _outcome("message", report.message)
    if size:
        cuts.append(f"message:{size}")
    stack, size = _outcome("stack", report.stack)
    if size:
        cuts.append(f"stack:{size}")
    optional = f' release="{release}"' if release else ""
    if report.trace_id:
        optional += f' trace_id="{report.trace_id}"'
    if cuts:
        optional += f' cut="{",".join(cuts)}"'
    line = (
        f'ts={timestamp(int(now * 1e9))} level=error logger={LOGGER} {EVENT} email="{email}" workspace="{workspace}"'
        f' kind="{report.kind}" url="{url}" build="{build}" fp="{fp}" repeat={report.repeat}{optional}'
        f' message="{message}" stack="{stack}"'
    )
    return ReadyLine(line, Fields(line), report.trace_id)


def kept(name: str, value: str) -> str:
    """What a reader finds in the field ``name`` of a report that says ``value``: clean of secrets, and cut."""
    return unescaped(_outcome(name, value)[0])


def _written(name: str, value: str, cuts: list[str]) -> str:
    """``value`` as it stands between the quotes, cut to the budget of ``name``; ``cuts`` says so."""
    budget = BUDGETS[name]
    # What most values are, told by a few looks in C.
    if len(value) <= budget and value.isascii() and value.isprintable() and '"' not in value and "\\" not in value:
        return value
    escaped, size = cut_escaped(value, budget)
    if size:
        cuts.append(f"{name}:{size}")
    return escaped


def _outcome(name: str, value: str) -> tuple[str, int]:
    """``value`` clean of secrets, escaped and cut; its size in bytes where it was cut, else 0."""
    return (_remembered if len(value) <= _LONGEST_REMEMBERED else _remembered.__wrapped__)(name, value)


@lru_cache(_MANY)
def _remembered(name: str, value: str) -> tuple[str, int]:
    return cut_escaped(_CLEAN[name](value), BUDGETS[name])


class Fields(Mapping[str, str | int]):
    """What a logfmt reader finds in a line of ours. Read when first asked, since most lines are sent as they are."""

    __slots__ = ("_line", "_read")

    def __init__(self, line: str) -> None:
        self._line = line
        self._read: dict[str, str | int] | None = None

    def __getitem__(self, name: str) -> str | int:
        return self._fields()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields())

    def __len__(self) -> int:
        return len(self._fields())

    def _fields(self) -> dict[str, str | int]:
        if self._read is None:
            self._read = {}
            for name, quoted, bare in _PAIR.findall(self._line):
                self._read[name] = unescaped(quoted) if not bare else int(bare) if name == "repeat" else bare
                if name == "logger":
                    self._read["msg"] = EVENT
        return self._read


def unescaped(escaped: str) -> str:
    """What a reader finds in a value that is written ``escaped``."""
    return _unescape(f'"{escaped}"') if "\\" in escaped else escaped
