"""The unit tests of every alert, by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from telemetry.grafana.alerts.cases import absent, frontend, slo, stack, telemetry
from telemetry.grafana.alerts.cases.records import Case, Scope

CASES: Final[Mapping[str, Callable[[Scope], tuple[Case, ...]]]] = {
    "AlloyLinesDropped": stack.alloy,
    "ErrorBudgetBurn": slo.burn,
    "ExporterAbsent": absent.guard,
    "FrontendErrorSpikeByKind": frontend.spike,
    "FrontendIngestRefusing": frontend.refusing,
    "FrontendLimitsNotShared": frontend.not_shared,
    "LokiDiscardsLines": stack.loki,
    "RulesFailing": stack.rules_failing,
    "ServiceAbsent": absent.guard,
    "SloWithoutData": absent.slo_without_data,
    "TargetDown": stack.target_down,
    "TelemetryInternalFaults": telemetry.faults,
    "TelemetryLabelOverflow": telemetry.overflow,
    "TelemetryRecordsDropped": telemetry.dropped,
    "TelemetryRecordsStuck": telemetry.stuck,
    "VictoriaMetricsIgnoresSamples": stack.victoriametrics,
}
"""Builders of the cases; an alert that vmalert evaluates and that isn't here can't be tested, which a test refuses."""
