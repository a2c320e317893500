"""When silence may be believed: not just after the database, or we ourselves, were away.

After an outage that is longer than the alive window, the first read sees one worker of twenty alive and every job
reapable; a second later all are back. Nobody who concludes from silence may do so before that time has passed in
uninterrupted, successful reads.
"""

from __future__ import annotations

import msgspec


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """What the reads so far allow to conclude. Times count seconds by any one monotonic clock.

    ``after``: how long reads must have succeeded without a break. ``gap``: the longest time between two reads that is
    no break; longer, and this process slept, or its machine did. ``epoch`` names the server's life (its start time,
    by the server): another one is another server, whose clients are coming back.
    """

    after: float
    gap: float
    since: float | None = None
    last: float | None = None
    epoch: object = None

    def read(self, now: float, epoch: object = None) -> Patience:
        """After a read that succeeded at ``now``."""
        unbroken = self.since is not None and self.last is not None and now - self.last <= self.gap
        if unbroken and epoch == self.epoch:
            return msgspec.structs.replace(self, last=now)
        return msgspec.structs.replace(self, since=now, last=now, epoch=epoch)

    def failed(self) -> Patience:
        """After a read that failed."""
        return msgspec.structs.replace(self, since=None, last=None)

    def settled(self, now: float) -> bool:
        """Whether silence may be believed at ``now``."""
        if self.since is None or self.last is None or now - self.last > self.gap:
            return False
        return now - self.since >= self.after
