"""``fleetglass serve`` as a process: tokens of a real issuer, and proxies told apart by their real sockets."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from ingest.errors.route import PATH
from telemetry.testing import Receiver
from tests.integration.test_ingest import serving
from tests.loki_grammar import logfmt
from tests.token_issuer import AUDIENCE, KEYS, Issuer, Key, reply

KEY, FOREIGN_KEY = Key("EdDSA", "one"), Key("EdDSA", "two")
PROXY, STRANGER = "127.0.0.2", "127.0.0.3"
EMAIL = {"X-Forwarded-Email": "proxied@acme.example"}
HERE = {"Sec-Fetch-Site": "same-origin"}


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with Issuer(KEY) as issuer:
        yield issuer


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, receiver: Receiver, issuer: Issuer) -> Iterator[str]:
    environ = {
        "FLEETGLASS_OIDC_ISSUER": issuer.url,
        "FLEETGLASS_OIDC_AUDIENCE": AUDIENCE,
        "FLEETGLASS_OIDC_COOKIE": "session",
        "FLEETGLASS_TRUSTED_PROXIES": f"{PROXY}/32",
        "FLEETGLASS_PROXY_WORKSPACE_HEADER": "X-Forwarded-Workspace",
        "FLEETGLASS_ALLOWED_ORIGINS": "https://console.example",
        "FLEETGLASS_METRICS_PUBLIC": "false",
    }
    with serving(tmp_path_factory.mktemp("principals"), receiver, **environ) as (_, address):
        yield address


def ask(
    address: str,
    headers: Mapping[str, Any],
    peer: str = STRANGER,
    *,
    method: str = "POST",
    path: str = PATH,
    body: str = "{}",
) -> int:
    """The status for one request over a connection from ``peer``; a header with a list of values is sent so often."""
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=30, source_address=(peer, 0))
    try:
        connection.putrequest(method, path)
        for name, value in headers.items():
            for one in value if isinstance(value, list) else [value]:
                connection.putheader(name, one)
        connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body.encode())
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()


def bearer(token: bytes) -> dict[str, str]:
    return {"Authorization": f"Bearer {token.decode()}"}


def lines_with(receiver: Receiver, words: str) -> list[str]:
    """The lines that hold ``words``, once there is one."""
    receiver.wait_for(lambda receiver: any(words in line.line for line in receiver.lines))
    return [line.line for line in receiver.lines if words in line.line]


def test_a_token_of_the_issuer_is_a_line(service, receiver, issuer):
    token = issuer.token(workspaces=["acme", "beta"])
    body = json.dumps({"message": "by token"})
    assert ask(service, {**bearer(token), "X-Workspace": "beta"}, body=body) == 204
    (line,) = lines_with(receiver, 'message="by token"')
    fields = logfmt(line, strict=True)
    assert (fields["email"], fields["workspace"]) == ("mina@acme.example", "beta")
    assert ask(service, {**bearer(token), "X-Workspace": "gamma"}) == 403


def test_bad_tokens_are_401_and_never_a_fault(service, issuer):
    good = issuer.token().decode()
    for token in (issuer.token(exp=1), issuer.token(aud="x"), b"a.b.c", b"x" * 9000, good.encode()[:-4] + b"AAAA"):
        assert ask(service, bearer(token)) == 401
    assert ask(service, {"Authorization": [f"Bearer {good}", f"Bearer {good}"]}) == 401
    assert ask(service, {}, path=f"{PATH}?access_token={good}") == 401
    assert ask(service, {"X-Access-Token": good}) == 401


def test_a_cookie_needs_an_origin(service, issuer):
    cookie = {"Cookie": f"theme=dark; session={issuer.token().decode()}", "Content-Type": "text/plain"}
    assert ask(service, cookie) == 403
    assert ask(service, {**cookie, "Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}) == 403
    assert ask(service, {**cookie, **HERE}) == 204
    assert ask(service, {**cookie, "Origin": "https://console.example", "Sec-Fetch-Site": "cross-site"}) == 204
    assert ask(service, {**cookie, "Origin": f"http://{service}"}) == 204


def test_only_the_proxys_own_socket_speaks_for_others(service):
    assert ask(service, {**EMAIL, **HERE}, PROXY) == 204
    assert ask(service, {**EMAIL}, PROXY) == 403
    assert ask(service, {**EMAIL, **HERE}, STRANGER) == 401
    # uvicorn takes this header's word from 127.0.0.1 unless told otherwise.
    for peer in (STRANGER, "127.0.0.1"):
        assert ask(service, {**EMAIL, **HERE, "X-Forwarded-For": PROXY}, peer) == 401
    assert ask(service, {**HERE, "X-Forwarded-Email": ["a@acme.example", "b@acme.example"]}, PROXY) == 401
    assert ask(service, {**EMAIL, **HERE, "X-Forwarded-For": STRANGER}, PROXY) == 204


def test_the_private_metrics_take_the_same_tokens(service, issuer):
    def metrics(token: bytes | None) -> int:
        return ask(service, bearer(token) if token else {}, method="GET", path="/metrics", body="")

    assert metrics(None) == 401
    assert metrics(issuer.token()) == 403
    assert metrics(issuer.token(roles=["metrics"])) == 200


def test_an_issuer_that_is_down_is_503_for_tokens_that_may_be_good(tmp_path, receiver):
    with Issuer(KEY) as issuer:
        issuer.answer = lambda request: reply(request, status=500)
        environ = {
            "FLEETGLASS_OIDC_ISSUER": issuer.url,
            "FLEETGLASS_OIDC_AUDIENCE": AUDIENCE,
            "FLEETGLASS_OIDC_JWKS_URL": issuer.url + KEYS,
        }
        with serving(tmp_path, receiver, **environ) as (_, address):
            token = issuer.token()
            for _ in range(20):
                assert ask(address, bearer(token)) == 503
                assert ask(address, bearer(issuer.token(FOREIGN_KEY, iss="https://evil.example"))) == 401
                assert ask(address, {"Authorization": "Bearer t0ken"}) == 204  # static tokens need no issuer
            assert issuer.fetches == 1
            assert len(lines_with(receiver, "answering 503")) == 1
