"""Readiness: who is asked, for how long, and what strangers may read of the answer."""

from __future__ import annotations

import asyncio
import functools
import threading
import time

import msgspec
import pytest

from telemetry.web import HealthEndpoint, MetricsEndpoint, Readiness, ReadinessEndpoint
from tests.asgi_driver import request, watching


async def well():
    return


def check(report, name):
    return next(c for c in report.checks if c.name == name)


async def test_nobody_to_ask_is_ready():
    report = await Readiness().report()
    assert (report.ready, report.reason, report.checks) == (True, "ready", ())


async def test_plain_and_async_pings_and_what_counts_as_failing():
    def plain():
        return "PONG"

    async def says_no():
        return False

    def raises():
        raise ConnectionError("postgresql://app:secret@db.internal refused")

    pings = {
        "async": well,
        "plain": plain,
        "no": says_no,
        "raises": raises,
        "partial": functools.partial(well),
        "lambda": lambda: asyncio.sleep(0),
    }
    report = await Readiness(pings).report()
    assert {c.name: (c.ok, c.error) for c in report.checks} == {
        "async": (True, None),
        "plain": (True, None),
        "no": (False, "false"),
        "raises": (False, "ConnectionError"),
        "partial": (True, None),
        "lambda": (True, None),
    }
    assert (report.ready, report.reason) == (False, "failing")
    assert b"secret" not in msgspec.json.encode(report)


async def test_all_are_asked_at_once_and_none_longer_than_its_budget():
    async def slow():
        await asyncio.sleep(60)

    readiness = Readiness({f"p{n}": slow for n in range(10)}, budget=1.0)
    readiness.register("well", well)
    start = time.monotonic()
    report = await readiness.report()
    assert time.monotonic() - start < 6.0
    assert check(report, "p0").error == "timeout"
    assert check(report, "well").ok


async def test_a_ping_that_raises_timeouterror_itself_is_named_so():
    async def driver_gave_up():
        raise TimeoutError("pool")

    report = await Readiness({"db": driver_gave_up}).report()
    assert check(report, "db").error == "TimeoutError"


async def test_a_ping_that_hangs_is_not_started_again_until_it_returns():
    released, started = threading.Event(), []

    def hangs():
        started.append(1)
        released.wait(30)

    readiness = Readiness({"db": hangs}, budget=0.05)
    for _ in range(5):
        assert check(await readiness.report(), "db").error == "timeout"
    assert len(started) == 1
    released.set()
    deadline = time.monotonic() + 30
    while len(started) == 1 or not (await readiness.report()).ready:
        assert time.monotonic() < deadline, "never asked again, or never ready"
        await readiness.report()
        await asyncio.sleep(0.02)


async def test_two_probes_at_once_share_one_answer():
    started = []

    async def counted():
        started.append(1)
        await asyncio.sleep(0.02)

    readiness = Readiness({"db": counted})
    reports = await asyncio.gather(*(readiness.report() for _ in range(10)))
    assert all(r.ready for r in reports)
    assert len(started) == 1


async def test_draining_fails_first_and_asks_nobody():
    asked = []

    async def ping():
        asked.append(1)

    readiness = Readiness({"db": ping})
    readiness.drain()
    report = await readiness.report()
    assert (report.ready, report.reason, asked) == (False, "draining", [])


async def test_a_failure_is_logged_when_it_begins_and_when_it_ends(caplog):
    state = {"error": None}

    async def database():
        if state["error"]:
            raise state["error"]

    caplog.set_level("INFO", "telemetry.web.health")
    readiness = Readiness({"db": database})
    for error in (None, OSError("refused"), OSError("refused"), None, None):
        state["error"] = error
        await readiness.report()
    assert [r.getMessage() for r in caplog.records] == [
        "dependency db is failing: OSError: refused",
        "dependency db is well again",
    ]


def test_a_readiness_outlives_its_event_loop():
    readiness = Readiness({"db": well, "plain": lambda: None})
    for _ in range(2):
        assert asyncio.run(readiness.report()).ready


async def test_a_telemetry_backend_that_is_down_is_shown_and_does_not_count(telemetry_receiver):
    from telemetry.testing import Status

    telemetry_receiver.behave(Status(400))
    with watching(otlp_endpoint=telemetry_receiver.url) as seen:
        import telemetry

        with telemetry.span("lost"):
            pass
        seen.telemetry.flush(2)
        endpoint = ReadinessEndpoint(Readiness(telemetry=lambda: seen.telemetry))
        assert (await request(endpoint, "GET", "/readyz")).body == b"ready\n"
        shown = msgspec.json.decode((await request(endpoint, "GET", "/readyz?verbose=1")).body)
        assert shown["ready"] is True
        (row,) = [row for row in shown["telemetry"] if row["signal"] == "traces"]
        assert (row["emitted"], row["delivered"], row["dropped"]) == (1, 0, {"rejected": 1})


@pytest.mark.parametrize(("query", "is_json"), [("", False), ("?verbose", True), ("?verbose=0", False), ("?v", False)])
async def test_verbose_on_request_only(query, is_json):
    answer = await request(ReadinessEndpoint(Readiness()), "GET", "/readyz" + query)
    assert (answer.header("content-type") == "application/json") == is_json
    assert answer.header("cache-control") == "no-store"


async def test_liveness_answers_also_while_everything_else_fails():
    assert (await request(HealthEndpoint(), "GET", "/healthz")).body == b"ok\n"


async def test_metrics_before_setup_are_unavailable_and_after_it_negotiated():
    assert (await request(MetricsEndpoint())).status == 503
    with watching():
        plain = await request(MetricsEndpoint())
        assert (plain.status, plain.header("content-type").partition(";")[0]) == (200, "text/plain")
        accept = [("accept", "application/openmetrics-text; version=1.0.0"), ("accept", "text/plain;q=0.5")]
        assert (
            (await request(MetricsEndpoint(), headers=accept))
            .header("content-type")
            .startswith("application/openmetrics-text")
        )


async def test_endpoints_are_routes_for_starlette():
    from starlette.applications import Starlette
    from starlette.routing import Route

    app = Starlette(routes=[Route("/metrics", MetricsEndpoint()), Route("/healthz", HealthEndpoint())])
    with watching():
        assert (await request(app, "GET", "/metrics")).status == 200
        assert (await request(app, "GET", "/healthz")).body == b"ok\n"
