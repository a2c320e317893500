"""The tests that every alert over an observer's figures has, told by what the figures are.

Two exporters may run, so each alert is also tested with a second one: both say the same and it fires once; one dies and
the other goes on, and the ``for`` is not begun again. A read that fails takes the figures away, and only the alert on
failed reads fires.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from telemetry.grafana.alerts.cases.records import MINUTE, Case, Check, Firing, Scope, gone
from telemetry.grafana.alerts.observed import STEP

BEGIN: Final = 20
"""Minutes for which all is well at first."""
Figures = Mapping[str, float | None]
"""Figures of an observer, by metric and labels as they are written, without ``fleet_``; None where there is none."""


EPOCH: Final = 946_684_800
"""When tests begin, as Unix time: vmalert-tool has them in the year 2000, since version 1.148."""


def spans(*of: tuple[int, float | None]) -> str:
    """A gauge for each span of minutes; without a value it is away, as a scraper marks it."""
    parts = []
    for minutes, value in of:
        if value is not None:
            parts.append(f"{value:.12g}+0x{minutes - 1}")
        else:
            parts += ["stale", f"_x{minutes - 1}"] if parts else [f"_x{minutes}"]
    return " ".join(part for part in parts if part != "_x0")


def clock(first: int, stands: int = 0, again: int = 0) -> str:
    """A timestamp that goes with the time for the ``first`` minutes, stands still, and goes again."""
    parts = [f"{EPOCH}+{MINUTE}x{first - 1}"]
    if stands:
        parts.append(f"{EPOCH + MINUTE * (first - 1)}+0x{stands - 1}")
    if again:
        parts.append(f"{EPOCH + MINUTE * (first + stands)}+{MINUTE}x{again - 1}")
    return " ".join(parts)


def series(scope: Scope, figure: str, instance: str = "a:80") -> str:
    """The selector of ``figure``, such as ``queue_pending{tag="gpu"}``, as an exporter tells it."""
    name, _, labels = figure.partition("{")
    return f'fleet_{name}{{job="{scope.job}", instance="{instance}"{", " if labels else ""}{labels or "}"}'


def firing(scope: Scope, value: str = "", **labels: str) -> Firing:
    """The alert, for the series with ``labels``; ``value`` as people read it."""
    shown = {"value": value, "job": scope.job, **labels}
    return Firing(labels, re.sub(r"\{\{(\w+)\}\}", lambda place: shown[place[1]], scope.alert.summary))


def lasting(seconds: float) -> str:
    """``seconds`` as ``humanizeDuration`` writes them."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d {hours}h {minutes}m {rest}s"
    if hours:
        return f"{hours}h {minutes}m {rest}s"
    return f"{minutes}m {rest}s" if minutes else f"{seconds:.4g}s"


def case(scope: Scope, kind: str, told: Mapping[str, str], *checks: Check) -> Case:
    """A case at the pace at which fleets are evaluated."""
    return Case(kind, told, checks, STEP)  # type: ignore[arg-type]  # callers write one of the literals


def standard(scope: Scope, part: str, calm: Figures, bad: Figures, fires: Firing, *quiet: Figures) -> tuple[Case, ...]:
    """The cases of an alert whose figures are ``calm``, then ``bad``, then calm again; none of ``quiet`` is bad.

    ``part`` is what the observer reads them with.
    """
    hold, keep = scope.alert.hold, scope.alert.keep
    long, after = hold // MINUTE + 10, keep // MINUTE + 15
    first, end = BEGIN * MINUTE + hold, (BEGIN + long) * MINUTE + keep

    def both(values: Mapping[str, str]) -> dict[str, str]:
        return {series(scope, figure, at): text for figure, text in values.items() for at in ("a:80", "b:80")}

    trouble = {figure: spans((BEGIN, calm[figure]), (long, bad[figure]), (after, calm[figure])) for figure in bad}
    # One dies a minute into the trouble, and the other takes its place.
    died = {figure: gone(spans((BEGIN, calm[figure]), (1, bad[figure]))) for figure in bad}
    heirs = {figure: spans((BEGIN + 1, None), (long, bad[figure])) for figure in bad}
    taken_over = {series(scope, figure): text for figure, text in died.items()}
    taken_over |= {series(scope, figure, "b:80"): text for figure, text in heirs.items()}
    unread = {
        **{series(scope, figure): text for figure, text in died.items()},
        series(scope, f'queue_observer_up{{part="{part}"}}'): spans((BEGIN + 1, 1), (long, 0)),
        scope.sign(): spans((BEGIN + long, 1)),
    }
    away = {**{series(scope, figure): text for figure, text in died.items()}, scope.sign(): gone(spans((BEGIN + 1, 1)))}
    never = [{figure: spans((BEGIN + long, value)) for figure, value in figures.items()} for figures in quiet]
    later = BEGIN + 15
    return (
        case(scope, "not early", both(trouble), Check(first - STEP, scope.alert)),
        *(case(scope, "not early", both(each), Check((BEGIN + long - 1) * MINUTE, scope.alert)) for each in never),
        case(scope, "fires", both(trouble), Check(first, scope.alert, (fires,))),
        case(scope, "fires", taken_over, Check(first - STEP, scope.alert), Check(first, scope.alert, (fires,))),
        case(scope, "resolves", both(trouble), Check(end - STEP, scope.alert, (fires,)), Check(end, scope.alert)),
        case(scope, "not early", unread, scope.at(later), _unread(scope, part, later)),
        case(scope, "data missing", away, scope.at(later), scope.guard(later)),
    )


def _unread(scope: Scope, part: str, minutes: int) -> Check:
    """The alert on failed reads fires, for a part that has been unread for all of its window."""
    other = next(each for each in scope.rules.alerts if each.name == "FleetReadFailing")
    said = other.summary.replace("{{job}}", scope.job).replace("{{part}}", part).replace("{{value}}", "100%")
    return scope.at(minutes, Firing({"part": part}, said), alert=other)
