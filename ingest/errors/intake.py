"""A report from a principal -> a line, a count, or nothing; whatever way it came in.

Noise is dropped first, so that it opens no window and takes no place among a principal's fingerprints.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Literal

from ingest.answers import Answer, problem
from ingest.errors.closing import closing_line, sample
from ingest.errors.fingerprint import fingerprint
from ingest.errors.line import EVENT, LOGGER, ready_line
from ingest.errors.noise import REASONS, noise
from ingest.errors.report import KINDS, Report
from ingest.errors.sourcemaps import EVENT as SOURCE_EVENT
from ingest.errors.sourcemaps import SourceMaps
from ingest.limits import Closing, Decision, Limits, Thresholds
from ingest.limits.rules import Refusal
from ingest.principal import Principal
from ingest.settings import Settings
from telemetry.logs import ReadyLine
from telemetry.logs.place import Place
from telemetry.metrics.registry import counter

Outcome = Literal["accepted", "duplicate", "noise"]
"""What became of a report that was read: logged, counted into an open window, or dropped as noise."""


class Intake:
    """The one way in for reports, shared by all routes that take them.

    ``clock`` returns seconds since the epoch. Put ``running()`` into the application's lifespan.
    """

    def __init__(self, settings: Settings, *, clock: Callable[[], float] = time.time) -> None:
        self._limits = Limits(_thresholds(settings), self._close, store_url=settings.store_url)
        self._clock = clock
        self._dropped = frozenset(settings.noise)
        self._logger = logging.getLogger(LOGGER)
        self._line = Place(self._logger, logging.ERROR, EVENT, __file__, "take")
        errors = counter("frontend_errors_total").start(KINDS)
        self._errors = {kind: errors.child(kind) for kind in KINDS}
        self._noise = counter("frontend_noise_total").start(REASONS)
        self._sourcemaps = SourceMaps(settings.sourcemaps, self._resolved, clock) if settings.sourcemaps else None

    @asynccontextmanager
    async def running(self, _app: object = None) -> AsyncIterator[None]:
        """Close windows in time while inside, and all of them at the end."""
        try:
            async with self._limits.running():
                yield
        finally:
            if self._sourcemaps is not None:
                await asyncio.to_thread(self._sourcemaps.close)

    def admit(self, principal: Principal) -> Awaitable[Decision]:
        """Whether a report of ``principal`` may come in now. Limits are a person's, whatever the workspace."""
        return self._limits.admit(principal.email)

    def give_back(self, principal: Principal) -> None:
        """Undo ``admit``: what came held no report."""
        self._limits.give_back(principal.email)

    async def take(self, report: Report, principal: Principal) -> Outcome:
        """Log ``report``, or count it, or drop it; the caller counts the outcome as the report's result."""
        why = noise(report) if self._dropped else None
        if why in self._dropped:
            self._noise.child(why).inc()
            return "noise"
        fp = fingerprint(report.kind, report.message, report.stack)
        key = (principal.email, principal.workspace, report.kind, fp)
        seen = await self._limits.meet(key, report.repeat, lambda _: sample(report))
        self._errors[report.kind].inc(report.repeat)
        if seen.counted:
            return "duplicate"
        self._line.log_ready(ready_line(report, principal, self._clock(), seen.fingerprint))
        if self._sourcemaps is not None:
            self._sourcemaps.offer(report, seen.fingerprint)
        return "accepted"

    def _close(self, closing: Closing) -> None:
        self._line.log_ready(closing_line(closing, self._clock()))

    def _resolved(self, line: ReadyLine) -> None:
        self._logger.info(SOURCE_EVENT, extra={"ready_line": line})


def too_many(refused: Refusal, retry_after: int) -> Answer:
    """The 429 for a caller who may come back in ``retry_after`` seconds."""
    what = "You send reports faster than the limit" if refused == "rate_limited" else "The service is at its limit"
    return problem(
        429,
        "Too Many Requests",
        f"{what}; try again in {retry_after} s.",
        [(b"retry-after", str(retry_after).encode())],
    )


def _thresholds(settings: Settings) -> Thresholds:
    return Thresholds(
        rate=settings.limit_rate,
        burst=settings.limit_burst,
        ceiling=settings.limit_ceiling,
        fingerprints=settings.limit_fingerprints,
        window=settings.dedupe_window,
        principals=settings.limit_principals,
        windows=settings.limit_windows,
    )
