"""What a check has to say: one sentence about one place."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from telemetry.alloy.syntax import Position

Level = Literal["error", "warning", "notice"]


class Finding(msgspec.Struct, frozen=True, order=True):
    """One sentence about one place.

    ``level`` is ``error`` (Alloy refuses it, or it can't work), ``warning`` (it runs and loses or leaks
    something) or ``notice`` (worth knowing; does not fail a check). ``line`` and ``column`` count from 1.
    """

    file: str
    line: int
    column: int
    level: Level
    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.level} {self.rule}: {self.message}"


class Findings:
    """Collects findings while a program is read; the same sentence about the same place is kept once."""

    def __init__(self) -> None:
        self._found: dict[Finding, None] = {}

    def error(self, position: Position, rule: str, message: str) -> None:
        """Alloy refuses it, or it can't work."""
        self._add(position, "error", rule, message)

    def warning(self, position: Position, rule: str, message: str) -> None:
        """It runs, and something is lost or open."""
        self._add(position, "warning", rule, message)

    def notice(self, position: Position, rule: str, message: str) -> None:
        """Worth knowing; a check stays clean."""
        self._add(position, "notice", rule, message)

    def _add(self, position: Position, level: Level, rule: str, message: str) -> None:
        self._found[Finding(position.file, position.line, position.column, level, rule, message)] = None

    def sorted(self) -> tuple[Finding, ...]:
        """All of them, by place."""
        return tuple(sorted(self._found))


def closest(name: str, known: Iterable[str], cutoff: float = 0.7) -> str:
    """`` (did you mean …?)`` when one of the ``known`` names is near, else nothing."""
    from difflib import get_close_matches

    found = get_close_matches(name, sorted(known), n=1, cutoff=cutoff)
    return f" (did you mean {found[0]}?)" if found else ""
