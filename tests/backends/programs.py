"""Where the backends' programs are: built by ``build``, or on PATH."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path

from tests.backends import build
from tests.backends.process import ServerError

# What tests take from PATH, and its `--version` text: Debian has a genetics program that is called loki, too.
_ON_PATH = {
    "alloy": ("alloy, version", "1.18"),
    "loki": ("loki, version", "3.8"),
    "tempo": ("tempo, version", "3.0"),
}


@cache
def find(name: str) -> Path | None:
    """The program for the backend ``name``, or None."""
    if name not in _ON_PATH:
        return build.path(name)
    found = shutil.which(name)
    if found is None:
        return None
    said = subprocess.run([found, "--version"], capture_output=True, text=True, check=False, timeout=30)
    return Path(found) if _ON_PATH[name][0] in said.stdout + said.stderr else None


def missing(name: str) -> str:
    """What to do about a backend that ``find`` does not find."""
    if name in _ON_PATH:
        return f"{name} is missing: put `{name}` {_ON_PATH[name][1]} (Grafana's) on PATH"
    return f"{name} is missing: run `make backends`"


def program(name: str) -> str:
    """The path of the program for the backend ``name``; raises ServerError where ``find`` finds none."""
    found = find(name)
    if found is None:
        raise ServerError(missing(name))
    return str(found)
