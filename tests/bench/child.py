"""A measured process of its own, pinned to a core, told what to do over its pipes.

One JSON object per line each way. A child's stdout carries answers only: what the measured code
prints there goes to stderr.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Self


class ChildFailed(RuntimeError):
    """The child ended or answered with an error; the message holds what it said."""


def pin(core: int | None) -> None:
    """Keep this process and the threads it will start on one core (nothing happens for None)."""
    if core is not None:
        os.sched_setaffinity(0, {core})


class Child:
    """The parent's end: starts ``python -m module core arguments…`` and asks it things."""

    def __init__(self, module: str, *arguments: str, core: int | None) -> None:
        self.module = module
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, "-" if core is None else str(core), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.hello = self._answer()

    def ask(self, command: str, **values: Any) -> dict[str, Any]:
        """Run one command in the child and wait for its answer."""
        stdin = self._process.stdin
        assert stdin is not None
        stdin.write(msgspec.json.encode({"command": command, **values}) + b"\n")
        stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        stdout = self._process.stdout
        assert stdout is not None
        line = stdout.readline()
        if not line:
            raise ChildFailed(f"{self.module} ended with status {self._process.wait()}; see its stderr above")
        answer: dict[str, Any] = msgspec.json.decode(line)
        if "error" in answer:
            raise ChildFailed(f"{self.module}: {answer['error']}")
        return answer

    def close(self) -> None:
        """End the child by closing its stdin; kill it when it is still there after ten seconds."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def enter() -> list[str]:
    """The child's first act: pin itself, keep stdout for answers; gives the arguments after the core."""
    core, *arguments = sys.argv[1:]
    if core != "-":
        pin(int(core))
    elif hasattr(os, "sched_setaffinity"):  # the parent's own core was inherited: all are meant
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
    global _answers
    _answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    return arguments


_answers: Any = None


def serve(commands: Mapping[str, Callable[..., dict[str, Any]]], **hello: Any) -> None:
    """Say hello, then answer commands until the parent closes the pipe."""
    _say(hello)
    for line in sys.stdin.buffer:
        request = msgspec.json.decode(line)
        try:
            answer = commands[request.pop("command")](**request)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        _say(answer)


def _say(answer: Mapping[str, Any]) -> None:
    _answers.write(msgspec.json.encode(answer) + b"\n")
