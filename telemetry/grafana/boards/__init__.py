"""The dashboards, as records; what Grafana reads is made from them."""

from __future__ import annotations

from typing import Final

from telemetry.grafana.boards import fleet, frontend, host, overview, queue, service, telemetry
from telemetry.grafana.records import Dashboard

BOARDS: Final[tuple[Dashboard, ...]] = (
    overview.DASHBOARD,
    service.DASHBOARD,
    frontend.DASHBOARD,
    queue.DASHBOARD,
    fleet.DASHBOARD,
    telemetry.DASHBOARD,
    host.DASHBOARD,
)
"""All dashboards, in the order in which operators meet them."""
