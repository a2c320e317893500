"""The parts of the stack as a table: program, ports, health page, and where to get it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, get_args

import msgspec

Name = Literal["victoriametrics", "loki", "tempo", "vmalert", "alloy", "grafana"]
NAMES: tuple[Name, ...] = get_args(Name)
"""In the order in which they start: stores first, then what talks to them."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One server.

    ``programs`` are the names it may have on PATH. ``says`` stands in what it answers to ``asks``, so that another
    program of that name is not taken for it (Debian's `loki` is about genetics); empty where it says nothing. ``ready``
    is the page that answers 200, on port ``port``. ``wait`` are the seconds it may take to be ready, ``end`` those that
    it has to write what it holds before it is killed. ``get`` says how to get it.
    """

    name: Name
    title: str
    programs: tuple[str, ...]
    asks: str = ""
    says: str = ""
    port: str
    ready: str
    wait: float = 60.0
    end: float = 45.0
    get: str


PARTS: Mapping[Name, Part] = {
    part.name: part
    for part in (
        Part(
            name="victoriametrics",
            title="VictoriaMetrics",
            programs=("victoria-metrics", "victoria-metrics-prod"),
            port="victoriametrics",
            ready="/health",
            get="victoria-metrics 1.142 or newer, from github.com/VictoriaMetrics/VictoriaMetrics/releases",
        ),
        Part(
            name="loki",
            title="Loki",
            programs=("loki",),
            asks="-version",
            says="loki, version",
            port="loki",
            ready="/ready",
            wait=120.0,
            get="Loki 3.8, from github.com/grafana/loki/releases (Debian's package `loki` is something else)",
        ),
        Part(
            name="tempo",
            title="Tempo",
            programs=("tempo",),
            asks="-version",
            says="tempo, version",
            port="tempo",
            ready="/ready",
            wait=120.0,
            end=12.0,  # once it was asked for a trace, 3.0 never ends; what it holds is written within a second or two
            get="Tempo 3.0, from github.com/grafana/tempo/releases",
        ),
        Part(
            name="vmalert",
            title="vmalert",
            programs=("vmalert", "vmalert-prod"),
            port="vmalert",
            ready="/health",
            get="vmalert, in vmutils of github.com/VictoriaMetrics/VictoriaMetrics/releases",
        ),
        Part(
            name="alloy",
            title="Alloy",
            programs=("alloy",),
            asks="--version",
            says="alloy, version",
            port="alloy",
            ready="/-/ready",
            get="Alloy 1.18, from github.com/grafana/alloy/releases",
        ),
        Part(
            name="grafana",
            title="Grafana",
            programs=("grafana",),
            asks="-v",
            says="rafana version",
            port="grafana",
            ready="/api/health",
            wait=180.0,
            get="Grafana 13, from grafana.com/grafana/download",
        ),
    )
}

PORTS: Mapping[str, int] = {
    "victoriametrics": 8428,
    "loki": 3100,
    "loki-grpc": 9096,
    "loki-gossip": 7946,
    "tempo": 3200,
    "tempo-grpc": 9095,
    "tempo-gossip": 7947,
    "tempo-otlp-grpc": 14317,
    "tempo-otlp-http": 14318,
    "vmalert": 8880,
    "alloy": 12345,
    "otlp-grpc": 4317,
    "otlp-http": 4318,
    "grafana": 3000,
}
"""Every port by name, at its default. Loki and Tempo would both take 9095 and 7946, so one of them is moved."""

OWNERS: Mapping[str, Name] = {
    **{port: "loki" for port in PORTS if port.startswith("loki")},
    **{port: "tempo" for port in PORTS if port.startswith("tempo")},
    **{port: "alloy" for port in PORTS if port.startswith("otlp")},
    **{name: name for name in NAMES},
}


class PortError(ValueError):
    """Ports that can't be used; the text says which and what was expected."""


def ports(given: Mapping[str, int], offset: int = 0) -> dict[str, int]:
    """Every port by name: the default moved by ``offset``, unless it is ``given``. Raises PortError."""
    unknown = sorted(given.keys() - PORTS.keys())
    if unknown:
        raise PortError(f"no port is called {', '.join(unknown)}; there are {', '.join(PORTS)}")
    chosen = {name: given.get(name, default + offset) for name, default in PORTS.items()}
    outside = [f"{name}={number}" for name, number in chosen.items() if not 0 < number < 65536]
    if outside:
        raise PortError(f"{', '.join(outside)}: a port lies between 1 and 65535")
    by_number: dict[int, list[str]] = {}
    for name, number in chosen.items():
        by_number.setdefault(number, []).append(name)
    twice = [f"{' and '.join(names)} both want {number}" for number, names in by_number.items() if len(names) > 1]
    if twice:
        raise PortError("; ".join(twice))
    return chosen


def needed(names: Iterable[Name], chosen: Mapping[str, int]) -> dict[str, int]:
    """The ports that these parts will listen on, by name."""
    present = set(names)
    found = {port: number for port, number in chosen.items() if OWNERS[port] in present}
    if "alloy" not in present and "tempo" in present:  # Tempo then takes what services send by itself
        del found["tempo-otlp-grpc"], found["tempo-otlp-http"]
        found |= {port: chosen[port] for port in ("otlp-grpc", "otlp-http")}
    return found
