"""Finds the programs of the stack on PATH, and whether there is a container engine."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence

from telemetry.stack.parts import PARTS, Name, Part


def find(part: Part) -> str | None:
    """The program for ``part`` on PATH, or None; another program of that name is passed over."""
    for name in part.programs:
        found = shutil.which(name)
        if found is not None and (not part.says or part.says in said([found, part.asks])):
            return found
    return None


def present() -> dict[Name, str]:
    """The programs that are there, by part, in the order in which they start."""
    found = {name: find(part) for name, part in PARTS.items()}
    return {name: program for name, program in found.items() if program is not None}


def said(command: Sequence[str], timeout: float = 20.0) -> str:
    """What a program says, on both outputs; empty where it can't be run or does not end in ``timeout`` seconds."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout + done.stderr


def succeeds(command: Sequence[str], timeout: float = 20.0) -> bool:
    """The command runs and ends with status 0."""
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=timeout)
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0
