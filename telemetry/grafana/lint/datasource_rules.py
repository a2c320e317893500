"""Rules on datasource provisioning: what ends Grafana 13 at start, and links that lead nowhere.

Grafana's own error (``data source not found``) names neither file nor datasource nor reference; findings here do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from telemetry.grafana.lint.board_shape import UID
from telemetry.grafana.lint.documents import Place, Step
from telemetry.grafana.lint.findings import Finding, cut

_EXPANDED: Final = re.compile(r"\$__(?:env|file|vault)\{[^}]*\}|\$\{[A-Z_][A-Z0-9_]*\}|\$[A-Z_][A-Z0-9_]*\b|\$\$")
_DOLLAR: Final = re.compile(r"\$\{[^}]*\}|\$\w*")
_REFERENCES: Final = frozenset({"datasourceUid", "alertmanagerUid", "datasourceUID"})
_PUSH_PATHS: Final = ("/loki/api/v1/push", "/api/prom/push", "/otlp")


class Source(msgspec.Struct, frozen=True):
    """One datasource of a provisioning file."""

    name: str
    uid: str
    kind: str
    org: int
    default: bool
    place: Place


def sources(place: Place) -> Iterator[Source]:
    """The datasources that the provisioning at ``place`` lists."""
    listed = place.value.get("datasources")
    for index, data in enumerate(listed if isinstance(listed, list) else []):
        if isinstance(data, dict):
            name = _text(data.get("name"))
            yield Source(
                name=name,
                uid=_text(data.get("uid")),
                kind=_text(data.get("type")),
                org=_organisation(data),
                default=data.get("isDefault") is True,
                place=(place / "datasources" / index).named(f"datasource {name!r}"),
            )


def deleted(place: Place) -> Iterator[tuple[int, str]]:
    """Organisation and name of what the provisioning deletes first."""
    listed = place.value.get("deleteDatasources")
    for data in listed if isinstance(listed, list) else []:
        if isinstance(data, dict):
            yield _organisation(data), _text(data.get("name"))


def lock(provisioning: list[Place]) -> dict[str, str]:
    """Uid of each datasource by organisation and name, ``1/Loki``: what a lockfile holds."""
    found = [source for place in provisioning for source in sources(place) if source.uid]
    return {
        f"{source.org}/{source.name}": source.uid for source in sorted(found, key=lambda each: (each.org, each.name))
    }


def lint(provisioning: list[Place], locked: Mapping[str, str], others: frozenset[str]) -> Iterator[Finding]:
    """All findings on datasources. ``locked`` is the lockfile; ``others`` are uids that are provided elsewhere."""
    known = [source for place in provisioning for source in sources(place)]
    uids = {source.uid for source in known if source.uid} | others
    for place in provisioning:
        gone = set(deleted(place))
        if place.value.get("prune") is True:
            message = "Leave out `prune`: Grafana 13 doesn't start with it. Name what is to go in deleteDatasources."
            yield (place / "prune").found("ds-prune", message)
        for source in sources(place):
            yield from _identity(source, locked, gone)
            yield from _references(source, uids)
            yield from _links(source)
            yield from _exemplars(source, known)
            yield from _dollars(source)
            yield from _secrets(source)
            yield from _url(source)
    yield from _twice(known)


def _identity(source: Source, locked: Mapping[str, str], gone: set[tuple[int, str]]) -> Iterator[Finding]:
    found = source.place.found
    if not source.name:
        yield found("ds-uid", "Give the datasource a name.")
    if not source.uid:
        message = "Give the datasource an explicit uid before Grafana 13"
        before = locked.get(f"{source.org}/{source.name}")
        yield found("ds-uid", f"{message}: {before!r}, as the lockfile has it." if before else f"{message}.")
    elif not UID.fullmatch(source.uid) and not _EXPANDED.fullmatch(source.uid):
        message = f"A uid has at most 40 letters, digits, - and _; {source.uid!r} has {len(source.uid)} characters."
        yield (source.place / "uid").found("ds-uid", message)
    before = locked.get(f"{source.org}/{source.name}")
    if before and source.uid and source.uid != before and (source.org, source.name) not in gone:
        yield (source.place / "uid").found(
            "ds-uid-change",
            f"The uid was {before!r} and is now {source.uid!r} under the same name: on an existing database Grafana "
            "ends with `data source not found`. Keep the old one, or add to this file deleteDatasources: "
            f"[{{name: {source.name}, orgId: {source.org}}}].",
        )


def _references(source: Source, uids: set[str]) -> Iterator[Finding]:
    for place, uid in _uids_below(source.place / "jsonData"):
        if uid not in uids:
            message = f"{_path(place)} names the uid {uid!r}, which is not provided{_near(uid, uids)}."
            yield place.found("ds-reference", message)
    listed = source.place.value.get("correlations")
    for index, data in enumerate(listed if isinstance(listed, list) else []):
        uid = _text(data.get("targetUID")) if isinstance(data, dict) else ""
        if uid and uid not in uids and not _EXPANDED.fullmatch(uid):
            place = source.place / "correlations" / index / "targetUID"
            message = f"{_path(place)} names the uid {uid!r}, which is not provided: Grafana 13 doesn't start."
            yield place.found("ds-correlation", message)


def _uids_below(place: Place) -> Iterator[tuple[Place, str]]:
    data = place.value
    if isinstance(data, dict):
        for key, value in data.items():
            if key in _REFERENCES and isinstance(value, str) and value and not _EXPANDED.fullmatch(value):
                yield place / key, value
            else:
                yield from _uids_below(place / key)
    elif isinstance(data, list):
        for index in range(len(data)):
            yield from _uids_below(place / index)


def _path(place: Place) -> str:
    """The path below the datasource: ``jsonData.serviceMap.datasourceUid``."""
    steps: list[Step] = list(place.path)
    start = max(index for index, step in enumerate(steps) if step == "datasources") + 2
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps[start:]).lstrip(".")


def _near(uid: str, uids: set[str]) -> str:
    close = [each for each in uids if each.lower() == uid.lower()]
    return f"; {close[0]!r} is" if close else ""


def _links(source: Source) -> Iterator[Finding]:
    data = source.place.value.get("jsonData")
    data = data if isinstance(data, dict) else {}
    base = source.place / "jsonData"
    if source.kind == "tempo":
        if isinstance(data.get("tracesToLogs"), dict):
            message = "tracesToLogs is the old form, without a query of its own: write tracesToLogsV2."
            yield (base / "tracesToLogs").found("ds-link-tags", message)
        logs = data.get("tracesToLogsV2")
        if isinstance(logs, dict):
            yield from _tags(base / "tracesToLogsV2", logs, [logs.get("query")] if logs.get("customQuery") else [])
        metrics = data.get("tracesToMetrics")
        if isinstance(metrics, dict):
            queries = metrics.get("queries")
            texts = (
                [each.get("query") for each in queries if isinstance(each, dict)] if isinstance(queries, list) else []
            )
            yield from _tags(base / "tracesToMetrics", metrics, texts)
    if source.kind == "loki":
        fields = data.get("derivedFields")
        goals: dict[str, int] = {}
        for index, field in enumerate(fields if isinstance(fields, list) else []):
            goal = _text(field.get("datasourceUid")) if isinstance(field, dict) else ""
            if goal and goal in goals:
                message = f"Two derived fields lead to {goal!r}: the same line then has two links. Keep one."
                yield (base / "derivedFields" / index).found("ds-derived-fields", message)
            goals[goal] = index


def _tags(place: Place, link: Mapping[str, Any], queries: list[Any]) -> Iterator[Finding]:
    if not link.get("tags"):
        message = "Name tags: without one that is on the span and a label there, the link disappears."
        yield place.found("ds-link-tags", message)
    for query in queries:
        if isinstance(query, str) and "__tags" not in query:
            message = f"The query doesn't use $${{__tags}}, so it asks about everything: {cut(query)}"
            yield place.found("ds-link-tags", message)


def _exemplars(source: Source, known: list[Source]) -> Iterator[Finding]:
    data = source.place.value
    options = data.get("jsonData")
    key = "exemplarTraceIdDestinations"
    if not isinstance(options, dict) or not options.get(key):
        return
    texts = " ".join(_text(data.get(each)) for each in ("name", "uid", "url", "type")).lower()
    kind = _text(options.get("prometheusType")).lower()
    if re.search(r"victoria|vmselect|vmsingle|\bvm\b|:8428|:8481", texts) or "victoria" in kind:
        message = "VictoriaMetrics stores no exemplars: leave this out, and link panels to traces by a data link."
        yield (source.place / "jsonData" / key).found("exemplars", message)


def _dollars(source: Source) -> Iterator[Finding]:
    """A ``$`` that Grafana would take for an environment variable."""
    for place, text in _texts(source.place):
        bare = _EXPANDED.sub("", text)
        match = _DOLLAR.search(bare)
        if match:
            message = (
                f"{_path(place)}: write ${match[0]} for {match[0]}, which Grafana replaces with the environment's."
            )
            yield place.found("ds-dollar", message)


def _texts(place: Place) -> Iterator[tuple[Place, str]]:
    data = place.value
    if isinstance(data, str):
        yield place, data
    elif isinstance(data, dict):
        for key in data:
            yield from _texts(place / key)
    elif isinstance(data, list):
        for index in range(len(data)):
            yield from _texts(place / index)


def _secrets(source: Source) -> Iterator[Finding]:
    data = source.place.value.get("secureJsonData")
    for key, value in data.items() if isinstance(data, dict) else ():
        if isinstance(value, str) and value and not _EXPANDED.search(value) and not _is_tenant(source, key):
            message = f"secureJsonData.{key} stands here in clear: take ${{ENV}} or $__file{{…}}."
            yield (source.place / "secureJsonData" / key).found("ds-secret", message)


def _is_tenant(source: Source, key: str) -> bool:
    """Whether the value belongs to X-Scope-OrgID, which names a tenant and opens nothing."""
    options = source.place.value.get("jsonData")
    header = options.get(key.replace("Value", "Name")) if isinstance(options, dict) else None
    return isinstance(header, str) and header.lower() == "x-scope-orgid"


def _url(source: Source) -> Iterator[Finding]:
    url = _text(source.place.value.get("url"))
    path = urlsplit(url).path.rstrip("/")
    if source.kind == "loki" and path.endswith(_PUSH_PATHS):
        message = f"Grafana asks Loki below its root: leave {path} out of the url, or every query is answered 404."
        yield (source.place / "url").found("loki-path", message)


def _twice(known: list[Source]) -> Iterator[Finding]:
    names: dict[tuple[int, str], Source] = {}
    uids: dict[tuple[int, str], Source] = {}
    defaults: dict[int, Source] = {}
    for source in known:
        first = names.setdefault((source.org, source.name), source)
        if first is not source:
            yield source.place.found("ds-duplicate", f"The name stands also in {_where(first)}.")
        if source.uid:
            first = uids.setdefault((source.org, source.uid), source)
            if first is not source:
                message = f"The uid {source.uid!r} is also that of {first.name!r} in {_where(first)}."
                yield source.place.found("ds-duplicate", message)
        if source.default:
            first = defaults.setdefault(source.org, source)
            if first is not source:
                message = f"{first.name!r} in {_where(first)} is the default already: keep one isDefault."
                yield source.place.found("ds-default", message)


def _where(source: Source) -> str:
    return f"{source.place.document.file}:{source.place.document.line(source.place.path)}"


def _organisation(data: Mapping[str, Any]) -> int:
    org = data.get("orgId")
    return org if isinstance(org, int) else 1


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
