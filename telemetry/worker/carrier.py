"""What crosses the queue with a job: its trace, and the run before, in one JSON column.

The column holds ``traceparent``, ``tracestate``, ``baggage`` (W3C Trace Context; W3C Baggage) and, once the job has
been claimed, ``last_run``: the traceparent of that run, to which the next one links when the job is delivered again.

A queue that has no room for JSON may keep ``traceparent`` and ``tracestate`` in two text columns. That loses the
baggage, and the link from one run to the run before.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from opentelemetry import trace
from opentelemetry.context import Context

from telemetry.traces.propagation import extract, inject

BAGGAGE_LIMIT: Final = 8192
"""Bytes of baggage that cross: what every platform must take by W3C Baggage, section 3.3.2."""
MEMBER_LIMIT: Final = 64
"""Members of baggage that cross, by the same section."""
LAST_RUN: Final = "last_run"
_KEYS: Final = ("traceparent", "tracestate", "baggage", LAST_RUN)


class Carrier(msgspec.Struct, frozen=True):
    """What a job brought along: the context that it was enqueued in, and the run before, if there was one."""

    context: Context
    last_run: trace.SpanContext | None = None
    fields: dict[str, str] = {}

    @property
    def redelivered(self) -> bool:
        """Whether somebody has begun this job before."""
        return self.last_run is not None

    def claimed_by(self, run: trace.Span) -> dict[str, str]:
        """The column as the claim writes it: ``run`` is the one that the next delivery links to."""
        return {**self.fields, LAST_RUN: traceparent(run.get_span_context())}


def carry() -> dict[str, str]:
    """The column for a job that is enqueued here: the current trace and baggage. Empty outside of any trace."""
    fields = {key: value for key, value in inject({}).items() if key in _KEYS}
    if "baggage" in fields:
        kept = capped(fields["baggage"])
        if kept:
            fields["baggage"] = kept
        else:
            del fields["baggage"]
    return fields


def capped(header: str) -> str:
    """As many members of a baggage ``header``, from its start, as may cross; a member is never cut in two."""
    kept: list[str] = []
    size = 0
    for member in header.split(",")[:MEMBER_LIMIT]:
        size += len(member.encode()) + (1 if kept else 0)
        if size > BAGGAGE_LIMIT:
            break
        kept.append(member)
    return ",".join(kept)


def read(column: Mapping[str, Any] | str | bytes | None) -> Carrier:
    """What a column holds, as the driver gave it: JSON as a text or already read, or nothing.

    It never raises: a job must run whatever its carrier says. Parts that can't be read are left out.
    """
    fields = _fields(column)
    context = extract({key: value for key, value in fields.items() if key != LAST_RUN})
    return Carrier(context, _span_context(fields.get(LAST_RUN)), fields)


def read_columns(traceparent: str | None, tracestate: str | None = None) -> Carrier:
    """What two text columns hold."""
    return read({"traceparent": traceparent, "tracestate": tracestate})


def traceparent(context: trace.SpanContext) -> str:
    """A span context as W3C Trace Context writes it (version 00)."""
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def _fields(column: Mapping[str, Any] | str | bytes | None) -> dict[str, str]:
    if isinstance(column, (str, bytes)):
        try:
            column = json.loads(column)
        except (ValueError, RecursionError):
            return {}
    if not isinstance(column, Mapping):
        return {}
    fields = {key: value for key in _KEYS if isinstance(value := column.get(key), str) and value}
    if "baggage" in fields:
        fields["baggage"] = capped(fields["baggage"])
    return fields


def _span_context(value: str | None) -> trace.SpanContext | None:
    if not value:
        return None
    found = trace.get_current_span(extract({"traceparent": value})).get_span_context()
    return found if found.is_valid and traceparent(found) == value.lower() else None
