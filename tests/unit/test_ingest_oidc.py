"""OIDC tokens against a real issuer on loopback: what is taken, what every known forgery gets, and what keys do."""

from __future__ import annotations

import asyncio
import base64
import gzip
import hashlib
import hmac
import json
import logging
import threading
import time
from http.server import BaseHTTPRequestHandler
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest.principal import Principal, Unavailable
from ingest.principal.claims import ClaimNames, principal_of
from ingest.principal.issuer import TIMEOUT_SECONDS, FetchFailed
from ingest.principal.issuer import Issuer as KeySource
from ingest.principal.keys import read_keys
from ingest.principal.keystore import KeyStore
from ingest.principal.oidc import MAX_TOKEN_BYTES, OidcTokens, TokenCookie
from tests.token_issuer import AUDIENCE, CONFIGURATION, KEYS, Issuer, Key, reply

MINA = Principal("mina@acme.example", "acme", ambient=False)
RSA, EC, ED = Key("RS256", "rsa"), Key("ES256", "ec"), Key("EdDSA", "ed")
STRANGER = Key("RS256", "stranger")
HOUR = 3600


class Clock:
    """Monotonic seconds that pass when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def issuer():
    with Issuer(RSA, EC, ED) as issuer:
        yield issuer


@pytest.fixture
def tokens(issuer, clock):
    return tokens_of(issuer, clock)


def tokens_of(issuer: Issuer, clock: Clock, **options: Any) -> OidcTokens:
    source = KeySource(issuer.url, options.pop("jwks_url", issuer.url + KEYS), timeout=options.pop("timeout", 2.0))
    store = KeyStore(source.keys, stale=options.pop("stale", HOUR), clock=clock)
    return OidcTokens(
        store,
        issuer=issuer.url,
        audience=options.pop("audience", (AUDIENCE,)),
        algorithms=options.pop("algorithms", ("RS256", "ES256", "EdDSA")),
        **options,
    )


# --- what is taken


@pytest.mark.parametrize("key", [RSA, EC, ED], ids=["RS256", "ES256", "EdDSA"])
async def test_a_token_names_its_principal(issuer, tokens, key):
    assert await tokens.find(issuer.token(key)) == MINA


@pytest.mark.parametrize("key", [RSA, EC, ED], ids=["RS256", "ES256", "EdDSA"])
async def test_a_token_that_no_library_made(issuer, tokens, key):
    unsigned = part({"kid": key.kid, "alg": key.alg}) + b"." + part(claims_of(issuer))
    if key is RSA:
        signature = key.private.sign(unsigned, padding.PKCS1v15(), hashes.SHA256())
    elif key is EC:
        r, s = decode_dss_signature(key.private.sign(unsigned, ec.ECDSA(hashes.SHA256())))
        signature = r.to_bytes(32) + s.to_bytes(32)
    else:
        signature = key.private.sign(unsigned)
    token = unsigned + b"." + base64.urlsafe_b64encode(signature).rstrip(b"=")
    assert await tokens.find(token) == Principal("ceo@acme.example", ambient=False)
    assert await tokens.find(token[:-8] + b"AAAAAAAA") is None


@pytest.mark.parametrize("alg", ["RS384", "RS512", "PS256", "PS384", "PS512", "ES384", "ES512"])
async def test_further_algorithms_are_taken_when_chosen(clock, alg):
    key = Key(alg, alg)
    with Issuer(key) as issuer:
        assert await tokens_of(issuer, clock, algorithms=(alg,)).find(issuer.token(key)) == MINA
        assert await tokens_of(issuer, clock).find(issuer.token(key)) is None


async def test_the_bearer_token_and_nothing_else_is_read(issuer, tokens):
    token = issuer.token()
    bearer = (b"authorization", b"Bearer " + token)
    assert await tokens({"headers": [bearer]}) == MINA
    assert await tokens({"headers": [], "query_string": b"access_token=" + token}) is None
    assert await tokens({"headers": [(b"cookie", b"token=" + token)]}) is None
    assert await tokens({"headers": [bearer, bearer]}) is None


async def test_keys_are_where_the_issuer_says(issuer, clock):
    tokens = tokens_of(issuer, clock, jwks_url=None)
    assert await tokens.find(issuer.token()) == MINA
    assert issuer.asked == [CONFIGURATION, KEYS]


@pytest.mark.parametrize("said", [{"issuer": "https://evil.example"}, {"jwks_uri": "http://keys.example/"}, {"x": 1}])
async def test_a_configuration_of_somebody_else_is_not_followed(clock, said, caplog):
    with Issuer(RSA) as issuer:
        document = {"issuer": issuer.url, "jwks_uri": issuer.url + KEYS, **said}
        if "x" in said:
            document = said
        issuer._serve = lambda request: reply(request, json.dumps(document).encode())
        with pytest.raises(Unavailable):
            await tokens_of(issuer, clock, jwks_url=None).find(issuer.token())
        assert issuer.asked == [CONFIGURATION]
    assert "the configuration " in caplog.text


async def test_one_of_several_audiences_is_enough(issuer, clock):
    tokens = tokens_of(issuer, clock, audience=("console", "api"))
    assert await tokens.find(issuer.token(aud=["other", "api"])) == MINA
    assert await tokens.find(issuer.token(aud="other")) is None


@pytest.mark.parametrize("kind", [None, "JWT", "at+jwt", "application/at+jwt"])
async def test_id_tokens_and_access_tokens_are_taken(issuer, tokens, kind):
    assert await tokens.find(issuer.token(headers={"typ": kind})) == MINA


async def test_clocks_may_be_a_little_apart(issuer, tokens):
    now = time.time()
    assert await tokens.find(issuer.token(exp=now - 10, nbf=now + 10, iat=now + 10)) == MINA
    assert await tokens.find(issuer.token(exp=now - 60)) is None


# --- forgeries


def forged(header: dict[str, Any], claims: dict[str, Any], signature: bytes = b"") -> bytes:
    return b".".join([*map(part, (header, claims)), base64.urlsafe_b64encode(signature).rstrip(b"=")])


def part(value: Any) -> bytes:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")


def claims_of(issuer: Issuer, **claims: Any) -> dict[str, Any]:
    good = {"iss": issuer.url, "aud": AUDIENCE, "exp": time.time() + HOUR, "email": "ceo@acme.example"}
    return {name: value for name, value in (good | claims).items() if value is not None}


@pytest.mark.parametrize("alg", ["none", "None", "NONE", "nOnE", ""])
async def test_a_token_without_a_signature_signs_in_as_anybody(issuer, tokens, alg):
    assert await tokens.find(forged({"alg": alg, "kid": "rsa"}, claims_of(issuer))) is None
    assert await tokens.find(forged({"alg": alg, "kid": "rsa"}, claims_of(issuer), b"x")) is None


@pytest.mark.parametrize("form", ["pem", "der", "jwk", "modulus"])
async def test_the_public_key_is_taken_as_an_hmac_secret(issuer, tokens, form):
    public = RSA.private.public_key()
    secret = {
        "pem": public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        "der": public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        "jwk": json.dumps(RSA.entry).encode(),
        "modulus": RSA.entry["n"].encode(),
    }[form]
    for alg, digest in (("HS256", hashlib.sha256), ("HS512", hashlib.sha512)):
        unsigned = forged({"alg": alg, "kid": "rsa", "typ": "JWT"}, claims_of(issuer)).rpartition(b".")[0]
        signature = hmac.new(secret, unsigned, digest).digest()
        token = unsigned + b"." + base64.urlsafe_b64encode(signature).rstrip(b"=")
        assert await tokens.find(token) is None
    assert issuer.fetches == 0


async def test_a_secret_in_the_key_set_signs_tokens(clock):
    secret = b"s" * 32
    oct_key = {"kty": "oct", "kid": "secret", "k": base64.urlsafe_b64encode(secret).decode(), "alg": "HS256"}
    with Issuer(RSA) as issuer:
        issuer.answer = lambda request: reply(request, json.dumps({"keys": [oct_key, RSA.entry]}).encode())
        token = jwt.encode(claims_of(issuer), secret, "HS256", {"kid": "secret"}).encode()
        tokens = tokens_of(issuer, clock)
        assert await tokens.find(token) is None
        assert await tokens.find(issuer.token()) == MINA


async def test_a_key_is_used_with_an_algorithm_that_is_not_its_own(issuer, clock):
    tokens = tokens_of(issuer, clock, algorithms=("RS256", "RS512", "PS256", "ES256", "EdDSA"))
    for alg in ("RS512", "PS256"):  # the same key could make them, and the issuer says RS256
        token = jwt.encode(claims_of(issuer), RSA.private, alg, {"kid": "rsa"}).encode()
        assert await tokens.find(token) is None
    assert await tokens.find(jwt.encode(claims_of(issuer), EC.private, "ES256", {"kid": "rsa"}).encode()) is None


async def test_a_stranger_signs_with_a_key_id_of_ours(issuer, tokens):
    assert await tokens.find(issuer.token(STRANGER, headers={"kid": "rsa"})) is None


async def test_a_token_brings_its_own_key(issuer, tokens):
    # Of a header only alg, kid, typ and crit are ever looked at: no jwk, no jku, no x5u is followed.
    for headers in ({"jwk": STRANGER.entry}, {"jku": issuer.url + "/evil"}, {"x5u": issuer.url + "/evil"}):
        assert await tokens.find(issuer.token(STRANGER, headers={"kid": "rsa", **headers})) is None
    assert set(issuer.asked) == {KEYS}


@pytest.mark.parametrize("kid", ["../../dev/null", "' OR 1=1 --", "", "\x00", "x" * 500])
async def test_a_key_id_that_means_something_elsewhere(issuer, tokens, kid):
    assert await tokens.find(issuer.token(STRANGER, headers={"kid": kid})) is None


@pytest.mark.parametrize(
    "headers", [{"crit": ["b64"], "b64": True}, {"crit": ["x"], "x": 1}, {"crit": []}, {"crit": 1}]
)
async def test_an_extension_that_must_be_understood_is_skipped(issuer, tokens, headers):
    # CVE-2026-32597
    unsigned = part({"alg": "RS256", "kid": "rsa", **headers}) + b"." + part(claims_of(issuer))
    signature = jwt.get_algorithm_by_name("RS256").sign(unsigned, RSA.private)
    assert await tokens.find(unsigned + b"." + base64.urlsafe_b64encode(signature).rstrip(b"=")) is None


@pytest.mark.parametrize("kind", ["logout+jwt", "secevent+jwt", "dpop+jwt", "JOSE", 7])
async def test_a_token_made_for_something_else_signs_in(issuer, tokens, kind):
    unsigned = part({"alg": "RS256", "kid": "rsa", "typ": kind}) + b"." + part(claims_of(issuer))
    signature = jwt.get_algorithm_by_name("RS256").sign(unsigned, RSA.private)
    assert await tokens.find(unsigned + b"." + base64.urlsafe_b64encode(signature).rstrip(b"=")) is None


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": time.time() - HOUR},
        {"exp": None},
        {"exp": "soon"},
        {"exp": [1]},
        {"exp": 0},
        {"nbf": time.time() + HOUR},
        {"nbf": "later"},
        {"iat": time.time() + HOUR},
        {"iss": "https://evil.example"},
        {"iss": None},
        {"aud": "another-console"},
        {"aud": ["another-console"]},
        {"aud": []},
        {"aud": {"console": 1}},
        {"aud": None},
        {"email": None},
        {"email": ""},
        {"email": ["ceo@acme.example"]},
        {"email": "a@acme.example b@acme.example"},
        {"email": "a@acme.example\nemail=ceo@acme.example"},
        {"email": "\ud800@acme.example"},
        {"email": "e" * 321},
        {"email_verified": False},
        {"email_verified": "false"},
        {"email_verified": 0},
        {"email_verified": []},
    ],
    ids=lambda claims: "-".join(f"{name}={str(value)[:30]!r}" for name, value in claims.items()),
)
async def test_signed_by_the_issuer_and_refused(issuer, tokens, claims):
    assert await tokens.find(issuer.token(**claims)) is None


@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN", "Infinity", "9" * 4000])
@pytest.mark.parametrize("claim", ["exp", "nbf", "iat"])
async def test_a_time_beyond_all_numbers_is_a_fault(issuer, tokens, claim, number):
    rest = json.dumps({"iss": issuer.url, "aud": AUDIENCE, "email": "a@b.example"})[1:]
    payload = f'{{"{claim}":{number},"exp":{int(time.time()) + HOUR},{rest}' if claim != "exp" else ""
    payload = payload or f'{{"exp":{number},{rest}'
    unsigned = part({"alg": "EdDSA", "kid": "ed"}) + b"." + base64.urlsafe_b64encode(payload.encode()).rstrip(b"=")
    signature = jwt.get_algorithm_by_name("EdDSA").sign(unsigned, ED.private)
    token = unsigned + b"." + base64.urlsafe_b64encode(signature).rstrip(b"=")
    assert await tokens.find(token) is None or number.startswith(("-", "9"))


async def test_a_huge_token_is_read(issuer, tokens):
    token = issuer.token(padding="x" * MAX_TOKEN_BYTES)
    assert await tokens.find(token) is None
    assert issuer.fetches == 0


async def test_an_encrypted_token_is_read(issuer, tokens):
    assert await tokens.find(b".".join([part({"alg": "RSA-OAEP", "enc": "A256GCM"}), b"a", b"b", b"c", b"d"])) is None
    assert await tokens.find(issuer.token(headers={"enc": "A256GCM"})) is None


async def test_deep_claims_are_a_fault(issuer, tokens):
    deep = b"[" * 3000
    token = b".".join([part({"alg": "RS256"}), base64.urlsafe_b64encode(deep).rstrip(b"="), b"x"])
    assert await tokens.find(token) is None


async def test_a_changed_claim_keeps_its_signature(issuer, tokens):
    header, _, signature = issuer.token().split(b".")
    assert await tokens.find(b".".join([header, part(claims_of(issuer)), signature])) is None


@pytest.mark.parametrize("token", [b"", b".", b"..", b"...", b"a.b.c", b"\xff.\xff.\xff", b"{}.{}.{}", b"=.=.="])
async def test_garbage_is_nobody_and_costs_no_fetch(issuer, tokens, token):
    assert await tokens.find(token) is None
    assert issuer.fetches == 0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(
    header=st.dictionaries(st.sampled_from(["alg", "kid", "typ", "crit", "b64", "enc"]), JSON),
    claims=st.dictionaries(
        st.sampled_from(["exp", "nbf", "iat", "aud", "iss", "sub", "jti", "email", "email_verified", "workspaces"]),
        JSON,
    ),
    signed=st.booleans(),
)
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
async def test_no_token_whatsoever_is_a_fault(fixed_issuer, header, claims, signed):
    issuer, tokens = fixed_issuer
    head = {"alg": "EdDSA", "kid": "ed", **header}
    unsigned = part(head) + b"." + part({**claims_of(issuer), **claims})
    signature = jwt.get_algorithm_by_name("EdDSA").sign(unsigned, ED.private) if signed else b"x" * 64
    found = await tokens.find(unsigned + b"." + base64.urlsafe_b64encode(signature).rstrip(b"="))
    assert found is None or (signed and isinstance(found, Principal))


@pytest.fixture(scope="module")
def fixed_issuer():
    with Issuer(ED) as issuer:
        yield issuer, tokens_of(issuer, Clock())


# --- claims


@pytest.mark.parametrize(
    ("claims", "principal"),
    [
        ({}, Principal("a@b.c", ambient=False)),
        ({"workspace": "acme", "roles": ["a", 7, "", "b"]}, Principal("a@b.c", "acme", ("a", "b"), None, False)),
        ({"workspaces": ["acme", "beta"]}, Principal("a@b.c", "", (), ("acme", "beta"), False)),
        ({"workspaces": ["acme"]}, Principal("a@b.c", "acme", (), ("acme",), False)),
        ({"workspaces": "acme, beta", "workspace": "acme"}, Principal("a@b.c", "acme", (), ("acme", "beta"), False)),
        ({"workspaces": {"acme": 1}, "workspace": ["x"], "roles": 7}, Principal("a@b.c", "", (), (), False)),
        ({"roles": "member  super_admin"}, Principal("a@b.c", "", ("member", "super_admin"), None, False)),
        ({"email_verified": "True"}, Principal("a@b.c", ambient=False)),
    ],
)  # fmt: skip
def test_claims_of_any_form_make_a_principal_or_none(claims, principal):
    assert principal_of({"email": " a@b.c ", **claims}, ClaimNames(), ambient=False) == principal


def test_claims_are_named_by_settings():
    names = ClaimNames(
        email="user.email",
        workspace="https://acme.example/tenant",
        workspaces="a.b.c",
        roles="realm_access.roles",
        require_verified=True,
    )
    claims = {
        "user": {"email": "mina@acme.example"},
        "https://acme.example/tenant": "acme",
        "a": {"b": {"c": ["acme", "beta"]}},
        "realm_access": {"roles": ["ops"]},
    }
    assert principal_of(claims, names, ambient=True) is None  # nobody says that the email is verified
    claims["email_verified"] = True
    assert principal_of(claims, names, ambient=True) == Principal(
        "mina@acme.example", "acme", ("ops",), ("acme", "beta"), True
    )


# --- keys


async def test_keys_are_fetched_once(issuer, tokens):
    found = await asyncio.gather(*(tokens.find(issuer.token(key, jti=str(n))) for key in (RSA, EC) for n in range(20)))
    assert found == [MINA] * 40
    assert issuer.fetches == 1


async def test_a_new_key_is_fetched_when_a_token_names_it(issuer, tokens, clock):
    await tokens.find(issuer.token())
    new = Key("RS256", "new")
    issuer.keys = [new]
    assert await tokens.find(issuer.token(new)) is None  # the last fetch was a moment ago
    assert issuer.fetches == 1
    clock.now += 11
    assert await tokens.find(issuer.token(new)) == MINA
    assert issuer.fetches == 2


async def test_made_up_key_ids_make_us_hammer_the_issuer(issuer, tokens, clock):
    for number in range(200):
        assert await tokens.find(issuer.token(STRANGER, headers={"kid": str(number)})) is None
        clock.now += 0.1
    assert issuer.fetches == 2  # 20 seconds


async def test_a_key_that_changed_under_its_name_is_fetched(issuer, tokens, clock):
    await tokens.find(issuer.token())
    renamed = Key("ES256", "rsa")
    issuer.keys = [renamed]
    clock.now += 11
    assert await tokens.find(issuer.token(renamed)) == MINA


async def test_keys_without_names(clock):
    nameless = Key("ES256", None)
    with Issuer(nameless) as issuer:
        tokens = tokens_of(issuer, clock)
        assert await tokens.find(issuer.token()) == MINA
        issuer.keys = [Key("ES256", "another"), nameless]
        clock.now += 400
        await tokens.find(issuer.token(nameless, jti="starts the refresh"))
        await tokens._keys.renew()
        assert await tokens.find(issuer.token(nameless, jti="which of the two?")) is None


async def test_a_withdrawn_key_takes_its_tokens_with_it(issuer, tokens, clock):
    token = issuer.token(RSA)
    assert await tokens.find(token) == MINA
    issuer.keys = [EC]
    clock.now += 301
    assert await tokens.find(token) == MINA  # the refresh has only begun
    await tokens._keys.renew()
    assert await tokens.find(token) is None
    assert await tokens.find(issuer.token(EC)) == MINA


async def test_whatever_a_fetch_raises_keys_are_used_on(issuer, clock, caplog):
    tokens = tokens_of(issuer, clock)
    token = issuer.token()
    assert await tokens.find(token) == MINA

    async def broken() -> None:
        raise RuntimeError("a bug")

    tokens._keys._fetch = broken
    clock.now += 301
    assert await tokens.find(token) == MINA
    await tokens._keys.renew()
    assert await tokens.find(token) == MINA
    assert "a bug" in caplog.text


async def test_a_refresh_makes_nobody_wait(issuer, tokens, clock):
    token = issuer.token()
    assert await tokens.find(token) == MINA
    issuer.answer = issuer.hang
    clock.now += 301
    start = time.perf_counter()
    assert await tokens.find(token) == MINA
    assert await tokens.find(issuer.token(EC)) == MINA
    assert time.perf_counter() - start < TIMEOUT_SECONDS / 2


async def test_keys_are_used_on_for_a_time_while_the_issuer_is_down(issuer, clock, caplog):
    caplog.set_level(logging.INFO, "ingest")
    tokens = tokens_of(issuer, clock, stale=600)
    token = issuer.token()
    assert await tokens.find(token) == MINA
    issuer.answer = lambda request: reply(request, status=500)
    for _ in range(8):
        clock.now += 100
        assert await tokens.find(token) == MINA
        await tokens._keys.renew()
    clock.now += 101
    with pytest.raises(Unavailable):
        await tokens.find(token)
    issuer.answer = None
    clock.now += 11
    assert await tokens.find(token) == MINA
    assert [record.getMessage().partition(" (")[0] for record in caplog.records if record.name == "ingest"] == [
        "the token issuer's keys can't be fetched: answered 500",
        "the token issuer's keys are there again",
    ]


async def test_without_any_keys_only_a_token_that_may_be_good_is_503(issuer, tokens):
    issuer.stop()
    for bad in (b"a.b.c", issuer.token(aud="other"), issuer.token(exp=1), forged({"alg": "none"}, claims_of(issuer))):
        assert await tokens.find(bad) is None
    with pytest.raises(Unavailable):
        await tokens.find(issuer.token())
    start = time.perf_counter()
    with pytest.raises(Unavailable):  # and the next one doesn't wait
        await tokens.find(issuer.token())
    assert time.perf_counter() - start < 2.0


def answers(**how: Any) -> Any:
    return lambda request: reply(request, **how)


def redirect(request: BaseHTTPRequestHandler) -> None:
    reply(request, status=302, location="/elsewhere")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (answers(status=500), "answered 500"),
        (answers(status=404), "answered 404"),
        (redirect, "answered 302"),
        (answers(body=b"x" * 300_000), "answered more than 262,144 bytes"),
        (answers(body=gzip.compress(b"0" * 50_000_000), content_encoding="gzip"), "answered compressed"),
        (answers(body=b"<html>"), "the key set is not JSON"),
        (answers(body=b"[" * 100_000), "the key set is not JSON"),
        (answers(body=b"[]"), "the key set has no list of keys"),
        (answers(body=b'{"keys":{}}'), "the key set has no list of keys"),
        (answers(body=b'{"keys":[]}'), "the key set holds no key that can be used"),
        (lambda request: request.connection.close(), "RemoteProtocolError"),
    ],
)
async def test_an_issuer_that_fails_is_said_and_forgotten(answer, said):
    with Issuer(RSA) as issuer:
        issuer.answer = answer
        with pytest.raises(FetchFailed, match=said):
            await KeySource(issuer.url, issuer.url + KEYS).keys()
        assert issuer.asked == [KEYS]
        issuer.answer = None
        assert len((await KeySource(issuer.url, issuer.url + KEYS).keys()).keys) == 1


@pytest.mark.parametrize("how", ["hang", "drip"])
async def test_an_issuer_that_never_ends_holds_nobody(how):
    with Issuer(RSA) as issuer:
        issuer.answer = getattr(issuer, how)
        start = time.perf_counter()
        with pytest.raises(FetchFailed, match=r"no complete answer within 0\.3 s"):
            await KeySource(issuer.url, issuer.url + KEYS, timeout=0.3).keys()
        assert time.perf_counter() - start < 5.0


async def test_the_event_loop_runs_on_while_keys_are_fetched(issuer, tokens):
    issuer.answer = lambda request: (time.sleep(1.2), reply(request, issuer.document()))
    worst, last = 0.0, time.perf_counter()
    finding = asyncio.create_task(tokens.find(issuer.token()))
    while not finding.done():
        await asyncio.sleep(0.005)
        worst, last = max(worst, time.perf_counter() - last), time.perf_counter()
    assert await finding == MINA
    assert worst < 0.9


async def test_a_caller_that_leaves_takes_no_fetch_from_the_others(issuer, tokens):
    gate = threading.Event()
    issuer.answer = lambda request: (gate.wait(30), reply(request, issuer.document()))
    leaving, staying = (asyncio.create_task(tokens.find(issuer.token(key))) for key in (RSA, EC))
    await asyncio.to_thread(issuer.arrived.wait, 30)
    leaving.cancel()
    await asyncio.sleep(0)
    gate.set()
    assert await staying == MINA
    assert issuer.fetches == 1


@pytest.mark.parametrize(
    "entry",
    [
        {**RSA.entry, "use": "enc"},
        {**RSA.entry, "key_ops": ["encrypt"]},
        {**RSA.entry, "kty": "oct"},
        {**RSA.entry, "n": "AQAB"},
        {**RSA.entry, "n": "A" * 100_000},
        {**RSA.entry, "e": None},
        {
            **jwt.get_algorithm_by_name("RS256").to_jwk(RSA.private, as_dict=True),
            "kid": "private",
            "key_ops": ["verify"],
        },
        {**jwt.get_algorithm_by_name("ES256").to_jwk(EC.private, as_dict=True), "kid": "private"},
        {**RSA.entry, "kid": 7},
        {**EC.entry, "crv": "P-999"},
        {**EC.entry, "x": EC.entry["y"]},
        {**ED.entry, "crv": "X25519"},
        {"kty": ["RSA"]},
        {},
        None,
        7,
    ],
)
def test_keys_that_cannot_be_used_are_left_out(entry):
    document = json.dumps({"keys": [entry, ED.entry]}).encode()
    assert [key.kid for key in read_keys(document).keys] == ["ed"]


# --- remembered tokens, and tokens in cookies


async def test_a_verified_token_is_remembered_until_it_expires(issuer, clock, monkeypatch):
    tokens = tokens_of(issuer, clock, leeway=1)
    token = issuer.token(exp=int(time.time()) + 1)
    assert await tokens.find(token) == MINA
    with monkeypatch.context() as broken:
        broken.setattr(jwt, "decode", None)  # any further verification would fail
        assert await tokens.find(token) == MINA
    assert await eventually_nobody(tokens, token)


async def eventually_nobody(tokens: OidcTokens, token: bytes) -> bool:
    for _ in range(500):
        if await tokens.find(token) is None:
            return True
        await asyncio.sleep(0.05)
    return False


async def test_remembered_tokens_are_bounded_and_not_readable(issuer, clock):
    tokens = tokens_of(issuer, clock, max_remembered=3)
    made = [issuer.token(jti=str(number)) for number in range(10)]
    for token in made:
        assert await tokens.find(token) == MINA
    assert len(tokens._remembered) == 3
    assert made[-1] not in repr(tokens._remembered).encode()


async def test_a_cookie_may_hold_the_token(issuer, tokens):
    cookie = TokenCookie("__Host-session", tokens)
    token = issuer.token()
    assert await tokens.find(token) == MINA  # the same token, presented on purpose, is another matter

    async def ask(*headers: bytes) -> Principal | None:
        return await cookie({"headers": [(b"cookie", header) for header in headers]})

    found = await ask(b"theme=dark; __Host-session=" + token + b"; x=y")
    assert found is not None
    assert (found.email, found.ambient) == ("mina@acme.example", True)
    assert await ask(b"theme=dark", b"__Host-session=" + token) == found
    assert await ask(b'__Host-session="' + token + b'"') == found
    assert await ask(b"__host-session=" + token) is None
    assert await ask(b"x__Host-session=" + token) is None
    assert await ask(b"__Host-session=") is None
    assert await ask() is None
