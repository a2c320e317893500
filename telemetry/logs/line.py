"""An event as one logfmt line, short enough that no container runtime splits it."""

from __future__ import annotations

import time

from telemetry.logs import logfmt
from telemetry.logs.event import Event

LINE_LIMIT = 15 * 1024
"""Bytes of a line. Container runtimes split at 16 KiB, and the halves come back as broken entries."""

LEVELS = {"DEBUG": "debug", "INFO": "info", "WARNING": "warning", "ERROR": "error", "CRITICAL": "critical"}

_heads: dict[tuple[str, str], str] = {}
_second: tuple[int, str] = (0, "")
_stamp: tuple[int, str] = (-1, "")


def timestamp(ns: int) -> str:
    """Unix nanoseconds as RFC 3339 in UTC with milliseconds."""
    global _second, _stamp
    millisecond = ns // 1_000_000
    stamp = _stamp  # one read: another thread may replace the pair, never tear it
    if stamp[0] == millisecond:
        return stamp[1]
    second, rest = divmod(millisecond, 1000)
    known = _second
    if known[0] != second:
        known = _second = (second, time.strftime("%Y-%m-%dT%H:%M:%S.", time.gmtime(second)))
    text = f"{known[1]}{rest:03d}Z"
    _stamp = (millisecond, text)
    return text


def level_name(level: str) -> str:
    """The level as lines spell it: lower case, which Loki's level detection knows."""
    return LEVELS.get(level) or level.lower()


def head(level: str, logger: str) -> str:
    """``level=… logger=…``."""
    known = _heads.get((level, logger))
    if known is None:
        known = f"level={logfmt.bare(level_name(level))} logger={logfmt.bare(logger or 'root')}"
        if len(_heads) < 4096:  # names made from data would otherwise grow this for ever
            _heads[level, logger] = known
    return known


def logfmt_line(event: Event) -> str:
    """``ts=… level=… logger=… msg=… [trace_id=… span_id=…] key=value … [exception_*=…]``, at most 15 KiB.

    What had to be cut is named with its size in bytes by ``cut``; the event is then marked as mended.
    """
    if event.ready is not None:
        return event.ready.line
    bare = logfmt.bare
    beginning = head(event.level, event.logger)
    ids = f" trace_id={event.trace_id} span_id={event.span_id}" if event.trace_id else ""
    line = f"ts={timestamp(event.ns)} {beginning} msg={bare(event.message)}{ids}"
    for key, value in event.fields.items():
        if type(value) is str:
            line += f" {key}={bare(value)}"
        elif type(value) is int or type(value) is float:
            line += f" {key}={value!r}"
        else:
            line += f" {key}={plain(value)}"
    if event.failure is not None or event.stack_info:
        for key, text in tail_fields(event):
            line += f" {key}={logfmt.quote(text)}"
    if not event.mended and not line.isascii():
        event.mended = _is_lossy(event)
    if len(line) * 4 <= LINE_LIMIT or len(line.encode()) <= LINE_LIMIT:
        return line
    event.mended = True
    return _cut(event, f"ts={timestamp(event.ns)} {beginning}", ids)


def plain(value: object) -> str:
    """A number, boolean or None as lines spell it."""
    if value is True:
        return "true"
    if value is False:
        return "false"
    return "null" if value is None else str(value)


def tail_fields(event: Event) -> list[tuple[str, str]]:
    """The long fields, which stand last: a reader that loses the end of a line loses only these."""
    fields = []
    if event.stack_info:
        fields.append(("stack_info", event.stack_info))
    if event.failure is not None:
        fields.append(("exception_type", event.failure.kind))
        fields.append(("exception_message", event.failure.message))
        fields.append(("exception_stacktrace", event.failure.stack))
    return [(key, text) for key, text in fields if text]


def _is_lossy(event: Event) -> bool:
    texts = [event.message, *(v for v in event.fields.values() if isinstance(v, str))]
    texts += [text for _, text in tail_fields(event)]
    return any("?" in logfmt.escape(text) and logfmt.is_lossy(text) for text in texts)


def _cut(event: Event, head: str, ids: str) -> str:
    """The line again with its longest values cut: a stack keeps its end, every other value its start."""
    values = {"msg": logfmt.escape(event.message)}
    values |= {k: logfmt.escape(v) if isinstance(v, str) else plain(v) for k, v in event.fields.items()}
    values |= {key: logfmt.escape(text) for key, text in tail_fields(event)}
    sizes = {key: len(value.encode()) for key, value in values.items()}
    kept = fit(sizes, LINE_LIMIT - len(head) - len(ids) - 40)
    cut = [f"{key}:{sizes[key]}" for key, size in kept.items() if size < sizes[key]]
    parts = [head]
    for key, value in values.items():
        if key not in kept:
            continue
        if kept[key] < sizes[key]:
            room = kept[key] - len(logfmt.ELLIPSIS.encode())
            if key in ("exception_stacktrace", "stack_info"):
                value = logfmt.ELLIPSIS + logfmt.tail(value, room)
            else:
                value = logfmt.head(value, room) + logfmt.ELLIPSIS
        parts.append(f'{key}="{value}"')
        if key == "msg":
            parts += [ids.strip()] if ids else []
            parts.append("cut=" + logfmt.bare(",".join(cut)[:512] or "fields"))
    return " ".join(parts)


def fit(sizes: dict[str, int], budget: int) -> dict[str, int]:
    """How many bytes each value may keep so that all, with their keys, fit ``budget``: only the longest are cut.

    Where even the keys are too many, the last fields fall away.
    """
    kept: dict[str, int] = {}
    overhead = 0
    for key, size in sizes.items():  # key, equals sign, quotes, blank, and its mention in cut=
        cost = 2 * len(key) + 24
        if overhead + cost > budget // 2:
            break
        overhead += cost
        kept[key] = size
    room = budget - overhead
    low, high = 0, max(kept.values(), default=0)
    while low < high:
        cap = (low + high + 1) // 2
        if sum(min(size, cap) for size in kept.values()) <= room:
            low = cap
        else:
            high = cap - 1
    return {key: min(size, max(low, 8)) for key, size in kept.items()}
