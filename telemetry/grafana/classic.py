"""A dashboard record as Grafana's classic JSON, the same bytes each time.

The shape is that of ``Dashboard`` in npm's ``@grafana/schema`` 13 (schemaVersion 42), which the committed files are
type-checked against, each panel's options against its panel type's own. Everything that Grafana would fill in by
itself is written out where that changes what is seen; nothing is left to a default of a library.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from telemetry.grafana.records import (
    SOURCES,
    Column,
    Dashboard,
    Explore,
    Link,
    Meaning,
    Panel,
    Query,
    Row,
    Source,
    Step,
    Variable,
)

SCHEMA_VERSION: Final = 42
PLUGIN_VERSION: Final = "13.2.2"
"""Grafana migrates the options of a panel that says an older version, or none."""

FOLDER: Final = Path(__file__).with_name("dashboards")
TAG: Final = "fleetglass"
"""All our dashboards have it: the links at the top of each lead to those that do."""

TYPES: Final[dict[Source, str]] = {"metrics": "prometheus", "logs": "loki", "traces": "tempo"}

_COLUMNS = 24
_ROW_HEIGHT = 1
_FIRST_ROW_ID = 1001
_HEIGHTS = {"stat": 4, "timeseries": 8, "states": 8, "table": 8, "logs": 9, "traces": 9}
_TYPES = {"traces": "table", "states": "state-timeline"}
_LINES = 200
_TRACES = 20
_PLACE = re.compile(r"(\$\{[^}]*\})")
_TIMES = frozenset({"${__from}", "${__to}"})

JSON = dict[str, Any]


def write(dashboards: Iterable[Dashboard], folder: Path = FOLDER) -> list[Path]:
    """Write the file of each of ``dashboards`` into ``folder``, and take away those of others; the paths."""
    folder.mkdir(exist_ok=True)
    written = {folder / f"{dashboard.uid}.json": text(dashboard) for dashboard in dashboards}
    for path, content in written.items():
        path.write_text(content, encoding="utf-8")
    for stale in set(folder.glob("*.json")) - set(written):
        stale.unlink()
    return sorted(written)


def text(dashboard: Dashboard) -> str:
    """The file of ``dashboard``: keys in order of name, two blanks deep, a line end last."""
    return json.dumps(model(dashboard), ensure_ascii=False, indent=2, sort_keys=True) + "\n"


def model(dashboard: Dashboard) -> JSON:
    """``dashboard`` as classic JSON."""
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": dashboard.description,
        "tags": list(dashboard.tags),
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": False,  # what is edited by hand would be lost at the next release
        "graphTooltip": 1,
        "timezone": "browser",
        "time": {"from": f"now-{dashboard.span}", "to": "now"},
        "refresh": "1m",
        "links": [_siblings()],
        "annotations": {"list": []},
        "templating": {"list": [_variable(variable) for variable in dashboard.variables]},
        "panels": list(_laid_out(dashboard)),
    }


def _siblings() -> JSON:
    """The menu of our other dashboards, which keeps what the reader chose."""
    return {
        "type": "dashboards",
        "title": "Fleetglass",
        "tags": [TAG],
        "asDropdown": True,
        "includeVars": True,
        "keepTime": True,
        "targetBlank": False,
        "icon": "external link",
        "tooltip": "The other dashboards, over the same time and with the same choices",
        "url": "",
    }


def _variable(variable: Variable) -> JSON:
    common: JSON = {"name": variable.name, "label": variable.title, "hide": 0, "skipUrlSync": False}
    if variable.kind == "datasource":
        return {
            **common,
            "type": "datasource",
            "query": variable.choices,
            "regex": "",
            "refresh": 1,
            "multi": False,
            "includeAll": False,
            "options": [],
        }
    if variable.kind == "text":
        chosen = {"text": variable.default, "value": variable.default, "selected": True}
        return {**common, "type": "textbox", "query": variable.default, "current": chosen, "options": [chosen]}
    return {
        **common,
        "type": "query",
        "datasource": _source("metrics"),
        "query": {"query": f"label_values({variable.choices})", "refId": variable.name},
        "regex": "",
        "refresh": 2,  # a service of this hour only is offered while this hour is shown
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": variable.default or ".+",
        "current": {"text": ["All"], "value": ["$__all"], "selected": True},
        "options": [],
    }


def _source(source: Source) -> JSON:
    return {"type": TYPES[source], "uid": f"${{{source}}}"}


# --- layout


def _laid_out(dashboard: Dashboard) -> Iterator[JSON]:
    """Rows and panels from the top down; the panels of a collapsed row lie within it."""
    top = 0
    for row_id, row in enumerate(dashboard.rows, _FIRST_ROW_ID):
        placed, end = _placed(row, top + _ROW_HEIGHT)
        heading: JSON = {
            "type": "row",
            "id": row_id,
            "title": row.title,
            "collapsed": row.collapsed,
            "gridPos": {"x": 0, "y": top, "w": _COLUMNS, "h": _ROW_HEIGHT},
            "panels": placed if row.collapsed else [],
        }
        yield heading
        if row.collapsed:
            top += _ROW_HEIGHT
        else:
            yield from placed
            top = end


def _placed(row: Row, top: int) -> tuple[list[JSON], int]:
    """The panels of ``row`` from left to right, and where the next row begins; a line is as high as its highest."""
    placed: list[JSON] = []
    x, y, line = 0, top, 0
    for panel in row.panels:
        height = panel.height or _HEIGHTS[panel.kind]
        if x + panel.width > _COLUMNS:
            x, y, line = 0, y + line, 0
        placed.append({**_panel(panel), "gridPos": {"x": x, "y": y, "w": panel.width, "h": height}})
        x, line = x + panel.width, max(line, height)
    return placed, y + line


# --- panels


def _panel(panel: Panel) -> JSON:
    made: JSON = {
        "id": panel.id,
        "type": _TYPES.get(panel.kind, panel.kind),
        "title": panel.title,
        "description": panel.description,
        "pluginVersion": PLUGIN_VERSION,
        "datasource": _source(panel.source),
        "targets": [
            _target(query, ref, table=panel.kind == "table") for query, ref in zip(panel.queries, _refs(), strict=False)
        ],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": list(_overrides(panel))},
        "options": _OPTIONS[panel.kind](panel),
    }
    if panel.kind == "table":
        made["transformations"] = list(_transformations(panel))
    return made


def _refs() -> Iterator[str]:
    return (chr(ord("A") + number) for number in range(26))


def _target(query: Query, ref: str, *, table: bool) -> JSON:
    """``table``: labels are to be columns. Elsewhere each series stays one, so that a stat shows them all."""
    common: JSON = {"refId": ref, "datasource": _source(SOURCES[query.language])}
    instant = query.shape == "table"
    if query.language == "promql":
        return {
            **common,
            "expr": query.expression,
            "legendFormat": query.legend or "__auto",
            "format": "table" if table else "time_series",
            "instant": instant,
            "range": not instant,
            "editorMode": "code",
        }
    if query.language == "logql":
        made = {
            **common,
            "expr": query.expression,
            "queryType": "instant" if instant else "range",
            "editorMode": "code",
        }
        if query.shape == "lines":
            return {**made, "maxLines": _LINES}
        return {**made, "legendFormat": query.legend}
    return {
        **common,
        "query": query.expression,
        "queryType": "traceql",
        "tableType": "traces",
        "limit": _TRACES,
        "spss": 3,
        "filters": [],
    }


def _defaults(panel: Panel) -> JSON:
    made: JSON = {
        "unit": panel.unit,
        "noValue": panel.no_value,
        "mappings": _mappings(panel.meanings),
        "thresholds": _thresholds(panel.steps),
        "color": {"mode": "thresholds" if panel.kind != "timeseries" else "palette-classic"},
        "links": [_link(link) for link in panel.links],
    }
    for key, value in (("decimals", panel.decimals), ("min", panel.least), ("max", panel.most)):
        if value is not None and panel.kind in {"stat", "timeseries"}:
            made[key] = value
    if panel.kind == "timeseries":
        made["custom"] = _curve(panel)
    if panel.kind == "states":
        made["custom"] = _bands()
    if panel.kind in {"table", "traces"}:
        made["custom"] = {"align": "auto", "cellOptions": {"type": "auto"}, "inspect": False}
    return made


def _mappings(meanings: tuple[Meaning, ...]) -> list[JSON]:
    if not meanings:
        return []
    options = {
        meaning.value: {"text": meaning.text, "color": meaning.colour, "index": index}
        for index, meaning in enumerate(meanings)
    }
    return [{"type": "value", "options": options}]


def _thresholds(steps: tuple[Step, ...]) -> JSON:
    """No steps: the value is written in the colour of text."""
    return {
        "mode": "absolute",
        "steps": [{"color": step.colour, "value": step.at} for step in steps or (Step("text"),)],
    }


def _curve(panel: Panel) -> JSON:
    """How series are drawn: gaps stay gaps, since a source that was away did not report the value before it."""
    made: JSON = {
        "drawStyle": "line",
        "lineInterpolation": "linear",
        "lineWidth": 1,
        "fillOpacity": 20 if panel.stacked else 0,
        "gradientMode": "none",
        "showPoints": "auto",
        "pointSize": 4,
        "spanNulls": False,
        "insertNulls": False,
        "axisPlacement": "auto",
        "axisLabel": "",
        "axisBorderShow": False,
        "axisCenteredZero": False,
        "axisColorMode": "text",
        "barAlignment": 0,
        "scaleDistribution": {"type": "linear"},
        "stacking": {"group": "A", "mode": "normal" if panel.stacked else "none"},
        "hideFrom": {"legend": False, "tooltip": False, "viz": False},
        "thresholdsStyle": {"mode": "line" if panel.steps else "off"},
    }
    return made if panel.reach is None else {**made, "axisSoftMax": panel.reach}


def _bands() -> JSON:
    """How states are drawn; where nothing was reported there is a gap."""
    return {
        "fillOpacity": 75,
        "lineWidth": 0,
        "axisPlacement": "auto",
        "hideFrom": {"legend": False, "tooltip": False, "viz": False},
    }


def _stat_options(panel: Panel) -> JSON:
    return {
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "orientation": "auto",
        "colorMode": "background" if panel.steps or panel.meanings else "none",
        "graphMode": "none",
        "justifyMode": "auto",
        "textMode": "auto",
        "wideLayout": True,
        "showPercentChange": False,
        "percentChangeColorMode": "standard",
    }


def _timeseries_options(_: Panel) -> JSON:
    return {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
        "tooltip": {"mode": "multi", "sort": "desc", "hideZeros": False},
    }


def _states_options(_: Panel) -> JSON:
    return {
        "alignValue": "left",
        "mergeValues": True,
        "rowHeight": 0.9,
        "showValue": "auto",
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
        "tooltip": {"mode": "single", "sort": "none", "hideZeros": False},
    }


def _table_options(panel: Panel) -> JSON:
    return {
        "frameIndex": 0,
        "showHeader": True,
        "cellHeight": "sm",
        "sortBy": [{"displayName": panel.sorted_by, "desc": True}] if panel.sorted_by else [],
    }


def _logs_options(_: Panel) -> JSON:
    return {
        "dedupStrategy": "none",
        "enableLogDetails": True,
        "enableInfiniteScrolling": False,
        "prettifyLogMessage": False,
        "showCommonLabels": False,
        "showLabels": False,
        "showLogContextToggle": False,
        "showTime": True,
        "sortOrder": "Descending",
        "wrapLogMessage": True,
    }


_OPTIONS: Final = {
    "stat": _stat_options,
    "timeseries": _timeseries_options,
    "states": _states_options,
    "table": _table_options,
    "traces": _table_options,
    "logs": _logs_options,
}


# --- tables


def _value_fields(panel: Panel) -> dict[str, str]:
    """The field that each query's values come in, by the query's name.

    Grafana calls it *Value #A* after the query, for Loki always, for Prometheus where there are several; a single
    one's is *Value*.
    """
    single = len(panel.queries) == 1 and panel.source == "metrics"
    return {
        query.name: "Value" if single else f"Value #{ref}" for query, ref in zip(panel.queries, _refs(), strict=False)
    }


def _transformations(panel: Panel) -> Iterator[JSON]:
    """Several queries become one row for each set of labels; columns are chosen, ordered and named."""
    if len(panel.queries) > 1:
        yield {"id": "merge", "options": {}}
    values = _value_fields(panel)
    fields = [values.get(column.field, column.field) for column in panel.columns]
    yield {
        "id": "filterFieldsByName",
        "options": {"include": {"names": fields}},
    }
    yield {
        "id": "organize",
        "options": {
            "excludeByName": {},
            "includeByName": {},
            "indexByName": {field: index for index, field in enumerate(fields)},
            "renameByName": dict(zip(fields, (column.title for column in panel.columns), strict=True)),
        },
    }


def _overrides(panel: Panel) -> Iterator[JSON]:
    for column in panel.columns:
        properties = list(_properties(column))
        if properties:
            yield {"matcher": {"id": "byName", "options": column.title}, "properties": properties}


def _properties(column: Column) -> Iterator[JSON]:
    if column.unit:
        yield {"id": "unit", "value": column.unit}
    if column.decimals is not None:
        yield {"id": "decimals", "value": column.decimals}
    if column.steps:
        yield {"id": "thresholds", "value": _thresholds(column.steps)}
        yield {"id": "custom.cellOptions", "value": {"type": "color-text"}}
    if column.meanings:
        yield {"id": "mappings", "value": _mappings(column.meanings)}
        yield {"id": "custom.cellOptions", "value": {"type": "color-text"}}
    if column.links:
        yield {"id": "links", "value": [_link(link) for link in column.links]}


# --- links


def _link(link: Link) -> JSON:
    address = _explore(link) if isinstance(link, Explore) else _dashboard(link.uid, link.values)
    return {"title": link.title, "url": address, "targetBlank": False}


def _dashboard(uid: str, values: Mapping[str, str]) -> str:
    chosen = "".join(f"&var-{name}={_encoded(value)}" for name, value in values.items())
    return f"/d/{uid}?${{__url_time_range}}{chosen}"


def _explore(link: Explore) -> str:
    """Explore's address: its panes as JSON (``schemaVersion`` 1), over the time that the dashboard shows."""
    source = _source(link.source)
    query: JSON = {"refId": "A", "datasource": source}
    if link.source == "traces":
        query |= {"queryType": "traceql", "query": link.expression}
    else:
        query |= {"expr": link.expression}
    pane = {
        "datasource": source["uid"],
        "queries": [query],
        "range": {"from": "${__from}", "to": "${__to}"},
    }
    panes = json.dumps({"a": pane}, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return f"/explore?schemaVersion=1&panes={_encoded(panes)}"


def _encoded(value: str) -> str:
    """``value`` percent-encoded; what ``${…}`` stands for is encoded where Grafana fills it in.

    Without a format Grafana encodes values as a whole address: a plus stays, and means a blank to whoever reads it.
    """

    def part(number: int, piece: str) -> str:
        if not number % 2:
            return quote(piece, safe="")
        return piece if piece in _TIMES else f"{piece[:-1]}:percentencode}}"

    return "".join(part(number, piece) for number, piece in enumerate(_PLACE.split(value)))
