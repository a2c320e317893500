"""Static tokens: who a request speaks for."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ingest.principal import Principal, StaticTokens

MINA = Principal("mina@acme.example", "acme", ("member",))
OPS = Principal("ops@acme.example", "acme", ("super_admin",))
TOKENS = StaticTokens({"mina-token": MINA, "ops-token": OPS})
ON_PURPOSE = {None: None, MINA: replace(MINA, ambient=False), OPS: replace(OPS, ambient=False)}


def scope(*headers: bytes) -> dict[str, object]:
    return {"type": "http", "headers": [(b"host", b"x"), *((b"authorization", value) for value in headers)]}


@pytest.mark.parametrize(
    ("header", "principal"),
    [
        (b"Bearer mina-token", MINA),
        (b"bearer  ops-token ", OPS),
        (b"BEARER ops-token", OPS),
        (b"Bearer mina-toke", None),
        (b"Bearer mina-token2", None),
        (b"Bearer MINA-TOKEN", None),
        (b"Bearer mina-token ops-token", None),
        (b"Bearer ", None),
        (b"Bearer", None),
        (b"", None),
        (b"mina-token", None),
        (b"Basic mina-token", None),
        (b"Bearer \xff\xfe", None),
    ],
)
async def test_a_bearer_token_names_its_principal(header, principal):
    assert await TOKENS(scope(header)) == ON_PURPOSE[principal]


async def test_no_header_and_two_headers_are_nobody():
    assert await TOKENS(scope()) is None
    assert await TOKENS(scope(b"Bearer mina-token", b"Bearer mina-token")) is None


async def test_without_tokens_nobody_is_known():
    assert await StaticTokens({})(scope(b"Bearer ")) is None


async def test_the_settings_have_the_last_word_on_whether_browsers_attach_a_token():
    attached = replace(MINA, ambient=True)
    assert await StaticTokens({"t": attached})(scope(b"Bearer t")) == attached


def test_tokens_are_not_kept():
    assert "mina-token" not in repr(vars(TOKENS))
