"""The Shipper against a sink that does as it is told: batches, bounds, retries, poison, deadlines, forks."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from telemetry import delivery, faults
from telemetry.delivery import Limits, Shipper, Verdict
from telemetry.ledger import Row

OK = Verdict("delivered")


class Told:
    """A sink whose answers are scripted; ``bodies`` are those that it took."""

    name = "told"
    signal = "logs"
    max_age: float | None = None

    def __init__(self, answer: Callable[[list[str], float], Verdict] = lambda entries, timeout: OK) -> None:
        self.answer = answer
        self.sent: list[list[str]] = []
        self.taken: list[str] = []
        self.closed = 0

    def encode(self, entries: list[Any]) -> bytes:
        if "unencodable" in entries:
            raise TypeError("no such type")
        return "\n".join(entries).encode()

    def send(self, body: bytes, timeout: float) -> Verdict:
        entries = body.decode().split("\n")
        self.sent.append(entries)
        verdict = self.answer(entries, timeout)
        if verdict.kind == "delivered":
            self.taken += entries[: len(entries) - verdict.rejected]
        return verdict

    def close(self) -> None:
        self.closed += 1


def shipper(sink: Told, **limits: Any) -> Shipper:
    return Shipper(sink, Row("logs", "told"), Limits(**{"linger": 0.05, "first_backoff": 0.01, **limits}))


def soon(seconds: float = 30.0) -> float:
    return time.monotonic() + seconds


def check(made: Shipper, **expected: int) -> None:
    """The row says exactly ``expected``, and its equation holds."""
    row = made.row.snapshot()
    assert row.balanced, row
    told = {"emitted": row.emitted, "delivered": row.delivered, "pending": row.pending, **row.dropped}
    assert told == {"delivered": 0, "pending": 0, **expected}


def test_everything_put_arrives_once_and_in_order() -> None:
    sink = Told()
    made = shipper(sink)
    for i in range(5000):
        assert made.put(str(i), 100, 0.0)
    assert made.flush(soon())
    assert sink.taken == [str(i) for i in range(5000)]
    check(made, emitted=5000, delivered=5000)


def test_records_linger_into_one_batch_and_a_full_one_goes_at_once() -> None:
    sink = Told()
    made = shipper(sink, linger=30.0, batch_bytes=1000)
    for i in range(9):
        made.put(str(i), 100, 0.0)
    time.sleep(0.1)
    assert sink.sent == [], "nine tenths of a batch wait for the linger"
    made.put("9", 100, 0.0)
    deadline = soon()
    while not sink.sent and time.monotonic() < deadline:
        time.sleep(0.005)
    assert sink.sent == [[str(i) for i in range(10)]]


def test_no_thread_before_the_first_record() -> None:
    made = shipper(Told())
    assert made.flush(soon())
    made.close(soon())
    assert made._thread is None


def test_queue_full_drops_the_newest_and_counts_it() -> None:
    gate = threading.Event()

    def held(entries: list[str], timeout: float) -> Verdict:
        gate.wait(30)
        return OK

    sink = Told(held)
    made = shipper(sink, queue_records=10, linger=0.0)
    results = [made.put(str(i), 10, 0.0) for i in range(15)]
    assert results == [True] * 10 + [False] * 5
    gate.set()
    assert not made.flush(soon()), "records were lost since the last flush"
    assert sink.taken == [str(i) for i in range(10)]
    check(made, emitted=15, delivered=10, queue_full=5)


def test_queue_is_bounded_by_bytes_in_flight_and_queued_together() -> None:
    made = shipper(Told(lambda entries, timeout: Verdict("retry")), queue_bytes=1000, linger=0.0)
    for i in range(100):
        made.put(str(i), 90, 0.0)
    check(made, emitted=100, pending=11, queue_full=89)
    assert not made.put("giant", 2000, 0.0)
    assert made.row.snapshot().dropped["too_large"] == 1
    made.close(time.monotonic())


def test_flush_tells_a_loss_once() -> None:
    made = shipper(Told(lambda entries, timeout: Verdict("rejected", message="no")))
    made.put("a", 1, 0.0)
    assert not made.flush(soon())
    made.sink.answer = lambda entries, timeout: OK  # type: ignore[attr-defined]
    made.put("b", 1, 0.0)
    assert made.flush(soon())
    check(made, emitted=2, delivered=1, rejected=1)


def test_flush_timeout_is_kept_and_its_answer_is_the_truth() -> None:
    """otel-python #4568: ``force_flush(500)`` took 6.6 s and returned True after failing."""
    made = shipper(Told(lambda entries, timeout: Verdict("retry", message="503")))
    made.put("a", 1, 0.0)
    started = time.monotonic()
    assert not made.flush(soon(0.3))
    assert time.monotonic() - started < 3.0
    check(made, emitted=1, pending=1)
    made.close(time.monotonic())


def test_retry_sends_the_same_bytes_until_they_are_taken() -> None:
    answers = iter([Verdict("retry", message="503"), Verdict("retry", message="503"), OK])
    sink = Told(lambda entries, timeout: next(answers))
    made = shipper(sink)
    made.put("a", 1, 0.0)
    assert made.flush(soon())
    assert sink.sent == [["a"]] * 3
    check(made, emitted=1, delivered=1)


def test_retry_after_is_honoured() -> None:
    times: list[float] = []

    def limited(entries: list[str], timeout: float) -> Verdict:
        times.append(time.monotonic())
        return OK if len(times) > 1 else Verdict("retry", retry_after=0.4)

    made = shipper(Told(limited))
    made.put("a", 1, 0.0)
    deadline = soon(3)
    while len(times) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert times[1] - times[0] >= 0.39


def test_retries_end_and_the_batch_is_counted() -> None:
    sink = Told(lambda entries, timeout: Verdict("retry", message="503"))
    made = shipper(sink, max_tries=3)
    made.put("a", 1, 0.0)
    assert not made.flush(soon())
    assert len(sink.sent) == 3
    check(made, emitted=1, retries=1)


def test_a_raising_connection_is_a_retry() -> None:
    answers = iter([ConnectionResetError("reset"), TimeoutError("slow"), OK])

    def broken(entries: list[str], timeout: float) -> Verdict:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    made = shipper(Told(broken))
    made.put("a", 1, 0.0)
    assert made.flush(soon())
    check(made, emitted=1, delivered=1)


def test_one_poison_record_costs_only_itself() -> None:
    sink = Told(lambda entries, timeout: Verdict("split") if "poison" in entries else OK)
    made = shipper(sink)
    for entry in ["a", "b", "poison", "c", "d"]:
        made.put(entry, 1, 0.0)
    assert not made.flush(soon())
    assert sink.taken == ["a", "b", "c", "d"]
    check(made, emitted=5, delivered=4, rejected=1)


def test_one_record_that_cannot_be_encoded_costs_only_itself() -> None:
    """otel-python #3389, #4100: a non-primitive body kills the export of the whole batch."""
    sink = Told()
    made = shipper(sink)
    for entry in ["a", "unencodable", "b"]:
        made.put(entry, 1, 0.0)
    assert not made.flush(soon())
    assert sink.taken == ["a", "b"]
    check(made, emitted=3, delivered=2, encode=1)


def test_a_backend_that_refuses_everything_is_not_asked_once_for_each_record() -> None:
    sink = Told(lambda entries, timeout: Verdict("split", message="wrong tenant"))
    made = shipper(sink, requests_per_batch=64)
    for i in range(1000):
        made.put(str(i), 1, 0.0)
    assert not made.flush(soon())
    assert len(sink.sent) < 200
    check(made, emitted=1000, rejected=1000)


def test_partial_success_counts_what_was_refused() -> None:
    made = shipper(Told(lambda entries, timeout: Verdict("delivered", rejected=2)))
    for i in range(5):
        made.put(str(i), 1, 0.0)
    assert not made.flush(soon())
    check(made, emitted=5, delivered=3, rejected=2)


def test_stale_replay_storm_drops_old_records_once() -> None:
    """loki #9869: after an outage old lines are rejected for ever, and the errors go down the same pipe."""
    sink = Told()
    sink.max_age = 3300.0
    made = shipper(sink)
    made.put("old", 1, time.time() - 7200)
    made.put("new", 1, time.time())
    assert not made.flush(soon())
    assert sink.taken == ["new"]
    check(made, emitted=2, delivered=1, too_old=1)


def test_close_meets_its_deadline_while_a_call_hangs() -> None:
    taken, release = threading.Event(), threading.Event()

    def hang(entries: list[str], timeout: float) -> Verdict:
        taken.set()
        release.wait(30)
        return OK

    made = shipper(Told(hang), linger=0.0)
    made.put("in flight", 1, 0.0)
    assert taken.wait(30)
    made.put("queued", 1, 0.0)
    started = time.monotonic()
    assert not made.close(soon(0.3))
    assert time.monotonic() - started < 5.0
    check(made, emitted=2, deadline=2)
    release.set()
    time.sleep(0.05)
    check(made, emitted=2, deadline=2)
    assert not made.put("late", 1, 0.0)
    check(made, emitted=3, deadline=2, shutdown=1)


def test_close_delivers_what_is_queued_without_waiting_for_the_linger() -> None:
    sink = Told()
    made = shipper(sink, linger=30.0)
    made.put("a", 1, 0.0)
    started = time.monotonic()
    assert made.close(soon(20))
    assert time.monotonic() - started < 15.0
    assert sink.taken == ["a"]


def test_flush_delivers_where_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.12 starts no threads once the interpreter shuts down; atexit still has to deliver."""

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    sink = Told()
    made = shipper(sink)
    made.put("a", 1, 0.0)
    assert made.flush(soon())
    assert sink.taken == ["a"]
    made.put("b", 1, 0.0)
    assert made.close(soon())
    check(made, emitted=2, delivered=2)


def test_a_signal_handler_may_put_while_its_thread_is_inside_put() -> None:
    """A handler that logs ran in the middle of a log call: with a plain lock the process stood still."""
    made = shipper(Told())
    previous = signal.signal(signal.SIGALRM, lambda *_: made.put("signal", 1, 0.0) and None)
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    try:
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            made.put("main", 1, 0.0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    made.flush(soon(5))
    assert made.row.snapshot().balanced


def test_threads_in_parallel_lose_no_count() -> None:
    made = shipper(Told(), queue_records=1000)

    def work() -> None:
        for _ in range(20_000):
            made.put("x", 1, 0.0)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    made.flush(soon(10))
    row = made.row.snapshot()
    assert row.balanced
    assert (row.emitted, row.pending) == (80_000, 0)


def test_child_of_a_fork_begins_at_zero_and_delivers_its_own() -> None:
    """logfire #779: child data lost; sentry-python #6149: a fork while another thread holds the lock."""
    sink = Told()
    made = shipper(sink, linger=0.0, queue_records=10**9)
    stop = threading.Event()

    def emit() -> None:
        while not stop.is_set():
            made.put("parent", 1, 0.0)

    thread = threading.Thread(target=emit)
    thread.start()
    try:
        for _ in range(20):
            pid = os.fork()
            if pid == 0:
                signal.alarm(30)
                sink.taken.clear()
                made.put("child", 1, 0.0)
                clean = made.flush(soon(2))
                row = made.row.snapshot()
                os._exit(0 if clean and row.emitted == row.delivered == 1 and sink.taken == ["child"] else 1)
            _, status = os.waitpid(pid, 0)
            assert os.waitstatus_to_exitcode(status) == 0
    finally:
        stop.set()
        thread.join()
    made.close(soon(2))
    assert made.row.snapshot().balanced


@pytest.mark.expects_fault("delivery")
def test_a_fault_of_ours_costs_a_batch_and_not_the_thread(capsys: pytest.CaptureFixture[str]) -> None:
    sink = Told()
    made = shipper(sink)
    original = made._without_old

    def broken(items: list[Any]) -> list[Any]:
        made._without_old = original  # type: ignore[method-assign]
        raise LookupError("a bug")

    made._without_old = broken  # type: ignore[method-assign]
    made.put("a", 1, 0.0)
    assert not made.flush(soon())
    made.put("b", 1, 0.0)
    assert made.flush(soon())
    check(made, emitted=2, delivered=1, internal=1)
    assert faults.counts() == {"delivery": 1}
    assert "internal fault in delivery: LookupError: a bug" in capsys.readouterr().err


def test_the_sender_is_known_as_such_and_makes_no_spans() -> None:
    from opentelemetry.instrumentation.utils import is_instrumentation_enabled

    seen: list[tuple[bool, bool]] = []

    def look(entries: list[str], timeout: float) -> Verdict:
        seen.append((threading.get_ident() in delivery.SENDERS, is_instrumentation_enabled()))
        return OK

    made = shipper(Told(look))
    made.put("a", 1, 0.0)
    assert made.flush(soon())
    assert seen == [(True, False)]
    assert threading.get_ident() not in delivery.SENDERS


def test_threads_that_cannot_be_started_for_a_while_do_not_silence_the_sink(monkeypatch: pytest.MonkeyPatch) -> None:
    """litestar #3080: at the process limit ``can't start new thread``; it must pass with its cause."""
    monkeypatch.setattr(delivery.shipper, "START_AGAIN", 0.1)
    start = threading.Thread.start
    tries: list[float] = []

    def refuse(self: threading.Thread) -> None:
        tries.append(time.monotonic())
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    sink = Told()
    made = shipper(sink, batch_bytes=100)
    for i in range(1000):
        assert made.put(str(i), 10, 0.0)
    assert 1 <= len(tries) < 50, "not once for each record"
    assert made._signals.qsize() == 0, "wake-ups for nobody would pile up"
    monkeypatch.setattr(threading.Thread, "start", start)
    time.sleep(0.15)  # at the least, so that it may start again
    made.put("last", 10, 0.0)
    deadline = soon()
    while len(sink.taken) < 1001 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert sink.taken[-1] == "last"
    made.close(soon())


def test_two_flushes_without_a_thread_use_the_sink_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start
    inside = []
    most = []

    def slow(entries: list[str], timeout: float) -> Verdict:
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.02)
        inside.pop()
        return OK

    def refuse(self: threading.Thread) -> None:
        if self.name.startswith("fleetglass"):
            raise RuntimeError("can't create new thread at interpreter shutdown")
        start(self)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    made = shipper(Told(slow), batch_bytes=10)
    for i in range(10):
        made.put(str(i), 10, 0.0)
    results: list[bool] = []
    threads = [threading.Thread(target=lambda: results.append(made.flush(soon()))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 3
    assert max(most) == 1
    check(made, emitted=10, delivered=10)


def test_every_flush_that_waits_for_a_lost_record_hears_of_it() -> None:
    """Two threads flushed, one was told False and the other True about the same record."""
    gate = threading.Event()

    def refuse(entries: list[str], timeout: float) -> Verdict:
        gate.wait(30)
        return Verdict("rejected", message="no")

    made = shipper(Told(refuse), linger=0.0)
    made.put("a", 1, 0.0)
    results: list[bool] = []
    threads = [threading.Thread(target=lambda: results.append(made.flush(soon()))) for _ in range(3)]
    for thread in threads:
        thread.start()
    deadline = soon()
    while len(made._waiters) < 3 and time.monotonic() < deadline:
        time.sleep(0.005)
    gate.set()
    for thread in threads:
        thread.join()
    assert results == [False] * 3
    assert made.flush(soon()), "and it is told no further"


def test_a_record_dropped_after_a_flush_began_is_the_next_ones_to_tell() -> None:
    gate = threading.Event()

    def held(entries: list[str], timeout: float) -> Verdict:
        gate.wait(30)
        return OK

    made = shipper(Told(held), linger=0.0, queue_records=1)
    made.put("a", 1, 0.0)
    results: list[bool] = []
    thread = threading.Thread(target=lambda: results.append(made.flush(soon())))
    thread.start()
    deadline = soon()
    while not made._waiters and time.monotonic() < deadline:
        time.sleep(0.005)
    assert not made.put("too many", 1, 0.0)
    gate.set()
    thread.join()
    assert results == [True], "all that was emitted before it was delivered"
    assert not made.flush(soon())


def test_hurry_sends_all_that_was_there_and_not_only_a_batch() -> None:
    sink = Told()
    made = shipper(sink, linger=30.0, batch_bytes=100)
    for i in range(9):
        made.put(str(i), 30, 0.0)
    made.hurry()
    deadline = soon()
    while len(sink.taken) < 9 and time.monotonic() < deadline:
        time.sleep(0.005)
    assert sink.taken == [str(i) for i in range(9)]


def test_a_flush_is_freed_when_another_thread_closes() -> None:
    """A flush of 30 s went on waiting for records that the deadline had counted as lost."""
    release = threading.Event()

    def hang(entries: list[str], timeout: float) -> Verdict:
        release.wait(30)
        return OK

    made = shipper(Told(hang), linger=0.0)
    made.put("a", 1, 0.0)
    results: list[bool] = []
    thread = threading.Thread(target=lambda: results.append(made.flush(soon(60))))
    thread.start()
    deadline = soon()
    while not made._waiters and time.monotonic() < deadline:
        time.sleep(0.005)
    assert not made.close(soon(0.1))
    thread.join(30)
    assert results == [False]
    release.set()


def test_a_record_whose_time_is_not_a_number_does_not_vanish_from_the_ledger() -> None:
    sink = Told()
    sink.max_age = 3300.0
    made = shipper(sink)
    made.put("old", 1, time.time() - 7200)
    made.put("nan", 1, float("nan"))
    assert not made.flush(soon())
    check(made, emitted=2, delivered=1, too_old=1)


def test_a_child_does_not_open_again_what_its_parent_closed() -> None:
    made = shipper(Told())
    made.put("a", 1, 0.0)
    assert made.close(soon())
    made.after_fork()
    assert not made.put("late", 1, 0.0)
    check(made, emitted=1, shutdown=1)


def test_a_fork_in_c_is_noticed_by_the_next_record() -> None:
    """otel-python #2266: uWSGI forks without Python's hooks; the child stood still."""
    import ctypes

    made = shipper(Told())
    other = shipper(Told())
    for one in (made, other):
        one.put("parent", 1, 0.0)
        assert one.flush(soon())
    pid = ctypes.PyDLL(None).fork()
    if pid == 0:
        signal.alarm(30)
        made.put("child", 1, 0.0)
        clean = made.flush(soon(2)) and made.row.emitted == 1 and other.row.emitted == 0
        os._exit(0 if clean else 1)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_an_interrupted_flush_without_a_thread_leaves_an_exact_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(entries: list[str], timeout: float) -> Verdict:
        raise KeyboardInterrupt

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    made = shipper(Told(interrupted))
    made.put("a", 1, 0.0)
    with pytest.raises(KeyboardInterrupt):
        made.flush(soon())
    check(made, emitted=1, internal=1)


def test_a_backend_whose_answers_differ_each_time_does_not_flood_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    numbers = iter(range(100))
    answers = [Verdict("rejected"), Verdict("split"), Verdict("delivered", rejected=1)]

    def refuse(entries: list[str], timeout: float) -> Verdict:
        number = next(numbers)
        return msgspec.structs.replace(answers[number % 3], message=f"refused, request id {number}")

    made = shipper(Told(refuse))
    for _ in range(9):
        made.put("a", 1, 0.0)
        assert not made.flush(soon())
    said = capsys.readouterr().err
    assert said == "fleetglass: logs to told: refused, request id 0; records are lost, see the ledger\n"


@pytest.mark.parametrize("verdict", [Verdict("split", message="why"), Verdict("delivered", rejected=1, message="why")])
def test_a_single_refused_record_is_said_as_well(verdict: Verdict, capsys: pytest.CaptureFixture[str]) -> None:
    made = shipper(Told(lambda entries, timeout: verdict))
    made.put("a", 1, 0.0)
    assert not made.flush(soon())
    assert "logs to told: why; records are lost" in capsys.readouterr().err
