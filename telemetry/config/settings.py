"""The settings themselves: ``Config`` with types and defaults, ``SETTINGS`` with names and meanings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal

import msgspec

from telemetry.config import addresses, kinds, targets
from telemetry.config.commands import COMMANDS
from telemetry.config.ingest import INGEST
from telemetry.config.kinds import Kind
from telemetry.config.setting import Setting
from telemetry.config.targets import SIGNALS, Compression, HttpTarget, OtlpTarget, Protocol, Signal

Role = Literal["script", "server", "worker", "agent"]


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """What ``telemetry.setup`` was asked for, checked and complete.

    Made by ``load``; made by hand (in tests) its values are taken as they are. What each field means,
    its environment variable and its unit stand in ``SETTINGS`` and in docs/reference/settings.md.
    ``repr`` hides secrets.
    """

    service: str = "unknown_service"
    role: Role = "script"
    version: str | None = None
    environment: str | None = None
    namespace: str | None = None
    instance: str | None = None
    resource: Mapping[str, str] = {}

    log_level: str = "INFO"
    log_levels: Mapping[str, str] = {}
    log_format: Literal["logfmt", "json", "console"] = "logfmt"
    stdout: Literal["auto", "on", "off"] = "auto"
    access_log: bool | None = None

    loki_url: str | None = None
    loki_tenant: str | None = None
    loki_user: str | None = None
    loki_password: str | None = None
    loki_labels: Mapping[str, str] = {}
    loki_headers: Mapping[str, str] = {}

    otlp_endpoint: str | None = None
    otlp_protocol: Protocol = "http/protobuf"
    otlp_headers: Mapping[str, str] = {}
    otlp_timeout: float = 10.0
    otlp_compression: Compression = "gzip"
    otlp_certificate: str | None = None
    otlp_client_certificate: str | None = None
    otlp_client_key: str | None = None
    otlp_insecure: bool | None = None
    traces_exporter: Literal["auto", "otlp", "none"] = "auto"
    logs_exporter: Literal["auto", "otlp", "none"] = "auto"
    metrics_exporter: Literal["prometheus", "otlp", "none"] = "prometheus"
    otlp_log_body: Literal["line", "attributes"] = "line"
    disabled: bool = False
    otlp_traces_endpoint: str | None = None
    otlp_traces_protocol: Protocol | None = None
    otlp_traces_headers: Mapping[str, str] = {}
    otlp_traces_timeout: float | None = None
    otlp_traces_compression: Compression | None = None
    otlp_traces_certificate: str | None = None
    otlp_traces_client_certificate: str | None = None
    otlp_traces_client_key: str | None = None
    otlp_traces_insecure: bool | None = None
    otlp_logs_endpoint: str | None = None
    otlp_logs_protocol: Protocol | None = None
    otlp_logs_headers: Mapping[str, str] = {}
    otlp_logs_timeout: float | None = None
    otlp_logs_compression: Compression | None = None
    otlp_logs_certificate: str | None = None
    otlp_logs_client_certificate: str | None = None
    otlp_logs_client_key: str | None = None
    otlp_logs_insecure: bool | None = None
    otlp_metrics_endpoint: str | None = None
    otlp_metrics_protocol: Protocol | None = None
    otlp_metrics_headers: Mapping[str, str] = {}
    otlp_metrics_timeout: float | None = None
    otlp_metrics_compression: Compression | None = None
    otlp_metrics_certificate: str | None = None
    otlp_metrics_client_certificate: str | None = None
    otlp_metrics_client_key: str | None = None
    otlp_metrics_insecure: bool | None = None

    sampler: str = "parentbased_always_on"
    sampler_arg: float | None = None
    propagators: tuple[str, ...] = ("tracecontext", "baggage")
    server_timing: bool = False
    instrument: tuple[str, ...] = ()

    metrics_listen: str = "127.0.0.1:9464"
    metrics_push_url: str | None = None
    metrics_push_interval: float = 15.0
    metrics_label_values: int = 200
    multiproc_dir: str | None = None

    scrub_keys: tuple[str, ...] = ()
    queue_bytes: int = 32 * 1024 * 1024
    queue_records: int = 50_000
    batch_bytes: int = 1024 * 1024
    linger: float = 1.0
    shutdown_timeout: float = 3.0
    strict: bool = False
    sigterm: bool = True

    def otlp(self, signal: Signal) -> OtlpTarget | None:
        """The OTLP target of ``traces``, ``logs`` or ``metrics``; None when it isn't sent that way."""
        return targets.otlp_target(self, signal)

    def loki(self) -> HttpTarget | None:
        """Where log lines are pushed, with tenant and credentials as headers; None without a Loki URL."""
        return targets.loki_target(self)

    def metrics_push(self) -> HttpTarget | None:
        """Where metrics are pushed in Prometheus text; None without a push URL."""
        return targets.push_target(self)

    def __repr__(self) -> str:
        shown = (
            f"{setting.name}={setting.show(value)}"
            for setting in SETTINGS
            if setting.section == "telemetry" and (value := getattr(self, setting.name)) != setting.default
        )
        return f"Config({', '.join(shown)})"


_DEFAULTS = Config()

_OTLP_PARTS: tuple[tuple[str, Kind, str], ...] = (
    ("endpoint", addresses.otlp_endpoint(), "used exactly as it is, with no path appended"),
    ("protocol", kinds.choice("http/protobuf", "grpc"), "the wire protocol"),
    ("headers", kinds.headers(), "request headers; they replace the shared ones"),
    ("timeout", kinds.number("seconds", 0.001, 300, "OpenTelemetry for Python reads seconds, not milliseconds"), ""),
    ("compression", kinds.choice("gzip", "none"), "body compression"),
    ("certificate", kinds.file(), "PEM file of the certificates to trust"),
    ("client_certificate", kinds.file(), "PEM file of the client certificate (mutual TLS)"),
    ("client_key", kinds.file(), "PEM file of the client key (mutual TLS)"),
    ("insecure", kinds.switch(standard=True), "gRPC in clear text when the endpoint names no scheme"),
)


def _row(
    group: str, name: str, env: str, kind: Kind, doc: str, *, secret: bool = False, attribute: str = ""
) -> Setting:
    return Setting(name, (env,), kind, getattr(_DEFAULTS, name), doc, group, secret=secret, attribute=attribute)


def _otlp_rows() -> list[Setting]:
    rows = []
    for signal in SIGNALS:
        for part, kind, what in _OTLP_PARTS:
            doc = f"For {signal} only: {what or 'seconds for one request'}. Unset: the shared setting."
            env = f"OTEL_EXPORTER_OTLP_{signal}_{part}".upper()
            rows.append(_row("OTLP, per signal", f"otlp_{signal}_{part}", env, kind, doc, secret=part == "headers"))
    return rows


_OTLP_KINDS = {part: kind for part, kind, _ in _OTLP_PARTS}
_identity: Callable[..., Setting] = partial(_row, "Identity")
_logs: Callable[..., Setting] = partial(_row, "Logs")
_loki: Callable[..., Setting] = partial(_row, "Loki")
_otlp: Callable[..., Setting] = partial(_row, "OTLP")
_traces: Callable[..., Setting] = partial(_row, "Traces")
_metrics: Callable[..., Setting] = partial(_row, "Metrics")
_delivery: Callable[..., Setting] = partial(_row, "Delivery")

# fmt: off
SETTINGS: tuple[Setting, ...] = (
    _identity("service", "OTEL_SERVICE_NAME", kinds.text(), attribute="service.name",
        doc="Name of the service: `service.name` in traces, `service_name` in Loki, `job` in metrics."),
    _identity("role", "FLEETGLASS_ROLE", kinds.choice("script", "server", "worker", "agent"),
        doc="What kind of process this is. It picks defaults only: whether a metrics port opens, whether an access log "
        "exists. Each of them can be set by name."),
    _identity("version", "FLEETGLASS_SERVICE_VERSION", kinds.text(), attribute="service.version",
        doc="Version of the service."),
    _identity("environment", "FLEETGLASS_ENVIRONMENT", kinds.text(), attribute="deployment.environment.name",
        doc="Deployment environment, such as `production`; a label in Loki."),
    _identity("namespace", "FLEETGLASS_SERVICE_NAMESPACE", kinds.text(), attribute="service.namespace",
        doc="Namespace of the service name. When set, `job` becomes `namespace/service`."),
    _identity("instance", "FLEETGLASS_INSTANCE", kinds.text(), attribute="service.instance.id",
        doc="Identity of this process among its siblings, used as it is: give each process its own. Unset: pod or host "
        "name, and a slot number for siblings."),
    _identity("resource", "OTEL_RESOURCE_ATTRIBUTES", kinds.attributes(),
        doc="Further resource attributes. `service.name`, `service.version`, `service.namespace`, "
        "`service.instance.id` and `deployment.environment.name` count as the settings above when those are unset. "
        "Argument and variable are merged; the argument wins."),

    _logs("log_level", "FLEETGLASS_LOG_LEVEL", kinds.level(), doc="Level of the root logger."),
    _logs("log_levels", "FLEETGLASS_LOG_LEVELS", kinds.levels(),
        doc="Levels of single loggers: `uvicorn=WARNING,app.db=DEBUG`."),
    _logs("log_format", "FLEETGLASS_LOG_FORMAT", kinds.choice("logfmt", "json", "console"),
        doc="Form of a line: logfmt, one JSON object, or coloured text for a person at a terminal."),
    _logs("stdout", "FLEETGLASS_STDOUT", kinds.choice("auto", "on", "off"),
        doc="Whether lines go to stdout. `auto`: when no network log sink is active, or stdout is a terminal."),
    _logs("access_log", "FLEETGLASS_ACCESS_LOG", kinds.switch(),
        doc="One line for each HTTP request. Unset: for role `server`."),

    _loki("loki_url", "FLEETGLASS_LOKI_URL", addresses.url("/loki/api/v1/push"),
        doc="Loki to push lines to. `/loki/api/v1/push` is appended to a URL without a path."),
    _loki("loki_tenant", "FLEETGLASS_LOKI_TENANT", kinds.text(), doc="Tenant, sent as `X-Scope-OrgID`."),
    _loki("loki_user", "FLEETGLASS_LOKI_USER", kinds.text(), doc="User for HTTP basic authentication."),
    _loki("loki_password", "FLEETGLASS_LOKI_PASSWORD", kinds.secret_text(), secret=True,
        doc="Password for HTTP basic authentication."),
    _loki("loki_labels", "FLEETGLASS_LOKI_LABELS", kinds.loki_labels("service_name"),
        doc="Further stream labels: `cluster=eu1,team=core`. Keep to values that are few and fixed."),
    _loki("loki_headers", "FLEETGLASS_LOKI_HEADERS", kinds.headers(), secret=True,
        doc="Further request headers: `name=value,…`, percent-encoded."),

    _otlp("otlp_endpoint", "OTEL_EXPORTER_OTLP_ENDPOINT", _OTLP_KINDS["endpoint"],
        doc="OTLP receiver. Alone it takes traces, and logs only when no Loki URL is set. Over HTTP `/v1/traces` and "
        "`/v1/logs` are appended. Unset: nothing is exported (the OpenTelemetry default is localhost)."),
    _otlp("otlp_protocol", "OTEL_EXPORTER_OTLP_PROTOCOL", _OTLP_KINDS["protocol"],
        doc="Wire protocol. `http/json` is not spoken."),
    _otlp("otlp_headers", "OTEL_EXPORTER_OTLP_HEADERS", _OTLP_KINDS["headers"], secret=True,
        doc="Request headers: `name=value,…`, percent-encoded."),
    _otlp("otlp_timeout", "OTEL_EXPORTER_OTLP_TIMEOUT", _OTLP_KINDS["timeout"],
        doc="Longest time for one request, in seconds, as OpenTelemetry for Python reads it (the specification says "
        "milliseconds)."),
    _otlp("otlp_compression", "OTEL_EXPORTER_OTLP_COMPRESSION", _OTLP_KINDS["compression"],
        doc="Body compression (the OpenTelemetry default is none)."),
    _otlp("otlp_certificate", "OTEL_EXPORTER_OTLP_CERTIFICATE", _OTLP_KINDS["certificate"],
        doc="PEM file of the certificates to trust instead of the system's."),
    _otlp("otlp_client_certificate", "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", _OTLP_KINDS["client_certificate"],
        doc="PEM file of the client certificate (mutual TLS)."),
    _otlp("otlp_client_key", "OTEL_EXPORTER_OTLP_CLIENT_KEY", _OTLP_KINDS["client_key"],
        doc="PEM file of the client key (mutual TLS)."),
    _otlp("otlp_insecure", "OTEL_EXPORTER_OTLP_INSECURE", _OTLP_KINDS["insecure"],
        doc="gRPC in clear text when the endpoint names no scheme."),
    _otlp("traces_exporter", "OTEL_TRACES_EXPORTER", kinds.choice("auto", "otlp", "none"),
        doc="`none` keeps traces in the process. `auto`: OTLP when there is an endpoint."),
    _otlp("logs_exporter", "OTEL_LOGS_EXPORTER", kinds.choice("auto", "otlp", "none"),
        doc="`none` keeps logs off OTLP. `auto`: OTLP when there is an endpoint and no Loki URL. A Loki URL wins over "
        "`otlp` too, since a log is stored once."),
    _otlp("metrics_exporter", "OTEL_METRICS_EXPORTER", kinds.choice("prometheus", "otlp", "none"),
        doc="`otlp` sends metrics over OTLP as well as exposing them; `prometheus` exposes them, and pushes them where "
        "a push URL is set; `none` does neither."),
    _otlp("otlp_log_body", "FLEETGLASS_OTLP_LOG_BODY", kinds.choice("line", "attributes"),
        doc="`line`: the body is the whole line, as Loki would get it. `attributes`: the body is the message and the "
        "fields are attributes, for other backends."),
    _otlp("disabled", "OTEL_SDK_DISABLED", kinds.switch(standard=True),
        doc="Nothing is sent over OTLP and no spans are made; propagation stays."),
    *_otlp_rows(),

    _traces("sampler", "OTEL_TRACES_SAMPLER", kinds.choice(
        "always_on", "always_off", "traceidratio",
        "parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio"),
        doc="Which traces are kept."),
    _traces("sampler_arg", "OTEL_TRACES_SAMPLER_ARG", kinds.number("", 0, 1),
        doc="Share of traces that the ratio samplers keep. Unset: 1."),
    _traces("propagators", "OTEL_PROPAGATORS", kinds.names(
        "tracecontext", "baggage", "b3", "b3multi", "jaeger", "ottrace", "xray", "xray-lambda", "gcp_trace", "none",
        none="none"),
        doc="Formats in which trace context is read and written. Those beside `tracecontext` and `baggage` need their "
        "OpenTelemetry package installed."),
    _traces("server_timing", "FLEETGLASS_SERVER_TIMING", kinds.switch(),
        doc="Responses carry `Server-Timing: traceparent`, so that a page can name the trace of a failing call."),
    _traces("instrument", "FLEETGLASS_INSTRUMENT", kinds.names(),
        doc="Client libraries to instrument by name, where their OpenTelemetry package is installed: `httpx,psycopg`."),

    _metrics("metrics_listen", "FLEETGLASS_METRICS_LISTEN", addresses.listen_address(off=True),
        doc="Where a worker or agent serves `/metrics`; set by name, any role does. `off`: nowhere."),
    _metrics("metrics_push_url", "FLEETGLASS_METRICS_PUSH_URL", addresses.url("/api/v1/import/prometheus"),
        doc="VictoriaMetrics to push to, for processes that can't be scraped. `/api/v1/import/prometheus` is appended "
        "to a URL without a path."),
    _metrics("metrics_push_interval", "FLEETGLASS_METRICS_PUSH_INTERVAL", kinds.number("seconds", 0.1, 3600),
        doc="Seconds between pushes."),
    _metrics("metrics_label_values", "FLEETGLASS_METRICS_LABEL_VALUES", kinds.count(1, 100_000),
        doc="Most values that one label of one metric may take; further ones become `__other__`."),
    _metrics("multiproc_dir", "PROMETHEUS_MULTIPROC_DIR", kinds.text(),
        doc="Directory in which the processes of one service share their metrics (prometheus-client's multiprocess "
        "mode)."),

    _delivery("scrub_keys", "FLEETGLASS_SCRUB_KEYS", kinds.names(),
        doc="Further names of fields whose values are secrets."),
    _delivery("queue_bytes", "FLEETGLASS_QUEUE_BYTES", kinds.size(64 << 10, 64 << 30),
        doc="Most bytes that may wait for one sink; beyond it the newest record is dropped and counted."),
    _delivery("queue_records", "FLEETGLASS_QUEUE_RECORDS", kinds.count(1, 100_000_000),
        doc="Most records that may wait for one sink."),
    _delivery("batch_bytes", "FLEETGLASS_BATCH_BYTES", kinds.size(16 << 10, 64 << 20),
        doc="Most bytes of one request, before compression; not more than `queue_bytes`."),
    _delivery("linger", "FLEETGLASS_LINGER", kinds.number("seconds", 0, 60),
        doc="Longest time that a record waits for its batch to fill."),
    _delivery("shutdown_timeout", "FLEETGLASS_SHUTDOWN_TIMEOUT", kinds.number("seconds", 0, 300),
        doc="Time for everything that still waits when the process ends; one deadline for all sinks."),
    _delivery("strict", "FLEETGLASS_STRICT", kinds.switch(),
        doc="Raise the library's own faults instead of counting them."),
    _delivery("sigterm", "FLEETGLASS_SIGTERM", kinds.switch(),
        doc="Flush on SIGTERM, then let the previous handler act."),

    *INGEST,
    *COMMANDS,
)
# fmt: on
