"""The gate: who passes, from which origin, for which workspace; and what a resolver's fault becomes."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from litestar import Litestar, Request, get, post
from litestar.config.csrf import CSRFConfig
from litestar.connection import ASGIConnection
from litestar.exceptions import ClientException, NotAuthorizedException, PermissionDeniedException
from litestar.middleware.session.server_side import ServerSideSessionConfig
from litestar.security.session_auth import SessionAuth
from litestar.testing import TestClient

from ingest.app import create_app, ingest_routes
from ingest.errors.route import PATH
from ingest.principal import (
    BearerTokens,
    Denied,
    FirstOf,
    Gate,
    Principal,
    Refused,
    StaticTokens,
    Unavailable,
    configured_resolver,
)
from ingest.principal.credentials import cookie
from ingest.principal.origin import origin_allowed
from ingest.settings import Settings
from telemetry.metrics.registry import REGISTRY

MINA = Principal("mina@acme.example", "acme", ("member",), ("acme", "beta"))
COOKIE = (b"cookie", b"session=mina")
BEARER = (b"authorization", b"Bearer t0ken")
OURS = "console.example"


def scope(*headers: tuple[bytes, bytes], scheme: str = "http", client: str = "192.0.2.9") -> dict[str, Any]:
    return {"type": "http", "scheme": scheme, "headers": [(b"host", OURS.encode()), *headers], "client": (client, 1)}


# --- origin


def said(site: str | None = None, origin: str | None = None) -> list[tuple[bytes, bytes]]:
    named = [(b"sec-fetch-site", site), (b"origin", origin)]
    return [(name, value.encode()) for name, value in named if value is not None]


@pytest.mark.parametrize(
    ("site", "origin", "allowed"),
    [
        ("same-origin", f"https://{OURS}", True),
        ("same-origin", None, True),
        ("same-origin", "https://behind-a-proxy.example", True),  # the proxy changed Host; the browser knows better
        ("cross-site", "https://evil.example", False),
        ("cross-site", f"https://{OURS}", False),  # http and https of one host are two sites
        ("same-site", f"https://evil.{OURS}", False),
        ("same-site", "https://app.friend.example", True),
        ("cross-site", "https://app.friend.example", True),
        ("cross-site", None, False),
        ("none", None, False),
        ("none", f"https://{OURS}", False),
        ("SAME-ORIGIN", None, False),
        ("", f"https://{OURS}", False),
        (None, f"https://{OURS}", True),
        (None, f"http://{OURS}", True),
        (None, f"https://{OURS}:443", True),
        (None, f"https://{OURS}:8443", False),
        (None, f"https://{OURS}.evil.example", False),
        (None, f"https://evil.example/{OURS}", False),
        (None, f"https://{OURS}@evil.example", False),
        (None, f"ftp://{OURS}", False),
        (None, OURS, False),
        (None, "null", False),
        (None, "", False),
        (None, "https://", False),
        (None, "https://app.friend.example", True),
        (None, "https://app.friend.example.evil.example", False),
        (None, "http://app.friend.example", False),
        (None, "https://ünicode.example", False),
        (None, None, False),
    ],
)
def test_where_a_request_with_a_cookie_may_come_from(site, origin, allowed):
    assert origin_allowed(scope(*said(site, origin)), {"https://app.friend.example"}) is allowed


def test_headers_that_are_there_twice_say_nothing():
    good = said("same-origin", f"https://{OURS}")
    assert not origin_allowed(scope(*good, (b"sec-fetch-site", b"same-origin")))
    assert not origin_allowed(scope(*good, (b"origin", f"https://{OURS}".encode())))
    assert not origin_allowed(scope(*said(None, f"https://{OURS}"), (b"host", b"other.example")))
    assert not origin_allowed({"headers": said(None, "https://")})


def test_a_page_without_tls_is_another_origin_where_we_speak_tls():
    assert not origin_allowed(scope(*said(None, f"http://{OURS}"), scheme="https"))
    assert origin_allowed(scope(*said(None, f"https://{OURS}"), scheme="https"))


def test_ports_count():
    headers = [(b"host", b"[::1]:8000"), *said(None, "http://[::1]:8000")]
    assert origin_allowed({"scheme": "http", "headers": headers})
    assert not origin_allowed({"scheme": "http", "headers": [(b"host", b"[::1]"), *said(None, "http://[::1]:8000")]})
    assert origin_allowed({"scheme": "http", "headers": [(b"host", b"X.example:80"), *said(None, "http://x.example")]})


# --- the gate


def resolver(principal: Any) -> Any:
    async def resolve(_: Any) -> Any:
        if isinstance(principal, Exception):
            raise principal
        return principal

    return resolve


async def result(gate: Gate, asked: dict[str, Any]) -> str:
    try:
        return (await gate.admit(asked)).workspace
    except Refused as refused:
        assert refused.answer.status == {"unauthorized": 401, "unavailable": 503}.get(refused.result, 403)
        return refused.result


@pytest.mark.parametrize(
    ("ambient", "headers", "outcome"),
    [
        (True, [BEARER], "forbidden_origin"),
        (False, [COOKIE], "acme"),
        (None, [COOKIE], "forbidden_origin"),
        (None, [], "forbidden_origin"),  # a client certificate, an address: whatever the host went by
        (None, [(b"authorization", b"Basic dTpw")], "forbidden_origin"),  # browsers remember these
        (None, [BEARER], "acme"),
        (None, [COOKIE, *said("same-origin")], "acme"),
        (True, said("same-origin"), "acme"),
        (True, said("cross-site", "https://evil.example"), "forbidden_origin"),
    ],
)
async def test_what_a_browser_attaches_by_itself_needs_an_origin(ambient, headers, outcome):
    mina = Principal("mina@acme.example", "acme", ambient=ambient)
    assert await result(Gate(resolver(mina)), scope(*headers)) == outcome


@pytest.mark.parametrize(
    ("workspaces", "named", "outcome"),
    [
        (("acme", "beta"), [b"beta"], "beta"),
        (("acme", "beta"), [b" beta "], "beta"),
        (("acme", "beta"), [b"acme"], "acme"),
        (("acme", "beta"), [], "acme"),
        (("acme", "beta"), [b""], "acme"),
        (("acme", "beta"), [b"gamma"], "forbidden"),
        (("acme", "beta"), [b"BETA"], "forbidden"),
        (("acme", "beta"), [b"beta", b"beta"], "forbidden"),
        (("acme", "beta"), [b"beta", b""], "forbidden"),
        (("acme", "beta"), [b"\xff"], "forbidden"),
        (("acme", "\ufffd"), [b"\xff"], "forbidden"),
        (("beta",), [b"acme"], "acme"),
        (None, [b"acme"], "acme"),
        (None, [b"beta"], "forbidden"),
        ((), [b"beta"], "forbidden"),
        (("운영",), ["운영".encode()], "운영"),
    ],
)
async def test_the_workspace_is_the_callers_own_or_one_it_is_entitled_to(workspaces, named, outcome):
    mina = Principal("mina@acme.example", "acme", (), workspaces, False)
    asked = scope(*((b"x-workspace", value) for value in named))
    assert await result(Gate(resolver(mina)), asked) == outcome
    renamed = scope(*((b"x-tenant", value) for value in named))
    assert await result(Gate(resolver(mina), workspace_header="X-Tenant"), renamed) == outcome
    assert await result(Gate(resolver(mina), workspace_header="X-Tenant"), asked) == "acme"


async def test_nobody_and_denied_are_401():
    assert await result(Gate(resolver(None)), scope()) == "unauthorized"
    assert await result(Gate(resolver(Denied("twice"))), scope()) == "unauthorized"
    assert await result(Gate(resolver(NotAuthorizedException())), scope()) == "unauthorized"
    assert await result(Gate(resolver(PermissionDeniedException())), scope()) == "unauthorized"


@pytest.mark.parametrize(
    "fault",
    [RuntimeError("the database is gone"), Unavailable("no keys"), {"email": "x"}, TimeoutError(), ClientException()],
)
async def test_a_resolver_that_fails_is_503_and_said_once(fault, caplog):
    gate = Gate(resolver(fault))
    for _ in range(3):
        assert await result(gate, scope()) == "unavailable"
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert bool(record.exc_info) == (not isinstance(fault, Unavailable))


@pytest.mark.parametrize("fields", [{"email": None}, {"email": 7}, {"email": "a@b.c", "workspace": None}])
def test_a_principal_is_made_of_text(fields):
    with pytest.raises(TypeError, match="email and workspace of a principal are text"):
        Principal(**fields)


# --- several at once


TOKENS = StaticTokens({"t0ken": Principal("token@acme.example", "acme")})


async def test_the_first_that_knows_the_caller_wins():
    both = FirstOf(resolver(None), TOKENS, resolver(MINA))
    assert (await both(scope(BEARER))).email == "token@acme.example"
    assert (await both(scope())).email == "mina@acme.example"
    assert await FirstOf(resolver(None), TOKENS)(scope()) is None
    assert await FirstOf()(scope(BEARER)) is None


async def test_a_wrong_token_does_not_fall_back_to_a_cookie():
    several = FirstOf(BearerTokens(TOKENS), resolver(MINA))
    assert (await several(scope(BEARER, COOKIE))).email == "token@acme.example"
    assert (await several(scope(COOKIE))).email == "mina@acme.example"
    for headers in ([(b"authorization", b"Bearer wrong")], [BEARER, BEARER], [BEARER, (b"authorization", b"Basic x")]):
        with pytest.raises(Denied):
            await several(scope(COOKIE, *headers))


async def test_the_settings_say_who_may_speak():
    settings = Settings(
        tokens={"t0ken": Principal("token@acme.example", "acme", (), ("acme", "beta"))},
        trusted_proxies=("10.0.0.0/8",),
        proxy_workspace_header="X-Own",
    )
    gate = Gate(configured_resolver(settings), workspace_header=settings.workspace_header)
    email = (b"x-forwarded-email", b"mina@acme.example")
    assert await result(gate, scope(BEARER, email, (b"x-workspace", b"beta"), client="10.1.1.1")) == "beta"
    assert await result(gate, scope(email, (b"x-own", b"gamma"), *said("same-origin"), client="10.1.1.1")) == "gamma"
    assert await result(gate, scope(email, client="10.1.1.1")) == "forbidden_origin"
    assert await result(gate, scope(email, *said("same-origin"), client="11.1.1.1")) == "unauthorized"
    assert await result(gate, scope(email, email, *said("same-origin"), client="10.1.1.1")) == "unauthorized"
    only_proxies = Gate(configured_resolver(Settings(trusted_proxies=("10.0.0.0/8",))))
    foreign = (b"authorization", b"Bearer for-somebody-else")
    assert await result(only_proxies, scope(email, foreign, *said("same-origin"), client="10.1.1.1")) == ""


def test_a_cookie_that_a_neighbour_planted_beside_ours_is_denied():
    with pytest.raises(Denied):
        cookie(scope((b"cookie", b"session=mine; session=theirs")), b"session")
    with pytest.raises(Denied):
        cookie(scope((b"cookie", b"session=mine"), (b"cookie", b"session=theirs")), b"session")


NAMES = [
    b"authorization", b"cookie", b"x-forwarded-email", b"x-forwarded-groups", b"x-workspace", b"origin",
    b"sec-fetch-site", b"host",
]  # fmt: skip
VALUES = st.binary(max_size=40) | st.sampled_from(
    [
        b"Bearer ",
        b"Bearer t0ken",
        b"Bearer a.b.c",
        b"session=a.b.c",
        b"session=;session=",
        b"a@b.c",
        b"same-origin",
        b"null",
    ]
)


@given(headers=st.lists(st.tuples(st.sampled_from(NAMES), VALUES), max_size=6), peer=st.sampled_from(["10.1.1.1", "x"]))
async def test_no_headers_whatsoever_are_a_fault(headers, peer):
    gate = Gate(
        configured_resolver(
            Settings(
                tokens={"t0ken": MINA},
                oidc_issuer="http://127.0.0.1:9",  # nobody listens: only what can't be good may be asked here
                oidc_audience=("console",),
                oidc_cookie="session",
                trusted_proxies=("10.0.0.0/8",),
                proxy_roles_header="X-Forwarded-Groups",
            )
        )
    )
    outcome = await result(gate, {"type": "http", "scheme": "http", "headers": headers, "client": (peer, 1)})
    assert outcome != "unavailable"


# --- the routes


def counted(name: str) -> float:
    return REGISTRY.get_sample_value("frontend_reports_total", {"result": name}) or 0.0


@pytest.mark.parametrize(
    ("principal", "headers", "status", "name"),
    [
        (MINA, {"Sec-Fetch-Site": "same-origin"}, 204, "accepted"),
        (MINA, {"Sec-Fetch-Site": "cross-site", "Content-Type": "text/plain"}, 403, "forbidden_origin"),
        (MINA, {"Origin": "https://friend.example", "Content-Type": "text/plain"}, 204, "accepted"),
        (MINA, {}, 403, "forbidden_origin"),
        (MINA, {"Sec-Fetch-Site": "same-origin", "X-Workspace": "gamma"}, 403, "forbidden"),
        (RuntimeError("down"), {}, 503, "unavailable"),
        (None, {}, 401, "unauthorized"),
    ],
)
def test_a_route_answers_in_one_sentence_and_counts(principal, headers, status, name, caplog):
    app = create_app(Settings(allowed_origins=("https://friend.example",)), resolver=resolver(principal))
    before = counted(name)
    with TestClient(app) as client:
        answer = client.post(PATH, content=b'{"message":"m"}', headers=headers)
    assert answer.status_code == status
    assert counted(name) == before + 1
    if status != 204:
        assert answer.headers["content-type"] == "application/problem+json"
        assert json.loads(answer.content)["detail"].endswith(".")
    lines = [record for record in caplog.records if record.name == "frontend"]
    assert len(lines) == (status == 204)


def test_the_private_metrics_ask_the_same_resolver():
    def asked(principal: Any, **headers: str) -> int:
        app = create_app(Settings(metrics_public=False), resolver=resolver(principal))
        with TestClient(app) as client:
            return client.get("/metrics", headers=headers).status_code

    assert asked(None) == 401
    assert asked(RuntimeError("down")) == 503
    assert asked(MINA) == 403
    assert asked(Principal("ops@acme.example", roles=("super_admin",))) == 503  # let in; no telemetry runs here


def test_pages_of_other_origins_may_send_the_workspace_header_by_its_name():
    origin = "https://friend.example"
    app = create_app(Settings(allowed_origins=(origin,), workspace_header="X-Tenant"), resolver=resolver(MINA))
    with TestClient(app) as client:
        answer = client.options(PATH, headers={"Origin": origin, "Access-Control-Request-Method": "POST"})
    assert "x-tenant" in answer.headers["access-control-allow-headers"].split(", ")


# --- mounted into a host with sign-in of its own


def host_app() -> Litestar:
    """A host with server-side sessions and CSRF tokens; anybody signs in with an email."""
    users = {"mina@acme.example": MINA}

    async def user_of(session: dict[str, Any], _: ASGIConnection[Any, Any, Any, Any]) -> Principal | None:
        return users.get(session.get("email", ""))

    auth = SessionAuth[Principal, Any](
        retrieve_user_handler=user_of, session_backend_config=ServerSideSessionConfig(), exclude=["/login"]
    )

    @post("/login")
    async def login(request: Request[Any, Any, Any]) -> None:
        request.set_session(await request.json())

    @post("/login/jobs")
    async def jobs() -> None: ...

    @get("/login/form")
    async def form() -> str:
        return ""

    async def signed_in(scope: Any) -> Principal | None:
        user: Principal | None = scope.get("user")
        return user

    return Litestar(
        route_handlers=[login, jobs, form, *ingest_routes(Settings(), resolver=signed_in)],
        on_app_init=[auth.on_app_init],
        csrf_config=CSRFConfig(secret="s" * 32, cookie_secure=False),
        logging_config=None,
    )


def test_a_hosts_sessions_say_who_is_speaking(caplog):
    with TestClient(host_app()) as client:
        here = {"Sec-Fetch-Site": "same-origin"}
        assert client.post(PATH, content=b"{}", headers=here).status_code == 401
        client.get("/login/form")
        token = {"x-csrftoken": client.cookies["csrftoken"]}
        assert client.post("/login", json={"email": "mina@acme.example"}, headers=token).status_code == 201
        assert client.post("/login/jobs").status_code == 403  # the host wants its own token, a beacon has none
        beacon = {"Content-Type": "text/plain;charset=UTF-8"}
        assert client.post(PATH, content=b"{}", headers={**here, **beacon, "X-Workspace": "beta"}).status_code == 204
        evil = {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}
        assert client.post(PATH, content=b"{}", headers={**evil, **beacon}).status_code == 403
        assert client.post(PATH, content=b"{}", headers={**here, "X-Workspace": "gamma"}).status_code == 403
    (record,) = [record for record in caplog.records if record.name == "frontend"]
    assert ' email="mina@acme.example" workspace="beta" ' in record.ready_line.line
