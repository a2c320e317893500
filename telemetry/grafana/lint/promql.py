"""What a PromQL expression asks for: selectors with what is around them, groups, and the traps among them.

Read by ``promql-parser``, which knows Prometheus 2.45 and not MetricsQL. Nothing is said here about names that exist:
that is ``names.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Final

import msgspec
import promql_parser as parser

from telemetry.grafana.lint.variables import filled

Node = parser.Expr

METRICSQL: Final = frozenset(
    # docs.victoriametrics.com/metricsql: functions that PromQL doesn't have.
    """
    aggr_over_time alias any ascent_over_time bitmap_and bitmap_or bitmap_xor bottomk_avg bottomk_last bottomk_max
    bottomk_median bottomk_min buckets_limit count_eq_over_time count_gt_over_time count_le_over_time
    count_ne_over_time count_values_over_time decreases_over_time default_rollup descent_over_time distinct
    distinct_over_time drop_common_labels drop_empty_series duration_over_time end first_over_time geomean
    geomean_over_time histogram histogram_avg histogram_over_time histogram_share histogram_stddev histogram_stdvar
    hoeffding_bound_lower hoeffding_bound_upper ideriv increase_prometheus increase_pure increases_over_time
    integrate interpolate iqr_over_time keep_last_value keep_next_value label_copy label_del label_graphite_group
    label_keep label_lowercase label_map label_match label_mismatch label_move label_set label_transform
    label_uppercase label_value labels_equal lag lifetime limit_offset limitk_avg mad median median_over_time mode
    mode_over_time now outliers_iqr outliers_iqr_over_time outliers_mad outliersk prometheus_buckets quantiles
    quantiles_over_time rand rand_exponential rand_normal range_avg range_first range_last range_linear_regression
    range_mad range_max range_median range_min range_normalize range_over_time range_quantile range_stddev
    range_stdvar range_sum range_trim_outliers range_trim_spikes range_trim_zscore range_zscore rate_over_sum
    rate_prometheus remove_resets resets_over_time rollup rollup_candlestick rollup_delta rollup_deriv
    rollup_increase rollup_rate rollup_scrape_interval ru running_avg running_max running_min running_sum
    scrape_interval share share_eq_over_time share_gt_over_time share_le_over_time smooth_exponential sort_by_label
    sort_by_label_desc sort_by_label_numeric sort_by_label_numeric_desc stale_samples_over_time start step
    sum2 sum2_over_time sum_eq_over_time sum_gt_over_time sum_le_over_time timezone_offset tlast_over_time
    tmax_over_time tmin_over_time topk_avg topk_last topk_max topk_median topk_min union vmrange zscore
    zscore_over_time
    """.split()
)
_METRICSQL_WORDS = re.compile(r"\b(default|if|ifnot|keep_metric_names)\b|^\s*with\s*\(|\d+i\]|\[\]", re.IGNORECASE)
_ROLLED_UP = re.compile(r"expected type matrix in call|expected type vector .*got matrix|not allowed in binary scalar")

COUNTED: Final = frozenset(
    "rate irate increase resets changes absent absent_over_time present_over_time count_over_time timestamp".split()
)
"""Functions for which a counter's value as it stands doesn't matter."""
_RATES: Final = frozenset({"rate", "irate", "increase"})
_COMPARISONS: Final = frozenset({"==", ">", "<", ">=", "<="})
_PERCENTILE = re.compile(r"(^|[_:])p(50|75|90|95|99|999)([_:]|$)")


class Matcher(msgspec.Struct, frozen=True):
    """A matcher of a selector; ``op`` is one of ``= != =~ !~``."""

    name: str
    op: str
    value: str


class Selector(msgspec.Struct, frozen=True):
    """A selector: metric (empty when only labels are given), matchers, range, the nodes around it, outermost first."""

    metric: str
    matchers: tuple[Matcher, ...]
    range: timedelta | None
    around: tuple[Node, ...]
    node: Node


class Promql(msgspec.Struct, frozen=True):
    """An expression that was read: its tree, or what is wrong with it."""

    text: str
    tree: Node | None
    problem: str = ""
    metricsql: bool = False

    def nodes(self) -> Iterator[tuple[Node, tuple[Node, ...]]]:
        """Every node with those around it, from outside in."""
        return _nodes(self.tree, ()) if self.tree is not None else iter(())

    def selectors(self) -> Iterator[Selector]:
        """Every selector, in reading order."""
        for node, around in self.nodes():
            if isinstance(node, parser.VectorSelector):
                yield _selector(node, around)


def read(text: str, defaults: dict[str, str] | None = None) -> Promql:
    """``text`` as PromQL, with values for Grafana's variables; see ``variables.filled``."""
    expression = filled(text, defaults)
    try:
        return Promql(text, parser.parse(expression))
    except ValueError as error:
        return Promql(text, None, str(error), _is_metricsql(expression, str(error)))


def _is_metricsql(expression: str, problem: str) -> bool:
    bare = re.sub(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'', '""', expression)
    called = set(re.findall(r"\b([a-z_0-9]+)\s*\(", bare))
    return bool(called & METRICSQL or _METRICSQL_WORDS.search(bare) or _ROLLED_UP.search(problem))


def children(node: Node) -> Sequence[Node]:
    """The nodes right below ``node``."""
    if isinstance(node, parser.AggregateExpr):
        return [node.expr, node.param] if isinstance(node.param, parser.Expr) else [node.expr]
    if isinstance(node, parser.BinaryExpr):
        return [node.lhs, node.rhs]
    if isinstance(node, parser.Call):
        return node.args
    if isinstance(node, parser.MatrixSelector):
        return [node.vector_selector]
    if isinstance(node, (parser.ParenExpr, parser.UnaryExpr, parser.SubqueryExpr)):
        return [node.expr]
    return []


def _nodes(node: Node, around: tuple[Node, ...]) -> Iterator[tuple[Node, tuple[Node, ...]]]:
    yield node, around
    for child in children(node):
        yield from _nodes(child, (*around, node))


_OPS = {"Equal": "=", "NotEqual": "!=", "Re": "=~", "NotRe": "!~"}


def _selector(node: parser.VectorSelector, around: tuple[Node, ...]) -> Selector:
    given = [*node.matchers.matchers, *(each for group in node.matchers.or_matchers for each in group)]
    matchers = [Matcher(each.name, _OPS[str(each.op).rpartition(".")[2]], each.value) for each in given]
    named = next((each.value for each in matchers if each.name == "__name__" and each.op == "="), "")
    matrix = around[-1] if around and isinstance(around[-1], parser.MatrixSelector) else None
    return Selector(
        metric=node.name or named,
        matchers=tuple(each for each in matchers if each.name != "__name__"),
        range=matrix.range if matrix is not None else None,
        around=tuple(each for each in around if each is not matrix),
        node=node,
    )


def plain(node: Node) -> Node:
    """``node`` without the parentheses around it."""
    while isinstance(node, parser.ParenExpr):
        node = node.expr
    return node


def function(node: Node) -> str:
    """Name of the function or aggregation that ``node`` is; empty when it is none."""
    if isinstance(node, parser.Call):
        return node.func.name
    return str(node.op) if isinstance(node, parser.AggregateExpr) else ""


def operator(node: Node) -> str:
    """The operator of a binary expression; empty for any other node."""
    return str(node.op) if isinstance(node, parser.BinaryExpr) else ""


def grouped_by(node: Node) -> tuple[str, ...] | None:
    """Labels that an aggregation keeps by name; None when it keeps all but some, or is none."""
    if not isinstance(node, parser.AggregateExpr):
        return None
    if node.modifier is None:
        return ()
    return tuple(node.modifier.labels) if node.modifier.type == parser.AggModifierType.By else None


def raw_counters(read: Promql) -> Iterator[str]:
    """Counters whose value is taken as it stands."""
    for selector in read.selectors():
        if not selector.metric.endswith("_total"):
            continue
        calls = {function(node) for node in selector.around}
        last = function(selector.around[-1]) if selector.around else ""
        if selector.range is not None and last in _RATES:
            continue
        if calls & (COUNTED - _RATES) or calls & {"count", "group"} or _only_filters(selector):
            continue
        yield selector.metric


def _only_filters(selector: Selector) -> bool:
    """Whether the selector only says which series stay, or which are new.

    That is the right side of ``and`` and ``unless``, and the left side of ``unless`` the same metric some time ago: a
    counter that wasn't there then has grown by all that it shows.
    """
    for node in selector.around:
        if operator(node) in {"and", "unless"} and isinstance(node, parser.BinaryExpr):
            if _below(node.rhs, selector.node):
                return True
            earlier = (each for each in _selectors_below(node.rhs) if each.name == selector.metric)
            if operator(node) == "unless" and any(each.offset is not None for each in earlier):
                return True
    return False


def _below(node: Node, sought: Node) -> bool:
    return any(each is sought for each, _ in _nodes(node, ()))


def has_vector_zero(read: Promql) -> bool:
    """Whether something is ``or vector(0)``, bare or in an expression of it."""
    return any(
        operator(node) == "or"
        and isinstance(node, parser.BinaryExpr)
        and function(plain(node.rhs)) == "vector"
        and not list(_selectors_below(node.rhs))
        for node, _ in read.nodes()
    )


def _selectors_below(node: Node) -> Iterator[parser.VectorSelector]:
    return (each for each, _ in _nodes(node, ()) if isinstance(each, parser.VectorSelector))


def quantiles_without_le(read: Promql) -> bool:
    """Whether some ``histogram_quantile`` is given buckets that an aggregation took ``le`` from."""
    for node, _ in read.nodes():
        if function(node) != "histogram_quantile":
            continue
        for inner, around in _nodes(node, ()):
            if not isinstance(inner, parser.AggregateExpr) or function(inner) in {"topk", "bottomk"}:
                continue
            if not any(_is_bucket(each) for each in _selectors_below(inner.expr)):
                continue
            if any(function(each) == "histogram_quantile" for each in around[1:]):
                continue
            kept = grouped_by(inner)
            dropped = kept is None and inner.modifier is not None and "le" in inner.modifier.labels
            if dropped or (kept is not None and not {"le", "vmrange"} & set(kept)):
                return True
    return False


def _is_bucket(node: parser.VectorSelector) -> bool:
    name = node.name or next((each.value for each in node.matchers.matchers if each.name == "__name__"), "")
    return name.endswith("_bucket")


def averages_percentiles(read: Promql) -> bool:
    """Whether percentiles are averaged or summed: of ``histogram_quantile``, of a summary, or of a recorded p95."""
    for node, around in read.nodes():
        outside = {function(each) for each in around} & {"avg", "sum", "avg_over_time", "sum_over_time"}
        if not outside:
            continue
        if function(node) == "histogram_quantile":
            return True
        if isinstance(node, parser.VectorSelector):
            selector = _selector(node, around)
            percentile = any(each.name == "quantile" and each.op in {"=", "=~"} for each in selector.matchers)
            if percentile or (":" in selector.metric and _PERCENTILE.search(selector.metric)):
                return True
    return False


def top_series(read: Promql) -> str:
    """The first of ``topk``, ``bottomk`` and the like that the expression has; empty when it has none."""
    return next((name for node, _ in read.nodes() if (name := function(node)) in {"topk", "bottomk", "limitk"}), "")


def unsafe_ratio(read: Promql) -> bool:
    """Whether something is divided by what may be 0, and the NaN is not filtered out by a comparison."""
    for node, around in read.nodes():
        if operator(node) == "/" and isinstance(node, parser.BinaryExpr) and not _never_zero(node.rhs):
            filters = [
                each for each in around if operator(each) in _COMPARISONS and isinstance(each, parser.BinaryExpr)
            ]
            if not any(each.modifier is None or not each.modifier.return_bool for each in filters):
                return True
    return False


def _never_zero(node: Node) -> bool:
    node = plain(node)
    if not list(_selectors_below(node)):
        return True
    if operator(node) in {">", "!="} and isinstance(node, parser.BinaryExpr):
        return True
    if operator(node) in {"*", "or", "and", "unless", "+"} and isinstance(node, parser.BinaryExpr):
        sides = [_never_zero(node.lhs)]
        sides += [] if operator(node) in {"and", "unless"} else [_never_zero(node.rhs)]
        return any(sides) if operator(node) == "+" else all(sides)
    if function(node) in {"clamp_min", "clamp", "count", "count_over_time", "time"}:
        return True
    # Sizes of what exists are not 0; rates and counts of what happens are.
    rates = {function(each) for each, _ in _nodes(node, ())} & _RATES
    names = {each.name or "" for each in _selectors_below(node)}
    return not rates and all(
        re.search(r"[_:](bytes|limit|size|capacity|max|info|cores?|objective|budget|quota)(_|:|$)", name)
        for name in names
    )


def is_absent_guard(read: Promql) -> bool:
    """Whether the expression is there when something is missing."""
    return any(function(node) in {"absent", "absent_over_time"} for node, _ in read.nodes())
