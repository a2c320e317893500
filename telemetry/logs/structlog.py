"""structlog on top: its events become stdlib records, so that every handler and sink sees them.

structlog.configure(
    processors=[structlog.contextvars.merge_contextvars, telemetry.structlog_processor],
    logger_factory=structlog.stdlib.LoggerFactory(),
    wrapper_class=structlog.stdlib.BoundLogger,
)
"""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from typing import Any

_TAKEN = frozenset([*vars(logging.LogRecord("", 0, "", 0, "", None, None)), "message", "asctime", "taskName"])


def structlog_processor(
    logger: Any, method: str, event_dict: MutableMapping[str, Any]
) -> tuple[tuple[object, ...], dict[str, Any]]:
    """The last processor of a structlog chain over ``structlog.stdlib.LoggerFactory``.

    ``event`` becomes the message, ``exc_info``, ``stack_info`` and ``stacklevel`` keep their meaning, and the
    rest become fields; a name that a log record needs for itself becomes ``extra_NAME``.
    """
    fields = dict(event_dict)
    message = fields.pop("event", "")
    special = ("exc_info", "stack_info", "stacklevel")
    kept: dict[str, Any] = {name: fields.pop(name) for name in special if name in fields}
    arguments = fields.pop("positional_args", ())
    extra = {(f"extra_{name}" if name in _TAKEN else name): value for name, value in fields.items()}
    return (message, *arguments), {**kept, "extra": extra}
