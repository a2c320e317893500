"""The state of one process: buckets and fingerprints by principal, and the open windows. All bounded.

What is forgotten for want of room does no harm to the sums: a forgotten principal starts with a full bucket,
a forgotten window is closed first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator

from ingest.limits.rules import (
    NOBODY,
    Account,
    Cause,
    Closing,
    Decision,
    Key,
    Rate,
    Sample,
    Thresholds,
    Window,
    admit,
    closing,
    fold,
)


class Accounts:
    """Buckets and fingerprints of the principals heard from last, and the bucket of all together."""

    def __init__(self, limits: Thresholds) -> None:
        self._rate = Rate.of(limits.rate, limits.burst)
        self._ceiling = Rate.of(limits.ceiling, int(limits.ceiling))
        self._cap = limits.fingerprints
        self._most = max(1, limits.principals)
        self._total = NOBODY.full_at
        self._accounts: OrderedDict[str, Account] = OrderedDict()

    def __len__(self) -> int:
        return len(self._accounts)

    def admit(self, email: str, now: float) -> Decision:
        """Take a token of ``email``'s bucket and one of everybody's."""
        account = self._accounts.get(email, NOBODY)
        own, self._total, decision = admit(account.full_at, self._total, now, self._rate, self._ceiling)
        if decision.refused is None:
            self._keep(email, Account(own, account.minute_ends, account.fingerprints))
        elif account is not NOBODY:
            self._accounts.move_to_end(email)
        return decision

    def give_back(self, email: str) -> None:
        """Return both tokens: the store refused what was admitted here."""
        account = self._accounts.get(email)
        if account is not None:
            own = account.full_at - self._rate.interval
            self._accounts[email] = Account(own, account.minute_ends, account.fingerprints)
        self._total -= self._ceiling.interval

    def fold(self, email: str, fingerprint: str, now: float) -> str:
        """The fingerprint under which a report of ``email`` counts."""
        account = self._accounts.get(email, NOBODY)
        after, folded = fold(account, fingerprint, now, self._cap)
        if after is not account:
            self._keep(email, after)
        return folded

    def _keep(self, email: str, account: Account) -> None:
        accounts = self._accounts
        accounts[email] = account
        accounts.move_to_end(email)
        if len(accounts) > self._most:
            accounts.popitem(last=False)


class Windows:
    """Open windows in the order in which they end, all of one length.

    Whatever closes one hands it to ``emit``; summed over the lines that were logged at once and those that
    ``emit`` was given, ``repeat`` counts every occurrence once.
    """

    def __init__(self, limits: Thresholds, emit: Callable[[Closing], None]) -> None:
        self._length = limits.window
        self._most = max(1, limits.windows)
        self._emit = emit
        self._windows: OrderedDict[Key, Window] = OrderedDict()

    def __len__(self) -> int:
        return len(self._windows)

    def __contains__(self, key: object) -> bool:
        return key in self._windows

    def count(self, key: Key, repeat: int, now: float, sample: Callable[[str], Sample]) -> bool:
        """Count a report into the window of ``key``; False when none is open, and the report is to be logged."""
        window = self._windows.get(key)
        if window is None:
            return False
        if now >= window.closes_at:
            self._close(key, self._windows.pop(key), "expired")
            return False
        self._windows[key] = Window(window.closes_at, window.suppressed + repeat, window.sample or sample(key[3]))
        return True

    def open(self, key: Key, now: float) -> None:
        """Open the window of ``key``, closing the oldest where there is no room."""
        if not self._length:
            return
        if len(self._windows) >= self._most:
            self._close(*self._windows.popitem(last=False), "evicted")
        self._windows[key] = Window(now + self._length)

    def close_due(self, now: float, most: int) -> bool:
        """Close what has ended, at most ``most`` with something to tell; True when there may be more."""
        for key in self._due(now):
            most -= self._close(key, self._windows.pop(key), "expired")
            if most <= 0:
                return True
        return False

    def close_all(self, cause: Cause = "shutdown") -> None:
        """Close every window, ended or not."""
        while self._windows:
            self._close(*self._windows.popitem(last=False), cause)

    def _due(self, now: float) -> Iterator[Key]:
        while self._windows:
            key = next(iter(self._windows))
            if now < self._windows[key].closes_at:
                return
            yield key

    def _close(self, key: Key, window: Window, cause: Cause) -> bool:
        over = closing(key, window, cause)
        if over is not None:
            self._emit(over)
        return over is not None
