"""Records that can't be read as they are: from other processes, by other factories, with attributes of other types.

``logging`` checks little of what a record holds, and ``makeLogRecord`` takes any dictionary. Such a record is
made readable and delivered; a time that is none becomes that of reading it, whatever else is odd becomes its text.
"""

from __future__ import annotations

import logging
from typing import Any

from telemetry.text import printable

_STANDARD = frozenset(vars(logging.LogRecord("", 0, "", 0, "", None, None)))
_LEFT_OUT = _STANDARD | {"tags", "_fleetglass"}
_LATEST = 2**63 / 1e9  # seconds: what fits 64 bits as nanoseconds, the year 2262


def presentable(record: logging.LogRecord) -> logging.LogRecord:
    """A copy of ``record`` in which every attribute has the type that it should have. Never raises."""
    given: dict[str, Any] = {**vars(record)}
    level = given.get("levelno")
    kept = logging.LogRecord(
        printable(given.get("name") or "root"),
        level if isinstance(level, int) else logging.NOTSET,
        "",
        0,
        given.get("msg"),
        given.get("args"),
        _exception(given.get("exc_info")),
    )
    kept.levelname = printable(given.get("levelname") or kept.levelname)
    created = given.get("created")
    if isinstance(created, int | float) and 0 <= created < _LATEST:
        kept.created = created
    kept.exc_text = _text(given.get("exc_text"))
    if kept.exc_info is None and kept.exc_text is None and given.get("exc_info"):
        kept.exc_text = printable(given["exc_info"])
    kept.stack_info = _text(given.get("stack_info"))
    for key, value in given.items():
        if key not in _LEFT_OUT:
            kept.__dict__[key] = value
    kept.__dict__["tags"] = _tags(given.get("tags"))
    return kept


def _text(value: object) -> str | None:
    return printable(value) if value else None


def _exception(value: Any) -> Any:
    """``value`` where it is what ``exc_info`` should be: a type, an instance, a traceback or None."""
    if isinstance(value, BaseException):
        return type(value), value, value.__traceback__
    if isinstance(value, tuple) and len(value) == 3 and isinstance(value[0], type):
        return value
    return None


def _tags(value: Any) -> object:
    try:
        return dict(value) if value is not None else None
    except Exception:
        return printable(value)
