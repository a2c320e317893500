"""The errors route is answered before the application's router; all other requests go where they went."""

from __future__ import annotations

import itertools

import pytest
from litestar import Litestar, get
from litestar.datastructures import MutableScopeHeaders

from ingest.app import create_app, ingest_routes
from ingest.errors.route import PATH
from ingest.first import answer_first
from ingest.principal import Principal
from ingest.settings import Settings
from tests.asgi_driver import request, watching

SETTINGS = Settings(tokens={"t0ken": Principal("mina@acme.example", "acme")})
BEARER = [("authorization", "Bearer t0ken")]
REPORT = b'{"kind":"error","message":"x is undefined"}'


class Counting:
    """A middleware of the application's own."""

    passed = 0

    def __init__(self, app) -> None:
        self.app = app

    async def __call__(self, scope, receive, send) -> None:
        type(self).passed += 1
        await self.app(scope, receive, send)


class Session:
    """A middleware that sets a cookie of its own with each answer, as Litestar's session middleware does."""

    numbers = itertools.count()

    def __init__(self, app) -> None:
        self.app = app

    async def __call__(self, scope, receive, send) -> None:
        async def marked(message) -> None:
            if message["type"] == "http.response.start":
                MutableScopeHeaders.from_message(message).add("set-cookie", f"session={next(self.numbers)}")
            await send(message)

        await self.app(scope, receive, marked)


@get("/")
async def index() -> str:
    return "hello"


@pytest.fixture
def app():
    Counting.passed = 0
    return Litestar([index, *ingest_routes(SETTINGS)], middleware=[Counting], logging_config=None)


async def test_only_the_errors_route_passes_by_the_application(app):
    assert (await request(app, "POST", PATH, body=REPORT, headers=BEARER)).status == 204
    assert Counting.passed == 1
    answer_first(app, PATH)
    assert (await request(app, "POST", PATH, body=REPORT, headers=BEARER)).status == 204
    assert (await request(app, "POST", PATH, body=REPORT)).status == 401
    assert (await request(app, "GET", PATH)).status == 405
    assert Counting.passed == 1
    for path, method, status in (("/", "GET", 200), (PATH + "/", "GET", 405), ("/api/config", "GET", 200)):
        assert (await request(app, method, path)).status == status
    assert Counting.passed == 4
    assert (await request(app, "GET", "/nowhere")).status == 404


async def test_request_telemetry_names_the_route_as_before():
    with watching(access_log=True) as seen:
        from telemetry.web.asgi import TelemetryMiddleware

        app = TelemetryMiddleware(create_app(SETTINGS))
        assert (await request(app, "POST", PATH, body=REPORT, headers=BEARER)).status == 204
        [span] = seen.spans
        assert (span.name, span.attributes["http.route"]) == (f"POST {PATH}", PATH)


@pytest.mark.parametrize("path", [PATH, "/api/telemetry/faro"])
@pytest.mark.parametrize("headers", [BEARER, []])
async def test_what_a_hosts_middleware_adds_to_an_answer_stays_out_of_the_next(path, headers):
    """A session's cookie that one caller was sent, sent to all others after it."""
    app = Litestar(ingest_routes(SETTINGS), middleware=[Session], logging_config=None)
    answers = [await request(app, "POST", path, body=REPORT, headers=headers) for _ in range(3)]
    cookies = [[value for name, value in answer.messages[0]["headers"] if name == b"set-cookie"] for answer in answers]
    assert [len(each) for each in cookies] == [1, 1, 1]
    assert len({each[0] for each in cookies}) == 3


def test_an_application_without_the_route_is_told():
    with pytest.raises(LookupError, match=PATH):
        answer_first(Litestar([index], logging_config=None), PATH)
