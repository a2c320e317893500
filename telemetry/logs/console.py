"""An event for a person at a terminal: time, coloured level, message, dimmed fields, whole tracebacks."""

from __future__ import annotations

import time

from telemetry.logs import logfmt
from telemetry.logs.event import Event
from telemetry.logs.line import plain

_COLOURS = {"DEBUG": "36", "INFO": "32", "WARNING": "33", "ERROR": "31", "CRITICAL": "1;31"}
_SHORT = {"WARNING": "WARN", "CRITICAL": "CRIT"}


def console_text(event: Event, *, colour: bool) -> str:
    """One line, and the traceback below it where there is one. Controls are escaped here too."""
    if event.ready is not None:
        return event.ready.line
    clock = time.strftime("%H:%M:%S", time.localtime(event.ns // 1_000_000_000))
    clock = f"{clock}.{event.ns // 1_000_000 % 1000:03d}"
    level = f"{_SHORT.get(event.level, event.level):<5}"
    fields = [f"{k}={logfmt.bare(v) if isinstance(v, str) else plain(v)}" for k, v in event.fields.items()]
    if event.trace_id:
        fields.append(f"trace_id={event.trace_id}")
    message = logfmt.escape(event.message).replace('\\"', '"').replace("\\\\", "\\")
    rest = " ".join(fields)
    if colour:
        level = f"\x1b[{_COLOURS.get(event.level, '0')}m{level}\x1b[0m"
        clock = f"\x1b[2m{clock}\x1b[0m"
        rest = f"\x1b[2m{rest}\x1b[0m" if rest else ""
    text = f"{clock} {level} {event.logger}: {message}"
    if rest:
        text += f"  {rest}"
    for block in (event.stack_info, event.failure.stack if event.failure else ""):
        if block:
            text += "\n" + "\n".join(_raw(line) for line in block.split("\n"))
    return text


def _raw(line: str) -> str:
    return logfmt.escape(line).replace('\\"', '"').replace("\\\\", "\\")
