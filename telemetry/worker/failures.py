"""Why the database did not take what a worker sent: a closed list, the same for pings, claims and completions."""

from __future__ import annotations

from typing import Final, Literal

import psycopg
from psycopg import errors

Failure = Literal["timeout", "connection", "refused"]
FAILURES: Final[tuple[Failure, ...]] = ("timeout", "connection", "refused")
"""No answer in time; nobody there, or gone in the middle; an answer, and it was no."""


class NoAnswer(psycopg.OperationalError):
    """The database kept the connection open and said nothing for longer than we wait."""


def failure(error: Exception) -> Failure:
    """Why, from what the driver, the socket or our own deadline raised."""
    if isinstance(error, (TimeoutError, NoAnswer, errors.QueryCanceled, errors.LockNotAvailable)):
        return "timeout"
    return "connection" if isinstance(error, (OSError, psycopg.OperationalError)) else "refused"
