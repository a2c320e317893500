"""The times by which this platform lives, and how its database is read.

What takes minutes in production takes seconds here, so that somebody who watches sees it happen. The proportions are
kept, since they are what makes it right: three heartbeats fit into the alive window, and nobody counts as alive whose
jobs a reaper may already have taken.
"""

from __future__ import annotations

from typing import Final

import msgspec

from telemetry.fleet.model import Windows
from telemetry.fleet.profiles import WINDFORCE

HEARTBEAT: Final = 1.0
"""Seconds between the pings of a worker; 10 in production."""
WINDOWS: Final = Windows(alive=6.0, tombstone=90.0, drain_slack=10.0, scale_up=10.0, stuck=60.0)
"""In production 60 s alive, a quarter of an hour as a tombstone."""
ZOMBIE: Final = 8.0
"""Seconds without a ping after which a job goes back to the queue; 90 in production."""
OBSERVE: Final = 1.5
"""Seconds between two reads of queue and workers; 15 in production."""
DETAIL: Final = 4.0
"""Seconds between two reads of running jobs and waits; 60 in production."""
SLO: Final = 30.0
"""Seconds that the oldest job of a tag may wait; 300 in production."""
BACK_OFF: Final = 10.0
"""Seconds until a worker that died is started again, as Kubernetes begins its CrashLoopBackOff."""
ARRIVES: Final = 3.5
"""Seconds until a worker that is asked for later begins to start: a pod is scheduled first, and its image pulled."""

PROFILE: Final = msgspec.structs.replace(WINDFORCE, zombie_timeout=ZOMBIE)
"""Windforce's tables. The tags of its apps and actions are the catalogue that coverage is judged over."""
