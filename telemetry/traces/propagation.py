"""A trace across a boundary: written into a carrier here, read from it there (W3C Trace Context, Baggage)."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any

from opentelemetry import baggage, propagate
from opentelemetry.context import Context, get_current


def inject(carrier: MutableMapping[str, str] | None = None) -> MutableMapping[str, str]:
    """Write the current span and baggage into ``carrier`` (HTTP headers, a job's column), or into a new dict.

    Baggage that no header can carry is left out, all of it; the trace goes on.
    """
    into: MutableMapping[str, str] = {} if carrier is None else carrier
    try:
        propagate.inject(into)
    except UnicodeError:
        propagate.inject(into, baggage.clear())
    return into


def extract(carrier: Mapping[str, Any] | None) -> Context:
    """The context that ``carrier`` brings, to pass as ``context=`` of a span; unreadable parts are left out.

    ``carrier`` may come from anywhere: None, and values that are no texts, bring nothing.
    """
    texts: dict[str, str] = {}
    for key, value in (carrier or {}).items():
        if isinstance(value, list) and value:  # as some frameworks hold headers
            value = value[0]
        if isinstance(value, str):
            texts[key] = value.encode(errors="replace").decode()
    try:
        return propagate.extract(texts)
    except Exception:  # a propagator of another package that knows worse than ours
        return get_current()


def use(names: tuple[str, ...]) -> None:
    """Make the propagators called ``names`` (``OTEL_PROPAGATORS``) the global ones."""
    from opentelemetry.baggage.propagation import W3CBaggagePropagator
    from opentelemetry.propagators.composite import CompositePropagator
    from opentelemetry.propagators.textmap import TextMapPropagator
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    known: dict[str, type[TextMapPropagator]] = {
        "tracecontext": TraceContextTextMapPropagator,
        "baggage": W3CBaggagePropagator,
    }
    chosen: list[TextMapPropagator] = []
    for name in dict.fromkeys(names):
        if name in known:
            chosen.append(known[name]())
        elif name != "none":
            chosen.append(_installed(name))
    propagate.set_global_textmap(CompositePropagator(chosen))


def _installed(name: str) -> Any:
    """A propagator that another package brings (``b3``, ``jaeger``, …) by its OpenTelemetry entry point."""
    from importlib.metadata import entry_points

    for entry in entry_points(group="opentelemetry_propagator", name=name):
        return entry.load()()
    from telemetry.config import ConfigError, Problem

    expected = "tracecontext, baggage, none, or a propagator that an installed package brings"
    raise ConfigError((Problem("OTEL_PROPAGATORS", name, expected),))
