"""Headers of trusted proxies: whose word counts, told by the peer of the connection and by nothing else."""

from __future__ import annotations

import pytest

from ingest.principal import Denied, Principal
from ingest.principal.proxy import ProxyHeaders

NETWORKS = ("10.1.0.0/16", "192.0.2.7", "fd00:1::/32", "::ffff:198.51.100.0/120")
MINA = Principal("mina@acme.example", "", (), None, True)
EMAIL = (b"x-forwarded-email", b"mina@acme.example")


def proxy(**names: str) -> ProxyHeaders:
    return ProxyHeaders(NETWORKS, **{"email": "X-Forwarded-Email", **names})


FULL = proxy(workspace="X-Workspace-Own", workspaces="X-Workspaces", roles="X-Forwarded-Groups")


def scope(*headers: tuple[bytes, bytes], client: object = ("10.1.2.3", 40000)) -> dict[str, object]:
    return {"type": "http", "headers": list(headers), "client": client}


@pytest.mark.parametrize(
    "peer",
    [
        "10.1.0.0",
        "10.1.255.255",
        "::ffff:10.1.2.3",
        "::ffff:a01:203",
        "192.0.2.7",
        "::ffff:192.0.2.7",
        "fd00:1::5",
        "fd00:1:0:0:0:0:0:5",
        "fd00:1::5%eth0",
        "198.51.100.9",
        "::ffff:198.51.100.9",
    ],
)
async def test_the_word_of_a_trusted_peer_counts(peer):
    assert await FULL(scope(EMAIL, client=(peer, 1))) == MINA


@pytest.mark.parametrize(
    "peer",
    [
        "10.2.0.1",
        "192.0.2.8",
        "::ffff:10.2.0.1",
        "fd00:2::5",
        "::10.1.2.3",  # IPv4-compatible, another address altogether
        "::a01:203",
        "64:ff9b::10.1.2.3",
        "2002:a01:203::",
        "198.51.101.1",
        "10.1.2.3.evil.example",
        "0x0a.1.2.3",
        "010.1.2.3",
        "127.0.0.1",
        "testclient",
        "",
    ],
)
async def test_a_stranger_with_these_headers_has_none(peer):
    assert await FULL(scope(EMAIL, client=(peer, 1))) is None
    assert await FULL(scope(EMAIL, EMAIL, client=(peer, 1))) is None


@pytest.mark.parametrize("client", [None, (), (None, 1), [], ("/run/app.sock", 0)])
async def test_a_peer_without_an_address_is_a_stranger(client):
    assert await FULL(scope(EMAIL, client=client)) is None


@pytest.mark.parametrize("name", [b"x-forwarded-for", b"forwarded", b"x-real-ip", b"true-client-ip"])
async def test_no_header_makes_a_peer_trusted(name):
    value = b"for=10.1.2.3" if name == b"forwarded" else b"10.1.2.3"
    assert await FULL(scope(EMAIL, (name, value), client=("203.0.113.9", 1))) is None
    assert await FULL(scope(EMAIL, (name, b"203.0.113.9"))) == MINA


async def test_everything_a_proxy_may_say():
    headers = (
        EMAIL,
        (b"x-workspace-own", b" acme "),
        (b"x-workspaces", b"acme, beta,,gamma "),
        (b"x-forwarded-groups", "member,운영".encode()),
    )
    assert await FULL(scope(*headers)) == Principal(
        "mina@acme.example", "acme", ("member", "운영"), ("acme", "beta", "gamma"), True
    )
    assert await proxy()(scope(*headers)) == MINA  # headers that no setting names are the client's own
    assert await FULL(scope(EMAIL, (b"x-workspaces", b"acme"))) == Principal(
        "mina@acme.example", "acme", (), ("acme",), True
    )


@pytest.mark.parametrize("email", [b"", b"   "])
async def test_nobody_is_signed_in_at_the_proxy(email):
    assert await FULL(scope((b"x-forwarded-email", email))) is None
    assert await FULL(scope((b"x-workspace-own", b"acme"))) is None


@pytest.mark.parametrize(
    "headers",
    [
        (EMAIL, EMAIL),
        (EMAIL, (b"x-forwarded-email", b"ceo@acme.example")),
        (EMAIL, (b"x-forwarded-groups", b"member"), (b"x-forwarded-groups", b"super_admin")),
        (EMAIL, (b"x-workspace-own", b"acme"), (b"x-workspace-own", b"beta")),
        ((b"x-forwarded-email", b"mina@acme.example, ceo@acme.example"),),
        ((b"x-forwarded-email", b"mina@acme.example,ceo@acme.example"),),
        ((b"x-forwarded-email", b"\xff@acme.example"),),
        ((b"x-forwarded-email", b"a\x1f@acme.example"),),
        ((b"x-forwarded-email", "a\u202e@acme.example".encode()),),
        (EMAIL, (b"x-forwarded-groups", b"\xff")),
    ],
)
async def test_what_contradicts_itself_is_denied(headers):
    with pytest.raises(Denied):
        await FULL(scope(*headers))


async def test_an_underscore_is_no_dash():
    # Gateways that speak WSGI or CGI make one of both, and a client then chooses who it is.
    assert await FULL(scope((b"x_forwarded_email", b"ceo@acme.example"))) is None
