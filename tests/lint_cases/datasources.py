"""Traps in datasource provisioning, most of which end Grafana 13 at start with an error that names nothing."""

from __future__ import annotations

from telemetry.grafana import datasources
from telemetry.grafana.lint.run import Options
from tests.lint_cases.case import Case

OURS = datasources.text(datasources.Settings())
REPLACED = datasources.text(datasources.Settings(replace=True))
LOCKED = Options(locked={"1/Loki": "P8E80F9AEF21F6940"})


def ours(old: str, new: str, text: str = OURS) -> dict[str, str]:
    """Our own file with one change."""
    assert old in text
    return {"datasources.yaml": text.replace(old, new, 1)}


GOOD = {"datasources.yaml": OURS}
SECOND = """\
apiVersion: 1
datasources:
  - {name: Logs, uid: loki, type: loki, url: "http://loki:3100"}
"""

CASES = [
    Case("a new uid under an old name (grafana#110740)", "ds-uid-change", GOOD, "uid: loki",
         "The uid was 'P8E80F9AEF21F6940' and is now 'loki'", "datasource 'Loki'", options=LOCKED,
         good={"datasources.yaml": REPLACED}),
    Case("a datasource without a uid", "ds-uid", ours("    uid: loki\n", ""), "- name: Loki", "explicit uid",
         "datasource 'Loki'", good=GOOD),
    Case("a datasource whose uid was given by Grafana", "ds-uid", ours("    uid: loki\n", ""), "- name: Loki",
         "'P8E80F9AEF21F6940', as the lockfile has it", options=LOCKED),
    Case("a uid with blanks", "ds-uid", ours("uid: loki", "uid: my loki"), "uid: my loki", "letters, digits"),
    Case("a uid of 41 characters", "ds-uid", ours("uid: loki", f"uid: {'x' * 41}"), "uid: xxx", "has 41 characters"),
    Case("prune", "ds-prune", ours("apiVersion: 1\n", "apiVersion: 1\nprune: true\n"), "prune", "doesn't start with it",
         good=ours("apiVersion: 1\n", "apiVersion: 1\nprune: false\n")),
    Case("a correlation to nowhere (grafana#123178)", "ds-correlation",
         ours("    uid: loki\n", "    uid: loki\n    correlations: [{targetUID: tmpo, label: Trace}]\n"),
         "correlations", "correlations[0].targetUID names the uid 'tmpo'", "datasource 'Loki'",
         good=ours("    uid: loki\n", "    uid: loki\n    correlations: [{targetUID: tempo, label: Trace}]\n")),
    Case("a derived field to nowhere", "ds-reference", ours("datasourceUid: tempo", "datasourceUid: Tempo"),
         "datasourceUid: Tempo",
         "jsonData.derivedFields[0].datasourceUid names the uid 'Tempo', which is not provided; "
         "'tempo' is", "datasource 'Loki'", good=GOOD),
    Case("a service map to nowhere", "ds-reference",
         ours("serviceMap:\n        datasourceUid: VictoriaMetrics", "serviceMap:\n        datasourceUid: prometheus"),
         "datasourceUid: prometheus", "jsonData.serviceMap.datasourceUid", "datasource 'Tempo'",
         good=None),
    Case("a uid that is provided elsewhere", "ds-reference", ours("datasourceUid: tempo", "datasourceUid: traces"),
         "datasourceUid: traces", "not provided"),
    Case("one uid in two files", "ds-duplicate", {"more.yaml": SECOND, "datasources.yaml": OURS}, "name: Logs",
         "The uid 'loki' is also that of 'Loki' in datasources.yaml:", "datasource 'Logs'",
         good={"more.yaml": SECOND.replace("uid: loki", "uid: logs"), "datasources.yaml": OURS}),
    Case("one name in two files", "ds-duplicate",
         {"more.yaml": SECOND.replace("Logs", "Loki").replace("uid: loki", "uid: l2"), "datasources.yaml": OURS},
         "name: Loki", "The name stands also in datasources.yaml:"),
    Case("two defaults", "ds-default", ours("    uid: loki\n", "    uid: loki\n    isDefault: true\n"), "- name: Loki",
         "'VictoriaMetrics' in datasources.yaml:4 is the default already", "datasource 'Loki'", good=GOOD),
    Case("a variable that the environment eats", "ds-dollar", ours("$${__value.raw}", "${__value.raw}"),
         "url: ${__value.raw}", "jsonData.derivedFields[0].url: write $${__value.raw} for", "datasource 'Loki'",
         good=ours("url: http://loki:3100", "url: ${LOKI_URL}")),
    Case("tags that the environment eats", "ds-dollar", ours("{$$__tags}", "{$__tags}"), "query: sum(rate(",
         "write $$__tags for $__tags", "datasource 'Tempo'"),
    Case("traces to logs without tags", "ds-link-tags",
         ours("        tags:\n          - key: service.name\n            value: service_name\n", ""), "tracesToLogsV2",
         "Name tags",
         "datasource 'Tempo'", good=GOOD),
    Case("traces to all logs", "ds-link-tags", ours("{$${__tags}}", '{service_name=~".+"}'), "tracesToLogsV2",
         "doesn't use $${__tags}"),
    Case("traces to logs as before", "ds-link-tags", ours("tracesToLogsV2", "tracesToLogs"), "tracesToLogs",
         "write tracesToLogsV2"),
    Case("two links on one line", "ds-derived-fields",
         ours("      derivedFields:\n", "      derivedFields:\n        - {name: T, matcherRegex: trace_id, "
              "matcherType: label, datasourceUid: tempo}\n"),
         "- name: Trace", "Two derived fields lead to 'tempo'", "datasource 'Loki'", "notice", good=GOOD),
    Case("a password in clear", "ds-secret", ours("    uid: loki\n",
         "    uid: loki\n    secureJsonData: {basicAuthPassword: x}\n"),
         "secureJsonData", "stands here in clear", level="notice",
         good={"datasources.yaml": datasources.text(datasources.Settings(tenant="acme"))}),
    Case("a push address for queries (loki#16174)", "loki-path",
         ours("url: http://loki:3100", "url: http://loki:3100/loki/api/v1/push"), "url: http://loki", "404",
         "datasource 'Loki'", good=GOOD),
    Case("exemplars of VictoriaMetrics (VictoriaMetrics#1169)", "exemplars",
         ours("      httpMethod: POST\n", "      httpMethod: POST\n      exemplarTraceIdDestinations:\n"
              "        - {name: trace_id, datasourceUid: tempo}\n"),
         "exemplarTraceIdDestinations", "stores no exemplars", "datasource 'VictoriaMetrics'", good=GOOD),
    Case("a datasource in Helm values", "ds-prune",
         {"values.yaml": "grafana:\n  datasources:\n    datasources.yaml:\n      apiVersion: 1\n      prune: true\n"
                         "      datasources: []\n"},
         "prune", "doesn't start with it"),
]  # fmt: skip
