"""Where records leave stdlib logging: stdout, and the queue of a network sink."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from typing import Any, Protocol, TextIO, TypeVar

from telemetry import delivery, faults
from telemetry.logs.event import Event
from telemetry.logs.formatters import LineFormatter, LogfmtFormatter
from telemetry.logs.quick import Stamped

E = TypeVar("E", bound=Stamped)
R = TypeVar("R")
E_contra = TypeVar("E_contra", bound=Stamped, contravariant=True)


class Encode(Protocol[E_contra]):
    """One record as a queue entry and its cost in bytes."""

    def __call__(self, event: E_contra, line: str, /) -> tuple[Any, int]:
        """The entry of ``event``, whose text is ``line``, and what it costs."""
        ...


class StdoutHandler(logging.Handler):
    """Writes each line to ``sys.stdout`` at once, whatever ``sys.stdout`` is by then."""

    def __init__(self, formatter: LineFormatter | None = None, stream: TextIO | None = None) -> None:
        super().__init__()
        self.setFormatter(formatter or LogfmtFormatter())
        self._stream = stream

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line. A closed or broken stream is an internal fault, said once."""
        try:
            stream = self._stream or sys.stdout
            if stream is None:
                return
            text = self.format(record) + "\n"
            try:
                stream.write(text)
            except UnicodeEncodeError:  # an ASCII stdout: Hangul is better as \\u escapes than not at all
                encoding = getattr(stream, "encoding", None) or "ascii"
                stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
            stream.flush()
        except Exception as error:
            faults.report("logs.stdout", error)


class SinkHandler(logging.Handler):
    """Hands each record to a Shipper. It holds no lock: the stdlib's would make threads queue behind each other."""

    def __init__(
        self, shipper: delivery.Shipper, encode: Encode[Event], formatter: LineFormatter | None = None
    ) -> None:
        super().__init__()
        self.shipper = shipper
        self._encode = encode
        self._lines = formatter or LogfmtFormatter()

    def handle(self, record: logging.LogRecord) -> bool:
        """Filter and emit, without the handler's lock."""
        kept: Any = self.filter(record)
        if kept:
            self.emit(record if kept is True else kept)
        return bool(kept)

    def emit(self, record: logging.LogRecord) -> None:
        """Queue one record. Records of the sending threads are left out: they would feed themselves."""
        if threading.get_ident() in delivery.SENDERS:
            return
        ship(self.shipper, self._encode, self._lines.render, record)


def ship(
    shipper: delivery.Shipper,
    encode: Encode[E],
    render: Callable[[R], tuple[E, str]],
    record: R,
) -> None:
    """Render, encode and queue one record; a fault of ours is counted as such and loses only this record."""
    try:
        event, line = render(record)
        entry, cost = encode(event, line)
    except Exception as error:
        shipper.drop("internal")
        faults.report("logs", error)
        return
    if shipper.put(entry, cost, event.ns / 1e9) and event.mended:
        shipper.row.mended()
