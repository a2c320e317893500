"""The pytest plugin: a receiver and a capture for users' tests, which cost nothing until they are asked for."""

from __future__ import annotations

import asyncio
import json
import logging
import logging.config
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta

import opentelemetry.sdk.trace as sdk
import pytest
from opentelemetry import metrics as otel_metrics
from opentelemetry import trace
from prometheus_client import Counter, Gauge, Histogram

import telemetry
from telemetry.logs import ReadyLine
from telemetry.testing import Captured, LogLine, Receiver
from telemetry.testing.captured import START_NS, STEP_NS
from telemetry.traces.provider import PROVIDER

pytest_plugins = ["pytester"]

JOBS = Counter("captured_jobs_total", "Jobs.", ["tag"])
BUSY = Gauge("captured_busy", "Busy.")
WAIT = Histogram("captured_wait_seconds", "Wait.", buckets=(1.0, 2.0))
log = logging.getLogger("shop")


# telemetry_captured


def test_a_line_stands_in_the_trace_of_its_span(telemetry_captured):
    with telemetry.span("place order", customer=7) as span:
        log.info("order %d placed", 12, extra={"order_id": 1234, "note": 'say "hi"'})
    [line] = telemetry_captured.lines
    [captured] = telemetry_captured.spans
    assert line.line == (
        "ts=2026-01-01T00:00:00.001Z level=info logger=shop "
        f'msg="order 12 placed" trace_id={1:032x} span_id={1:016x} order_id=1234 note="say \\"hi\\""'
    )
    assert line.fields["msg"] == "order 12 placed"
    assert line.fields["trace_id"] == line.trace_id == captured.trace_id == f"{1:032x}"
    assert line.fields["note"] == 'say "hi"'
    assert line.attributes == {"order_id": 1234, "note": 'say "hi"'}
    assert (line.source, line.severity, line.severity_number) == ("captured", "info", 9)
    assert (captured.name, captured.span_id, captured.attributes) == ("place order", f"{1:016x}", {"customer": 7})
    assert span.get_span_context().span_id == 1


def test_ids_and_times_are_the_same_every_time(telemetry_captured):
    tracer = trace.get_tracer("scope")
    with tracer.start_as_current_span("outer") as outer:
        outer.add_event("begun")
        log.warning("in between")
        with tracer.start_as_current_span("inner"):
            pass
    with tracer.start_as_current_span("next", start_time=5):
        pass
    inner, outer, following = telemetry_captured.spans
    ticks = [
        (at - START_NS) // STEP_NS for at in (outer.start_ns, outer.events[0].time_ns, inner.start_ns, inner.end_ns)
    ]
    assert ticks == [0, 1, 3, 4]
    assert (telemetry_captured.lines[0].timestamp_ns - START_NS) // STEP_NS == 2
    assert (outer.span_id, inner.span_id, inner.parent_id) == (f"{1:016x}", f"{2:016x}", f"{1:016x}")
    assert (following.trace_id, following.span_id, following.start_ns) == (f"{2:032x}", f"{3:016x}", 5)
    assert inner.scope == "scope"
    assert list(telemetry_captured.traces()) == [f"{1:032x}", f"{2:032x}"]
    assert [span.name for span in telemetry_captured.traces()[f"{1:032x}"]] == ["outer", "inner"]


def test_every_captured_millisecond_shows_in_its_line(telemetry_captured):
    for _ in range(2000):
        log.info("x")
    shown = [datetime.fromisoformat(line.fields["ts"]) for line in telemetry_captured.lines]
    assert shown == [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(milliseconds=number) for number in range(2000)]


def test_secrets_are_scrubbed_as_they_would_be_on_the_way(telemetry_captured):
    with telemetry.span("login", password="hunter2", url="https://user:hunter2@host/"):
        log.info("x", extra={"api_key": "hunter2"})
    assert "hunter2" not in str((telemetry_captured.spans, telemetry_captured.lines))


def test_failures_are_captured_whole(telemetry_captured):
    def fail() -> None:
        with telemetry.span("work"):
            raise ValueError("no such order")

    with pytest.raises(ValueError, match="no such order"):
        fail()
    [span] = telemetry_captured.spans
    assert span.status == "error"
    assert span.events[0].attributes["exception.message"] == "no such order"


def test_bound_fields_threads_and_tasks(telemetry_captured):
    async def task() -> None:
        log.info("in a task")

    with telemetry.bind(job_id=3):
        thread = threading.Thread(target=log.info, args=("in a thread",))
        thread.start()
        thread.join()
        asyncio.run(task())
    thread_line, *_, task_line = [line for line in telemetry_captured.lines if line.fields["logger"] == "shop"]
    assert "job_id" not in thread_line.fields
    assert task_line.attributes == {"job_id": 3}


def test_a_ready_line_stays_what_it_is(telemetry_captured):
    ready = ReadyLine('ts=x level=error frontend-error kind="error"', {"kind": "error", "repeat": 1}, "ab" * 16)
    logging.getLogger("frontend").error("frontend-error", extra={"ready_line": ready})
    [line] = telemetry_captured.lines
    assert (line.line, line.attributes, line.trace_id) == (ready.line, ready.fields, ready.trace_id)


def test_metrics_are_what_has_changed(telemetry_captured):
    JOBS.labels("a").inc(2)
    JOBS.labels("b").inc()
    BUSY.set(5)
    WAIT.observe(1.5)
    captured = {(sample.name, *sample.labels.values()): sample.value for sample in telemetry_captured.samples}
    assert captured == {
        ("captured_jobs_total", "a"): 2.0,
        ("captured_jobs_total", "b"): 1.0,
        ("captured_busy",): 5.0,
        ("captured_wait_seconds_bucket", "2.0"): 1.0,
        ("captured_wait_seconds_bucket", "+Inf"): 1.0,
        ("captured_wait_seconds_count",): 1.0,
        ("captured_wait_seconds_sum",): 1.5,
    }
    assert telemetry_captured.value("captured_jobs_total") == 3.0
    assert telemetry_captured.value("captured_jobs_total", tag="a") == 2.0
    assert telemetry_captured.value("captured_jobs_total", tag="c") == 0.0
    telemetry_captured.clear()
    assert telemetry_captured.samples == []
    JOBS.labels("a").inc()
    assert telemetry_captured.value("captured_jobs_total") == 1.0


def test_what_earlier_tests_counted_does_not_show(telemetry_captured):
    assert telemetry_captured.samples == []


def test_clear_forgets_and_goes_on(telemetry_captured):
    with telemetry.span("a"):
        log.info("a")
    telemetry_captured.clear()
    assert telemetry_captured.spans == []
    assert telemetry_captured.lines == []
    with telemetry.span("b"):
        pass
    assert telemetry_captured.spans[0].span_id == f"{2:016x}"


def test_setup_in_the_test_changes_who_speaks_and_nothing_else(telemetry_captured, capsys):
    with telemetry.span("before"):
        log.info("before")
    tel = telemetry.setup("api", version="1.2", role="server", sigterm=False)
    with telemetry.span("after"):
        log.info("after")
    tel.shutdown()
    with telemetry.span("late"):
        log.info("late")
    assert [line.fields["msg"] for line in telemetry_captured.lines] == ["before", "after", "late"]
    assert [line.labels for line in telemetry_captured.lines] == [{}, {"service_name": "api"}, {}]
    before, after, late = telemetry_captured.spans
    assert [before.span_id, after.span_id, late.span_id] == [f"{number:016x}" for number in (1, 2, 3)]
    assert (after.resource["service.name"], after.resource["service.version"]) == ("api", "1.2")
    assert "msg=after" in capsys.readouterr().out


def test_setup_before_the_capture_keeps_its_sinks_and_sampler():
    with Receiver() as receiver, telemetry.setup("api", sigterm=False, **receiver.settings()) as tel:
        with telemetry.span("first"):
            pass
        with Captured() as captured, telemetry.span("second"):
            log.info("second")
        with telemetry.span("third"):
            log.info("third")
        assert tel.flush(30)
        assert [span.name for span in captured.spans] == ["second"]
        assert captured.spans[0].resource["service.name"] == "api"
        assert [line.fields["msg"] for line in captured.lines] == ["second"]
        assert [span.name for span in receiver.spans] == ["first", "second", "third"]
        assert receiver.spans[1].trace_id == f"{1:032x}"
        assert int(receiver.spans[2].trace_id, 16) > 2
        assert [line.fields["msg"] for line in receiver.lines] == ["second", "third"]
        assert abs(receiver.lines[0].timestamp_ns - time.time_ns()) < 60 * 10**9
        assert telemetry.active() is tel


def test_a_sampler_that_drops_is_obeyed(telemetry_captured):
    telemetry.setup("api", sampler="always_off", sigterm=False)
    with telemetry.span("dropped"):
        pass
    assert telemetry_captured.spans == []


def test_reconfigured_logging_is_captured_all_the_same(telemetry_captured):
    logging.config.dictConfig(
        {"version": 1, "disable_existing_loggers": False, "root": {"level": "INFO", "handlers": []}}
    )
    log.info("after dictConfig")
    logging.basicConfig(force=True, level="INFO", handlers=[logging.NullHandler()])
    log.info("after basicConfig")
    aside = logging.getLogger("aside")
    aside.propagate = False
    aside.info("reaches no handler of the root logger")
    log.debug("below the level")
    assert [line.fields["msg"] for line in telemetry_captured.lines] == ["after dictConfig", "after basicConfig"]


def test_opentelemetry_instruments_are_captured_after_setup(telemetry_captured):
    telemetry.setup("api", sigterm=False)
    otel_metrics.get_meter("lib").create_counter("captured_otel_calls").add(2)
    assert telemetry_captured.value("captured_otel_calls_total") == 2.0


def test_everything_is_put_back():
    level, handlers = logging.root.level, logging.root.handlers[:]
    call_handlers, time_ns, engine = logging.Logger.callHandlers, sdk.time_ns, PROVIDER.engine
    with Captured():
        assert logging.root.level == logging.INFO
        telemetry.setup("left running", sigterm=False)
        logging.root.setLevel(logging.DEBUG)
    assert telemetry.active() is None
    assert (logging.root.level, logging.root.handlers) == (level, handlers)
    assert logging.Logger.callHandlers is call_handlers
    assert sdk.time_ns is time_ns
    assert PROVIDER.engine is engine
    with telemetry.span("outside") as span:
        assert not span.is_recording()


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ("", {}),
        ("frontend-error a=1 b= a=2", {"a": "1", "b": ""}),
        ('a="x \\u00e9\\"" b=c=d e="open f=1', {"a": 'x é"', "f": "1"}),
        ('a="\\x1b" b=1', {"b": "1"}),
        ('{"a": 1, "b": null}', {"a": 1, "b": None}),
        ("{broken a=1", {"a": "1"}),
        ("{}", {}),
    ],
)
def test_the_fields_of_a_line(line, fields):
    assert LogLine(line, 0, {}, {}, "loki").fields == fields


# The plugin in somebody else's session


def test_both_fixtures_in_a_users_suite(pytester):
    pytester.makepyfile(
        """
        import http.client, logging
        import pytest, telemetry
        from telemetry.testing import Status

        @pytest.mark.parametrize("run", [1, 2])
        def test_captured(telemetry_captured, run):
            with telemetry.span("work"):
                logging.getLogger("app").info("hello")
            assert telemetry_captured.spans[0].trace_id == f"{1:032x}"
            assert telemetry_captured.lines[0].fields["ts"] == "2026-01-01T00:00:00.001Z"

        def test_receiver(telemetry_receiver):
            telemetry_receiver.behave(Status(503))
            connection = http.client.HTTPConnection("127.0.0.1", telemetry_receiver.port, timeout=30)
            connection.request("POST", "/loki/api/v1/push", b"{}")
            assert connection.getresponse().status == 503
            connection.close()

        def test_after_both():
            assert telemetry.active() is None
            assert logging.root.level == logging.WARNING
        """
    )
    result = pytester.runpytest_subprocess("-W", "error", "-p", "no:cacheprovider", "-p", "no:asyncio")
    result.assert_outcomes(passed=4)


def test_the_plugin_costs_a_session_that_does_not_use_it_nothing(pytester, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # other packages' plugins load what they like
    pytester.makepyfile(
        """
        import sys

        def test_nothing_of_it_is_loaded():
            loaded = set(sys.modules)
            assert "telemetry.testing.plugin" in loaded
            heavy = ("msgspec", "opentelemetry", "prometheus_client", "google", "grpc", "logging_loki", "requests")
            assert not [name for name in loaded if name.partition(".")[0] in heavy]
            ours = {name for name in loaded if name.partition(".")[0] == "telemetry"}
            assert ours == {"telemetry", "telemetry.lazy", "telemetry.testing", "telemetry.testing.plugin"}
        """
    )
    plugins = ["-p", "telemetry.testing.plugin", "-p", "no:cacheprovider"]
    pytester.runpytest_subprocess("-W", "error", *plugins).assert_outcomes(passed=1)


def test_the_names_of_the_package_are_fetched_on_use():
    program = """
import sys, json
import telemetry.testing as testing
before = sorted(name for name in sys.modules if name.startswith("telemetry"))
assert set(testing.__all__) <= set(dir(testing))
testing.Status
try:
    testing.Nothing
except AttributeError as error:
    print(json.dumps([before, str(error)]))
"""
    out = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert json.loads(out) == [
        ["telemetry", "telemetry.lazy", "telemetry.testing"],
        "module 'telemetry.testing' has no attribute 'Nothing'",
    ]
