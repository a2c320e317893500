"""What the children of a forking server leave to their parent: for which sinks they have waited in vain.

A prefork parent ends after its children. Where a backend is dead, each child has given it a whole deadline, and the
parent, which has the same sinks, would give it another. So a child leaves word, in memory that it shares with its
parent, and the parent tries that sink for a moment only. A sink that delivered anything is not spoken of.
"""

from __future__ import annotations

import mmap
import time
from typing import Final

MOMENT: Final = 0.05
"""Seconds that a sink is given which a child has just waited for in vain: an answer from nearby comes in less."""

_SINKS: Final = 16
_BYTES: Final = 8 * _SINKS  # a monotonic time, in seconds, for each sink; zero for none


class Lineage:
    """This process between its parent and its children. ``sink`` is a sink's place among those of the process."""

    def __init__(self) -> None:
        self._from_children: memoryview[float] | None = None
        self._to_parent: memoryview[float] | None = None

    def before_fork(self) -> None:
        """Have the memory that the children will write to; made with the first fork, kept for the others."""
        if self._from_children is None:
            self._from_children = memoryview(mmap.mmap(-1, _BYTES)).cast("d")

    def after_fork_in_child(self) -> None:
        """What was for the children is now the way to the parent."""
        self._to_parent, self._from_children = self._from_children, None

    def waited_in_vain(self, sink: int) -> None:
        """Tell the parent, where there is one: ``sink`` had its whole deadline and nothing went through."""
        if self._to_parent is not None and sink < _SINKS:
            self._to_parent[sink] = time.monotonic()  # one clock for all processes of a machine

    def child_waited_in_vain(self, sink: int, within: float) -> bool:
        """Whether a child has told so in the last ``within`` seconds."""
        if self._from_children is None or sink >= _SINKS:
            return False
        told = self._from_children[sink]
        return told > 0 and time.monotonic() - told <= within
