"""The route under its limits: what is refused when, and lines whose ``repeat`` sums up."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from litestar import Litestar

from ingest.app import IngestPlugin, create_app
from ingest.errors.closing import closing_line, sample
from ingest.errors.report import Report
from ingest.errors.route import PATH
from ingest.limits import Closing, Sample
from ingest.principal import Principal
from ingest.settings import Settings
from telemetry.config import ConfigError
from telemetry.metrics.registry import REGISTRY, counter
from tests.loki_grammar import detected_level, logfmt

TOKENS = {name: Principal(f"{name}@acme.example", "acme") for name in ("mina", "jun")}


class Client:
    """Sends reports straight into an application, inside its lifespan."""

    def __init__(self, app: Litestar) -> None:
        self.app = app
        self.received = 0

    async def post(self, body: bytes, token: str = "mina", **headers: str) -> tuple[int, dict[str, str], bytes]:
        sent: list[dict[str, Any]] = []
        self.received = 0

        async def receive():
            self.received += 1
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message):
            sent.append(message)

        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
            "path": PATH, "raw_path": PATH.encode(), "query_string": b"", "root_path": "",
            "client": ("192.0.2.7", 50000), "server": ("127.0.0.1", 8000),
            "headers": [
                (b"authorization", f"Bearer {token}".encode()),
                *((name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()),
            ],
        }  # fmt: skip
        await self.app(scope, receive, send)
        start, *parts = sent
        answered = {name.decode(): value.decode() for name, value in start["headers"]}
        return start["status"], answered, b"".join(part.get("body", b"") for part in parts)


def report(**fields: Any) -> bytes:
    return json.dumps({"kind": "error", "message": "m", **fields}).encode()


def app_with(**settings: Any) -> Litestar:
    return create_app(Settings(tokens=TOKENS, **settings))


@pytest.fixture
def lines(caplog):
    """The fields of the lines logged so far; each is read as Loki reads it, and found to be an error."""
    caplog.set_level(logging.ERROR, "frontend")

    def read() -> list[dict[str, str]]:
        found = [record.ready_line.line for record in caplog.records if record.name == "frontend"]
        assert {detected_level(line) for line in found} <= {"error"}
        return [logfmt(line, strict=True) for line in found]

    return read


@pytest.fixture
def counted():
    """How ``frontend_reports_total`` has moved since the test began."""

    def now() -> dict[str, float]:
        samples = [sample for family in counter("frontend_reports_total").metric.collect() for sample in family.samples]
        return {each.labels["result"]: each.value for each in samples if each.name == "frontend_reports_total"}

    before = now()
    return lambda: {name: value - before.get(name, 0) for name, value in now().items() if value != before.get(name, 0)}


async def test_a_principal_beyond_its_rate_is_429_before_its_body_is_read(counted):
    app = app_with(limit_burst=3, dedupe_window=0)
    client = Client(app)
    async with app.lifespan():
        assert [(await client.post(report()))[0] for _ in range(3)] == [204] * 3
        status, headers, body = await client.post(report(), content_length="99999999")
        assert (status, headers["retry-after"], client.received) == (429, "1", 0)
        assert headers["content-type"] == "application/problem+json"
        problem = json.loads(body)
        assert problem["status"] == 429
        assert "try again in 1 s." in problem["detail"]
        assert (await client.post(report(), token="jun"))[0] == 204
    assert counted() == {"accepted": 4, "rate_limited": 1}


async def test_strangers_take_no_token_and_are_not_told_about_limits(counted):
    app = app_with(limit_burst=1, limit_ceiling=1)
    client = Client(app)
    async with app.lifespan():
        for _ in range(5):
            assert (await client.post(report(), token="nobody"))[0] == 401
        assert (await client.post(report()))[0] == 204
    assert counted() == {"unauthorized": 5, "accepted": 1}


async def test_the_ceiling_holds_for_all_together(counted):
    app = app_with(limit_rate=0, limit_ceiling=2, dedupe_window=0)
    client = Client(app)
    async with app.lifespan():
        statuses = [(await client.post(report(), token=token))[0] for token in ("mina", "jun", "mina", "jun")]
    assert statuses == [204, 204, 429, 429]
    assert counted() == {"accepted": 2, "ceiling": 2}


async def test_repeats_are_counted_and_told_in_one_line_at_the_end(lines, counted):
    app = app_with()
    client = Client(app)
    stack = "TypeError: x is undefined\n    at save (https://console.example/app.js:10:5)"
    said = {"stack": stack, "url": "https://console.example/jobs?q=1", "build": "production", "release": "1.2"}
    async with app.lifespan():
        for repeat in (3, 1, 1000, 1):
            status, _, _ = await client.post(
                report(
                    message="TypeError: x is undefined",
                    repeat=repeat,
                    trace_id="0af7651916cd43dd8448eb211c80319c",
                    **said,
                )
            )
            assert status == 204
        assert len(lines()) == 1
    first, last = lines()
    assert [line["repeat"] for line in (first, last)] == ["3", "1002"]
    same = ("level", "logger", "email", "workspace", "kind", "url", "build", "fp", "release", "message")
    assert {name: first[name] for name in same} == {name: last[name] for name in same}
    assert "console.example/app.js" in first["stack"]
    assert not last.get("stack")
    assert "trace_id" not in last
    assert counted() == {"accepted": 1, "duplicate": 3}


async def test_beyond_the_cap_errors_are_one_other(lines, counted):
    app = app_with(limit_fingerprints=2)
    client = Client(app)
    async with app.lifespan():
        for word in ("alpha", "beta", "gamma", "delta", "alpha"):
            await client.post(report(message=f"no {word} here"))
    found = lines()
    assert [line["fp"] for line in found].count("other") == 2
    assert len({line["fp"] for line in found}) == 3
    assert sum(int(line["repeat"]) for line in found) == 5
    assert counted() == {"accepted": 3, "duplicate": 2}


async def test_noise_opens_no_window_and_is_counted_by_what_it_is(lines, counted):
    app = app_with(limit_fingerprints=1)
    client = Client(app)
    name = {"reason": "script_error"}
    before = REGISTRY.get_sample_value("frontend_noise_total", name) or 0.0
    async with app.lifespan():
        assert (await client.post(report(message="Script error.")))[0] == 204
        assert (await client.post(report(message="real")))[0] == 204
    assert [line["message"] for line in lines()] == ["real"]
    assert counted() == {"noise": 1, "accepted": 1}
    assert REGISTRY.get_sample_value("frontend_noise_total", name) == before + 1


async def test_noise_can_be_kept(lines):
    app = app_with(noise="keep")
    async with app.lifespan():
        await Client(app).post(report(message="Script error."))
    assert [line["message"] for line in lines()] == ["Script error."]


async def test_the_plugin_closes_windows_in_a_hosts_application(lines):
    async def signed_in(scope):
        return TOKENS["mina"]

    app = Litestar(plugins=[IngestPlugin(Settings(), resolver=signed_in)], logging_config=None)
    client = Client(app)
    async with app.lifespan():
        for _ in range(3):
            await client.post(report())
    assert [line["repeat"] for line in lines()] == ["1", "2"]


HOSTILE = [
    "x" * 20_000,
    '" email="ceo@b.c" y="',
    "\ud83d half, \ufffd lost, \u202e turned, \x00 nul\nsecond line",
    "password=hunter2 https://a.example/p?token=s3cret#f",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_closing_line_is_as_safe_as_any(text):
    principal = Principal("mina@acme.example", "acme")
    said = sample(Report(kind="react", message=text, stack=text, url="/jobs?token=s3cret", build="production"))
    assert len(said.message.encode()) <= 1024
    key = (principal.email, principal.workspace, "react", "f" * 16)
    line = closing_line(Closing(key, 12_345_678, said, "expired"), 1.7e9).line
    fields = logfmt(line, strict=True)
    assert (fields["email"], fields["repeat"], fields["fp"]) == ("mina@acme.example", "12345678", "f" * 16)
    assert fields["message"] == said.message
    assert len(line.encode()) < 8192
    assert "hunter2" not in line
    assert "s3cret" not in line


def test_a_closing_line_of_an_unknown_kind_says_other():
    assert ' kind="other" ' in closing_line(Closing(("e", "w", "nonsense", "f"), 1, Sample(), "adopted"), 0.0).line


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("limit_rate", -1),
        ("limit_burst", 0),
        ("dedupe_window", 3600),
        ("noise", "loud"),
        ("store_url", "http://valkey:6379"),
        ("store_url", "redis://"),
        ("store_url", "redis://valkey:6379/zero"),
        ("store_url", "redis://valkey:6379/0?socket_timeout=99"),
        ("store_url", "redis://valkey:notaport"),
    ],
)
def test_wrong_limits_do_not_start(name, value):
    with pytest.raises(ConfigError) as refused:
        Settings(**{name: value})
    assert name in str(refused.value)


@pytest.mark.parametrize(
    "url", ["redis://valkey", "redis://:secret@valkey:6379/0", "rediss://user:secret@[::1]:6380/15"]
)
def test_a_stores_password_is_not_shown(url):
    assert "secret" not in repr(Settings(store_url=url))
