"""Dashboards of any form as one: classic JSON, V1 resource (classic in ``spec``), V2 resource.

Only what rules ask about is kept. What is missing or of the wrong type becomes empty here; whether that matters is for
the rules to say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from telemetry.grafana.lint.documents import Place

Form = Literal["classic", "v1", "v2"]
Language = Literal["promql", "logql", "traceql", "other"]

LANGUAGES: Mapping[str, Language] = {"prometheus": "promql", "loki": "logql", "tempo": "traceql"}
"""The query language of a datasource's type."""

DATA_KINDS = frozenset("stat gauge bargauge timeseries graph table singlestat state-timeline heatmap piechart".split())
"""Types of panels that show numbers; upstream asks of them for units, titles and queries."""


class Source(msgspec.Struct, frozen=True):
    """A datasource as named: uid or variable, and type. ``text`` says that it was only a string."""

    uid: str = ""
    kind: str = ""
    text: bool = False


class Target(msgspec.Struct, frozen=True):
    """A query of a panel. ``panel`` is the id of another panel whose answer it takes."""

    ref: str
    expression: str
    source: Source
    language: Language
    place: Place
    hidden: bool = False
    instant: bool = False
    exemplar: bool = False
    legend: str = ""
    panel: int = 0


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    """A panel; ``grid`` is x, y, width and height, None where unknown, ``folded`` in a collapsed row."""

    id: int | None
    title: str
    description: str
    kind: str
    source: Source
    targets: tuple[Target, ...]
    grid: tuple[int, int, int, int] | None
    folded: bool
    field: Mapping[str, Any]
    overrides: tuple[Mapping[str, Any], ...]
    options: Mapping[str, Any]
    links: tuple[Place, ...]
    library: bool
    place: Place

    @property
    def name(self) -> str:
        """How findings name it."""
        return f"panel {self.id} {self.title!r}" if self.id is not None else f"panel {self.title!r}"


class Variable(msgspec.Struct, frozen=True, kw_only=True):
    """A variable; ``refresh`` counts as in classic JSON: 2 is on a change of the time range."""

    name: str
    label: str
    kind: str
    query: str
    source: Source
    multi: bool
    all_value: str
    refresh: int
    default: str
    place: Place


class Board(msgspec.Struct, frozen=True, kw_only=True):
    """A dashboard."""

    form: Form
    uid: str
    title: str
    editable: bool
    schema: int
    tags: tuple[str, ...]
    variables: tuple[Variable, ...]
    panels: tuple[Panel, ...]
    links: tuple[Place, ...]
    place: Place

    @property
    def sources(self) -> dict[str, str]:
        """The type of each datasource variable, by name."""
        return {variable.name: variable.query for variable in self.variables if variable.kind == "datasource"}

    @property
    def defaults(self) -> dict[str, str]:
        """The value of each variable as saved, by name."""
        return {variable.name: variable.default for variable in self.variables}


def classic(place: Place, form: Form = "classic", uid: str = "") -> Board:
    """A dashboard in classic JSON at ``place``; ``uid`` when it is named elsewhere, as in a resource's metadata."""
    data = _map(place.value)
    uid = uid or _text(data.get("uid"))
    place = place.named(uid or _text(data.get("title")))
    variables = tuple(_classic_variables(place / "templating" / "list"))
    sources = {variable.name: variable.query for variable in variables if variable.kind == "datasource"}
    return Board(
        form=form,
        uid=uid,
        title=_text(data.get("title")),
        editable=data.get("editable") is not False,
        schema=_number(data.get("schemaVersion")),
        tags=tuple(filter(None, map(_text, _list(data.get("tags"))))),
        variables=variables,
        panels=tuple(_classic_panels(place / "panels", sources)),
        links=tuple(_items(place / "links")),
        place=place,
    )


def _items(place: Place) -> Iterator[Place]:
    return (place / index for index, item in enumerate(_list(place.value)) if isinstance(item, dict))


def _classic_variables(place: Place) -> Iterator[Variable]:
    for item in _items(place):
        data = item.value
        query = data.get("query")
        yield Variable(
            name=_text(data.get("name")),
            label=_text(data.get("label")),
            kind=_text(data.get("type")),
            query=_text(query.get("query") if isinstance(query, dict) else query),
            source=_source(data.get("datasource")),
            multi=data.get("multi") is True,
            all_value=_text(data.get("allValue")),
            refresh=_number(data.get("refresh")),
            default=_default(data),
            place=item,
        )


def _default(data: Mapping[str, Any]) -> str:
    """What is chosen as saved, or else the first choice."""
    chosen = _map(data.get("current")).get("value")
    if chosen in (None, "") and _list(data.get("options")):
        chosen = _map(data["options"][0]).get("value")
    return _text(chosen[0] if isinstance(chosen, list) and chosen else chosen)


def _classic_panels(place: Place, sources: Mapping[str, str], folded: bool = False) -> Iterator[Panel]:
    for item in _items(place):
        data = item.value
        if data.get("type") == "row":
            yield _panel(item, sources, folded=False)
            yield from _classic_panels(item / "panels", sources, folded=True)
        else:
            yield _panel(item, sources, folded=folded)


def _panel(item: Place, sources: Mapping[str, str], *, folded: bool) -> Panel:
    data = item.value
    ident = data.get("id")
    ident = ident if isinstance(ident, int) and not isinstance(ident, bool) else None
    title = _text(data.get("title"))
    item = item.named(f"{item.where}, panel {title!r}" if ident is None else f"{item.where}, panel {ident} {title!r}")
    grid = _map(data.get("gridPos"))
    sides = [grid.get(side) for side in "xywh"]
    own = _source(data.get("datasource"))
    config = _map(data.get("fieldConfig"))
    field = _map(config.get("defaults"))
    links = [*_items(item / "links"), *_items(item / "fieldConfig" / "defaults" / "links")]
    for index, override in enumerate(_list(config.get("overrides"))):
        for at, setting in enumerate(_list(_map(override).get("properties"))):
            if _map(setting).get("id") == "links":
                links += _items(item / "fieldConfig" / "overrides" / index / "properties" / at / "value")
    return Panel(
        id=ident,
        title=title,
        description=_text(data.get("description")),
        kind=_text(data.get("type")),
        source=own,
        targets=tuple(_classic_target(place, own, sources) for place in _items(item / "targets")),
        grid=_grid(sides),
        folded=folded,
        field=field,
        overrides=tuple(filter(None, map(_map, _list(config.get("overrides"))))),
        options=_map(data.get("options")),
        links=tuple(links),
        library="libraryPanel" in data,
        place=item,
    )


def _grid(sides: list[Any]) -> tuple[int, int, int, int] | None:
    if all(isinstance(side, int) and not isinstance(side, bool) for side in sides):
        return (sides[0], sides[1], sides[2], sides[3])
    return None


def _classic_target(place: Place, of_panel: Source, sources: Mapping[str, str]) -> Target:
    data = place.value
    source = _source(data.get("datasource"))
    if not source.uid:
        source = of_panel
    return _target(place, data, source, sources, _text(data.get("refId")), hidden=data.get("hide") is True)


def _target(
    place: Place, data: Mapping[str, Any], source: Source, sources: Mapping[str, str], ref: str, *, hidden: bool
) -> Target:
    """A query from its fields, which are the same in both schemas."""
    named = sources.get(source.uid.strip("${}"), "")
    language = LANGUAGES.get(source.kind or named, "other")
    key = "query" if language == "traceql" else "expr"
    return Target(
        ref=ref,
        expression=_text(data.get(key)),
        source=source,
        language=language,
        place=place / key if key in data else place,
        hidden=hidden,
        instant=(data.get("instant") is True and data.get("range") is not True) or data.get("queryType") == "instant",
        exemplar=data.get("exemplar") is True,
        legend=_text(data.get("legendFormat")),
        panel=_number(data.get("panelId")),
    )


# --- V2: elements and a layout


_REFRESH = {"onTimeRangeChanged": 2, "onDashboardLoad": 1}
_VARIABLE_KINDS = {
    "QueryVariable": "query",
    "DatasourceVariable": "datasource",
    "CustomVariable": "custom",
    "IntervalVariable": "interval",
    "ConstantVariable": "constant",
    "TextVariable": "textbox",
    "AdhocVariable": "adhoc",
    "GroupByVariable": "groupby",
    "SwitchVariable": "switch",
}


def v2(place: Place, uid: str) -> Board:
    """A dashboard of the V2 schema whose spec is at ``place``."""
    data = _map(place.value)
    place = place.named(uid or _text(data.get("title")))
    variables = tuple(_v2_variable(item) for item in _items(place / "variables"))
    sources = {variable.name: variable.query for variable in variables if variable.kind == "datasource"}
    cells = dict(_cells(place / "layout", folded=False))
    return Board(
        form="v2",
        uid=uid,
        title=_text(data.get("title")),
        editable=data.get("editable") is not False,
        schema=0,
        tags=tuple(filter(None, map(_text, _list(data.get("tags"))))),
        variables=variables,
        panels=tuple(
            _v2_panel(place / "elements" / name, sources, cells.get(name, (None, False)))
            for name, element in _map(data.get("elements")).items()
            if isinstance(element, dict)
        ),
        links=tuple(_items(place / "links")),
        place=place,
    )


def _v2_variable(item: Place) -> Variable:
    spec = _map(item.value.get("spec"))
    kind = _VARIABLE_KINDS.get(_text(item.value.get("kind")), "other")
    query = spec.get("query")
    text = query
    source = Source()
    if isinstance(query, dict):  # a DataQuery
        text = _map(query.get("spec")).get("query")
        source = _v2_source(query, spec)
    return Variable(
        name=_text(spec.get("name")),
        label=_text(spec.get("label")),
        kind=kind,
        query=_text(spec.get("pluginId")) if kind == "datasource" else _text(text),
        source=source,
        multi=spec.get("multi") is True,
        all_value=_text(spec.get("allValue")),
        refresh=_REFRESH.get(_text(spec.get("refresh")), 0),
        default=_default(spec),
        place=item / "spec",
    )


def _v2_source(query: Mapping[str, Any], around: Mapping[str, Any]) -> Source:
    """The datasource of a query; v2alpha1 has it beside the query, and the type as the query's kind."""
    source = query.get("datasource", around.get("datasource"))
    kind = _text(query.get("group")) or _text(query.get("kind")).removeprefix("DataQuery")
    if isinstance(source, str):
        return Source(source, kind, True)
    return Source(_text(_map(source).get("name")) or _text(_map(source).get("uid")), kind)


def _v2_panel(item: Place, sources: Mapping[str, str], cell: tuple[tuple[int, int, int, int] | None, bool]) -> Panel:
    spec = _map(item.value.get("spec"))
    ident = spec.get("id")
    ident = ident if isinstance(ident, int) and not isinstance(ident, bool) else None
    title = _text(spec.get("title"))
    item = item.named(f"{item.where}, panel {ident} {title!r}") / "spec"
    visual = _map(spec.get("vizConfig"))
    shown = _map(visual.get("spec"))
    config = _map(shown.get("fieldConfig"))
    targets = tuple(_v2_targets(item / "data" / "spec" / "queries", sources))
    return Panel(
        id=ident,
        title=title,
        description=_text(spec.get("description")),
        kind=_text(visual.get("group")) or _text(visual.get("kind")),
        source=targets[0].source if targets else Source(),
        targets=targets,
        grid=cell[0],
        folded=cell[1],
        field=_map(config.get("defaults")),
        overrides=tuple(filter(None, map(_map, _list(config.get("overrides"))))),
        options=_map(shown.get("options")),
        links=(
            *_items(item / "links"),
            *_items(item / "vizConfig" / "spec" / "fieldConfig" / "defaults" / "links"),
        ),
        library=item.document.at(item.path[:-1]).get("kind") == "LibraryPanel",
        place=item,
    )


def _v2_targets(place: Place, sources: Mapping[str, str]) -> Iterator[Target]:
    for item in _items(place):
        spec = _map(item.value.get("spec"))
        query = _map(spec.get("query"))
        inner = item / "spec" / "query" / "spec"
        fields = _map(query.get("spec"))
        yield _target(
            inner, fields, _v2_source(query, spec), sources, _text(spec.get("refId")), hidden=spec.get("hidden") is True
        )


def _cells(place: Place, *, folded: bool) -> Iterator[tuple[str, tuple[tuple[int, int, int, int] | None, bool]]]:
    """Where each element lies; only grids have places that can overlap, and only within one grid."""
    layout = _map(place.value)
    spec = _map(layout.get("spec"))
    if layout.get("kind") == "GridLayout":
        for item in _list(spec.get("items")):
            cell = _map(_map(item).get("spec"))
            name = _text(_map(cell.get("element")).get("name"))
            yield name, (_grid([cell.get(side) for side in ("x", "y", "width", "height")]), folded)
    for kind in ("rows", "tabs", "items"):
        for item in _items(place / "spec" / kind):
            inner = _map(item.value.get("spec"))
            if "layout" in inner:
                hidden = folded or inner.get("collapse") is True
                yield from (
                    (name, (None, below)) for name, (_, below) in _cells(item / "spec" / "layout", folded=hidden)
                )


# --- values as what they should be


def _map(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _source(value: Any) -> Source:
    if isinstance(value, str):
        return Source(value, "", True)
    return Source(_text(_map(value).get("uid")), _text(_map(value).get("type")))
