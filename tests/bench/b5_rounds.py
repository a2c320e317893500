"""The variants of B5 as fast as they answer, in turn: what each takes, and what it costs."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING, Final, Protocol

from tests.bench import b5_alloy, b5_load
from tests.bench.child import Child
from tests.bench.results import Ledger, Options, Row
from tests.bench.rounds import ratios, schedule, spread

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import ExitStack

    from tests.bench.sink import Sink

SERVER: Final = "tests.bench.b5_server"
CONNECTIONS: Final = 16
PRINCIPALS: Final = 10_000
STORMY: Final = 500

BARE, FIRST, NEW, STORM, ROUTE, SERVICE, ALLOY = "bare", "first", "new", "storm", "route", "service", "alloy"
NAMES: Final = {
    BARE: "bare Litestar handler that decodes the report",
    FIRST: "our route: principal, limits, dedupe, scrub, fingerprint, line",
    NEW: "our route, each report with words and places that none had before",
    STORM: "our route in a storm of repeats",
    ROUTE: "our route behind a host's Litestar router",
    SERVICE: "our service: the route with request metrics and access line",
    ALLOY: "Alloy's faro.receiver: no principal, no limit, no dedupe",
}
LOGGING: Final = (FIRST, ROUTE, SERVICE)
"""Servers that make lines; ``NEW`` and ``STORM`` are other loads on the first."""


class Served(Protocol):
    """A variant's server."""

    port: int

    def cpu(self) -> float:
        """CPU seconds used so far."""
        ...

    def drain(self) -> float:
        """Send what is queued; CPU seconds used so far."""
        ...


class Ours:
    """One of ``b5_server``."""

    def __init__(self, name: str, sink: str, core: int | None) -> None:
        self.child = Child(SERVER, name, sink, str(PRINCIPALS), core=core)
        self.port: int = self.child.hello["port"]

    def cpu(self) -> float:
        seconds: float = self.child.ask("moment")["cpu"]
        return seconds

    def drain(self) -> float:
        seconds: float = self.child.ask("drain")["cpu"]
        return seconds


class Rounds:
    """Answers a second and µs of CPU an answer, one value a round, by variant; the load generator's busiest share."""

    def __init__(self, options: Options, sink: Sink, end: ExitStack) -> None:
        """Start the servers; ``end`` stops them."""
        self._options = options
        self._sink = sink
        self._ours = {name: Ours(name, sink.url, options.server) for name in (BARE, *LOGGING)}
        for server in self._ours.values():
            end.callback(server.child.close)
        first = self._ours[FIRST]
        self._loads: dict[str, tuple[Served, Iterator[bytes]]] = {
            BARE: (self._ours[BARE], b5_load.fresh(PRINCIPALS)),
            FIRST: (first, b5_load.fresh(PRINCIPALS)),
            NEW: (first, b5_load.strange(PRINCIPALS)),
            STORM: (first, b5_load.storm(STORMY)),
            ROUTE: (self._ours[ROUTE], b5_load.fresh(PRINCIPALS)),
            SERVICE: (self._ours[SERVICE], b5_load.fresh(PRINCIPALS)),
        }
        if b5_alloy.is_there():
            alloy = end.enter_context(b5_alloy.running(sink.url, options.server))
            self._loads[ALLOY] = (alloy, b5_load.batches(PRINCIPALS))
        self.rates: dict[str, list[float]] = defaultdict(list)
        self.costs: dict[str, list[float]] = defaultdict(list)
        self.busy = 0.0

    def run(self, window: float) -> list[Ledger]:
        """Measure in rounds of ``window`` seconds for each variant; returns where the lines of our servers went."""
        for server, reports in self._loads.values():
            b5_load.flat_out(server.port, reports, window / 2, CONNECTIONS)
            server.drain()
        for _, name in schedule(tuple(self._loads), self._options.rounds(18)):
            self._measure(name, window)
        # At the end only: windows go on closing behind the last round.
        told = {name: self._ours[name].child.ask("end")["ledger"]["logs"] for name in LOGGING}
        return [
            Ledger(NAMES[name], "logs", kept_by="own", received=self._sink.count(f"lines bench-b5-{name}"), **row)
            for name, row in told.items()
        ]

    def _measure(self, name: str, window: float) -> None:
        server, reports = self._loads[name]
        cpu, start = server.cpu(), time.perf_counter()
        load = b5_load.flat_out(server.port, reports, window, CONNECTIONS)
        used, elapsed = server.drain() - cpu, time.perf_counter() - start
        if load.statuses.keys() - {202 if name == ALLOY else 204}:
            raise RuntimeError(f"{name} answered {load.statuses}")
        answered = sum(load.statuses.values())
        self.rates[name].append(answered / (load.seconds if name == ALLOY else elapsed))
        self.costs[name].append(used / answered * 1e6)
        self.busy = max(self.busy, load.busy)

    def rows(self, values: dict[str, list[float]]) -> tuple[Row, ...]:
        """A row for each variant, compared with the bare handler round by round."""
        bare = values[BARE]
        return tuple(Row(NAMES[name], spread(each), spread(ratios(each, bare))) for name, each in values.items())
