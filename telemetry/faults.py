"""Faults of the library itself: counted, said once on stderr, never raised into the host.

``FLEETGLASS_STRICT=1`` (``set_strict``) raises instead, for those who would rather stop than lose a
record. This module knows nobody, so that everything may report to it.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter

_lock = threading.RLock()
_counts: Counter[str] = Counter()
_said: set[tuple[str, str]] = set()
_strict = False


class InternalFault(RuntimeError):
    """An internal fault, raised only under ``FLEETGLASS_STRICT=1``. ``where`` names the part."""

    def __init__(self, where: str, message: str) -> None:
        super().__init__(f"{where}: {message}")
        self.where = where


def set_strict(strict: bool) -> None:
    """Raise internal faults from now on (or stop doing so)."""
    global _strict
    _strict = strict


def report(where: str, error: BaseException | str) -> None:
    """Count one fault of the part named ``where``; say the first of each kind on stderr."""
    kind = type(error).__name__ if isinstance(error, BaseException) else error
    message = f"{kind}: {error}" if isinstance(error, BaseException) else error
    with _lock:
        _counts[where] += 1
        first = (where, kind) not in _said
        if first:
            _said.add((where, kind))
    if _strict:
        raise InternalFault(where, message) from (error if isinstance(error, BaseException) else None)
    if first:
        say(f"internal fault in {where}: {message} (said once; counted in telemetry_internal_faults_total)")


def say(sentence: str) -> None:
    """Write one line to stderr, past logging, so that telling of a fault can't cause another."""
    try:
        sys.stderr.write(f"fleetglass: {sentence}\n")
        sys.stderr.flush()
    except Exception:  # stderr closed, or none at all under pythonw and some daemons
        return


def counts() -> dict[str, int]:
    """How many faults each part has reported since start or ``reset()``."""
    with _lock:
        return dict(_counts)


def reset() -> None:
    """Forget every fault, also which were said (tests, and a forked child)."""
    global _lock
    _lock = threading.RLock()
    _counts.clear()
    _said.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=reset)
