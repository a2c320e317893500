"""What holds for every test: a clean environment before it, nothing left behind after it.

A test that leaves an internal fault behind fails, whatever it asserted: the library swallows its own
faults to spare the host, so without this a broken part would look like a passing test. A test that
causes faults on purpose names them: ``@pytest.mark.expects_fault("logs.loki")``; one that is named and
does not happen fails as well.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from telemetry import faults
from tests import leftovers

# Variables that steer the library. Those that steer the test run itself stay.
_PREFIXES = ("FLEETGLASS_", "OTEL_", "PROMETHEUS_")
_NAMES = ("FEEDBACK_URL", "DATABASE_URL", "prometheus_multiproc_dir")
_KEPT = ("FLEETGLASS_REQUIRE_BACKENDS", "FLEETGLASS_BACKENDS_DIR")


# How long an example takes is the machine's affair; what else Hypothesis does in CI stays.
settings.register_profile("house", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")


def _ours(name: str) -> bool:
    return (name.startswith(_PREFIXES) or name in _NAMES) and name not in _KEPT


def _clear_environment() -> dict[str, str]:
    """Remove the library's variables from ``os.environ``; return what was there."""
    return {name: os.environ.pop(name) for name in list(os.environ) if _ours(name)}


def pytest_configure(config: pytest.Config) -> None:
    """Clear the developer's own settings once, so that module and session fixtures don't see them either."""
    _clear_environment()
    leftovers.watch()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Fail the test that leaves a connection open in a loop that is closed, after all of its fixtures have ended."""
    try:
        return (yield)
    finally:
        left = leftovers.take()
        if left:
            pytest.fail(f"left open when the event loop closed: {'; '.join(left)}", pytrace=False)


# Where CI provides every part, a skipped test is a part that went missing, so it fails the run. Only what
# no package registry offers may be absent (the `stack` marker).
_skipped: list[str] = []


def _note_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail") and "stack" not in getattr(report, "keywords", {}):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        _skipped.append(f"{report.nodeid}: {reason}")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Remember skips outside the ``stack`` marker."""
    _note_skip(report)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Remember modules that skipped themselves."""
    _note_skip(report)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run that was told that every part is there and skipped a test all the same."""
    if _skipped and os.environ.get("FLEETGLASS_REQUIRE_BACKENDS") and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say which skips failed the run."""
    if _skipped and os.environ.get("FLEETGLASS_REQUIRE_BACKENDS"):
        terminalreporter.section("skipped, though FLEETGLASS_REQUIRE_BACKENDS says that every part is there", red=True)
        for line in _skipped:
            terminalreporter.line(line)


@dataclass
class _LoggerState:
    level: int
    handlers: list[logging.Handler]
    filters: list[Any]
    propagate: bool
    disabled: bool

    @classmethod
    def of(cls, logger: logging.Logger) -> _LoggerState:
        return cls(logger.level, logger.handlers[:], logger.filters[:], logger.propagate, logger.disabled)

    def restore(self, logger: logging.Logger) -> None:
        logger.setLevel(self.level)
        logger.handlers[:] = self.handlers
        logger.filters[:] = self.filters
        logger.propagate = self.propagate
        logger.disabled = self.disabled


_FRESH = _LoggerState(level=logging.NOTSET, handlers=[], filters=[], propagate=True, disabled=False)


def _loggers() -> dict[str, logging.Logger]:
    known = logging.Logger.manager.loggerDict
    found = {name: logger for name, logger in known.items() if isinstance(logger, logging.Logger)}
    return {"": logging.getLogger(), **found}


@pytest.fixture(autouse=True)
def _logging_restored() -> Iterator[None]:
    """Handlers, levels and hooks as they were before the test; loggers it made are emptied."""
    before = {name: _LoggerState.of(logger) for name, logger in _loggers().items()}
    manager_disable = logging.Logger.manager.disable
    record_factory, logger_class = logging.getLogRecordFactory(), logging.getLoggerClass()
    excepthook, thread_hook, unraisable = sys.excepthook, threading.excepthook, sys.unraisablehook
    main = threading.current_thread() is threading.main_thread()
    terminate = signal.getsignal(signal.SIGTERM)
    yield
    sys.excepthook, threading.excepthook, sys.unraisablehook = excepthook, thread_hook, unraisable
    if main and terminate is not None:
        signal.signal(signal.SIGTERM, terminate)
    logging.setLogRecordFactory(record_factory)
    logging.setLoggerClass(logger_class)
    logging.disable(manager_disable)
    for name, logger in _loggers().items():
        before.get(name, _FRESH).restore(logger)


@pytest.fixture(autouse=True)
def _environment_cleared() -> Iterator[None]:
    """None of the library's variables before the test, and those that it set gone after it."""
    before = _clear_environment()
    yield
    _clear_environment()
    os.environ.update(before)


def _active() -> Any:
    """The running ``Telemetry``, without importing the pipeline for tests that never touch it."""
    pipeline = sys.modules.get("telemetry.pipeline")
    return pipeline.active() if pipeline is not None and hasattr(pipeline, "active") else None


def _empty_ledger() -> None:
    """Take out the rows that a test's sinks left, so that the next test's ``health()`` shows only its own."""
    ledger = sys.modules.get("telemetry.ledger")
    for row in list(ledger.PROCESS._rows.values()) if ledger is not None else ():
        ledger.PROCESS.close(row)


@pytest.fixture(autouse=True)
def _no_unexpected_fault(
    request: pytest.FixtureRequest, _logging_restored: None, _environment_cleared: None
) -> Iterator[None]:
    """Shut down what the test set up, then fail it for every internal fault that it did not announce."""
    expected = {where for mark in request.node.iter_markers("expects_fault") for where in mark.args}
    faults.reset()
    faults.set_strict(False)
    before = _active()
    yield
    running = _active()
    if running is not None and running is not before:
        running.shutdown(timeout=1.0)
    if before is None:
        _empty_ledger()
    seen = faults.counts()
    faults.set_strict(False)
    faults.reset()
    unexpected = {where: count for where, count in seen.items() if where not in expected}
    absent = expected - seen.keys()
    problems = []
    if unexpected:
        problems.append(f"unexpected internal faults (see 'fleetglass:' on stderr): {unexpected}")
    if absent:
        problems.append(f"faults announced by expects_fault that did not happen: {sorted(absent)}")
    if problems:
        pytest.fail("; ".join(problems), pytrace=False)
