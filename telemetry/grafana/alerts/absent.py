"""Guards: what is enabled in the values file and says nothing is told, since silence looks like health.

A guard asks for a metric that boards and alerts rely on, not for ``up``: an exporter that answers and no longer has
that metric (renamed, or switched off) is as silent as one that is gone. Each guard names its job literally and reads
no recording, so that it works when everything else fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from telemetry.grafana.alerts.records import Alert
from telemetry.grafana.alerts.values import Exporter, Fleet, Service, Values
from telemetry.grafana.records import Query

RUNBOOK: Final = "telemetry.md"

SIGNS: Final[dict[str, str]] = {
    "alloy": "alloy_build_info",
    "flux": "gotk_resource_info",
    "grafana": "grafana_build_info",
    "kube-state-metrics": "kube_pod_info",
    "loki": "loki_build_info",
    "node": "node_cpu_seconds_total",
    "tempo": "tempo_build_info",
    "victoriametrics": "vm_app_version",
    "vmagent": "vm_app_version",
    "vmalert": "vmalert_iteration_total",
}
"""By kind of exporter, the metric that it has whenever it works."""


def _query(name: str, expression: str, about: str) -> Query:
    return Query(name=name, language="promql", expression=expression, shape="table", about=about)


def service_absent(service: Service) -> Alert:
    """No process of the service says anything."""
    job = service.name
    return Alert(
        uid=f"service-absent-{job}",
        name="ServiceAbsent",
        title=f"No telemetry from {job}",
        query=_query(
            f"absent_{job}", f'absent(telemetry_build_info{{job="{job}"}})', f"1 while nothing comes from {job}."
        ),
        hold=300,
        # Its error budget can't burn while nothing is counted.
        severity="critical" if service.slos else "warning",
        labels={"job": job},
        summary="{{job}} sends no metrics: it is down, or can't be reached.",
        description="Nothing else about this service can fire now, and its panels show nothing, which is not 0.",
        runbook=f"{RUNBOOK}#service-absent",
        dashboard="fleetglass-overview",
        guard="",
    )


def slo_without_data(service: Service, slo: str) -> Alert:
    """The service talks, and yet its objective can't be judged."""
    job = service.name
    return Alert(
        uid=f"slo-without-data-{slo}-{job}",
        name="SloWithoutData",
        title=f"No requests to judge the {slo} of {job} by",
        query=_query(
            f"slo_without_data_{slo}_{job}",
            f'absent(slo:errors:rate5m{{job="{job}", slo="{slo}"}}) and on () telemetry_build_info{{job="{job}"}}',
            f"1 while {job} talks and no requests are known.",
        ),
        hold=1800,
        severity="info",
        labels={"job": job, "slo": slo},
        summary="{{job}}: its {{slo}} objective has no requests to be judged by.",
        description="Either no request came since it started, or its request metrics don't: the middleware is not "
        "mounted, names came another way (OTLP without Prometheus names), or no bucket is the threshold.",
        runbook="service-slo.md#slo-without-data",
        dashboard="fleetglass-service",
        guard="ServiceAbsent",
    )


def exporter_absent(exporter: Exporter) -> Alert:
    """What an exporter always has is not there."""
    job, metric = exporter.job, exporter.metric or SIGNS[exporter.kind]
    return Alert(
        uid=f"exporter-absent-{job}",
        name="ExporterAbsent",
        title=f"No metrics from {job}",
        query=_query(f"absent_{job}", f'absent({metric}{{job="{job}"}})', f"1 while {metric} of {job} is missing."),
        hold=300,
        severity="warning",
        labels={"exporter": exporter.kind, "job": job},
        summary=f"{{{{job}}}} has no {metric}: it is down, can't be scraped, or has other names.",
        description="Panels and alerts on its metrics are silent meanwhile, which looks like health.",
        runbook=f"{RUNBOOK}#exporter-absent",
        dashboard="fleetglass-overview",
        guard="",
    )


def observer_absent(fleet: Fleet) -> Alert:
    """Nobody tells anything of a platform's queue and workers."""
    job = fleet.job
    return Alert(
        uid=f"fleet-observer-absent-{job}",
        name="FleetObserverAbsent",
        title=f"No observer of queue and workers at {job}",
        query=_query(
            f"observer_absent_{job}",
            f'absent(fleet_queue_observer_leader{{job="{job}"}})',
            f"1 while no observer of {job} can be scraped.",
        ),
        hold=300,
        # The queue may stand still, and none of the alerts that would page for it can fire.
        severity="critical",
        labels={"job": job},
        summary="{{job}}: no observer tells of queue and workers.",
        description="No alert on the queue or on groups of workers can fire meanwhile, and their panels are empty, "
        "which is not 0.",
        runbook="fleet.md#fleet-observer-absent",
        dashboard="fleetglass-queue",
        guard="",
    )


def guards(values: Values) -> Iterator[Alert]:
    """A guard for each service, exporter and fleet that the values name, and for each objective."""
    for service in values.services:
        yield service_absent(service)
        yield from (slo_without_data(service, slo) for slo in service.slos)
    yield from map(exporter_absent, values.exporters)
    yield from map(observer_absent, values.fleets)
