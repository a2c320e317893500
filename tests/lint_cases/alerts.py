"""Traps in alert rules and recordings, of every form that rules come in."""

from __future__ import annotations

from telemetry.grafana import datasources
from telemetry.grafana.lint.across import Pages
from telemetry.grafana.lint.run import Options
from tests.lint_cases.case import Case, board, rules

UP = 'up{job="shop"} == 0'
GOOD = rules(UP)
BURST = "sum by (job) (rate(frontend_errors_total[5m])) > 1"
PAGES = Options(pages=Pages({"runbooks/shop.md": frozenset({"broken"})}))

MANAGED = """\
apiVersion: 1
groups:
  - orgId: 1
    name: lines
    folder: Shop
    interval: 1m
    rules:
      - uid: spike
        title: Spike
        condition: B
        for: 5m
        noDataState: OK
        execErrState: Alerting
        labels: {severity: warning}
        annotations: {summary: s, description: d, runbook_url: /r.md, dashboard_uid: shop}
        data:
          - refId: A
            datasourceUid: loki
            relativeTimeRange: {from: 600, to: 0}
            model: {refId: A, expr: 'sum(count_over_time({service_name="shop"} |= "failed" [5m])) > 1'}
          - refId: B
            datasourceUid: __expr__
            model: {refId: B, type: threshold, expression: A}
"""


def managed(old: str, new: str) -> dict[str, str]:
    assert old in MANAGED
    return {"managed.yaml": MANAGED.replace(old, new, 1)}


def plain(old: str, new: str, expression: str = UP) -> dict[str, str]:
    text = rules(expression)["rules.yaml"]
    assert old in text
    return {"rules.yaml": text.replace(old, new, 1)}


WHOLE = {"managed.yaml": MANAGED}
RECORDED = """\
groups:
  - name: shop
    rules:
      - record: job:errors:rate5m
        expr: sum by (job) (rate(frontend_errors_total[5m]))
      - record: job:errors:twice
        expr: job:errors:rate5m * 2
"""

CASES = [
    Case("an expression that can't be parsed", "rule-expression", rules("sum(up"), "expr: sum(up", "This is not PromQL",
         "Broken", good=GOOD),
    Case("no expression", "rule-expression", rules(""), "alert: Broken", "no expression"),
    Case("LogQL that can't be parsed", "rule-expression", rules("count_over_time({a=\"b\"} |= x [5m]) > 1"),
         "expr: count",
         "This is not LogQL"),
    Case("an alert of no severity", "alert-severity", plain("severity: warning", "team: shop"), "alert: Broken",
         "Add the label `severity`", "Broken", good=GOOD),
    Case("an alert that says nothing", "alert-annotations", plain("description: d, runbook_url: /r.md, ", ""),
         "alert: Broken", "Add the annotations description, runbook_url", "Broken", good=GOOD),
    Case("an alert with its value as a label", "alert-value-label",
         plain("severity: warning", "severity: warning, now: '{{ $value }}'"), "severity: warning, now",
         "The label now holds the value", "Broken", good=GOOD),
    Case("an alert with its value as a label, in the other spelling", "alert-value-label",
         plain("severity: warning", "severity: warning, now: '{{ .Value | humanize }}'"), "severity: warning, now",
         "The label now"),
    Case("one bad sample", "alert-for", plain("for: 5m", "for: 30s"), "alert: Broken",
         "`for` is 30 s, and the group is evaluated every 30 s: take at least 60 s", "Broken",
         good=plain("for: 5m", "for: 1m")),
    Case("no `for` at all", "alert-for", plain("        for: 5m\n", ""), "alert: Broken", "There is no `for`"),
    Case("an exporter that nobody would miss", "alert-absent-guard",
         {"rules.yaml": rules(BURST)["rules.yaml"].split("      - alert: Gone")[0]}, "alert: Broken",
         "Nothing fires when fleetglass is missing", "Broken", good=rules(BURST)),
    Case("a rule that stands twice", "alert-duplicate",
         {"rules.yaml": rules(UP)["rules.yaml"].replace("Gone", "Broken").replace('absent(up{job="shop"})', UP)},
         "alert: Broken", "stands twice", "Broken", good=GOOD),
    Case("a group that stands twice", "alert-duplicate",
         {"rules.yaml": GOOD["rules.yaml"] + "  - {name: shop, rules: []}\n"}, "{name: shop", "stands in line 2 too"),
    Case("a uid of a managed rule in two files", "alert-duplicate",
         {"more.yaml": MANAGED.replace("name: lines", "name: more"), "managed.yaml": MANAGED}, "uid: spike",
         "is also that of 'Spike' in managed.yaml:8", "Spike"),
    Case("a recording that is used at once", "rule-order", {"rules.yaml": RECORDED}, "expr: job:errors:rate5m",
         "job:errors:rate5m is recorded in the same group", "job:errors:twice", "notice",
         good={"rules.yaml": RECORDED.replace("      - record: job:errors:twice",
                                              "  - name: later\n    rules:\n      - record: job:errors:twice")}),
    Case("a managed rule without states", "managed-alert",
         managed("        noDataState: OK\n        execErrState: Alerting\n", ""), "uid: spike",
         "Say noDataState, execErrState", "Spike", good=WHOLE),
    Case("a managed rule on a condition that isn't there", "managed-alert", managed("condition: B", "condition: C"),
         "condition: C", "The condition 'C' is none of the queries A, B", "Spike"),
    Case("a managed rule without a folder", "managed-alert", managed("    folder: Shop\n", ""), "orgId: 1",
         "Name the folder"),
    Case("a managed rule with a long uid", "managed-alert", managed("uid: spike", f"uid: {'x' * 41}"), "uid: xxx",
         "at most 40"),
    Case("a managed query without a time range", "managed-alert",
         managed("            relativeTimeRange: {from: 600, to: 0}\n", ""), "refId: A", "no relativeTimeRange"),
    Case("a managed rule on a datasource that isn't there", "ds-reference",
         {**managed("datasourceUid: loki", "datasourceUid: Loki"), "ds.yaml": datasources.text(datasources.Settings())},
         "expr: 'sum", "the datasource 'Loki', which is not provided", "Spike",
         good={**WHOLE, "ds.yaml": datasources.text(datasources.Settings())}),
    Case("0 for a dead source in an alert", "vector-zero",
         rules("(sum(rate(frontend_errors_total[5m])) or vector(0)) < 1"),
         "expr: (sum", "shows 0", "Broken", good=rules(BURST)),
    Case("a series that no rule records", "unknown-metric", rules("job:errors:rate5m > 1"), "expr: job:errors",
         "No rule at hand records job:errors:rate5m", "Broken", good={"rules.yaml": RECORDED}),
    Case("an alert by person", "unbounded-by",
         rules('sum by (email) (count_over_time({service_name="shop"} | logfmt [5m])) > 1'), "expr: sum", "email"),
    Case("a VMRule", "alert-severity",
         {"rule.yaml": "apiVersion: operator.victoriametrics.com/v1beta1\nkind: VMRule\nmetadata: {name: shop}\nspec:\n"
                       "  groups:\n    - name: shop\n      rules:\n        - alert: Broken\n          expr: up == 0\n"},
         "alert: Broken", "severity", "Broken"),
    Case("a PrometheusRule", "alert-severity",
         {"rule.yaml": "apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata: {name: shop}\nspec:\n"
                       "  groups:\n    - name: shop\n      rules:\n        - alert: Broken\n          expr: up == 0\n"},
         "alert: Broken", "severity", "Broken"),
    Case("a runbook that isn't there", "dead-link",
         plain("runbook_url: /r.md", "runbook_url: 'https://docs.example/runbooks/shop.md#brokn'"),
         "runbook_url: 'https",
         "no heading #brokn", "Broken", options=PAGES,
         good=plain("runbook_url: /r.md", "runbook_url: 'https://docs.example/runbooks/shop.md#broken'")),
    Case("a dashboard that isn't there", "dead-link",
         {**plain("dashboard_uid: shop", "dashboard_uid: shpo"), "board.json": board()}, "dashboard_uid: shpo",
         "No dashboard at hand has the uid 'shpo'", "Broken", good={**GOOD, "board.json": board()}),
]  # fmt: skip
