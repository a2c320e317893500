"""What is asked of Tempo, Loki, VictoriaLogs and VictoriaMetrics, and how their answers are read."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from telemetry.probe.records import Expected, Found, Query

METRIC = "telemetry_probe_timestamp_seconds"
MARGIN = 600.0
"""Seconds around the time of sending in which records are looked for: stamps that a collector rewrote included."""

_LABELS_TRIED = 12


class Marks(msgspec.Struct, frozen=True):
    """What tells the records of one run from all others.

    ``trace_id`` are 32 hexadecimal digits, ``token`` is a field of the line, ``value`` the metric's value and the Unix
    time of sending.
    """

    trace_id: str
    token: str
    value: float


class Request(msgspec.Struct, frozen=True):
    """One request of a query API. ``headers`` come beside those of the query's address."""

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = {}
    body: bytes | None = None


# -- asking ------------------------------------------------------------------------------------------


def request(query: Query, marks: Marks, expected: Expected, attempt: int = 0) -> Request:
    """The request that brings the record if it arrived as it should; ``attempt`` tells repetitions apart."""
    if query.reader == "tempo":
        # By id, since search leaves out the last 30 s (Tempo's query_end_cutoff).
        return Request(f"{query.url}/api/traces/{marks.trace_id}", headers={"accept": "application/json"})
    if query.reader == "metrics":
        return _samples(query, marks, attempt)
    if query.reader == "victorialogs":
        return _logsql(query, marks)
    return _lines(query, marks, f'{{service_name="{_escaped(expected.service)}"}}')


def strays(query: Query, marks: Marks, labels: list[str]) -> Iterator[Request]:
    """Wider and wider requests for a line that isn't under its own name; ``labels`` are those that Loki knows."""
    if query.reader == "loki":
        rest = [label for label in labels if label != "service_name" and not label.startswith("__")]
        for label in ["service_name", *rest[:_LABELS_TRIED]]:
            yield _lines(query, marks, f'{{{label}=~".+"}}')


def label_names(query: Query, marks: Marks) -> Request:
    """The request for the labels that Loki knows."""
    start, end = _window(marks)
    return Request(f"{query.url}/loki/api/v1/labels?{urlencode({'start': start, 'end': end})}")


def _lines(query: Query, marks: Marks, selector: str) -> Request:
    start, end = _window(marks)
    parameters = {
        "query": f'{selector} |= "{marks.token}"',
        "start": start,
        "end": end,
        "limit": "5",
        "direction": "backward",
    }
    # With this flag Loki keeps labels and structured metadata apart.
    flags = {"X-Loki-Response-Encoding-Flags": "categorize-labels"}
    return Request(f"{query.url}/loki/api/v1/query_range?{urlencode(parameters)}", headers=flags)


def _logsql(query: Query, marks: Marks) -> Request:
    form = urlencode({"query": f'"{marks.token}"', "limit": "5"}).encode()
    kind = {"content-type": "application/x-www-form-urlencoded"}
    return Request(f"{query.url}/select/logsql/query", "POST", kind, form)


def _samples(query: Query, marks: Marks, attempt: int) -> Request:
    # Raw samples of a range: neither the response cache nor the latency offset hides the newest. VictoriaMetrics
    # remembers for up to ten seconds that a selector found nothing, so no two of them are alike.
    parameters = {
        "query": f'{METRIC}{{attempt!="{marks.token}-{attempt}"}}[{2 * MARGIN:.0f}s]',
        "time": f"{marks.value + MARGIN:.3f}",
        "nocache": "1",
    }
    return Request(f"{query.url}/api/v1/query?{urlencode(parameters, quote_via=quote)}")


def _window(marks: Marks) -> tuple[str, str]:
    return str(int((marks.value - MARGIN) * 1e9)), str(int((marks.value + MARGIN) * 1e9))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


# -- reading -----------------------------------------------------------------------------------------


def found(query: Query, marks: Marks, body: bytes) -> Found | None:
    """The record in an answer, or None where the answer doesn't hold it, or is none of that API's."""
    try:
        if query.reader == "victorialogs":
            return _found_by_logsql(marks, body)
        document = msgspec.json.decode(body)
        if query.reader == "tempo":
            return _found_trace(marks, document)
        if query.reader == "metrics":
            return _found_sample(marks, document)
        return _found_line(marks, document)
    except (msgspec.DecodeError, KeyError, TypeError, ValueError, AttributeError, IndexError):
        return None


def labels(body: bytes) -> list[str]:
    """The label names in an answer of Loki's, empty where it holds none."""
    try:
        return [str(name) for name in msgspec.json.decode(body)["data"]]
    except (msgspec.DecodeError, KeyError, TypeError):
        return []


def same_id(one: str, other: str) -> bool:
    """Two trace ids are one number: Tempo strips leading zeros in some answers and writes base64 in others."""
    left, right = _number(one), _number(other)
    return left is not None and left == right


def _number(text: str) -> int | None:
    if len(text) <= 32:
        try:
            return int(text, 16) if len(text) != 24 or not text.endswith("=") else _of_base64(text)
        except ValueError:
            return None
    return None


def _of_base64(text: str) -> int | None:
    try:
        return int.from_bytes(base64.b64decode(text, validate=True), "big")
    except binascii.Error:
        return None


def _found_trace(marks: Marks, document: Any) -> Found | None:
    trace = document.get("trace", document)
    for batch in trace.get("batches") or trace.get("resourceSpans") or []:
        spans = [span for scope in batch.get("scopeSpans", []) for span in scope.get("spans", [])]
        if any(same_id(str(span.get("traceId", "")), marks.trace_id) for span in spans):
            attributes = {
                str(each["key"]): str(next(iter(each.get("value", {}).values()), ""))
                for each in batch.get("resource", {}).get("attributes", [])
            }
            return Found(attributes.get("service.name", ""), attributes.get("service.instance.id", ""), attributes)
    return None


def _found_line(marks: Marks, document: Any) -> Found | None:
    for stream in document["data"]["result"]:
        for value in stream["values"]:
            if marks.token in value[1]:
                known = {str(name): str(text) for name, text in stream["stream"].items()}
                extra = value[2] if len(value) > 2 else {}
                # Loki makes it metadata, or a label where its defaults for OTLP are left on.
                instance = {**known, **extra.get("structuredMetadata", {})}.get("service_instance_id", "")
                return Found(known.get("service_name", ""), str(instance), known)
    return None


def _found_by_logsql(marks: Marks, body: bytes) -> Found | None:
    for line in body.splitlines():
        record = msgspec.json.decode(line)
        if marks.token in record.get("_msg", ""):
            known = {str(name): str(text) for name, text in record.items() if not name.startswith("_")}
            service = known.get("service_name") or known.get("service.name", "")
            return Found(service, known.get("service.instance.id", ""), known)
    return None


def _found_sample(marks: Marks, document: Any) -> Found | None:
    for series in document["data"]["result"]:
        for _, value in series.get("values") or [series["value"]]:
            if abs(float(value) - marks.value) < 0.005:
                known = {str(name): str(text) for name, text in series["metric"].items() if name != "__name__"}
                return Found(known.get("job", ""), known.get("instance", ""), known)
    return None
