"""Whether the metrics and labels of a PromQL expression exist: ours, by the catalogue; others', by the foreign table.

A name is asked about only when its prefix is ours or that of an exporter in the table: a user's own metrics pass.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal

import msgspec
import promql_parser as parser

from telemetry.catalogue import METRICS, PREFIXES
from telemetry.grafana.foreign import FOREIGN, Exporter, exporter_of
from telemetry.grafana.lint import promql
from telemetry.grafana.lint.findings import names
from telemetry.grafana.lint.variables import PLACE

MetricsPath = Literal["scrape", "otlp"]

TARGET_LABELS: Final = frozenset(
    # What scrapers, operators and relabelling add to every series of a target.
    """
    job instance cluster k8s_cluster_name cluster_name namespace exported_namespace pod exported_pod container
    exported_container node nodename service exported_service endpoint exported_job exported_instance prometheus
    prometheus_replica region zone env environment deployment_environment_name app tenant role team
    """.split()
)
OTLP_LABELS: Final = frozenset(
    {"service_name", "service_instance_id", "service_namespace", "deployment_environment_name"}
)
"""What VictoriaMetrics' own OTLP input gives every series, besides the promoted attributes of the resource."""
_SUFFIXES: Final = ("_bucket", "_sum", "_count")

DEPRECATED: Final[Mapping[str, tuple[str, str]]] = {
    "gotk_reconcile_condition": (
        "gotk_resource_info",
        '{ready="False"} or gotk_reconcile_condition{type="Ready",status="False"} == 1',
    ),
    "gotk_suspend_status": ("gotk_resource_info", '{suspended="true"} or gotk_suspend_status == 1'),
}
"""Metrics that Flux 2.8 has dropped: what has come instead, and how to ask for both."""


class Metric(msgspec.Struct, frozen=True):
    """A known metric: the labels it brings itself, or None when they may be any."""

    name: str
    kind: str
    labels: frozenset[str] | None


class Catalogue(msgspec.Struct, frozen=True):
    """All names that are known: ``metrics`` by name, ``prefixes`` below which a name must be known."""

    metrics: Mapping[str, Metric]
    prefixes: tuple[str, ...]

    def find(self, name: str) -> Metric | None:
        """The metric that a series of this name belongs to: a histogram's ``_bucket`` is one of the histogram's."""
        found = self.metrics.get(name)
        if found is not None:
            return None if found.kind == "histogram" else found
        for suffix in _SUFFIXES:
            found = self.metrics.get(name.removesuffix(suffix)) if name.endswith(suffix) else None
            if found is not None and found.kind == "histogram":
                if suffix == "_bucket" and found.labels is not None:
                    return Metric(name, found.kind, found.labels | {"le", "vmrange"})
                return found
        return None

    def is_ours(self, name: str) -> bool:
        """Whether names with this prefix are listed in full."""
        return name.startswith(self.prefixes)

    def near(self, name: str) -> str:
        """The end of a sentence: the known series nearest to ``name``, or what a histogram's series are called."""
        found = self.metrics.get(name)
        if found is not None:
            return f"; it is a histogram, whose series end in {names(_SUFFIXES)}."
        series = [each for metric in self.metrics.values() for each in _series(metric)]
        near = difflib.get_close_matches(name, series, n=1, cutoff=0.75)
        return f"; did you mean {near[0]}?" if near else "."


def _series(metric: Metric) -> Iterable[str]:
    return [metric.name + suffix for suffix in _SUFFIXES] if metric.kind == "histogram" else [metric.name]


def catalogue(more: Iterable[Metric] = (), prefixes: tuple[str, ...] = ()) -> Catalogue:
    """Our catalogue and the foreign table, with what the caller adds."""
    metrics = {spec.name: Metric(spec.name, spec.kind, frozenset(spec.labels)) for spec in METRICS.values()}
    metrics["target_info"] = Metric("target_info", "info", None)
    for row in FOREIGN.values():
        metrics[row.name] = Metric(row.name, row.kind, None if row.exporter == "scraper" else frozenset(row.labels))
    metrics.update({metric.name: metric for metric in more})
    return Catalogue(metrics, (*PREFIXES, *prefixes))


class Problem(msgspec.Struct, frozen=True):
    """Something about a name: the rule it breaks, a sentence, and whether it is only worth a look."""

    rule: str
    message: str
    notice: bool = False


def problems(
    read: promql.Promql, known: Catalogue, recorded: frozenset[str], path: MetricsPath, names_given: bool = False
) -> Iterator[Problem]:
    """What is wrong with names in ``read``.

    ``recorded`` are names of recorded series in the rules at hand; ``names_given`` says that all of them are at hand.
    """
    selectors = list(read.selectors())
    asked = {selector.metric for selector in selectors}
    for selector in selectors:
        if selector.metric:
            yield from _metric(selector.metric, asked, known, recorded, names_given)
            yield from _matchers(selector, known, path)
    yield from _groupings(read, known, path)


def _metric(
    name: str, asked: set[str], known: Catalogue, recorded: frozenset[str], names_given: bool
) -> Iterator[Problem]:
    deprecated = DEPRECATED.get(name)
    if deprecated is not None:
        instead, both = deprecated
        if instead not in asked:
            message = f"{name} stands alone, and Flux 2.8 no longer exports it. Ask for both: {instead}{both}."
            yield Problem("deprecated-metric", message)
        return
    if PLACE.search(name) or name in recorded or known.find(name) is not None:
        return
    if ":" in name:
        if names_given:
            yield Problem("unknown-metric", f"No rule at hand records {name}.")
        return
    if known.is_ours(name):
        yield Problem("unknown-metric", f"Nobody emits {name}{known.near(name)}")
        return
    exporter = exporter_of(name)
    if exporter is not None:
        yield from _foreign(name, exporter, known)


def _foreign(name: str, exporter: Exporter, known: Catalogue) -> Iterator[Problem]:
    """A table that isn't complete can't say that a name is wrong, only that one it has looks very much like it."""
    own = [each for metric in exporter.metrics for each in _series(Metric(metric.name, metric.kind, None))]
    near = difflib.get_close_matches(name, own, n=1, cutoff=0.75 if exporter.complete else 0.93)
    hint = f"; did you mean {near[0]}?" if near else "."
    if exporter.complete:
        yield Problem("unknown-metric", f"{exporter.name} exports no {name}{hint}")
    elif near and known.find(name) is None:
        yield Problem("unknown-metric", f"{name} is not among what we know of {exporter.name}{hint}", notice=True)


def _allowed(metric: Metric, path: MetricsPath) -> frozenset[str] | None:
    """All labels that series of ``metric`` can have; None when they may be any."""
    if metric.labels is None:
        return None
    return metric.labels | TARGET_LABELS | (OTLP_LABELS if path == "otlp" else frozenset())


def _matchers(selector: promql.Selector, known: Catalogue, path: MetricsPath) -> Iterator[Problem]:
    metric = known.find(selector.metric)
    if metric is None:
        return
    ours = known.is_ours(selector.metric) or selector.metric == "target_info"
    for matcher in selector.matchers:
        wrong = _path_problem(matcher.name, path) if ours else None
        if wrong is not None:
            yield wrong
            continue
        allowed = _allowed(metric, path)
        if allowed is not None and matcher.name not in allowed and not PLACE.search(matcher.name):
            near = difflib.get_close_matches(matcher.name, allowed, n=1, cutoff=0.7)
            hint = f"; did you mean {near[0]}?" if near else f". It has {names(metric.labels or {'none of its own'})}."
            yield Problem("unknown-label", f"{selector.metric} has no label {matcher.name}{hint}")
    if path == "otlp" and selector.metric == "target_info":
        yield Problem(
            "metrics-path",
            "VictoriaMetrics' own OTLP input makes no target_info: attributes of the resource are labels there.",
        )


def _path_problem(label: str, path: MetricsPath) -> Problem | None:
    if path == "otlp" and label in {"job", "instance"}:
        instead = "service_name" if label == "job" else "service_instance_id"
        return Problem(
            "metrics-path",
            f"VictoriaMetrics' own OTLP input makes no label {label}; it is {instead} there. Scraped, or through "
            "Alloy, it would be there: see --metrics-path.",
        )
    if path == "scrape" and label in OTLP_LABELS - TARGET_LABELS:
        instead = "instance" if label == "service_instance_id" else "job"
        return Problem(
            "metrics-path",
            f"Scraped series have no label {label}; it is {instead} there. VictoriaMetrics' own OTLP input would make "
            "it: see --metrics-path.",
        )
    return None


def _groupings(read: promql.Promql, known: Catalogue, path: MetricsPath) -> Iterator[Problem]:
    """Labels that aggregations keep and joins match, where every metric below is known."""
    for node, _ in read.nodes():
        if isinstance(node, parser.AggregateExpr):
            labels = promql.grouped_by(node) or ()
            within = node.expr
        elif isinstance(node, parser.BinaryExpr) and node.modifier is not None and node.modifier.matching is not None:
            include = node.modifier.matching.type == parser.LabelModifierType.Include
            labels = tuple(node.modifier.matching.labels) if include else ()
            within = node
        else:
            continue
        if not labels:
            continue
        made = _made(within)
        below = [(name, known.find(name)) for name in _metrics(within)]
        found = [(name, metric) for name, metric in below if metric is not None]
        ours = [name for name, _ in found if known.is_ours(name)]
        for label in labels:
            wrong = _path_problem(label, path) if ours and len(ours) == len(below) and label not in made else None
            if wrong is not None:
                yield wrong
                continue
            if len(found) < len(below) or not found or label in made or PLACE.search(label):
                continue
            sets = [_allowed(metric, path) for _, metric in found]
            if all(allowed is not None and label not in allowed for allowed in sets):
                yield Problem(
                    "unknown-label",
                    f"{names({name for name, _ in found})} {'has' if len(found) == 1 else 'have'} no label {label}.",
                )


def _metrics(node: promql.Node) -> list[str]:
    return [selector.metric for selector in promql.Promql("", node).selectors()]


def _made(node: promql.Node) -> set[str]:
    """Labels that come from a join, ``label_replace``, ``label_join`` or ``count_values`` below ``node``."""
    made: set[str] = set()
    for each, _ in promql.Promql("", node).nodes():
        if isinstance(each, parser.BinaryExpr) and each.modifier is not None and each.modifier.group_labels:
            made |= set(each.modifier.group_labels)
        if promql.function(each) in {"label_replace", "label_join"} and isinstance(each, parser.Call):
            target = each.args[1]
            made |= {target.val} if isinstance(target, parser.StringLiteral) else set()
        if isinstance(each, parser.AggregateExpr) and isinstance(each.param, parser.StringLiteral):
            made.add(each.param.val)
    return made
