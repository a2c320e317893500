"""Rules on one dashboard: those of grafana/dashboard-linter 0.2 that look at its variables, panels and queries.

A rule that they have and we read otherwise says so. Whether a query can be parsed, and what is in it, is asked in
``expressions``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from telemetry.grafana.lint import promql
from telemetry.grafana.lint.boards import DATA_KINDS, Board, Panel, Source, Target, Variable
from telemetry.grafana.lint.expressions import Asked, World
from telemetry.grafana.lint.expressions import lint as lint_query
from telemetry.grafana.lint.findings import Finding, cut, names
from telemetry.grafana.lint.names import problems
from telemetry.grafana.lint.units import is_unit
from telemetry.grafana.lint.variables import MACROS, PLACE, RATE_INTERVAL
from telemetry.grafana.lint.variables import names as variables_in

_SPECIAL: Final = frozenset({"-- Grafana --", "-- Mixed --", "-- Dashboard --", "grafana", "mixed", "__expr__"})
"""Datasources that every Grafana has; a panel on them needs no variable."""
_BUILT_IN: Final = frozenset(MACROS) | frozenset(
    "__name __org __user __dashboard __timeFilter timeFilter __url_time_range __all_variables __searchFilter".split()
)
_PROMETHEUS_QUERY = re.compile(r"^\s*(label_names|label_values|metrics|query_result)\((.*)\)\s*$", re.DOTALL)
_SERIES_OF = re.compile(r"^(?P<series>.*),\s*(?P<label>[\w.$:{}]+)\s*$", re.DOTALL)


def lint(board: Board, world: World) -> Iterator[Finding]:
    """All findings about one dashboard that need no other file."""
    yield from _datasource_variables(board)
    for name in ("job", "instance"):
        yield from _standard_variable(board, name)
    for variable in board.variables:
        yield from _variable(board, variable, world)
    if board.editable:
        yield board.place.found("uneditable-dashboard", "Set `editable` to false: the file is what counts.")
    for panel in board.panels:
        if panel.kind != "row" and not panel.library:
            yield from _panel(board, panel)
            for target in panel.targets:
                yield from _target(board, panel, target, world)


def _main_kind(board: Board) -> str:
    """The type of the first datasource variable: upstream takes a dashboard for one of it."""
    return next(iter(board.sources.values()), "")


def _datasource_variables(board: Board) -> Iterator[Finding]:
    variables = [variable for variable in board.variables if variable.kind == "datasource"]
    if not variables:
        yield board.place.found("template-datasource-rule", "Add a datasource variable named `datasource`.")
    for variable in variables:
        kind = variable.query.lower()
        allowed = {f"{kind}_datasource", *(["datasource"] if len(variables) == 1 else [])}
        labels = {f"{kind} data source", *(["data source"] if len(variables) == 1 else [])}
        if variable.name not in allowed:
            message = f"The datasource variable {variable.name!r} should be named {' or '.join(sorted(allowed))}."
            yield variable.place.found("template-datasource-rule", message)
        if variable.label.lower() not in labels:
            message = f"The variable {variable.name!r} should be labelled {' or '.join(sorted(labels)).capitalize()!r}."
            yield variable.place.found("template-datasource-rule", message, "notice")


def _standard_variable(board: Board, name: str) -> Iterator[Finding]:
    if _main_kind(board) != "prometheus":
        return
    rule = f"template-{name}-rule"
    variable = next((each for each in board.variables if each.name == name), None)
    if variable is None:
        yield board.place.found(rule, f"Add a variable `{name}` with label_values(…, {name}).")
        return
    found = variable.place.found
    if _variable_of(variable.source) not in board.sources:
        yield found(rule, f"The variable {name!r} should use a datasource variable, not {variable.source.uid!r}.")
    if variable.kind != "query":
        yield found(rule, f"The variable {name!r} should be a query, not {variable.kind!r}.")
    if variable.label != name.capitalize():
        yield found(rule, f"The variable {name!r} should be labelled {name.capitalize()!r}.", "notice")
    if not variable.multi:
        yield found(rule, f"The variable {name!r} should let several be chosen (`multi`).")
    if variable.all_value != ".+":
        yield found(rule, f"All values of {name!r} should be `.+` (`allValue`), not {variable.all_value!r}.")


def _variable_of(source: Source) -> str:
    match = PLACE.fullmatch(source.uid)
    return (match["braced"] or match["bare"] or match["old"]) if match else ""


def _variable(board: Board, variable: Variable, world: World) -> Iterator[Finding]:
    if variable.kind != "query":
        return
    found = variable.place.found
    if variable.refresh != 2:
        yield found(
            "template-on-time-change-reload-rule",
            f"The variable {variable.name!r} should refresh when the time range changes (refresh 2).",
        )
    kind = variable.source.kind or board.sources.get(_variable_of(variable.source), "")
    if kind != "prometheus":
        return
    match = _PROMETHEUS_QUERY.match(variable.query)
    if match is None:
        yield found(
            "template-label-promql-rule",
            f"The variable {variable.name!r} should ask label_values(…), label_names(…), metrics(…) or "
            f"query_result(…), not {cut(variable.query)!r}.",
        )
        return
    function, inner = match[1], match[2].strip()
    series = _SERIES_OF.match(inner)
    if function == "label_values" and series is None:
        return  # label_values(label): the label of any series
    if function in {"metrics", "label_names"}:
        return
    text = series["series"] if function == "label_values" and series is not None else inner
    read = promql.read(text, board.defaults)
    if read.tree is None:
        if not read.metricsql:
            message = f"The variable {variable.name!r} asks for no PromQL: {read.problem}. It reads {cut(text)}"
            yield found("template-label-promql-rule", message)
        return
    if function == "label_values" and series is not None:
        grouped = promql.read(f"group by ({series['label']}) ({text})", board.defaults)
        read = grouped if grouped.tree is not None else read
    for problem in problems(read, world.known, world.recorded, world.path, world.rules_given):
        yield found(problem.rule, problem.message, "notice" if problem.notice else None)
    yield from _undefined(board, text, variable)


def _undefined(board: Board, text: str, at: Target | Variable) -> Iterator[Finding]:
    known = {variable.name for variable in board.variables} | _BUILT_IN
    for name in dict.fromkeys(variables_in(text)):
        # Numbers are groups of a regular expression, as in label_replace.
        if name.partition(".")[0] not in known and not name.startswith("__auto_interval") and not name.isdigit():
            yield at.place.found("undefined-variable", f"${name} is no variable of this dashboard.")


def _panel(board: Board, panel: Panel) -> Iterator[Finding]:
    if panel.kind not in DATA_KINDS:
        return
    found = panel.place.found
    if not panel.title or not panel.description:
        missing = names({word for word in ("title", "description") if not getattr(panel, word)})
        yield found("panel-title-description-rule", f"Add what is missing: {missing}.")
    if not panel.targets:
        yield found("panel-no-targets-rule", "Add a query.")
    elif panel.kind not in {"gauge", "stat"} or panel.source.uid:
        yield from _panel_source(board, panel)
    yield from _units(panel)


def _panel_source(board: Board, panel: Panel) -> Iterator[Finding]:
    sources = (
        {panel.source, *(target.source for target in panel.targets)}
        if panel.source.uid
        else {target.source for target in panel.targets}
    )
    for source in sorted(sources, key=lambda each: each.uid):
        if source.uid in _SPECIAL or source.kind in {"__expr__", "datasource"}:
            continue
        if _variable_of(source) not in board.sources:
            named = repr(source.uid) if source.uid else "the default"
            message = f"Take a datasource variable such as ${{datasource}} instead of {named}."
            yield panel.place.found("panel-datasource-rule", message)


def _units(panel: Panel) -> Iterator[Finding]:
    listed = [override.get("properties") for override in panel.overrides]
    settings = [each for few in listed if isinstance(few, list) for each in few if isinstance(each, dict)]
    reduce = panel.options.get("reduceOptions")
    if panel.kind == "stat" and isinstance(reduce, dict) and reduce.get("fields"):
        return  # shows texts, not numbers
    if panel.field.get("mappings") or any(each.get("id") == "mappings" and each.get("value") for each in settings):
        return
    own = panel.field.get("unit")
    given = [each.get("value") for each in settings if each.get("id") == "unit"]
    units = [unit for unit in [own, *given] if unit]
    if not units:
        yield panel.place.found("panel-units-rule", "Say what the numbers count (fieldConfig.defaults.unit).")
    for unit in units:
        if not isinstance(unit, str) or not is_unit(unit):
            yield panel.place.found(
                "panel-units-rule", f"Grafana knows no unit {unit!r}; one of your own is `suffix: {unit}`."
            )


def _target(board: Board, panel: Panel, target: Target, world: World) -> Iterator[Finding]:
    if target.hidden:
        return
    if not target.expression and target.panel:
        if all(other.id != target.panel for other in board.panels):
            rule = "target-logql-rule" if target.language == "logql" else "target-promql-rule"
            yield target.place.found(rule, f"Panel {target.panel}, whose answer is taken, doesn't exist.")
        return
    if not target.expression.strip() and target.language in {"promql", "logql"}:
        yield target.place.found(f"target-{target.language}-rule", "The query is empty: write one, or take it out.")
        return
    asked = Asked(target.expression, target.language, target.place, True, target.instant, board.defaults)
    yield from lint_query(asked, world)
    yield from _undefined(board, target.expression, target)
    if target.language == "promql":
        yield from _promql(board, target)
    if target.exemplar:
        yield target.place.found("exemplars", "VictoriaMetrics stores no exemplars: set `exemplar` to false.", "notice")


def _promql(board: Board, target: Target) -> Iterator[Finding]:
    read = promql.read(target.expression, board.defaults)
    found = target.place.found
    for selector in read.selectors():
        call = promql.function(selector.around[-1]) if selector.around else ""
        if selector.range is None or call not in {"rate", "irate"}:
            continue
        if f"{selector.range.total_seconds() * 1000:.0f}ms" != RATE_INTERVAL:
            yield found("target-rate-interval-rule", f"{call} takes [$__rate_interval] in a panel.")
            break
    if _main_kind(board) != "prometheus":
        return
    for name in ("job", "instance"):
        for selector in read.selectors():
            problem = _without(selector, name)
            if problem:
                yield found(f"target-{name}-rule", f"{selector.metric or 'A selector'} {problem}.")
                break


def _without(selector: promql.Selector, name: str) -> str:
    """What a selector lacks to follow the variable ``name``; empty when it follows.

    Upstream wants ``=~"$job"`` to the letter; the longer spellings of the same variable are right as well.
    """
    matchers = [matcher for matcher in selector.matchers if matcher.name == name]
    spellings = {f"${name}", f"${{{name}}}", f"${{{name}:regex}}", f"${{{name}:pipe}}"}
    if any(matcher.op == "=~" and matcher.value in spellings for matcher in matchers):
        return ""
    if not matchers:
        return f'lacks {name}=~"${name}"'
    return f'has {name}{matchers[0].op}"{matchers[0].value}" instead of {name}=~"${name}"'
