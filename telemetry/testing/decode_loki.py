"""Loki's push endpoint as Loki 3.8 behaves: what it refuses whole, what it refuses by entry, what it says.

Read from Loki's source (``pkg/loghttp``, ``pkg/distributor``, ``pkg/ingester``), default limits. Rate limits,
and the silent removal of an entry equal to one that is stored, are left out: what arrives twice shows twice.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from telemetry.testing.records import LogLine

MAX_AGE_NS = 7 * 24 * 3600 * 10**9
FUTURE_NS = 10 * 60 * 10**9
BEHIND_NS = 3600 * 10**9  # half of max_chunk_age, behind the newest entry of the stream
MAX_LINE = 256 * 1024
MAX_LABELS = 15  # service_name is not counted
MAX_LABEL_NAME = 1024
MAX_LABEL_VALUE = 2048
MAX_METADATA_BYTES = 64 * 1024
MAX_METADATA = 128

_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_NOT_LABEL = re.compile(r"[^a-zA-Z0-9_]")
_TIMESTAMP = re.compile(r"-?[0-9]{1,19}")


class _Entry(msgspec.Struct, array_like=True):
    timestamp: str
    line: str
    metadata: dict[str, str] = {}


class _Stream(msgspec.Struct):
    stream: dict[str, Any] = {}
    values: list[_Entry | None] | None = None


class _Push(msgspec.Struct):
    streams: list[_Stream] = []


_DECODER = msgspec.json.Decoder(_Push)


class Accepted(msgspec.Struct, frozen=True):
    """What of one stream was taken: its labels, and (ns, line, metadata) for each entry."""

    labels: dict[str, str]
    entries: list[tuple[int, str, dict[str, str]]]

    def records(self) -> Iterator[LogLine]:
        """The entries as log lines."""
        for timestamp, line, metadata in self.entries:
            attributes = _stored(metadata)
            yield LogLine(
                line=line,
                timestamp_ns=timestamp,
                labels=self.labels,
                attributes=attributes,
                source="loki",
                severity=attributes.get("level", ""),
                trace_id=attributes.get("trace_id", ""),
                span_id=attributes.get("span_id", ""),
            )


class Answer(msgspec.Struct, frozen=True):
    """Status and text of the answer, and what was taken: also a 400 may have taken some."""

    status: int
    text: str
    accepted: list[Accepted]


def parse(content: bytes) -> _Push:
    """The push in ``content``; ``ValueError`` where Loki would answer 400 for the whole of it."""
    try:
        try:
            push = _DECODER.decode(content)
        except msgspec.DecodeError:
            # Loki takes raw bytes that are no UTF-8 as they are; only escapes must be right
            push = _DECODER.decode(content.decode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(str(error)) from error
    for stream in push.streams:
        for name in stream.stream:
            if not _LABEL_NAME.fullmatch(name):
                raise ValueError(f"couldn't parse labels: {name!r} is no label name")
        for entry in stream.values or ():
            if entry is not None and not _TIMESTAMP.fullmatch(entry.timestamp):
                raise ValueError(f"Value is not a number: {entry.timestamp!r}")
    return push


class Streams:
    """What the ingester remembers: the newest entry of each stream."""

    def __init__(self) -> None:
        self._newest: dict[str, int] = {}

    def clear(self) -> None:
        """Forget every stream."""
        self._newest.clear()

    def push(self, push: _Push, now_ns: int) -> Answer:
        """Take what Loki would take and answer as it would."""
        if not push.streams:
            return Answer(422, "error at least one valid stream is required for ingestion", [])
        problems: list[str] = []
        valid: list[tuple[str, dict[str, str], list[tuple[int, str, dict[str, str]]]]] = []
        for stream in push.streams:
            entries = [entry for entry in stream.values or () if entry is not None]
            if not entries:
                continue
            labels = {name: _text(value) for name, value in stream.stream.items() if value != ""}
            name = _name(labels)
            if problem := _label_problem(name, labels):
                problems.append(problem)
                continue
            kept = []
            for entry in entries:
                timestamp = int(entry.timestamp)
                if problem := _entry_problem(name, timestamp, entry, now_ns):
                    problems.append(problem)
                else:
                    kept.append((timestamp, entry.line, entry.metadata))
            if kept:
                valid.append((name, labels, kept))
        accepted: list[Accepted] = []
        behind = ""
        for name, labels, kept in valid:
            # Only the last stream's outcome survives: an earlier one that lost entries is masked by a good one
            # after it, and the client hears 204 (instance.Push).
            taken, behind = self._ingest(name, kept)
            if taken:
                accepted.append(Accepted(labels, taken))
        text = behind or _grouped(problems)
        return Answer(400 if text else 204, text, accepted)

    def _ingest(
        self, name: str, entries: list[tuple[int, str, dict[str, str]]]
    ) -> tuple[list[tuple[int, str, dict[str, str]]], str]:
        taken = []
        ignored = []
        newest = self._newest.get(name)
        for entry in entries:
            if newest is not None and entry[0] < newest - BEHIND_NS:
                ignored.append(
                    f"entry with timestamp {_go_time(entry[0])} ignored, reason: 'entry too far behind, entry timestamp"
                    f" is: {_rfc3339(entry[0])}, oldest acceptable timestamp is: {_rfc3339(newest - BEHIND_NS)}',\n"
                )
                continue
            taken.append(entry)
            newest = entry[0] if newest is None else max(newest, entry[0])
        if newest is not None:
            self._newest[name] = newest
        if not ignored:
            return taken, ""
        return taken, ignored_text(ignored, len(entries), name)


def ignored_text(ignored: list[str], total: int, stream: str) -> str:
    """The ingester's sentence about entries it left out: the first ten of them, then how many of how many."""
    return "".join(ignored[:10]) + f"user 'fake', total ignored: {len(ignored)} out of {total} for stream: {stream}"


def keep_all_but(accepted: list[Accepted], rejected: int, message: str) -> Answer:
    """Leave out the last ``rejected`` entries and say so as the ingester does."""
    total = sum(len(stream.entries) for stream in accepted)
    keep = max(0, total - rejected)
    kept: list[Accepted] = []
    for stream in accepted:
        entries = stream.entries[:keep]
        keep -= len(entries)
        kept.append(Accepted(stream.labels, entries))
    name = _name(accepted[-1].labels) if accepted else "{}"
    ignored = [f"entry ignored, reason: '{message}',\n"] * min(rejected, total)
    return Answer(400 if ignored else 204, ignored_text(ignored, total, name) if ignored else "", kept)


def _stored(metadata: Mapping[str, str]) -> dict[str, str]:
    return {_NOT_LABEL.sub("_", name): value.replace("\ufffd", " ") for name, value in metadata.items()}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _name(labels: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{name}={json.dumps(labels[name], ensure_ascii=False)}" for name in sorted(labels)) + "}"


def _label_problem(stream: str, labels: Mapping[str, str]) -> str:
    # No label at all is no problem: Loki adds service_name="unknown_service" before it looks.
    count = len(labels) - ("service_name" in labels)
    if count > MAX_LABELS:
        return f"entry for stream '{stream}' has {count} label names; limit {MAX_LABELS}"
    for name, value in labels.items():
        if len(name) > MAX_LABEL_NAME:
            return f"stream '{stream}' has label name too long: '{name}'"
        if len(value.encode()) > MAX_LABEL_VALUE:
            return f"stream '{stream}' has label value too long: '{value}'"
    return ""


def _entry_problem(stream: str, timestamp: int, entry: _Entry, now_ns: int) -> str:
    if timestamp < now_ns - MAX_AGE_NS:
        return (
            f"entry for stream '{stream}' has timestamp too old: {_rfc3339(timestamp)}, "
            f"oldest acceptable timestamp is: {_rfc3339(now_ns - MAX_AGE_NS)}"
        )
    if timestamp > now_ns + FUTURE_NS:
        return f"entry for stream '{stream}' has timestamp too new: {_rfc3339(timestamp)}"
    if len(entry.line) * 4 > MAX_LINE and (size := len(entry.line.encode())) > MAX_LINE:
        return (
            f"max entry size '{MAX_LINE}' bytes exceeded for stream '{stream}' "
            f"while adding an entry with length '{size}' bytes"
        )
    if entry.metadata:
        size = sum(len(name.encode()) + len(value.encode()) for name, value in entry.metadata.items())
        if size > MAX_METADATA_BYTES:
            limit = f"limit: '{MAX_METADATA_BYTES}' bytes"
            return f"stream '{stream}' has structured metadata too large: '{size}' bytes, {limit}."
        if len(entry.metadata) > MAX_METADATA:
            count = len(entry.metadata)
            return f"stream '{stream}' has too many structured metadata labels: '{count}', limit: '{MAX_METADATA}'."
    return ""


def _grouped(problems: list[str]) -> str:
    counts = Counter(problems)
    if len(problems) < 2:
        return "".join(problems)
    return "; ".join(f"{count} errors like: {problem}" for problem, count in counts.items())


def _when(timestamp_ns: int) -> datetime:
    # Any 64-bit timestamp may be pushed; datetime ends at year 9999 and begins at 1
    return datetime.fromtimestamp(max(-62_135_596_800, min(timestamp_ns // 10**9, 253_402_300_799)), UTC)


def _rfc3339(timestamp_ns: int) -> str:
    return _when(timestamp_ns).strftime("%Y-%m-%dT%H:%M:%SZ")


def _go_time(timestamp_ns: int) -> str:
    fraction = f".{timestamp_ns % 10**9:09d}".rstrip("0").rstrip(".")
    return _when(timestamp_ns).strftime("%Y-%m-%d %H:%M:%S") + fraction + " +0000 UTC"
