"""Settings that say who may speak: what is taken, and what nothing starts with."""

from __future__ import annotations

import pytest

from ingest.settings import Settings
from telemetry.config import ConfigError, load_section

ISSUER = {"oidc_issuer": "https://id.example/realms/acme/", "oidc_audience": "console"}


def read(name: str, value: object) -> object:
    return load_section("ingest", {name: value}, {})[name]


def problems(**arguments: object) -> list[tuple[str, str]]:
    with pytest.raises(ConfigError) as refused:
        load_section("ingest", arguments, {})
    return [(problem.name.removeprefix("argument "), problem.expected) for problem in refused.value.problems]


def test_an_issuer_is_kept_to_the_letter():
    assert load_section("ingest", ISSUER, {})["oidc_issuer"] == ISSUER["oidc_issuer"]
    assert Settings(oidc_issuer=ISSUER["oidc_issuer"], oidc_audience=("console",)).oidc_jwks_url is None


@pytest.mark.parametrize("url", ["http://localhost:9000", "http://127.0.0.1", "http://127.1.2.3:1/x", "http://[::1]:9"])
def test_keys_may_come_over_plain_http_from_loopback(url):
    assert load_section("ingest", {**ISSUER, "oidc_jwks_url": url}, {})["oidc_jwks_url"] == url


@pytest.mark.parametrize(
    "url",
    [
        "http://id.example",
        "http://127.0.0.1.evil.example",
        "http://localhost.evil.example",
        "https://user:secret@id.example",
        "https://id.example/#x",
        "id.example",
        "file:///etc/passwd",
        "https://",
    ],
)
@pytest.mark.parametrize("name", ["oidc_issuer", "oidc_jwks_url"])
def test_keys_come_from_nowhere_else(name, url):
    (problem,) = problems(**{**ISSUER, name: url})
    assert problem[1].startswith("an https:// URL with a host (http:// only on loopback)")


def test_policies_are_told_apart_by_the_query_of_the_keys_alone():
    url = "https://id.example/keys?p=B2C_1_signin"
    assert load_section("ingest", {**ISSUER, "oidc_jwks_url": url}, {})["oidc_jwks_url"] == url
    assert [name for name, _ in problems(**{**ISSUER, "oidc_issuer": url})] == ["oidc_issuer"]


@pytest.mark.parametrize("alg", ["none", "HS256", "HS512", "RS1", "ES256K", "RS256,HS256"])
def test_only_signatures_with_public_keys_can_be_chosen(alg):
    (problem,) = problems(oidc_algorithms=alg)
    assert problem[0] == "oidc_algorithms"


@pytest.mark.parametrize(
    ("value", "networks"),
    [
        ("10.1.0.0/16, 192.0.2.7", ("10.1.0.0/16", "192.0.2.7/32")),
        (["fd00:1:0::/32", "::1"], ("fd00:1::/32", "::1/128")),
        ("::ffff:10.0.0.0/104", ("::ffff:10.0.0.0/104",)),
        ("", ()),
    ],
)
def test_networks(value, networks):
    import ipaddress

    assert tuple(map(ipaddress.ip_network, read("trusted_proxies", value))) == tuple(
        map(ipaddress.ip_network, networks)
    )


@pytest.mark.parametrize("value", ["10.1.2.3/16", "0.0.0.0/0", "::/0", "10.1", "proxy.example", "10.0.0.0/33", "*", 7])
def test_other_networks_are_refused(value):
    (problem,) = problems(trusted_proxies=value)
    assert problem[1].startswith("networks separated by commas")


@pytest.mark.parametrize("name", ["Authorization", "cookie", "HOST", "Origin", "Sec-Fetch-Site", "x y", "x:", "é", ""])
@pytest.mark.parametrize("setting", ["workspace_header", "proxy_email_header", "proxy_roles_header"])
def test_a_header_that_means_something_else_says_nobody(setting, name):
    if name:
        assert [problem[0] for problem in problems(**{setting: name})] == [setting]
    else:
        assert read(setting, name) == Settings.__struct_defaults__[Settings.__struct_fields__.index(setting)]


@pytest.mark.parametrize("name", ["a b", "a=b", "a;b", "é", '"a"'])
def test_a_cookie_has_a_name(name):
    assert problems(**ISSUER, oidc_cookie=name) == [("oidc_cookie", "the name of a cookie")]


def test_an_issuer_needs_an_audience():
    assert problems(oidc_issuer="https://id.example") == [
        ("oidc_issuer", "an audience beside the issuer (oidc_audience, FLEETGLASS_OIDC_AUDIENCE)")
    ]


def test_without_an_issuer_the_rest_means_nothing():
    found = problems(oidc_audience="console", oidc_jwks_url="https://id.example/keys", oidc_cookie="session")
    assert [name for name, _ in found] == ["oidc_audience", "oidc_jwks_url", "oidc_cookie"]


def test_one_header_says_one_thing():
    # A caller names its workspace itself: a proxy that doesn't strip that header would let it name its email as well.
    found = problems(proxy_email_header="X-Workspace", proxy_roles_header="x-workspace")
    assert [name for name, _ in found] == ["proxy_roles_header", "workspace_header"]


def test_a_token_may_be_entitled_to_several_workspaces():
    settings = Settings.load(
        {}, {"FLEETGLASS_TOKENS": '{"t": {"email": "a@b.c", "workspace": "x", "workspaces": ["x", "y"]}}'}
    )
    assert settings.tokens["t"].workspaces == ("x", "y")
