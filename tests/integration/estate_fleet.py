"""Two platforms with queue, workers, reaper and observers of ours, as dashboards see them: one in trouble, one at rest.

All is real: a PostgreSQL, observers that read it and workers that claim from it in processes of their own, scraped by
VictoriaMetrics. What a platform itself writes, jobs and the registry of groups, is written here.
"""

from __future__ import annotations

from typing import Final

from telemetry.catalogue import METRICS
from telemetry.grafana.boards import fleet, queue
from telemetry.grafana.records import Dashboard, Query

BOARDS: Final = (queue.DASHBOARD, fleet.DASHBOARD)
NAMES: Final = tuple(name for name in METRICS if name.startswith("fleet_"))
"""What of the catalogue observers, workers and reapers tell."""


def tells(board: Dashboard, query: Query) -> bool:
    """Whether these platforms answer ``query``, and no service does."""
    return board in BOARDS or "fleet_" in query.expression
