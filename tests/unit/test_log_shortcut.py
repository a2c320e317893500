"""A ready line goes past logging only where nobody else would see its record, and arrives as it would have."""

from __future__ import annotations

import logging
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

import telemetry
from telemetry.logs import ReadyLine
from telemetry.logs.place import Place
from telemetry.logs.shortcut import only_sink
from telemetry.testing.captured import Captured

if TYPE_CHECKING:
    from collections.abc import Iterator

    from telemetry.testing import Receiver

LINE = ReadyLine('ts=x level=error logger=frontend frontend-error kind="error"', {"kind": "error"}, "ab" * 16)
LOGGER = logging.getLogger("frontend.shortcut")


@pytest.fixture
def place() -> Place:
    return Place(LOGGER, logging.ERROR, "frontend-error", __file__, "take")


@contextmanager
def start(receiver: Receiver, **settings: Any) -> Iterator[telemetry.Telemetry]:
    """Telemetry whose handler is alone: pytest's own, which see every record, step aside; LOGGER is root's child."""
    root = logging.root
    handlers, root.handlers, parent, LOGGER.parent = root.handlers, [], LOGGER.parent, root
    try:
        with telemetry.setup(
            service="shop", loki_url=receiver.url, stdout="off", metrics_exporter="none", linger=0.02, **settings
        ) as tel:
            yield tel
    finally:
        root.handlers, LOGGER.parent, LOGGER.handlers, LOGGER.propagate = handlers, parent, [], True


class Kept(logging.Handler):
    """A handler of the application's own."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


def test_both_ways_send_the_same_line(telemetry_receiver: Receiver, place: Place) -> None:
    with start(telemetry_receiver) as tel:
        assert only_sink(LOGGER, logging.ERROR) is not None
        before = time.time_ns()
        place.log_ready(LINE)
        LOGGER.error("frontend-error", extra={"ready_line": LINE})
        after = time.time_ns()
        assert tel.flush(30)
        assert [(row.emitted, row.delivered, row.degraded) for row in tel.health().rows if row.signal == "logs"] == [
            (2, 2, 0)
        ]
    short, long = telemetry_receiver.lines
    assert (short.line, short.labels, short.trace_id) == (long.line, long.labels, long.trace_id)
    assert (short.line, short.trace_id) == (LINE.line, LINE.trace_id)
    assert before <= short.timestamp_ns <= long.timestamp_ns <= after + 1_000_000


def test_a_handler_of_the_applications_own_sees_the_record(telemetry_receiver: Receiver, place: Place) -> None:
    own = Kept()
    with start(telemetry_receiver) as tel:
        for logger in (LOGGER, logging.root):
            logger.addHandler(own)
            place.log_ready(LINE)
            logger.removeHandler(own)
        assert tel.flush(30)
    assert [(record.name, record.getMessage()) for record in own.records] == [(LOGGER.name, "frontend-error")] * 2
    assert [vars(record)["ready_line"] for record in own.records] == [LINE, LINE]
    assert [line.line for line in telemetry_receiver.lines] == [LINE.line, LINE.line]


def test_filters_have_their_say(telemetry_receiver: Receiver, place: Place) -> None:
    with start(telemetry_receiver) as tel:
        for owner in (LOGGER, logging.root.handlers[0]):
            owner.addFilter(refuse)
            place.log_ready(LINE)
            owner.removeFilter(refuse)
        assert tel.flush(30)
    assert telemetry_receiver.lines == []


def refuse(_record: logging.LogRecord) -> bool:
    return False


@pytest.mark.parametrize("how", ["level", "disabled", "propagate", "handler"])
def test_what_logging_would_not_send_is_not_sent(telemetry_receiver: Receiver, place: Place, how: str) -> None:
    with start(telemetry_receiver) as tel:
        try:
            if how == "level":
                LOGGER.setLevel(logging.CRITICAL)
            elif how == "disabled":
                LOGGER.disabled = True
            elif how == "propagate":
                LOGGER.propagate = False
                LOGGER.addHandler(logging.NullHandler())
            else:
                logging.root.handlers[0].setLevel(logging.CRITICAL)
            place.log_ready(LINE)
        finally:
            LOGGER.setLevel(logging.NOTSET)
            LOGGER.disabled = False
        assert tel.flush(30)
    assert telemetry_receiver.lines == []


def test_a_record_factory_and_a_patched_logger_are_asked(
    telemetry_receiver: Receiver, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    class Watched(logging.LogRecord):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            seen.append("factory")

    def call_handlers(logger: logging.Logger, record: logging.LogRecord) -> None:
        seen.append("patched")
        original(logger, record)

    original = logging.Logger.callHandlers
    with start(telemetry_receiver) as tel:
        before = logging.getLogRecordFactory()
        logging.setLogRecordFactory(Watched)
        place.log_ready(LINE)
        logging.setLogRecordFactory(before)
        with monkeypatch.context() as patched:  # as Sentry does it
            patched.setattr(logging.Logger, "callHandlers", call_handlers)
            place.log_ready(LINE)
        assert tel.flush(30)
    assert seen == ["factory", "patched"]
    assert len(telemetry_receiver.lines) == 2


def test_a_capture_of_the_tests_sees_it(telemetry_receiver: Receiver, place: Place) -> None:
    with start(telemetry_receiver), Captured() as seen:
        place.log_ready(LINE)
        assert [line.line for line in seen.lines] == [LINE.line]


def test_json_is_made_of_the_fields(telemetry_receiver: Receiver, place: Place) -> None:
    with start(telemetry_receiver, log_format="json") as tel:
        assert only_sink(LOGGER, logging.ERROR) is None
        place.log_ready(LINE)
        assert tel.flush(30)
    [line] = telemetry_receiver.lines
    assert line.line.startswith("{")
    assert '"kind":"error"' in line.line


def test_a_line_that_has_to_be_mended_is_mended(telemetry_receiver: Receiver, place: Place) -> None:
    with start(telemetry_receiver) as tel:
        place.log_ready(ReadyLine("level=error msg=half\ud800"))
        assert tel.flush(30)
        assert [row.degraded for row in tel.health().rows if row.signal == "logs"] == [1]
    assert [line.line for line in telemetry_receiver.lines] == ["level=error msg=half?"]
