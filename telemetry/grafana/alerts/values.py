"""The values file: which services and exporters there are, what is promised, and who is told.

YAML, read into frozen records. What can't be used is said with file, line, place and what was expected; nothing is
ignored, since a misspelt objective would be an alert that isn't there.
"""

from __future__ import annotations

import ast
import math
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec
import yaml
from msgspec import Meta

from telemetry.catalogue import HTTP_DURATION_BUCKETS
from telemetry.config.kinds import closest
from telemetry.grafana.alerts.lines import Document, Unreadable

Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.:/-]+$")]
Link = Annotated[str, Meta(pattern=r"^https?://[^\s?#$]+$")]
Secret = Annotated[str, Meta(pattern=r"^\$\{[A-Z_][A-Z0-9_]*\}$")]
Tenant = Annotated[str, Meta(pattern=r"^[A-Za-z0-9!._*'()-]{0,150}$")]
Duration = Annotated[str, Meta(pattern=r"^[1-9][0-9]*[smhd]$")]
Address = Annotated[str, Meta(pattern=r"^(\$\{[A-Z_][A-Z0-9_]*\}|https?://[^\s$@]+)$")]
Folder = Annotated[str, Meta(pattern=r"^/[^\s$]*$")]
Host = Annotated[str, Meta(pattern=r"^([A-Za-z0-9.-]+:[0-9]+)?$")]
Metric = Annotated[str, Meta(pattern=r"^([a-zA-Z_:][a-zA-Z0-9_:]*)?$")]
Label = Annotated[str, Meta(pattern=r"^[a-z_]+$")]
Mailbox = Annotated[str, Meta(pattern=r"^[^\s@$,;]+@[^\s@$,;]+$")]
Sender = Annotated[str, Meta(pattern=r"^([^\s@$,;]+@[^\s@$,;]+)?$")]
PlainText = Annotated[str, Meta(pattern=r"^[^$]+$")]

# At 14.4 times the budget, everything would have to fail for less: the page could never come.
_LEAST_OBJECTIVE = 0.931


class Latency(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A share of ``objective`` of the requests takes at most ``threshold`` seconds, which is a bound of a bucket."""

    threshold: float
    objective: float


class Service(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A service of ours. ``name`` is its ``service.name``, which is ``job`` in metrics.

    ``availability`` is the share of requests that is answered without 5xx. ``browser_errors``: it writes browser
    errors to Loki, under ``service_name``.
    """

    name: Name
    availability: float | None = None
    latency: Latency | None = None
    browser_errors: bool = False

    @property
    def slos(self) -> tuple[str, ...]:
        """Names of the objectives that it has."""
        pairs = (("availability", self.availability), ("latency", self.latency))
        return tuple(name for name, value in pairs if value is not None)


Kind = Literal[
    "alloy",
    "flux",
    "grafana",
    "kube-state-metrics",
    "loki",
    "node",
    "other",
    "tempo",
    "victoriametrics",
    "vmagent",
    "vmalert",
]


class Exporter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A program that is scraped under ``job``. ``metric`` is what it always has; of ``other`` it must be said."""

    kind: Kind
    job: Name
    metric: Metric = ""


class Fleet(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A platform's queue and workers, as an observer tells of them under ``job``. Times count seconds.

    ``queue`` and ``registry``: whether the platform has them; without, nothing is asked of them. ``workers`` are those
    of the services that run jobs and reapers. ``scaled_groups`` have their own alerts on lateness, from ``fleetglass
    scaling render``. ``slo`` is the age that the oldest job of a tag may reach; ``rollout`` how long a release takes,
    ``scale_up`` how long workers may take to come up from nothing, ``drain_timeout`` the longest of any group.

    ``overdue``, ``requeues`` (in 15 minutes), ``failures`` (a share), ``lost``, ``snapshot_age`` and ``dead_rows`` are
    what is still all right.
    """

    job: Name
    queue: bool = True
    registry: bool = True
    workers: tuple[Name, ...] = ()
    scaled_groups: tuple[Name, ...] = ()
    slo: float = 300
    rollout: float = 600
    scale_up: float = 180
    drain_timeout: float = 600
    overdue: float = 0
    requeues: float = 10
    failures: float = 0.2
    lost: float = 2
    snapshot_age: float = 900
    dead_rows: float = 10_000


class Tenants(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``X-Scope-OrgID`` of the backends that have tenants, empty where they don't."""

    metrics: Tenant = ""
    logs: Tenant = ""


class Datasources(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Uids of datasources in Grafana."""

    logs: Name = "loki"


class Alertmanager(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What Alertmanager needs beside: the folder of its ``secrets``, and for mail the server and the sender."""

    secrets: Folder = "/etc/alertmanager/secrets"
    smarthost: Host = ""
    sender: Sender = ""


class Email(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="email"):
    """Mail to ``addresses``, through the mail server that Grafana has."""

    name: PlainText
    addresses: Annotated[tuple[Mailbox, ...], Meta(min_length=1)]

    @property
    def settings(self) -> dict[str, Any]:
        """As Grafana has them."""
        return {"addresses": ";".join(self.addresses)}


class Slack(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="slack"):
    """A Slack webhook."""

    name: PlainText
    url: Secret

    @property
    def settings(self) -> dict[str, Any]:
        """As Grafana has them."""
        return {"url": self.url}


class PagerDuty(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="pagerduty"):
    """An integration of PagerDuty (Events API v2)."""

    name: PlainText
    integration_key: Secret

    @property
    def settings(self) -> dict[str, Any]:
        """As Grafana has them."""
        return {"integrationKey": self.integration_key}


class Webhook(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="webhook"):
    """A POST of JSON to ``url``, an address or a placeholder, with a bearer ``token`` where one is needed."""

    name: PlainText
    url: Address
    token: Secret | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """As Grafana has them."""
        settings: dict[str, Any] = {"url": self.url, "httpMethod": "POST"}
        if self.token is not None:
            settings |= {"authorization_scheme": "Bearer", "authorization_credentials": self.token}
        return settings


ContactPoint = Email | Slack | PagerDuty | Webhook


class Route(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Alerts whose labels are those of ``match`` go ``to`` a contact point."""

    match: Annotated[dict[Label, PlainText], Meta(min_length=1)]
    to: str


class Routing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who is told: the first of ``routes`` that matches, else ``default``."""

    default: str
    group_by: tuple[Label, ...] = ("alertname", "job")
    group_wait: Duration = "30s"
    group_interval: Duration = "5m"
    repeat_interval: Duration = "4h"
    routes: tuple[Route, ...] = ()


class Values(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file. ``runbooks`` and ``dashboards`` are where people find the pages and Grafana."""

    runbooks: Link
    dashboards: Link
    tenants: Tenants = Tenants()
    datasources: Datasources = Datasources()
    alertmanager: Alertmanager = Alertmanager()
    services: tuple[Service, ...] = ()
    exporters: tuple[Exporter, ...] = ()
    fleets: tuple[Fleet, ...] = ()
    contact_points: tuple[ContactPoint, ...] = ()
    routing: Routing | None = None

    @property
    def jobs(self) -> tuple[str, ...]:
        """The jobs of services and exporters, in order."""
        return (*(service.name for service in self.services), *(exporter.job for exporter in self.exporters))


class ValuesError(ValueError):
    """A values file that can't be used; the text names file, line and place, one line for each problem."""


def read(path: Path) -> Values:
    """The values in the file ``path``. Raises ValuesError, and OSError where it can't be read."""
    return parse(path.read_text(encoding="utf-8"), str(path))


def parse(text: str, name: str = "values") -> Values:
    """The values in ``text``; ``name`` stands for the file in what ValuesError says."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        problem = getattr(error, "problem", None) or "this is no YAML"
        raise ValuesError(f"{name}:{line}: {problem}") from None
    if node is None:
        raise ValuesError(f"{name}:1: the file is empty; runbooks and dashboards are needed at least")
    document = Document(name)
    try:
        values = msgspec.convert(document.plain(node), Values)
    except Unreadable as error:
        raise ValuesError(str(error)) from None
    except msgspec.ValidationError as error:
        raise ValuesError(_sentence(document, str(error))) from None
    problems = [f"{name}:{document.line(place)}: {place[2:]}: {said}" for place, said in _problems(values)]
    if problems:
        raise ValuesError("\n".join(problems))
    return values


def _sentence(document: Document, said: str) -> str:
    """What msgspec says, in words, with file and line before it."""
    problem, _, place = said.partition(" - at `")
    path = re.sub(r"^key in ", "", place.removesuffix("`")) or "$"
    unknown = re.fullmatch(r"Object contains unknown field `(.*)`", problem)
    if unknown:
        path = f"{path}.{unknown[1]}"
        problem = f"no such key{closest(unknown[1], _KEYS)}"
    missing = re.fullmatch(r"Object missing required field `(.*)`", problem)
    if missing:
        problem = f"{missing[1]} is missing"
    if problem.startswith("Expected `str` matching regex "):
        problem = _MEANT[ast.literal_eval(problem.removeprefix("Expected `str` matching regex "))]
    other = re.fullmatch(r"Expected `(.*)`, got `(\w+)`", problem)
    if other:
        wanted, got = _words(other[1]), _words(other[2])
        quotes = ": put it into quotes" if wanted == "text" and got not in {"a list", "keys with values"} else ""
        problem = f"expected {wanted}, got {got}{quotes}"
    kind = re.fullmatch(r"Invalid (?:enum )?value '(.*)'", problem)
    if kind:
        known = _KINDS if path.startswith("$.exporters") else _CONTACTS
        problem = f"no such kind{closest(kind[1], known) or ', there are ' + ', '.join(known)}"
    where = path.removeprefix("$").removeprefix(".")
    return f"{document.name}:{document.line(path)}: {f'{where}: ' if where else ''}{problem}"


_STRUCTS = (
    Values,
    Service,
    Latency,
    Exporter,
    Fleet,
    Tenants,
    Datasources,
    Alertmanager,
    Email,
    Slack,
    PagerDuty,
    Webhook,
    Routing,
    Route,
)
_KEYS = sorted({field for struct in _STRUCTS for field in struct.__struct_fields__})


_WORDS = {
    "array": "a list",
    "bool": "true or false",
    "date": "a date",
    "datetime": "a time",
    "float": "a number",
    "int": "a number",
    "null": "nothing",
    "object": "keys with values",
    "str": "text",
}


def _words(kinds: str) -> str:
    """What msgspec calls ``float | null``, in words; that a key may be left out goes without saying."""
    return _WORDS.get(kinds.removesuffix(" | null"), kinds)


_KINDS = get_args(Kind)
_CONTACTS = [str(struct.__struct_config__.tag) for struct in get_args(ContactPoint)]


def _pattern(kind: Any) -> str:
    """The pattern of an annotated type."""
    meta: Meta = kind.__metadata__[0]
    return str(meta.pattern)


_MEANT = {
    _pattern(Name): "expected a name of letters, digits and _ . : / -",
    _pattern(Link): "expected an http or https address without ? and #",
    _pattern(Secret): "expected ${NAME} of an environment variable; secrets don't stand in this file",
    _pattern(Address): "expected an http or https address, or ${NAME} of an environment variable that holds one",
    _pattern(Tenant): "expected a tenant, as X-Scope-OrgID takes it",
    _pattern(Folder): "expected a folder, from / on",
    _pattern(Host): "expected host:port",
    _pattern(Duration): "expected a duration such as 30s, 5m or 4h",
    _pattern(Metric): "expected the name of a metric",
    _pattern(Mailbox): "expected one address of mail",
    _pattern(Sender): "expected one address of mail",
    _pattern(Label): "expected the name of a label",
    _pattern(PlainText): "expected text without $",
}
"""What each pattern asks for, in words."""


def _problems(values: Values) -> Iterator[tuple[str, str]]:
    """Place and sentence of what is well typed and still can't be used."""
    for index, service in enumerate(values.services):
        place = f"$.services[{index}]"
        if service.availability is not None:
            yield from _objective(f"{place}.availability", service.availability)
        if service.latency is not None:
            yield from _objective(f"{place}.latency.objective", service.latency.objective)
            if service.latency.threshold not in HTTP_DURATION_BUCKETS:
                bounds = ", ".join(f"{bound:g}" for bound in HTTP_DURATION_BUCKETS)
                yield f"{place}.latency.threshold", f"expected a bound of the histogram, in seconds: {bounds}"
    for index, exporter in enumerate(values.exporters):
        if exporter.kind == "other" and not exporter.metric:
            yield f"$.exporters[{index}]", "of kind other, metric must be said: what it always has"
    yield from _twice("$.services", "name", [service.name for service in values.services])
    yield from _twice("$.exporters", "job", [exporter.job for exporter in values.exporters])
    yield from _twice("$.fleets", "job", [fleet.job for fleet in values.fleets])
    for index, fleet in enumerate(values.fleets):
        yield from _fleet(f"$.fleets[{index}]", fleet, [service.name for service in values.services])
    yield from _twice("$.contact_points", "name", [point.name for point in values.contact_points])
    if values.routing is not None:
        names = [point.name for point in values.contact_points]
        wanted = [("$.routing.default", values.routing.default)]
        wanted += [(f"$.routing.routes[{index}].to", route.to) for index, route in enumerate(values.routing.routes)]
        for place, name in wanted:
            if name not in names:
                yield place, f"no contact point is called {name!r}{closest(name, names)}"
    elif values.contact_points:
        yield "$.contact_points", "nothing goes to them without routing"


def _fleet(place: str, fleet: Fleet, services: list[str]) -> Iterator[tuple[str, str]]:
    for index, name in enumerate(fleet.workers):
        if name not in services:
            said = f"nobody would tell of its silence: no service is called {name!r}{closest(name, services)}"
            yield f"{place}.workers[{index}]", said
    if fleet.scaled_groups and not fleet.registry:
        yield f"{place}.scaled_groups", "without a registry nobody says which tags are a group's"
    for field in ("slo", "rollout", "scale_up", "drain_timeout", "snapshot_age"):
        if not 0 < getattr(fleet, field) < math.inf:
            yield f"{place}.{field}", "expected seconds, more than 0"
    for field in ("overdue", "requeues", "lost", "dead_rows"):
        if not 0 <= getattr(fleet, field) < math.inf:
            yield f"{place}.{field}", "expected a number from 0 on"
    if not 0 < fleet.failures < 1:
        yield f"{place}.failures", "expected a share between 0 and 1, such as 0.2"


def _objective(place: str, objective: float) -> Iterator[tuple[str, str]]:
    if not _LEAST_OBJECTIVE <= objective < 1:
        yield place, f"expected a share from {_LEAST_OBJECTIVE} to below 1, such as 0.999"


def _twice(place: str, field: str, names: list[str]) -> Iterator[tuple[str, str]]:
    for name, count in Counter(names).items():
        if count > 1:
            last = len(names) - 1 - names[::-1].index(name)
            yield f"{place}[{last}].{field}", f"{name} stands here twice"
