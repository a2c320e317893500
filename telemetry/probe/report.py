"""The outcome as a table for people and as one object for programs."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from telemetry.probe.records import Expected, Outcome

_SERVICE = {"traces": "resource.service.name", "logs": "service_name", "metrics": "job"}
_INSTANCE = {"traces": "resource.service.instance.id", "logs": "service_instance_id", "metrics": "instance"}
_STATES = {"arrived": "yes", "failed": "NO", "unsent": "not sent"}
WIDTH = 110


def status(outcomes: Sequence[Outcome], required: Sequence[str] = ()) -> int:
    """The exit status: 0 all that was sent arrived, 1 something did not, or was required and is not configured.

    2 where nothing is configured at all.
    """
    if all(outcome.state == "unsent" for outcome in outcomes):
        return 2
    missing = any(outcome.state == "unsent" and outcome.signal in required for outcome in outcomes)
    return 1 if missing or any(outcome.state == "failed" for outcome in outcomes) else 0


def table(outcomes: Sequence[Outcome], expected: Expected, trace_id: str) -> str:
    """What arrived, how late, under which identity; below it one sentence for each signal that did not."""
    head = ("signal", "path", "arrived", "after", "as")
    rows = [head, *(_cells(outcome) for outcome in outcomes)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head) - 1)]
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip()
        for row in rows
    ]
    lines += ["", f"trace id {trace_id}, sent as {expected.service}, instance {expected.instance}"]
    for outcome in outcomes:
        if outcome.sentence:
            text = f"{outcome.signal}: {outcome.sentence}"
            lines += ["", *textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)]
    return "\n".join(lines)


def _cells(outcome: Outcome) -> tuple[str, str, str, str, str]:
    late = "" if outcome.late is None else f"{outcome.late:.1f} s"
    path = f"{outcome.path} to {outcome.to}" if outcome.to else outcome.path
    names = []
    if outcome.late is not None:
        names.append(f"{_SERVICE[outcome.signal]}={outcome.service or '(none)'}")
        if outcome.instance:
            names.append(f"{_INSTANCE[outcome.signal]}={outcome.instance}")
    return outcome.signal, path, _STATES[outcome.state], late, " ".join(names)


def document(outcomes: Sequence[Outcome], expected: Expected, trace_id: str, exit_status: int) -> dict[str, Any]:
    """One JSON object: ``status``, ``trace_id``, ``expected`` identity, and a list ``signals``."""
    return {
        "status": exit_status,
        "trace_id": trace_id,
        "expected": {"service": expected.service, "job": expected.job, "instance": expected.instance},
        "signals": list(outcomes),
    }
