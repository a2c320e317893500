"""The Shipper: takes records from the host's threads, delivers them from one of its own, accounts for each.

``put`` is what the host's threads call: a few attribute writes under a re-entrant lock, no waiting, no
I/O. One daemon thread, started by the first record and keyed by pid, takes batches off the queue, has the
sink encode and send them, and settles each record in the ledger exactly once.
"""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
import weakref
from queue import Empty, SimpleQueue
from typing import Any

from telemetry import faults
from telemetry.delivery.buffer import Buffer, Item, cost_of, item
from telemetry.delivery.contract import CALL_TIMEOUT, Limits, Sink, SinkHealth, Verdict
from telemetry.ledger import Reason, Row

SENDERS: set[int] = set()
"""Identifiers of the threads that send. What they log never enters a sink: it would feed itself."""

START_AGAIN = 1.0
"""Seconds after which a sender thread that could not be started is tried again."""

SAY_AGAIN = 60.0
"""Seconds in which a sink says one sentence at most: an answer may name each request, and differ each time."""


class Shipper:
    """Delivers the records of one sink. All methods may be called from any thread, also in a signal handler."""

    def __init__(self, sink: Sink, row: Row, limits: Limits | None = None) -> None:
        self.sink = sink
        self.row = row
        self.limits = limits = limits or Limits()
        self._max_bytes, self._max_records = limits.queue_bytes, limits.queue_records
        self._batch_bytes = limits.batch_bytes
        self._start_afresh()
        _shippers.add(self)

    def _start_afresh(self) -> None:
        self._buffer = Buffer()
        self._append = self._buffer.append
        self._held_bytes = 0  # queued and in flight
        self._flying_bytes = 0
        # Records are numbered as they are queued; they are taken and settled in that order.
        self._queued = 0
        self._taken = 0
        self._settled = 0
        self._wanted = 0  # up to here without lingering
        self._untold = 0  # losses that no flush has told of
        self._thread: threading.Thread | None = None
        self._start_after = 0.0  # monotonic
        self._signals: SimpleQueue[None] = SimpleQueue()
        self._idle = True
        self._closing: float | None = None  # monotonic deadline
        self._gone = False
        self._here: float | None = None  # monotonic deadline of a caller that drains on its own thread
        self._said, self._said_at = "", -SAY_AGAIN  # monotonic
        self._waiters: list[_Waiter] = []
        self.last_error = ""
        self.last_delivery: float | None = None
        self._pid = os.getpid()

    def after_fork(self) -> None:
        """Begin at zero in a forked child: queue, thread and figures it inherited stay its parent's."""
        closed = self._gone
        with contextlib.suppress(Exception):  # its connection is the parent's: there is nothing to save
            self.sink.close()
        self.row.reset()
        self._start_afresh()
        if closed:
            self._closing, self._gone = time.monotonic(), True

    # -- the host's side ---------------------------------------------------------------------------

    def put(self, entry: Any, cost: int, at: float) -> bool:
        """Queue one record; False when it was dropped, which the ledger then says. Never blocks, never raises."""
        if self._pid != os.getpid():
            self._notice_fork()
        row = self.row
        with row.lock:
            row.emitted += 1
            if self._closing is not None:
                row.drop("shutdown")
                self._untold += 1
                return False
            held = self._held_bytes + cost
            if held > self._max_bytes or row.pending >= self._max_records:
                row.drop("too_large" if cost > self._max_bytes else "queue_full")
                self._untold += 1
                return False
            row.pending += 1
            self._queued += 1
            self._held_bytes = held
            self._append(item(Item, (entry, cost, at)))
            if not self._idle:
                if held - self._flying_bytes < self._batch_bytes or self._taken < self._wanted:
                    return True
                self._wanted = self._queued  # a batch is full: this record wakes the sender, the next ones needn't
            self._idle = False
        self._wake()
        return True

    def drop(self, reason: Reason) -> None:
        """Count a record that never became an entry as emitted and dropped."""
        if self._pid != os.getpid():
            self._notice_fork()
        with self.row.lock:
            self.row.emitted += 1
            self.row.drop(reason)
            self._untold += 1

    def flush(self, deadline: float) -> bool:
        """Wait until all that was emitted before is settled, or ``deadline`` (monotonic seconds) passes.

        True only if all of it was delivered. A loss is told once, by the first flush after it.
        """
        if self._pid != os.getpid():
            self._notice_fork()
        with self.row.lock:
            waiter = _Waiter(self._queued)
            waiter.lost, self._untold = self._untold, 0
            if self._settled >= waiter.target:
                return not waiter.lost
            self._waiters.append(waiter)
            self._wanted = waiter.target
            self._idle = False
        self._wake()
        try:
            while self._settled < waiter.target:
                if self._thread is None and not self._drain_here(deadline):
                    break
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    break
                try:
                    waiter.woken.get(timeout=remaining)
                except Empty:
                    break
        finally:
            with self.row.lock:
                self._waiters.remove(waiter)
                done = self._settled >= waiter.target
        return done and not waiter.lost

    def hurry(self) -> None:
        """Send what is queued now, without waiting for it; ``flush`` then waits. Lets sinks work side by side."""
        with self.row.lock:
            if self._taken >= self._queued:
                return
            self._wanted = self._queued
            self._idle = False
        self._wake()

    def close(self, deadline: float) -> bool:
        """Deliver what is queued until ``deadline`` (monotonic seconds); then count the rest as lost to it.

        True only if all was delivered.
        """
        self.begin_close(deadline)
        clean = self.flush(deadline)
        with self.row.lock:
            self._gone = True
            if self.row.pending:
                clean = False
                self.row.drop("deadline", self.row.pending)
                self._lost(self.row.pending)
                self.row.pending = 0
                self._held_bytes = 0
                self._settled = self._queued
                self._wake_waiters()
        if self._thread is not None:
            self._wake()
        return clean

    def begin_close(self, deadline: float) -> None:
        """Take no more records, and hurry; ``close`` then waits. Lets sinks share one deadline."""
        with self.row.lock:
            if self._closing is None:
                self._closing = deadline
        if self._thread is not None:
            self._wake()

    def health(self) -> SinkHealth:
        """How this sink fares."""
        return SinkHealth(self.sink.signal, self.sink.name, self.last_delivery, self.last_error)

    # -- the sender's side -------------------------------------------------------------------------

    def _wake(self) -> None:
        if self._thread is None:
            self._start()
        else:
            # SimpleQueue.put is documented as re-entrant; an Event's lock is not.
            self._signals.put(None)

    def _start(self) -> None:
        with self.row.lock:
            if self._thread is not None or self._gone:
                return
            if time.monotonic() < self._start_after:
                self._idle = True
                return
            name = f"fleetglass-{self.sink.signal}-{self.sink.name}"
            thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._thread = thread
        try:
            thread.start()
        except RuntimeError:  # interpreter shutdown, or no threads to be had: flush and close drain instead
            with self.row.lock:
                self._thread, self._idle = None, True  # so that a later record tries again
                self._start_after = time.monotonic() + START_AGAIN

    def _run(self) -> None:
        ident = threading.get_ident()
        SENDERS.add(ident)
        try:
            with _quietly():
                while (items := self._next_batch()) is not None:
                    self._deliver_safely(items)
            self.sink.close()
        except Exception as error:
            faults.report("delivery", error)
        finally:
            SENDERS.discard(ident)
            self._thread, self._idle = None, True  # so that the next record starts another

    def _drain_here(self, deadline: float) -> bool:
        """Deliver from the calling thread, where none can be started. False when there is nothing to do."""
        with self.row.lock:
            if self._here is not None:  # another thread is at it: a sink is used by one at a time
                return True
            items = self._take()
            if not items:
                return False
            self._here = deadline
        ident = threading.get_ident()
        SENDERS.add(ident)
        try:
            with _quietly():
                self._deliver_safely(items)
        finally:
            self._here = None
            SENDERS.discard(ident)
        return True

    def _take(self) -> list[Item]:
        items = self._buffer.take(self.limits.batch_bytes)
        with self.row.lock:
            self._taken += len(items)
            self._flying_bytes = cost_of(items)
        return items

    def _next_batch(self) -> list[Item] | None:
        linger_until: float | None = None
        while True:
            with self.row.lock:
                if self._gone:
                    return None
                waiting = len(self._buffer)
                full = self._held_bytes >= self.limits.batch_bytes
                ready = waiting and (full or self._taken < self._wanted or self._closing is not None)
                if not waiting:
                    if self._closing is not None:
                        return None
                    self._idle = True
                    linger_until = None
            now = time.monotonic()
            if waiting and linger_until is None:
                linger_until = now + self.limits.linger
            if ready or (linger_until is not None and now >= linger_until):
                return self._take()
            self._pause(None if linger_until is None else linger_until - now)

    def _pause(self, seconds: float | None) -> None:
        try:
            self._signals.get(timeout=seconds)
            while True:  # one wake-up answers all that were asked for
                self._signals.get_nowait()
        except Empty:
            return

    def _deliver_safely(self, items: list[Item]) -> None:
        before = self._settled
        try:
            self._deliver(items, [self.limits.requests_per_batch])
        except BaseException as error:
            rest = len(items) - (self._settled - before)
            self._settle(rest, self._flying_bytes, dropped=rest, reason="internal")
            if not isinstance(error, Exception):  # Ctrl-C in a thread of the host's that drains
                raise
            faults.report("delivery", error)

    def _deliver(self, items: list[Item], budget: list[int]) -> None:
        items = self._without_old(items)
        if not items or self._gone:
            return None
        try:
            body = self.sink.encode([item.entry for item in items])
        except Exception as error:
            self.last_error = f"encode: {type(error).__name__}: {error}"
            return self._halve(items, budget, "encode")
        verdict = self._send(body, budget)
        if verdict.kind == "split":
            return self._halve(items, budget, "rejected")
        if verdict.kind == "delivered":
            self.last_delivery = time.time()
            lost = min(verdict.rejected, len(items))
            if not lost:
                self.last_error = ""
            return self._settle(len(items), cost_of(items), dropped=lost, reason="rejected")
        reason: Reason = "rejected" if verdict.kind == "rejected" else "retries"
        if verdict.kind == "retry" and (self._closing or self._here):
            reason = "deadline"
        self._settle(len(items), cost_of(items), dropped=len(items), reason=reason)
        return None

    def _halve(self, items: list[Item], budget: list[int], reason: Reason) -> None:
        """Isolate the entry at fault; its neighbours are delivered."""
        if len(items) == 1 or budget[0] <= 0:
            self._say_once(self.last_error)
            return self._settle(len(items), cost_of(items), dropped=len(items), reason=reason)
        middle = len(items) // 2
        self._deliver(items[:middle], budget)
        self._deliver(items[middle:], budget)
        return None

    def _without_old(self, items: list[Item]) -> list[Item]:
        max_age = self.sink.max_age
        if max_age is None:
            return items
        oldest = time.time() - max_age
        old = [item for item in items if item.at < oldest]
        if not old:
            return items
        fresh = [item for item in items if not item.at < oldest]  # not ">=": no order holds for a NaN
        self._settle(len(old), cost_of(old), dropped=len(old), reason="too_old")
        return fresh

    def _send(self, body: bytes, budget: list[int]) -> Verdict:
        tries = 0
        while True:
            timeout = CALL_TIMEOUT
            deadline = self._closing or self._here
            if deadline is not None:
                timeout = min(timeout, deadline - time.monotonic())
                if timeout <= 0 or self._gone:
                    return Verdict("retry")
            budget[0] -= 1
            try:
                verdict = self.sink.send(body, timeout)
            except Exception as error:  # a socket, TLS, a broken answer: nothing is known to be stored
                verdict = Verdict("retry", message=f"{type(error).__name__}: {error}")
            if verdict.message:
                self.last_error = verdict.message
            if verdict.kind == "rejected" or verdict.rejected:
                self._say_once(verdict.message)
            if verdict.kind != "retry":
                return verdict
            tries += 1
            if tries >= self.limits.max_tries:
                self._say_once(verdict.message)
                return verdict
            self._back_off(tries, verdict.retry_after)

    def _say_once(self, message: str) -> None:
        now = time.monotonic()
        if message and message != self._said and now >= self._said_at + SAY_AGAIN and not self._gone:
            self._said, self._said_at = message, now
            faults.say(f"{self.sink.signal} to {self.sink.name}: {message}; records are lost, see the ledger")

    def _back_off(self, tries: int, retry_after: float | None) -> None:
        wait = min(self.limits.first_backoff * 2 ** (tries - 1), self.limits.max_backoff)
        wait *= random.uniform(0.5, 1.0)  # noqa: S311 - jitter, no secret
        if retry_after is not None:
            wait = max(wait, min(retry_after, self.limits.max_backoff))
        until = time.monotonic() + wait
        while not self._gone:
            deadline = self._closing or self._here
            if deadline is not None:  # be quick, yet never hammer a backend that is down
                until = min(until, time.monotonic() + 0.2, deadline)
            remaining = until - time.monotonic()
            if remaining <= 0:
                return
            closing = self._closing
            try:
                self._signals.get(timeout=remaining)
            except Empty:
                return
            if self._closing is closing and self._waiters:  # a flush asks for one try now
                until = min(until, time.monotonic() + 0.1)

    def _settle(self, count: int, cost: int, *, dropped: int, reason: Reason) -> None:
        with self.row.lock:
            if self._gone:  # the deadline has counted these already
                return
            self.row.pending -= count
            self.row.delivered += count - dropped
            if dropped:
                self.row.drop(reason, dropped)
                self._lost(dropped)
            self._held_bytes -= cost
            self._flying_bytes -= cost
            self._settled += count
            self._wake_waiters()

    def _lost(self, count: int) -> None:
        """Have those flushes tell of a loss that wait for what is next to settle; without any, the next flush."""
        concerned = [waiter for waiter in self._waiters if self._settled < waiter.target]
        for waiter in concerned:
            waiter.lost += count
        if not concerned:
            self._untold += count

    def _wake_waiters(self) -> None:
        for waiter in self._waiters:
            waiter.woken.put(None)

    def _notice_fork(self) -> None:
        """A fork that Python's hooks did not see: uWSGI forks in C."""
        with _noticing:
            if self._pid != os.getpid():
                _after_fork_in_child()


class _Waiter:
    """A flush under way: it waits until record number ``target`` is settled, and has heard of ``lost`` losses."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.lost = 0
        self.woken: SimpleQueue[None] = SimpleQueue()


class _quietly:  # noqa: N801 - reads as a statement: with _quietly()
    """Suppress OpenTelemetry instrumentation in this thread: our own calls are no spans."""

    def __enter__(self) -> None:
        from opentelemetry import context

        self._token = context.attach(context.set_value(context._SUPPRESS_INSTRUMENTATION_KEY, True))

    def __exit__(self, *_: object) -> None:
        from opentelemetry import context

        context.detach(self._token)


_shippers: weakref.WeakSet[Shipper] = weakref.WeakSet()
_noticing = threading.Lock()


def _after_fork_in_child() -> None:
    SENDERS.clear()
    for shipper in list(_shippers):
        shipper.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
