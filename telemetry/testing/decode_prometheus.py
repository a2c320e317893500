"""Prometheus text as VictoriaMetrics' ``/api/v1/import/prometheus`` reads it: lines that can't be read are skipped."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl

from telemetry.testing.records import Sample

_LINE = re.compile(
    r"""(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)
        [ \t]*(?:\{(?P<labels>(?:[^"}]|"(?:[^"\\]|\\.)*")*)\})?
        [ \t]*(?P<value>[^ \t#]+)
        (?:[ \t]+(?P<timestamp>-?[0-9]+))?
        [ \t]*(?:\#.*)?""",
    re.VERBOSE,
)
_LABEL = re.compile(r'[ \t]*([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"[ \t]*(?:,|$)')
_ESCAPE = re.compile(r"\\(.)")


def read(text: str, query: str, now_ms: int) -> tuple[list[Sample], list[str]]:
    """Samples, and the lines that were skipped because they say nothing readable.

    ``query`` is the URL's: ``extra_label=name=value`` adds or replaces a label, ``timestamp`` (ms) stands
    for a missing one; else ``now_ms`` does.
    """
    extra: dict[str, str] = {}
    default = now_ms
    for key, value in parse_qsl(query):
        if key == "extra_label":
            name, _, label = value.partition("=")
            extra[name] = label
        elif key == "timestamp":
            default = int(value)
    samples: list[Sample] = []
    skipped: list[str] = []
    for line in text.split("\n"):
        line = line.strip(" \t\r")
        if not line or line.startswith("#"):
            continue
        sample = _sample(line, extra, default)
        if sample is None:
            skipped.append(line)
        else:
            samples.append(sample)
    return samples, skipped


def _sample(line: str, extra: dict[str, str], default: int) -> Sample | None:
    found = _LINE.fullmatch(line)
    if found is None:
        return None
    labels: dict[str, str] = {}
    text = (found["labels"] or "").strip(" \t")
    position = 0
    while position < len(text):
        label = _LABEL.match(text, position)
        if label is None:
            return None
        labels[label[1]] = _ESCAPE.sub(lambda escape: "\n" if escape[1] == "n" else escape[1], label[2])
        position = label.end()
    try:
        value = float(found["value"])
    except ValueError:
        return None
    return Sample(
        name=found["name"],
        labels=labels | extra,
        value=value,
        timestamp_ms=int(found["timestamp"]) if found["timestamp"] else default,
        source="prometheus",
    )
