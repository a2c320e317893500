"""The exporter of queue, workers and what was asked for: it reads in a thread of its own and serves what it last read.

Each part is read by itself, in one short transaction with limits of its own. When a read fails, or is overdue, the
gauges of that part are gone, and what follows from it is unknown; nothing is ever turned into 0 and nothing goes
stale. Of several exporters either one is elected, or all say the same and boards take the maximum.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Self

import msgspec
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from telemetry import faults
from telemetry.fleet import picture, publish
from telemetry.fleet.catalogue import Catalogue, read_catalogue
from telemetry.fleet.drift import State as Badge
from telemetry.fleet.election import Election
from telemetry.fleet.indexes import skips
from telemetry.fleet.model import Windows
from telemetry.fleet.picture import Parts, Picture, Rules
from telemetry.fleet.profiles import WINDFORCE, Part, Profile, check
from telemetry.fleet.queue import CLAIM_WINDOW, Details, Reading, read_detail, read_pending
from telemetry.fleet.session import REASONS, Reason, SchemaError, Session, reason
from telemetry.fleet.tags import Seen
from telemetry.fleet.workers import Roll, read_roll
from telemetry.metrics.accounts import family
from telemetry.metrics.registry import REGISTRY
from telemetry.worker.patience import Patience

PARTS: Final[tuple[Part, ...]] = ("queue", "workers", "detail", "catalogue")
_UNMENDING: Final[frozenset[Reason]] = frozenset({"permission", "schema", "refused"})

Tags = Callable[[], Iterable[str]]
"""The tags of the platform's actions, from its own code."""


class Read(msgspec.Struct, frozen=True, kw_only=True):
    """How the last read of a part went. ``began`` counts seconds by the monotonic clock, ``at`` is the server's time.

    ``value`` is None when it failed; ``at`` is then that of the last that worked.
    """

    value: Any
    began: float
    took: float
    at: float | None = None
    reason: Reason | None = None


class Observer:
    """Reads a platform's database and serves what it finds, from ``start()`` to ``stop()``, or in a ``with`` block.

    ``interval`` and ``detail_interval`` count seconds between reads. ``catalogue`` gives the tags of the platform's
    actions; without it the profile's query or its tables do, and without those nobody. ``election`` makes this one of
    several of whom one reads. The server ends a statement after ``statement_timeout``, those of the part ``detail``
    after ``detail_timeout``; a read as a whole ends here, by the ``deadline``. Raises ValueError for times that don't
    fit together.
    """

    def __init__(
        self,
        conninfo: str,
        *,
        profile: Profile = WINDFORCE,
        interval: float = 15.0,
        detail_interval: float = 60.0,
        windows: Windows | None = None,
        heartbeat: float = 10.0,
        slo: float = 300.0,
        catalogue: Tags | None = None,
        election: Election | None = None,
        statement_timeout: float = 2.0,
        detail_timeout: float = 5.0,
        deadline: float = 10.0,
    ) -> None:
        windows = windows or Windows()
        problems = list(windows.problems(heartbeat=heartbeat, zombie_timeout=profile.zombie_timeout))
        if windows.stuck > CLAIM_WINDOW:
            problems.append(f"claims are looked for in the last {CLAIM_WINDOW:g} s only, stuck={windows.stuck:g} s")
        if election is not None and election.ttl < 2 * interval:
            problems.append(f"a lease of {election.ttl:g} s lapses between two reads {interval:g} s apart")
        if problems:
            raise ValueError("; ".join(problems))
        self.profile, self.windows, self.election = profile, windows, election
        self._rules = Rules(windows=windows, serve_all=profile.serve_all, slo=slo)
        self._catalogue = catalogue
        self._session = Session(conninfo, statement_timeout=statement_timeout, deadline=deadline)
        self._detail_timeout = detail_timeout
        self._every: dict[Part, float] = {"queue": interval, "workers": interval}
        self._every |= {"detail": detail_interval, "catalogue": detail_interval}
        self._parts = tuple(part for part in PARTS if self._has(part))
        self._reads: Mapping[Part, Read] = {}
        self._errors: dict[tuple[Part, Reason], int] = {(part, each): 0 for part in self._parts for each in REASONS}
        self._fitting: set[Part] = set()
        self._skipping = False
        self._patience = Patience(after=windows.alive, gap=2 * interval + deadline)
        self._seen = Seen()
        self._known = Parts()
        self._since: dict[str, tuple[Badge, float]] = {}
        self._judged: tuple[object, Picture] | None = None
        self._lock = threading.Lock()
        self._unreached = False
        self._pid = os.getpid()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._collector = _Served(self)

    def start(self) -> None:
        """Read from now on, and serve with our own metrics."""
        if self._thread is None:
            REGISTRY.register(self._collector)
            self._pid, self._stop = os.getpid(), threading.Event()
            self._thread = threading.Thread(
                target=self._run, args=(self._stop,), name="fleetglass-observer", daemon=True
            )
            self._thread.start()

    def stop(self, timeout: float = 10.0) -> None:
        """Read no more, serve nothing, and give the lease back."""
        thread, self._thread = self._thread, None
        if thread is not None:
            REGISTRY.unregister(self._collector)
            self._stop.set()
            thread.join(timeout)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def step(self) -> None:
        """Read what is due now. The thread does; call it yourself only where there is none."""
        if self.election is not None and not self._elected(self.election):
            # Whoever follows knows nothing, so that it starts afresh when its turn comes.
            self._reads, self._patience = {}, self._patience.failed()
            return
        for part in self._parts:
            last = self._reads.get(part)
            if last is None or time.monotonic() - last.began >= 0.95 * self._every[part]:
                self._reads = {**self._reads, part: self._read(part, last)}
        self._remember()

    @property
    def parts(self) -> tuple[Part, ...]:
        """What this platform has to be read."""
        return self._parts

    @property
    def catalogue_worked_out(self) -> bool:
        """Whether the catalogue comes from the tables of the profile, and from no query or callable."""
        return self._catalogue is None and not self.profile.catalogue

    @property
    def leads(self) -> bool:
        """Whether this is the exporter that reads."""
        return self.election is None or self.election.held

    def reads(self) -> Mapping[Part, Read]:
        """How each part was last read."""
        return self._reads

    def picture(self) -> Picture:
        """The fleet as it can be judged now: parts that failed, or are older than two intervals, are unknown."""
        now = time.monotonic()
        reads = self._reads if self.leads else {}
        fresh = {part: read.value for part, read in reads.items() if self._fresh(part, read, now)}
        settled = self._patience.settled(now)
        key = (tuple((part, id(value)) for part, value in fresh.items()), settled, id(self._known), id(self._seen))
        with self._lock:
            if self._judged is None or self._judged[0] != key:
                parts = msgspec.structs.replace(
                    self._known,
                    queue=fresh.get("queue"),
                    detail=fresh.get("detail"),
                    workers=fresh.get("workers"),
                    settled=settled,
                    seen=frozenset(self._seen.at),
                )
                self._judged = (key, picture.judge(parts, self._rules))
            return self._judged[1]

    def families(self) -> Iterator[Metric]:
        """What is served now: in a forked child, where nobody reads, nothing."""
        if os.getpid() != self._pid:
            return
        yield family("fleet_queue_observer_leader", [((), float(self.leads))])
        yield family("fleet_queue_observer_errors_total", [(key, count) for key, count in list(self._errors.items())])
        if not self.leads:
            if self._unreached:
                # Who leads could not be asked. Where somebody does, the maximum over all is 1 still.
                yield family("fleet_queue_observer_up", [((part,), 0.0) for part in self._parts])
            return
        now, reads = time.monotonic(), self._reads
        up = [((part,), float(self._fresh(part, read, now))) for part, read in reads.items()]
        yield family("fleet_queue_observer_up", up)
        yield family(
            "fleet_queue_observer_last_success_timestamp_seconds",
            [((part,), read.at) for part, read in reads.items() if read.at is not None],
        )
        yield family(
            "fleet_queue_observer_query_duration_seconds", [((part,), read.took) for part, read in reads.items()]
        )
        yield from publish.families(self.picture(), {name: at for name, (_, at) in list(self._since.items())})

    def _has(self, part: Part) -> bool:
        if part == "catalogue":
            return not self.catalogue_worked_out or self.profile.apps is not None
        return self.profile.queue is not None if part != "workers" else self.profile.pings is not None

    def _fresh(self, part: Part, read: Read, now: float) -> bool:
        return read.reason is None and now - read.began <= 2 * self._every[part] + read.took

    def _elected(self, election: Election) -> bool:
        asked = time.monotonic()
        try:
            with self._session.write() as connection:
                won = election.campaign(connection)
        except Exception as error:
            # Not lost yet: nobody else can have it before it lapses.
            self._count("queue", error)
            self._unreached = True
            return election.held
        self._unreached = False
        if won:
            election.won(asked)
        else:
            election.lost()
        return won

    def _read(self, part: Part, last: Read | None) -> Read:
        began = time.monotonic()
        try:
            value, at = self._fetch(part)
        except Exception as error:
            if part == "workers":
                self._patience = self._patience.failed()
            why = self._count(part, error)
            self._fitting.discard(part)  # what was altered is looked at again
            took = time.monotonic() - began
            return Read(value=None, began=began, took=took, at=last.at if last else None, reason=why)
        if isinstance(value, Roll):
            self._patience = self._patience.read(time.monotonic(), value.epoch)
        return Read(value=value, began=began, took=time.monotonic() - began, at=at)

    def _count(self, part: Part, error: Exception) -> Reason:
        why = reason(error)
        self._errors[part, why] += 1
        if why in _UNMENDING:
            # It will not pass by itself, so it is said, once.
            faults.report("fleet.observer", error)
        return why

    def _fetch(self, part: Part) -> tuple[Any, float]:
        """What a part holds now, and when that was by the server's clock."""
        with self._session.read(statement_timeout=self._detail_timeout if part == "detail" else None) as connection:
            if part == "catalogue":
                row = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
                assert row is not None, "a SELECT without FROM has a row"
                at = row[0]
                if self._catalogue is None:
                    return read_catalogue(connection, self.profile), at
            else:
                value = self._fetch_checked(part, connection)
                return value, value.at
        # The platform's own code may take its time; no transaction waits for it.
        return Catalogue(tags=frozenset(self._catalogue())), at

    def _fetch_checked(self, part: Part, connection: Any) -> Reading | Details | Roll:
        if part not in self._fitting:
            problems = check(connection, self.profile, (part,))
            if problems:
                raise SchemaError(problems)
            self._fitting.add(part)
            self._skipping = skips(connection, self.profile)
        if part == "queue":
            return read_pending(connection, self.profile, skipping=self._skipping)
        if part == "detail":
            # An index may have come, or gone, since.
            self._skipping = skips(connection, self.profile)
            return read_detail(connection, self.profile)
        return read_roll(connection, self.profile, self.windows)

    def _remember(self) -> None:
        """What outlives a read: names of series, and since when a badge is what it is."""
        reads = self._reads
        roll = reads.get("workers")
        # What is claimed at once never waits, and is told of all the same: it runs, fails, is overdue.
        for read in (reads.get("detail"), reads.get("queue")):
            if read is not None and read.value is not None:
                self._seen = self._seen.saw(read.value.tags, read.began)
        told = reads["catalogue"].value if "catalogue" in reads else None
        catalogue = told.tags if told is not None and told.there else None
        capabilities = told.capabilities if told is not None else frozenset()
        groups = roll.value.groups if roll is not None and roll.value is not None else None
        registry = self._known.registry if groups is None else groups
        known = Parts(catalogue=catalogue, capabilities=capabilities, registry=registry)
        if known != self._known:
            self._known = known
        now = roll.at if roll is not None and roll.at is not None else time.time()
        found = {name: each.state for name, each in self.picture().drifts.items()}
        self._since = {
            name: self._since[name] if name in self._since and self._since[name][0] == state else (state, now)
            for name, state in found.items()
        }

    def _run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                self.step()
            except Exception as error:
                faults.report("fleet.observer", error)
            stop.wait(self._every["queue"] * random.uniform(0.95, 1.0))  # noqa: S311  (spread out, no secret)
        try:
            if self.election is not None and self.election.held:
                with self._session.write() as connection:
                    self.election.leave(connection)
        except Exception as error:
            # It lapses by itself.
            self._count("queue", error)
        finally:
            self._session.close()


class _Served(Collector):
    """The observer as a registry takes it."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    def collect(self) -> Iterable[Metric]:
        return list(self._observer.families())

    def describe(self) -> Iterable[Metric]:
        """Every family that may be served, so that nothing has to be read to know."""
        return publish.described()
