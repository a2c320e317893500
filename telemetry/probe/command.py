"""``fleetglass probe``: whether what this environment configures really arrives."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TextIO

import msgspec

from telemetry.config import load, load_section
from telemetry.config.targets import Signal
from telemetry.probe import report
from telemetry.probe.plan import SIGNALS, plan
from telemetry.probe.records import Expected, Outcome, Route
from telemetry.probe.verdicts import judge

SERVICE = "fleetglass-probe"
TIMEOUT = 30.0
"""Seconds that a record is given, from sending to finding."""

Say = Callable[[str], None]


class Result(msgspec.Struct, frozen=True):
    """What a run found: one outcome a signal, the identity that was sent, the trace's id."""

    outcomes: tuple[Outcome, ...]
    expected: Expected
    trace_id: str


def command(arguments: list[str]) -> int:
    """Run ``fleetglass probe``; the exit status. Raises ConfigError."""
    options = _parser().parse_args(arguments)
    # gRPC's C core writes to the terminal by itself; what it has to say is in the outcome.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    say = _progress(sys.stderr) if sys.stderr.isatty() and not options.json else _silent
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            result = run(options.service, options.timeout, only=options.only, say=say)
    finally:
        # Losses are what the table tells; the rest (settings that do nothing, faults of our own) is worth hearing.
        for line in said.getvalue().splitlines(keepends=True):
            if "records lost" not in line and "records are lost" not in line:
                sys.stderr.write(line)
    status = report.status(result.outcomes, options.require)
    if options.json:
        document = report.document(result.outcomes, result.expected, result.trace_id, status)
        print(msgspec.json.format(msgspec.json.encode(document)).decode())
    else:
        print(report.table(result.outcomes, result.expected, result.trace_id))
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fleetglass probe",
        description="Send one trace, one line and one metric the way this environment's settings say, read each back "
        "from Tempo, Loki and VictoriaMetrics, and say what arrived, how late, and under which identity; for each "
        "failure, what is wrong and what to do.",
        epilog="Exit status: 0 everything that is configured arrived, 1 something did not, 2 nothing is configured or "
        "a setting can't be used. Query addresses: FLEETGLASS_TEMPO_QUERY_URL, FLEETGLASS_LOKI_QUERY_URL, "
        "FLEETGLASS_METRICS_QUERY_URL; unset, they are derived from where records are sent.",
    )
    parser.add_argument(
        "--timeout",
        type=_seconds,
        default=TIMEOUT,
        metavar="SECONDS",
        help=f"how long each record is waited for (default {TIMEOUT:g})",
    )
    parser.add_argument(
        "--service", default=SERVICE, metavar="NAME", help=f"service.name to send as (default {SERVICE})"
    )
    for name, text in (
        ("only", "try these alone"),
        ("require", "fail also where one of these is not configured"),
    ):
        parser.add_argument(
            f"--{name}", type=_signals, default=(), metavar="SIGNALS", help=f"{text}: {','.join(SIGNALS)}"
        )
    parser.add_argument("--json", action="store_true", help="as one JSON object, for programs")
    return parser


def _signals(text: str) -> tuple[Signal, ...]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in SIGNALS]
    if unknown or not names:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of {', '.join(SIGNALS)}")
    return tuple(signal for signal in SIGNALS if signal in names)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds between 0 and 3600")
    return seconds


def _progress(terminal: TextIO) -> Say:
    return lambda sentence: print(f"\r\x1b[2K{sentence}", end="", file=terminal, flush=True)


def _silent(sentence: str) -> None:
    """Where nobody watches."""


def run(service: str, timeout: float, *, only: Sequence[Signal] = (), say: Say = _silent) -> Result:
    """Send and read back under the settings of this environment. Raises ConfigError.

    ``timeout`` is in seconds, from sending to finding, for all signals at once; a look at what does not answer takes
    a few seconds more. ``say`` hears of progress; an empty sentence ends it.
    """
    # A service's directory of shared values would take in the probe's as one more process of it.
    os.environ.pop("PROMETHEUS_MULTIPROC_DIR", None)
    loaded = load({"service": service})
    routes = plan(loaded.config, load_section("command"))
    if only:
        routes = tuple(
            route if route.signal in only else Route(signal=route.signal, unsent="Not asked for (--only).")
            for route in routes
        )
    if all(route.unsent for route in routes):
        expected = Expected(loaded.config.service, loaded.config.service, loaded.config.instance or "", timeout)
        return Result(tuple(judge(route, expected, None, None) for route in routes), expected, "")
    return _run(service, timeout, routes, say)


def _run(service: str, timeout: float, routes: Sequence[Route], say: Say) -> Result:
    from telemetry.probe import send
    from telemetry.probe.read import read

    telemetry = send.begin(service)
    try:
        identity = telemetry.identity
        expected = Expected(identity.service, identity.job, identity.instance, timeout)
        since = time.monotonic()
        deadline = since + timeout
        marks = send.emit(telemetry)

        def follow(route: Route) -> Outcome:
            carrier = None if route.unsent else send.shipper(telemetry, route)
            if carrier is None:
                return judge(route, expected, None, None)
            sent = send.watch(route, carrier, since, deadline)
            back = read(route, marks, expected, since, deadline) if sent.state == "delivered" else None
            return judge(route, expected, sent, back)

        with ThreadPoolExecutor(len(routes), thread_name_prefix="fleetglass-probe") as threads:
            working = [threads.submit(follow, route) for route in routes]
            while not all(each.done() for each in working):
                waiting = [route.signal for route, each in zip(routes, working, strict=True) if not each.done()]
                say(f"waiting for {', '.join(waiting)}: {time.monotonic() - since:.0f} s")
                time.sleep(0.1)
            say("")
            return Result(tuple(each.result() for each in working), expected, marks.trace_id)
    finally:
        telemetry.shutdown(0.2)
