"""Alerts on browser errors: a spike of them, and reports refused."""

from __future__ import annotations

from typing import Final

from telemetry.grafana.queries.frontend import (
    REFUSED_SHARE_BY_RESULT,
    SPIKE_BY_FINGERPRINT,
    SPIKE_BY_KIND,
)
from telemetry.grafana.records import Alert

RUNBOOK: Final = "frontend-errors.md"
SPIKE: Final = 100
"""Occurrences in five minutes that are a spike."""
REFUSED_SHARE: Final = 0.2
"""Share of reports whose refusal for one reason is worth a look."""

ALERTS: Final = (
    Alert(
        uid="frontend-error-spike",
        title="Frontend error spike",
        query=SPIKE_BY_FINGERPRINT,
        above=SPIKE,
        hold=0,
        severity="warning",
        summary="One browser error happened {{value}} times in five minutes: fp {{fp}}.",
        runbook=f"{RUNBOOK}#frontend-error-spike",
        # Thousands of fingerprints in five minutes make the query fail, and are worth a look.
        on_error="alerting",
    ),
    Alert(
        uid="frontend-error-spike-metric",
        title="Frontend error spike, by kind",
        query=SPIKE_BY_KIND,
        above=SPIKE,
        hold=0,
        severity="warning",
        summary="Browser errors of kind {{kind}} happened {{value}} times in five minutes, more than usual.",
        runbook=f"{RUNBOOK}#frontend-error-spike",
    ),
    Alert(
        uid="frontend-ingest-refusing",
        title="Frontend ingest refusing",
        query=REFUSED_SHARE_BY_RESULT,
        above=REFUSED_SHARE,
        hold=300,
        severity="warning",
        summary="{{job}} refuses {{value}} of the browser reports: {{result}}.",
        runbook=f"{RUNBOOK}#frontend-ingest-refusing",
    ),
)
