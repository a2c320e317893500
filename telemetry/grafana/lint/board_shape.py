"""Rules on one dashboard: its form, where its panels lie, and what makes it quick to read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from telemetry.grafana.lint.boards import Board, Panel
from telemetry.grafana.lint.documents import Place
from telemetry.grafana.lint.findings import Finding, names

UID: Final = re.compile(r"[A-Za-z0-9_-]{1,40}")
_COUNTING: Final = frozenset(
    "short none ops reqps rps wps iops cps pps eps bytes decbytes Bps binBps bps percent percentunit s ms".split()
)
"""Units of counts, shares, sizes and durations, which are never below 0."""
_COLUMNS: Final = 24
_MOST_OPEN: Final = 20


def lint(board: Board) -> Iterator[Finding]:
    """All findings about the shape of one dashboard."""
    yield from _form(board)
    yield from _ids(board)
    yield from _grid(board)
    yield from _first_look(board)
    for panel in board.panels:
        yield from _refs(panel)
        yield from _readable(panel)


def _form(board: Board) -> Iterator[Finding]:
    if not board.uid:
        yield board.place.found("board-uid", "Give the dashboard a `uid`, the same for good.")
    elif not UID.fullmatch(board.uid):
        wrong = f"it has {len(board.uid)}" if len(board.uid) > 40 else f"not {board.uid!r}"
        message = f"A uid has at most 40 letters, digits, - and _; {wrong}."
        yield _at(board.place, "uid").found("board-uid", message)
    data = board.place.value
    if isinstance(data, dict) and data.get("__inputs"):
        yield (board.place / "__inputs").found(
            "board-inputs",
            "This was exported for sharing: provisioned, ${DS_…} stays as it is. Export it without, or replace each by "
            "a datasource variable, and leave out __inputs and __requires.",
        )
    if board.form != "v2" and not 39 <= board.schema <= 42:
        message = f"schemaVersion is {board.schema or 'missing'}; from 39 to 42 is what Grafana 13 reads as it is."
        yield _at(board.place, "schemaVersion").found("board-schema", message)
    if board.form == "v2":
        for panel in board.panels:
            for target in panel.targets:
                if target.source.text:
                    message = f"`datasource` is the string {target.source.uid!r}: write {{name: {target.source.uid}}}."
                    yield target.place.found("v2-datasource-string", message)
        for variable in board.variables:
            if variable.source.text:
                message = f"`datasource` is the string {variable.source.uid!r}: write {{name: {variable.source.uid}}}."
                yield variable.place.found("v2-datasource-string", message)


def _at(place: Place, key: str) -> Place:
    return place / key if isinstance(place.value, dict) and key in place.value else place


def _ids(board: Board) -> Iterator[Finding]:
    counts = Counter(panel.id for panel in board.panels if panel.id)
    for panel in board.panels:
        if panel.library and panel.id is None:
            continue
        if not panel.id:
            yield panel.place.found("panel-id", "Give the panel an `id`: links and images name it.")
        elif counts[panel.id] > 1:
            yield panel.place.found("panel-id", f"{counts[panel.id]} panels have the id {panel.id}.")


def _refs(panel: Panel) -> Iterator[Finding]:
    counts = Counter(target.ref for target in panel.targets if target.ref)
    twice = {ref for ref, count in counts.items() if count > 1}
    if twice:
        yield panel.place.found("panel-ref-ids", f"Several queries have the refId {names(twice)}: the last one wins.")


def _grid(board: Board) -> Iterator[Finding]:
    """Overlaps among open panels, and among those folded into the same row."""
    together: dict[object, list[Panel]] = {}
    for panel in board.panels:
        if panel.grid is None:
            if board.form != "v2" and not panel.library:
                yield panel.place.found("panel-overlap", "Give the panel a gridPos with x, y, w and h.")
            continue
        x, y, width, height = panel.grid
        if x < 0 or y < 0 or width < 1 or height < 1 or x + width > _COLUMNS:
            yield panel.place.found(
                "panel-overlap", f"The panel doesn't lie within {_COLUMNS} columns: {_where(panel)}."
            )
        group = panel.place.path[:-2] if panel.folded else None
        for other in together.setdefault(group, []):
            if _overlap(panel, other):
                message = f"The panel ({_where(panel)}) overlaps {other.name} ({_where(other)})."
                yield panel.place.found("panel-overlap", message)
        together[group].append(panel)


def _where(panel: Panel) -> str:
    assert panel.grid is not None
    return "x {} y {} w {} h {}".format(*panel.grid)


def _overlap(one: Panel, other: Panel) -> bool:
    if one.grid is None or other.grid is None:
        return False
    (x, y, width, height), (left, top, wide, high) = one.grid, other.grid
    return x < left + wide and left < x + width and y < top + high and top < y + height


def _first_look(board: Board) -> Iterator[Finding]:
    shown = [panel for panel in board.panels if not panel.folded and panel.kind not in {"row", "text"}]
    if len(shown) > _MOST_OPEN:
        message = f"{len(shown)} panels are open: fold rows until {_MOST_OPEN} are left."
        yield board.place.found("board-size", message)
    if not shown:
        return
    top = [panel for panel in shown if panel.grid is not None]
    first = [panel for panel in top if top and panel.grid and panel.grid[1] == min(p.grid[1] for p in top if p.grid)]
    stats = [panel for panel in first if panel.kind in {"stat", "gauge", "bargauge", "state-timeline"}]
    if first and not stats:
        yield board.place.found("board-first-row", "Let the first row answer in stats whether it is OK.")
    elif stats and not any(_has_thresholds(panel) for panel in stats):
        yield board.place.found("board-first-row", "Give the stats of the first row thresholds.")


def _has_thresholds(panel: Panel) -> bool:
    thresholds = panel.field.get("thresholds")
    steps = thresholds.get("steps") if isinstance(thresholds, dict) else None
    return (isinstance(steps, list) and len(steps) > 1) or bool(panel.field.get("mappings"))


def _readable(panel: Panel) -> Iterator[Finding]:
    if panel.kind in {"stat", "gauge", "bargauge", "timeseries", "state-timeline", "table"} and panel.targets:
        value = panel.field.get("noValue")
        if not isinstance(value, str) or not value:
            yield panel.place.found("panel-no-value", "Say what stands there when there is nothing (noValue).")
    if panel.kind != "timeseries":
        return
    unit = panel.field.get("unit")
    if isinstance(unit, str) and unit in _COUNTING and "min" not in panel.field:
        yield panel.place.found("panel-min", "Let the axis begin at 0 (`min: 0`).")
    for target in panel.targets:
        if target.language in {"promql", "logql"} and target.legend in {"", "__auto"} and not target.hidden:
            yield target.place.found("panel-legend", "Name the series (legendFormat), such as {{job}}.")
