"""The queue of a Shipper: a class of its own, so that one kept on disk can take its place."""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple


class Item(NamedTuple):
    """A queued record: what the sink encodes, its cost in bytes, its time (Unix seconds)."""

    entry: Any
    cost: int
    at: float


item = tuple.__new__  # what Item() does, for half its price


class Buffer:
    """A FIFO in memory. Its bounds are the Shipper's business; appending and taking are atomic."""

    def __init__(self) -> None:
        self._items: deque[Item] = deque()
        self.append = self._items.append

    def __len__(self) -> int:
        return len(self._items)

    def take(self, max_bytes: int) -> list[Item]:
        """The oldest items whose costs fit ``max_bytes``, at least one where there is any."""
        items: list[Item] = []
        queue, room = self._items, max_bytes
        while queue:
            room -= queue[0].cost
            if room < 0 and items:
                break
            items.append(queue.popleft())
        return items


def cost_of(items: list[Item]) -> int:
    """The bytes that ``items`` are said to cost together."""
    return sum([item.cost for item in items])
