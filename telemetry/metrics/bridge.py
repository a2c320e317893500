"""OpenTelemetry instruments in our exposition.

Instrumented libraries ask OpenTelemetry's global MeterProvider for meters. Ours is a light stand-in, set
once for the life of the process; the SDK's metrics (35 ms of imports) come in when somebody asks for a
meter. Its readings appear beside all others, with ``otel_scope_*`` labels, so that two libraries with an
instrument of one name stay apart.

In multiprocess mode OpenTelemetry keeps no values where other processes could read them: instruments
record nothing there, which is said once. A forked child goes on from its parent's figures.
"""

from __future__ import annotations

import threading

from opentelemetry.metrics import Meter, MeterProvider, NoOpMeter, get_meter_provider, set_meter_provider
from opentelemetry.util.types import Attributes

from telemetry import faults
from telemetry.metrics import multiprocess
from telemetry.metrics.exposition import DEFAULT, Exposition, Source

SOURCE = "OpenTelemetry"


class BridgeMeterProvider(MeterProvider):
    """A MeterProvider whose instruments are read by ``exposition``."""

    def __init__(self, exposition: Exposition = DEFAULT) -> None:
        self._exposition = exposition
        self._provider: MeterProvider | None = None
        self._lock = threading.RLock()
        self._said = False

    def get_meter(
        self,
        name: str,
        version: str | None = None,
        schema_url: str | None = None,
        attributes: Attributes | None = None,
    ) -> Meter:
        """A meter of the SDK's; in multiprocess mode one that records nothing."""
        if multiprocess.active():
            if not self._said:
                self._said = True
                faults.say(
                    f"OpenTelemetry metrics are not kept in multiprocess mode; {name!r} and others will record nothing"
                )
            return NoOpMeter(name, version, schema_url)
        with self._lock:
            if self._provider is None:
                self._provider = self._open()
        return self._provider.get_meter(name, version, schema_url, attributes)

    def _open(self) -> MeterProvider:
        from opentelemetry.exporter.prometheus import PrometheusMetricReader
        from opentelemetry.sdk import metrics as sdk
        from opentelemetry.sdk.resources import Resource
        from prometheus_client import CollectorRegistry

        registry = CollectorRegistry()
        reader = PrometheusMetricReader(disable_target_info=True, registry=registry)
        # Ours says target_info, so that detecting a resource here would be wasted. Nothing has to be flushed.
        provider = sdk.MeterProvider([reader], resource=Resource({}), shutdown_on_exit=False)
        self._exposition.add_source(Source(SOURCE, registry.collect))
        return provider


PROVIDER = BridgeMeterProvider()


def install() -> bool:
    """Make ours OpenTelemetry's global MeterProvider, once and for all; False when another one is set already."""
    from opentelemetry.metrics._internal import _ProxyMeterProvider

    current = get_meter_provider()
    if current is PROVIDER:
        return True
    if not isinstance(current, _ProxyMeterProvider):
        faults.say("another OpenTelemetry MeterProvider is set already; what its instruments record is not in /metrics")
        return False
    set_meter_provider(PROVIDER)
    return True
