"""Alerts on browser errors: a spike of them, reports refused, and limits that replicas don't share."""

from __future__ import annotations

from typing import Final

from telemetry.grafana.alerts.records import Alert
from telemetry.grafana.queries.frontend import (
    NOT_SHARED,
    REFUSED_SHARE_BY_RESULT,
    SPIKE_BY_FINGERPRINT,
    SPIKE_BY_KIND,
)

RUNBOOK: Final = "frontend-errors.md"
DASHBOARD: Final = "fleetglass-frontend-errors"
SPIKE: Final = 100
"""Occurrences in five minutes that are a spike."""
REFUSED_SHARE: Final = 0.2
"""Share of reports whose refusal for one reason is worth a look."""

ALERTS: Final = (
    Alert(
        uid="frontend-error-spike",
        name="FrontendErrorSpike",
        title="Frontend error spike",
        query=SPIKE_BY_FINGERPRINT,
        above=SPIKE,
        hold=120,
        keep=300,
        severity="warning",
        summary="One browser error happened {{value}} times in five minutes: fp {{fp}}.",
        description="A release, or what it calls, breaks in browsers. The runbook has the query that shows the error's "
        "stack, release and whom it hits.",
        runbook=f"{RUNBOOK}#frontend-error-spike",
        dashboard=DASHBOARD,
        guard="ExporterAbsent",
        # Thousands of fingerprints in five minutes make the query fail, and are worth a look; so is Loki being away.
        on_error="alerting",
    ),
    Alert(
        uid="frontend-error-spike-metric",
        name="FrontendErrorSpikeByKind",
        title="Frontend error spike, by kind",
        query=SPIKE_BY_KIND,
        above=SPIKE,
        hold=120,
        keep=300,
        severity="warning",
        summary="{{job}}: browser errors of kind {{kind}} happened {{value}} times in five minutes, more than usual.",
        description="The same as FrontendErrorSpike from metrics, so that it works while Loki doesn't. It can't name "
        "the error: the dashboard's Most frequent does.",
        runbook=f"{RUNBOOK}#frontend-error-spike",
        dashboard=DASHBOARD,
        guard="ServiceAbsent",
    ),
    Alert(
        uid="frontend-ingest-refusing",
        name="FrontendIngestRefusing",
        title="Frontend ingest refusing",
        query=REFUSED_SHARE_BY_RESULT,
        above=REFUSED_SHARE,
        hold=300,
        keep=300,
        severity="warning",
        shows="percent",
        summary="{{job}} refuses {{value}} of the browser reports: {{result}}.",
        description="Errors of those pages are not seen meanwhile. The runbook says for each result what to look at.",
        runbook=f"{RUNBOOK}#frontend-ingest-refusing",
        dashboard=DASHBOARD,
        guard="ServiceAbsent",
    ),
    Alert(
        uid="frontend-limits-not-shared",
        name="FrontendLimitsNotShared",
        title="Frontend limits not shared",
        query=NOT_SHARED,
        above=0.5,
        hold=300,
        keep=300,
        severity="warning",
        summary="{{job}} on {{instance}} can't reach the store of shared limits and limits alone.",
        description="Each replica then allows as much as all together should, and counts repeats of an error for "
        "itself: more lines, none lost.",
        runbook=f"{RUNBOOK}#frontend-limits-not-shared",
        dashboard=DASHBOARD,
        guard="ServiceAbsent",
    ),
)
