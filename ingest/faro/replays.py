"""Batches that came already: the SDK sends one again, under the same ``Idempotency-Key``, when it missed the answer."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b
from typing import Final

SECONDS: Final = 60.0
KEYS: Final = 50_000
"""Keys that are remembered: some 10 MB. Beyond them the oldest is forgotten."""


class Replays:
    """Keys of the last ``seconds``, of this process alone. ``clock`` returns seconds and never runs backwards."""

    def __init__(
        self, *, seconds: float = SECONDS, keys: int = KEYS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._seconds = seconds
        self._keys = keys
        self._clock = clock
        self._seen: OrderedDict[bytes, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._seen)

    def again(self, email: str, key: bytes) -> bool:
        """Whether ``email`` sent ``key`` already; from now on, yes. One caller's keys say nothing of another's."""
        now = self._clock()
        while self._seen and next(iter(self._seen.values())) <= now:
            self._seen.popitem(last=False)
        # Digests, since a key is as long as the caller likes.
        digest = blake2b(email.encode(errors="replace") + b"\0" + key, digest_size=16).digest()
        if digest in self._seen:
            return True
        self._seen[digest] = now + self._seconds
        if len(self._seen) > self._keys:
            self._seen.popitem(last=False)
        return False
