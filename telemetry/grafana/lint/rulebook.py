"""All rules of lint: name, level, what it asks for, why, and where that is known from.

Names of the rules of grafana/dashboard-linter 0.2 are theirs, so that an exceptions file serves both. The page
``docs/grafana-lint.md`` and ``fleetglass grafana lint --explain`` are made from this table.
"""

from __future__ import annotations

from typing import Final

import msgspec

from telemetry.grafana.lint.findings import Level

UPSTREAM: Final = "dashboard-linter"


class Rule(msgspec.Struct, frozen=True):
    """One rule. ``group`` is what it looks at, ``source`` the issue or page that the trap is known from."""

    name: str
    level: Level
    group: str
    about: str
    why: str
    source: str = ""


class _Group:
    """Rules on one subject, written as a table."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rules: list[Rule] = []

    def error(self, name: str, about: str, why: str, source: str = "") -> None:
        self.rules.append(Rule(name, "error", self.name, about, why, source))

    def notice(self, name: str, about: str, why: str, source: str = "") -> None:
        self.rules.append(Rule(name, "notice", self.name, about, why, source))


def _files() -> list[Rule]:
    rules = _Group("Files")
    rules.error("unreadable", "The file is JSON or YAML.", "What can't be read can't be checked, or provisioned.")
    rules.error(
        "duplicate-key",
        "No key stands twice in one mapping.",
        "The last one wins without a word, or the file is refused, depending on the reader.",
    )
    rules.notice(
        "nothing-known",
        "A file that is named holds something lint knows.",
        "A file that is passed over in silence looks checked.",
    )
    rules.error(
        "unused-exception",
        "An exception names a rule that exists and has a reason.",
        "A misspelt exception excuses nothing, one without a reason can't be judged later.",
    )
    return rules.rules


def _dashboards() -> list[Rule]:
    rules = _Group("Dashboards")
    rules.error(
        "template-datasource-rule",
        "There is a datasource variable, named `datasource` or `prometheus_datasource`, `loki_datasource`, …",
        "A dashboard with a fixed datasource works in one installation only.",
        UPSTREAM,
    )
    rules.error(
        "template-job-rule",
        "There is a `job` variable: a query on the templated datasource, labelled Job, multi, all value `.+`.",
        "Every series that was scraped has `job`, so a reader can always narrow down by it.",
        UPSTREAM,
    )
    rules.error(
        "template-instance-rule",
        "There is an `instance` variable: a query on the templated datasource, labelled Instance, multi, all `.+`.",
        "Every series that was scraped has `instance`, so a reader can always narrow down by it.",
        UPSTREAM,
    )
    rules.error(
        "template-label-promql-rule",
        "The query of a Prometheus variable is `label_values(…)`, `query_result(…)` and the like, with valid PromQL.",
        "A variable that can't be filled leaves every panel empty.",
        UPSTREAM,
    )
    rules.error(
        "template-on-time-change-reload-rule",
        "Query variables refresh when the time range changes (`refresh: 2`).",
        "Otherwise they offer values of another time, and a new service is missing until the page is reloaded.",
        UPSTREAM,
    )
    rules.error(
        "panel-datasource-rule",
        "Every panel uses a datasource variable.",
        "A fixed uid works in one installation only.",
        UPSTREAM,
    )
    rules.error(
        "panel-title-description-rule",
        "Every panel has a title and a description.",
        "Who is called at night must read what is shown, what is normal, and what to do.",
        UPSTREAM,
    )
    rules.error(
        "panel-units-rule",
        "Every panel has a unit that Grafana knows, or value mappings.",
        "A number without a unit is a guess.",
        UPSTREAM,
    )
    rules.error("panel-no-targets-rule", "Every panel has a query.", "A panel without one stays empty.", UPSTREAM)
    rules.error(
        "uneditable-dashboard", "`editable` is false.", "What is edited by hand is lost at the next release.", UPSTREAM
    )
    rules.error(
        "board-uid",
        "A dashboard has a uid: letters, digits, `-` and `_`, at most 40, the only one of all files.",
        "Without one, links and images break at every import; two alike take turns in overwriting each other.",
        "Grafana, provisioning",
    )
    rules.error(
        "board-form",
        "A dashboard is classic JSON, or a whole V1 or V2 resource with `apiVersion`, `kind`, `metadata` and `spec`.",
        "File provisioning takes nothing else: mixed forms and API envelopes are not provisioned.",
        "grafana#128167",
    )
    rules.error(
        "v2-datasource-string",
        "In a V2 dashboard, `datasource` is a mapping with `name`.",
        "With a string, the dashboard is not provisioned.",
        "grafana#128167",
    )
    rules.error(
        "board-inputs",
        "A provisioned dashboard holds no `__inputs`.",
        "Only the import page fills in `${DS_…}`; provisioned, they stay as they are and every panel fails.",
        "Grafana, export for sharing",
    )
    rules.notice(
        "board-schema",
        "Classic dashboards have a `schemaVersion` from 39 to 42.",
        "An older one is migrated at every load, a newer one is not understood.",
        "Grafana 13",
    )
    rules.notice(
        "board-size",
        "At most 20 panels are open above collapsed rows.",
        "Each asks the backends at every refresh, and nobody reads further down.",
    )
    rules.notice(
        "board-first-row",
        "The first row holds stats with thresholds: is it OK?",
        "Who opens a dashboard wants that answer before any curve.",
    )
    rules.error(
        "panel-id",
        "Every panel has an id, the only one of its dashboard.",
        "Links to a panel and rendered images name it; missing ids are given anew at every load.",
        "Grafana, rendering",
    )
    rules.error(
        "panel-overlap",
        "Panels lie within 24 columns and don't overlap.",
        "Grafana moves them at load, so that the page differs from what was reviewed.",
    )
    rules.error(
        "panel-ref-ids",
        "Queries of one panel have different `refId`s.",
        "The second one replaces the first one's answer.",
    )
    rules.notice(
        "panel-no-value",
        "A panel says what stands there when there is nothing (`noValue`).",
        "`No data` is read as `broken`, or worse, as `fine`.",
    )
    rules.notice(
        "panel-min",
        "A time series of counts or shares begins at 0 (`min: 0`).",
        "Grafana's own choice of axis makes a ripple look like an outage.",
    )
    rules.notice(
        "panel-legend",
        "Every query of a time series has a legend of its own (`legendFormat`).",
        "The default is the whole label set, which nobody can read.",
    )
    rules.error(
        "undefined-variable",
        "Every `$variable` in a query is defined.",
        "Grafana sends it as it stands, and the query finds nothing.",
    )
    rules.error(
        "dead-link",
        "Links lead to dashboards and headings that exist.",
        "A link is used when something is broken already.",
    )
    return rules.rules


def _configmaps() -> list[Rule]:
    rules = _Group("Kubernetes objects")
    rules.error(
        "flux-substitution",
        "An object with `${…}` has the label `kustomize.toolkit.fluxcd.io/substitute: disabled`.",
        "Flux's postBuild replaces `${datasource}` and the like with nothing, or fails.",
        "flux2-monitoring-example#44",
    )
    rules.error(
        "configmap-label",
        'The label `grafana_dashboard` or `grafana_datasource` is the string "1".',
        "The sidecar compares strings; an unquoted 1 is a number, which Kubernetes refuses.",
        "Grafana chart, sidecar",
    )
    rules.error(
        "configmap-size",
        "A ConfigMap is smaller than 1 MiB; above 256 KiB it is applied server-side.",
        "The apiserver refuses more, and client-side apply keeps a second copy in an annotation of 256 KiB.",
        "Kubernetes",
    )
    return rules.rules


def _promql() -> list[Rule]:
    rules = _Group("PromQL")
    rules.error("target-promql-rule", "PromQL can be parsed.", "What can't be parsed is an error panel.", UPSTREAM)
    rules.error(
        "target-rate-interval-rule",
        "`rate` and `irate` in a panel take `$__rate_interval`.",
        "A fixed range is empty when the scrape interval or the zoom is larger.",
        UPSTREAM,
    )
    rules.error(
        "target-job-rule",
        'Every selector in a panel has `job=~"$job"`.',
        "Otherwise the variable does nothing.",
        UPSTREAM,
    )
    rules.error(
        "target-instance-rule",
        'Every selector in a panel has `instance=~"$instance"`.',
        "Otherwise the variable does nothing.",
        UPSTREAM,
    )
    rules.error(
        "target-counter-agg-rule",
        "Counters (`…_total`) stand in `rate`, `irate` or `increase`, or are only counted.",
        "A counter's value is how long the process has lived.",
        UPSTREAM,
    )
    rules.notice(
        "metricsql-only",
        "Queries are PromQL, without what only VictoriaMetrics knows.",
        "They then run on Prometheus too, and every checker can read them.",
        "MetricsQL",
    )
    rules.error(
        "vector-zero",
        "Nothing is `or vector(0)`.",
        "A source that is dead then shows 0, like one that is well. `or 0 * sum by (job) (up)` shows 0 only for one "
        "that is scraped.",
    )
    rules.error(
        "unbounded-by",
        "Nothing is grouped by values without end: trace ids, emails, URLs, fingerprints.",
        "Loki answers more than 500 series with an error; anywhere else the series fill the store.",
        "Loki, max_query_series",
    )
    rules.error(
        "topk-range",
        "`topk`, `bottomk` and `limitk` stand in instant queries only.",
        "At every step other series are the top ones, so the panel draws many more than k.",
    )
    rules.error(
        "quantile-le",
        "What `histogram_quantile` is given keeps `le`.",
        "Without it there are no buckets, and the answer is empty.",
    )
    rules.error(
        "average-of-percentiles",
        "Percentiles are not averaged or summed.",
        "The result is the percentile of nothing. Sum the buckets first.",
    )
    rules.notice(
        "ratio-zero-safe",
        "What stands below a division can't be 0: `> 0` after it, or `clamp_min`.",
        "At rest the answer is NaN, which reads as broken and makes no alert.",
    )
    rules.error(
        "exemplars",
        "Nothing asks VictoriaMetrics for exemplars.",
        "It stores none, and never will; links from metrics to traces are data links.",
        "VictoriaMetrics#1169",
    )
    return rules.rules


def _names() -> list[Rule]:
    rules = _Group("Metrics and labels")
    rules.error(
        "unknown-metric",
        "A metric with a prefix of ours, or of an exporter we know, exists.",
        "A panel on a metric that nobody emits is empty, and an alert on it never fires.",
        "catalogue",
    )
    rules.error(
        "unknown-label",
        "A label that is matched, grouped or joined by exists on its metric.",
        "A matcher on a missing label finds nothing, a group by it is one group.",
        "catalogue",
    )
    rules.error(
        "metrics-path",
        "Labels are those of the path that metrics take: `job` and `instance` when scraped, `service_name` through "
        "VictoriaMetrics' own OTLP input.",
        "A dashboard written for one path is empty on the other.",
        "opentelemetry-collector-contrib#33212",
    )
    rules.error(
        "deprecated-metric",
        "A metric that its program no longer exports doesn't stand alone.",
        "The panel is empty while everything looks up.",
        "flux2#4652",
    )
    return rules.rules


def _logql() -> list[Rule]:
    rules = _Group("LogQL and TraceQL")
    rules.error("target-logql-rule", "LogQL can be parsed.", "What can't be parsed is an error panel.", UPSTREAM)
    rules.error(
        "target-logql-auto-rule",
        "Ranges in a panel are `[$__auto]`; in an instant query `[$__range]` will do.",
        "A fixed range counts lines twice or not at all, depending on the zoom.",
        UPSTREAM,
    )
    rules.error(
        "logfmt-keys",
        "A metric query has `| logfmt`, or `| logfmt a | logfmt b`, never `| logfmt a, b`.",
        "With several keys only the one that comes first in the line is found. No grammar complains.",
        "Loki 3.8, seen",
    )
    rules.error(
        "stream-label",
        "Stream selectors name labels with few values, not fields of the line.",
        "trace_id, email, url and the like are no labels, so the selector finds nothing; as labels they would be too "
        "many streams.",
        "Loki, cardinality",
    )
    rules.notice(
        "frontend-logger",
        'After `|= "frontend-error"` and `| logfmt` comes `| logger="frontend"`.',
        "The words also stand in access lines of any path that holds them.",
        "Loki 3.8, seen",
    )
    rules.notice(
        "unwrap-keep",
        "`| keep` stands before `| unwrap`.",
        "Each set of labels is a series until it is summed, and more than 500 are an error.",
        "Loki, max_query_series",
    )
    rules.error(
        "traceql-syntax",
        "TraceQL has its braces, quotes and values.",
        "What can't be parsed is an error panel.",
    )
    return rules.rules


def _datasources() -> list[Rule]:
    rules = _Group("Datasources")
    rules.error(
        "ds-uid-change",
        "A datasource that was provisioned keeps its uid, or is deleted first (`deleteDatasources`).",
        "Grafana 13 looks the datasource up by the new uid, finds none, and ends: a crash loop whose error doesn't "
        "name the datasource.",
        "grafana#110740",
    )
    rules.error(
        "ds-uid",
        "A datasource has a uid of its own: letters, digits, `-` and `_`, at most 40.",
        "Without one Grafana makes one up, links can't name it, and adding it later is a change of uid.",
        "Grafana 13",
    )
    rules.error(
        "ds-prune",
        "`prune` is not set.",
        "Grafana 13 ends at start.",
        "ankhmorpork#1218",
    )
    rules.error(
        "ds-correlation",
        "The `targetUID` of a correlation is provided.",
        "Grafana 13 looks it up while provisioning, and ends when there is none.",
        "grafana#123178",
    )
    rules.error(
        "ds-reference",
        "A uid in `derivedFields`, `tracesToLogsV2`, `tracesToMetrics`, `serviceMap` and the like is provided.",
        "The link leads nowhere, and nothing says so.",
        "Grafana, cross links",
    )
    rules.error(
        "ds-duplicate",
        "No uid and no name is given twice in one organisation.",
        "Which one is in effect depends on the order of files, or Grafana ends at start.",
    )
    rules.error("ds-default", "At most one datasource of an organisation is the default.", "Grafana ends at start.")
    rules.error(
        "ds-dollar",
        "`$` in a provisioning file is written `$$`, but for `${ENV}`, `$__env{…}` and `$__file{…}`.",
        "Grafana replaces `$name` with an environment variable, so links and queries lose their variables.",
        "Grafana, provisioning",
    )
    rules.error(
        "ds-link-tags",
        "`tracesToLogsV2` and `tracesToMetrics` have tags, and a query of their own uses them.",
        "A link whose tags aren't on the span disappears without a word.",
        "Grafana, trace to logs",
    )
    rules.notice(
        "ds-derived-fields",
        "One derived field leads to one place.",
        "One by label and one by text are two links on the same line.",
    )
    rules.notice(
        "ds-secret",
        "Secrets come from `${ENV}`, `$__env{…}` or `$__file{…}`.",
        "A provisioning file is committed.",
    )
    rules.error(
        "loki-path",
        "Loki's address fits who uses it: its root for Grafana, `/otlp` for OTLP, `/loki/api/v1/push` for push.",
        "Anything else is answered 404.",
        "loki#16174, loki#14037",
    )
    return rules.rules


def _alerts() -> list[Rule]:
    rules = _Group("Alert rules")
    rules.error(
        "rule-expression", "The expression of a rule can be parsed.", "The rule file is refused, or the rule fails."
    )
    rules.error("alert-severity", "An alert has the label `severity`.", "Routes choose by it.")
    rules.error(
        "alert-annotations",
        "An alert has `summary`, `description`, `runbook_url` and `dashboard_uid`.",
        "Who is called must read what it is, what to do, and where to look.",
    )
    rules.error(
        "alert-value-label",
        "Labels of an alert don't hold `$value`.",
        "A new value is a new alert, at every evaluation: `for` never ends, and each is sent.",
        "Prometheus, vmalert",
    )
    rules.error(
        "alert-for",
        "`for` is at least two evaluation intervals.",
        "Otherwise a single sample decides.",
    )
    rules.error(
        "alert-absent-guard",
        "For each exporter that alerts rely on, some alert fires when it is missing (`absent(…)`).",
        "An exporter that is dead makes no series, and so no alert: it looks healthy.",
    )
    rules.error("alert-duplicate", "No group, no rule and no uid of a rule is given twice.", "The file is refused.")
    rules.notice(
        "rule-order",
        "What uses a recorded series stands in a later group.",
        "vmalert writes results asynchronously: within a group they may be one evaluation late.",
        "vmalert",
    )
    rules.error(
        "managed-alert",
        "A Grafana-managed rule has a uid, a folder, a condition that exists, `for`, `noDataState` and `execErrState`.",
        "The defaults alert on missing data and on errors, which may or may not be what is wanted: choose.",
        "Grafana, alert provisioning",
    )
    return rules.rules


def _configurations() -> list[Rule]:
    rules = _Group("Configurations")
    rules.error(
        "renderer-token",
        "Grafana's `renderer_token` and the renderer's `AUTH_TOKEN` are both set, the same, and not `-`.",
        "From 13.0.1 on renders are answered 401, and Grafana 13 doesn't start with the default token.",
        "grafana-image-renderer#978, grafana#121408",
    )
    rules.error(
        "vm-version",
        "With `-opentelemetry.usePrometheusNaming`, VictoriaMetrics is 1.142 or later.",
        "From 1.132 to 1.141 a unit suffix leaks onto the metrics that follow.",
        "VictoriaMetrics#10889",
    )
    rules.notice("image-pin", "Images have a version.", "`latest` is another program next week.")
    rules.error(
        "otlp-receiver",
        "OTLP receivers name their endpoint.",
        "The default is localhost (Tempo since 2.7), where no other container reaches it.",
        "faro-web-sdk#2036",
    )
    rules.error(
        "tempo-leftover",
        "A Tempo configuration holds nothing that Tempo 3.0 has removed.",
        "It ends at start.",
        "Tempo 3.0",
    )
    rules.notice(
        "native-histograms",
        "Tempo's metrics generator makes classic histograms.",
        "VictoriaMetrics turns native ones into `vmrange` series, beside the classic ones when both are made.",
        "VictoriaMetrics 1.143",
    )
    rules.error(
        "loki-leftover",
        "A Loki configuration holds nothing that Loki 3.8 or 4.0 has removed.",
        "It ends at start, or at the next upgrade.",
        "Loki 3.8",
    )
    rules.error(
        "loki-schema",
        "Loki's newest schema period is `tsdb` with `v13`.",
        "Without it there is no structured metadata, so no `trace_id` beside a line, and OTLP is refused.",
        "Loki 3.8",
    )
    rules.error(
        "alloy-storage",
        "Alloy's `--storage.path` lies on a volume.",
        "Without one, positions and the metrics' WAL are lost at restart: files are read again from their beginning, "
        "and Loki refuses the old lines.",
        "loki#9869",
    )
    return rules.rules


RULES: Final[dict[str, Rule]] = {
    rule.name: rule
    for rules in (
        _files(),
        _dashboards(),
        _configmaps(),
        _promql(),
        _names(),
        _logql(),
        _datasources(),
        _alerts(),
        _configurations(),
    )
    for rule in rules
}
"""All rules by name, in the order of the page."""
