"""Client libraries instrumented by name, through the OpenTelemetry instrumentation packages."""

from __future__ import annotations

from typing import Any

from telemetry import faults

_active: dict[str, Any] = {}


def instrument(names: tuple[str, ...]) -> None:
    """Instrument each library in ``names`` (``httpx``, ``psycopg``, …); once, however often it is asked for.

    A package that is not installed is said on stderr, with its name, and left out: the service runs on.
    """
    from importlib.metadata import entry_points

    for name in names:
        if name in _active:
            continue
        found = next(iter(entry_points(group="opentelemetry_instrumentor", name=name)), None)
        if found is None:
            faults.say(
                f"instrument={name!r}: no such instrumentation is installed; "
                f"pip install opentelemetry-instrumentation-{name.replace('_', '-')}"
            )
            continue
        try:
            instrumentor = found.load()()
            instrumentor.instrument()
        except Exception as error:  # a third party's code at start: it must not stop the service
            faults.report(f"instrument.{name}", error)
            continue
        _active[name] = instrumentor


def uninstrument() -> None:
    """Undo every ``instrument``."""
    while _active:
        name, instrumentor = _active.popitem()
        try:
            instrumentor.uninstrument()
        except Exception as error:
            faults.report(f"instrument.{name}", error)
