"""One group of workers in; what scales it and what warns of it out, by one predicate and the same numbers.

A group asks for ``ceil(pending / target)`` replicas, where ``pending`` are due, unclaimed jobs under its tags. The
scaler reads that number from the view ``telemetry.queue_pending``, the rules read it from ``fleet_queue_pending``,
which is exported from the same statement. docs/scaling.md has the reasons, and what KEDA does in an outage.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal

import msgspec

from telemetry.fleet.model import WorkerGroup
from telemetry.fleet.queue import CAP
from telemetry.fleet.schema import VIEW

INTERVAL: Final = 60
"""Seconds between two evaluations of the rules."""
WARN_AFTER: Final = 600
PAGE_AFTER: Final = 300
"""Seconds that a state must last before somebody is told: a scaler at work needs some, and a queue of its own more."""
DRAIN_SLACK: Final = 10
"""Seconds between the end of a drain and the kill: the last completion, the last ping, the goodbye."""
MOST_STABLE: Final = 3600
"""The longest stabilization window that a HorizontalPodAutoscaler takes, in seconds."""
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_CONNECTION: Final = ("host", "port", "userName", "dbName", "sslmode", "password")
# Nothing here is a variable of Flux's postBuild.
_LABELS: Final = {"kustomize.toolkit.fluxcd.io/substitute": "disabled"}

Object = dict[str, Any]


class Scaling(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a group is scaled. Times count seconds.

    ``target_queue_depth`` is how many waiting jobs one replica is for. ``termination_grace`` is the
    ``terminationGracePeriodSeconds`` of the group's pods: it stands in their own manifest, and is repeated here to be
    held against the rest. ``stabilization`` is for how long fewer replicas must do before any is taken away. ``slo`` is
    the age that the oldest job may reach. ``workload`` is what is scaled, by the group's name unless it says.

    Where nothing is given, the defaults are those of Kubernetes (grace 30) and KEDA (polling 30, cooldown 300).
    """

    group: WorkerGroup
    target_queue_depth: int
    polling_interval: int = 30
    cooldown_period: int = 300
    termination_grace: int = 30
    stabilization: int = 600
    slo: float = 300.0
    workload: str = ""
    kind: Literal["Deployment", "StatefulSet"] = "Deployment"

    @property
    def most(self) -> int:
        """The most jobs that may wait before no number of allowed replicas is enough."""
        return self.target_queue_depth * self.group.band[1]


class Secret(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="postgresql", tag_field="type"):
    """The Secret with the way to the database. ``keys`` says which of its keys is which of KEDA's parameters."""

    name: str
    keys: Mapping[str, str] = msgspec.field(default_factory=lambda: {name: name for name in _CONNECTION})


class Prometheus(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="prometheus", tag_field="type"
):
    """A store of metrics to scale by, where KEDA may not reach the database.

    ``url`` is without ``/api/v1``. ``secret`` has a ``token`` for it; without one it is asked without.
    """

    url: str
    secret: str = ""


class Context(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What all groups have in common.

    ``runbooks`` and ``dashboards`` are addresses that alerts link to: the folder with our runbooks, and Grafana.
    ``matchers`` are labels that pick this platform's series, where the store has those of several.
    """

    source: Secret | Prometheus
    runbooks: str
    dashboards: str
    namespace: str = ""
    matchers: Mapping[str, str] = {}


def problems(scaling: Scaling) -> tuple[str, ...]:
    """Why this group can't be scaled as it says, as sentences: an empty tuple when it can."""
    return tuple(f"group {scaling.group.name}: {sentence}" for sentence in _problems(scaling))


def _problems(scaling: Scaling) -> Iterator[str]:
    group = scaling.group
    high = group.band[1]
    tags = len(group.routes)
    if not group.enabled:
        yield "it is disabled, and a scaler would start what it may not run"
    if not group.autoscales:
        yield "it has no autoscale_min and autoscale_max, so there is nothing to scale"
    elif high == 0:
        yield "autoscale_max is 0, so no replica would ever come"
    if not group.routes:
        yield "it has no tags, so nothing says which jobs are counted for it"
    if scaling.target_queue_depth < 1:
        yield f"target_queue_depth is {scaling.target_queue_depth}; it must be at least 1"
    elif tags and scaling.most >= CAP * tags:
        yield (
            f"target_queue_depth × autoscale_max is {scaling.target_queue_depth} × {high} = {scaling.most}, and counts "
            f"end at {CAP} jobs for each tag, {CAP * tags} in all: that it is overrun could never be seen. Take a "
            "smaller target_queue_depth"
        )
    yield from _times(scaling)
    if not group.name.isprintable() or "{" in group.name:
        yield "its name can't stand in the text of an alert: it has braces or control characters"
    if not _NAME.fullmatch(_workload(scaling)):
        yield f"{_workload(scaling)!r} can't be the name of a {scaling.kind}; say in workload what is scaled"


def _times(scaling: Scaling) -> Iterator[str]:
    drain, grace = scaling.group.drain_timeout, scaling.termination_grace
    if drain + DRAIN_SLACK > grace:
        yield (
            f"a drain takes up to {drain:g} s, and terminationGracePeriodSeconds is {grace}: pods would be killed in "
            f"the middle of it. Make it at least {drain + DRAIN_SLACK:g} in their manifest, and termination_grace here"
        )
    if grace > scaling.cooldown_period:
        yield (
            f"cooldown_period is {scaling.cooldown_period} s, shorter than terminationGracePeriodSeconds ({grace}): "
            "the last replicas would be asked to leave while earlier ones still drain"
        )
    if scaling.polling_interval < 1:
        yield f"polling_interval is {scaling.polling_interval}; it must be at least 1 s"
    if not 0 <= scaling.stabilization <= MOST_STABLE:
        yield f"stabilization is {scaling.stabilization}; a HorizontalPodAutoscaler takes 0 to {MOST_STABLE} s"
    if scaling.slo <= 0:
        yield f"slo is {scaling.slo:g}; it must be more than 0 s"


def context_problems(context: Context) -> tuple[str, ...]:
    """What is wrong with what all groups have in common, as sentences."""
    found = []
    source = context.source
    if isinstance(source, Secret) and "connection" not in source.keys:
        missing = [name for name in _CONNECTION if name not in source.keys]
        if missing:
            found.append(f"source.keys: KEDA needs {', '.join(missing)} too, or connection alone")
    wrong = [label for label in context.matchers if not _LABEL.fullmatch(label) or label in {"tag", "group"}]
    return (*found, *(f"matchers: {label!r} can't be used as a label here" for label in wrong))


def shared_tags(scalings: Iterable[Scaling]) -> tuple[str, ...]:
    """Tags that several groups count, as sentences: each of them grows for the same jobs."""
    of: dict[str, list[str]] = {}
    for scaling in scalings:
        for tag in sorted(scaling.group.routes):
            of.setdefault(tag, []).append(scaling.group.name)
    return tuple(
        f"the tag {tag} is served by {' and '.join(names)}: each grows as if it were alone with those jobs"
        for tag, names in of.items()
        if len(names) > 1
    )


def pending_sql(scaling: Scaling) -> str:
    """What the scaler asks the database: one row, one number, never NULL."""
    tags = ", ".join("'" + tag.replace("'", "''") + "'" for tag in _tags(scaling))
    return f"SELECT COALESCE(sum(pending), 0) FROM {VIEW} WHERE tag IN ({tags})"  # noqa: S608  # quoted, and run by KEDA


def pending_promql(scaling: Scaling, context: Context) -> str:
    """The same of the exported metric. Exporters may be several, hence the maximum for each tag first."""
    return f"sum(max by (tag) (fleet_queue_pending{_selector(_by_tag(scaling), context)}))"


def scaled_object(scaling: Scaling, context: Context) -> Object:
    """The ScaledObject of KEDA."""
    low, high = scaling.group.band
    spec: Object = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": scaling.kind, "name": _workload(scaling)},
        "pollingInterval": scaling.polling_interval,
        "cooldownPeriod": scaling.cooldown_period,
        "minReplicaCount": low,
        "maxReplicaCount": high,
        "advanced": {
            "horizontalPodAutoscalerConfig": {
                "behavior": {"scaleDown": {"stabilizationWindowSeconds": scaling.stabilization}}
            }
        },
        "triggers": [_trigger(scaling, context)],
    }
    if isinstance(context.source, Prometheus):
        # A fallback of 0 replicas would make KEDA scale a group to nothing in an outage.
        spec["fallback"] = {"failureThreshold": 3, "replicas": max(1, low), "behavior": "currentReplicasIfHigher"}
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": _metadata(scaling, context),
        "spec": spec,
    }


def trigger_authentication(scaling: Scaling, context: Context) -> Object | None:
    """Where KEDA takes the credentials from: a Secret, by reference. None where it needs none."""
    source = context.source
    if isinstance(source, Secret):
        keys, secret = dict(source.keys), source.name
    elif source.secret:
        keys, secret = {"bearerToken": "token"}, source.secret
    else:
        return None
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "TriggerAuthentication",
        "metadata": _metadata(scaling, context),
        "spec": {
            "secretTargetRef": [
                {"parameter": parameter, "name": secret, "key": key} for parameter, key in sorted(keys.items())
            ]
        },
    }


def vm_rule(scaling: Scaling, context: Context) -> Object:
    """The VMRule for the operator of VictoriaMetrics."""
    return {
        "apiVersion": "operator.victoriametrics.com/v1beta1",
        "kind": "VMRule",
        "metadata": _metadata(scaling, context),
        "spec": {"groups": [rules(scaling, context)]},
    }


def rules(scaling: Scaling, context: Context) -> Object:
    """The group of alerts, as vmalert and Prometheus read it too."""
    name, pending = scaling.group.name, pending_promql(scaling, context)
    oldest = f"max(fleet_queue_oldest_age_seconds{_selector(_by_tag(scaling), context)})"
    alive = f"fleet_worker_group_alive{_selector(f'group={_quoted(name)}', context)}"
    target, high = scaling.target_queue_depth, scaling.group.band[1]
    made = [
        _alert(
            "WorkerGroupBehind",
            f"{pending} > {target} * max({alive})",
            WARN_AFTER,
            "warning",
            f'{name} has {{{{ printf "%.0f" .Value }}}} jobs waiting, more than {target} for each replica online.',
            "More replicas were to come and have not: the scaler, a quota, or pods that can't be placed.",
        ),
        _alert(
            "WorkerGroupOverrun",
            f"{pending} > {target} * {high}",
            PAGE_AFTER,
            "critical",
            f'{name} has {{{{ printf "%.0f" .Value }}}} jobs waiting, more than {high} replicas are to have.',
            "The group may not grow any further, so the backlog will. Counts end at the cap of the view; there may be "
            "more.",
        ),
        _alert(
            "WorkerGroupLate",
            f"{oldest} > {scaling.slo:g}",
            PAGE_AFTER,
            "critical",
            f"The oldest job of {name} has waited for {{{{ .Value | humanizeDuration }}}}.",
            f"It may wait for {scaling.slo:g} s. Either too few run, or those that run don't take it.",
        ),
        _alert(
            "WorkerGroupUnknown",
            f"max(absent(fleet_queue_pending{_selector(_by_tag(scaling), context)}) or absent({alive}))",
            PAGE_AFTER,
            "warning",
            f"Nothing is known of the queue or the workers of {name}.",
            "The observer is away, or can't read the database. No other alert of this group can fire while that is so.",
        ),
    ]
    for alert in made:
        alert["labels"]["group"] = name
        anchor = _HEADINGS[alert["alert"]]
        alert["annotations"] |= {
            "runbook_url": f"{context.runbooks.rstrip('/')}/scaling.md#{anchor}",
            "dashboard_uid": DASHBOARD,
            "dashboard_url": f"{context.dashboards.rstrip('/')}/d/{DASHBOARD}",
        }
    return {"name": f"fleetglass-scaling-{name}", "interval": f"{INTERVAL}s", "rules": made}


DASHBOARD: Final = "fleetglass-queue"
"""The uid of the dashboard that alerts link to."""
_HEADINGS: Final = {
    "WorkerGroupBehind": "worker-group-behind",
    "WorkerGroupOverrun": "worker-group-overrun",
    "WorkerGroupLate": "worker-group-late",
    "WorkerGroupUnknown": "worker-group-unknown",
}


def _alert(name: str, expression: str, hold: int, severity: str, summary: str, description: str) -> Object:
    return {
        "alert": name,
        "expr": expression,
        "for": f"{hold}s",
        "labels": {"severity": severity},
        "annotations": {"summary": summary, "description": description},
    }


def _trigger(scaling: Scaling, context: Context) -> Object:
    source = context.source
    if isinstance(source, Secret):
        metadata = {
            "query": pending_sql(scaling),
            "targetQueryValue": str(scaling.target_queue_depth),
            # One due job is reason enough to come back from nothing.
            "activationTargetQueryValue": "0",
        }
        kind = "postgresql"
    else:
        metadata = {
            "serverAddress": source.url.rstrip("/"),
            "query": pending_promql(scaling, context),
            "threshold": str(scaling.target_queue_depth),
            "activationThreshold": "0",
            # By default no answer is 0, and an outage of the store scales everything in (keda#3065).
            "ignoreNullValues": "false",
        }
        kind = "prometheus"
        if source.secret:
            metadata["authModes"] = "bearer"
    trigger: Object = {"type": kind, "name": "pending", "metricType": "AverageValue", "metadata": metadata}
    authentication = trigger_authentication(scaling, context)
    if authentication is not None:
        trigger["authenticationRef"] = {"name": authentication["metadata"]["name"]}
    return trigger


def _metadata(scaling: Scaling, context: Context) -> Object:
    made: Object = {"name": _workload(scaling)}
    if context.namespace:
        made["namespace"] = context.namespace
    return {**made, "labels": {"app.kubernetes.io/name": _workload(scaling), **_LABELS}}


def _workload(scaling: Scaling) -> str:
    return scaling.workload or scaling.group.name


def _tags(scaling: Scaling) -> list[str]:
    return sorted(scaling.group.routes)


def _by_tag(scaling: Scaling) -> str:
    tags = _tags(scaling)
    if len(tags) == 1:
        return f"tag={_quoted(tags[0])}"
    return f"tag=~{_quoted('|'.join(map(_literal, tags)))}"


def _selector(first: str, context: Context) -> str:
    more = [f"{label}={_quoted(value)}" for label, value in sorted(context.matchers.items())]
    return "{" + ", ".join([first, *more]) + "}"


def _literal(tag: str) -> str:
    """``tag`` as a regular expression of its own, with the escapes that RE2 knows."""
    return re.sub(r"[\\.+*?()|\[\]{}^$]", r"\\\g<0>", tag)


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
