"""prometheus-client's value files (multiprocess mode): read, put together, written. Pure but for ``read``.

A file holds the values of one process and one kind: ``counter_<pid>.db``, ``gauge_<mode>_<pid>.db``. Format
(``prometheus_client/mmap_dict.py``, native byte order): int32 bytes used, 4 bytes of padding, then entries of
int32 key length, key (JSON: family, sample, labels, help) padded with blanks to a multiple of eight, float64
value, float64 Unix time. A reader of ours takes what is whole and says what is not; upstream's raises.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, cast

from prometheus_client.metrics_core import Metric
from prometheus_client.utils import floatToGoString

from telemetry.catalogue import METRICS

ADDITIVE = ("counter", "histogram", "summary", "gauge_sum")
FOLDABLE = (*ADDITIVE, "gauge_min", "gauge_max", "gauge_mostrecent")
"""Kinds whose values of dead processes become one file without anyone seeing a difference."""

Values = dict[str, tuple[float, float]]
"""Value and time by key."""

_go = cast("Callable[[float], str]", floatToGoString)
_INT = struct.Struct("i")
_PAIR = struct.Struct("dd")
_HEADER = 8


class FileName(NamedTuple):
    """A value file's name taken apart: ``kind`` is ``counter`` or ``gauge_<mode>``, ``owner`` the pid."""

    kind: str
    owner: str

    @property
    def pid(self) -> int | None:
        """The pid of the process that writes the file; None for what no process writes any more."""
        return int(self.owner) if self.owner.isdigit() else None

    @property
    def live(self) -> bool:
        """Its values count only while their process lives."""
        return self.kind.startswith("gauge_live")


def parse_name(name: str) -> FileName | None:
    """``name`` taken apart, or None when it is no value file's."""
    parts = name.removesuffix(".db").split("_")
    if not name.endswith(".db") or len(parts) != (3 if parts[0] == "gauge" else 2):
        return None
    return FileName("_".join(parts[:-1]), parts[-1])


def read(path: Path) -> tuple[Values, str]:
    """The whole entries of a file, and what is wrong with the rest (empty: nothing). Raises OSError.

    A file of no bytes is well: its process has just opened it, or was killed just then.
    """
    data = path.read_bytes()
    if not data:
        return {}, ""
    if len(data) < _HEADER:
        return {}, f"{len(data)} bytes are no header"
    used = _INT.unpack_from(data)[0]
    problem = "" if used <= len(data) else f"{used} bytes are said to be used, {len(data)} are there"
    values, rest = _entries(data, min(used, len(data)))
    return values, problem or rest


def _entries(data: bytes, used: int) -> tuple[Values, str]:
    values: Values = {}
    at = _HEADER
    while at < used:
        if at + 4 > used:
            return values, f"the entry at byte {at} is cut"
        size = _INT.unpack_from(data, at)[0]
        value_at = at + 4 + size + (8 - (size + 4) % 8)
        if size <= 0 or value_at + _PAIR.size > used:
            return values, f"the entry at byte {at} is cut"
        key = data[at + 4 : at + 4 + size].decode("utf-8", "replace")
        if parse_key(key) is None:
            return values, f"the entry at byte {at} has no key"
        values[key] = _PAIR.unpack_from(data, value_at)
        at = value_at + _PAIR.size
    return values, ""


def pack(values: Mapping[str, tuple[float, float]]) -> bytes:
    """``values`` as a file."""
    parts = []
    for key, pair in values.items():
        encoded = key.encode()
        parts += [_INT.pack(len(encoded)), encoded, b" " * (8 - (len(encoded) + 4) % 8), _PAIR.pack(*pair)]
    body = b"".join(parts)
    return _INT.pack(_HEADER + len(body)) + b"\0" * 4 + body


def merge(kind: str, into: Values, values: Mapping[str, tuple[float, float]]) -> None:
    """Put the values of one more dead process into those of others. ``kind`` is one of ``FOLDABLE``."""
    for key, (value, at) in values.items():
        if key not in into:
            into[key] = value, at
            continue
        known, known_at = into[key]
        if kind in ADDITIVE:
            into[key] = known + value, at
        elif kind == "gauge_mostrecent":
            into[key] = (value, at) if at > known_at else (known, known_at)
        else:
            into[key] = (min if kind == "gauge_min" else max)(known, value), at


class Key(NamedTuple):
    """A parsed key; ``labels`` are sorted by name."""

    family: str
    sample: str
    labels: tuple[tuple[str, str], ...]
    help: str


_parsed: dict[str, Key] = {}
_MOST_PARSED = 100_000


def parse_key(key: str) -> Key | None:
    """The key of an entry, or None when it is none. Kept, since every scrape reads the same keys again."""
    found = _parsed.get(key)
    if found is None:
        try:
            family, sample, labels, documentation = json.loads(key)
            found = Key(family, sample, tuple(sorted(labels.items())), documentation)
        except (ValueError, TypeError, AttributeError):
            return None
        if len(_parsed) >= _MOST_PARSED:
            _parsed.clear()
        _parsed[key] = found
    return found


def families(files: Iterable[tuple[FileName, Values]]) -> list[Metric]:
    """The values of all processes as families, put together as each gauge's mode says."""
    open_families: dict[str, _Family] = {}
    for name, values in files:
        for key, (value, at) in values.items():
            parsed = parse_key(key)
            if parsed is None:
                continue
            family = open_families.get(parsed.family)
            if family is None:
                family = open_families[parsed.family] = _Family(name.kind, parsed)
            if family.kind == name.kind:
                family.add(parsed, value, at, name.owner)
    return [family.metric() for family in open_families.values()]


_Series = tuple[str, tuple[tuple[str, str], ...]]


class _Family:
    """One family in the making."""

    def __init__(self, kind: str, key: Key) -> None:
        self.kind = kind
        self._mode = kind.removeprefix("gauge_").removeprefix("live")
        self._name, self._help = key.family, key.help
        self._values: dict[_Series, tuple[float, float]] = {}
        self._buckets: dict[tuple[tuple[str, str], ...], dict[float, float]] = {}

    def add(self, key: Key, value: float, at: float, owner: str) -> None:
        labels = key.labels
        if self.kind == "histogram":
            bound = next((float(text) for label, text in labels if label == "le"), None)
            if bound is not None:
                buckets = self._buckets.setdefault(tuple(pair for pair in labels if pair[0] != "le"), {})
                buckets[bound] = buckets.get(bound, 0.0) + value
                return
        elif self._mode == "all":
            labels = (*labels, ("pid", owner))
        series = key.sample, labels
        known = self._values.get(series)
        self._values[series] = (value, at) if known is None else self._joined(known, (value, at))

    def _joined(self, known: tuple[float, float], new: tuple[float, float]) -> tuple[float, float]:
        if self._mode == "mostrecent":
            return new if new[1] > known[1] else known
        if self._mode in ("min", "max"):
            return (min if self._mode == "min" else max)(known, new)
        if self._mode == "all":
            return new
        return known[0] + new[0], 0.0

    def metric(self) -> Metric:
        made = Metric(self._name, self._help, self.kind.split("_")[0])
        spec = METRICS.get(self._name) or METRICS.get(f"{self._name}_total")
        made.unit = spec.unit if spec else ""
        for labels, buckets in self._buckets.items():
            total = 0.0
            for bound, value in sorted(buckets.items()):
                total += value
                le = _go(bound)
                made.add_sample(f"{self._name}_bucket", {**dict(labels), "le": le}, total)
            made.add_sample(f"{self._name}_count", dict(labels), total)
            summed = self._values.pop((f"{self._name}_sum", labels), (0.0, 0.0))[0]
            made.add_sample(f"{self._name}_sum", dict(labels), summed)
        for (sample, labels), (value, _) in self._values.items():
            made.add_sample(sample, dict(labels), value)
        return made
