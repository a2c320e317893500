"""Records that no one should make and somebody does: each is delivered, none raises into the application."""

from __future__ import annotations

import copy
import logging
import logging.handlers
import pickle
import queue
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

import telemetry
from telemetry.logs import JsonFormatter, LogfmtFormatter, ReadyLine
from telemetry.logs.loki import LokiHandler
from telemetry.scrub import Scrubber
from telemetry.testing import Receiver
from tests import loki_grammar


class Raises(Mapping[str, Any]):
    def __getitem__(self, key: str) -> Any:
        raise RuntimeError("no")

    def __iter__(self) -> Iterator[str]:
        return iter(["a"])

    def __len__(self) -> int:
        return 1


class Unbound:
    """As werkzeug's and Flask's proxies are outside of a request: asked for its class, it raises."""

    @property
    def __class__(self) -> Any:
        raise RuntimeError("working outside of request context")


class Braces(logging.LogRecord):
    """The logging cookbook's own way to other format styles."""

    def getMessage(self) -> str:  # noqa: N802 - the stdlib's name
        return str(self.msg).format(*self.args)  # type: ignore[misc]


def record(cls: type[logging.LogRecord] = logging.LogRecord, **attributes: Any) -> logging.LogRecord:
    made = cls("app", logging.INFO, "f.py", 1, "hello", (), None)
    made.__dict__.update(attributes)
    return made


ODD = {
    "a time that is not a number": {"created": float("nan")},
    "an endless time": {"created": float("inf")},
    "a time beyond all calendars": {"created": 1e18},
    "a time that is a text": {"created": "2026-11-30"},
    "no time": {"created": None},
    "a logger that is a number": {"name": 7},
    "no logger": {"name": None},
    "a level name that is a number": {"levelname": 7},
    "no level name": {"levelname": None},
    "level 0": {"levelno": 0, "levelname": "Level 0"},
    "a level of the application's own": {"levelno": 25, "levelname": "NOTICE"},
    "exc_info=True": {"exc_info": True},
    "exc_info of nothing": {"exc_info": (None, None, None)},
    "exc_info of a type alone": {"exc_info": (ValueError, None, None)},
    "exc_info of an exception": {"exc_info": ValueError("bad")},
    "exc_info of three texts": {"exc_info": ("a", "b", "c")},
    "exc_info too short": {"exc_info": (ValueError,)},
    "an exc_text that is none": {"exc_text": 5},
    "a stack that is none": {"stack_info": 5},
    "arguments that are a number": {"args": 5},
    "arguments that raise": {"msg": "%(a)s", "args": Raises()},
    "tags that raise": {"tags": Raises()},
    "tags outside of a request": {"tags": Unbound()},
    "tags that are a list": {"tags": ["a", "b"]},
    "a field outside of a request": {"user": Unbound()},
    "a message outside of a request": {"msg": Unbound()},
    "a ready line that is a text": {"ready_line": "hello"},
    "a ready line with an id that is none": {"ready_line": ReadyLine("level=info msg=hello", {}, 'zz"}')},
    "a ready line with half a surrogate": {"ready_line": ReadyLine("level=info msg=\ud800")},
    "a ready line of nothing": {"ready_line": ReadyLine(None)},  # type: ignore[arg-type]
    "what another formatter kept": {"_fleetglass": "x"},
}


@pytest.mark.parametrize("path", ["loki", "otlp", "loki-json"])
def test_no_odd_record_is_lost_or_raises(telemetry_receiver: Receiver, path: str) -> None:
    settings: dict[str, Any] = {"stdout": "off", "linger": 0.02, "metrics_exporter": "none", "traces_exporter": "none"}
    settings |= {"otlp_endpoint" if path == "otlp" else "loki_url": telemetry_receiver.url}
    settings |= {"log_format": "json"} if path == "loki-json" else {}
    with telemetry.setup(service="x", **settings) as tel:
        for attributes in ODD.values():
            for handler in logging.getLogger().handlers:
                if type(handler).__module__.startswith("telemetry."):
                    handler.handle(record(**attributes))
        assert tel.flush(30)
        (row,) = tel.health().rows
        assert (row.emitted, row.delivered) == (len(ODD), len(ODD))
    assert len(telemetry_receiver.lines) == len(ODD)
    if path != "loki-json":
        check_grammar(telemetry_receiver)


def test_no_odd_record_is_lost_to_labels_of_its_own(telemetry_receiver: Receiver) -> None:
    handler = LokiHandler(telemetry_receiver.url, {"app": "x"}, compat_labels=True)
    try:
        for attributes in ODD.values():
            handler.handle(record(**attributes))
        handler.flush()
        row = handler.shipper.row.snapshot()
        assert (row.emitted, row.delivered) == (len(ODD), len(ODD))
    finally:
        handler.close()
    check_grammar(telemetry_receiver)


def check_grammar(receiver: Receiver) -> None:
    for line in receiver.lines:
        if line.line != "None":  # the ready line of nothing
            assert "__error__" not in loki_grammar.logfmt(line.line, strict=True), line.line


def test_a_record_of_1969_is_too_old_for_loki_and_counted_so(telemetry_receiver: Receiver) -> None:
    with telemetry.setup(
        service="x", loki_url=telemetry_receiver.url, stdout="off", linger=0.02, metrics_exporter="none"
    ) as tel:
        logging.getLogger().handle(record(created=-5.0))
        assert not tel.flush()
        assert tel.health().rows[0].dropped == {"too_old": 1}


def test_a_record_factory_with_another_format_style_is_obeyed() -> None:
    made = record(Braces, msg="{} of {}", args=("one", 2))
    assert 'msg="one of 2"' in LogfmtFormatter().format(made)
    broken = record(Braces, msg="{} of {}", args=("one",))
    assert "do not fit: IndexError" in LogfmtFormatter().format(broken)


def test_tags_that_are_no_mapping_stay_a_field() -> None:
    assert LogfmtFormatter().format(record(tags=["a", "b"])).endswith(r'tags="[\"a\",\"b\"]"')


def test_a_record_that_we_rendered_can_be_pickled_for_a_process_without_us() -> None:
    """A log server on the stdlib's SocketHandler had to import our package to read a record."""
    made = record(user="kim")
    line = LogfmtFormatter().format(made)
    sent = logging.handlers.SocketHandler("127.0.0.1", 9).makePickle(made)
    assert b"telemetry" not in sent
    taken = logging.makeLogRecord(pickle.loads(sent[4:]))
    assert LogfmtFormatter().format(taken) == line
    assert LogfmtFormatter().format(copy.deepcopy(made)) == line


def test_a_record_that_came_through_a_queue_handler_is_whole(telemetry_receiver: Receiver) -> None:
    through: queue.SimpleQueue[Any] = queue.SimpleQueue()
    logger = logging.getLogger("queued")
    logger.propagate = False
    logger.addHandler(logging.handlers.QueueHandler(through))
    with telemetry.setup(
        service="x", loki_url=telemetry_receiver.url, stdout="off", linger=0.02, metrics_exporter="none"
    ) as tel:
        try:
            int("x")
        except ValueError:
            logger.exception("failed for %s", "kim", extra={"order": "A-1"})
        logging.getLogger().handle(pickle.loads(pickle.dumps(through.get())))
        assert tel.flush(30)
    (line,) = telemetry_receiver.lines
    fields = loki_grammar.logfmt(line.line, strict=True)
    assert fields["order"] == "A-1"
    assert fields["msg"].startswith("failed for kim")
    assert "ValueError: invalid literal" in line.line


def test_what_one_scrubber_let_pass_is_cleaned_again_by_a_stricter_one() -> None:
    """A file handler of the user's own rendered first, and FLEETGLASS_SCRUB_KEYS did not hold for the sink."""
    made = record(ssn="123-45")
    assert "123-45" in LogfmtFormatter().format(made)
    strict = Scrubber(["ssn"])
    for formatter in (LogfmtFormatter(strict), JsonFormatter(strict)):
        assert "123-45" not in formatter.format(made)


@pytest.mark.parametrize("version", ["0", "1", "2", None])
def test_a_handler_of_upstreams_version_queues_all_the_same(telemetry_receiver: Receiver, version: Any) -> None:
    """``version="1"`` is what python-logging-loki's own README says: it gave every line ``severity="notset"``."""
    handler = LokiHandler(telemetry_receiver.url, {"app": "x"}, version=version)
    try:
        handler.handle(record())
        handler.setFormatter(logging.Formatter("%(message)s"))
        handler.handle(record())
        handler.flush()
    finally:
        handler.close()
    assert [line.labels for line in telemetry_receiver.lines] == [{"app": "x"}] * 2
    assert telemetry_receiver.lines[1].line == "hello"
    assert telemetry_receiver.counts.requests == 1


def test_an_emitter_that_somebody_registered_is_used() -> None:
    import logging_loki

    heard: list[str] = []

    class Mine(logging_loki.emitter.LokiEmitterV1):  # type: ignore[misc]
        def __call__(self, made: logging.LogRecord, line: str) -> None:
            heard.append(line)

    logging_loki.LokiHandler.emitters["mine"] = Mine
    handler = LokiHandler("http://127.0.0.1:9", {"app": "x"}, version="mine")
    try:
        handler.handle(record())
    finally:
        handler.close()
        del logging_loki.LokiHandler.emitters["mine"]
    assert "msg=hello" in heard[0]


def test_two_handlers_of_ones_own_have_a_row_each(telemetry_receiver: Receiver) -> None:
    from telemetry import ledger

    handlers = [LokiHandler(telemetry_receiver.url, {"app": "x"}, tenant=tenant) for tenant in ("a", "b")]
    for handler in handlers:
        handler.handle(record())
    assert [row.emitted for row in ledger.PROCESS.snapshot()] == [1, 1]
    for handler in handlers:
        handler.close()
    assert ledger.PROCESS.snapshot() == ()


@pytest.mark.expects_fault("logs.loki")
def test_a_formatter_of_the_users_that_raises_is_counted(telemetry_receiver: Receiver) -> None:
    class Broken(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            raise RuntimeError("no")

    handler = LokiHandler(telemetry_receiver.url, {"app": "x"})
    handler.setFormatter(Broken())
    try:
        handler.handle(record())
        assert handler.shipper.row.snapshot().dropped == {"internal": 1}
    finally:
        handler.close()


def test_a_mended_record_is_counted_as_degraded_with_a_formatter_of_the_users_too(
    telemetry_receiver: Receiver,
) -> None:
    handler = LokiHandler(telemetry_receiver.url, {"app": "x"}, compat_labels=True)
    try:
        handler.handle(record(msg="%d", args=("x",)))
        handler.flush()
        row = handler.shipper.row.snapshot()
        assert (row.delivered, row.degraded) == (1, 1)
    finally:
        handler.close()
