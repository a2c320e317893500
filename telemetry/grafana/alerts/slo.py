"""Burn rates of error budgets: one set of rules for all services, joined with each one's objectives.

The objectives are recorded as series (``slo:budget:ratio{job, slo}``), so that the rules that decide are the same
whatever the values file holds: they are tested once and for all, a service more costs three constants instead of
twelve rules, and boards can show budgets. A service without an objective has no budget, and joins with nothing.

Long windows are sums of the rates over five minutes: requests weigh as they came, a restart of a service is no step
back, and three days of a busy service cost a few thousand samples, not all its histograms.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from telemetry.grafana.alerts.records import Alert, Group, Recording, Severity
from telemetry.grafana.alerts.values import Service
from telemetry.grafana.records import Query

RUNBOOK: Final = "service-slo.md"
DASHBOARD: Final = "fleetglass-service"
LEAST_ERRORS: Final = 5
"""Bad requests in the long window below which nothing fires: one failed request at night is no incident."""
FAST: Final = 60
"""Seconds between evaluations."""
SLOW: Final = 120
"""The same for windows of a day and more; less than half of the five minutes after which a sample is too old."""

_COUNT: Final = "http_server_request_duration_seconds_count"
_BUCKET: Final = "http_server_request_duration_seconds_bucket"
_FAILED: Final = 'http_response_status_code=~"5.."'
_SERVED: Final = 'http_response_status_code!~"5.."'


class Burn(msgspec.Struct, frozen=True, kw_only=True):
    """A budget of 30 days is spent ``factor`` times too fast, over the ``long`` window and still in the ``short`` one.

    ``spent`` is what is gone of the budget when that lasted for the long window. The table is kubernetes-mixin's, from
    the workbook on site reliability engineering, chapter 5.
    """

    long: str
    short: str
    factor: float
    hold: int
    severity: Severity
    spent: str

    @property
    def slow(self) -> bool:
        """Whether it is evaluated less often."""
        return self.long.endswith("d")


BURNS: Final = (
    Burn(long="1h", short="5m", factor=14.4, hold=120, severity="critical", spent="2 %"),
    Burn(long="6h", short="30m", factor=6, hold=900, severity="critical", spent="5 %"),
    Burn(long="1d", short="2h", factor=3, hold=3600, severity="warning", spent="10 %"),
    Burn(long="3d", short="6h", factor=1, hold=10800, severity="warning", spent="10 %"),
)
SLOW_WINDOWS: Final = ("1d", "3d")
FAST_WINDOWS: Final = ("5m", "30m", "1h", "2h", "6h")

REQUESTS: Final = (
    Recording(
        name="slo:requests:rate5m",
        expression=f"sum by (job) (rate({_COUNT}[5m]))",
        labels={"slo": "availability"},
        about="Requests a second.",
    ),
    Recording(
        name="slo:errors:rate5m",
        # Zero comes from the same metric: a service that is gone has no series here, rather than no errors.
        expression=f"sum by (job) (rate({_COUNT}{{{_FAILED}}}[5m])) or 0 * sum by (job) (rate({_COUNT}[5m]))",
        labels={"slo": "availability"},
        about="Requests a second that were answered 5xx.",
    ),
    Recording(
        name="slo:requests:rate5m",
        expression=f"sum by (job) (rate({_COUNT}{{{_SERVED}}}[5m]))",
        labels={"slo": "latency"},
        about="Requests a second that did not fail: a quick failure is no good latency.",
    ),
    Recording(
        name="slo:errors:rate5m",
        expression=(
            f"sum by (job) (rate({_COUNT}{{{_SERVED}}}[5m])) - sum by (job) "
            f"(sum by (job, le) (rate({_BUCKET}{{{_SERVED}}}[5m])) * on (job, le) group_left () "
            "slo:latency_threshold:info)"
        ),
        labels={"slo": "latency"},
        about="Of those, the ones that took longer than the service's threshold.",
    ),
)


def burn_rate(window: str) -> Recording:
    """How many times too fast the budget was spent over ``window``; 1 uses it up in 30 days."""
    errors, requests = "slo:errors:rate5m", "slo:requests:rate5m"
    if window != "5m":
        errors, requests = f"sum_over_time({errors}[{window}])", f"sum_over_time({requests}[{window}])"
    return Recording(
        name=f"slo:burnrate:{window}",
        expression=f"{errors} / ({requests} > 0) / on (job, slo) slo:budget:ratio",
        about=f"Times too fast that the budget was spent over {window}.",
    )


def _expression(burn: Burn) -> str:
    return (
        f"slo:burnrate:{burn.long} > {burn.factor:g} and slo:burnrate:{burn.short} > {burn.factor:g} "
        f"and sum_over_time(slo:errors:rate5m[{burn.long}]) * {FAST} > {LEAST_ERRORS} "
        # Long sums outlive the service by hours; what is gone is its guard's business.
        "and last_over_time(slo:requests:rate5m[30m])"
    )


def _alert(burn: Burn) -> Alert:
    name = f"burn_{burn.long}"
    return Alert(
        uid=f"error-budget-burn-{burn.long}",
        name="ErrorBudgetBurn",
        title=f"Error budget burn, {burn.long} and {burn.short}",
        query=Query(
            name=name,
            language="promql",
            expression=_expression(burn),
            shape="table",
            about=f"Services that spend {burn.spent} of a month's budget in {burn.long}.",
        ),
        hold=burn.hold,
        keep=300,
        severity=burn.severity,
        labels={"window": burn.long},
        shows="factor",
        summary="{{job}}: the budget for {{slo}} is spent {{value}} times too fast "
        f"(over {burn.long}, and still over {burn.short}).",
        description=f"At this pace {burn.spent} of what may fail in 30 days fails within {burn.long}. The board shows "
        "which route and which status; the runbook how to go on.",
        runbook=f"{RUNBOOK}#error-budget-burn",
        dashboard=DASHBOARD,
        guard="ServiceAbsent",
    )


ALERTS: Final = tuple(_alert(burn) for burn in BURNS)


def objectives(services: tuple[Service, ...]) -> Iterator[Recording]:
    """The constants of each service: its budgets, and the bucket that its latency threshold is."""
    for service in services:
        if service.availability is not None:
            yield _budget(service.name, "availability", service.availability)
        if service.latency is not None:
            yield _budget(service.name, "latency", service.latency.objective)
            for bound in _bounds(service.latency.threshold):
                yield Recording(
                    name="slo:latency_threshold:info",
                    expression="vector(1)",
                    labels={"job": service.name, "le": bound},
                    about=f"The histogram bound that {service.name} calls slow.",
                )


def _budget(job: str, slo: str, objective: float) -> Recording:
    # 1 - 0.999 is 0.0010000000000000009 in binary; nine digits are what was meant.
    return Recording(
        name="slo:budget:ratio",
        expression=f"vector({round(1 - objective, 9):g})",
        labels={"job": job, "slo": slo},
        about=f"The share of requests of {job} that may miss its objective of {objective:g}.",
    )


def _bounds(threshold: float) -> list[str]:
    """``le`` as it may be written: a whole number as ``1.0`` by Python and Prometheus 3, as ``1`` by others."""
    return [f"{threshold:.1f}", f"{threshold:g}"] if threshold == int(threshold) else [f"{threshold:g}"]


def groups(services: tuple[Service, ...]) -> tuple[Group, ...]:
    """The groups in which each reads what earlier ones recorded; none where no service has an objective."""
    constants = tuple(objectives(services))
    if not constants:
        return ()
    slow = tuple(alert for alert, burn in zip(ALERTS, BURNS, strict=True) if burn.slow)
    fast = tuple(alert for alert, burn in zip(ALERTS, BURNS, strict=True) if not burn.slow)
    return (
        Group(name="fleetglass-slo-objectives", interval=FAST, rules=constants),
        Group(name="fleetglass-slo-requests", interval=FAST, rules=REQUESTS),
        Group(name="fleetglass-slo-burn", interval=FAST, rules=tuple(map(burn_rate, FAST_WINDOWS))),
        Group(name="fleetglass-slo-burn-slow", interval=SLOW, rules=tuple(map(burn_rate, SLOW_WINDOWS))),
        Group(name="fleetglass-slo-alerts", interval=FAST, rules=fast),
        Group(name="fleetglass-slo-alerts-slow", interval=SLOW, rules=slow),
    )
