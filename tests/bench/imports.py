"""Reads ``python -X importtime``: what each part of an import took."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# Part → the packages that make it. The longest prefix that matches wins.
PARTS: Mapping[str, tuple[str, ...]] = {
    "ours": ("telemetry",),
    "msgspec": ("msgspec",),
    "OpenTelemetry API": ("opentelemetry",),
    "OpenTelemetry SDK": ("opentelemetry.sdk", "opentelemetry.semconv"),
    "OpenTelemetry exporters": ("opentelemetry.exporter",),
    "protobuf": ("google", "opentelemetry.proto"),
    "grpc": ("grpc",),
    "prometheus_client": ("prometheus_client",),
    "requests, logging_loki": (
        "requests", "urllib3", "charset_normalizer", "chardet", "idna", "certifi", "rfc3339", "logging_loki",
    ),
}  # fmt: skip
STDLIB = "standard library, for us"
INTERPRETER = "interpreter start"

_LINE = re.compile(r"import time:\s+(\d+) \|\s+\d+ \| ( *)(\S+)")


def part_of(module: str) -> str | None:
    """The part that a module belongs to, or None (the standard library and what only it needs)."""
    found, length = None, 0
    for part, prefixes in PARTS.items():
        for prefix in prefixes:
            if len(prefix) > length and (module == prefix or module.startswith(f"{prefix}.")):
                found, length = part, len(prefix)
    return found


def shares(lines: Iterable[str]) -> dict[str, float]:
    """Milliseconds of import by part, from the stderr of ``python -X importtime``.

    A module's own time counts for its part; a module of no part counts for the part that first asked
    for it, ours as ``STDLIB`` and the interpreter as ``INTERPRETER``.
    """
    modules = [(int(match[1]) / 1000, len(match[2]) // 2, match[3]) for line in lines if (match := _LINE.match(line))]
    totals: dict[str, float] = {}
    askers: list[str] = []
    # A module is printed after those it imports, so that reading backwards meets importers first.
    for milliseconds, depth, module in reversed(modules):
        del askers[depth:]
        asker = askers[-1] if askers else INTERPRETER
        own = part_of(module)
        askers.append(own or asker)
        part = own or (STDLIB if asker == "ours" else asker)
        totals[part] = totals.get(part, 0.0) + milliseconds
    return totals
