"""Route templates, never raw paths: what each router leaves in the scope, and what a stranger can do to labels."""

from __future__ import annotations

import random
import string
from types import SimpleNamespace

import pytest
from litestar import Litestar, Router, asgi, get, post
from litestar import websocket as websocket_handler
from litestar.connection import WebSocket
from litestar.params import FromPath
from litestar.static_files import create_static_files_router
from litestar.types import Receive, Scope, Send
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Host, Mount, Route
from starlette.staticfiles import StaticFiles

from telemetry.web import TelemetryMiddleware, TelemetryPlugin, methods
from tests.asgi_driver import request, watching, websocket


async def text(_request):
    return PlainTextResponse("ok")


INNER = Starlette(routes=[Route("/items/{item}", text), Mount("/m/{tenant}", routes=[Route("/x/{y:int}", text)])])


@get("/users/{user_id:int}")
async def user(user_id: FromPath[int]) -> dict[str, int]:
    return {"id": user_id}


@post("/users")
async def create_user() -> None:
    return


@get("/")
async def index() -> str:
    return ""


@asgi("/shop", is_mount=True, copy_scope=False)
async def shop(scope: Scope, receive: Receive, send: Send) -> None:
    scope["path"] = scope["path"].rstrip("/")
    await INNER(scope, receive, send)


@asgi("/opaque", is_mount=True, copy_scope=True)
async def opaque(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse("ok")(scope, receive, send)


@asgi(["/one", "/other"], is_mount=True, copy_scope=False)
async def twice(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse("ok")(scope, receive, send)


@websocket_handler("/ws/{room:str}")
async def room(socket: WebSocket, room: FromPath[str]) -> None:
    await socket.accept()
    await socket.close()


def litestar(static: str) -> Litestar:
    handlers = [user, create_user, index, room, twice, Router("/v1", route_handlers=[shop, opaque, user])]
    return Litestar([*handlers, create_static_files_router("/static", [static])], plugins=[TelemetryPlugin()])


CASES = [
    ("GET", "/users/7", "/users/{user_id}"),
    ("OPTIONS", "/users/7", "/users/{user_id}"),
    ("GET", "/v1/users/7", "/v1/users/{user_id}"),
    ("GET", "/users/seven", "unmatched"),
    ("GET", "/nope", "unmatched"),
    ("DELETE", "/users/7", "unmatched"),
    ("HEAD", "/users/7", "unmatched"),
    ("POST", "/users", "/users"),
    ("GET", "/", "/"),
    ("GET", "/v1/shop/items/blue", "/v1/shop/items/{item}"),
    ("GET", "/v1/shop/m/acme/x/4", "/v1/shop/m/{tenant}/x/{y}"),
    ("GET", "/v1/opaque/a/b/c", "/v1/opaque/{path}"),
    ("GET", "/one/zzz", "/one/{path}"),
    ("GET", "/other/zzz", "/other/{path}"),
    ("GET", "/static/a.txt", "/static/{file_path}"),
    ("GET", "/static/none.txt", "/static/{file_path}"),
]


@pytest.mark.parametrize(("method", "path", "route"), CASES)
async def test_litestar(tmp_path, method, path, route):
    (tmp_path / "a.txt").write_text("a")
    app = litestar(str(tmp_path))
    with watching() as seen:
        await request(TelemetryMiddleware(app), method, path)
        assert (seen.lines[0].route, len(seen.spans), len(seen.lines)) == (route, 1, 1)
        assert seen.spans[0].name == (method if route == "unmatched" else f"{method} {route}")
        assert ("http.route" in seen.spans[0].attributes) == (route != "unmatched")


async def test_litestar_websocket(tmp_path):
    with watching() as seen:
        await websocket(TelemetryMiddleware(litestar(str(tmp_path))), "/ws/kitchen", [])
        assert seen.spans[0].name == "GET /ws/{room}"


LITE = Litestar([user], logging_config=None, openapi_config=None)
STARLETTE = Starlette(
    routes=[
        Route("/", text),
        Route("/users/{user_id:int}", text, methods=["GET"]),
        Mount("/a/{tenant}", routes=[Route("/b/{id}", text), Mount("/c", routes=[Route("/d/{tenant2}", text)])]),
        Mount("/lite/{region}", app=LITE),
        Mount("/files", app=StaticFiles(directory="tests")),
        Host("admin.shop.test", app=Starlette(routes=[Route("/panel/{n}", text)])),
    ]
)


@pytest.mark.parametrize("root_path", ["", "/proxy"])
@pytest.mark.parametrize(
    ("method", "path", "route", "status"),
    [
        ("GET", "/", "/", 200),
        ("GET", "/users/7", "/users/{user_id}", 200),
        ("DELETE", "/users/7", "/users/{user_id}", 405),
        ("GET", "/users/7/", "unmatched", 307),
        ("GET", "/users/x", "unmatched", 404),
        ("GET", "/a/acme/b/7", "/a/{tenant}/b/{id}", 200),
        ("GET", "/a/acme/c/d/7", "/a/{tenant}/c/d/{tenant2}", 200),
        ("GET", "/a/acme/zzz", "/a/{tenant}/{path}", 404),
        ("GET", "/lite/eu/users/7", "/lite/{region}/users/{user_id}", None),
        ("GET", "/files/conftest.py", "/files/{path}", 200),
        ("GET", "/files/none.txt", "/files/{path}", 404),
    ],
)
async def test_starlette(method, path, route, status, root_path):
    with watching() as seen:
        answer = await request(TelemetryMiddleware(STARLETTE), method, root_path + path, root_path=root_path)
        if status is not None:
            assert answer.status == status
            assert seen.lines[0].route == route
        elif not root_path:  # Litestar 2.25 can't be mounted below a Starlette that has a root path of its own
            assert (answer.status, seen.lines[0].route) == (200, route)


async def test_starlette_routes_below_a_host():
    with watching() as seen:
        await request(TelemetryMiddleware(STARLETTE), "GET", "/panel/3", headers=[("host", "admin.shop.test")])
        assert seen.lines[0].route == "/panel/{n}"


async def test_as_starlettes_own_middleware():
    from starlette.middleware import Middleware

    app = Starlette(routes=[Route("/users/{user_id:int}", text)], middleware=[Middleware(TelemetryMiddleware)])
    with watching() as seen:
        await request(app, "GET", "/users/7")
        await request(app, "GET", "/nope")
        assert [line.route for line in seen.lines] == ["/users/{user_id}", "unmatched"]


async def test_a_router_that_fastapi_includes_keeps_its_prefix_beside_the_route():
    """What FastAPI 0.165 leaves in the scope: the route as it was declared, and what the inclusion made of it."""
    route = Route("/things/{thing}", text)

    async def app(scope, receive, send):
        included = SimpleNamespace(original_route=route, path_format="/v1/things/{thing}")
        scope["route"] = route
        scope["fastapi"] = {"effective_route_context": included}
        await PlainTextResponse("ok")(scope, receive, send)

    with watching() as seen:
        await request(TelemetryMiddleware(app), "GET", "/v1/things/7")
        assert seen.routes() == {"/v1/things/{thing}"}


@pytest.mark.parametrize("path", ["/", "/metrics"])
async def test_fastapis_own_instrumentation_stays_off(path):
    """FastAPI 0.165 looks for this key, and traces and measures each request itself where it is absent."""

    async def app(scope, receive, send):
        assert scope["fastapi.telemetry"] is None
        await PlainTextResponse("ok")(scope, receive, send)

    with watching():
        assert (await request(TelemetryMiddleware(app), "GET", path)).error is None


async def test_an_application_without_a_router_is_unmatched():
    with watching() as seen:
        await request(TelemetryMiddleware(PlainTextResponse("ok")), "GET", "/whatever/7")
        assert seen.routes() == {"unmatched"}


@pytest.mark.expects_fault("web.route")
async def test_a_route_function_that_raises_or_knows_nothing():
    def broken(scope):
        raise KeyError("route")

    with watching() as seen:
        await request(TelemetryMiddleware(STARLETTE, route=broken), "GET", "/users/7")
        await request(TelemetryMiddleware(STARLETTE, route=lambda scope: None), "GET", "/users/7")
        assert [line.route for line in seen.lines] == ["/users/{user_id}"] * 2


@pytest.mark.parametrize("app", [LITE, STARLETTE], ids=["litestar", "starlette"])
async def test_a_thousand_random_paths_and_methods_make_one_series_for_each_known_method(app):
    """litestar 4891, litellm 35666: raw paths as labels fill a Prometheus server."""
    chance = random.Random(7)
    words = [*methods.KNOWN, "get", "BREW", "PROPFIND", "X" * 300, "\u00e9"]
    with watching() as seen:
        wrapped = TelemetryMiddleware(app)
        for _ in range(1000):
            path = "/x" + "".join(chance.choices(string.ascii_letters + "/%?=", k=20)) + "z"
            await request(wrapped, chance.choice(words), path)
        assert seen.requests() == 1000
        assert seen.routes() == {"unmatched"}
        assert {line.method for line in seen.lines} <= methods.KNOWN | {"_OTHER"}
        assert len({(line.method, line.status) for line in seen.lines}) <= 2 * (len(methods.KNOWN) + 1)


async def test_an_unknown_method_is_other_and_kept_on_the_span():
    with watching() as seen:
        await request(TelemetryMiddleware(STARLETTE), "BREW", "/users/7")
        (span,) = seen.spans
        assert span.attributes["http.request.method"] == "_OTHER"
        assert span.attributes["http.request.method_original"] == "BREW"
        assert span.name == "HTTP /users/{user_id}"
        assert seen.requests(http_request_method="_OTHER") == 1


async def test_a_route_function_that_returns_paths_is_stopped_by_the_guard():
    with watching(metrics_label_values=50) as seen:
        app = TelemetryMiddleware(PlainTextResponse("ok"), route=lambda scope: scope["path"])
        for number in range(300):
            await request(app, "GET", f"/raw/{number}")
        assert seen.requests() == 300
        assert seen.requests(http_route="__other__") >= 200
