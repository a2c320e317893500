"""Where a signal goes over the network: the settings of one OTLP exporter, Loki push or metrics push.

The rules of the OTLP exporter specification (protocol/exporter.md) are applied here, so that senders
get a finished address and finished headers and decide nothing.
"""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args
from urllib.parse import unquote, urlsplit, urlunsplit

import msgspec

if TYPE_CHECKING:
    from telemetry.config.settings import Config

Signal = Literal["traces", "logs", "metrics"]
Protocol = Literal["http/protobuf", "grpc"]
Compression = Literal["gzip", "none"]
SIGNALS: tuple[Signal, ...] = get_args(Signal)


class OtlpTarget(msgspec.Struct, frozen=True, kw_only=True):
    """All that an OTLP exporter of one signal needs to know.

    ``endpoint`` is a URL without credentials: for ``http/protobuf`` the complete address to POST to,
    for ``grpc`` scheme and authority only. ``headers`` have lower-case names and carry ``authorization``
    when the endpoint held credentials. ``timeout`` is in seconds, per request. The three file paths
    are PEM files; ``insecure`` is True where the connection is in clear text.
    """

    signal: Signal
    endpoint: str
    protocol: Protocol
    headers: Mapping[str, str]
    timeout: float
    compression: Compression
    certificate: str | None
    client_certificate: str | None
    client_key: str | None
    insecure: bool

    def __repr__(self) -> str:
        return f"OtlpTarget({self.signal} over {self.protocol} to {self.endpoint})"


class HttpTarget(msgspec.Struct, frozen=True):
    """An address to POST to: a URL without credentials, and the headers that carry them (lower-case names)."""

    url: str
    headers: Mapping[str, str]

    def __repr__(self) -> str:
        return f"HttpTarget({self.url})"


def otlp_target(config: Config, signal: Signal) -> OtlpTarget | None:
    """The OTLP target of ``signal``, or None when it isn't sent over OTLP.

    Traces go wherever an endpoint is set. Logs do unless a Loki URL is set, since a log is stored
    once. Metrics do only when OTEL_METRICS_EXPORTER says ``otlp``. Nothing does under OTEL_SDK_DISABLED.
    """
    wanted = {
        "traces": config.traces_exporter != "none",
        "logs": config.logs_exporter != "none" and config.loki_url is None,
        "metrics": config.metrics_exporter == "otlp",
    }[signal]
    own: str | None = _own(config, signal, "endpoint")
    given = own or config.otlp_endpoint
    if config.disabled or not wanted or not given:
        return None
    protocol: Protocol = _own(config, signal, "protocol") or config.otlp_protocol
    insecure: bool = _first(_own(config, signal, "insecure"), config.otlp_insecure, False)
    complete = own or signal_endpoint(given, signal)
    endpoint = grpc_endpoint(given, insecure=insecure) if protocol == "grpc" else complete
    endpoint, authorization = split_credentials(endpoint)
    headers = dict(_own(config, signal, "headers") or config.otlp_headers)
    if authorization:
        headers.setdefault("authorization", authorization)
    return OtlpTarget(
        signal=signal,
        endpoint=endpoint,
        protocol=protocol,
        headers=headers,
        timeout=_first(_own(config, signal, "timeout"), config.otlp_timeout),
        compression=_own(config, signal, "compression") or config.otlp_compression,
        certificate=_own(config, signal, "certificate") or config.otlp_certificate,
        client_certificate=_own(config, signal, "client_certificate") or config.otlp_client_certificate,
        client_key=_own(config, signal, "client_key") or config.otlp_client_key,
        insecure=endpoint.startswith("http:"),
    )


def loki_target(config: Config) -> HttpTarget | None:
    """Where log lines are pushed, with tenant and credentials as headers; None without a Loki URL."""
    if config.loki_url is None:
        return None
    url, authorization = split_credentials(config.loki_url)
    if config.loki_user is not None:
        authorization = basic_authorization(config.loki_user, config.loki_password or "")
    headers = {"x-scope-orgid": config.loki_tenant} if config.loki_tenant else {}
    if authorization:
        headers["authorization"] = authorization
    return HttpTarget(url, headers | dict(config.loki_headers))


def push_target(config: Config) -> HttpTarget | None:
    """Where metrics are pushed in Prometheus text; None without a push URL."""
    if config.metrics_push_url is None:
        return None
    url, authorization = split_credentials(config.metrics_push_url)
    return HttpTarget(url, {"authorization": authorization} if authorization else {})


def signal_endpoint(base: str, signal: Signal) -> str:
    """The address of one signal below a base endpoint: ``/v1/traces`` and so on is appended to its path."""
    parts = urlsplit(base)
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/v1/{signal}"))


def grpc_endpoint(endpoint: str, *, insecure: bool) -> str:
    """Scheme and authority of a gRPC endpoint; without a scheme, ``insecure`` decides between http and https."""
    if "://" not in endpoint:
        return f"{'http' if insecure else 'https'}://{endpoint}"
    parts = urlsplit(endpoint)
    return f"{parts.scheme}://{parts.netloc}"


def split_credentials(url: str) -> tuple[str, str | None]:
    """A URL without ``user:password@``, and the Authorization header value they stand for, if any."""
    parts = urlsplit(url)
    userinfo, at, host = parts.netloc.rpartition("@")
    if not at:
        return url, None
    user, _, password = userinfo.partition(":")
    return urlunsplit(parts._replace(netloc=host)), basic_authorization(unquote(user), unquote(password))


def basic_authorization(user: str, password: str) -> str:
    """The value of an Authorization header (RFC 7617, UTF-8)."""
    return "Basic " + b2a_base64(f"{user}:{password}".encode(), newline=False).decode("ascii")


def _own(config: Config, signal: Signal, part: str) -> Any:
    return getattr(config, f"otlp_{signal}_{part}")


def _first(*values: Any) -> Any:
    return next(value for value in values if value is not None)
