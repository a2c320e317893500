"""CORS: exact origins, preflights without credentials, and headers on errors as well."""

from __future__ import annotations

import pytest
from litestar.testing import TestClient

from ingest.app import create_app
from ingest.cors import ALLOWED_HEADERS
from ingest.errors.route import MAX_BODY_BYTES, PATH
from ingest.principal import Principal
from ingest.routes.browser import PATHS
from ingest.settings import Settings

CONSOLE = "https://console.example"
SETTINGS = Settings(tokens={"t0ken": Principal("mina@acme.example", "acme")}, allowed_origins=(CONSOLE,))
BEARER = {"authorization": "Bearer t0ken"}


@pytest.fixture(scope="module")
def client():
    with TestClient(create_app(SETTINGS)) as client:
        yield client


def preflight(client: TestClient, origin: str, path: str = PATH, **headers: str):
    return client.options(path, headers={"origin": origin, "access-control-request-method": "POST", **headers})


def test_a_preflight_allows_what_a_page_may_need_without_credentials(client):
    answer = preflight(client, CONSOLE, **{"access-control-request-headers": "authorization,traceparent"})
    assert (answer.status_code, answer.content) == (204, b"")
    assert answer.headers["access-control-allow-origin"] == CONSOLE
    assert answer.headers["access-control-allow-credentials"] == "true"
    assert answer.headers["access-control-allow-methods"] == "GET, POST"
    allowed = set(answer.headers["access-control-allow-headers"].split(", "))
    assert allowed == set(ALLOWED_HEADERS)
    assert {
        "content-type",
        "authorization",
        "traceparent",
        "tracestate",
        "baggage",
        "x-workspace",
        "idempotency-key",
    } <= allowed
    assert "origin" in answer.headers["vary"]


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "https://console.example.evil.example",
        "https://xconsole.example",
        "http://console.example",
        "https://console.example:8443",
        "HTTPS://CONSOLE.EXAMPLE",
        "null",
    ],
)
def test_other_origins_are_told_nothing(client, origin):
    refused = preflight(client, origin)
    assert refused.status_code == 403
    plain = client.get("/api/config", headers={"origin": origin})
    for answer in (refused, plain):
        assert "access-control-allow-origin" not in answer.headers
        assert "origin" in answer.headers["vary"]


@pytest.mark.parametrize(
    ("status", "path", "body", "headers"),
    [
        (204, PATH, b'{"kind":"error"}', BEARER),
        (400, PATH, b'{"a":1,}', BEARER),
        (401, PATH, b"{}", {}),
        (413, PATH, b"x" * (MAX_BODY_BYTES + 1), BEARER),
        (415, PATH, b"{}", {**BEARER, "content-encoding": "gzip"}),
        (404, "/nowhere", b"", {}),
        (405, "/api/config", b"", {}),
    ],
)
def test_answers_of_every_status_can_be_read_by_the_page(client, status, path, body, headers):
    """https://github.com/litestar-org/litestar/issues/103: the headers were missing on errors."""
    answer = client.post(path, content=body, headers={"origin": CONSOLE, **headers})
    assert answer.status_code == status
    assert answer.headers["access-control-allow-origin"] == CONSOLE
    assert answer.headers["access-control-allow-credentials"] == "true"
    assert answer.headers["access-control-expose-headers"] == "retry-after"
    assert answer.headers.get_list("vary") == ["origin"]


def test_a_429_says_when_to_come_back_and_the_page_can_read_it(client):
    headers = {"origin": CONSOLE, **BEARER}
    for number in range(60):
        answer = client.post(PATH, json={"kind": "error", "message": f"number {number}"}, headers=headers)
        if answer.status_code == 429:
            break
    assert answer.status_code == 429
    assert int(answer.headers["retry-after"]) >= 1
    assert answer.headers["access-control-allow-origin"] == CONSOLE


def test_the_modules_stay_open_to_everybody_and_cacheable_as_one(client):
    answer = client.get(PATHS[0], headers={"origin": CONSOLE})
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers["vary"] == "accept-encoding"


def test_a_request_without_an_origin_varies_by_it_too(client):
    answer = client.get("/api/config")
    assert answer.headers["vary"] == "origin"
    assert "access-control-allow-origin" not in answer.headers


def test_two_origin_headers_are_none(client):
    answer = client.get("/api/config", headers=[("origin", CONSOLE), ("origin", "https://evil.example")])
    assert "access-control-allow-origin" not in answer.headers


def test_nothing_is_allowed_by_default():
    with TestClient(create_app(Settings())) as client:
        answer = client.get("/api/config", headers={"origin": CONSOLE})
        assert preflight(client, CONSOLE).status_code == 405
    assert not [name for name in answer.headers if name.startswith("access-control-")]
