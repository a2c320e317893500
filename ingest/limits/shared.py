"""Limits shared through a store: what it decides while it can be reached, and when it is asked again.

Every method answers None, or does nothing more, where the store does not do its part: the caller then goes on
alone. Each failed call is counted under its reason, the change from one state to the other is logged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from ingest.limits.rules import ADMITTED, Closing, Decision, Key, Sample, Seen, Thresholds, refusal
from ingest.limits.shadows import Shadows
from ingest.limits.store import REASONS, Store, StoreDown
from telemetry.metrics.registry import counter, gauge

RETRY: Final = 1.0
"""Seconds between attempts at a store that is down."""

_log = logging.getLogger("ingest")


class Shared:
    """The store at ``url``. ``emit`` is handed each window that is taken out of it and has something to tell."""

    def __init__(
        self, url: str, limits: Thresholds, emit: Callable[[Closing], None], clock: Callable[[], float]
    ) -> None:
        self._store = Store(url, limits)
        self._shadows = Shadows(limits.windows, emit)
        self._clock = clock
        self._asked = clock() - RETRY
        self._errors = counter("frontend_store_errors_total").start(REASONS)
        self._gauge = gauge("frontend_store_up").child()
        self._gauge.set(0)
        self.up = False
        self.open = 0
        """Windows in the store that this process has opened, as of the last sweep."""

    @property
    def to_be_asked(self) -> bool:
        """True for a store that is up, and now and then for one that is down."""
        return self.up or self._clock() - self._asked >= RETRY

    async def admit(self, email: str) -> Decision | None:
        """What the store says about a report that memory has admitted."""
        try:
            which, wait = await self._store.admit(email)
        except StoreDown as down:
            self._lost(down)
            return None
        return refusal("rate_limited" if which == 1 else "ceiling", wait) if which else ADMITTED

    async def meet(self, key: Key, repeat: int, sample: Sample) -> Seen | None:
        """Count a report into its window in the store, or open one there."""
        try:
            met = await self._store.meet(key, repeat, sample)
        except StoreDown as down:
            self._lost(down)
            return None
        self._shadows.met(key, repeat, sample, met)
        return Seen(met.fingerprint, met.counted)

    async def sweep(self, *, everything: bool = False) -> None:
        """Take windows out of the store and tell them; this is also how a store is found to be back."""
        self._asked = self._clock()
        more = True
        while more:
            try:
                closed = await self._store.close(everything=everything)
            except StoreDown as down:
                self._lost(down)
                self._shadows.unreachable(self._store.now())
                return
            self._shadows.closed(closed, "shutdown" if everything else "expired")
            self.open, more = closed.open, closed.more
        if not self.up:
            self.up = True
            self._gauge.set(1)
            _log.info("limits are shared with other replicas from now on")

    async def finish(self) -> None:
        """Close this process's windows, in the store or, where that can't be reached, its own part of them."""
        if self.up:
            await self.sweep(everything=True)
        if not self.up:
            self._shadows.tell_all()
        self.up = False
        await self._store.disconnect()

    def _lost(self, down: StoreDown) -> None:
        self._errors.child(down.reason).inc()
        self._asked = self._clock()
        self.open = 0
        if self.up:
            self.up = False
            self._gauge.set(0)
            _log.warning("the store of the limits failed (%s), this replica limits alone: %s", down.reason, down)
