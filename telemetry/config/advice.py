"""Settings that are valid one by one and yet don't do what they say: worth a sentence, not a refusal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from telemetry.config.settings import Config
from telemetry.config.targets import SIGNALS


def advice(config: Config, sources: Mapping[str, str]) -> tuple[str, ...]:
    """One sentence for each doubtful combination, in a fixed order. ``sources`` as in ``Loaded``."""
    return (*_exporters(config), *_ports(config), *_unused(config, sources))


def _exporters(config: Config) -> Iterator[str]:
    if config.disabled:
        if any(config.otlp_endpoint or getattr(config, f"otlp_{signal}_endpoint") for signal in SIGNALS):
            yield "OTEL_SDK_DISABLED is true: nothing is sent over OTLP, though an endpoint is set."
        return
    for signal in SIGNALS:
        asked = getattr(config, f"{signal}_exporter") == "otlp"
        endpoint = config.otlp_endpoint or getattr(config, f"otlp_{signal}_endpoint")
        if asked and not endpoint:
            yield (
                f"OTEL_{signal.upper()}_EXPORTER is otlp, but no OTLP endpoint is set: {signal} are not sent. "
                "(Without an endpoint nothing is exported here; the OpenTelemetry default is localhost.)"
            )
    if config.loki_url and (config.logs_exporter == "otlp" or config.otlp_logs_endpoint):
        yield "Logs go to Loki and not over OTLP: a Loki URL is set, and a log is stored once."
    if config.metrics_push_url and config.otlp("metrics"):
        yield "A push URL is set, but metrics go over OTLP and are not pushed: one of the two is enough."
    if config.otlp_metrics_endpoint and config.metrics_exporter != "otlp":
        yield "An OTLP endpoint for metrics is set, but metrics go over OTLP only when OTEL_METRICS_EXPORTER is otlp."


def _ports(config: Config) -> Iterator[str]:
    for signal in SIGNALS:
        target = config.otlp(signal)
        port = urlsplit(target.endpoint).port if target else None
        if target and port == 4317 and target.protocol != "grpc":
            yield f"Port 4317 speaks gRPC as a rule, but {signal} are sent as http/protobuf (whose port is 4318)."
        if target and port == 4318 and target.protocol == "grpc":
            yield f"Port 4318 speaks HTTP as a rule, but {signal} are sent as grpc (whose port is 4317)."


def _unused(config: Config, sources: Mapping[str, str]) -> Iterator[str]:
    if config.sampler_arg is not None and "ratio" not in config.sampler:
        yield f"OTEL_TRACES_SAMPLER_ARG has no effect with the sampler {config.sampler}."
    if config.metrics_exporter == "none":
        for name, field in (("push URL", "metrics_push_url"), ("listen address", "metrics_listen")):
            if sources.get(field, "default") != "default":
                yield f"OTEL_METRICS_EXPORTER is none: the {name} for metrics has no effect."
    if config.loki_url is None:
        for field in ("loki_tenant", "loki_user", "loki_labels", "loki_headers"):
            if sources.get(field, "default") != "default":
                yield f"{field} has no effect without a Loki URL."
