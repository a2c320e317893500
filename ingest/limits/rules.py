"""What is decided about a report, as pure functions over frozen structs and a time handed in.

Times are seconds of any clock that does not run backwards; the shared store decides by the same rules in
milliseconds of its own clock (``ingest.limits.scripts``).

The structs hold nothing that could hold them, so they are kept from the garbage collector: with a hundred thousand of
them it would stop the service for tens of milliseconds.
"""

from __future__ import annotations

import math
from typing import Final, Literal, get_args

import msgspec

from ingest.errors.fingerprint import OTHER

Refusal = Literal["rate_limited", "ceiling"]
Cause = Literal["expired", "evicted", "shutdown", "adopted", "store_lost"]
"""Why a window was closed: its time was over, room was needed, the process ended, the replica that had opened
it was gone, or the store that counted it was."""

CAUSES: Final[tuple[Cause, ...]] = get_args(Cause)

Key = tuple[str, str, str, str]
"""A window's email, workspace, kind and fingerprint: what the lines of one window have in common."""

MINUTE: Final = 60.0
# Floating point: a token that is there but for a billionth of a second is there.
_EXACT: Final = 1e-9


class Thresholds(msgspec.Struct, frozen=True, kw_only=True):
    """The limits as configured; 0 turns one off.

    ``rate`` (reports a second) and ``burst`` (reports) bound one principal, ``ceiling`` (reports a second) all
    together. ``fingerprints`` are the most that one principal may bring in a minute. ``window`` is the length in
    seconds in which a repeat is counted instead of logged. ``principals`` and ``windows`` bound what is kept in
    memory.

    With the defaults nothing that matters is ever forgotten: a bucket fills up again in burst/rate = 20 s, in
    which the ceiling lets 100,000 principals through, and in the 10 s of a window 50,000 can be opened.
    """

    rate: float = 1.0
    burst: int = 20
    ceiling: float = 5000.0
    fingerprints: int = 20
    window: float = 10.0
    principals: int = 100_000
    windows: int = 50_000


class Rate(msgspec.Struct, frozen=True):
    """A token bucket: ``interval`` seconds for one token, room for ``burst`` tokens. An interval of 0: no limit."""

    interval: float
    burst: int

    @classmethod
    def of(cls, per_second: float, burst: int) -> Rate:
        """A bucket that gets ``per_second`` tokens, none of it where that is 0."""
        return cls(1.0 / per_second if per_second > 0 else 0.0, max(1, burst))


class Decision(msgspec.Struct, frozen=True, gc=False):
    """Whether a report may come in. ``retry_after`` is in whole seconds, at least 1 for a refused one."""

    refused: Refusal | None = None
    retry_after: int = 0


ADMITTED: Final = Decision()


def refusal(refused: Refusal, wait: float) -> Decision:
    """The refusal of a caller who has to wait ``wait`` seconds for a token."""
    return Decision(refused, max(1, math.ceil(wait - _EXACT)))


class Seen(msgspec.Struct, frozen=True, gc=False):
    """What to do with a report: log it at once under ``fingerprint``, or nothing more, since it is ``counted``."""

    fingerprint: str
    counted: bool


class Account(msgspec.Struct, frozen=True, gc=False):
    """What is remembered of one principal: when its bucket is full again, and its fingerprints of this minute."""

    full_at: float = -math.inf
    minute_ends: float = -math.inf
    fingerprints: tuple[str, ...] = ()


NOBODY: Final = Account()


def take(full_at: float, now: float, rate: Rate) -> tuple[float, float]:
    """Take one token from a bucket that is full at ``full_at``.

    Returns when it is full after that, and 0; or, when it is empty, ``full_at`` and the seconds to wait for a
    token. (The generic cell rate algorithm: one number says how full a bucket is at any time.)
    """
    if not rate.interval:
        return full_at, 0.0
    size = rate.interval * rate.burst
    # A bucket is never emptier than empty, wherever the clock has jumped to.
    full = min(max(full_at, now), now + size)
    wait = full - now - (size - rate.interval)
    return (full + rate.interval, 0.0) if wait <= _EXACT else (full_at, wait)


def admit(own: float, total: float, now: float, rate: Rate, ceiling: Rate) -> tuple[float, float, Decision]:
    """A token of the principal's own bucket and one of everybody's; neither is taken unless both are there.

    ``own`` and ``total`` say when the buckets are full; returned is what they are afterwards.
    """
    own_after, wait = take(own, now, rate)
    if wait:
        return own, total, refusal("rate_limited", wait)
    total_after, wait = take(total, now, ceiling)
    if wait:
        return own, total, refusal("ceiling", wait)
    return own_after, total_after, ADMITTED


def fold(account: Account, fingerprint: str, now: float, cap: int) -> tuple[Account, str]:
    """The fingerprint that a report counts under: its own, or ``OTHER`` once ``cap`` others came in this minute."""
    if not cap or fingerprint == OTHER:
        return account, fingerprint
    if now >= account.minute_ends:
        return Account(account.full_at, now + MINUTE, (fingerprint,)), fingerprint
    if fingerprint in account.fingerprints:
        return account, fingerprint
    if len(account.fingerprints) >= cap:
        return account, OTHER
    return Account(account.full_at, account.minute_ends, (*account.fingerprints, fingerprint)), fingerprint


class Sample(msgspec.Struct, frozen=True, gc=False):
    """What a closing line says besides its key: of the first report that was counted, cut and clean of secrets.

    No stack, no trace: the window's first line has them, under the same fingerprint.
    """

    url: str = ""
    build: str = ""
    release: str = ""
    message: str = ""


class Window(msgspec.Struct, frozen=True, gc=False):
    """An open window. ``suppressed`` are the occurrences counted in it, without those its first line told."""

    closes_at: float
    suppressed: int = 0
    sample: Sample | None = None


class Closing(msgspec.Struct, frozen=True, gc=False):
    """A window that is over and has something to tell: ``repeat`` occurrences, at least 1."""

    key: Key
    repeat: int
    sample: Sample
    cause: Cause


def closing(key: Key, window: Window, cause: Cause) -> Closing | None:
    """What is to be told when ``window`` ends; None when its first line told everything."""
    if window.sample is None:
        return None
    return Closing(key, window.suppressed, window.sample, cause)
