"""Unit tests of alerts as records: series that are made up, and what fires at some moments.

Every alert has four kinds of test. *Not early* stops one evaluation before it may fire, *fires* begins at that one, so
that a threshold, a window or a ``for`` that changes fails one of them; *resolves* does the same for the end. *Data
missing* lets the series go away in the middle of the trouble: the alert is silent then, and its guard fires.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from telemetry.grafana.alerts.records import Alert, RuleSet
from telemetry.grafana.alerts.values import Latency, Service, Values

MINUTE: Final = 60
STAND_IN: Final = Service("shop", availability=0.99, latency=Latency(threshold=0.5, objective=0.95))
"""The service by which alerts about all services are tested."""
CaseKind = Literal["fires", "not early", "resolves", "data missing"]
KINDS: Final[tuple[CaseKind, ...]] = ("fires", "not early", "resolves", "data missing")


class Firing(msgspec.Struct, frozen=True):
    """One alert that fires: the labels of its series (those of the rule come on top), and the summary as it is read.

    ``alert`` is which one, where several rules of a group have one name.
    """

    labels: Mapping[str, str]
    summary: str
    alert: Alert | None = None


class Check(msgspec.Struct, frozen=True):
    """What fires of ``alert`` (of all rules with its name in its group) ``at`` seconds; nothing by default."""

    at: int
    alert: Alert
    firing: tuple[Firing, ...] = ()


class Case(msgspec.Struct, frozen=True):
    """One test. ``series`` are selectors with values in the notation of unit tests, a sample a minute.

    Rules are evaluated each ``step`` seconds, which is the same for all cases of an alert.
    """

    kind: CaseKind
    series: Mapping[str, str]
    checks: tuple[Check, ...]
    step: int = MINUTE


class Scope(msgspec.Struct, frozen=True):
    """One alert under values that hold only what it is about, and the rules of those values."""

    alert: Alert
    job: str
    values: Values
    rules: RuleSet

    def at(self, minutes: int, *firing: Firing, alert: Alert | None = None) -> Check:
        """What fires after ``minutes``."""
        return Check(minutes * MINUTE, alert or self.alert, firing)

    def guard(self, minutes: int) -> Check:
        """The alert's guard fires after ``minutes``."""
        guard = next(each for each in self.rules.alerts if each.name == self.alert.guard)
        return self.at(minutes, Firing({}, guard.summary.replace("{{job}}", self.job)), alert=guard)

    def sign(self) -> str:
        """The series that keeps the guard silent."""
        guard = next(each for each in self.rules.alerts if each.name == self.alert.guard)
        return guard.query.expression.removeprefix("absent(").removesuffix(")")

    def bounds(self) -> list[str]:
        """The histogram bounds that the service's threshold may be written as."""
        return [rule.labels["le"] for rule in self.rules.recordings if "le" in rule.labels]


def counter(*spans: tuple[int, float], start: float = 0) -> str:
    """A counter from ``start`` on: for each span of minutes, what it grows by in each of them."""
    parts, value = [f"{start:g}"], start
    for minutes, growth in spans:
        parts.append(f"{value + growth:g}+{growth:g}x{minutes - 1}")
        value += growth * minutes
    return " ".join(parts)


def gauge(*spans: tuple[int, float]) -> str:
    """A gauge that has a value for each span of minutes."""
    return " ".join(f"{value:g}+0x{minutes - 1}" for minutes, value in spans)


def later(minutes: int, values: str) -> str:
    """``values`` that begin after ``minutes`` without any."""
    return f"_x{minutes} {values}"


def gone(values: str) -> str:
    """``values``, and then the target is away, as a scraper marks it."""
    return f"{values} stale"
