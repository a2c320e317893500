"""The limits as routes use them: whether a report may come in, and whether it is logged or counted.

Everything is decided in memory first; where replicas share a store, what memory admits is decided there as well.
A store that does not answer costs one call's budget: then this process goes on alone, and asks again once a second
whether the store is back.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from contextvars import Context
from typing import TYPE_CHECKING, Final

from ingest.limits.memory import Accounts, Windows
from ingest.limits.rules import CAUSES, Closing, Decision, Key, Sample, Seen, Thresholds
from telemetry import faults
from telemetry.config import ConfigError, Problem
from telemetry.config.addresses import mask_credentials
from telemetry.metrics.registry import counter, gauge

if TYPE_CHECKING:
    from ingest.limits.shared import Shared

TICK: Final = 0.25
"""Seconds between looks at what has ended."""

_SLICE: Final = 50  # closing lines in one go: some milliseconds in which no request is served
_PAUSE: Final = 0.005


class Limits:
    """Buckets, caps and windows of one process.

    ``emit`` is handed each window that is over and has something to tell. ``store_url`` is that of the server that
    replicas share; ConfigError where its client is not installed. ``clock`` returns seconds and never runs
    backwards. To be used from one event loop, inside ``running()``; outside of it limits hold as well, but what is
    open when the process ends is lost.
    """

    def __init__(
        self,
        thresholds: Thresholds,
        emit: Callable[[Closing], None],
        *,
        store_url: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._emit_line = emit
        self._accounts = Accounts(thresholds)
        self._windows = Windows(thresholds, self._emit)
        self._closed = counter("frontend_windows_closed_total").start(CAUSES)
        self._open = gauge("frontend_windows_open").child()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._sweep: asyncio.Task[None] | None = None
        self._shared = None if store_url is None else self._share(store_url, thresholds)

    def _share(self, url: str, thresholds: Thresholds) -> Shared:
        try:
            from ingest.limits.shared import Shared
        except ImportError as error:
            expected = "the redis client beside it: pip install 'fleetglass[store]'"
            raise ConfigError((Problem("FLEETGLASS_STORE_URL", mask_credentials(url), expected),)) from error
        return Shared(url, thresholds, self._emit, self._clock)

    async def admit(self, email: str) -> Decision:
        """Whether a report of ``email`` may come in; takes a token if so."""
        decision = self._accounts.admit(email, self._clock())
        if decision.refused is None and self._shared is not None and self._shared.up:
            said = await self._shared.admit(email)
            if said is not None and said.refused is not None:
                self._accounts.give_back(email)
                return said
        return decision

    def give_back(self, email: str) -> None:
        """Return the token that ``admit`` took: nothing to be limited came. A token of the shared store stays spent."""
        self._accounts.give_back(email)

    async def meet(self, key: Key, repeat: int, sample: Callable[[str], Sample]) -> Seen:
        """Count ``repeat`` occurrences of ``key`` into its open window, or open one.

        Its fingerprint may be folded into ``OTHER``. ``sample`` makes what a closing line would say about this
        report, given the fingerprint; it is called only where it may be needed.
        """
        if self._shared is not None and self._shared.up:
            seen = await self._shared.meet(key, repeat, sample(key[3]))
            if seen is not None:
                return seen
        now = self._clock()
        fingerprint = key[3]
        if self._windows.count(key, repeat, now, sample):
            return Seen(fingerprint, counted=True)
        folded = self._accounts.fold(key[0], fingerprint, now)
        if folded != fingerprint:
            key = (*key[:3], folded)
            if self._windows.count(key, repeat, now, sample):
                return Seen(folded, counted=True)
        self._windows.open(key, now)
        self._arm(TICK)
        return Seen(folded, counted=False)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Close windows in time while inside, and all of them at the end. For an application's lifespan."""
        if self._shared is not None:
            await self._shared.sweep()
            self._arm(TICK)
        try:
            yield
        finally:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._sweep is not None:
                await asyncio.gather(self._sweep, return_exceptions=True)
            self._windows.close_all()
            if self._shared is not None:
                await self._shared.finish()
            self._open.set(0)

    def _arm(self, delay: float) -> None:
        """Look again in ``delay`` seconds; in an empty context, since a closing line belongs to no request."""
        if self._timer is None or self._loop is None or self._loop.is_closed():
            self._loop = asyncio.get_running_loop()
            self._timer = self._loop.call_later(delay, self._tick, context=Context())

    def _tick(self) -> None:
        self._timer = None
        more = self._windows.close_due(self._clock(), _SLICE)
        shared = self._shared
        self._open.set(len(self._windows) + (shared.open if shared is not None else 0))
        if shared is not None and shared.to_be_asked and (self._sweep is None or self._sweep.done()):
            self._sweep = asyncio.get_running_loop().create_task(shared.sweep(), context=Context())
        if self._windows or shared is not None:
            self._arm(_PAUSE if more else TICK)

    def _emit(self, closing: Closing) -> None:
        self._closed.child(closing.cause).inc()
        try:
            self._emit_line(closing)
        except Exception as error:
            faults.report("ingest.limits", error)
