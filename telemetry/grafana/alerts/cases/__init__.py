"""The unit tests of every alert, by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from telemetry.grafana.alerts.cases import absent, frontend, observer, queue, slo, stack, telemetry, workers
from telemetry.grafana.alerts.cases.records import Case, Scope

CASES: Final[Mapping[str, Callable[[Scope], tuple[Case, ...]]]] = {
    "AlloyLinesDropped": stack.alloy,
    "ErrorBudgetBurn": slo.burn,
    "ExporterAbsent": absent.guard,
    "FleetObserverAbsent": absent.guard,
    "FleetObserverWithoutLeader": observer.leaderless,
    "FleetReadFailing": observer.failing,
    "FleetReadOld": observer.old,
    "FrontendErrorSpikeByKind": frontend.spike,
    "FrontendIngestRefusing": frontend.refusing,
    "FrontendLimitsNotShared": frontend.not_shared,
    "LokiDiscardsLines": stack.loki,
    "QueueJobsAtRestartLimit": queue.at_limit,
    "QueueJobsFailing": queue.failing,
    "QueueJobsGivenUp": queue.given_up,
    "QueueJobsOverdue": queue.overdue,
    "QueueJobsRequeued": queue.requeued,
    "QueueLate": queue.late,
    "QueueSnapshotHeld": queue.snapshot,
    "QueueTagStuck": queue.stuck,
    "QueueTagUnrouted": queue.unrouted,
    "QueueTagUnserved": queue.unserved,
    "QueueTagsCut": queue.tags_cut,
    "QueueVacuumMissing": queue.vacuum,
    "RulesFailing": stack.rules_failing,
    "ServiceAbsent": absent.guard,
    "SloWithoutData": absent.slo_without_data,
    "TargetDown": stack.target_down,
    "TelemetryInternalFaults": telemetry.faults,
    "TelemetryLabelOverflow": telemetry.overflow,
    "TelemetryRecordsDropped": telemetry.dropped,
    "TelemetryRecordsStuck": telemetry.stuck,
    "VictoriaMetricsIgnoresSamples": stack.victoriametrics,
    "WorkerBadgesMissing": workers.badges,
    "WorkerGroupAsleep": workers.asleep,
    "WorkerGroupDrainOverdue": workers.drain_overdue,
    "WorkerGroupMissing": workers.missing,
    "WorkerGroupOver": workers.over,
    "WorkerGroupShort": workers.short,
    "WorkerGroupUnregistered": workers.unregistered,
    "WorkerHeartbeatFailing": workers.heartbeat,
    "WorkerRegistryBroken": workers.broken,
    "WorkerVersionSkew": workers.skew,
    "WorkersLost": workers.lost,
}
"""Builders of the cases; an alert that vmalert evaluates and that isn't here can't be tested, which a test refuses."""
