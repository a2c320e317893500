"""Settings: one table, three sources, and every problem named at once with nothing secret in it."""

from __future__ import annotations

import logging
import pickle
import subprocess
import sys

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.config import SETTINGS, Config, ConfigError, Problem, load, load_section, mask_credentials, split_address
from telemetry.config.loading import unread_variables

FIELDS = [setting for setting in SETTINGS if setting.section == "telemetry"]


def config(environ: dict[str, str] | None = None, **arguments: object) -> Config:
    return load(arguments, environ or {}).config


def problems(environ: dict[str, str] | None = None, **arguments: object) -> dict[str, Problem]:
    with pytest.raises(ConfigError) as caught:
        load(arguments, environ or {})
    return {problem.name: problem for problem in caught.value.problems}


# --- the table


def test_the_table_and_config_have_the_same_fields_in_the_same_order():
    assert [setting.name for setting in FIELDS] == list(Config.__struct_fields__)


def test_nothing_given_gives_the_defaults():
    loaded = load({}, {})
    assert loaded.config == Config()
    assert set(loaded.sources.values()) == {"default"}
    assert all(setting.default == getattr(loaded.config, setting.name) for setting in FIELDS)


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_no_name_of_ours_can_be_mistaken_for_what_kubernetes_injects(setting):
    for name in setting.env:
        assert name.startswith(("FLEETGLASS_", "OTEL_", "PROMETHEUS_", "FEEDBACK_URL", "DATABASE_URL"))
        assert not name.endswith(("_PORT", "_HOST", "_PROTO", "_ADDR", "_TCP", "_UDP"))
        assert "_SERVICE_PORT" not in name


def test_every_setting_is_explained_and_no_variable_has_two_meanings():
    assert all(setting.doc.endswith(".") and setting.group for setting in SETTINGS)
    names = [name for setting in SETTINGS for name in setting.env]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_every_default_is_a_value_that_the_setting_accepts(setting):
    if setting.default is not None and setting.default not in ((), {}):
        assert setting.kind.read(setting.default) == setting.default


# --- precedence


def test_an_argument_wins_over_the_environment_and_that_over_the_default():
    environ = {"FLEETGLASS_LINGER": "2.5", "FLEETGLASS_ROLE": "worker"}
    loaded = load({"role": "agent"}, environ)
    assert (loaded.config.role, loaded.config.linger, loaded.config.sigterm) == ("agent", 2.5, True)
    assert loaded.sources["role"] == "argument"
    assert loaded.sources["linger"] == "environment FLEETGLASS_LINGER"
    assert loaded.sources["sigterm"] == "default"


@pytest.mark.parametrize("empty", ["", "  ", "\n"])
def test_an_empty_variable_counts_as_unset(empty):
    loaded = load({}, {setting.env[0]: empty for setting in SETTINGS})
    assert loaded.config == Config()


@pytest.mark.parametrize("empty", [None, "", " "])
def test_an_empty_argument_leaves_the_environment_in_charge(empty):
    assert config({"OTEL_SERVICE_NAME": "api"}, service=empty).service == "api"


def test_what_a_config_holds_can_be_given_again_as_arguments():
    first = config(
        {
            "OTEL_RESOURCE_ATTRIBUTES": "a=1,b=%2C",
            "FLEETGLASS_LOKI_URL": "http://loki:3100",
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318",
            "OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Bearer%20x",
            "FLEETGLASS_LOG_LEVELS": "a=debug",
            "FLEETGLASS_QUEUE_BYTES": "64MiB",
        },
        instrument=["httpx"],
    )
    assert config(**msgspec.structs.asdict(first)) == first


# --- service and resource


@pytest.mark.parametrize(
    ("arguments", "environ", "expected"),
    [
        ({}, {}, "unknown_service"),
        ({}, {"OTEL_RESOURCE_ATTRIBUTES": "service.name=attr"}, "attr"),
        ({}, {"OTEL_RESOURCE_ATTRIBUTES": "service.name=attr", "OTEL_SERVICE_NAME": "env"}, "env"),
        ({"resource": {"service.name": "arg attr"}}, {"OTEL_SERVICE_NAME": "env"}, "arg attr"),
        ({"resource": {"service.name": "arg attr"}, "service": "arg"}, {"OTEL_SERVICE_NAME": "env"}, "arg"),
    ],
)
def test_the_service_is_named_by_the_most_explicit_source(arguments, environ, expected):
    assert config(environ, **arguments).service == expected


def test_resource_attributes_stand_in_for_unset_settings():
    attributes = (
        "service.version=1.2,service.namespace=ns,service.instance.id=i-7,deployment.environment.name=prod,team=core"
    )
    loaded = load({"version": "2.0"}, {"OTEL_RESOURCE_ATTRIBUTES": attributes})
    got = loaded.config
    assert (got.version, got.namespace, got.instance, got.environment) == ("2.0", "ns", "i-7", "prod")
    assert loaded.sources["namespace"] == "environment OTEL_RESOURCE_ATTRIBUTES"
    assert got.resource["team"] == "core"


def test_resource_argument_and_variable_are_merged_and_the_argument_wins():
    got = config({"OTEL_RESOURCE_ATTRIBUTES": "a=env,b=env"}, resource={"b": "arg", "c": 3})
    assert got.resource == {"a": "env", "b": "arg", "c": "3"}


def test_a_broken_resource_variable_is_named_even_beside_an_argument():
    assert "OTEL_RESOURCE_ATTRIBUTES" in problems({"OTEL_RESOURCE_ATTRIBUTES": "novalue"}, resource={"a": "b"})


def test_resource_attributes_are_percent_decoded():
    environ = {"OTEL_RESOURCE_ATTRIBUTES": "city=%EC%84%9C%EC%9A%B8, list=a%2Cb=c ,"}
    assert config(environ).resource == {"city": "서울", "list": "a,b=c"}


# --- every problem at once


def test_all_problems_are_named_together_with_value_and_expectation():
    found = problems(
        {
            "FLEETGLASS_LOKI_URL": "ftp://loki",
            "OTEL_TRACES_SAMPLER_ARG": "7",
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json",
            "OTEL_TRACES_EXPORTER": "jaeger",
            "FLEETGLASS_LOG_LEVL": "DEBUG",
        },
        role="sever",
        sevice="api",
    )
    assert list(found) == [
        "argument role",
        "FLEETGLASS_LOKI_URL",
        "OTEL_EXPORTER_OTLP_PROTOCOL",
        "OTEL_TRACES_EXPORTER",
        "OTEL_TRACES_SAMPLER_ARG",
        "argument sevice",
        "FLEETGLASS_LOG_LEVL",
    ]
    assert found["FLEETGLASS_LOKI_URL"].value == "'ftp://loki'"
    assert found["FLEETGLASS_LOKI_URL"].expected.startswith("an http:// or https:// URL with a host")
    assert found["OTEL_TRACES_SAMPLER_ARG"].expected == "a number between 0 and 1"
    assert found["OTEL_EXPORTER_OTLP_PROTOCOL"].expected.startswith("one of http/protobuf, grpc")
    assert found["argument role"].expected.endswith("did you mean server?")
    assert found["argument sevice"].expected.endswith("did you mean service?")
    assert found["FLEETGLASS_LOG_LEVL"].expected.endswith("did you mean FLEETGLASS_LOG_LEVEL?")


def test_the_error_reads_as_a_list():
    with pytest.raises(ConfigError) as caught:
        load({"role": "boss"}, {"FLEETGLASS_LINGER": "soon"})
    assert str(caught.value) == (
        "2 settings can't be used:\n"
        "  argument role = 'boss'\n"
        "      expected one of script, server, worker, agent\n"
        "  FLEETGLASS_LINGER = 'soon'\n"
        "      expected seconds between 0 and 60"
    )


def test_the_error_survives_pickling():
    with pytest.raises(ConfigError) as caught:
        load({"role": "boss"}, {})
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.problems) == (str(caught.value), caught.value.problems)


def test_a_long_value_is_cut_and_a_control_character_is_shown_as_an_escape():
    found = problems({"FLEETGLASS_ROLE": "x" * 5000, "OTEL_SERVICE_NAME": "a\x1b[31m\u202eb\ud800"})
    assert len(found["FLEETGLASS_ROLE"].value) == 100
    assert found["OTEL_SERVICE_NAME"].value == r"'a\x1b[31m\u202eb\ud800'"


# --- secrets


SECRET = "hunter2-very-secret"


@pytest.mark.parametrize("setting", [setting for setting in SETTINGS if setting.secret], ids=lambda s: s.name)
@pytest.mark.parametrize("value", [SECRET, f"{SECRET}\x00", f"a=b\n{SECRET}", f'{{"{SECRET}": 1}}', f"={SECRET}"])
def test_a_secret_is_never_part_of_an_error(setting, value):
    try:
        values = load_section(setting.section, {}, {setting.env[0]: value})
    except ConfigError as error:
        assert SECRET not in str(error)
        assert SECRET not in repr(error.problems)
    else:
        assert SECRET not in setting.show(values[setting.name])


def test_the_value_behind_a_misspelt_name_is_not_shown():
    with pytest.raises(ConfigError) as caught:
        load({"loki_pasword": SECRET}, {"FLEETGLASS_LOKI_PASWORD": SECRET})
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    [
        f"ftp://user:{SECRET}@loki",
        f"http://user:{SECRET}@loki:port",
        f"http://user:{SECRET}/x@loki:3100",
        f"http://loki:x?token={SECRET}",
        f"user:{SECRET}@loki:3100",
        f"http://user:{SECRET}@",
    ],
)
def test_credentials_in_a_broken_url_are_masked_in_the_error(address):
    assert SECRET not in problems({"FLEETGLASS_LOKI_URL": address})["FLEETGLASS_LOKI_URL"].value
    assert SECRET not in problems(loki_url=address.encode())["argument loki_url"].value


def test_repr_hides_secrets_and_credentials_in_urls():
    got = load(
        {},
        {
            "FLEETGLASS_LOKI_URL": f"http://me:{SECRET}@loki:3100",
            "FLEETGLASS_LOKI_USER": "me",
            "FLEETGLASS_LOKI_PASSWORD": SECRET,
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://me:{SECRET}@collector:4318",
            "OTEL_EXPORTER_OTLP_HEADERS": f"api-key={SECRET}",
        },
    )
    assert SECRET not in repr(got)
    assert SECRET not in repr((got.config.otlp("traces"), got.config.loki()))
    assert "loki_url=http://***@loki:3100/loki/api/v1/push" in repr(got.config)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("http://loki:3100/push", "http://loki:3100/push"),
        ("http://a:b@loki/push", "http://***@loki/push"),
        ("http://loki/?key=abc&x=y", "http://loki/?key=***&x=***"),
        ("a:b@collector:4317", "***@collector:4317"),
        ("mailto:ops@example.com", "mailto:ops@example.com"),
    ],
)
def test_masking_a_url(address, shown):
    assert mask_credentials(address) == shown


# --- names that mean nothing


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("FLEETGLASS_PORT", "tcp://10.96.3.7:80"),
        ("FLEETGLASS_SERVICE_HOST", "10.96.3.7"),
        ("FLEETGLASS_SERVICE_PORT", "80"),
        ("FLEETGLASS_SERVICE_PORT_HTTP", "80"),
        ("FLEETGLASS_PORT_80_TCP", "tcp://10.96.3.7:80"),
        ("FLEETGLASS_PORT_80_TCP_PROTO", "tcp"),
        ("FLEETGLASS_PORT_80_TCP_PORT", "80"),
        ("FLEETGLASS_PORT_80_TCP_ADDR", "10.96.3.7"),
        ("FLEETGLASS_INGEST_PORT", "tcp://[fd00::7]:8000"),
        ("FLEETGLASS_INGEST_SERVICE_HOST", "fd00::7"),
        ("FLEETGLASS_INGEST_SERVICE_PORT_LOG_LEVEL", "8000"),
        ("FLEETGLASS_DNS_PORT_53_UDP", "udp://10.96.0.10:53"),
        ("FLEETGLASS_DNS_PORT_53_UDP_ADDR", "10.96.0.10"),
    ],
)
def test_what_kubernetes_injects_for_a_service_named_like_us_is_ignored(name, value):
    assert load({}, {name: value}).config == Config()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("FLEETGLASS_METRICS_PORT", "9464"),
        ("FLEETGLASS_SERVICE_HOST", "api.example"),
        ("FLEETGLASS_SERVICE_PORT", "http"),
        ("FLEETGLASS_LOKI", "http://loki:3100"),
        ("FLEETGLASS_LOG_lEVEL", "DEBUG"),
        ("FLEETGLASS_", "x"),
    ],
)
def test_any_other_unknown_name_is_a_problem(name, value):
    assert list(problems({name: value})) == [name]


def test_the_ingest_section_reports_the_same_unknown_names_and_the_library_accepts_the_ingest_names():
    with pytest.raises(ConfigError):
        load_section("ingest", {}, {"FLEETGLASS_LISTN": "0.0.0.0:80"})
    assert load({}, {"FLEETGLASS_LISTEN": "0.0.0.0:80", "FEEDBACK_URL": "https://x.example"}).config == Config()


def test_a_field_of_another_section_is_an_unknown_argument():
    assert "argument listen" in problems(listen="127.0.0.1:8000")


def test_standard_variables_that_mean_nothing_here_are_no_problem_but_can_be_listed():
    environ = {"OTEL_BSP_SCHEDULE_DELAY": "100", "OTEL_SERVICE_NAEM": "x", "OTEL_SERVICE_NAME": "y", "OTEL_EMPTY": ""}
    assert load({}, environ).config.service == "y"
    assert unread_variables(environ) == ["OTEL_BSP_SCHEDULE_DELAY", "OTEL_SERVICE_NAEM"]


# --- kinds


@pytest.mark.parametrize("word", ["true", "True", "1", "on", "YES", True])
def test_switches_of_ours_know_the_usual_words(word):
    assert config(strict=word).strict is True
    assert config({"FLEETGLASS_ACCESS_LOG": "off"}).access_log is False


@pytest.mark.parametrize(("word", "value"), [("true", True), ("TRUE", True), ("false", False)])
def test_standard_booleans_know_true_and_false(word, value):
    assert config({"OTEL_SDK_DISABLED": word}).disabled is value


@pytest.mark.parametrize("word", ["1", "yes", "on"])
def test_standard_booleans_refuse_what_the_standard_would_read_as_false(word):
    assert problems({"OTEL_SDK_DISABLED": word})["OTEL_SDK_DISABLED"].expected == "true or false"


@pytest.mark.parametrize("value", ["2", "maybe", 1, 1.0, [], object()])
def test_a_switch_takes_no_other_value(value):
    assert "argument strict" in problems(strict=value)


@pytest.mark.parametrize("value", ["nan", "inf", "-1", "1e9", "", None, True, "3s", float("inf"), 10**400, []])
def test_a_time_is_a_finite_number_within_bounds(value):
    if value in (None, ""):
        assert config(shutdown_timeout=value).shutdown_timeout == 3.0
    else:
        assert "argument shutdown_timeout" in problems(shutdown_timeout=value)


def test_a_timeout_that_was_meant_as_milliseconds_is_refused_with_the_reason():
    found = problems({"OTEL_EXPORTER_OTLP_TIMEOUT": "10000"})["OTEL_EXPORTER_OTLP_TIMEOUT"]
    assert "reads seconds, not milliseconds" in found.expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [("33554432", 33554432), ("64KiB", 65536), ("64k", 65536), ("2 MiB", 2 << 20), ("1GB", 1 << 30), (70000, 70000)],
)
def test_sizes_take_binary_units(value, expected):
    assert config(queue_bytes=value, batch_bytes=65536).queue_bytes == expected


@pytest.mark.parametrize("value", ["1.5MiB", "-1", "1TiB", "KiB", "1" * 5000, "٣", True, 1.0, 0])
def test_sizes_take_nothing_else(value):
    assert "argument queue_bytes" in problems(queue_bytes=value)


def test_a_batch_can_not_be_larger_than_the_queue():
    assert list(problems(queue_bytes="128KiB")) == ["argument queue_bytes"]
    assert list(problems({"FLEETGLASS_BATCH_BYTES": "64MiB"})) == ["FLEETGLASS_BATCH_BYTES"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [("debug", "DEBUG"), ("Warn", "WARNING"), (logging.ERROR, "ERROR"), ("FATAL", "CRITICAL")],
)
def test_log_levels_are_normalised(value, expected):
    assert config(log_level=value).log_level == expected


def test_levels_of_single_loggers():
    got = config({"FLEETGLASS_LOG_LEVELS": "uvicorn=warning, app.db=DEBUG"}, log_level="info")
    assert got.log_levels == {"uvicorn": "WARNING", "app.db": "DEBUG"}
    assert config(log_levels={"b": "error"}).log_levels == {"b": "ERROR"}
    assert "did you mean DEBUG" in problems(log_levels="a=DEBG")["argument log_levels"].expected


@pytest.mark.parametrize("value", ["15", 15, "LOUD", True, b"INFO"])
def test_a_level_that_logging_has_no_name_for_is_refused(value):
    assert "argument log_level" in problems(log_level=value)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("http://loki:3100", "http://loki:3100/loki/api/v1/push"),
        ("http://loki:3100/", "http://loki:3100/loki/api/v1/push"),
        ("https://logs.example/prefix/push", "https://logs.example/prefix/push"),
        ("http://[::1]:3100", "http://[::1]:3100/loki/api/v1/push"),
        ("http://u:p@loki", "http://u:p@loki/loki/api/v1/push"),
        (" http://loki:3100/?x=1 \n", "http://loki:3100/loki/api/v1/push?x=1"),
    ],
)
def test_the_push_path_is_appended_to_a_loki_url_without_one(given, expected):
    assert config({"FLEETGLASS_LOKI_URL": given}).loki_url == expected


def test_the_import_path_is_appended_to_a_push_url_without_one():
    assert config(metrics_push_url="http://vm:8428").metrics_push_url == "http://vm:8428/api/v1/import/prometheus"


@pytest.mark.parametrize(
    "given",
    [
        "loki:3100",
        "ftp://loki",
        "http://",
        "http:///push",
        "http://:80",
        "http://loki:port",
        "http://loki:0",
        "http://loki:99999",
        "http://[::1",
        "http://lo ki",
        "http://loki#top",
        "http://로키",
        "http://lo<k>i",
        "file:///etc/passwd",
        "//loki",
        8080,
    ],
)
def test_a_url_is_http_or_https_with_a_host(given):
    assert "argument loki_url" in problems(loki_url=given)


@pytest.mark.parametrize("given", ["127.0.0.1:9464", "[::]:9464", "localhost:0", "off", "OFF"])
def test_where_metrics_may_be_served(given):
    assert config(metrics_listen=given).metrics_listen in (given, "off")


@pytest.mark.parametrize("given", ["9464", ":9464", "::1:9464", "host:", "host:70000", "host:٣", "http://h:1", "a b:1"])
def test_a_listen_address_is_host_and_port(given):
    assert "argument metrics_listen" in problems(metrics_listen=given)


def test_an_address_is_split_for_those_who_listen():
    assert split_address("[::1]:80") == ("::1", 80)
    assert split_address("0.0.0.0:0") == ("0.0.0.0", 0)


@pytest.mark.parametrize(
    "value", ["httpx,psycopg", " httpx , psycopg,httpx,", ["httpx", "psycopg"], ("httpx", "psycopg")]
)
def test_names_come_as_text_or_as_a_list(value):
    assert config(instrument=value).instrument == ("httpx", "psycopg")


@pytest.mark.parametrize("value", ["a b", ["a", 1], {"a": 1}, b"httpx", 7])
def test_names_are_names(value):
    assert "argument instrument" in problems(instrument=value)


def test_propagators_are_known_names_and_none_stands_alone():
    assert config({"OTEL_PROPAGATORS": "tracecontext"}).propagators == ("tracecontext",)
    assert config({"OTEL_PROPAGATORS": "none"}).propagators == ()
    assert "did you mean tracecontext" in problems({"OTEL_PROPAGATORS": "tracecontxt"})["OTEL_PROPAGATORS"].expected
    assert "OTEL_PROPAGATORS" in problems({"OTEL_PROPAGATORS": "none,baggage"})


@pytest.mark.parametrize("name", ["ratio", "jaeger_remote", "always"])
def test_samplers_are_the_six_of_the_standard(name):
    assert "OTEL_TRACES_SAMPLER" in problems({"OTEL_TRACES_SAMPLER": name})


@pytest.mark.parametrize("value", ["-0.1", "1.1", "half", "nan"])
def test_a_sampling_share_lies_between_0_and_1(value):
    assert "OTEL_TRACES_SAMPLER_ARG" in problems({"OTEL_TRACES_SAMPLER_ARG": value})
    assert config({"OTEL_TRACES_SAMPLER_ARG": "0.25"}).sampler_arg == 0.25


def test_headers_are_percent_decoded_and_their_names_in_lower_case():
    got = config({"OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Bearer%20a%3Db%2Cc, X-Key = v=w ,"})
    assert got.otlp_headers == {"authorization": "Bearer a=b,c", "x-key": "v=w"}


@pytest.mark.parametrize("value", ["novalue", "=v", "a b=c", "k=a%0d%0aEvil:%201", "k=%ff%fe", "k=값", 7, {"k": None}])
def test_headers_that_http_can_not_carry_are_refused(value):
    assert "argument otlp_headers" in problems(otlp_headers=value)


@pytest.mark.parametrize("value", ["service_name=x", "my.label=x", "__a=x", "1a=x", "a", "a="])
def test_loki_labels_follow_lokis_rules(value):
    assert config(loki_labels="cluster=eu1").loki_labels == {"cluster": "eu1"}
    assert "argument loki_labels" in problems(loki_labels=value)


def test_a_secret_from_a_mounted_file_loses_its_line_end_and_nothing_else():
    environ = {"FLEETGLASS_LOKI_PASSWORD": " p@ss \n", "FLEETGLASS_LOKI_USER": "me"}
    assert config(environ).loki_password == " p@ss "


def test_credentials_go_together(tmp_path):
    key, certificate, other = (tmp_path / name for name in ("k.pem", "c.pem", "d.pem"))
    for path in (key, certificate, other):
        path.write_text("PEM")
    assert list(problems({"FLEETGLASS_LOKI_PASSWORD": "p"})) == ["FLEETGLASS_LOKI_PASSWORD"]
    assert list(problems(otlp_client_key=key)) == ["argument otlp_client_key"]
    assert list(problems(otlp_traces_client_certificate=certificate)) == ["argument otlp_traces_client_certificate"]
    assert config(otlp_client_key=key, otlp_traces_client_certificate=certificate, otlp_client_certificate=other)


def test_a_certificate_that_is_not_there_is_named_at_setup_and_not_at_the_first_handshake(tmp_path):
    missing = str(tmp_path / "nope.pem")
    for name in ("otlp_certificate", "otlp_logs_client_key", "otlp_client_certificate"):
        assert problems(**{name: missing})[f"argument {name}"].expected == "a file that exists and can be read"
    assert "OTEL_EXPORTER_OTLP_CERTIFICATE" in problems({"OTEL_EXPORTER_OTLP_CERTIFICATE": str(tmp_path)})


# --- the ingest section


def test_the_ingest_section_has_its_own_values():
    values = load_section(
        "ingest",
        {"metrics_public": False},
        {"FLEETGLASS_TOKENS": '{"t0ken": {"email": "a@b.example", "workspace": "w", "roles": ["super_admin"]}}'},
    )
    assert values == {
        **{setting.name: setting.default for setting in SETTINGS if setting.section == "ingest"},
        "tokens": {"t0ken": {"email": "a@b.example", "workspace": "w", "roles": ("super_admin",), "workspaces": None}},
        "metrics_public": False,
    }


@pytest.mark.parametrize(
    ("value", "origins"),
    [
        ("https://console.example", ("https://console.example",)),
        ("HTTPS://Console.Example:443/, http://localhost:5173", ("https://console.example", "http://localhost:5173")),
        (["http://[::1]:80", "http://[::1]"], ("http://[::1]",)),
    ],
)
def test_an_allowed_origin_is_kept_as_browsers_write_it(value, origins):
    assert load_section("ingest", {"allowed_origins": value}, {})["allowed_origins"] == origins


@pytest.mark.parametrize(
    "value",
    ["*", "null", "console.example", "https://console.example/app", "https://*.example", "https://u@x", "ws://x"],
)
def test_other_origins_are_refused(value):
    with pytest.raises(ConfigError):
        load_section("ingest", {}, {"FLEETGLASS_ALLOWED_ORIGINS": value})


@pytest.mark.parametrize("value", ["https://ask.example/x", "mailto:ops@example.com", "mailto:a@b.example?subject=Hi"])
def test_a_feedback_url_is_https_or_mailto(value):
    assert load_section("ingest", {}, {"FEEDBACK_URL": value})["feedback_url"] == value


@pytest.mark.parametrize(
    "value",
    ["http://ask.example", "javascript:alert(1)", "https://", "mailto:", "mailto:a", "https://u:p@x", "data:,x", "ask"],
)
def test_other_feedback_urls_are_refused(value):
    with pytest.raises(ConfigError):
        load_section("ingest", {}, {"FEEDBACK_URL": value})


@pytest.mark.parametrize(
    "value",
    [
        "{",
        "[]",
        '{"t": {}}',
        '{"t": {"email": 1}}',
        '{"": {"email": "a"}}',
        '{"a b": {"email": "a"}}',
        '{"t":{"email":"a","x":1}}',
    ],
)
def test_tokens_of_another_shape_are_refused(value):
    with pytest.raises(ConfigError):
        load_section("ingest", {}, {"FLEETGLASS_TOKENS": value})


# --- any input


@given(st.dictionaries(st.sampled_from([s.env[0] for s in SETTINGS]), st.text(max_size=60), max_size=8))
def test_any_environment_gives_a_config_or_a_config_error(environ):
    for section in ("telemetry", "ingest"):
        try:
            load_section(section, {}, environ)
        except ConfigError as error:
            assert error.problems
            assert all(line.isprintable() for line in str(error).split("\n"))


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from([s.name for s in FIELDS]), ANYTHING, max_size=6))
def test_any_arguments_give_a_config_or_a_config_error(arguments):
    try:
        load(arguments, {})
    except ConfigError as error:
        assert error.problems


# --- cost


def test_importing_the_settings_loads_nothing_heavy():
    program = "import sys, telemetry.config; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "msgspec" in loaded
    assert not loaded & {"asyncio", "importlib.metadata", "opentelemetry", "prometheus_client", "logging", "difflib"}
