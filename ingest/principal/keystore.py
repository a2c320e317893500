"""An issuer's keys as this process knows them: cached, refreshed, rotated, and used on while the issuer is down."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

from ingest.principal.caller import Unavailable
from ingest.principal.issuer import FetchFailed
from ingest.principal.keys import KeySet

REFRESH_SECONDS: Final = 300.0
"""Keys of this age are fetched again, in the background: how long a key that an issuer withdrew is still taken."""
PAUSE_SECONDS: Final = 10.0
"""Between two fetches at least, whatever tokens come in."""

_log = logging.getLogger("ingest")


class KeyStore:
    """``fetch`` is asked at most once in ``pause`` seconds and never twice at a time.

    Keys are fetched again after ``refresh`` seconds; while that fails they are taken for ``stale`` seconds more.
    ``clock`` returns monotonic seconds.
    """

    def __init__(
        self,
        fetch: Callable[[], Awaitable[KeySet]],
        *,
        stale: float,
        refresh: float = REFRESH_SECONDS,
        pause: float = PAUSE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fetch = fetch
        self._refresh = refresh
        self._stale = stale
        self._pause = pause
        self._clock = clock
        self._keys: KeySet | None = None
        self._fetched = 0.0
        self._asked: float | None = None
        self._running: asyncio.Task[None] | None = None
        self._failing = False

    def current(self) -> KeySet | None:
        """The keys that may be used now, None when there are none; starts a refresh in the background when due."""
        if self._keys is None:
            return None
        age = self._clock() - self._fetched
        if age > self._refresh:
            self._start()
            if age > self._stale + self._refresh:
                return None
        return self._keys

    async def available(self) -> KeySet:
        """The keys that may be used now, fetched when there are none. Raises ``Unavailable``."""
        keys = self.current()
        if keys is None:
            await self.renew()
            keys = self.current()
        if keys is None:
            raise Unavailable("the keys of the token issuer can't be fetched")
        return keys

    async def renew(self) -> None:
        """Fetch again, or wait for the fetch that runs; returns at once when the last one was a moment ago."""
        running = self._start()
        if running is not None:
            # A caller that leaves must not take the fetch away from the others.
            await asyncio.shield(running)

    def _start(self) -> asyncio.Task[None] | None:
        loop = asyncio.get_running_loop()
        running = self._running
        if running is not None and not running.done() and running.get_loop() is loop:
            return running
        now = self._clock()
        if self._asked is not None and now - self._asked < self._pause:
            return None
        self._asked = now
        self._running = loop.create_task(self._renew(), name="fetch the token issuer's keys")
        return self._running

    async def _renew(self) -> None:
        try:
            keys = await self._fetch()
        except Exception as failed:  # whatever it is, tokens are checked with the keys at hand
            if not self._failing:
                self._failing = True
                wrong = None if isinstance(failed, FetchFailed) else failed
                _log.warning("the token issuer's keys can't be fetched: %s", failed, exc_info=wrong)
            return
        if self._failing:
            self._failing = False
            _log.info("the token issuer's keys are there again")
        self._fetched = self._clock()
        if self._keys is None or self._keys.document != keys.document:
            self._keys = keys
