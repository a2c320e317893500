"""Rules on a single query, wherever it stands: a panel, a variable, an alert, a recording rule."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from telemetry.grafana.lint import logql, logqltree, promql, traceql
from telemetry.grafana.lint.boards import Language
from telemetry.grafana.lint.documents import Place
from telemetry.grafana.lint.findings import Finding, Level, cut, names
from telemetry.grafana.lint.names import Catalogue, MetricsPath, problems

IDS: Final = frozenset(
    """
    trace_id traceid traceID span_id spanid request_id email user_id session session_id fp fingerprint message stack
    """.split()
)
"""Labels whose values have no end, wherever they stand."""
ENDLESS: Final = IDS | frozenset("username workspace url uri path page query ip client_ip remote_addr".split())
"""Fields of a line whose values have no end; as a label of a metric, some exporters have few of them."""
_BOUNDING = re.compile(r"\b(\w+)=\"?[^\"]")


class World(msgspec.Struct, frozen=True):
    """What queries are held against: known metrics, the path that they take, and names recorded by rules at hand."""

    known: Catalogue
    path: MetricsPath = "scrape"
    recorded: frozenset[str] = frozenset()
    rules_given: bool = False


class Asked(msgspec.Struct, frozen=True):
    """A query and what it stands in. ``defaults`` are values of a dashboard's variables by name."""

    text: str
    language: Language
    place: Place
    in_panel: bool
    instant: bool
    defaults: dict[str, str] = {}


def lint(asked: Asked, world: World) -> Iterator[Finding]:
    """All that is wrong with one query."""
    if not asked.text.strip():
        return
    if asked.language == "promql":
        yield from _promql(asked, world)
    elif asked.language == "logql":
        yield from _logql(asked)
    elif asked.language == "traceql":
        problem = traceql.problem(asked.text)
        if problem:
            yield asked.place.found("traceql-syntax", f"This is not TraceQL: {problem}. It reads {cut(asked.text)}")


def _promql(asked: Asked, world: World) -> Iterator[Finding]:
    read = promql.read(asked.text, asked.defaults)
    found = asked.place.found
    if read.tree is None:
        if read.metricsql:
            message = f"Only VictoriaMetrics understands this, so that lint can't read it: {cut(asked.text)}"
            yield found("metricsql-only", message)
        else:
            rule = "target-promql-rule" if asked.in_panel else "rule-expression"
            yield found(rule, f"This is not PromQL: {read.problem}. It reads {cut(asked.text)}")
        return
    yield from _shared(asked, promql.has_vector_zero(read), promql.top_series(read))
    if promql.quantiles_without_le(read):
        yield found("quantile-le", "histogram_quantile is given buckets without `le`: add le to what is grouped by.")
    if promql.averages_percentiles(read):
        yield found(
            "average-of-percentiles", "Percentiles are averaged or summed: sum the buckets by le, then ask for one."
        )
    if promql.unsafe_ratio(read):
        yield found("ratio-zero-safe", f"What is divided by may be 0: put `> 0` behind it. It reads {cut(asked.text)}")
    for counter in dict.fromkeys(promql.raw_counters(read)):
        yield found("target-counter-agg-rule", f"The counter {counter} is not in rate, irate or increase.")
    for node, _ in read.nodes():
        endless = ENDLESS & set(promql.grouped_by(node) or ())
        if endless:
            message = f"Grouped by {names(endless)}, which has values without end."
            yield found("unbounded-by", message, None if endless & IDS else "notice")
    for problem in problems(read, world.known, world.recorded, world.path, world.rules_given):
        level: Level | None = "notice" if problem.notice else None
        yield found(problem.rule, problem.message, level)


def _shared(asked: Asked, zero: bool, top: str) -> Iterator[Finding]:
    if zero:
        yield asked.place.found(
            "vector-zero",
            "`or vector(0)` shows 0 for a source that is dead. Let noValue say it, or take `or 0 * sum by (job) (up)`.",
        )
    if top and not asked.instant:
        yield asked.place.found(
            "topk-range",
            f"{top} in a range query takes others at every step: make it instant, or leave it out.",
        )


def _logql(asked: Asked) -> Iterator[Finding]:
    read = logql.read(asked.text)
    found = asked.place.found
    if read.tree is None:
        rule = "target-logql-rule" if asked.in_panel else "rule-expression"
        yield found(rule, f"This is not LogQL: {read.problem}. It reads {cut(asked.text)}")
        return
    zero = any(
        isinstance(node, logqltree.Pair)
        and node.op == "or"
        and isinstance(node.right, logqltree.Constant)
        and node.right.text.startswith("vector(")
        for node, _ in read.nodes()
    )
    calls = [node.name for node, _ in read.nodes() if isinstance(node, logqltree.Call)]
    yield from _shared(asked, zero, next((name for name in calls if name in {"topk", "bottomk", "approx_topk"}), ""))
    yield from _ranges(asked, read)
    yield from _stages(asked, read)
    for node, _ in read.nodes():
        if isinstance(node, logqltree.Call) and node.by:
            endless = ENDLESS & set(node.by)
            if endless and not all(_is_bounded(lines) for lines in _lines_below(node)):
                yield found(
                    "unbounded-by",
                    f"Grouped by {names(endless)}, which has values without end, and Loki answers more than 500 "
                    'series with an error: filter by one workspace or fp first (`| workspace="…"`).',
                )


def _lines_below(node: logqltree.Node) -> list[logqltree.Lines]:
    return list(logqltree.Logql("", node).queries())


def _is_bounded(lines: logqltree.Lines) -> bool:
    """Whether lines are of one workspace, person or error: by a filter of a label, or of the text ``fp="…``."""
    for stage in lines.stages:
        if any(matcher.op in {"=", "=="} and matcher.name in ENDLESS for matcher in stage.filters):
            return True
        if stage.kind == "|=" and any(
            match[1] in ENDLESS for word in stage.words for match in _BOUNDING.finditer(word)
        ):
            return True
    return False


def _ranges(asked: Asked, read: logqltree.Logql) -> Iterator[Finding]:
    if not asked.in_panel:
        return
    for lines in read.queries():
        legal = {"$__auto", "${__auto}"} | ({"$__range", "${__range}"} if asked.instant else set())
        if lines.range and lines.range not in legal:
            yield asked.place.found(
                "target-logql-auto-rule", f"The range [{lines.range}] doesn't follow the page: write [$__auto]."
            )
            return


def _stages(asked: Asked, read: logqltree.Logql) -> Iterator[Finding]:
    found = asked.place.found
    for lines in read.queries():
        endless = {matcher.name for matcher in lines.matchers} & ENDLESS
        if endless:
            yield found(
                "stream-label",
                f"{names(endless)} is no label of a stream but a field of the line: filter for it after `| logfmt`.",
            )
        kinds = [stage.kind for stage in lines.stages]
        for stage in lines.stages:
            keys = [word for word in stage.words if not word.startswith("--")]
            if stage.kind == "logfmt" and len(keys) > 1:
                written = f"`| logfmt {', '.join(keys)}`"
                if read.is_metric:
                    yield found("logfmt-keys", f"{written} finds only the key that comes first: write `| logfmt`.")
                else:
                    yield found(
                        "logfmt-keys",
                        f"{written} takes the last of a key that stands twice, `| logfmt` the first: a forged field "
                        "may win.",
                        "notice",
                    )
        if "unwrap" in kinds and "keep" not in kinds[: kinds.index("unwrap")]:
            yield found("unwrap-keep", "Put `| keep` with the labels that matter before `| unwrap`.")
        ours = any(stage.kind == "|=" and "frontend-error" in stage.words for stage in lines.stages)
        if ours and "logfmt" in kinds and not any(m.name == "logger" for stage in lines.stages for m in stage.filters):
            strict = any("--strict" in stage.words for stage in lines.stages)
            if not strict:
                yield found("frontend-logger", 'Add `| logger="frontend"` after `| logfmt`.')
