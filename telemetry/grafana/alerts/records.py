"""Recording rules, alerts and their groups as records; nothing here knows a file format.

In a ``summary``, ``{{label}}`` stands for a label of the series that fires, ``{{value}}`` for its value as ``shows``
says. The emitters write both in the template language of what reads the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from telemetry.grafana.records import Query

Severity = Literal["critical", "warning", "info"]
Reaction = Literal["ok", "alerting"]
Shows = Literal["count", "duration", "factor", "percent"]


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """A series computed at every evaluation. ``name`` is ``level:metric:operation``; ``labels`` are added to it."""

    name: str
    expression: str
    about: str
    labels: Mapping[str, str] = {}


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """It fires for each series of ``query`` that stays above ``above`` for ``hold`` seconds.

    Without ``above`` it fires for each series at all: the query compares by itself. It stays for ``keep`` seconds
    after the last series, against flapping. ``name`` is the alertname, ``uid`` its address in Grafana for good;
    ``labels`` are fixed ones beside ``severity``.

    ``on_no_data`` and ``on_error`` say what it means when there is no answer, or the query fails. Where no such choice
    exists (vmalert, Prometheus), ``guard`` names the alert that fires when the data is missing; a guard has none.
    ``runbook`` is the heading in ``docs/runbooks/`` to read, as ``page.md#anchor``, ``dashboard`` the uid of the board.
    """

    uid: str
    name: str
    title: str
    query: Query
    hold: int
    severity: Severity
    summary: str
    description: str
    runbook: str
    dashboard: str
    guard: str
    above: float | None = None
    keep: int = 0
    labels: Mapping[str, str] = {}
    shows: Shows = "count"
    on_no_data: Reaction = "ok"
    on_error: Reaction = "ok"

    @property
    def condition(self) -> str:
        """The expression whose series are those that fire.

        To be asked for as it is: Loki counts the series that come out, so a query without the comparison fails
        where this one doesn't.
        """
        if self.above is None:
            return self.query.expression
        return f"({self.query.expression}) > {self.above:.12g}"


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Rules that are evaluated together, each ``interval`` seconds, in this order.

    A rule may read what an earlier group recorded, never what its own group did: vmalert writes recordings while it
    goes on to the next rule.
    """

    name: str
    interval: int
    rules: tuple[Recording | Alert, ...]


class RuleSet(msgspec.Struct, frozen=True, kw_only=True):
    """All rules of one set of values: ``metrics`` in PromQL, ``logs`` in LogQL."""

    metrics: tuple[Group, ...]
    logs: tuple[Group, ...]

    @property
    def alerts(self) -> Iterator[Alert]:
        """All alerts, in order."""
        groups = (*self.metrics, *self.logs)
        return (rule for group in groups for rule in group.rules if isinstance(rule, Alert))

    @property
    def recordings(self) -> Iterator[Recording]:
        """All recording rules, in order."""
        return (rule for group in self.metrics for rule in group.rules if isinstance(rule, Recording))
