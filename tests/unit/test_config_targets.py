"""Where each signal goes: the rules of the OTLP exporter specification, and that a log is stored once."""

from __future__ import annotations

import pytest

from telemetry.config import Config, ConfigError, OtlpTarget, load, split_credentials

BASE = "OTEL_EXPORTER_OTLP_ENDPOINT"
COLLECTOR = {BASE: "http://collector:4318"}


def config(environ: dict[str, str], **arguments: object) -> Config:
    return load(arguments, environ).config


def target(environ: dict[str, str], signal: str = "traces") -> OtlpTarget:
    found = config(environ).otlp(signal)
    assert found is not None
    return found


def sent(environ: dict[str, str]) -> set[str]:
    got = config(environ)
    return {signal for signal in ("traces", "logs", "metrics") if got.otlp(signal)}


# --- which signals go over OTLP


@pytest.mark.parametrize(
    ("environ", "signals"),
    [
        ({}, set()),
        (COLLECTOR, {"traces", "logs"}),
        (COLLECTOR | {"FLEETGLASS_LOKI_URL": "http://loki:3100"}, {"traces"}),
        (COLLECTOR | {"FLEETGLASS_LOKI_URL": "http://loki:3100", "OTEL_LOGS_EXPORTER": "otlp"}, {"traces"}),
        (COLLECTOR | {"OTEL_METRICS_EXPORTER": "otlp"}, {"traces", "logs", "metrics"}),
        (COLLECTOR | {"OTEL_TRACES_EXPORTER": "none"}, {"logs"}),
        (COLLECTOR | {"OTEL_LOGS_EXPORTER": "none"}, {"traces"}),
        (COLLECTOR | {"OTEL_SDK_DISABLED": "true", "OTEL_METRICS_EXPORTER": "otlp"}, set()),
        ({"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "http://c:4318/v1/logs"}, {"logs"}),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c:4318/v1/metrics"}, set()),
        ({"OTEL_METRICS_EXPORTER": "otlp", "OTEL_TRACES_EXPORTER": "otlp"}, set()),
    ],
)
def test_what_an_endpoint_sends(environ, signals):
    assert sent(environ) == signals


# --- where they go


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        ("http://collector:4318", "http://collector:4318/v1/traces"),
        ("http://collector:4318/", "http://collector:4318/v1/traces"),
        ("https://gateway.example/otlp/", "https://gateway.example/otlp/v1/traces"),
        ("https://gateway.example/otlp?tenant=a", "https://gateway.example/otlp/v1/traces?tenant=a"),
    ],
)
def test_over_http_the_signal_path_is_appended_to_the_base_endpoint(base, expected):
    assert target({BASE: base}).endpoint == expected


@pytest.mark.parametrize("own", ["http://other:4318", "http://other:4318/", "http://other/my/traces"])
def test_an_endpoint_of_the_signal_is_used_as_it_is(own):
    environ = COLLECTOR | {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": own}
    assert target(environ).endpoint == own
    assert target(environ, "logs").endpoint == "http://collector:4318/v1/logs"


@pytest.mark.parametrize(
    ("endpoint", "insecure", "expected", "clear"),
    [
        ("collector:4317", None, "https://collector:4317", False),
        ("collector:4317", "true", "http://collector:4317", True),
        ("http://collector:4317", None, "http://collector:4317", True),
        ("https://collector:4317/ignored", "true", "https://collector:4317", False),
    ],
)
def test_over_grpc_a_scheme_decides_about_tls_and_insecure_only_without_one(endpoint, insecure, expected, clear):
    environ = {BASE: endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
    if insecure:
        environ["OTEL_EXPORTER_OTLP_INSECURE"] = insecure
    got = target(environ)
    assert (got.protocol, got.endpoint, got.insecure) == ("grpc", expected, clear)


def test_host_and_port_alone_are_for_grpc_only():
    with pytest.raises(ConfigError, match="as the protocol is http/protobuf"):
        load({}, {BASE: "collector:4317"})
    own = {
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "collector:4317",
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc",
    }
    assert target(own).endpoint == "https://collector:4317"


def test_each_part_of_a_signal_overrides_the_shared_one(tmp_path):
    shared, own = tmp_path / "ca.pem", tmp_path / "logs.pem"
    for path in (shared, own):
        path.write_text("PEM")
    environ = COLLECTOR | {
        "OTEL_EXPORTER_OTLP_HEADERS": "a=1,b=2",
        "OTEL_EXPORTER_OTLP_TIMEOUT": "7",
        "OTEL_EXPORTER_OTLP_CERTIFICATE": str(shared),
        "OTEL_EXPORTER_OTLP_LOGS_HEADERS": "c=3",
        "OTEL_EXPORTER_OTLP_LOGS_TIMEOUT": "0.5",
        "OTEL_EXPORTER_OTLP_LOGS_COMPRESSION": "none",
        "OTEL_EXPORTER_OTLP_LOGS_CERTIFICATE": str(own),
    }
    traces, logs = target(environ), target(environ, "logs")
    assert (traces.headers, traces.timeout, traces.compression) == ({"a": "1", "b": "2"}, 7.0, "gzip")
    assert (logs.headers, logs.timeout, logs.compression) == ({"c": "3"}, 0.5, "none")
    assert (traces.certificate, logs.certificate) == (str(shared), str(own))


# --- credentials


def test_credentials_in_an_endpoint_become_a_header():
    got = target({BASE: "http://user:p%40ss@collector:4318"})
    assert got.endpoint == "http://collector:4318/v1/traces"
    assert got.headers == {"authorization": "Basic dXNlcjpwQHNz"}


def test_an_authorization_header_wins_over_credentials_in_the_endpoint():
    environ = {BASE: "http://u:p@c:4318", "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20x"}
    assert target(environ).headers == {"authorization": "Bearer x"}


def test_loki_gets_tenant_credentials_and_headers():
    got = config(
        {"FLEETGLASS_LOKI_URL": "http://u:p@loki:3100"}, loki_tenant="team", loki_headers={"X-Extra": "1"}
    ).loki()
    assert got is not None
    assert got.url == "http://loki:3100/loki/api/v1/push"
    assert got.headers == {"x-scope-orgid": "team", "authorization": "Basic dTpw", "x-extra": "1"}
    named = config({}, loki_url="http://loki:3100", loki_user="u", loki_password="p").loki()
    assert named is not None
    assert named.headers == {"authorization": "Basic dTpw"}
    assert config({}).loki() is None


def test_pushed_metrics_get_credentials():
    got = config({}, metrics_push_url="https://u:p@vm.example").metrics_push()
    assert got is not None
    assert (got.url, got.headers) == (
        "https://vm.example/api/v1/import/prometheus",
        {"authorization": "Basic dTpw"},
    )
    assert config({}).metrics_push() is None


def test_a_url_without_credentials_stays_as_it_is():
    assert split_credentials("http://h/%zz?a@b") == ("http://h/%zz?a@b", None)
    assert split_credentials("http://:token@h") == ("http://h", "Basic OnRva2Vu")


# --- combinations that deserve a word


@pytest.mark.parametrize(
    ("environ", "word"),
    [
        ({"OTEL_TRACES_EXPORTER": "otlp"}, "no OTLP endpoint is set: traces are not sent"),
        ({"OTEL_METRICS_EXPORTER": "otlp"}, "no OTLP endpoint is set: metrics are not sent"),
        ({"FLEETGLASS_LOKI_URL": "http://l", "OTEL_LOGS_EXPORTER": "otlp", **COLLECTOR}, "a log is stored once"),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c/v1/metrics"}, "only when OTEL_METRICS_EXPORTER is otlp"),
        ({BASE: "http://collector:4317"}, "Port 4317 speaks gRPC"),
        ({BASE: "http://collector:4318", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "Port 4318 speaks HTTP"),
        ({"OTEL_TRACES_SAMPLER_ARG": "0.1"}, "no effect with the sampler parentbased_always_on"),
        ({"OTEL_METRICS_EXPORTER": "none", "FLEETGLASS_METRICS_PUSH_URL": "http://vm"}, "push URL for metrics"),
        ({"OTEL_SDK_DISABLED": "true", **COLLECTOR}, "OTEL_SDK_DISABLED"),
        ({"FLEETGLASS_LOKI_TENANT": "t"}, "loki_tenant has no effect"),
    ],
)
def test_valid_settings_that_do_not_do_what_they_say_are_pointed_out(environ, word):
    assert any(word in warning for warning in load({}, environ).warnings())


@pytest.mark.parametrize(
    "environ",
    [
        {},
        COLLECTOR,
        COLLECTOR | {"FLEETGLASS_LOKI_URL": "http://loki:3100"},
        {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.1"},
        {BASE: "http://collector:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
    ],
)
def test_ordinary_settings_raise_no_eyebrow(environ):
    assert load({}, environ).warnings() == ()
