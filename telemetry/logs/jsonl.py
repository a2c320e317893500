"""An event as one JSON object a line, with the keys of the logfmt line and values of their own types."""

from __future__ import annotations

import msgspec

from telemetry.logs import logfmt
from telemetry.logs.event import Event
from telemetry.logs.line import LINE_LIMIT, level_name, logfmt_line, tail_fields, timestamp

_encode = msgspec.json.Encoder().encode
# JSON escapes C0 and quotes by itself; the rest of what must not be raw is escaped as in logfmt.
_TABLE = {code: text for code, text in logfmt._TABLE.items() if code >= 0x7F}


def json_line(event: Event) -> str:
    """One JSON object: ``ts``, ``level``, ``logger``, ``msg``, ids, then the fields; at most 15 KiB."""
    entry: dict[str, object] = {"ts": timestamp(event.ns), "level": level_name(event.level), "logger": event.logger}
    if event.ready is not None:
        entry |= event.ready.fields
        if event.trace_id:
            entry["trace_id"] = event.trace_id
    else:
        entry["msg"] = event.message
        if event.trace_id:
            entry |= {"trace_id": event.trace_id, "span_id": event.span_id}
        entry |= event.fields
        entry |= tail_fields(event)
    line = _text(entry)
    if len(line) * 4 > LINE_LIMIT and len(line.encode()) > LINE_LIMIT:
        event.mended = True
        line = _cut(entry)
    if not event.mended and not line.isascii() and event.ready is None:
        logfmt_line(event)  # decides whether characters were lost, in one place
    return line


def _text(entry: dict[str, object]) -> str:
    try:
        line = _encode(entry).decode()
    except UnicodeEncodeError:  # half surrogates
        line = _encode({key: _clean(value) for key, value in entry.items()}).decode()
    except (OverflowError, ValueError):  # integers beyond 64 bits
        line = _encode({key: _small(value) for key, value in entry.items()}).decode()
    return line if line.isascii() and "\x7f" not in line else line.translate(_TABLE)


def _clean(value: object) -> object:
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    return _small(value)


def _small(value: object) -> object:
    return str(value) if type(value) is int and not -(2**63) <= value < 2**64 else value


def _cut(entry: dict[str, object]) -> str:
    """The object with its longest texts shortened; ``cut`` names each with its size in bytes."""
    limit = LINE_LIMIT
    short: dict[str, object] = {}
    while limit > 64:
        limit //= 2
        cut, short = [], {}
        for key, value in entry.items():
            if isinstance(value, str) and len(value) > limit:
                cut.append(f"{key}:{len(value.encode(errors='replace'))}")
                value = logfmt.ELLIPSIS + value[-limit:] if key == "exception_stacktrace" else value[:limit] + "…"
            short[key] = value
        line = _text({**short, "cut": ",".join(cut)[:512]})
        if len(line.encode()) <= LINE_LIMIT:
            return line
    few = dict(list(short.items())[:40])
    return _text({**few, "cut": "fields"})
