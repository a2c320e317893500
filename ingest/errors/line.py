"""Report + principal + time -> the line that operators search for.

Form, in this order and with every value of the page's in quotes (DESIGN, HTTP surface):

``ts=… level=error logger=frontend frontend-error email="…" workspace="…" kind="…" url="…" build="…" fp="…" repeat=1
release="…" trace_id="…" cut="…" message="…" stack="…"``

``release``, ``trace_id`` and ``cut`` are there only when they say something. ``level`` comes early, because
Loki finds ``detected_level`` in it and stops looking at the first pair it can't read; ``stack`` comes last,
because a reader that loses the end of a line then loses the least.
"""

from __future__ import annotations

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

_unescape = msgspec.json.Decoder(str).decode


def ready_line(report: Report, principal: Principal, now: float, fp: str) -> ReadyLine:
    """The line of ``report``, received from ``principal`` at ``now`` (seconds since the epoch).

    ``fp`` is its fingerprint, or ``fingerprint.OTHER``: letters and digits, written as they are.

    ``fields`` of the result holds what a logfmt reader finds in the line, so that JSON output says the same.
    """
    values = {
        "email": principal.email,
        "workspace": principal.workspace,
        "kind": report.kind,
        "url": bare_url(report.url),
        "build": scrub.text(report.build),
        "release": scrub.text(report.release),
        "message": scrub.text(bare_text(report.message)),
        "stack": scrub.text(bare_stack(report.stack)),
    }
    cuts = []
    for name, budget in BUDGETS.items():
        values[name], size = cut_escaped(values[name], budget)
        if size:
            cuts.append(f"{name}:{size}")
    ts = timestamp(int(now * 1e9))
    line = (
        f"ts={ts} level=error logger={LOGGER} {EVENT}"
        f' email="{values["email"]}" workspace="{values["workspace"]}" kind="{values["kind"]}"'
        f' url="{values["url"]}" build="{values["build"]}" fp="{fp}" repeat={report.repeat}'
    )
    extra: dict[str, str] = {}
    if values["release"]:
        extra["release"] = values["release"]
    if report.trace_id:
        extra["trace_id"] = report.trace_id
    if cuts:
        extra["cut"] = ",".join(cuts)
    for name, value in extra.items():
        line += f' {name}="{value}"'
    line += f' message="{values["message"]}" stack="{values["stack"]}"'
    fields: dict[str, str | int] = {"ts": ts, "level": "error", "logger": LOGGER, "msg": EVENT}
    for name in ("email", "workspace", "kind", "url", "build"):
        fields[name] = unescaped(values[name])
    fields["fp"] = fp
    fields["repeat"] = report.repeat
    for name, value in extra.items():
        fields[name] = unescaped(value)
    for name in ("message", "stack"):
        fields[name] = unescaped(values[name])
    return ReadyLine(line=line, fields=fields, trace_id=report.trace_id)


def unescaped(escaped: str) -> str:
    """What a reader finds in a value that is written ``escaped``."""
    return _unescape(f'"{escaped}"') if "\\" in escaped else escaped
