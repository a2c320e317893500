"""What a contact with an address means: name, port, protocol, TLS, path, tenant, credentials."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit

from telemetry.config import mask_credentials
from telemetry.probe.records import Contact, Trouble

_USUAL = {
    "otlp-http": "the port of OTLP over HTTP (4318)",
    "otlp-grpc": "the port of OTLP over gRPC (4317)",
    "loki": "Loki's HTTP port (3100)",
    "push": "VictoriaMetrics' HTTP port (8428)",
    "tempo": "Tempo's HTTP port (3200)",
    "victorialogs": "VictoriaLogs' HTTP port (9428)",
    "metrics": "VictoriaMetrics' HTTP port (8428)",
}
_PATHS = {
    ("otlp-http", "traces"): "a receiver takes traces at /v1/traces",
    ("otlp-http", "logs"): "a collector takes logs at /v1/logs, Loki at /otlp/v1/logs",
    ("otlp-http", "metrics"): "a collector takes metrics at /v1/metrics, VictoriaMetrics at /opentelemetry/v1/metrics",
    ("loki", "logs"): "Loki takes pushes at /loki/api/v1/push, VictoriaLogs at /insert/loki/api/v1/push",
    ("push", "metrics"): "VictoriaMetrics takes Prometheus text at /api/v1/import/prometheus",
    ("tempo", "traces"): "Tempo's API lies at /api/traces below its address",
    ("loki-query", "logs"): "Loki's API lies at /loki/api/v1 below its address",
    ("victorialogs", "logs"): "VictoriaLogs' API lies at /select/logsql below its address",
    ("metrics", "metrics"): "the Prometheus API lies at /api/v1 below its address",
}
NO_TENANT = ("no org id", "org id is required", "x-scope-orgid")


class Verdict(NamedTuple):
    """What is wrong, and the sentence that says so."""

    trouble: Trouble
    sentence: str


class Purpose(NamedTuple):
    """What an address is for: a route's kind, or the API that is read; its signal; the setting that names it."""

    kind: str
    signal: str
    setting: str

    @property
    def over_otlp(self) -> bool:
        """Records are sent over OTLP."""
        return self.kind.startswith("otlp")


def place(url: str) -> str:
    """Host and port of an address, as people write them."""
    parts = urlsplit(url)
    host = parts.hostname or "localhost"
    host = f"[{host}]" if ":" in host else host
    return f"{host}:{parts.port or (443 if parts.scheme == 'https' else 80)}"


def explain(contact: Contact, purpose: Purpose) -> Verdict | None:
    """The trouble with an address, or None where it answered with a success."""
    if contact.ok:
        return None
    if contact.reach == "answered" and (contact.status or contact.code):
        return _of_status(contact, purpose) if contact.status else _of_code(contact, purpose)
    return _without_answer(contact, purpose)


def _without_answer(contact: Contact, purpose: Purpose) -> Verdict:
    where, usual = place(contact.url), _USUAL.get(purpose.kind.removesuffix("-query"), "another port")
    mixed = _mixed(contact, purpose, where, usual)
    if mixed is not None:
        return mixed
    if contact.reach == "unresolved":
        host = urlsplit(contact.url).hostname
        return Verdict(
            "unresolved",
            f"The name {host} does not resolve from here: look for a typo in {purpose.setting}; in another namespace "
            "of Kubernetes it is NAME.NAMESPACE.svc.",
        )
    if contact.reach == "refused":
        return Verdict(
            "refused",
            f"Nothing listens at {where} (connection refused): start it, correct {purpose.setting}, or have it listen "
            "on more than its own localhost (receivers of Tempo and Alloy need an explicit endpoint for that).",
        )
    if contact.reach == "timeout":
        return Verdict(
            "unreachable",
            f"{where} does not take a connection: a firewall or a NetworkPolicy drops it, or {purpose.setting} names a "
            "machine that is not there.",
        )
    if contact.reach == "unreachable":
        return Verdict("unreachable", f"{where} can't be reached from here ({contact.detail}).")
    if contact.reach == "tls":
        return Verdict(
            "tls",
            f"The TLS handshake with {where} failed ({contact.detail}): name the certificates to trust in "
            "OTEL_EXPORTER_OTLP_CERTIFICATE for OTLP, in SSL_CERT_FILE for all else.",
        )
    if contact.reach == "silent":
        return Verdict(
            "silent",
            f"{where} takes the connection and then says nothing: it hangs, or something else listens there; {usual} "
            "is what was wanted.",
        )
    return Verdict(
        "protocol", f"{where} answers something that is not HTTP ({contact.detail}): {usual} is what was wanted."
    )


def _mixed(contact: Contact, purpose: Purpose, where: str, usual: str) -> Verdict | None:
    """The port of another protocol, or TLS on one side only."""
    secure, grpc = contact.url.startswith("https:"), purpose.kind == "otlp-grpc"
    if secure and contact.speaks in ("http1", "http2"):
        insecure = " (without a scheme: OTEL_EXPORTER_OTLP_INSECURE=true)" if grpc else ""
        return Verdict(
            "tls", f"{where} speaks clear text, and {purpose.setting} asks for TLS: write http://{insecure}."
        )
    if not secure and contact.speaks == "tls":
        return Verdict("tls", f"{where} speaks TLS, and {purpose.setting} asks for clear text: write https://.")
    if grpc and contact.speaks == "http1":
        return Verdict(
            "protocol",
            f"{where} speaks HTTP/1.1, not gRPC: use {usual}, or set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf.",
        )
    if not grpc and contact.speaks == "http2" and contact.reach != "answered":
        other = ", or set OTEL_EXPORTER_OTLP_PROTOCOL=grpc" if purpose.over_otlp else ""
        return Verdict("protocol", f"{where} speaks gRPC, not HTTP/1.1: use {usual}{other}.")
    return None


def _of_status(contact: Contact, purpose: Purpose) -> Verdict:
    status, said, url = contact.status, contact.text, mask_credentials(contact.url).partition("?")[0]
    quoted = f' ("{said[:120]}")' if said else ""
    if "HTTP request to an HTTPS server" in said:
        return Verdict("tls", f"{place(url)} speaks TLS, and {purpose.setting} asks for clear text: write https://.")
    if 300 <= status < 400:
        return Verdict(
            "redirect",
            f"{url} answered {status}, a redirect to {contact.location or 'nowhere'}, which is not followed: give the "
            f"final address in {purpose.setting} (a login page stands in front of what has none of its own).",
        )
    if any(mark in said.lower() for mark in NO_TENANT):
        return _no_tenant(url, purpose)
    if status in (401, 403, 407):
        return Verdict("auth", f"{url} answered {status}{quoted}: {_credentials(purpose)}")
    unusual = 400 <= status < 500 and status not in (401, 403, 408, 429) and not _usual_path(url, purpose)
    if unusual or status in (404, 405) or "unsupported path" in said:
        fits = _PATHS.get((purpose.kind, purpose.signal), "look up the path")
        return Verdict("path", f"{url} answered {status}: the path is wrong; {fits}. Correct {purpose.setting}.")
    if status == 429:
        return Verdict("limit", f"{url} answered 429{quoted}: its limits are reached.")
    if status >= 500:
        return Verdict("rejected", f"{url} answered {status}{quoted}: it, or what stands behind it, is not ready.")
    return Verdict("rejected", f"{url} answered {status}{quoted}.")


def _usual_path(url: str, purpose: Purpose) -> bool:
    """The path is one that takes this; a 4xx of any other is another API's answer rather than a fault of the record."""
    ends = {
        "otlp-http": (f"/v1/{purpose.signal}", "/opentelemetry/api/v1/push"),
        "loki": ("/loki/api/v1/push",),
        "push": ("/api/v1/import/prometheus",),
    }.get(purpose.kind)
    return ends is None or urlsplit(url).path.rstrip("/").endswith(ends)


def _of_code(contact: Contact, purpose: Purpose) -> Verdict:
    code, said, where = contact.code, contact.text, place(contact.url)
    quoted = f' ("{said[:120]}")' if said else ""
    if any(mark in said.lower() for mark in NO_TENANT):
        return _no_tenant(where, purpose)
    if code == "UNIMPLEMENTED":
        return Verdict(
            "path",
            f"{where} speaks gRPC, but no OTLP for {purpose.signal}: it is the port of something else (Loki and "
            f"Tempo talk among themselves on 9095), or the receiver is not enabled; {_USUAL['otlp-grpc']} "
            "is what was wanted.",
        )
    if code in ("UNAUTHENTICATED", "PERMISSION_DENIED"):
        return Verdict("auth", f"{where} answered {code}{quoted}: {_credentials(purpose)}")
    if code == "RESOURCE_EXHAUSTED":
        return Verdict("limit", f"{where} answered {code}{quoted}: its limits are reached.")
    return Verdict("rejected", f"{where} answered {code}{quoted}.")


def _no_tenant(where: str, purpose: Purpose) -> Verdict:
    setting = "x-scope-orgid in FLEETGLASS_QUERY_HEADERS"
    if purpose.kind == "loki":
        setting = "FLEETGLASS_LOKI_TENANT"
    elif purpose.over_otlp:
        setting = "x-scope-orgid in OTEL_EXPORTER_OTLP_HEADERS"
    return Verdict("tenant", f"{where} keeps tenants and was told none: set {setting}.")


def _credentials(purpose: Purpose) -> str:
    if purpose.over_otlp:
        return "give credentials in OTEL_EXPORTER_OTLP_HEADERS (authorization=Basic%20…), or correct them."
    if purpose.kind == "loki":
        return "give FLEETGLASS_LOKI_USER and FLEETGLASS_LOKI_PASSWORD, or correct them."
    if purpose.kind == "push":
        return "give credentials in the address (https://user:password@…), or correct them."
    return "give credentials in FLEETGLASS_QUERY_HEADERS (authorization=Basic%20…), or correct them."
