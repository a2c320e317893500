"""Liveness and readiness: whether this process can serve, asked of those it depends on.

Liveness touches nothing: a process that answers is alive. Readiness asks each registered dependency,
all at once, each within its own budget. A telemetry backend is no dependency of a request: it is shown
and never counts.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from time import perf_counter
from typing import TYPE_CHECKING

import msgspec

from telemetry.ledger import RowSnapshot
from telemetry.web.background import in_thread

if TYPE_CHECKING:
    from telemetry.pipeline import Telemetry

Ping = Callable[[], object | Awaitable[object]]
"""Asks a dependency: returns (anything but False) when it is well, raises or returns False when not."""

BUDGET = 1.0

_logger = logging.getLogger("telemetry.web.health")


class Check(msgspec.Struct, frozen=True):
    """What one dependency answered.

    ``error`` is a word: an exception's type, ``timeout``, or ``false``. Messages hold addresses and
    passwords, and this page needs no login.
    """

    name: str
    ok: bool
    seconds: float
    error: str | None = None


class Report(msgspec.Struct, frozen=True):
    """An answer of ``/readyz``. ``reason`` is ``ready``, ``draining`` or ``failing``."""

    ready: bool
    reason: str
    checks: tuple[Check, ...] = ()
    telemetry: tuple[RowSnapshot, ...] = ()


class Readiness:
    """The dependencies that requests need, and whether this process still wants requests.

    ``pings`` maps names to functions, plain or async. A plain one runs in a thread of its own. One that
    hangs is not called again until it has returned; until then it counts as timed out.
    """

    def __init__(
        self,
        pings: Mapping[str, Ping] | None = None,
        *,
        budget: float = BUDGET,
        telemetry: Callable[[], Telemetry | None] | None = None,
    ) -> None:
        self._budget = budget
        self._pings: dict[str, tuple[Ping, float]] = {}
        self._running: dict[str, asyncio.Future[object]] = {}
        self._failing: set[str] = set()
        self._telemetry = telemetry
        self.draining = False
        for name, ping in (pings or {}).items():
            self.register(name, ping)

    def register(self, name: str, ping: Ping, *, budget: float | None = None) -> None:
        """Ask ``ping`` too, for at most ``budget`` seconds; an earlier one of that name is replaced."""
        self._pings[name] = (ping, self._budget if budget is None else budget)

    def drain(self) -> None:
        """Be unready from now on, whatever the dependencies say, so that no new requests are sent here."""
        self.draining = True

    async def report(self) -> Report:
        """Ask everyone. Takes no longer than the longest budget; while draining, nobody is asked."""
        backends = self._backends()
        if self.draining:
            return Report(ready=False, reason="draining", telemetry=backends)
        checks = await asyncio.gather(*(self._ask(name, *asked) for name, asked in self._pings.items()))
        ready = all(check.ok for check in checks)
        return Report(ready, "ready" if ready else "failing", tuple(checks), backends)

    async def _ask(self, name: str, ping: Ping, budget: float) -> Check:
        start = perf_counter()
        running = self._running.get(name)
        if running is None or running.done() or running.get_loop() is not asyncio.get_running_loop():
            running = self._running[name] = _start(name, ping)
        error: BaseException | str | None = None
        try:
            # Shielded: others may be waiting for the same answer, and a hung ping stays in its place.
            answer = await asyncio.wait_for(asyncio.shield(running), budget)
            error = "false" if answer is False else None
        except TimeoutError:
            # What the ping raised itself is an answer; otherwise it has none yet.
            error = running.exception() if running.done() and not running.cancelled() else "timeout"
        except Exception as raised:
            error = raised
        seconds = round(perf_counter() - start, 6)
        self._tell_change(name, error)
        word = type(error).__name__ if isinstance(error, BaseException) else error
        return Check(name, error is None, seconds, word)

    def _tell_change(self, name: str, error: BaseException | str | None) -> None:
        """One line when a dependency fails and one when it is back, not one per probe; here with its message."""
        if error is not None and name not in self._failing:
            self._failing.add(name)
            _logger.warning("dependency %s is failing: %s", name, _say(error), extra={"dependency": name})
        elif error is None and name in self._failing:
            self._failing.discard(name)
            _logger.info("dependency %s is well again", name, extra={"dependency": name})

    def _backends(self) -> tuple[RowSnapshot, ...]:
        telemetry = self._telemetry() if self._telemetry is not None else None
        return tuple(telemetry.health().rows) if telemetry is not None else ()


def _start(name: str, ping: Ping) -> asyncio.Future[object]:
    if inspect.iscoroutinefunction(ping):
        return asyncio.ensure_future(ping())

    def call() -> object:
        return ping()

    return asyncio.ensure_future(_finished(in_thread(call, f"fleetglass-ping-{name}")))


async def _finished(future: Awaitable[object]) -> object:
    """The answer, also of a plain function that returned something to await (a partial, a lambda)."""
    answer = await future
    return await answer if inspect.isawaitable(answer) else answer


def _say(error: BaseException | str) -> str:
    return f"{type(error).__name__}: {error}" if isinstance(error, BaseException) else error
