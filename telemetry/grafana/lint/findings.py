"""What lint says: a finding names the file, the line, the thing in it, the rule, and what to do."""

from __future__ import annotations

from typing import Literal

import msgspec

Level = Literal["error", "notice"]


class Finding(msgspec.Struct, frozen=True, order=True):
    """One thing that is wrong, or worth a look.

    ``line`` counts from 1. ``where`` names the thing for those who don't count lines: a dashboard's uid and a panel's
    id, a datasource, an alert. ``message`` is a sentence with what to do.
    """

    file: str
    line: int
    rule: str
    level: Level
    where: str
    message: str

    def __str__(self) -> str:
        where = f" [{self.where}]" if self.where else ""
        return f"{self.file}:{self.line}: {self.level} {self.rule}{where}: {self.message}"


def names(of: object) -> str:
    """Words of a list or set, sorted and parted by commas, for a message."""
    return ", ".join(sorted(map(str, of))) if isinstance(of, (list, tuple, set, frozenset, dict)) else str(of)


def cut(text: str, most: int = 80) -> str:
    """``text`` on one line, with an ellipsis beyond ``most`` characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
