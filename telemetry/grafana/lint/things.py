"""What lies in a document: dashboards, datasource provisioning, rule groups, Kubernetes objects.

A document may hold several: a ConfigMap with dashboards, Helm values with datasources, a List of objects. Anything else
stays a document, which the rules on configurations walk through.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from telemetry.grafana.lint import boards
from telemetry.grafana.lint.documents import Document, Place, Unreadable, embedded
from telemetry.grafana.lint.findings import Finding

_LOGQL = re.compile(
    r"\|[=~>]|\}\s*![=~]\s*[\"`]|\|\s*(logfmt|json|pattern|regexp|unpack|unwrap|line_format|keep|drop)\b"
)
_LOGQL_CALL = re.compile(r"\b(bytes_rate|bytes_over_time|rate_counter|first_over_time)\s*\(")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdwy])")
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800, "y": 31536000}


class Expression(msgspec.Struct, frozen=True):
    """A query of a rule. ``source`` is the uid of its datasource, empty where the file doesn't say."""

    text: str
    language: boards.Language
    place: Place
    source: str = ""


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """An alert or a recording rule; ``hold`` in seconds is None where the file doesn't say."""

    name: str
    alert: bool
    expressions: tuple[Expression, ...]
    labels: Mapping[str, Any]
    annotations: Mapping[str, Any]
    hold: float | None
    managed: bool
    place: Place


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Rules evaluated together every ``interval`` seconds, None where the file doesn't say."""

    name: str
    interval: float | None
    rules: tuple[Rule, ...]
    managed: bool
    place: Place


class Things(msgspec.Struct):
    """All that was found, over all documents; filled by ``sort``."""

    documents: list[Document] = []
    boards: list[boards.Board] = []
    provisioning: list[Place] = []
    groups: list[Group] = []
    objects: list[Place] = []
    findings: list[Finding] = []

    def count(self) -> int:
        """How many things lint has rules for."""
        return len(self.boards) + len(self.provisioning) + len(self.groups)


def sort(document: Document, into: Things) -> None:
    """Put what lies in ``document`` where it belongs."""
    into.documents.append(document)
    for path in document.twice:
        place = Place(document, path)
        into.findings.append(place.found("duplicate-key", f"The key {path[-1]!r} stands twice here; keep one."))
    _sort(Place(document), into)


def _sort(place: Place, into: Things) -> None:
    data = place.value
    if isinstance(data, list):
        for index in range(len(data)):
            _sort(place / index, into)
        return
    if not isinstance(data, dict):
        return
    version, kind = data.get("apiVersion"), data.get("kind")
    if isinstance(version, str) and isinstance(kind, str):
        _object(place, version, kind, into)
    elif _is_board(data):
        into.boards.append(boards.classic(place))
    elif isinstance(data.get("dashboard"), dict) and _is_board(data["dashboard"]):
        into.findings.append(
            place.found(
                "board-form",
                "This is a dashboard in the envelope of the HTTP API, which provisioning doesn't take: keep what is "
                "below `dashboard`.",
            )
        )
        into.boards.append(boards.classic(place / "dashboard"))
    elif isinstance(data.get("elements"), dict) and "layout" in data:
        into.findings.append(
            place.found(
                "board-form",
                "This is the spec of a V2 dashboard without its resource, which is not provisioned: put it below "
                "`spec`, with apiVersion dashboard.grafana.app/v2, kind Dashboard and metadata.name.",
            )
        )
        into.boards.append(boards.v2(place, ""))
    elif isinstance(data.get("groups"), list):
        into.groups += _groups(place / "groups")
    else:
        into.provisioning += _provisioning(place)
        _inline(place, into)


def _inline(place: Place, into: Things) -> None:
    """Dashboards in Helm values of Grafana: the text under ``dashboards.FOLDER.NAME.json``."""
    data = place.value
    for key, value in data.items() if isinstance(data, dict) else ():
        if key == "json" and isinstance(value, str) and value.lstrip().startswith("{"):
            _embedded(place / key, ".".join(map(str, place.path)), into)
        elif isinstance(value, dict):
            _inline(place / key, into)


def _is_board(data: Mapping[str, Any]) -> bool:
    return isinstance(data.get("panels"), list) and bool({"title", "schemaVersion", "uid", "templating"} & data.keys())


def _object(place: Place, version: str, kind: str, into: Things) -> None:
    data = place.value
    into.objects.append(place)
    if kind == "List" or kind.endswith("List"):
        _sort(place / "items", into)
    elif version.startswith("dashboard.grafana.app/"):
        _resource(place, version, into)
    elif kind in {"ConfigMap", "Secret"}:
        for block in ("data", "stringData") if kind == "Secret" else ("data",):
            texts = data.get(block)
            if isinstance(texts, dict) and not (kind == "Secret" and block == "data"):
                for key in texts:
                    _embedded(place / block / key, f"{kind} {_name(data)}, {key}", into)
    elif kind == "GrafanaDashboard":
        _embedded(place / "spec" / "json", f"{kind} {_name(data)}, spec.json", into)
    elif kind in {"VMRule", "PrometheusRule"}:
        into.groups += _groups(place / "spec" / "groups")
    else:
        into.provisioning += _provisioning(place)


def _name(data: Mapping[str, Any]) -> str:
    metadata = data.get("metadata")
    return str(metadata.get("name", "")) if isinstance(metadata, dict) else ""


def _embedded(place: Place, inside: str, into: Things) -> None:
    name = str(place.path[-1])
    name = f"{name}.json" if name == "json" else name
    if not isinstance(place.value, str) or not name.endswith((".json", ".yaml", ".yml")):
        return
    try:
        found = embedded(place, name, inside)
    except Unreadable as error:
        into.findings.append(Finding(place.document.file, error.line, "unreadable", "error", "", error.message))
        return
    for document in found:
        sort(document, into)


def _resource(place: Place, version: str, into: Things) -> None:
    data = place.value
    spec = data.get("spec")
    name = _name(data)
    spec = spec if isinstance(spec, dict) else {}
    second = version.rpartition("/")[2].startswith("v2")
    if not name or not spec:
        into.findings.append(
            place.found("board-form", "A dashboard as a resource has `metadata.name`, which is its uid, and `spec`.")
        )
    mixed = "panels" in spec if second else "elements" in spec
    if mixed:
        into.findings.append(
            (place / "spec").found(
                "board-form",
                f"The apiVersion is {version}, and the spec is of the {'classic' if second else 'V2'} schema: such a "
                f"dashboard is not provisioned. {'Take dashboard.grafana.app/v1' if second else 'Take v2'}.",
            )
        )
    if "elements" in spec:
        into.boards.append(boards.v2(place / "spec", name))
    else:
        into.boards.append(boards.classic(place / "spec", "v1", name))


def _provisioning(place: Place) -> Iterator[Place]:
    """Every datasource provisioning at or below ``place``: Helm values hold them at many depths."""
    data = place.value
    if isinstance(data, dict):
        listed = any(isinstance(data.get(key), list) for key in ("datasources", "deleteDatasources"))
        if "apiVersion" in data and listed:
            yield place
            return
        for key, value in data.items():
            if isinstance(value, (dict, list)):
                yield from _provisioning(place / key)
    elif isinstance(data, list):
        for index, value in enumerate(data):
            if isinstance(value, dict):
                yield from _provisioning(place / index)


def _groups(place: Place) -> Iterator[Group]:
    groups = place.value
    for index, data in enumerate(groups if isinstance(groups, list) else []):
        if not isinstance(data, dict):
            continue
        group = (place / index).named(str(data.get("name", "")))
        rules = data.get("rules")
        rules = rules if isinstance(rules, list) else []
        managed = "folder" in data or any(isinstance(rule, dict) and "data" in rule for rule in rules)
        kind = _language(str(data.get("type", "prometheus")))
        yield Group(
            name=str(data.get("name", "")),
            interval=seconds(data.get("interval")),
            rules=tuple(
                _managed(group / "rules" / at) if managed else _plain(group / "rules" / at, kind)
                for at, rule in enumerate(rules)
                if isinstance(rule, dict)
            ),
            managed=managed,
            place=group,
        )


def _language(kind: str) -> boards.Language | None:
    """The language of a group of vmalert's type; None where the expressions must tell."""
    return None if kind == "prometheus" else "other"


def _plain(place: Place, language: boards.Language | None) -> Rule:
    """A rule of Prometheus, vmalert or Loki's ruler."""
    data = place.value
    name = str(data.get("alert") or data.get("record") or "")
    place = place.named(name)
    text = data.get("expr")
    text = text if isinstance(text, str) else str(text) if isinstance(text, (int, float)) else ""
    return Rule(
        name=name,
        alert="alert" in data,
        expressions=(Expression(text, language or language_of(text), place / "expr"),),
        labels=_mapping(data.get("labels")),
        annotations=_mapping(data.get("annotations")),
        hold=seconds(data.get("for")),
        managed=False,
        place=place,
    )


def _managed(place: Place) -> Rule:
    """A Grafana-managed rule, as in a provisioning file."""
    data = place.value
    place = place.named(str(data.get("title") or data.get("uid") or ""))
    expressions: list[Expression] = []
    queries = data.get("data")
    for index, query in enumerate(queries if isinstance(queries, list) else []):
        model = _mapping(_mapping(query).get("model"))
        source = str(_mapping(query).get("datasourceUid", ""))
        text = model.get("expr")
        if isinstance(text, str) and source not in {"__expr__", "-100"}:
            kind = str(_mapping(model.get("datasource")).get("type", ""))
            language = boards.LANGUAGES.get(kind) or language_of(text)
            expressions.append(Expression(text, language, place / "data" / index / "model" / "expr", source))
    return Rule(
        name=str(data.get("title", "")),
        alert="record" not in data,
        expressions=tuple(expressions),
        labels=_mapping(data.get("labels")),
        annotations=_mapping(data.get("annotations")),
        hold=seconds(data.get("for")),
        managed=True,
        place=place,
    )


def language_of(text: str) -> boards.Language:
    """LogQL when the expression has a filter, a stage or a function that PromQL lacks, else PromQL."""
    bare = re.sub(r'"(?:\\.|[^"\\])*"|`[^`]*`', '""', text)
    return "logql" if _LOGQL.search(bare) or _LOGQL_CALL.search(bare) else "promql"


def seconds(value: Any) -> float | None:
    """A duration such as ``1m30s`` in seconds; a bare number counts seconds; None when it is no duration."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, str) or not re.fullmatch(rf"(?:{_DURATION.pattern})+|0", value):
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in _DURATION.findall(value))


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
