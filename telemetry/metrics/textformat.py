"""Metric families as bytes: Prometheus text 0.0.4 and OpenMetrics 1.0. Pure functions.

prometheus-client's own writer runs several regular expressions for each sample; with thousands of series
that is seconds of held GIL beside the application's event loop. Names that need no escaping, which is
nearly all, take a short way here; the rest goes through prometheus-client's writer, family by family.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from prometheus_client import exposition
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import exposition as openmetrics_exposition
from prometheus_client.samples import Exemplar, Sample

EOF = b"# EOF\n"
UNDERSCORES = "underscores"

_PLAIN_METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_PLAIN_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_TO_ESCAPE = re.compile(r'[\\\n"]')
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_TEXT_TYPES = {"info": "gauge", "stateset": "gauge", "gaugehistogram": "histogram", "unknown": "untyped"}
_TEXT_SUFFIXES = {"counter": "_total", "info": "_info"}
_OWN_FAMILY = ("_created", "_gsum", "_gcount")
_TEXT_WRITER = cast("Callable[..., bytes]", exposition.generate_latest)
_OPENMETRICS_WRITER = cast("Callable[..., bytes]", openmetrics_exposition.generate_latest)
_MOST_NAMES = 10_000
_plain_labels: set[str] = set()
_plain_metrics: set[str] = set()


class _NeedsEscapingError(Exception):
    """A name outside the classic character set, or a sample that only the full writer knows."""


class _One:
    """A registry of one family, which is all that prometheus-client's writers ask of a registry."""

    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterable[Metric]:
        return (self._family,)


def text_family(family: Metric, escaping: str = UNDERSCORES) -> bytes:
    """One family in text 0.0.4. Raises whatever is wrong with it (labels that are no strings, …)."""
    try:
        return _text(family).encode()
    except _NeedsEscapingError:
        return _TEXT_WRITER(_One(family), escaping=escaping)


def openmetrics_family(family: Metric, escaping: str = UNDERSCORES) -> bytes:
    """One family in OpenMetrics 1.0, without the end marker. Raises whatever is wrong with it."""
    try:
        return _openmetrics(family).encode()
    except _NeedsEscapingError:
        return _OPENMETRICS_WRITER(_One(family), escaping=escaping, version="1.0.0").removesuffix(EOF)


def _text(family: Metric) -> str:
    _require_plain(family.name)
    help_text = family.documentation.replace("\\", r"\\").replace("\n", r"\n")
    name = family.name + _TEXT_SUFFIXES.get(family.type, "")
    lines = [f"# HELP {name} {help_text}\n# TYPE {name} {_TEXT_TYPES.get(family.type, family.type)}\n"]
    apart: dict[str, list[str]] = {}
    for sample in family.samples:
        at = "" if sample.timestamp is None else f" {milliseconds(sample.timestamp)}"
        line = f"{_series(sample)} {number(sample.value)}{at}\n"
        if sample.name != family.name and sample.name.endswith(_OWN_FAMILY):
            apart.setdefault(sample.name, []).append(line)
        else:
            lines.append(line)
    # What OpenMetrics knows beside the classic samples is a gauge of its own in the older format.
    for name in sorted(apart):
        lines.append(f"# HELP {name} {help_text}\n# TYPE {name} gauge\n")
        lines += apart[name]
    return "".join(lines)


def _openmetrics(family: Metric) -> str:
    _require_plain(family.name)
    name = family.name
    lines = [f"# HELP {name} {family.documentation.translate(_ESCAPES)}\n# TYPE {name} {family.type}\n"]
    if family.unit:
        lines.append(f"# UNIT {name} {family.unit}\n")
    for sample in family.samples:
        at = "" if sample.timestamp is None else f" {sample.timestamp}"
        exemplar = _exemplar(family, sample, sample.exemplar) if sample.exemplar else ""
        lines.append(f"{_series(sample)} {number(sample.value)}{at}{exemplar}\n")
    return "".join(lines)


def _series(sample: Sample) -> str:
    if sample.native_histogram is not None:
        raise _NeedsEscapingError
    if sample.name not in _plain_metrics:
        _require_plain(sample.name)
    if not sample.labels:
        return sample.name
    return f"{sample.name}{{{_labels(sample.labels)}}}"


def _labels(labels: Mapping[str, str]) -> str:
    parts = []
    for name, value in labels.items():
        if name not in _plain_labels:
            _learn(name)
        if _TO_ESCAPE.search(value):
            value = value.translate(_ESCAPES)
        parts.append(f'{name}="{value}"')
    return ",".join(parts)


def _learn(name: str) -> None:
    if not _PLAIN_LABEL.fullmatch(name):
        raise _NeedsEscapingError
    if len(_plain_labels) < _MOST_NAMES:
        _plain_labels.add(name)


def _require_plain(name: str) -> None:
    if not _PLAIN_METRIC.fullmatch(name):
        raise _NeedsEscapingError
    if len(_plain_metrics) < _MOST_NAMES:
        _plain_metrics.add(name)


def _exemplar(family: Metric, sample: Sample, exemplar: Exemplar) -> str:
    if not sample.name.endswith("_bucket" if family.type in ("histogram", "gaugehistogram") else "_total"):
        raise ValueError(f"{sample.name} carries an exemplar, which only buckets and counters may")
    at = "" if exemplar.timestamp is None else f" {exemplar.timestamp}"
    return f" # {{{_labels(exemplar.labels)}}} {number(exemplar.value)}{at}"


def number(value: Any) -> str:
    """A sample's value as both formats write it."""
    value = float(value)
    if math.isfinite(value):
        return repr(value)
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


def milliseconds(timestamp: Any) -> int:
    """A sample's time (Unix seconds, or prometheus-client's Timestamp) in whole milliseconds."""
    return round(float(timestamp) * 1000)


def escaped_name(name: str, escaping: str) -> str:
    """A metric name as it will stand in the exposition."""
    if _PLAIN_METRIC.fullmatch(name):
        return name
    return openmetrics_exposition.escape_metric_name(name, escaping)
