"""What alerts over an observer's figures have in common: the selector, the maximum over exporters, the guard."""

from __future__ import annotations

import math
from typing import Any, Final

from telemetry.grafana.alerts.records import Alert
from telemetry.grafana.alerts.selectors import one_of
from telemetry.grafana.alerts.values import Fleet
from telemetry.grafana.records import Query

STEP: Final = 30
"""Each ``for`` is a multiple of so many seconds, and two of them at least."""


def top(fleet: Fleet, metric: str, by: str = "", matchers: str = "") -> str:
    """The maximum of ``metric`` over the exporters of ``fleet``, ``by`` labels."""
    told = f'(fleet_{metric}{{job="{fleet.job}"{f", {matchers}" if matchers else ""}}})'
    return f"max by ({by}) {told}" if by else f"max{told}"


def where(fleet: Fleet, by: str, metric: str, **state: str) -> str:
    """``and`` only for those whose ``metric`` is 1 for the ``state``, ``by`` label."""
    ((label, value),) = state.items()
    matcher = f'{label}="{value}"'
    return f"and on ({by}) ({top(fleet, metric, by, matcher)} == 1)"


def held(seconds: float) -> int:
    """``seconds`` as a ``for``: rounded up to whole evaluations."""
    return max(2, math.ceil(seconds / STEP)) * STEP


def alert(fleet: Fleet, uid: str, expression: str, about: str, **more: Any) -> Alert:
    """An alert over what the observer of ``fleet`` tells. ``job`` is the observer's, as a fixed label."""
    query = Query(name=uid.replace("-", "_"), language="promql", expression=expression, shape="table", about=about)
    more = {"labels": {"job": fleet.job}, "guard": "FleetObserverAbsent", "keep": 300, **more}
    return Alert(uid=f"{uid}-{fleet.job}", query=query, **more)


def of_workers(fleet: Fleet, uid: str, expression: str, about: str, **more: Any) -> Alert:
    """An alert over what workers and reapers tell of themselves; ``job`` is that of the series."""
    return alert(fleet, uid, expression, about, **{"labels": {}, "guard": "ServiceAbsent", **more})


def workers_jobs(fleet: Fleet) -> str:
    """The matcher for the services that run jobs."""
    return f'job=~"{one_of(fleet.workers)}"'
