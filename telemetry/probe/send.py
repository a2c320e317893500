"""Sends one trace, one line and one metric as any service of ours does, and watches what becomes of each."""

from __future__ import annotations

import logging
import secrets
import time
from typing import Any

from telemetry.delivery import Shipper
from telemetry.metrics import registry
from telemetry.pipeline import Telemetry, setup
from telemetry.probe import wire
from telemetry.probe.answers import METRIC, Marks
from telemetry.probe.records import Contact, Route, Sent
from telemetry.traces import span
from telemetry.transport import TlsFiles

LOGGER = "fleetglass.probe"
SERVICE = "fleetglass-probe"
_POLL = 0.02

# What the probe needs to be so, whatever the service's own settings say: every record sent at once, once, and
# nothing of it on the terminal.
FIXED: dict[str, Any] = {
    "role": "script",
    "stdout": "off",
    "sampler": "always_on",
    "log_level": "INFO",
    "log_levels": {LOGGER: "INFO"},
    "metrics_listen": "off",
    "metrics_push_interval": 3600.0,
    "linger": 0.0,
    "sigterm": False,
}


def begin(service: str) -> Telemetry:
    """Telemetry of the probe under the settings of this environment. Raises ConfigError."""
    return setup(service=service, **FIXED)


def emit(telemetry: Telemetry) -> Marks:
    """Emit the three records and have them sent. ``Marks`` tell them from all others."""
    value = round(time.time(), 2)  # VictoriaMetrics keeps twelve significant digits
    token = f"p{secrets.token_hex(8)}"
    if telemetry.config.metrics_exporter != "none":
        registry.gauge(METRIC).metric.set(value)
    with span("fleetglass probe", probe=token) as current:
        logging.getLogger(LOGGER).info("probe", extra={"probe": token})
        trace_id = f"{current.get_span_context().trace_id:032x}"
    telemetry.flush(0.1)
    return Marks(trace_id, token, value)


def shipper(telemetry: Telemetry, route: Route) -> Shipper | None:
    """The Shipper that carries a route's signal."""
    return next((each for each in telemetry.shippers if each.sink.signal == route.signal), None)


def watch(route: Route, carrier: Shipper, since: float, deadline: float) -> Sent:
    """Wait until the record is delivered, refused for good, or ``deadline`` passes (both monotonic seconds).

    Where it is not delivered, the address is looked at once more, which takes some seconds beyond the deadline.
    """
    state = "waiting"
    while time.monotonic() < deadline:
        row = carrier.row.snapshot()
        if row.lost:
            state = "refused"
            break
        if row.delivered:
            return Sent("delivered", time.monotonic() - since)
        time.sleep(_POLL)
    error = carrier.last_error
    return Sent("refused" if state == "refused" else "waiting", time.monotonic() - since, error, examine(route))


def examine(route: Route) -> Contact:
    """A second look at the address of a route: an empty request where it speaks HTTP, else what the port speaks."""
    if route.kind == "otlp-grpc":
        return wire.look(route.url)
    kind = {"loki": "application/json", "push": "text/plain"}.get(route.kind, "application/x-protobuf")
    body = b'{"streams":[]}' if route.kind == "loki" else b""
    otlp = route.otlp
    tls = TlsFiles(otlp.certificate, otlp.client_certificate, otlp.client_key) if otlp is not None else None
    return wire.exchange("POST", route.url, {**route.headers, "content-type": kind}, body, tls=tls)
