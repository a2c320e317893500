"""What a real ``alloy`` on PATH says about a file: ``alloy fmt --test`` and ``alloy validate``."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from telemetry.alloy.finding import Finding, Level
from telemetry.alloy.schema import LEVELS

TIMEOUT = 60.0
"""Seconds that one run of ``alloy`` may take."""

_DIAGNOSTIC = re.compile(r"^(?P<level>Error|Warning): (?P<file>.+?):(?P<line>\d+):(?P<column>\d+): (?P<message>.*)$")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def executable() -> str | None:
    """Where ``alloy`` is, or None."""
    return shutil.which("alloy")


def findings(alloy: str, files: Sequence[str], configurations: Sequence[str], stability: str) -> Iterator[Finding]:
    """What ``alloy`` refuses, one finding each under rule ``upstream``.

    ``files`` are asked of ``fmt``; ``configurations``, files or folders that are one each, of ``validate``.
    """
    for file in files:
        if Path(file).is_file():
            yield from _formatted(alloy, file)
    for configuration in configurations:
        if Path(configuration).exists():
            yield from _validated(alloy, configuration, stability)


def _formatted(alloy: str, file: str) -> Iterator[Finding]:
    status, said = _run(alloy, "fmt", "--test", file)
    if status == 0:
        return
    found = list(_diagnostics(said, "fmt"))
    if found:
        yield from found
    elif "not formatted" in said or not said.strip():
        message = f"alloy fmt would write this file differently; run alloy fmt -w {file}"
        yield Finding(file, 1, 1, "warning", "upstream", message)
    else:
        yield Finding(file, 1, 1, "error", "upstream", f"alloy fmt: {_last(said)}")


def _validated(alloy: str, configuration: str, stability: str) -> Iterator[Finding]:
    status, said = _run(alloy, "validate", f"--stability.level={LEVELS[stability]}", configuration)
    if status == 0:
        return
    found = list(_diagnostics(said, "validate"))
    yield from found or [Finding(configuration, 1, 1, "error", "upstream", f"alloy validate: {_last(said)}")]


def _diagnostics(said: str, verb: str) -> Iterator[Finding]:
    for line in said.splitlines():
        match = _DIAGNOSTIC.match(line)
        if match is not None:
            level: Level = "warning" if match["level"] == "Warning" else "error"
            message = f"alloy {verb}: {match['message']}"
            yield Finding(match["file"], int(match["line"]), int(match["column"]), level, "upstream", message)


def _run(alloy: str, *arguments: str) -> tuple[int, str]:
    """Exit status and everything said. A run that doesn't end in time counts as failed, and says so."""
    try:
        done = subprocess.run(
            [alloy, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 1, f"gave no answer in {TIMEOUT:g} s"
    except OSError as error:
        return 1, f"can't be started: {error.strerror or error}"
    return done.returncode, _COLOUR.sub("", done.stdout.decode("utf-8", "replace"))


def _last(said: str) -> str:
    """The last line that says something."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1] if lines else "it failed and said nothing"
