"""What this process has counted into windows of the store, should the store be lost.

A *shadow* is this process's own part of a window that the store counts. It is dropped once the window is known to
be out of the store, closed by whoever took it out. It is told in a closing line of its own when the store's life
ended before that, or when the store could not be reached until the window was gone from it (``LATEST_MS``): so the
sums stay right through a store that dies, loses its memory, or is stopped for a while.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

import msgspec

from ingest.limits.rules import Cause, Closing, Key, Sample
from ingest.limits.scripts import LATEST_MS
from ingest.limits.store import Closed, Met


class Shadow(msgspec.Struct, frozen=True):
    """Occurrences of ``key`` that this process counted into a window of the store that ends at ``ends`` (its ms)."""

    key: Key
    ends: int
    life: str
    repeat: int
    sample: Sample
    mine: bool


class Shadows:
    """This process's part of the windows in the store. Bounded; the oldest go first, and untold."""

    def __init__(self, most: int, emit: Callable[[Closing], None]) -> None:
        self._most = max(1, most)
        self._emit = emit
        self._shadows: OrderedDict[tuple[Key, int, str], Shadow] = OrderedDict()
        self._mine: OrderedDict[tuple[Key, int, str], None] = OrderedDict()
        self._seen = 0  # when, by the server's clock, a sweep was last heard of

    def __len__(self) -> int:
        return len(self._shadows)

    def met(self, key: Key, repeat: int, sample: Sample, met: Met) -> None:
        """Remember what the store made of a report."""
        at = ((*key[:3], met.fingerprint), met.ends, met.life)
        if not met.counted:
            self._mine[at] = None
            if len(self._mine) > self._most:
                self._mine.popitem(last=False)
            return
        old = self._shadows.get(at)
        if old is not None:
            repeat, sample = old.repeat + repeat, old.sample
        self._shadows[at] = Shadow(at[0], met.ends, met.life, repeat, sample, at in self._mine)
        if len(self._shadows) > self._most:
            self._shadows.popitem(last=False)

    def closed(self, closed: Closed, cause: Cause) -> None:
        """Tell the windows that a sweep took out; forget those that are known to be out; tell those of lost lives."""
        for told in closed.told:
            self._forget((told.key, told.ends, closed.life))
            self._emit(Closing(told.key, told.repeat, told.sample, "adopted" if told.foreign else cause))
        for at, shadow in list(self._shadows.items()):
            if shadow.life != closed.life:
                # Others' windows that had ended when the store was last heard of were closed by those others.
                if shadow.mine or shadow.ends > self._seen:
                    self._tell(shadow, "store_lost")
                self._forget(at)
            elif not closed.more and shadow.ends <= closed.done_until:
                self._forget(at)
        for at in list(self._mine):
            if at[2] == closed.life and at[1] > closed.done_until:
                break
            del self._mine[at]
        self._seen = closed.swept_at

    def unreachable(self, server_now: float) -> None:
        """Tell what the store can't have any more, at ``server_now`` by its clock."""
        for at, shadow in list(self._shadows.items()):
            if server_now > shadow.ends + LATEST_MS:
                self._tell(shadow, "store_lost")
                self._forget(at)

    def tell_all(self) -> None:
        """The process ends and the store can't be reached: tell everything."""
        for at, shadow in list(self._shadows.items()):
            self._tell(shadow, "store_lost")
            self._forget(at)

    def _forget(self, at: tuple[Key, int, str]) -> None:
        self._shadows.pop(at, None)
        self._mine.pop(at, None)

    def _tell(self, shadow: Shadow, cause: Cause) -> None:
        self._emit(Closing(shadow.key, shadow.repeat, shadow.sample, cause))
