"""The route: who is asked first, what is counted, and what each kind of bad request is told."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from typing import Any

import pytest

from ingest.app import create_app
from ingest.errors.route import MAX_BODY_BYTES, PATH, RESULTS
from ingest.principal import Principal
from ingest.settings import Settings
from telemetry.metrics.registry import REGISTRY

TOKEN = "t0ken"
SETTINGS = Settings(
    tokens={
        TOKEN: Principal("mina@acme.example", "acme", ("member",)),
        "scraper": Principal("scraper@acme.example", "", ("metrics",)),
    },
    feedback_url="https://acme.example/feedback",
)
BEARER = ("authorization", f"Bearer {TOKEN}")
GONE = {"type": "http.disconnect"}


@dataclass
class Exchange:
    """A request whose body comes in ``chunks``, and what the server was told to send."""

    chunks: list[Any]
    sent: list[dict[str, Any]] = field(default_factory=list)
    received: int = 0

    async def receive(self) -> dict[str, Any]:
        self.received += 1
        chunk = self.chunks.pop(0)
        return (
            chunk
            if isinstance(chunk, dict)
            else {"type": "http.request", "body": chunk, "more_body": bool(self.chunks)}
        )

    async def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    @property
    def status(self) -> int:
        return self.sent[0]["status"]

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.sent[0]["headers"]}

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent[1:])


async def ask(
    *chunks: Any, headers: list[tuple[str, str]] = (BEARER,), method: str = "POST", path: str = PATH, **settings: Any
) -> Exchange:
    app = create_app(Settings(**({name: getattr(SETTINGS, name) for name in SETTINGS.__struct_fields__} | settings)))
    exchange = Exchange(list(chunks) or [b""])
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in headers],
        "client": ("192.0.2.7", 50000),
        "server": ("127.0.0.1", 8000),
    }
    await app(scope, exchange.receive, exchange.send)
    return exchange


@pytest.fixture
def lines(caplog):
    """The lines that the route has logged."""
    caplog.set_level(logging.ERROR, "frontend")
    return lambda: [record.ready_line.line for record in caplog.records if record.name == "frontend"]


@pytest.fixture
def counted():
    """How the counters have moved since the test began."""

    def read(name: str, label: str, values) -> dict[str, float]:
        return {value: REGISTRY.get_sample_value(name, {label: value}) or 0.0 for value in values}

    def now() -> dict[str, float]:
        return read("frontend_reports_total", "result", RESULTS) | read(
            "frontend_errors_total", "kind", ["error", "unhandledrejection", "react", "other"]
        )

    before = now()
    return lambda: {key: value - before[key] for key, value in now().items() if value != before[key]}


def report(**fields: Any) -> bytes:
    return json.dumps({"kind": "error", "message": "m", **fields}).encode()


async def test_a_report_is_one_line_and_204(lines, counted):
    answer = await ask(report(repeat=3))
    assert (answer.status, answer.body) == (204, b"")
    assert len(lines()) == 1
    assert ' email="mina@acme.example" workspace="acme" kind="error" ' in lines()[0]
    assert counted() == {"accepted": 1, "error": 3}


async def test_the_record_is_an_error_of_the_logger_frontend(caplog):
    await ask(report(trace_id="0af7651916cd43dd8448eb211c80319c"))
    (record,) = [record for record in caplog.records if record.name == "frontend"]
    assert record.levelno == logging.ERROR
    assert record.ready_line.trace_id == "0af7651916cd43dd8448eb211c80319c"


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("authorization", "Bearer wrong")],
        [("authorization", f"Basic {TOKEN}")],
        [BEARER, BEARER],
        [("content-length", "99999999")],
        [("content-encoding", "gzip")],
        [("transfer-encoding", "chunked")],
        [("cookie", f"token={TOKEN}")],
    ],
)
async def test_401_comes_before_the_body_is_read(headers, lines, counted):
    answer = await ask(b"[" * 50_000, headers=headers)
    assert answer.status == 401
    assert answer.received == 0
    assert answer.headers["www-authenticate"] == "Bearer"
    assert lines() == []
    assert counted() == {"unauthorized": 1}


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"])
async def test_other_methods_are_405(method, lines, counted):
    answer = await ask(method=method, headers=[])
    assert answer.status == 405
    assert answer.headers["allow"] == "POST"
    assert answer.received == 0
    assert (lines(), counted()) == ([], {})


def of_size(size: int) -> bytes:
    return report(stack="s" * (size - len(report(stack=""))))


@pytest.mark.parametrize("pieces", [1, 2, 7, MAX_BODY_BYTES])
@pytest.mark.parametrize(("size", "status"), [(MAX_BODY_BYTES, 204), (MAX_BODY_BYTES + 1, 413)])
async def test_the_cap_counts_bytes_that_arrive(pieces, size, status, counted):
    # https://github.com/nginx/nginx/issues/1522: chunked bodies skip a gate that looks at Content-Length
    body = of_size(size)
    assert len(body) == size
    step = -(-size // pieces)
    answer = await ask(*(body[at : at + step] for at in range(0, size, step)))
    assert answer.status == status
    assert counted() == ({"accepted": 1, "error": 1} if status == 204 else {"too_large": 1})


@pytest.mark.parametrize(
    ("length", "status"), [("16384", 204), ("016384", 204), ("16385", 413), ("9" * 5000, 413), ("x", 204), ("", 204)]
)
async def test_a_declared_length_beyond_the_cap_is_refused_unread(length, status):
    answer = await ask(report(), headers=[BEARER, ("content-length", length)])
    assert answer.status == status
    assert answer.received == (status == 204)


async def test_what_lies_beyond_the_cap_is_not_waited_for():
    answer = await ask(b"x" * 20_000, *[b"x" * 20_000] * 50)
    assert (answer.status, answer.received) == (413, 1)


@pytest.mark.parametrize("encoding", ["gzip", "br", "deflate", "zstd", "identity, gzip", "GZIP"])
async def test_compressed_bodies_are_415(encoding, counted):
    answer = await ask(report(), headers=[BEARER, ("content-encoding", encoding)])
    assert answer.status == 415
    assert answer.received == 0
    assert counted() == {"unsupported": 1}


@pytest.mark.parametrize("encoding", ["", "identity", " Identity "])
async def test_identity_is_no_encoding(encoding):
    assert (await ask(report(), headers=[BEARER, ("content-encoding", encoding)])).status == 204


@pytest.mark.parametrize(
    "content_type",
    [None, "", "application/json", "Application/JSON; charset=utf-8", "text/plain", "text/plain;charset=UTF-8"],
)
async def test_json_comes_as_json_as_a_beacons_text_or_without_a_type(content_type):
    # https://github.com/w3c/beacon/issues/10: only plain text passes without a preflight
    headers = [BEARER] + ([("content-type", content_type)] if content_type is not None else [])
    assert (await ask(report(), headers=headers)).status == 204


@pytest.mark.parametrize(
    "content_type",
    ["application/x-www-form-urlencoded", "multipart/form-data", "multipart/form-data; boundary=x", "text/html",
     "application/csp-report", "application/jsonp", "text/plainer", "x"],
)  # fmt: skip
async def test_other_content_types_are_415(content_type, counted):
    answer = await ask(report(), headers=[BEARER, ("content-type", content_type)])
    assert (answer.status, answer.received) == (415, 0)
    assert answer.headers["accept-post"] == "application/json, text/plain"
    assert json.loads(answer.body)["detail"].count(".") == 1
    assert counted() == {"unsupported": 1}


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"a":1,}', b'{"message":"\xfc"}', b'{"kind":"a","x":' + b"[" * 8000, b"\x1f\x8b\x08"]
)
async def test_unreadable_bodies_are_told_in_one_sentence(body, lines, counted):
    # https://github.com/flop-labs/technocore-chat/issues/130, https://github.com/litestar-org/litestar/issues/1047
    answer = await ask(body)
    assert answer.status == 400
    assert answer.headers["content-type"] == "application/problem+json"
    problem = json.loads(answer.body)
    assert problem.keys() == {"title", "status", "detail"}
    assert problem["detail"].endswith(".")
    assert problem["detail"].count(".") == 1
    assert (lines(), counted()) == ([], {"malformed": 1})


@pytest.mark.parametrize("chunks", [[GONE], [{"type": "http.request", "body": b'{"kind"', "more_body": True}, GONE]])
async def test_a_client_that_leaves_is_counted_and_nothing_else(chunks, lines, counted, caplog):
    answer = await ask(*chunks)
    assert answer.sent == []
    assert caplog.records == []
    assert counted() == {"disconnected": 1}


EXTENSION = "TypeError: x\n    at chrome-extension://abc/content.js:1:2"


async def test_noise_is_answered_counted_and_dropped(lines, counted):
    for fields in (
        {"message": "Script error."},
        {"message": "ResizeObserver loop limit exceeded"},
        {"stack": EXTENSION},
    ):
        assert (await ask(report(**fields))).status == 204
    assert (lines(), counted()) == ([], {"noise": 3})


async def test_noise_can_be_kept_by_name(lines, counted):
    assert (await ask(report(message="Script error."), noise=("extension",))).status == 204
    assert (await ask(report(stack=EXTENSION), noise=("extension",))).status == 204
    assert len(lines()) == 1
    assert counted() == {"accepted": 1, "noise": 1, "error": 1}


async def test_a_websocket_is_closed():
    app = create_app(SETTINGS)
    exchange = Exchange([{"type": "websocket.connect"}])
    scope = {
        "type": "websocket", "asgi": {"version": "3.0"}, "scheme": "ws", "path": PATH, "raw_path": PATH.encode(),
        "query_string": b"", "root_path": "", "headers": [], "subprotocols": [],
    }  # fmt: skip
    await app(scope, exchange.receive, exchange.send)
    assert [message["type"] for message in exchange.sent] == ["websocket.close"]


async def test_the_console_config_needs_no_token():
    answer = await ask(method="GET", path="/api/config", headers=[])
    assert (answer.status, json.loads(answer.body)) == (200, {"feedback_url": "https://acme.example/feedback"})
    answer = await ask(method="GET", path="/api/config", headers=[], feedback_url=None)
    assert json.loads(answer.body) == {"feedback_url": None}


@pytest.mark.parametrize(
    ("token", "status"), [(None, 401), ("wrong", 401), (TOKEN, 403), ("scraper", 503)]
)  # 503: let in, and no telemetry runs in this test
async def test_metrics_can_be_kept_from_strangers(token, status):
    headers = [("authorization", f"Bearer {token}")] if token else []
    assert (await ask(method="GET", path="/metrics", headers=headers, metrics_public=False)).status == status
    assert (await ask(method="GET", path="/metrics", headers=headers)).status == 503


def test_the_openapi_document_describes_the_route():
    schema = create_app(SETTINGS).openapi_schema.to_schema()
    operation = schema["paths"][PATH]["post"]
    assert set(operation["responses"]) == {"204", "400", "401", "403", "405", "413", "415", "429", "503"}
    assert operation["security"] == [{"bearer": []}]
    assert schema["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"
    assert "/api/config" in schema["paths"]


def test_no_route_holds_the_words_that_operators_search_for():
    assert not [route.path for route in create_app(SETTINGS).routes if "frontend-error" in route.path]
