"""What ``kubectl`` does for us: read a Secret, and hold a port-forward open for as long as it is needed."""

from __future__ import annotations

import base64
import json
import queue
import re
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Final

PATIENCE: Final = 20.0
"""Seconds for ``kubectl`` to answer, or to say where it forwards from."""

_FORWARDING: Final = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+) ->")


class KubectlError(Exception):
    """``kubectl`` is missing, failed, or took too long; the message is a sentence with what it said."""


def read_secret(namespace: str, name: str, *, program: str = "kubectl") -> dict[str, str]:
    """The decoded values of a Secret. They stay in memory, and no message holds one. Raises KubectlError."""
    said = _run([program, "get", "secret", name, "--namespace", namespace, "--output", "json"])
    try:
        data = json.loads(said).get("data") or {}
        return {key: base64.b64decode(value, validate=True).decode() for key, value in data.items()}
    except (ValueError, AttributeError) as error:
        # The values are left out of the sentence on purpose.
        raise KubectlError(f"secret {namespace}/{name}: kubectl did not answer with a Secret") from error


@contextmanager
def forwarded(namespace: str, resource: str, port: int, *, program: str = "kubectl") -> Iterator[int]:
    """A port of 127.0.0.1 that leads to ``port`` of ``resource`` (``service/grafana``), until the block is left.

    ``kubectl`` picks a free port; whatever happens in the block, it is ended after it. Raises KubectlError.
    """
    command = [program, "port-forward", "--namespace", namespace, "--address", "127.0.0.1", resource, f":{port}"]
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    except FileNotFoundError:
        raise _missing(program) from None
    assert process.stdout is not None
    try:
        yield _forwarded_port(_lines(process.stdout), f"{resource} in {namespace}")
    finally:
        process.terminate()
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _lines(stream: IO[str]) -> queue.Queue[str | None]:
    """Lines of ``stream`` as they come, then None. Read by a thread, since a pipe can't be waited for in time."""
    lines: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        with stream:
            for line in stream:
                lines.put(line)
        lines.put(None)

    threading.Thread(target=read, name="kubectl port-forward", daemon=True).start()
    return lines


def _forwarded_port(lines: queue.Queue[str | None], what: str) -> int:
    deadline = time.monotonic() + PATIENCE
    said: list[str] = []
    while True:
        try:
            line = lines.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            raise KubectlError(f"kubectl port-forward to {what} was not up after {PATIENCE:g} s") from None
        if line is None:
            raise KubectlError(f"kubectl port-forward to {what} failed: {' '.join(''.join(said).split())}")
        said.append(line)
        if match := _FORWARDING.search(line):
            return int(match[1])


def _run(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except FileNotFoundError:
        raise _missing(command[0]) from None
    except subprocess.TimeoutExpired:
        raise KubectlError(f"kubectl {command[1]} {command[2]} took more than {PATIENCE:g} s") from None
    if done.returncode:
        raise KubectlError(f"kubectl {command[1]} {command[2]} {command[3]} failed: {' '.join(done.stderr.split())}")
    return done.stdout


def _missing(program: str) -> KubectlError:
    return KubectlError(f"{program} is not on PATH; install it, or give --url and the credentials in the environment")
