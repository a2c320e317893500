"""Every rule of ``fleetglass alloy check``: what it says of a bad configuration, and that a good one is left alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from telemetry.alloy import RULES, Finding, Options, check

LOKI = """
loki.write "out" {
	endpoint {
		url = "http://loki:3100/loki/api/v1/push"
	}
}
"""
VM = """
prometheus.remote_write "vm" {
	endpoint {
		url = "http://victoriametrics:8428/api/v1/write"
	}
}
"""
TEMPO = """
otelcol.exporter.otlphttp "tempo" {
	client {
		endpoint = "http://tempo:4318"
	}
}
"""


@pytest.fixture
def judge(tmp_path: Path):
    """A function from a configuration (and options) to its findings, each as ``LINE LEVEL RULE: SENTENCE``."""

    def run(text: str, **options) -> list[str]:
        path = tmp_path / "config.alloy"
        path.write_text(text, "utf-8")
        return [_short(finding) for finding in check([path], Options(**{"local": True, **options}))]

    return run


def _short(finding: Finding) -> str:
    return f"{finding.line} {finding.level} {finding.rule}: {finding.message}"


def _otlp(endpoint: str, client: str = "") -> str:
    """An OTLP exporter over gRPC that is used."""
    return f"""otelcol.exporter.otlp "tempo" {{
	client {{
		endpoint = {endpoint}
		{client}
	}}
}}

otelcol.receiver.otlp "in" {{
	http {{ }}
	output {{
		traces = [otelcol.exporter.otlp.tempo.input]
	}}
}}
"""


def _otlphttp(client: str) -> str:
    return _otlp(client, "").replace("exporter.otlp", "exporter.otlphttp")


def _push(url: str) -> str:
    return f"""loki.write "out" {{
	endpoint {{
		url = {url}
	}}
}}

loki.source.api "in" {{
	http {{ }}
	forward_to = [loki.write.out.receiver]
}}
"""


def _scrape(url: str) -> str:
    return f"""prometheus.remote_write "vm" {{
	endpoint {{
		url = {url}
	}}
}}

prometheus.scrape "app" {{
	targets    = [{{"__address__" = "app:8000"}}]
	forward_to = [prometheus.remote_write.vm.receiver]
}}
"""


def _pipeline(stages: str, label: str = "app") -> str:
    return f"""loki.source.api "in" {{
	http {{ }}
	forward_to = [loki.process.{label}.receiver]
}}
loki.process "{label}" {{
	forward_to = [loki.write.out.receiver]
{stages}
}}
{LOKI}"""


# --- addresses ------------------------------------------------------------------------------------------

INSECURE = "tls {\n\t\t\tinsecure = true\n\t\t}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(
            _otlp('"tempo:4318"', INSECURE),
            '3 error port: endpoint of otelcol.exporter.otlp "tempo" speaks OTLP over gRPC, but port 4318 is '
            "OTLP over "
            "HTTP; send to port 4317, or use otelcol.exporter.otlphttp",
            id="grafana/alloy#4092: gRPC exporter on the HTTP port",
        ),
        pytest.param(
            _otlp('"tempo:14318"', INSECURE),
            '3 error port: endpoint of otelcol.exporter.otlp "tempo" speaks OTLP over gRPC, but port 14318 is '
            "OTLP over "
            "HTTP; send to port 4317, or use otelcol.exporter.otlphttp",
            id="gRPC exporter on an HTTP port that was moved",
        ),
        pytest.param(
            _otlp('"loki:3100"', INSECURE),
            '3 error port: endpoint of otelcol.exporter.otlp "tempo" speaks OTLP over gRPC, but port 3100 is '
            "Loki's HTTP "
            'server; use otelcol.exporter.otlphttp with endpoint "http://HOST:3100/otlp"',
            id="gRPC exporter on Loki",
        ),
        pytest.param(
            _otlp('"http://tempo:4317/v1/traces"'),
            '3 error path: endpoint of otelcol.exporter.otlp "tempo" speaks gRPC, which has no URL path; write '
            '"tempo:4317", or use otelcol.exporter.otlphttp',
            id="gRPC exporter with a path",
        ),
        pytest.param(
            _otlp('"tempo:4317"'),
            '3 warning tls: otelcol.exporter.otlp "tempo" expects TLS, which tempo:4317 hardly speaks; add tls { '
            "insecure "
            "= true } to its client, or tls { ca_file = … } when it does",
            id="grafana/alloy#4092: plain host without insecure",
        ),
        pytest.param(
            _otlp('"10.0.0.7:4317"', "tls {\n\t\t\tinsecure = false\n\t\t}"),
            '3 warning tls: otelcol.exporter.otlp "tempo" expects TLS, which 10.0.0.7:4317 hardly speaks; add '
            "tls { "
            "insecure = true } to its client, or tls { ca_file = … } when it does",
            id="private address, insecure said to be false",
        ),
        pytest.param(
            _otlp('sys.env("TEMPO")', INSECURE),
            '3 warning empty-env: endpoint of otelcol.exporter.otlp "tempo" is empty where TEMPO is not set, and '
            "Alloy "
            'starts nevertheless; write coalesce(sys.env("TEMPO"), "…") with a default',
            id="address from a variable without a default",
        ),
        pytest.param(
            _otlphttp('"http://tempo:4317"'),
            '3 error port: endpoint of otelcol.exporter.otlphttp "tempo" speaks OTLP over HTTP, but port 4317 is '
            "OTLP "
            "over gRPC; send to port 4318, or use otelcol.exporter.otlp",
            id="HTTP exporter on the gRPC port",
        ),
        pytest.param(
            _otlphttp('"http://tempo:3200"'),
            '3 error port: endpoint of otelcol.exporter.otlphttp "tempo" speaks OTLP over HTTP, but port 3200 is '
            "Tempo's "
            "query API, which takes no data; send to Tempo's receiver, port 4318",
            id="HTTP exporter on Tempo's query port",
        ),
        pytest.param(
            _otlphttp('"tempo:4318"'),
            '3 error address: endpoint of otelcol.exporter.otlphttp "tempo" needs a scheme: write '
            '"http://tempo:4318", '
            "or https",
            id="HTTP exporter without a scheme",
        ),
        pytest.param(
            _otlphttp('"http://:4318"'),
            '3 error address: endpoint of otelcol.exporter.otlphttp "tempo": "http://:4318" names no host',
            id="no host",
        ),
        pytest.param(
            _otlphttp('"http://tempo:port"'),
            '3 error address: endpoint of otelcol.exporter.otlphttp "tempo": "http://tempo:port" is no address: '
            "Port "
            "could not be cast to integer value as 'port'",
            id="no port number",
        ),
        pytest.param(
            _otlphttp('"http://tempo:4318/v1/traces"'),
            '3 error path: endpoint of otelcol.exporter.otlphttp "tempo": the exporter adds /v1/traces itself; '
            "write "
            '"http://tempo:4318"',
            id="signal path in the base URL",
        ),
        pytest.param(
            _otlphttp('"http://loki:3100/loki/api/v1/push"'),
            '3 error path: endpoint of otelcol.exporter.otlphttp "tempo": /loki/api/v1/push speaks Loki\'s push '
            "protocol, "
            'not OTLP, and answers 404; write "http://loki:3100/otlp", or send with otelcol.exporter.loki and '
            "loki.write",
            id="grafana/loki#14037: OTLP to the push path",
        ),
        pytest.param(
            _otlphttp('"http://loki:3100"'),
            '3 error path: endpoint of otelcol.exporter.otlphttp "tempo": Loki takes OTLP below /otlp; write '
            '"http://loki:3100/otlp"',
            id="OTLP to Loki without /otlp",
        ),
        pytest.param(
            _otlphttp('"http://vm:8428"'),
            '3 error path: endpoint of otelcol.exporter.otlphttp "tempo": VictoriaMetrics takes OTLP below '
            '/opentelemetry; write "http://vm:8428/opentelemetry"',
            id="OTLP to VictoriaMetrics without its path",
        ),
        pytest.param(
            _otlphttp('"http://vm:8428/api/v1/write"'),
            '3 error path: endpoint of otelcol.exporter.otlphttp "tempo": /api/v1/write takes remote write, not '
            "OTLP; "
            "use otelcol.exporter.prometheus and prometheus.remote_write",
            id="OTLP to remote write",
        ),
        pytest.param(
            _push('"http://loki:3100/otlp/v1/logs"'),
            '3 error path: url of loki.write "out": /otlp/v1/logs is for OTLP, and loki.write speaks Loki\'s '
            'push protocol, so that Loki answers 404; write "http://loki:3100/loki/api/v1/push", or send OTLP with '
            "otelcol.exporter.otlphttp",
            id="grafana/loki#16174: loki.write to the OTLP path",
        ),
        pytest.param(
            _push('"http://loki:3100"'),
            '3 error path: url of loki.write "out": Loki takes lines at /loki/api/v1/push, not at "/"; write '
            '"http://loki:3100/loki/api/v1/push"',
            id="loki.write without a path",
        ),
        pytest.param(
            _push('"http://otel:4318/loki/api/v1/push"'),
            '3 error port: url of loki.write "out" speaks Loki\'s push protocol, but port 4318 is OTLP over '
            "HTTP; use otelcol.exporter.otlphttp for OTLP, or Loki's port, 3100",
            id="loki.write on an OTLP port",
        ),
        pytest.param(
            _push('sys.env("LOKI") + "/loki/api/v1/push"'),
            '3 warning empty-env: url of loki.write "out" is empty where LOKI is not set, and Alloy starts '
            'nevertheless; write coalesce(sys.env("LOKI"), "…") with a default',
            id="variable and a path",
        ),
        pytest.param(
            _scrape('"http://vm:8428"'),
            '3 error path: url of prometheus.remote_write "vm": it needs the path of the write endpoint; '
            'write "http://vm:8428/api/v1/write"',
            id="remote_write without a path",
        ),
        pytest.param(
            _scrape('"http://vm:8428/api/v1/import/prometheus"'),
            '3 error path: url of prometheus.remote_write "vm": /api/v1/import/prometheus imports text or '
            'JSON, and prometheus.remote_write sends its own protocol; write "http://vm:8428/api/v1/write"',
            id="remote_write to import",
        ),
        pytest.param(
            _scrape('"http://vm:8428/api/v1/query"'),
            '3 error path: url of prometheus.remote_write "vm": /api/v1/query is for reading; write '
            '"http://vm:8428/api/v1/write"',
            id="remote_write to a query path",
        ),
        pytest.param(
            _scrape('"http://loki:3100/api/v1/write"'),
            '3 error port: url of prometheus.remote_write "vm" speaks Prometheus remote write, but port 3100 '
            "is Loki's HTTP server; check the address",
            id="remote_write to Loki",
        ),
    ],
)
def test_an_address_that_can_not_work_is_named_with_what_to_write(judge, text: str, said: str) -> None:
    assert judge(text) == [said]


@pytest.mark.parametrize(
    "text",
    [
        _otlp('"tempo:4317"', INSECURE),
        _otlp('"http://tempo:4317"'),
        _otlp('"tempo.example.com:443"'),
        _otlp('"tempo:4317"', 'tls {\n\t\t\tca_file = "/ca.pem"\n\t\t}'),
        _otlp('"dns:///tempo:4317"', INSECURE),
        _otlphttp('"http://loki:3100/otlp"'),
        _otlphttp('"https://otlp.example.com/base"'),
        _otlphttp('"http://vm:8428/opentelemetry"'),
        _push('"http://logs:9428/insert/loki/api/v1/push"'),
        _push('"https://proxy.example.com/tenant/loki/api/v1/push"'),
        _push('coalesce(sys.env("LOKI_URL"), "http://loki:3100") + "/loki/api/v1/push"'),
        _push('string.trim_suffix("http://loki:3100/", "/") + "/loki/api/v1/push"'),
        _scrape('"http://vm:8480/insert/0/prometheus/api/v1/write"'),
        _scrape('"https://mimir.example.com/api/v1/push"'),
    ],
)
def test_an_address_that_works_is_left_alone(judge, text: str) -> None:
    assert judge(text) == []


def test_an_address_handed_to_a_module_is_judged_where_it_is_written(judge) -> None:
    text = f"""declare "to_loki" {{
	argument "url" {{ }}
	{LOKI.replace('"http://loki:3100/loki/api/v1/push"', "argument.url.value")}
	export "receiver" {{
		value = loki.write.out.receiver
	}}
}}

to_loki "good" {{
	url = "http://loki:3100/loki/api/v1/push"
}}

to_loki "bad" {{
	url = "http://loki:3100/otlp"
}}

loki.source.api "in" {{
	http {{ }}
	forward_to = [to_loki.good.receiver, to_loki.bad.receiver]
}}
"""
    assert judge(text) == [
        (
            '20 error path: url of loki.write "out": /otlp is for OTLP, and loki.write speaks Loki\'s push '
            'protocol, so that Loki answers 404; write "http://loki:3100/loki/api/v1/push", or send OTLP with '
            "otelcol.exporter.otlphttp"
        )
    ]


def test_the_hosts_of_a_load_balancer_are_addresses_too(judge) -> None:
    text = """otelcol.exporter.loadbalancing "tier" {
	resolver {
		static {
			hostnames = ["alloy-0:4318", "alloy-1:4317"]
		}
	}

	protocol {
		otlp {
			client { }
		}
	}
}

otelcol.receiver.otlp "in" {
	grpc { }
	output {
		traces = [otelcol.exporter.loadbalancing.tier.input]
	}
}
"""
    assert judge(text) == [
        (
            '4 error port: hostnames of otelcol.exporter.loadbalancing "tier" speaks OTLP over gRPC, but port 4318 '
            "is OTLP "
            "over HTTP; send to port 4317, or use otelcol.exporter.otlphttp"
        ),
        (
            '4 warning tls: otelcol.exporter.loadbalancing "tier" expects TLS, which alloy-0:4318 hardly speaks; add '
            "tls { "
            "insecure = true } to its client, or tls { ca_file = … } when it does"
        ),
    ]


def test_a_receiver_on_the_loopback_is_a_notice_unless_local_is_meant(judge) -> None:
    """grafana/faro-web-sdk#2036: a receiver on 127.0.0.1 refuses what comes from elsewhere."""
    text = f"""otelcol.receiver.otlp "in" {{
	grpc {{
		endpoint = "127.0.0.1:4317"
	}}

	output {{
		traces = [otelcol.exporter.otlphttp.tempo.input]
	}}
}}
{TEMPO}"""
    assert judge(text, local=False) == [
        (
            '3 notice localhost: grpc.endpoint of otelcol.receiver.otlp "in" is "127.0.0.1:4317", which only this '
            "machine (in "
            'a container: only this container) can reach; "0.0.0.0:4317" is reached by others; check with --local '
            "when that "
            "is meant"
        )
    ]
    assert judge(text, local=True) == []
    assert judge(text.replace("127.0.0.1", "0.0.0.0"), local=False) == []


# --- labels ---------------------------------------------------------------------------------------------


def test_a_label_taken_from_a_field_without_end_is_a_warning(judge) -> None:
    stages = """
	stage.logfmt {
		mapping = {"trace_id" = "", "who" = "email", "level" = ""}
	}

	stage.labels {
		values = {
			"trace_id" = "",
			"who"      = "email",
			"level"    = "",
		}
	}
"""
    assert judge(_pipeline(stages)) == [
        (
            '14 warning payload-label: loki.process "app" makes trace_id a label, and so a stream for every value of '
            "it; keep "
            "it in the line, or use stage.structured_metadata"
        ),
        (
            '15 warning payload-label: loki.process "app" makes email a label, and so a stream for every value of '
            "it; keep it "
            "in the line, or use stage.structured_metadata"
        ),
    ]
    assert judge(_pipeline(stages.replace("stage.labels", "stage.structured_metadata"))) == []


@pytest.mark.parametrize("about", ["label", "selector"])
def test_no_field_of_a_browser_error_becomes_a_label(judge, about: str) -> None:
    stages = """	stage.json {
		expressions = {"kind" = ""}
	}
	stage.labels {
		values = {"kind" = ""}
	}"""
    if about == "selector":
        text = _pipeline(
            f'	stage.match {{\n		selector = `{{service_name="shop"}} |= "frontend-error"`\n{stages}\n	}}'
        )
        line = 13
    else:
        text, line = _pipeline(stages, "frontend"), 11
    name = "app" if about == "selector" else "frontend"
    assert judge(text) == [
        (
            f'{line} warning payload-label: loki.process "{name}" makes kind of a browser\'s error a label, which '
            f"anybody "
            "with a browser can fill; keep it in the line, or use stage.structured_metadata"
        )
    ]
    assert judge(_pipeline(stages)) == []


def test_what_a_faro_receiver_sends_is_a_browser_error_whatever_its_pipeline_is_called(judge) -> None:
    text = f"""faro.receiver "in" {{
	server {{
		api_key = "k"
	}}
	sourcemaps {{
		download = false
	}}
	output {{
		logs = [loki.relabel.first.receiver]
	}}
}}
loki.relabel "first" {{
	forward_to = [loki.process.app.receiver]
}}
loki.process "app" {{
	forward_to = [loki.write.out.receiver]
	stage.logfmt {{
		mapping = {{"kind" = ""}}
	}}
	stage.labels {{
		values = {{"kind" = ""}}
	}}
}}
{LOKI}"""
    (said,) = judge(text)
    assert said.startswith(
        '21 warning payload-label: loki.process "app" makes kind of a browser\'s error a label, which anybody '
    )


def test_attributes_hinted_as_labels_are_judged_as_labels(judge) -> None:
    text = f"""otelcol.receiver.otlp "in" {{
	http {{ }}
	output {{
		logs = [otelcol.processor.attributes.hint.input]
	}}
}}
otelcol.processor.attributes "hint" {{
	action {{
		key    = "loki.attribute.labels"
		value  = "level, user.id"
		action = "insert"
	}}
	output {{
		logs = [otelcol.exporter.loki.out.input]
	}}
}}
otelcol.exporter.loki "out" {{
	forward_to = [loki.write.out.receiver]
}}
{LOKI}"""
    assert judge(text) == [
        (
            '10 warning payload-label: otelcol.processor.attributes "hint" makes user.id a label, and so a stream '
            "for every "
            "value of it; leave it out, it stays in the line"
        )
    ]


def _many_labels(count: int, *, dropped: int = 0) -> str:
    """A pipeline with ``count`` labels, one of them given by loki.write, of which ``dropped`` are taken off "
    "again."""
    values = ", ".join(f'"label_{index}" = "x"' for index in range(count - 1))
    gone = ", ".join(f'"label_{index}"' for index in range(dropped))
    stages = f"""	stage.static_labels {{
		values = {{{values}}}
	}}
	stage.label_drop {{
		values = [{gone}]
	}}"""
    return _pipeline(stages).replace('push"\n\t}', 'push"\n\t}\n\texternal_labels = {"cluster" = "home"}')


def test_more_labels_than_loki_takes_are_counted_over_the_whole_way(judge) -> None:
    (said,) = judge(_many_labels(16))
    assert said.startswith(
        '15 error label-count: lines reach loki.write "out" with 16 labels, and Loki refuses more than 15; keep '
        "fewer "
        "(cluster, label_0, label_1, "
    )
    assert judge(_many_labels(15)) == []
    assert judge(_many_labels(18, dropped=4)) == []


# --- how it runs ----------------------------------------------------------------------------------------

SAMPLING = f"""otelcol.receiver.otlp "in" {{
	http {{ }}
	output {{
		traces = [otelcol.processor.tail_sampling.keep.input]
	}}
}}

otelcol.processor.tail_sampling "keep" {{
	policy {{
		name = "all"
		type = "always_sample"
	}}

	output {{
		traces = [otelcol.exporter.otlphttp.tempo.input]
	}}
}}
{TEMPO}"""


def test_tail_sampling_needs_a_load_balancer_where_several_replicas_run(judge) -> None:
    assert judge(SAMPLING, replicas=3) == [
        (
            '8 error replicas: otelcol.processor.tail_sampling "keep" with 3 replicas decides on parts of traces, '
            "since each "
            "replica sees only the spans sent to it; put an otelcol.exporter.loadbalancing (routing_key traceID) in "
            "front of "
            "them, and check both together"
        )
    ]
    assert judge(SAMPLING) == [
        (
            '8 notice replicas: otelcol.processor.tail_sampling "keep" is right only while one replica runs; with '
            "more, put "
            "an otelcol.exporter.loadbalancing (routing_key traceID) in front of them, and check both together (say "
            "--replicas 1 when it is one)"
        )
    ]
    assert judge(SAMPLING, replicas=1) == []


def _balancer(key: str) -> str:
    return f"""otelcol.exporter.loadbalancing "tier" {{
	{key}
	resolver {{
		dns {{
			hostname = "alloy.example.com"
		}}
	}}
	protocol {{
		otlp {{
			client {{ }}
		}}
	}}
}}

otelcol.receiver.otlp "in" {{
	http {{ }}
	output {{
		traces = [otelcol.exporter.loadbalancing.tier.input]
	}}
}}
"""


def test_the_load_balancer_may_stand_in_another_file_of_the_same_check(tmp_path: Path) -> None:
    (tmp_path / "tier.alloy").write_text(SAMPLING)
    (tmp_path / "edge.alloy").write_text(_balancer(""))
    assert check([tmp_path], Options(replicas=3, local=True)) == ()
    (tmp_path / "edge.alloy").write_text(_balancer('routing_key = "service"'))
    assert [f.rule for f in check([tmp_path], Options(replicas=3, local=True))] == ["replicas"]


def test_metrics_made_behind_the_sampling_count_too_little(judge) -> None:
    text = SAMPLING.replace(
        "		traces = [otelcol.exporter.otlphttp.tempo.input]",
        "		traces = [otelcol.exporter.otlphttp.tempo.input, otelcol.connector.spanmetrics.red.input]",
    )
    text += f"""
otelcol.connector.spanmetrics "red" {{
	histogram {{
		explicit {{ }}
	}}
	output {{
		metrics = [otelcol.exporter.prometheus.vm.input]
	}}
}}
otelcol.exporter.prometheus "vm" {{
	forward_to = [prometheus.remote_write.vm.receiver]
}}
{VM}"""
    assert judge(text, replicas=1) == [
        (
            '25 warning sampled-metrics: otelcol.connector.spanmetrics "red" counts only the spans that '
            'otelcol.processor.tail_sampling "keep" kept; feed it from in front of the sampling'
        )
    ]


def _pods(selector: str = "", clustering: str = "") -> str:
    return f"""discovery.kubernetes "pods" {{
	role = "pod"
	{selector}
}}
discovery.relabel "pods" {{
	targets = discovery.kubernetes.pods.targets
	rule {{
		source_labels = ["__meta_kubernetes_namespace"]
		target_label  = "namespace"
	}}
}}
loki.source.kubernetes "pods" {{
	targets    = discovery.relabel.pods.output
	forward_to = [loki.write.out.receiver]
	{clustering}
}}
{LOKI}"""


NODE = 'selectors {\n\t\trole = "pod"\n\t\tfield = "spec.nodeName=" + sys.env("NODE_NAME")\n\t}'
CLUSTERING = "clustering {\n\t\tenabled = true\n\t}"


def test_pods_are_read_once_by_node_or_by_clustering(judge) -> None:
    """grafana/k8s-monitoring-helm#897: duplicate logs from a DaemonSet."""
    assert judge(_pods()) == [
        (
            '12 warning every-node: loki.source.kubernetes "pods" reads the pods of all nodes, and every replica '
            "does, so that "
            'lines arrive several times; select the node (field = "spec.nodeName=" + sys.env("NODE_NAME")) in a '
            "DaemonSet, or "
            "add clustering { enabled = true } (say --replicas 1 when it is one)"
        )
    ]
    assert judge(_pods(NODE, CLUSTERING)) == [
        (
            '15 warning every-node: loki.source.kubernetes "pods" reads pods of its own node and divides them among '
            "all "
            "replicas as well, so that some pods are read by nobody; keep the node filter or clustering, not both"
        )
    ]
    assert judge(_pods(NODE)) == []
    assert judge(_pods(clustering=CLUSTERING)) == []
    assert judge(_pods(), replicas=1) == []


def test_a_rule_that_keeps_the_own_node_counts_as_a_filter(judge) -> None:
    rule = """rule {
		source_labels = ["__meta_kubernetes_pod_node_name"]
		regex         = constants.hostname
		action        = "keep"
	}
}
loki.source"""
    assert judge(_pods().replace("}\nloki.source", rule)) == []


def _files(stages: str, files: str = "") -> str:
    return f"""local.file_match "app" {{
	path_targets = [{{"__path__" = "/var/log/*.log"}}]
	{files}
}}
loki.source.file "app" {{
	targets    = local.file_match.app.targets
	forward_to = [loki.process.app.receiver]
}}
loki.process "app" {{
	forward_to = [loki.write.out.receiver]
	{stages}
}}
{LOKI}"""


TIMESTAMP = 'stage.timestamp {\n\t\tsource = "ts"\n\t\tformat = "RFC3339"\n\t}'
DROP = 'stage.drop {\n\t\tolder_than = "168h"\n\t}'


def test_files_read_again_after_a_restart_are_told_what_loki_refuses(judge) -> None:
    """grafana/loki#9869: entry too far behind."""
    begin = (
        '5 notice old-lines: loki.source.file "app" reads files from their start when its positions are lost, '
        "and Loki "
        "refuses old lines (entry too far behind); keep --storage.path on a volume, and add "
    )
    time, old = (
        "stage.timestamp, which keeps the time of the line",
        "stage.drop with older_than, which drops what Loki refuses",
    )
    assert judge(_files("")) == [f"{begin}{time} and {old}"]
    assert judge(_files(TIMESTAMP)) == [f"{begin}{old}"]
    assert judge(_files(TIMESTAMP + "\n" + DROP)) == []
    (only_time,) = judge(_files("", 'ignore_older_than = "24h"'))
    assert only_time.endswith(f"add {time}")


def test_a_faro_receiver_that_trusts_everybody_is_told_so(judge) -> None:
    text = f"""faro.receiver "browsers" {{
	server {{
		listen_address       = "0.0.0.0"
		cors_allowed_origins = ["*"]
	}}
	output {{
		logs = [loki.write.out.receiver]
	}}
}}
{LOKI}"""
    assert judge(text) == [
        (
            '1 warning open-door: faro.receiver "browsers" fetches source maps from any address that a report names, '
            "also "
            "inside your network; set sourcemaps { download = false }, or list download_from_origins"
        ),
        (
            '1 warning open-door: faro.receiver "browsers" takes anything from anybody: set server { api_key = … }, '
            "or let a "
            "proxy check who sends"
        ),
        (
            '4 warning open-door: faro.receiver "browsers" lets pages of every site send (cors_allowed_origins with '
            "*); list "
            "the origins of your pages"
        ),
    ]


def test_a_faro_receiver_without_an_address_listens_on_the_loopback(judge) -> None:
    text = f"""faro.receiver "browsers" {{
	server {{
		api_key = "k"
	}}
	sourcemaps {{
		download_from_origins = ["https://shop.example"]
	}}
	output {{
		logs = [loki.write.out.receiver]
	}}
}}
{LOKI}"""
    assert judge(text, local=False) == [
        (
            '1 notice localhost: faro.receiver "browsers" listens on 127.0.0.1 unless told otherwise, which no browser '
            'elsewhere can reach; set server { listen_address = "0.0.0.0" }, or check with --local'
        )
    ]


@pytest.mark.parametrize(
    ("inside", "said"),
    [
        ("", ' needs a limit: limit = "400MiB", or limit_percentage = 80'),
        ('limit = "1MiB"\n\tlimit_percentage = 80', " has limit and limit_percentage; keep one"),
        ('limit = "1MiB"', None),
    ],
)
def test_a_memory_limiter_has_exactly_one_limit(judge, inside: str, said: str | None) -> None:
    text = f"""otelcol.processor.memory_limiter "in" {{
	check_interval = "1s"
	{inside}
	output {{
		traces = [otelcol.exporter.otlphttp.tempo.input]
	}}
}}
otelcol.receiver.otlp "in" {{
	http {{ }}
	output {{
		traces = [otelcol.processor.memory_limiter.in.input]
	}}
}}
{TEMPO}"""
    expected = [f'1 error at-start: otelcol.processor.memory_limiter "in"{said}'] if said else []
    assert judge(text) == expected


@pytest.mark.parametrize(
    ("size", "most", "good"), [(4000, 5000, True), (4000, 0, True), (4000, None, False), (10, 5, False)]
)
def test_a_batch_is_not_larger_than_its_largest(judge, size: int, most: int | None, good: bool) -> None:
    text = f"""otelcol.processor.batch "out" {{
	send_batch_size = {size}
	{f"send_batch_max_size = {most}" if most is not None else ""}
	output {{
		traces = [otelcol.exporter.otlphttp.tempo.input]
	}}
}}
otelcol.receiver.otlp "in" {{
	http {{ }}
	output {{
		traces = [otelcol.processor.batch.out.input]
	}}
}}
{TEMPO}"""
    shown = 3000 if most is None else most
    said = (
        f'1 error at-start: otelcol.processor.batch "out": send_batch_max_size ({shown}) has to be at least '
        f"send_batch_size ({size}), or 0"
    )
    assert judge(text) == ([] if good else [said])


STAGES = [
    ("stage.drop { }", "stage.drop", "says nothing to drop: give it source, expression, older_than or longer_than"),
    (
        'stage.drop {\n\t\tsource = "a"\n\t\tvalue = "b"\n\t\texpression = "c"\n\t}',
        "stage.drop",
        "has value and expression; keep one",
    ),
    (
        'stage.drop {\n\t\tvalue = "b"\n\t\tolder_than = "1h"\n\t}',
        "stage.drop",
        "has a value and needs the source to compare it with",
    ),
    ("stage.limit {\n\t\trate = 0\n\t\tburst = 1\n\t\tdrop = true\n\t}", "stage.limit", "needs a rate above 0"),
    ("stage.limit {\n\t\trate = 1\n\t\tburst = -1\n\t\tdrop = true\n\t}", "stage.limit", "needs a burst above 0"),
    (
        'stage.limit {\n\t\trate = 1\n\t\tburst = 1\n\t\tby_label_name = "x"\n\t}',
        "stage.limit",
        "by label can only drop: add drop = true",
    ),
    (
        'stage.match {\n\t\tselector = `{a="b"}`\n\t}',
        "stage.match",
        'does nothing: give it stages, or action = "drop"',
    ),
    (
        'stage.match {\n\t\tselector = `{a="b"}`\n\t\taction = "skip"\n\t}',
        "stage.match",
        'takes the actions keep and drop, not "skip"',
    ),
    (
        'stage.match {\n\t\tselector = `{a="b"}`\n\t\taction = "drop"\n\t\tstage.docker { }\n\t}',
        "stage.match",
        "drops what it matches, so that it can't have stages",
    ),
    (
        'stage.match {\n\t\tselector = "frontend"\n\t\taction = "drop"\n\t}',
        "stage.match",
        'needs a selector in braces, as {service_name="shop"} |= "error"',
    ),
    (
        'stage.tenant {\n\t\tvalue = "a"\n\t\tsource = "b"\n\t}',
        "stage.tenant",
        "takes exactly one of source, value and label",
    ),
    (
        "stage.json {\n\t\texpressions = {}\n\t}",
        "stage.json",
        'reads nothing: give it expressions = {"field" = ""}, or a regex',
    ),
    ("stage.logfmt { }", "stage.logfmt", 'reads nothing: give it mapping = {"field" = ""}, or a regex'),
    ("stage.sampling {\n\t\trate = 2\n\t}", "stage.sampling", "needs a rate between 0 and 1"),
]


@pytest.mark.parametrize(("stage", "name", "said"), STAGES)
def test_a_stage_that_alloy_refuses_when_it_starts_is_refused_before(judge, stage: str, name: str, said: str) -> None:
    found = [line for line in judge(_pipeline(f"\t{stage}")) if " error " in line]
    assert [line.partition(" ")[2] for line in found] == [f'error at-start: {name} of loki.process "app" {said}']


@pytest.mark.parametrize(
    "stage",
    [
        'stage.drop {\n\t\tsource = "a"\n\t\tvalue = "b"\n\t}',
        "stage.limit {\n\t\trate = 1\n\t\tburst = 1\n\t\tdrop = true\n\t}",
        'stage.match {\n\t\tselector = `{a="b"}`\n\t\taction = "drop"\n\t}',
        'stage.tenant {\n\t\tvalue = "a"\n\t}',
        'stage.logfmt {\n\t\tregex = "a.*"\n\t}',
        "stage.sampling {\n\t\trate = 0.1\n\t}",
    ],
)
def test_a_stage_that_alloy_takes_is_left_alone(judge, stage: str) -> None:
    assert judge(_pipeline(f"\t{stage}")) == []


def test_a_limit_that_does_not_drop_holds_everything_back(judge) -> None:
    assert judge(_pipeline("\tstage.limit {\n\t\trate = 1\n\t\tburst = 1\n\t}")) == [
        (
            '7 notice at-start: stage.limit of loki.process "app" without drop = true holds back the whole pipeline '
            "instead of dropping lines"
        )
    ]


LOGINS = """basic_auth {
			username      = "shop"
			password      = sys.env("PASSWORD")
			password_file = "/password"
		}
		bearer_token_file = "/token"
		tls_config {
			ca_file = "/ca.pem"
			ca_pem  = "…"
		}"""


def test_an_endpoint_logs_in_one_way_and_takes_each_secret_once(judge) -> None:
    url = '"http://loki:3100/loki/api/v1/push"'
    assert judge(_push(f"{url}\n\t\t{LOGINS}")) == [
        '7 error at-start: basic_auth of endpoint of loki.write "out" has password and password_file; keep one',
        '9 error at-start: endpoint of loki.write "out" logs in by basic_auth and by bearer_token_file; keep one',
        '11 error at-start: tls_config of endpoint of loki.write "out" has ca_pem and ca_file; keep one',
    ]


def test_live_debugging_belongs_neither_into_production_nor_into_a_module(judge) -> None:
    assert judge("livedebugging {\n\tenabled = true\n}\n") == [
        (
            "1 notice livedebugging: live debugging shows the data that passes to everybody who reaches Alloy's UI; "
            "turn it "
            "off when done"
        )
    ]
    assert judge('declare "m" {\n\tlivedebugging {\n\t\tenabled = true\n\t}\n}\n') == [
        "2 error misplaced: livedebugging can't stand inside a module; put it into the configuration that uses it"
    ]


# --- flow -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            LOKI,
            (
                '2 warning unreached: nothing sends to loki.write "out"; refer to loki.write.out.receiver where its '
                "data comes from"
            ),
        ),
        (
            'prometheus.exporter.unix "host" { }\n',
            (
                '1 warning unreached: nothing uses the targets of prometheus.exporter.unix "host"; hand '
                "prometheus.exporter.unix.host.targets to what scrapes or tails"
            ),
        ),
        (
            'local.file "token" {\n\tfilename = "/token"\n}\n',
            '1 warning unreached: nothing uses local.file "token"; refer to local.file.token.content, or remove it',
        ),
        (
            'prometheus.scrape "app" {\n\ttargets    = []\n\tforward_to = []\n}\n',
            '3 warning nowhere: prometheus.scrape "app" forwards to nothing, so that all it gets is lost',
        ),
        (
            'otelcol.receiver.otlp "in" {\n\toutput { }\n}\n',
            '2 warning nowhere: the output of otelcol.receiver.otlp "in" is empty, so that all it gets is lost',
        ),
    ],
)
def test_what_nothing_reaches_and_what_leads_nowhere_is_said(judge, text: str, said: str) -> None:
    assert judge(text) == [said]


def test_every_rule_is_tested_somewhere() -> None:
    tests = Path(__file__).parents[1]
    files = [*tests.glob("*/test_alloy_*.py"), *tests.glob("alloy/refused/*.alloy")]
    text = "".join(path.read_text("utf-8") for path in files)
    untested = [
        rule
        for rule in RULES
        if not re.search(rf'(error|warning|notice) {rule}: |// refused: .*\b{rule}\b|"{rule}"', text)
    ]
    assert untested == []
