"""Logging as the application sees it: what it calls, what arrives, and what it never notices."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import logging.config
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import structlog

import telemetry
from telemetry.logs import carry, takeover
from telemetry.logs.loki import LokiHandler
from telemetry.testing import Hang, Receiver, Refuse, RefuseRecord, Status
from tests import loki_grammar
from tests.pace import fastest

log = logging.getLogger("app.test")


def start(receiver: Receiver, **settings: Any) -> telemetry.Telemetry:
    return telemetry.setup(
        service="shop", loki_url=receiver.url, metrics_exporter="none", **{"stdout": "off", "linger": 0.05, **settings}
    )


def fields(receiver: Receiver) -> list[dict[str, str]]:
    read = [loki_grammar.logfmt(line.line, strict=True) for line in receiver.lines]
    assert not any("__error__" in one for one in read), read
    return read


def test_a_record_arrives_in_loki_under_few_labels(telemetry_receiver: Receiver) -> None:
    with start(telemetry_receiver, environment="prod", loki_labels={"team": "core"}) as tel:
        with telemetry.span("work"):
            wanted = telemetry.trace_id()
            log.info("placed", extra={"order": "A-1"})
        assert tel.flush(30)
    (line,) = telemetry_receiver.lines
    assert line.labels == {"service_name": "shop", "deployment_environment_name": "prod", "team": "core"}
    assert line.attributes == {"trace_id": wanted}
    assert fields(telemetry_receiver)[0]["order"] == "A-1"
    assert abs(line.timestamp_ns / 1e9 - time.time()) < 5


def test_identical_records_of_one_instant_all_survive(telemetry_receiver: Receiver) -> None:
    with start(telemetry_receiver) as tel:
        made = log.makeRecord("app", 20, "f", 1, "same", (), None)
        for _ in range(50):
            logging.getLogger().handle(logging.makeLogRecord(vars(made)))
        assert tel.flush(30)
    assert len({line.timestamp_ns for line in telemetry_receiver.lines}) == 50


def test_the_same_line_goes_over_otlp_with_ids_in_their_own_fields(telemetry_receiver: Receiver) -> None:
    with telemetry.setup(service="shop", otlp_endpoint=telemetry_receiver.url, metrics_exporter="none") as tel:
        with telemetry.span("work"):
            log.error("failed", extra={"order": "A-1"})
        assert tel.flush(30)
    (line,) = telemetry_receiver.lines
    (span,) = telemetry_receiver.spans
    assert (line.source, line.severity, line.severity_number) == ("otlp", "ERROR", 17)
    assert (line.trace_id, line.span_id) == (span.trace_id, span.span_id)
    assert line.attributes == {}
    assert loki_grammar.logfmt(line.line, strict=True)["order"] == "A-1"


def test_attributes_mode_is_for_other_backends(telemetry_receiver: Receiver) -> None:
    with telemetry.setup(
        service="shop", otlp_endpoint=telemetry_receiver.url, otlp_log_body="attributes", metrics_exporter="none"
    ) as tel:
        log.warning("low stock", extra={"item": "A", "left": 3, "share": 0.5, "ok": False, "minus": -1})
        assert tel.flush(30)
    (line,) = telemetry_receiver.lines
    assert line.line == "low stock"
    expected = {"logger": "app.test", "item": "A", "left": 3, "share": 0.5, "ok": False, "minus": -1}
    assert line.attributes == expected


def test_a_log_is_stored_once(telemetry_receiver: Receiver, capsys: pytest.CaptureFixture[str]) -> None:
    with start(telemetry_receiver, otlp_endpoint=telemetry_receiver.url, stdout="auto") as tel:
        log.info("once")
        assert tel.flush(30)
    assert [line.source for line in telemetry_receiver.lines] == ["loki"]
    assert "once" not in capsys.readouterr().out


def test_two_copies_are_warned_of(telemetry_receiver: Receiver, capsys: pytest.CaptureFixture[str]) -> None:
    with start(telemetry_receiver, stdout="on", otlp_logs_endpoint=telemetry_receiver.url + "/v1/logs"):
        pass
    said = capsys.readouterr().err
    assert "each log is stored twice" in said
    assert "Logs go to Loki and not over OTLP" in said


def test_log_feedback_with_a_dead_endpoint_and_debug_on_the_root(telemetry_receiver: Receiver) -> None:
    """otel-python #2701, #4261, #4585; python-logging-loki #18: one call did not return in 60 s."""
    telemetry_receiver.behave(Refuse())
    with start(telemetry_receiver, log_level="DEBUG", shutdown_timeout=0.5) as tel:
        started = time.perf_counter()
        log.info("one")
        assert time.perf_counter() - started < 2.0
        time.sleep(0.5)
        (row,) = [row for row in tel.health().rows if row.signal == "logs"]
        assert row.emitted == 1


def test_what_the_sender_logs_never_enters_its_own_sink(telemetry_receiver: Receiver) -> None:
    with start(telemetry_receiver) as tel:
        sink = tel.shippers[0].sink
        send = sink.send

        def chatty(body: bytes, timeout: float) -> Any:
            logging.getLogger("urllib3").warning("sending %d bytes", len(body))
            return send(body, timeout)

        sink.send = chatty  # type: ignore[method-assign]
        log.info("one")
        assert tel.flush(30)
        assert tel.health().rows[0].emitted == 1


def test_reentrant_emit_from_twenty_threads_does_not_deadlock(telemetry_receiver: Receiver) -> None:
    """otel-python #3858: an attribute whose rendering logs, under the same handler lock."""

    class Logs:
        def __str__(self) -> str:
            log.warning("from inside")
            return "x"

    with start(telemetry_receiver) as tel:
        threads = [threading.Thread(target=log.info, args=("m",), kwargs={"extra": {"o": Logs()}}) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert not any(thread.is_alive() for thread in threads)
        assert tel.flush(30)
    assert len(telemetry_receiver.lines) == 40


def test_exceptions_of_a_record_do_not_escape_into_the_app(telemetry_receiver: Receiver) -> None:
    """contrib 0.66b2 lets ``logger.info("%d", "x")`` and a raising ``__str__`` propagate."""

    class Raises:
        def __str__(self) -> str:
            raise RuntimeError("no")

    with start(telemetry_receiver) as tel:
        for handler in logging.getLogger().handlers[:]:
            if type(handler).__module__.startswith("_pytest"):  # pytest's own raise on such a record
                logging.getLogger().removeHandler(handler)
        log.info("%d", "x")
        log.info(Raises())
        log.info("%s", Raises())
        assert tel.flush(30)
        (row,) = tel.health().rows
        assert (row.delivered, row.degraded) == (3, 3)
    assert len(fields(telemetry_receiver)) == 3


def test_one_refused_record_does_not_take_its_batch_along(telemetry_receiver: Receiver) -> None:
    telemetry_receiver.behave(RefuseRecord(lambda item: "poison" in item.line))
    with start(telemetry_receiver, linger=30) as tel:
        for word in ("a", "b", "poison", "c"):
            log.info(word)
        assert not tel.flush()
        (row,) = tel.health().rows
        assert (row.delivered, row.dropped) == (3, {"rejected": 1})
    assert sorted({one["msg"] for one in fields(telemetry_receiver)}) == ["a", "b", "c"]


def test_a_passing_500_is_retried(telemetry_receiver: Receiver) -> None:
    telemetry_receiver.behave(Status(500), times=1)
    with start(telemetry_receiver) as tel:
        log.info("one")
        assert tel.flush(30)
    assert len(telemetry_receiver.lines) == 1


def test_the_request_path_is_not_blocked_by_a_server_that_never_answers(telemetry_receiver: Receiver) -> None:
    """otel-python #2024."""
    telemetry_receiver.behave(Hang())
    with start(telemetry_receiver, shutdown_timeout=0.2):

        def slow() -> float:
            times = []
            for _ in range(2000):
                started = time.perf_counter()
                log.info("x")
                times.append(time.perf_counter() - started)
            return sorted(times)[-100]  # the bench holds the 99th percentile, with a core of its own

        assert fastest(slow, 0.001) < 0.001


def test_handlers_are_neither_lost_nor_doubled_by_reconfiguring(
    telemetry_receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    """otel-python #2719; ``from logging.config import dictConfig`` bypasses OpenTelemetry's patch."""
    from logging.config import dictConfig

    console = {"class": "logging.StreamHandler", "stream": "ext://sys.stdout"}
    plan = {"version": 1, "handlers": {"c": console}, "root": {"level": "INFO", "handlers": ["c"]}}
    with start(telemetry_receiver) as tel:
        start(telemetry_receiver)
        log.info("1")
        dictConfig(plan)
        logging.getLogger("app.test").disabled = False
        log.info("2")
        logging.basicConfig(force=True, level="INFO")
        log.info("3")
        dictConfig({"version": 1, "disable_existing_loggers": False, "root": {"level": "INFO"}})
        log.info("4")
        assert tel.flush(30)
    assert [one["msg"] for one in fields(telemetry_receiver)] == ["1", "2", "3", "4"]


def test_stdout_has_one_copy_after_reconfiguring(capsys: pytest.CaptureFixture[str]) -> None:
    with telemetry.setup(service="shop", metrics_exporter="none"):
        console = {"class": "logging.StreamHandler", "stream": "ext://sys.stdout"}
        logging.config.dictConfig(
            {"version": 1, "disable_existing_loggers": False, "handlers": {"c": console}, "root": {"handlers": ["c"]}}
        )
        log.warning("only once")
    assert capsys.readouterr().out.count("only once") == 1


def test_basic_config_before_setup_steps_aside_and_comes_back(capsys: pytest.CaptureFixture[str]) -> None:
    handler = logging.StreamHandler(sys.stdout)
    logging.getLogger().addHandler(handler)
    with telemetry.setup(service="shop", metrics_exporter="none"):
        log.warning("once")
    assert capsys.readouterr().out.count("once") == 1
    assert handler in logging.getLogger().handlers


def test_a_forced_basic_config_does_what_it_says_and_our_handlers_stay(
    telemetry_receiver: Receiver, tmp_path: Path
) -> None:
    """Ours came back so early that the stdlib, finding the root logger taken, ignored level and file."""
    written = tmp_path / "app.log"
    with start(telemetry_receiver) as tel:
        logging.basicConfig(force=True, level="DEBUG", filename=written, format="%(message)s")
        log.debug("both")
        assert tel.flush(30)
    assert [one["msg"] for one in fields(telemetry_receiver)] == ["both"]
    assert written.read_text() == "both\n"
    assert logging.getLogger().level == logging.DEBUG, "the newer configuration is what shutdown leaves behind"
    logging.basicConfig(force=True)  # closes the file


def test_alembics_file_config_does_not_end_logging(telemetry_receiver: Receiver, tmp_path: Path) -> None:
    """otel-python #2719 by the third way: fileConfig, which alembic's env.py calls, threw our handlers away."""
    ini = tmp_path / "alembic.ini"
    ini.write_text(
        "[loggers]\nkeys=root\n[handlers]\nkeys=console\n[formatters]\nkeys=\n[logger_root]\nlevel=WARNING\n"
        "handlers=console\n[handler_console]\nclass=StreamHandler\nargs=(sys.stderr,)\n"
    )
    with start(telemetry_receiver) as tel:
        logging.config.fileConfig(ini, disable_existing_loggers=False)
        log.warning("kept")
        assert tel.flush(30)
    assert [one["msg"] for one in fields(telemetry_receiver)] == ["kept"]


def test_shutdown_leaves_no_hook_of_ours_in_logging(telemetry_receiver: Receiver) -> None:
    import threading as threads

    own = logging.StreamHandler(sys.stderr)
    server = logging.getLogger("uvicorn.access")
    server.addHandler(own)
    server.propagate = False
    handlers = server.handlers[:]  # pytest's own may be among them
    hooks = (logging.basicConfig, logging.config.fileConfig, logging.config.dictConfigClass)
    excepthooks = (sys.excepthook, threads.excepthook)
    with start(telemetry_receiver):
        assert own not in server.handlers
        assert server.propagate
    assert (logging.basicConfig, logging.config.fileConfig, logging.config.dictConfigClass) == hooks
    assert (sys.excepthook, threads.excepthook) == excepthooks
    assert sorted(map(id, server.handlers)) == sorted(map(id, handlers))
    assert not server.propagate
    assert server.filters == []
    assert not any(type(h).__module__.startswith("telemetry.") for h in logging.getLogger().handlers)


def test_access_lines_of_a_server_that_are_switched_off_stay_off(telemetry_receiver: Receiver) -> None:
    from uvicorn import Config

    with start(telemetry_receiver) as tel:
        server = logging.getLogger("uvicorn.access")
        handlers, server.handlers = server.handlers, []  # pytest's own may be among them
        try:
            Config("app:app", access_log=False, log_config=None)
            takeover()
            assert not server.hasHandlers()  # what uvicorn asks before it makes a record
            server.info("GET /")
        finally:
            server.handlers, server.propagate = handlers, True
        assert tel.flush(30)
    assert fields(telemetry_receiver) == []


def test_a_console_that_a_newer_configuration_replaced_does_not_come_back(capsys: pytest.CaptureFixture[str]) -> None:
    logging.getLogger().addHandler(logging.StreamHandler(sys.stdout))
    with telemetry.setup(service="shop", metrics_exporter="none"):
        console = {"class": "logging.StreamHandler", "stream": "ext://sys.stdout"}
        logging.config.dictConfig(
            {"version": 1, "disable_existing_loggers": False, "handlers": {"c": console}, "root": {"handlers": ["c"]}}
        )
    log.warning("afterwards")
    assert capsys.readouterr().out.count("afterwards") == 1


def test_an_excepthook_that_wrapped_ours_works_after_shutdown(telemetry_receiver: Receiver) -> None:
    """Sentry and rich keep the hook that they found: after shutdown ours raised KeyError inside theirs."""
    heard: list[str] = []
    sys.excepthook = lambda kind, error, trace: heard.append(str(error))
    with start(telemetry_receiver):
        ours = sys.excepthook

        def around(*args: Any) -> None:
            ours(*args)

        sys.excepthook = around
    sys.excepthook(ValueError, ValueError("late"), None)
    assert heard == ["late"]


def test_levels_of_single_loggers(telemetry_receiver: Receiver) -> None:
    with start(telemetry_receiver, log_level="WARNING", log_levels={"app.test": "DEBUG"}) as tel:
        log.debug("kept")
        logging.getLogger("other").info("left out")
        assert tel.flush(30)
    assert [one["msg"] for one in fields(telemetry_receiver)] == ["kept"]


def test_thousands_of_loggers_and_setups_start_no_further_threads(telemetry_receiver: Receiver) -> None:
    """litestar #3080, #3049: a thread per logger."""
    with start(telemetry_receiver) as tel:
        log.info("first")
        tel.flush()
        before = threading.active_count()
        for i in range(1000):
            logging.getLogger(f"many.{i}").info("x")
        for _ in range(50):
            start(telemetry_receiver)
        assert threading.active_count() == before


def test_bound_fields_end_with_their_block_and_inner_ones_win(telemetry_receiver: Receiver) -> None:
    with start(telemetry_receiver) as tel:
        with telemetry.bind(job_id=1, user="a"):
            with telemetry.bind(user="b"):
                log.info("in")
            log.info("mid", extra={"job_id": 2})
        log.info("out")
        assert tel.flush(30)
    inner, middle, outer = fields(telemetry_receiver)
    assert (inner["job_id"], inner["user"]) == ("1", "b")
    assert (middle["job_id"], middle["user"]) == ("2", "a")
    assert "job_id" not in outer


async def test_context_reaches_threads_and_tasks(telemetry_receiver: Receiver) -> None:
    """structlog #462, #491: context lost in executors."""
    with start(telemetry_receiver) as tel, ThreadPoolExecutor(1) as pool:
        pool.submit(log.info, "warm").result()
        with telemetry.bind(job_id=7), telemetry.span("work"):
            wanted = telemetry.trace_id()
            await asyncio.to_thread(log.info, "to_thread")
            await asyncio.get_running_loop().run_in_executor(pool, carry(log.info), "pool")
            async with asyncio.TaskGroup() as group:
                group.create_task(asyncio.to_thread(log.info, "group"))
        assert tel.flush(30)
    by_message = {one["msg"]: one for one in fields(telemetry_receiver)}
    for message in ("to_thread", "pool", "group"):
        assert by_message[message]["job_id"] == "7"
        assert by_message[message]["trace_id"] == wanted


def test_bind_decorates_functions_and_coroutines(telemetry_receiver: Receiver) -> None:
    @telemetry.bind(kind="sync")
    def work(n: int) -> int:
        log.info("sync")
        return n

    @telemetry.bind(kind="async")
    async def later(n: int) -> int:
        log.info("async")
        return n

    with start(telemetry_receiver) as tel:
        assert (work(1), asyncio.run(later(2))) == (1, 2)
        assert tel.flush(30)
    assert [one["kind"] for one in fields(telemetry_receiver)] == ["sync", "async"]


async def test_one_bind_used_by_two_tasks_leaks_no_field_of_the_other(telemetry_receiver: Receiver) -> None:
    """Their ends crossed, and the first job went on under the id of the second."""
    shared = telemetry.bind(component="worker")

    async def job(number: int, wait: float) -> None:
        with telemetry.bind(job_id=number):
            await asyncio.sleep(wait)
            with shared:
                await asyncio.sleep(0.05)
            log.info("done", extra={"expected": number})

    with start(telemetry_receiver) as tel:
        await asyncio.gather(job(1, 0.0), job(2, 0.02))
        assert tel.flush(30)
    for one in fields(telemetry_receiver):
        assert one["job_id"] == one["expected"]
        assert "component" not in one


def test_blocks_that_end_in_another_order_take_only_their_own_fields_along() -> None:
    from telemetry.logs import context

    first, second = telemetry.bind(a=1), telemetry.bind(b=2)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert dict(context.current()) == {"b": 2}
    second.__exit__(None, None, None)
    assert dict(context.current()) == {}
    with first, first:
        pass
    assert dict(context.current()) == {}


def test_bind_left_in_another_context_does_not_raise() -> None:
    block = telemetry.bind(a=1)
    contextvars.copy_context().run(block.__enter__)
    block.__exit__(None, None, None)


def test_structlog_works_through_stdlib(telemetry_receiver: Receiver) -> None:
    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, telemetry.structlog_processor],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    try:
        with start(telemetry_receiver) as tel:
            logger = structlog.get_logger("shop").bind(order="A-1")
            logger.info("placed 100%", amount=3, name="kim", message="m", level="l")
            logger.info("%s of %d", "one", 2)
            try:
                int("x")
            except ValueError:
                logger.exception("failed")
            assert tel.flush(30)
    finally:
        structlog.reset_defaults()
    placed, args, failed = fields(telemetry_receiver)
    assert placed["msg"] == "placed 100%"
    assert (placed["order"], placed["amount"], placed["extra_name"]) == ("A-1", "3", "kim")
    assert placed["level"] == "info"
    assert args["msg"] == "one of 2"
    assert failed["exception_type"] == "ValueError"


def test_a_standalone_loki_handler_keeps_the_contract_of_python_logging_loki(telemetry_receiver: Receiver) -> None:
    logger = logging.getLogger("standalone")
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "handlers": {
                "loki": {
                    "class": "telemetry.logs.loki.LokiHandler",
                    "url": telemetry_receiver.url,
                    "tags": {"service_name": "old", "my.dotted": 42},
                    "auth": ["kim", "pw"],
                    "tenant": "t1",
                }
            },
            "loggers": {"standalone": {"handlers": ["loki"], "level": "INFO", "propagate": False}},
        }
    )
    logger.info("hi", extra={"tags": {"customer": "c-1", "user.id": 7}})
    for handler in logger.handlers:
        handler.flush()
        handler.close()
    (line,) = telemetry_receiver.lines
    assert line.labels == {"service_name": "old", "my_dotted": "42"}
    assert fields(telemetry_receiver)[0]["customer"] == "c-1", "tags of a record go into the line, not into labels"
    (request,) = telemetry_receiver.requests
    assert request.headers["authorization"] == "Basic a2ltOnB3"
    assert request.headers["x-scope-orgid"] == "t1"


def test_compat_labels_are_those_of_python_logging_loki() -> None:
    from logging_loki.emitter import LokiEmitterV1

    tags = {"app": "x", "n": "1"}
    made = log.makeRecord("lib", 30, "f", 1, "m", (), None, extra={"tags": {"my.tag": "v", "bad tag!": "w"}})
    handler = LokiHandler("http://127.0.0.1:9", tags, compat_labels=True)
    try:
        theirs = LokiEmitterV1("http://127.0.0.1:9", tags).build_tags(made)
        assert handler.emitter.build_tags(made) == {k: str(v) for k, v in theirs.items()}
        payload = handler.emitter.build_payload(made, "line")
        assert payload["streams"][0]["stream"] == theirs
        assert payload["streams"][0]["values"][0][1] == "line"
    finally:
        handler.close()


def test_an_unknown_emitter_version_is_refused_as_upstream_does() -> None:
    with pytest.raises(ValueError, match="Unknown emitter version: 9"):
        LokiHandler("http://127.0.0.1:9", version="9")


def test_uvicorn_loggers_come_under_ours(telemetry_receiver: Receiver) -> None:
    """Double access lines, plain text beside JSON: the server configures logging after us."""
    from uvicorn.config import LOGGING_CONFIG

    with start(telemetry_receiver) as tel:
        logging.config.dictConfig(LOGGING_CONFIG)
        takeover()
        logging.getLogger("uvicorn.access").info('%s - "%s %s HTTP/%s" %d', "1.2.3.4:5", "GET", "/", "1.1", 200)
        assert tel.flush(30)
        assert logging.getLogger("uvicorn").handlers == []
    assert [one["logger"] for one in fields(telemetry_receiver)] == ["uvicorn.access"]


def run(code: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
        env={**os.environ, **environ},
    )


def test_uncaught_exceptions_are_records_too() -> None:
    done = run(
        "import telemetry, threading\n"
        "telemetry.setup(service='x')\n"
        "t = threading.Thread(target=lambda: 1/0, name='w1'); t.start(); t.join()\n"
        "raise ValueError('bye')\n"
    )
    lines = [loki_grammar.logfmt(line, strict=True) for line in done.stdout.splitlines()]
    assert [(one["logger"], one["level"], one["exception_type"]) for one in lines] == [
        ("uncaught", "critical", "ZeroDivisionError"),
        ("uncaught", "critical", "ValueError"),
    ]
    assert lines[0]["thread_name"] == "w1"
    assert done.stderr == ""
    assert done.returncode == 1


def test_a_task_whose_exception_nobody_fetched_is_a_record() -> None:
    done = run(
        "import asyncio, telemetry\n"
        "telemetry.setup(service='x')\n"
        "async def bad(): raise LookupError('lost')\n"
        "async def main():\n"
        "    task = asyncio.create_task(bad()); await asyncio.sleep(0.01); del task\n"
        "asyncio.run(main())\n"
    )
    (line,) = [loki_grammar.logfmt(line, strict=True) for line in done.stdout.splitlines()]
    assert (line["logger"], line["exception_type"]) == ("asyncio", "LookupError")


def test_an_ascii_stdout_gets_escapes_and_loses_no_line() -> None:
    done = run(
        "import telemetry, logging\ntelemetry.setup(service='x')\nlogging.getLogger().warning('한글')\n",
        PYTHONIOENCODING="ascii",
    )
    assert "\\ud55c\\uae00" in done.stdout
    assert done.stderr == ""


def test_a_closed_stdout_does_not_reach_the_application() -> None:
    done = run(
        "import telemetry, logging, sys\ntelemetry.setup(service='x')\n"
        "sys.stdout.close()\nlogging.getLogger().warning('x')\nlogging.getLogger().warning('y')\nsys.exit(3)\n"
    )
    assert done.returncode == 3
    assert done.stderr.count("internal fault in logs.stdout") == 1


def test_a_child_forked_while_another_thread_writes_to_stdout_can_write_too() -> None:
    """otel-python #1567, sentry-python #6149: the lock of the stream was held in the child for ever."""
    done = run(
        "import logging, os, signal, telemetry, threading, warnings\n"
        "warnings.simplefilter('ignore', DeprecationWarning)\n"  # 3.12 and later: a fork beside threads
        "telemetry.setup(service='x')\n"
        "log, stop = logging.getLogger(), threading.Event()\n"
        "def work():\n"
        "    while not stop.is_set(): log.warning('parent')\n"
        "threads = [threading.Thread(target=work) for _ in range(3)]\n"
        "for t in threads: t.start()\n"
        "for _ in range(60):\n"
        "    pid = os.fork()\n"
        "    if pid == 0:\n"
        "        signal.alarm(30); log.warning('child'); os._exit(0)\n"
        "    _, status = os.waitpid(pid, 0)\n"
        "    if status: stop.set(); raise SystemExit(f'child ended with {status}')\n"
        "stop.set()\n"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("msg=child") == 60
