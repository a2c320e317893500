"""Traps in what stands around: Kubernetes objects, compose files, Helm values, configurations of Tempo and Loki."""

from __future__ import annotations

import textwrap

from telemetry.grafana.export import configmap
from telemetry.grafana.shipped import document
from telemetry.manifest import dump
from tests.lint_cases.case import Case, board, rules

SHOP = dump(configmap(document(board(), "board.json")))
GRAFANA = """\
services:
  grafana:
    image: grafana/grafana:13.1.1
    environment:
      GF_RENDERING_SERVER_URL: http://renderer:8081/render
      GF_RENDERING_RENDERER_TOKEN: ${RENDERER_TOKEN}
  renderer:
    image: grafana/grafana-image-renderer:v5.0.0
    environment:
      - AUTH_TOKEN=${RENDERER_TOKEN:?make one up}
"""
VICTORIA = """\
services:
  victoriametrics:
    image: victoriametrics/victoria-metrics:v1.151.0
    command: ["-storageDataPath=/data", "-opentelemetry.usePrometheusNaming=true"]
"""
TEMPO = """\
distributor:
  receivers:
    otlp:
      protocols:
        grpc: {endpoint: "0.0.0.0:4317"}
        http: {endpoint: "0.0.0.0:4318"}
storage:
  trace: {backend: local}
overrides:
  defaults:
    metrics_generator: {processors: [service-graphs, span-metrics]}
"""
LOKI = """\
auth_enabled: false
schema_config:
  configs:
    - {from: 2024-01-01, store: tsdb, object_store: filesystem, schema: v13, index: {prefix: index_, period: 24h}}
limits_config:
  allow_structured_metadata: true
"""
ALLOY = """\
services:
  alloy:
    image: grafana/alloy:v1.18.0
    command: [run, --storage.path=/var/lib/alloy, /etc/alloy/config.alloy]
    volumes: ["alloy:/var/lib/alloy", "./config.alloy:/etc/alloy/config.alloy:ro"]
"""


def edit(text: str, old: str, new: str, name: str = "compose.yaml") -> dict[str, str]:
    assert old in text, old
    return {name: text.replace(old, new, 1)}


def rule_object(*, labelled: bool) -> dict[str, str]:
    groups = textwrap.indent(rules('up{job="${JOB}"} == 0')["rules.yaml"], "  ")
    labels = "  labels: {kustomize.toolkit.fluxcd.io/substitute: disabled}\n" if labelled else ""
    head = f"apiVersion: operator.victoriametrics.com/v1beta1\nkind: VMRule\nmetadata:\n  name: shop\n{labels}spec:\n"
    return {"rule.yaml": head + groups}


def generated(label: str, substitute: str = "disabled") -> dict[str, str]:
    return {
        "kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nconfigMapGenerator:\n"
        f"  - name: boards\n    files: [shop.json]\n    options:\n      labels: {{grafana_dashboard: {label}, "
        f"kustomize.toolkit.fluxcd.io/substitute: {substitute}}}\n"
    }


def pod(arguments: str, mounts: str) -> dict[str, str]:
    return {
        "alloy.yaml": "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: alloy}\nspec:\n  template:\n    spec:\n"
        f"      containers:\n        - image: grafana/alloy:v1.18.0\n          args: [{arguments}]\n"
        f"          volumeMounts: [{mounts}]\n"
    }


BIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: big}\ndata:\n  a.txt: "
LINES = textwrap.indent(board(), "      ")
OPERATED = (
    "apiVersion: grafana.integreatly.org/v1beta1\nkind: GrafanaDashboard\nmetadata:\n  name: shop\n"
    f"  labels: {{kustomize.toolkit.fluxcd.io/substitute: disabled}}\nspec:\n  json: |\n{LINES}\n"
)
VALUES = f"dashboards:\n  default:\n    shop:\n      json: |\n{textwrap.indent(LINES, '  ')}\n"
FLUX = "kustomize.toolkit.fluxcd.io/substitute: disabled"
CASES = [
    # Kubernetes objects.
    Case("a dashboard that Flux empties (flux2-monitoring-example#44)", "flux-substitution",
         {"shop.yaml": SHOP.replace(FLUX, "a: b")}, "apiVersion", "would replace ${datasource}",
         "ConfigMap dashboard-shop",
         good={"shop.yaml": SHOP}),
    Case("a rule that Flux empties", "flux-substitution", rule_object(labelled=False), "apiVersion",
         "would replace ${JOB}", "VMRule shop", good=rule_object(labelled=True)),
    Case("a generated dashboard that Flux empties", "flux-substitution", generated('"1"', "enabled"), "name: boards",
         "in what is made", "generator boards", good=generated('"1"')),
    Case("a label that is a number", "configmap-label",
         {"shop.yaml": SHOP.replace("grafana_dashboard: '1'", "grafana_dashboard: 1")}, "grafana_dashboard: 1",
         'write grafana_dashboard: "1", with the quotes', "ConfigMap dashboard-shop", good={"shop.yaml": SHOP}),
    Case("a generated label that is a number", "configmap-label", generated("1"), "name: boards", "which is no string"),
    Case("a label of another value", "configmap-label",
         {"shop.yaml": SHOP.replace("grafana_dashboard: '1'", "grafana_dashboard: 'true'")},
         "grafana_dashboard: 'true'",
         'looks for "1"', level="notice"),
    Case("a dashboard that no sidecar finds", "configmap-label",
         {"shop.yaml": SHOP.replace("grafana_dashboard: '1'", "x: y")}, "apiVersion", "the label grafana_dashboard",
         level="notice"),
    Case("a ConfigMap of 1 MiB", "configmap-size",
         {"big.yaml": BIG + "x" * (1 << 20)},
         "apiVersion", "1,048,576 bytes", "ConfigMap big", good={"shop.yaml": SHOP}),
    Case("a ConfigMap that is kept twice", "configmap-size",
         {"big.yaml": BIG + "x" * (1 << 18)},
         "apiVersion", "--server-side", level="notice"),
    Case("a dashboard within a ConfigMap", "panel-units-rule",
         {"shop.yaml": SHOP.replace("reqps", "requests")}, '"id": 2', "no unit 'requests'",
         "ConfigMap dashboard-shop, shop.json, shop, panel 2 'Requests'", shift=-1),
    Case("a dashboard of Grafana's operator", "flux-substitution",
         {"shop.yaml": OPERATED.replace(FLUX, "a: b")}, "apiVersion", "would replace ${datasource}",
         "GrafanaDashboard shop", good={"shop.yaml": OPERATED}),
    Case("a dashboard within Helm values", "panel-units-rule", {"values.yaml": VALUES.replace("reqps", "requests")},
         '"id": 2', "no unit 'requests'", "dashboards.default.shop, shop, panel 2 'Requests'", shift=-1,
         good={"values.yaml": VALUES}),
    # The renderer.
    Case("a renderer without a token in Grafana (grafana-image-renderer#978)", "renderer-token",
         edit(GRAFANA, "      GF_RENDERING_RENDERER_TOKEN: ${RENDERER_TOKEN}\n", ""), "GF_RENDERING_SERVER_URL",
         "Set renderer_token", good={"compose.yaml": GRAFANA}),
    Case("a renderer that takes no token (grafana-image-renderer#978)", "renderer-token",
         edit(GRAFANA, "    environment:\n      - AUTH_TOKEN=${RENDERER_TOKEN:?make one up}\n", ""),
         "image: grafana/grafana-image-renderer", "Set AUTH_TOKEN", shift=-1),
    Case("two tokens (grafana-image-renderer#978)", "renderer-token",
         edit(GRAFANA, "AUTH_TOKEN=${RENDERER_TOKEN:?make one up}", "AUTH_TOKEN=${OTHER}"), "AUTH_TOKEN=",
         "is not the same"),
    Case("the default token (grafana#121408)", "renderer-token",
         edit(GRAFANA, "RENDERER_TOKEN: ${RENDERER_TOKEN}", 'RENDERER_TOKEN: "-"'), 'RENDERER_TOKEN: "-"',
         "which is the default"),
    Case("the default token in grafana.ini", "renderer-token",
         {"grafana.ini": "[rendering]\nserver_url = http://renderer:8081/render\nrenderer_token = -\n"},
         "renderer_token", "which is the default",
         good={"grafana.ini": "[rendering]\nserver_url = http://renderer:8081/render\nrenderer_token = x\n"}),
    Case("no token in Helm values", "renderer-token",
         {"values.yaml": "grafana.ini:\n  rendering:\n    server_url: http://renderer:8081/render\n"}, "server_url",
         "Set renderer_token"),
    # Images and arguments.
    Case("units that leak (VictoriaMetrics#10889)", "vm-version", edit(VICTORIA, "v1.151.0", "v1.141.0"),
         "victoriametrics:", "take 1.142 or later", good={"compose.yaml": VICTORIA}),
    Case("units that leak, in Helm values (VictoriaMetrics#10889)", "vm-version",
         {"values.yaml": "vmsingle:\n  spec:\n    image: {tag: v1.136.0}\n    extraArgs:\n"
                         "      opentelemetry.usePrometheusNaming: true\n"}, "spec:", "1.142"),
    Case("VictoriaMetrics of any version", "vm-version", edit(VICTORIA, ":v1.151.0", ""), "victoriametrics:",
         "name a version", level="notice"),
    Case("an image of any version", "image-pin", edit(GRAFANA, "grafana:13.1.1", "grafana:latest"), "grafana:",
         "'latest'",
         level="notice", good={"compose.yaml": GRAFANA}),
    Case("traces to localhost (faro-web-sdk#2036)", "otlp-receiver",
         edit(TEMPO, 'grpc: {endpoint: "0.0.0.0:4317"}', "grpc:", "tempo.yaml"), "grpc:",
         "The grpc receiver names no endpoint", good={"tempo.yaml": TEMPO}),
    Case("a receiver on loopback", "otlp-receiver", edit(TEMPO, "0.0.0.0:4318", "127.0.0.1:4318", "tempo.yaml"),
         "http:",
         "other machines don't reach it", level="notice"),
    Case("a receiver without protocols", "otlp-receiver", {"otelcol.yaml": "receivers:\n  otlp:\n"}, "otlp:",
         "Name protocols"),
    Case("logs pushed over OTLP (loki#14037)", "loki-path",
         {"compose.yaml": "services:\n  shop:\n    environment:\n"
                          "      OTEL_EXPORTER_OTLP_LOGS_ENDPOINT: http://loki:3100/loki/api/v1/push\n"},
         "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "speaks OTLP",
         good={"compose.yaml": "services:\n  shop:\n    environment:\n"
                               "      OTEL_EXPORTER_OTLP_LOGS_ENDPOINT: http://loki:3100/otlp/v1/logs\n"}),
    Case("OTLP pushed (loki#16174)", "loki-path",
         {"pod.yaml": "env:\n  - {name: FLEETGLASS_LOKI_URL, value: 'http://loki:3100/otlp'}\n"}, "FLEETGLASS_LOKI_URL",
         "takes OTLP: leave the path out"),
    Case("a Collector that pushes over OTLP (loki#14037)", "loki-path",
         {"otelcol.yaml": "exporters:\n  otlphttp/loki:\n    endpoint: http://loki:3100/loki/api/v1/push\n"},
         "endpoint",
         "end the endpoint in /otlp"),
    Case("positions that are lost (loki#9869)", "alloy-storage", edit(ALLOY, '"alloy:/var/lib/alloy", ', ""), "alloy:",
         "Nothing is mounted at /var/lib/alloy", good={"compose.yaml": ALLOY}),
    Case("positions in the working directory", "alloy-storage", edit(ALLOY, "=/var/lib/alloy,", "=data,"), "alloy:",
         "depends on the working directory"),
    Case("positions of a pod that are lost (loki#9869)", "alloy-storage", pod("run, --storage.path=/data", ""),
         "image:",
         "Nothing is mounted at /data", good=pod("run, --storage.path=/data", "{name: data, mountPath: /data}")),
    Case("positions of Alloy's chart that are lost (loki#9869)", "alloy-storage",
         {"values.yaml": "alloy:\n  configMap: {create: false}\n"}, "alloy:", "Nothing is mounted at /tmp/alloy",
         good={"values.yaml": "alloy:\n  configMap: {create: false}\n  storagePath: /var/lib/alloy\n"
                              "  mounts: {extra: [{name: data, mountPath: /var/lib/alloy}]}\n"}),
    # Tempo and Loki.
    *(Case(f"Tempo 3.0 without {key}", "tempo-leftover", {"tempo.yaml": f"{TEMPO}{key}:\n  x: 1\n"}, f"{key}:",
           f"no block '{key}'", good={"tempo.yaml": TEMPO})
      for key in ("ingester", "ingester_client", "compactor", "metrics_generator_client")),
    Case("Tempo's ingest", "tempo-leftover", {"tempo.yaml": f"{TEMPO}ingest:\n  enabled: true\n"}, "enabled: true",
         "no `ingest.enabled`"),
    Case("flat overrides of Tempo", "tempo-leftover",
         edit(TEMPO, "  defaults:\n", "  max_traces_per_user: 10\n  defaults:\n", "tempo.yaml"), "max_traces_per_user",
         "Flat overrides are gone"),
    Case("Tempo's local blocks", "tempo-leftover", edit(TEMPO, "span-metrics]", "span-metrics, local-blocks]",
         "tempo.yaml"),
         "local-blocks", "The processor local-blocks is gone"),
    Case("old blocks of Tempo", "tempo-leftover",
         edit(TEMPO, "{backend: local}", "{backend: local, block: {version: vParquet3}}", "tempo.yaml"), "vParquet3",
         "format vParquet3"),
    Case("Tempo as a scalable single binary", "tempo-leftover",
         {"tempo.yaml": f"target: scalable-single-binary\n{TEMPO}"},
         "target:", "take `all`"),
    Case("Tempo's ingesters in queries", "tempo-leftover",
         {"tempo.yaml": f"{TEMPO}query_frontend:\n  search:\n    query_ingesters_until: 1h\n"}, "query_ingesters_until",
         "gone with the ingesters"),
    Case("histograms of two kinds", "native-histograms",
         edit(TEMPO, "{processors: [", "{generate_native_histograms: both, processors: [", "tempo.yaml"),
         "generate_native_histograms", "vmrange", level="notice", good={"tempo.yaml": TEMPO}),
    Case("boltdb-shipper", "loki-leftover", edit(LOKI, "store: tsdb", "store: boltdb-shipper", "loki.yaml"), "boltdb",
         "add a period", good={"loki.yaml": LOKI}),
    Case("unordered_writes", "loki-leftover", {"loki.yaml": f"{LOKI}  unordered_writes: true\n"}, "unordered_writes",
         "take it out"),
    Case("allow_deletes", "loki-leftover", {"loki.yaml": f"{LOKI}  allow_deletes: true\n"}, "allow_deletes",
         "deletion_mode"),
    Case("row_shards of a period", "loki-leftover", edit(LOKI, "schema: v13", "schema: v13, row_shards: 16",
         "loki.yaml"),
         "row_shards", "no longer a field"),
    Case("boltdb's storage", "loki-leftover", {"loki.yaml": f"{LOKI}storage_config:\n  boltdb_shipper: {{}}\n"},
         "boltdb_shipper", "use tsdb_shipper"),
    Case("Loki in three targets", "loki-leftover",
         {"compose.yaml": "services:\n  loki-read:\n    image: grafana/loki:3.7.0\n    command: -target=read\n"},
         "loki-read:", "simple scalable"),
    Case("Loki's chart in three targets", "loki-leftover", {"values.yaml": "deploymentMode: SimpleScalable\n"},
         "deploymentMode",
         "is going"),
    Case("Promtail", "loki-leftover",
         {"compose.yaml": "services:\n  promtail:\n    image: grafana/promtail:3.5.0\n"}, "promtail:", "take Alloy"),
    Case("Loki without structured metadata", "loki-schema", edit(LOKI, "schema: v13", "schema: v12", "loki.yaml"),
         "schema: v12", "tsdb with v12", good={"loki.yaml": LOKI}),
    # Files.
    Case("JSON with a comma too many", "unreadable", {"board.json": '{\n "panels": [1,]\n}'}, '"panels"',
         "This is not JSON: a value was expected", good={"board.json": board()}),
    Case("YAML with a tab", "unreadable", {"rules.yaml": "groups:\n\t- name: shop\n"}, "- name", "This is not YAML"),
    Case("a template of a chart", "unreadable", {"rules.yaml": "groups:\n  {{- range .Values.groups }}\n"}, "range",
         "Lint what `helm template` makes of it", level="notice"),
    Case("a broken dashboard within a ConfigMap", "unreadable",
         {"shop.yaml": SHOP.replace('"uid": "shop",', '"uid": "shop"')}, '"title": "Shop"',
         "ConfigMap dashboard-shop, shop.json: "),
    Case("a key that stands twice", "duplicate-key", {"board.json": board().replace('"uid"', '"title": "x",\n"uid"',
         1)},
         '"title": "Shop"', "The key 'title' stands twice", good={"board.json": board()}),
    Case("an exception for a rule that isn't one", "unused-exception",
         {".lint": "exclusions:\n  panel-unit-rule: {reason: none}\n"}, "panel-unit-rule", "No rule is called"),
    Case("an exception without a reason", "unused-exception", {".lint": "exclusions:\n  panel-units-rule:\n"},
         "panel-units-rule", "Say why", good={".lint": "exclusions:\n  panel-units-rule: {reason: it is a demo}\n"}),
    Case("an exception that says more than is known", "unused-exception",
         {".lint": "warnings:\n  panel-units-rule: {reason: demo, entries: [{pannel: Up}]}\n"}, "panel-units-rule",
         "not pannel"),
    Case("a comment that allows what isn't a rule", "unused-exception",
         {"rules.yaml": "# fleetglass: allow alert-fro: soon\ngroups: []\n"}, "allow", "No rule is called 'alert-fro'"),
    Case("a comment that allows without a reason", "unused-exception",
         {"rules.yaml": "# fleetglass: allow alert-for\ngroups: []\n"}, "allow", "Say why"),
]  # fmt: skip
