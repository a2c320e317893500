"""How a receiver misbehaves when told to: each fault a value, and the script that orders them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Literal, Self, TypeAlias

import msgspec

from telemetry.testing.records import LogLine, Sample, Span

Record: TypeAlias = Span | LogLine | Sample


class Hang(msgspec.Struct, frozen=True):
    """Take the request and never answer.

    ``at="body"`` stops reading after the head, so that a large sender blocks in ``send``. After ``seconds``
    (None: until ``recover()`` or the end) the connection is closed without an answer. ``keep`` stores what
    the request carried all the same, as a backend does that dies between storing and answering.
    """

    at: Literal["answer", "body"] = "answer"
    seconds: float | None = None
    keep: bool = False


class Refuse(msgspec.Struct, frozen=True):
    """Close the port, connections and all: connection refused. ``recover()`` opens the same port again."""


class Blackhole(msgspec.Struct, frozen=True):
    """Answer no SYN: ``connect`` itself hangs, as against a host that is gone.

    Made with a full accept queue, which only Linux answers with silence.
    """


class Reset(msgspec.Struct, frozen=True):
    """Cut the connection with a TCP RST after the head, after the body, or in the middle of the answer."""

    after: Literal["head", "body", "answer"] = "body"
    keep: bool = False


class Redirect(msgspec.Struct, frozen=True):
    """Answer a redirect to ``to`` (an absolute URL or a path)."""

    to: str
    status: int = 307


class Status(msgspec.Struct, frozen=True):
    """Answer ``code``, with a ``Retry-After`` (seconds, or any text such as an HTTP date) if one is given."""

    code: int
    retry_after: float | str | None = None
    body: bytes | str = ""
    headers: Mapping[str, str] = {}
    keep: bool = False


class Slow(msgspec.Struct, frozen=True):
    """Read the body and write the answer at ``bytes_per_second``, the answer a few bytes at a time."""

    bytes_per_second: float


class Partial(msgspec.Struct, frozen=True):
    """Keep all but the last ``rejected`` records of a request and say so the way the protocol does.

    OTLP: 200 with ``partial_success``. Loki: 400 naming how many were ignored. Prometheus import: 204 all
    the same, since VictoriaMetrics skips lines in silence.
    """

    rejected: int = 1
    message: str = "refused by the test"


class RefuseRecord(msgspec.Struct, frozen=True):
    """Refuse, whole and with ``status``, each request that holds a record for which ``predicate`` is true."""

    predicate: Callable[[Any], bool]
    status: int = 400
    body: str = "a record was refused by the test"


class Raw(msgspec.Struct, frozen=True):
    """Answer exactly these bytes and close: garbage, a cut answer, a proxy's error page."""

    answer: bytes


Fault: TypeAlias = Hang | Refuse | Blackhole | Reset | Redirect | Status | Slow | Partial | RefuseRecord | Raw


class Step:
    """One line of the script: a fault, how often, and for which paths. ``with`` it, and it ends with the block."""

    def __init__(
        self, script: Script, fault: Fault, times: int | None, path: str | None, after: Callable[[], None]
    ) -> None:
        self.fault = fault
        self.path = path
        self.left = times
        self.used = 0
        self.ended = threading.Event()  # frees whoever hangs in it
        self._script = script
        self._after = after

    def end(self) -> None:
        """Stop misbehaving so; requests that hang in it are cut. Again and again is fine."""
        if self._script.end(self):
            self._after()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


class Script:
    """The faults to come, in order.

    A step with ``times`` ends by itself. One without lasts until the next step for the same path, so that
    ``behave(Hang())`` and later ``behave(Status(503))`` means what it says.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._steps: list[Step] = []

    def add(self, fault: Fault, times: int | None, path: str | None, after: Callable[[], None] = lambda: None) -> Step:
        """Append a step; its own ``end()`` calls ``after`` if it was not over yet.

        ``ValueError`` if ``times`` is below 1.
        """
        if times is not None and times < 1:
            raise ValueError(f"times must be at least 1, not {times}")
        step = Step(self, fault, times, path, after)
        with self._lock:
            over = [old for old in self._steps if old.left is None and old.path == path]
            self._steps = [old for old in self._steps if old not in over] + [step]
        for old in over:
            old.ended.set()
        return step

    def take(self, path: str) -> Step | None:
        """The step that a request for ``path`` meets, used up by one; None to behave."""
        with self._lock:
            for step in self._steps:
                if step.path is None or path.endswith(step.path):
                    step.used += 1
                    if step.left is not None:
                        step.left -= 1
                        if not step.left:
                            self._steps.remove(step)
                    return step
        return None

    def end(self, step: Step) -> bool:
        """Take one step out of the script and free what hangs in it; False if it was over already."""
        with self._lock:
            present = step in self._steps
            if present:
                self._steps.remove(step)
        step.ended.set()
        return present

    def clear(self) -> None:
        """Empty the script and free what hangs."""
        with self._lock:
            steps, self._steps = self._steps, []
        for step in steps:
            step.ended.set()
