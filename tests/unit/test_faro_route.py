"""The Faro route: the caller's limits, one token an item, bounds on what is sent and decoded, and never a 5xx."""

from __future__ import annotations

import gzip
import json
import logging
import random
import zlib
from typing import Any

import pytest

from ingest.app import create_app
from ingest.errors.route import PATH as ERRORS
from ingest.errors.route import RESULTS
from ingest.faro.payload import MAX_ITEM_BYTES
from ingest.faro.replays import Replays
from ingest.faro.route import MAX_BODY_BYTES, PATH
from ingest.principal import Principal
from ingest.settings import Settings
from telemetry.metrics.registry import REGISTRY
from tests.asgi_driver import Answer, http_scope, request
from tests.fuzz import bodies

TOKENS = {
    "t0ken": Principal("mina@acme.example", "acme"),
    "other": Principal("jun@acme.example", "acme"),
}
BEARER = ("authorization", "Bearer t0ken")
GZIP = ("content-encoding", "gzip")


def make(**settings: Any) -> Any:
    return create_app(Settings(tokens=TOKENS, dedupe_window=0, **settings))


def exceptions(*values: str, **more: Any) -> bytes:
    return json.dumps({"exceptions": [{"type": "Error", "value": value} for value in values], **more}).encode()


async def post(app: Any, body: bytes, *headers: tuple[str, str], path: str = PATH, **more: Any) -> Answer:
    answer = await request(app, "POST", path, headers=headers or (BEARER,), body=body, **more)
    assert answer.error is None
    return answer


@pytest.fixture
def lines(caplog):
    caplog.set_level(logging.ERROR, "frontend")
    return lambda: [dict(record.ready_line.fields) for record in caplog.records if record.name == "frontend"]


@pytest.fixture
def counted():
    """How reports were counted, and what was ignored, since the test began."""

    def now() -> dict[str, float]:
        items = ["logs", "measurements", "events", "traces", "replays"]
        return {
            value: REGISTRY.get_sample_value(name, {label: value}) or 0.0
            for name, label, values in [
                ("frontend_reports_total", "result", RESULTS),
                ("frontend_faro_ignored_total", "item", items),
            ]
            for value in values
        }

    before = now()
    return lambda: {key: value - before[key] for key, value in now().items() if value != before[key]}


async def test_an_exception_is_a_line_of_the_principal_and_202(lines, counted):
    user = {"email": "ceo@acme.example"}
    meta = {"user": user, "session": {"attributes": user}, "page": {"url": "https://c.example/jobs?token=s3cret#x"}}
    answer = await post(make(), exceptions("broken", meta=meta), BEARER, ("idempotency-key", "k"))
    assert (answer.status, answer.body) == (202, b"")
    (line,) = lines()
    assert (line["email"], line["workspace"], line["message"]) == ("mina@acme.example", "acme", "Error: broken")
    assert line["url"] == "https://c.example/jobs"
    assert "ceo" not in json.dumps(line)
    assert counted() == {"accepted": 1}


@pytest.mark.parametrize("headers", [[("x-api-key", "t0ken")], [("authorization", "Bearer wrong")], [GZIP]])
async def test_nobody_in_particular_is_told_so_before_the_body_is_read(headers, counted, lines):
    read = []

    async def receive():
        read.append(1)
        return {"type": "http.request", "body": b"{}", "more_body": False}

    sent = []

    async def send(message):
        sent.append(message)

    await make()(http_scope("POST", PATH, headers), receive, send)
    assert (sent[0]["status"], read) == (401, [])
    assert (counted(), lines()) == ({"unauthorized": 1}, [])


async def test_each_item_costs_a_token_and_the_answer_stays_202(lines, counted):
    app = make(limit_rate=0.001, limit_burst=5)
    assert (await post(app, exceptions(*"abcdefgh"))).status == 202
    assert [line["message"][-1] for line in lines()] == list("abcde")
    assert counted() == {"accepted": 5, "rate_limited": 3}
    assert (await post(app, exceptions("i", "j"))).status == 202  # not even read: counts once
    assert counted() == {"accepted": 5, "rate_limited": 4}
    assert (await post(app, b'{"kind":"error","message":"k"}', path=ERRORS)).status == 429
    assert (await post(app, exceptions("l"), ("authorization", "Bearer other"))).status == 202
    assert counted() == {"accepted": 6, "rate_limited": 5}


async def test_other_signals_cost_nothing_unless_they_are_large(counted):
    app = make(limit_rate=0.001, limit_burst=2)
    for _ in range(5):
        vitals = {"measurements": [{"type": "web-vitals", "values": {"lcp": 1}}], "events": [{"name": "x"}]}
        assert (await post(app, json.dumps(vitals).encode())).status == 202
    large = json.dumps({"logs": [{"message": "x" * MAX_ITEM_BYTES}]}).encode()
    assert (await post(app, large)).status == 202
    assert (await post(app, exceptions("a"))).status == 202
    assert (await post(app, exceptions("b"))).status == 202
    assert counted() == {"measurements": 5, "events": 5, "logs": 1, "accepted": 1, "rate_limited": 1}


async def test_noise_fingerprints_and_windows_hold_here_too(lines, counted):
    app = create_app(Settings(tokens=TOKENS, limit_fingerprints=2))
    await post(app, exceptions("ResizeObserver loop limit exceeded", "one", "one", "two", "three", "four"))
    assert counted() == {"noise": 1, "accepted": 3, "duplicate": 2}
    assert [line["fp"] == "other" for line in lines()] == [False, False, True]


async def test_the_same_key_again_is_answered_and_not_taken(lines, counted):
    app = make()
    key = ("idempotency-key", "k" * 20)
    for _ in range(3):
        assert (await post(app, exceptions("a", "b"), BEARER, key)).status == 202
    assert len(lines()) == 2
    assert counted() == {"accepted": 2, "replays": 4}
    await post(app, exceptions("a"), ("authorization", "Bearer other"), key)
    await post(app, exceptions("a"), BEARER, ("idempotency-key", "l"))
    await post(app, exceptions("a"))
    assert len(lines()) == 5


def test_keys_are_forgotten_after_a_minute_and_beyond_the_bound():
    now = [100.0]
    replays = Replays(keys=3, clock=lambda: now[0])
    assert not replays.again("a", b"1")
    now[0] += 59
    assert replays.again("a", b"1")
    assert not replays.again("b", b"1")
    now[0] += 2
    assert not replays.again("a", b"1")
    for key in (b"2", b"3", b"4"):
        assert not replays.again("a", key)
    assert len(replays) == 3
    assert not replays.again("a", b"1")
    assert not replays.again("a\ud800", b"x" * 100_000)


async def test_gzip_is_read(lines):
    assert (await post(make(), gzip.compress(exceptions("a")), BEARER, GZIP)).status == 202
    assert len(lines()) == 1


@pytest.mark.parametrize("size", [MAX_BODY_BYTES, MAX_BODY_BYTES + 1, 1 << 26])
async def test_a_zip_bomb_ends_at_the_bound(size, counted, monkeypatch):
    most = []
    made = zlib.decompressobj

    class Watched:
        def __init__(self, *given):
            self.inner = made(*given)
            self.eof, self.unused_data = False, b""

        def decompress(self, data, length):
            out = self.inner.decompress(data, length)
            most.append(len(out))
            self.eof, self.unused_data = self.inner.eof, self.inner.unused_data
            return out

    monkeypatch.setattr(zlib, "decompressobj", Watched)
    start = b'{"x":"'
    answer = await post(make(), gzip.compress(start + b" " * (size - len(start) - 2) + b'"}'), BEARER, GZIP)
    assert answer.status == (202 if size == MAX_BODY_BYTES else 413)
    assert counted() == ({} if size == MAX_BODY_BYTES else {"too_large": 1})
    assert sum(most) <= MAX_BODY_BYTES + 1


BOMB = gzip.compress(b"{}")


@pytest.mark.parametrize(
    ("body", "headers", "status", "result"),
    [
        (b"{}", [("content-length", str(MAX_BODY_BYTES + 1))], 413, "too_large"),
        (b"{}", [("content-length", "9" * 5000)], 413, "too_large"),
        (b" " * (MAX_BODY_BYTES + 1), [], 413, "too_large"),
        (b"{}", [("content-encoding", "br")], 415, "unsupported"),
        (b"{}", [("content-encoding", "gzip, gzip")], 415, "unsupported"),
        (b"{}", [GZIP, GZIP], 415, "unsupported"),
        (b"{}", [("content-type", "multipart/form-data")], 415, "unsupported"),
        (b"{}", [GZIP], 400, "malformed"),
        (b"", [GZIP], 400, "malformed"),
        (BOMB[:-1], [GZIP], 400, "malformed"),
        (BOMB + BOMB, [GZIP], 400, "malformed"),
        (zlib.compress(b"{}"), [GZIP], 400, "malformed"),
        (BOMB, [], 400, "malformed"),
        (b"", [], 400, "malformed"),
        (b"[]", [], 400, "malformed"),
        (b"[" * 200_000, [], 400, "malformed"),
        (b'{"exceptions":[{"value":' + b"[" * 8000, [], 400, "malformed"),
        (b'{"exceptions":[{"value":"\xfc"}]}', [], 400, "malformed"),
    ],
)
async def test_what_is_no_batch_is_told_so_and_counted_once(body, headers, status, result, counted):
    answer = await post(make(), body, BEARER, *headers)
    assert answer.status == status
    assert json.loads(answer.body)["detail"].endswith(".")
    assert counted() == {result: 1}


async def test_only_posts_are_batches(counted):
    assert (await request(make(), "GET", PATH, headers=[BEARER])).status == 405
    assert counted() == {}


async def test_a_page_that_closes_leaves_no_answer(counted):
    messages = [{"type": "http.request", "body": b'{"exc', "more_body": True}, {"type": "http.disconnect"}]
    sent = []

    async def receive():
        return messages.pop(0)

    async def send(message):
        sent.append(message)

    await make()(http_scope("POST", PATH, [BEARER]), receive, send)
    assert (sent, counted()) == ([], {"disconnected": 1})


async def test_the_sdks_preflight_passes_for_an_allowed_origin():
    """grafana/faro-web-sdk#386: a header of the SDK that the server doesn't know fails every preflight."""
    asked = "authorization,content-encoding,content-type,idempotency-key,traceparent,x-api-key,x-faro-session-id"
    answer = await request(
        make(allowed_origins=("https://console.example",)),
        "OPTIONS",
        PATH,
        headers=[
            ("origin", "https://console.example"),
            ("access-control-request-method", "POST"),
            ("access-control-request-headers", asked),
        ],
    )
    assert answer.status == 204
    allowed = {name.strip() for name in (answer.header("access-control-allow-headers") or "").split(",")}
    assert set(asked.split(",")) <= allowed


async def test_hostile_batches_never_make_a_5xx(lines, counted):
    rng = random.Random(7)
    app = make(limit_rate=0, limit_ceiling=0, limit_fingerprints=0, noise=())
    seen = set()
    for _ in range(400):
        answer = await post(app, _hostile(rng), BEARER)
        assert answer.status in {202, 400, 413}, answer.body
        seen.add(answer.status)
    assert {202, 400} <= seen
    assert len(lines()) == counted()["accepted"]
    assert all(line["email"] == "mina@acme.example" for line in lines())


def _hostile(rng: random.Random) -> bytes:
    def odd() -> Any:
        return rng.choice([*bodies.ODD_VALUES, *(bodies.text(rng) for _ in range(20)), {}, [{}]])

    frame = {name: odd() for name in ("filename", "function", "lineno", "colno") if rng.random() < 0.8}
    item = {"type": odd(), "value": odd(), "stacktrace": rng.choice([odd(), {"frames": [frame, odd()]}])}
    app = {"release": odd(), "version": odd(), "environment": odd()}
    batch = {
        "meta": rng.choice([odd(), {"app": rng.choice([odd(), app]), "page": rng.choice([odd(), {"url": odd()}])}]),
        "exceptions": rng.choice([odd(), [item, odd()], [item | {"trace": odd()}]]),
        rng.choice(["logs", "traces", "events", "x"]): odd(),
    }
    made = json.dumps(batch, ensure_ascii=rng.random() < 0.5).encode(errors="surrogatepass")
    if rng.random() < 0.1:
        cut = rng.randrange(len(made))
        return made[:cut] + rng.choice(bodies.RAW) + made[cut:]
    return made
