"""The stack in containers: which engine there is, and the commands that it is given."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from telemetry.stack import composed, programs

PROJECT = "fleetglass"
Say = Callable[[str], None]

# Each with the command that shows that its daemon answers: a client alone runs nothing.
_ENGINES: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("docker", "compose"), ("docker", "info")),
    (("podman", "compose"), ("podman", "info")),
    (("docker-compose",), ("docker", "info")),
)


class EngineError(RuntimeError):
    """Compose can't be used, or failed; the text says how."""


def find() -> tuple[str, ...] | None:
    """The compose command that works here, or None."""
    for compose, answers in _ENGINES:
        there = all(shutil.which(each[0]) for each in (compose, answers))
        if there and programs.succeeds([*compose, "version"]) and programs.succeeds(answers):
            return compose
    return None


def _compose(folder: Path) -> list[str]:
    found = find()
    if found is None:
        raise EngineError("no container engine with compose answers (docker compose, podman compose)")
    return [*found, "--project-name", PROJECT, "--file", str(folder / "compose" / "compose.yaml")]


def up(folder: Path, chosen: Mapping[str, int], say: Say) -> None:
    """Write the compose file and its configuration, start it, and wait until it is healthy. Raises EngineError."""
    compose = _compose(folder)
    composed.write(folder / "compose", chosen)
    say("starting containers")
    _run([*compose, "up", "--detach", "--wait"])


def down(folder: Path) -> None:
    """End the containers; their volumes stay. Raises EngineError."""
    _run([*_compose(folder), "down"])


def status(folder: Path) -> str:
    """What compose says of them. Raises EngineError."""
    return _run([*_compose(folder), "ps", "--all"], capture=True)


def environment(folder: Path) -> dict[str, str]:
    """The variables with which services of this machine use the stack in containers. Raises EngineError."""
    return composed.environment(folder / "compose")


def _run(command: Sequence[str], *, capture: bool = False) -> str:
    done = subprocess.run(command, capture_output=capture, text=True, check=False)
    if done.returncode != 0:
        told = f": {done.stderr.strip()}" if capture and done.stderr else ""
        raise EngineError(f"`{' '.join(command)}` ended with {done.returncode}{told}")
    return done.stdout.rstrip() if capture else ""
