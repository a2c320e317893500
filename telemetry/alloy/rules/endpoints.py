"""Addresses: the right protocol on the port, the right path for the component, TLS where it is expected."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from typing import Literal
from urllib.parse import SplitResult, urlsplit

import msgspec

from telemetry.alloy.finding import Findings
from telemetry.alloy.frames import Frame, Text, environment, follow, inner_blocks, texts, values_at
from telemetry.alloy.program import Node
from telemetry.alloy.rules.catalogue import Options
from telemetry.alloy.syntax import Attribute, Block
from telemetry.alloy.syntax import Literal as Value

Protocol = Literal["otlp-grpc", "otlp-http", "loki", "prometheus"]


class Endpoint(msgspec.Struct, frozen=True):
    """Where a component sends: the attribute that says it and the protocol it speaks."""

    component: str
    path: tuple[str, ...]
    protocol: Protocol
    signal: str = ""


ENDPOINTS = (
    Endpoint("otelcol.exporter.otlp", ("client", "endpoint"), "otlp-grpc"),
    Endpoint("otelcol.exporter.loadbalancing", ("resolver", "static", "hostnames"), "otlp-grpc"),
    Endpoint("otelcol.exporter.otlphttp", ("client", "endpoint"), "otlp-http"),
    Endpoint("otelcol.exporter.otlphttp", ("traces_endpoint",), "otlp-http", "traces"),
    Endpoint("otelcol.exporter.otlphttp", ("metrics_endpoint",), "otlp-http", "metrics"),
    Endpoint("otelcol.exporter.otlphttp", ("logs_endpoint",), "otlp-http", "logs"),
    Endpoint("loki.write", ("endpoint", "url"), "loki"),
    Endpoint("prometheus.remote_write", ("endpoint", "url"), "prometheus"),
)
_GRPC = ("otelcol.exporter.otlp", "otelcol.exporter.loadbalancing")
_NAMES = {
    "otlp-grpc": "OTLP over gRPC",
    "otlp-http": "OTLP over HTTP",
    "loki": "Loki's push protocol",
    "prometheus": "Prometheus remote write",
}
# Who listens on a port by default, and which of the protocols it takes there.
_PORTS: dict[int, tuple[str, frozenset[str]]] = {
    4317: ("OTLP over gRPC", frozenset({"otlp-grpc"})),
    4318: ("OTLP over HTTP", frozenset({"otlp-http"})),
    3100: ("Loki's HTTP server", frozenset({"loki", "otlp-http"})),
    3200: ("Tempo's query API, which takes no data", frozenset()),
    8428: ("VictoriaMetrics (HTTP)", frozenset({"prometheus", "otlp-http"})),
    8480: ("vminsert (HTTP)", frozenset({"prometheus", "otlp-http"})),
    8481: ("vmselect, which takes no data", frozenset()),
    8429: ("vmagent (HTTP)", frozenset({"prometheus", "otlp-http"})),
    9428: ("VictoriaLogs (HTTP)", frozenset({"loki", "otlp-http"})),
    9090: ("Prometheus (HTTP)", frozenset({"prometheus", "otlp-http"})),
    9095: ("the gRPC API of Loki or Tempo, which takes no data", frozenset()),
    12347: ("a Faro receiver (HTTP)", frozenset()),
    3000: ("Grafana, which takes no data", frozenset()),
}
_ADVICE = {
    ("otlp-grpc", 4318): "send to port 4317, or use otelcol.exporter.otlphttp",
    ("otlp-http", 4317): "send to port 4318, or use otelcol.exporter.otlp",
    ("otlp-grpc", 3100): 'use otelcol.exporter.otlphttp with endpoint "http://HOST:3100/otlp"',
    ("otlp-grpc", 8428): "use otelcol.exporter.prometheus and prometheus.remote_write",
    ("otlp-grpc", 3200): "send to Tempo's receiver, port 4317",
    ("otlp-http", 3200): "send to Tempo's receiver, port 4318",
    ("loki", 4318): "use otelcol.exporter.otlphttp for OTLP, or Loki's port, 3100",
    ("prometheus", 4318): "send to the metrics store, as http://HOST:8428/api/v1/write",
}


def check(frames: Iterable[Frame], found: Findings, options: Options) -> None:
    """Judge every address that is written down, through the arguments of modules."""
    for frame in frames:
        for node in frame.scope.all():
            for endpoint in ENDPOINTS:
                if node.block.name == endpoint.component:
                    _endpoint(node, endpoint, frame, found)
            if node.block.name in _GRPC:
                _tls(node, frame, found)
            if not options.local:
                _listens(node, frame, found)


def _endpoint(node: Node, endpoint: Endpoint, frame: Frame, found: Findings) -> None:
    name = endpoint.path[-1]
    for given in values_at(node.block, *endpoint.path):
        for variable, position in environment(given.value, frame):
            found.warning(
                position,
                "empty-env",
                f"{name} of {node.block.title} is empty where {variable} is not set, and Alloy starts nevertheless; "
                f'write coalesce(sys.env("{variable}"), "…") with a default',
            )
        for text in _listed(given, frame):
            _address(text, endpoint, f"{name} of {node.block.title}", found)


def _listed(given: Attribute, frame: Frame) -> Iterator[Text]:
    place = follow(given.value, frame)
    items = getattr(place.value, "items", None) if place else None
    if place is None or items is None:
        yield from texts(given.value, frame)
        return
    for item in items:
        yield from texts(item, place.frame)


def _address(text: Text, endpoint: Endpoint, title: str, found: Findings) -> None:
    written, protocol = text.text.strip(), endpoint.protocol
    if not written or "$" in written:
        return
    grpc = protocol == "otlp-grpc"
    if grpc and written.startswith(("dns:", "unix:", "passthrough:", "xds:", "ipv4:", "ipv6:")):
        return
    try:
        url = urlsplit(written if "://" in written else f"//{written}")
        port = url.port
    except ValueError as error:
        found.error(text.position, "address", f'{title}: "{written}" is no address: {error}')
        return
    if not grpc and url.scheme not in {"http", "https"}:
        found.error(
            text.position, "address", f'{title} needs a scheme: write "http://{written.rpartition("://")[2]}", or https'
        )
        return
    if not url.hostname:
        found.error(text.position, "address", f'{title}: "{written}" names no host')
        return
    if not _port(port, protocol, text, title, found):
        return
    if grpc:
        if url.path not in {"", "/"}:
            found.error(
                text.position,
                "path",
                f'{title} speaks gRPC, which has no URL path; write "{url.hostname}:{port or 4317}", '
                "or use otelcol.exporter.otlphttp",
            )
        return
    wrong = {"loki": _loki_path, "prometheus": _prometheus_path, "otlp-http": _otlp_path}[protocol](url, port, endpoint)
    if wrong:
        found.error(text.position, "path", f"{title}: {wrong}")


def _port(port: int | None, protocol: str, text: Text, title: str, found: Findings) -> bool:
    """Whether the port may be right. Ports such as 14318 are those of OTLP moved out of another's way."""
    if port is None:
        return True
    known = port if port in _PORTS else {4317: 4317, 4318: 4318}.get(port % 10_000, 0)
    if known not in _PORTS or protocol in _PORTS[known][1]:
        return True
    owner = _PORTS[known][0]
    advice = _ADVICE.get((protocol, known), "check the address")
    found.error(text.position, "port", f"{title} speaks {_NAMES[protocol]}, but port {port} is {owner}; {advice}")
    return False


def _loki_path(url: SplitResult, port: int | None, endpoint: Endpoint) -> str:
    path = url.path.rstrip("/")
    if path.endswith("/loki/api/v1/push"):
        return ""
    base = f"{url.scheme}://{url.netloc}"
    if "/otlp" in path or path.endswith("/v1/logs"):
        return (
            f"{url.path} is for OTLP, and loki.write speaks Loki's push protocol, so that Loki answers 404; "
            f'write "{base}/loki/api/v1/push", or send OTLP with otelcol.exporter.otlphttp'
        )
    if port == 9428:
        return f'VictoriaLogs takes it at "{base}/insert/loki/api/v1/push"'
    return f'Loki takes lines at /loki/api/v1/push, not at "{url.path or "/"}"; write "{base}/loki/api/v1/push"'


def _prometheus_path(url: SplitResult, port: int | None, endpoint: Endpoint) -> str:
    path = url.path.rstrip("/")
    base = f"{url.scheme}://{url.netloc}"
    if not path:
        return f'it needs the path of the write endpoint; write "{base}/api/v1/write"'
    if "/api/v1/import" in path:
        return (
            f"{url.path} imports text or JSON, and prometheus.remote_write sends its own protocol; "
            f'write "{base}{path.partition("/api/v1/import")[0]}/api/v1/write"'
        )
    if "/loki/" in path or "/opentelemetry" in path or "/otlp" in path or path.endswith("/v1/metrics"):
        return f'{url.path} takes another protocol than remote write; write "{base}/api/v1/write"'
    if path.endswith(("/api/v1/query", "/api/v1/query_range", "/metrics", "/select/0/prometheus")):
        return f'{url.path} is for reading; write "{base}/api/v1/write"'
    return ""


def _otlp_path(url: SplitResult, port: int | None, endpoint: Endpoint) -> str:
    path = url.path.rstrip("/")
    base = f"{url.scheme}://{url.netloc}"
    if path.endswith("/loki/api/v1/push"):
        return (
            f"{url.path} speaks Loki's push protocol, not OTLP, and answers 404; "
            f'write "{base}/otlp", or send with otelcol.exporter.loki and loki.write'
        )
    if path.endswith("/api/v1/write"):
        return f"{url.path} takes remote write, not OTLP; use otelcol.exporter.prometheus and prometheus.remote_write"
    if endpoint.signal:
        return _otlp_signal(path, port, base, endpoint.signal)
    ending = next((end for end in ("/v1/logs", "/v1/traces", "/v1/metrics") if path.endswith(end)), "")
    if ending:
        return f'the exporter adds {ending} itself; write "{base}{path.removesuffix(ending)}"'
    if port == 3100 and not path.endswith("/otlp"):
        return f'Loki takes OTLP below /otlp; write "{base}/otlp"'
    if port in {8428, 8429} and not path.endswith("/opentelemetry"):
        return f'VictoriaMetrics takes OTLP below /opentelemetry; write "{base}/opentelemetry"'
    if port == 9090 and not path.endswith("/api/v1/otlp"):
        return f'Prometheus takes OTLP below /api/v1/otlp; write "{base}/api/v1/otlp"'
    return ""


def _otlp_signal(path: str, port: int | None, base: str, signal: str) -> str:
    if port == 3100 and path != "/otlp/v1/logs":
        return f'Loki takes OTLP logs at "{base}/otlp/v1/logs"'
    if not path:
        return f'{signal}_endpoint is taken as it is, without anything added; write "{base}/v1/{signal}"'
    return ""


# --- TLS --------------------------------------------------------------------------------------------------


def _tls(node: Node, frame: Frame, found: Findings) -> None:
    """An OTLP exporter over gRPC expects TLS unless told otherwise; a plain host in a cluster has none."""
    balancer = node.block.name == "otelcol.exporter.loadbalancing"
    clients = list(_clients(node.block, balancer=balancer))
    if not clients or any(_says_tls(client) for client in clients):
        return
    path = ("resolver", "static", "hostnames") if balancer else ("client", "endpoint")
    hosts = [text for given in values_at(node.block, *path) for text in _listed(given, frame)]
    plain = [text for text in hosts if _is_plain(text.text)]
    discovered = balancer and any(
        True
        for resolver in inner_blocks(node.block.body, "resolver")
        for _ in inner_blocks(resolver.body, "kubernetes")
    )
    if plain or discovered:
        where = plain[0].position if plain else clients[0].position
        host = plain[0].text if plain else "a pod of a cluster"
        found.warning(
            where,
            "tls",
            f"{node.block.title} expects TLS, which {host} hardly speaks; add tls {{ insecure = true }} to its client, "
            "or tls { ca_file = … } when it does",
        )


def _clients(block: Block, *, balancer: bool) -> Iterator[Block]:
    if not balancer:
        yield from inner_blocks(block.body, "client")
        return
    for protocol in inner_blocks(block.body, "protocol"):
        for otlp in inner_blocks(protocol.body, "otlp"):
            found = list(inner_blocks(otlp.body, "client"))
            yield from found or [otlp]


def _says_tls(client: Block) -> bool:
    """Whether a tls block says anything but insecure = false."""
    for tls in inner_blocks(client.body, "tls"):
        for statement in tls.body:
            literal = statement.value if isinstance(statement, Attribute) else None
            if not (statement.name == "insecure" and isinstance(literal, Value) and literal.value is False):
                return True
    return False


def _is_plain(address: str) -> bool:
    """A host that is no public name: one word, a private address, a Service of Kubernetes. ``http://`` says it."""
    if "://" in address:
        return False
    host = _host(address)
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        local = (".svc", ".svc.cluster.local", ".cluster.local", ".local", ".internal", ".lan", ".localdomain")
        return bool(host) and ("." not in host or host.endswith(local))


# --- what listens -----------------------------------------------------------------------------------------

_EVERYWHERE = "0.0.0.0"  # noqa: S104 - a word of advice, nothing is bound to it
_LISTENERS = (
    ("otelcol.receiver.otlp", ("grpc", "endpoint")),
    ("otelcol.receiver.otlp", ("http", "endpoint")),
    ("otelcol.receiver.zipkin", ("endpoint",)),
    ("otelcol.receiver.jaeger", ("protocols", "grpc", "endpoint")),
    ("otelcol.receiver.jaeger", ("protocols", "thrift_http", "endpoint")),
    ("loki.source.api", ("http", "listen_address")),
    ("loki.source.syslog", ("listener", "address")),
    ("prometheus.receive_http", ("http", "listen_address")),
    ("faro.receiver", ("server", "listen_address")),
)


def _listens(node: Node, frame: Frame, found: Findings) -> None:
    for component, path in _LISTENERS:
        if node.block.name != component:
            continue
        for given in values_at(node.block, *path):
            for text in texts(given.value, frame):
                if _is_loopback(text.text):
                    instead = _EVERYWHERE + (f":{text.text.rpartition(':')[2]}" if ":" in text.text else "")
                    _say_localhost(text, f"{'.'.join(path)} of {node.block.title}", instead, found)
        if component == "faro.receiver" and not any(values_at(node.block, *path)):
            found.notice(
                node.block.position,
                "localhost",
                f"{node.block.title} listens on 127.0.0.1 unless told otherwise, which no browser elsewhere can reach; "
                'set server { listen_address = "0.0.0.0" }, or check with --local',
            )


def _say_localhost(text: Text, title: str, instead: str, found: Findings) -> None:
    found.notice(
        text.position,
        "localhost",
        f'{title} is "{text.text}", which only this machine (in a container: only this container) can reach; '
        f'"{instead}" is reached by others; check with --local when that is meant',
    )


def _is_loopback(address: str) -> bool:
    host = _host(address)
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _host(address: str) -> str:
    try:
        return urlsplit(f"//{address}").hostname or ""
    except ValueError:
        return ""
