"""The dashboards, as records; what Grafana reads is made from them."""

from __future__ import annotations

from typing import Final

from telemetry.grafana.boards import frontend
from telemetry.grafana.records import Dashboard

BOARDS: Final[tuple[Dashboard, ...]] = (frontend.DASHBOARD,)
"""All dashboards, in the order in which operators meet them."""
