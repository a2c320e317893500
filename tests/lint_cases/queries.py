"""Traps in queries of panels: PromQL, LogQL, TraceQL, and names that don't exist."""

from __future__ import annotations

from typing import Any

from telemetry.grafana.lint.names import Metric, catalogue
from telemetry.grafana.lint.run import Options
from tests.lint_cases.case import SELECTOR, Case, board, query

S = SELECTOR
RATE = f"rate(http_server_request_duration_seconds_count{S}[$__rate_interval])"
BUCKETS = f"rate(http_server_request_duration_seconds_bucket{S}[$__rate_interval])"
LINES = '{service_name="shop"} |= "frontend-error" | logfmt | logger="frontend"'
ONE_ERROR = LINES.replace("| logfmt", '|= `fp="a` | logfmt')
OTLP = Options(metrics_path="otlp")
OWN = Options(known=catalogue([Metric("shop_orders_total", "counter", frozenset({"state"}))], ("shop_",)))


def traces(text: str) -> dict[str, str]:
    def change(made: dict[str, Any]) -> None:
        made["panels"][1]["type"] = "table"
        made["panels"][1]["targets"] = [
            {"refId": "A", "query": text, "datasource": {"type": "tempo", "uid": "${datasource}"}}
        ]

    return {"board.json": board(change)}


def logs(expression: str, **more: Any) -> dict[str, str]:
    return query(expression, logs=True, **more)


def instant(expression: str, *, logs: bool = False) -> dict[str, str]:
    more = {"queryType": "instant"} if logs else {"instant": True}
    return query(expression, logs=logs, kind="table", **more)


HERE = '"legendFormat": "{{x}}"'  # the line after the one that holds the query


def case(
    name: str,
    rule: str,
    bad: dict[str, str],
    says: str,
    good: dict[str, str] | None = None,
    level: str = "error",
    options: Options | None = None,
) -> Case:
    """A trap in the second panel's query."""
    return Case(name, rule, bad, HERE, says, "shop, panel 2 'Requests'", level, -1, good, options)  # fmt: skip


CASES = [
    case("PromQL with a brace too few", "target-promql-rule", query("sum(up{job=~'$job')"), "This is not PromQL",
         query(f"sum(up{S})")),
    case("an empty query", "target-promql-rule", query(""), "The query is empty"),
    case("an empty query for lines", "target-logql-rule", logs(" "), "The query is empty"),
    case("a rate over five minutes", "target-rate-interval-rule",
         query(RATE.replace("$__rate_interval", "5m")), "rate takes [$__rate_interval]", query(RATE)),
    case("a rate over the step", "target-rate-interval-rule",
         query(RATE.replace("$__rate_interval", "$__interval")), "rate takes [$__rate_interval]"),
    case("a query for all jobs", "target-job-rule",
         query('sum(up{instance=~"$instance"})'), 'up lacks job=~"$job"', query(f"sum(up{S})")),
    case("a query for one job", "target-job-rule",
         query('sum(up{job="shop", instance=~"$instance"})'), 'has job="shop" instead of', query(f"sum(up{S})")),
    case("a query for all instances", "target-instance-rule",
         query('sum(up{job=~"$job"})'), 'lacks instance=~"$instance"',
         query('sum(up{job=~"${job:regex}", instance=~"${instance}"})')),
    case("a counter as it stands", "target-counter-agg-rule",
         query(f"sum(frontend_errors_total{S})"), "The counter frontend_errors_total",
         query(f"sum(increase(frontend_errors_total{S}[$__range]))")),
    case("a function of VictoriaMetrics alone", "metricsql-only",
         query(f"rollup_rate(up{S}[5m])"), "Only VictoriaMetrics", query(f"sum(up{S})"), "notice"),
    case("a rate without a range", "metricsql-only", query(f"rate(up{S})"), "Only VictoriaMetrics", level="notice"),
    case("a number for what is missing", "metricsql-only", query(f"sum(up{S}) or 0"), "Only VictoriaMetrics",
         level="notice"),
    case("a sum over a range", "metricsql-only", query(f"sum(up{S}[5m])"), "Only VictoriaMetrics", level="notice"),
    case("an operator of VictoriaMetrics alone", "metricsql-only",
         query(f"up{S} default 0"), "Only VictoriaMetrics", level="notice"),
    case("0 for a source that is dead", "vector-zero",
         query(f"sum({RATE}) or vector(0)"), "shows 0 for a source that is dead",
         query(f"sum by (job) ({RATE}) or 0 * sum by (job) (up{S})")),
    case("0 for lines that never came", "vector-zero",
         logs(f"sum(count_over_time({LINES} [$__auto])) or vector(0)"), "shows 0",
         logs(f"sum(count_over_time({LINES} [$__auto]))")),
    case("grouped by trace", "unbounded-by", query(f"sum by (trace_id) ({RATE})"), "Grouped by trace_id",
         query(f"sum by (job) ({RATE})")),
    case("grouped by the address of an exporter", "unbounded-by", query(f"sum by (url) (vmagent_rows{S})"),
         "Grouped by url", level="notice"),
    case("lines grouped by email", "unbounded-by",
         logs(f"sum by (email) (count_over_time({LINES} [$__auto]))"), "more than 500",
         logs(f'sum by (email) (count_over_time({LINES} | workspace="acme" [$__auto]))')),
    case("lines counted by email", "unbounded-by",
         logs(f"count(sum by (email) (count_over_time({LINES} [$__auto])))"), "email",
         logs(f"sum by (fp) (count_over_time({ONE_ERROR} [$__auto]))")),
    case("the top ten of every step", "topk-range", query(f"topk(10, {RATE})"), "topk in a range query",
         instant(f"topk(10, {RATE})")),
    case("the top ten lines of every step", "topk-range",
         logs(f'topk(10, sum by (kind) (count_over_time({LINES} [$__auto])))'), "topk",
         instant(f'topk(10, sum by (kind) (count_over_time({LINES} [$__range])))', logs=True)),
    case("a quantile of one bucket", "quantile-le",
         query(f"histogram_quantile(0.95, sum by (job) ({BUCKETS}))"), "add le",
         query(f"histogram_quantile(0.95, sum by (job, le) ({BUCKETS}))")),
    case("a quantile of a plain sum", "quantile-le", query(f"histogram_quantile(0.95, sum({BUCKETS}))"), "without `le`",
         query(f"histogram_quantile(0.95, sum without (instance) ({BUCKETS}))")),
    case("a quantile without le by name", "quantile-le",
         query(f"histogram_quantile(0.95, sum without (le) ({BUCKETS}))"), "without `le`"),
    case("an average of percentiles", "average-of-percentiles",
         query(f"avg(histogram_quantile(0.95, sum by (instance, le) ({BUCKETS})))"), "sum the buckets by le"),
    case("an average of a summary's percentile", "average-of-percentiles",
         query('avg(go_gc_duration_seconds{quantile="0.75", job=~"$job", instance=~"$instance"})'), "averaged"),
    case("an average of recorded percentiles", "average-of-percentiles",
         query(f"avg(job:latency:p95{S})"), "averaged", query(f"max(job:latency:p95{S})")),
    case("a share of nothing", "ratio-zero-safe", query(f"sum({RATE}) / sum({RATE})"), "put `> 0` behind it",
         query(f"sum({RATE}) / (sum({RATE}) > 0)"), "notice"),
    case("exemplars asked of VictoriaMetrics (VictoriaMetrics#1169)", "exemplars",
         query(RATE, exemplar=True), "set `exemplar` to false", query(RATE, exemplar=False), "notice"),
    # Names.
    case("a metric that nobody emits", "unknown-metric",
         query(f"rate(http_server_requests_total{S}[$__rate_interval])"), "Nobody emits http_server_requests_total"),
    case("a misspelt metric", "unknown-metric",
         query(f"rate(frontend_error_total{S}[$__rate_interval])"), "did you mean frontend_errors_total?"),
    case("a histogram without its ending", "unknown-metric",
         query(f"rate(http_server_request_duration_seconds{S}[$__rate_interval])"), "end in _bucket, _count, _sum",
         query(RATE)),
    case("a metric of an exporter that it may not have", "unknown-metric",
         query(f"gotk_resource_inf{S}"), "of flux; did you mean gotk_resource_info?", query(f"gotk_suspended{S}"),
         "notice"),
    case("a metric of one's own with a known prefix", "unknown-metric",
         query(f"rate(shop_order_total{S}[$__rate_interval])"), "did you mean shop_orders_total?",
         query(f'rate(shop_orders_total{S}[$__rate_interval])'), options=OWN),
    case("a label that the metric lacks", "unknown-label",
         query('rate(frontend_errors_total{type="react", job=~"$job", instance=~"$instance"}[$__rate_interval])'),
         "frontend_errors_total has no label type",
         query('rate(frontend_errors_total{kind="react", job=~"$job", instance=~"$instance"}[$__rate_interval])')),
    case("a group by a label that the metric lacks", "unknown-label",
         query(f"sum by (reason) (rate(frontend_errors_total{S}[$__rate_interval]))"), "has no label reason",
         query(f"sum by (kind) (rate(frontend_errors_total{S}[$__rate_interval]))")),
    case("service_name on a scraped metric (opentelemetry-collector-contrib#33212)", "metrics-path",
         query('sum(rate(frontend_errors_total{service_name="shop"}[$__rate_interval]))'), "it is job there",
         query(f"sum(rate(frontend_errors_total{S}[$__rate_interval]))")),
    case("job on a metric by OTLP (opentelemetry-collector-contrib#33212)", "metrics-path",
         query(f"sum(rate(frontend_errors_total{S}[$__rate_interval]))"), "it is service_name there", options=OTLP),
    case("a group by job on a metric by OTLP", "metrics-path",
         query("sum by (job) (rate(frontend_errors_total[$__rate_interval]))"), "it is service_name there",
         options=OTLP),
    case("target_info by OTLP", "metrics-path", query("sum(target_info)"), "makes no target_info", options=OTLP),
    case("a metric that Flux dropped (flux2#4652)", "deprecated-metric",
         query('sum(gotk_reconcile_condition{type="Ready",status="False"})'), "Ask for both: gotk_resource_info",
         query('gotk_resource_info{ready="False"} or gotk_reconcile_condition{type="Ready",status="False"} == 1')),
    # LogQL and TraceQL.
    case("a line filter without quotes", "target-logql-rule", logs('{service_name="shop"} |= frontend'), "in quotes"),
    case("a stage that isn't one", "target-logql-rule", logs('{service_name="shop"} | logfnt'),
         "no stage is called 'logfnt'",
         logs('{service_name="shop"} | logfmt')),
    case("lines over five minutes", "target-logql-auto-rule",
         logs(f"sum(count_over_time({LINES} [5m]))"), "write [$__auto]",
         logs(f"sum(count_over_time({LINES} [$__auto]))")),
    case("lines over the step", "target-logql-auto-rule", logs(f"sum(count_over_time({LINES} [$__interval]))"),
         "[$__auto]",
         instant(f"sum(count_over_time({LINES} [$__range]))", logs=True)),
    case("two keys of logfmt in a metric query", "logfmt-keys",
         logs('sum by (fp) (sum_over_time({service_name="shop"} | workspace="a" | logfmt repeat, fp | keep fp, repeat '
              "| unwrap repeat [$__auto]))"),
         "finds only the key that comes first",
         logs('sum by (kind) (sum_over_time({service_name="shop"} | logfmt repeat | logfmt kind | keep kind, repeat '
              "| unwrap repeat [$__auto]))")),
    case("two keys of logfmt for lines", "logfmt-keys",
         logs('{service_name="shop"} | logfmt email, message', kind="logs"), "a forged field may win", None, "notice"),
    case("a stream selected by email", "stream-label", logs('{service_name="shop", email="a@b.example"}'),
         "email is no label of a stream", logs('{service_name="shop"} | logfmt | email="a@b.example"')),
    case("lines of the route, taken for errors", "frontend-logger",
         logs('sum(count_over_time({service_name="shop"} |= "frontend-error" | logfmt [$__auto]))'),
         'Add `| logger="frontend"`', logs(f"sum(count_over_time({LINES} [$__auto]))"), "notice"),
    case("a sum of all labels", "unwrap-keep",
         logs(f"sum(sum_over_time({LINES} | unwrap repeat [$__auto]))"), "| keep",
         logs(f"sum(sum_over_time({LINES} | keep repeat | unwrap repeat [$__auto]))"), "notice"),
    Case("TraceQL without a value", "traceql-syntax", traces("{ status = }"), '"query": "{ status', "after '='",
         "shop, panel 2 'Requests'", good=traces("{ status = error }")),
]  # fmt: skip
