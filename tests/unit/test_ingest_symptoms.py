"""Public bug reports about other collectors, replayed against the whole service: each has its right outcome here.

The names are the symptoms as they were reported, the links where. What needs a browser is in ``tests/browser``,
framing and disconnects on real sockets in ``tests/integration/test_ingest.py``.
"""

from __future__ import annotations

import json
import logging

import pytest
from litestar.testing import TestClient

import telemetry
from ingest.app import create_app
from ingest.errors.route import MAX_BODY_BYTES, PATH
from ingest.principal import Principal
from ingest.settings import Settings
from tests.loki_grammar import detected_level, logfmt, logfmt_expressions

ORIGIN = "https://console.example"
SETTINGS = Settings(
    tokens={"t0ken": Principal("mina@acme.example", "acme")},
    allowed_origins=(ORIGIN,),
    limit_rate=0,
    limit_ceiling=0,
    limit_fingerprints=0,
    dedupe_window=0,
)
CONTAINER_SPLIT = 16 * 1024


@pytest.fixture(scope="module")
def client():
    with TestClient(create_app(SETTINGS), raise_server_exceptions=True) as client:
        yield client


@pytest.fixture
def send(client, caplog):
    """Send a body; the status, and what Loki reads of the line if there is one."""
    caplog.set_level(logging.ERROR, "frontend")

    def send(body: bytes, content_type: str | None = "application/json", **headers: str):
        caplog.clear()
        headers |= {"authorization": "Bearer t0ken"} | ({"content-type": content_type} if content_type else {})
        answer = client.post(PATH, content=body, headers=headers)
        lines = [record.ready_line.line for record in caplog.records if record.name == "frontend"]
        if not lines:
            return answer.status_code, None
        (line,) = lines
        assert len(line.encode()) < CONTAINER_SPLIT / 2
        assert detected_level(line) == "error"
        fields = logfmt(line, strict=True)
        # Both forms of the parser agree, whichever of equal keys they prefer.
        assert logfmt_expressions(line, *fields, strict=True) == fields
        assert (fields["email"], fields["workspace"]) == ("mina@acme.example", "acme")
        return answer.status_code, fields

    return send


def test_one_half_emoji_drops_the_whole_container(send):
    """https://github.com/getsentry/relay/issues/5833"""
    status, fields = send(b'{"kind":"error","message":"half \\ud83d","stack":"\\udc00 at f"}')
    assert (status, fields["message"], fields["stack"]) == (204, "half ?", "? at f")


def test_bad_utf8_escapes_as_another_error(send):
    """https://github.com/msgspec/msgspec/issues/714"""
    assert send(b'{"message":"\xfc"}') == (400, None)


def test_bad_utf8_in_a_key_that_nobody_reads_loses_nothing(send):
    status, fields = send(b'{"x":"\xfc","message":"m"}')
    assert (status, fields["message"]) == (204, "m")


@pytest.mark.parametrize("body", [b'{"kind":"a","x":' + b"[" * 8000, b'{"message":' + b'{"a":' * 3000, b"[" * 16000])
def test_nested_json_far_below_the_cap_gives_500(send, body):
    """https://github.com/flop-labs/technocore-chat/issues/130"""
    assert len(body) <= MAX_BODY_BYTES
    assert send(body) == (400, None)


def test_one_replacement_character_empties_the_field(send):
    """https://github.com/grafana/loki/issues/13963"""
    status, fields = send('{"message":"a\ufffdb"}'.encode())
    assert (status, fields["message"]) == (204, "a?b")


def test_a_raw_newline_in_quotes_is_parsed_only_without_an_escape(send):
    """https://github.com/grafana/loki/issues/3927"""
    assert send(json.dumps({"message": "a\\b\nc"}).encode())[1]["message"] == "a\\b\nc"
    assert send(b'{"message":"a\nb"}')[1]["message"] == "a\nb"


@pytest.mark.parametrize("code", [*range(0x20), 0x7F, 0x85])
def test_ascii_control_codes_make_the_entire_query_fail(send, code):
    """https://github.com/grafana/loki/issues/6161, /3650"""
    status, fields = send(json.dumps({"message": f"a{chr(code)}b", "stack": chr(code), "build": chr(code)}).encode())
    assert (status, fields["message"]) == (204, f"a{chr(code)}b")


def test_an_equals_sign_in_a_value_is_a_parser_error(send):
    """https://github.com/grafana/loki/issues/3467"""
    status, fields = send(b'{"url":"/r=a=b","message":"`a=b`","build":"=","release":"a=b"}')
    assert (status, fields["url"], fields["message"]) == (204, "/r=a=b", "`a=b`")


@pytest.mark.parametrize("piece", ["\\u0001", "\\u202e", '\\"', "\\\\", "한", "a"])
def test_lines_over_16_kib_come_back_as_broken_entries(send, piece):
    """https://github.com/grafana/alloy/issues/4625, https://github.com/grafana/loki/issues/12262"""
    text = piece * (3900 // len(piece.encode()))
    status, fields = send(f'{{"message":"{text}","stack":"{text}{text}","url":"/{text}"}}'.encode())
    assert status == 204
    assert set(fields["cut"].replace(",", ":").split(":")) >= {"url", "message", "stack"}


def test_a_json_beacon_dies_in_its_preflight(send):
    """https://github.com/getprobo/probo/issues/1714, https://github.com/w3c/beacon/issues/10"""
    assert send(b'{"message":"m"}', "text/plain;charset=UTF-8")[1]["message"] == "m"
    assert send(b'{"message":"m"}', None)[1]["message"] == "m"


def test_one_new_header_makes_all_preflights_fail(client):
    """https://github.com/grafana/faro-web-sdk/issues/386"""
    asked = {"access-control-request-method": "POST", "access-control-request-headers": "content-type,traceparent"}
    answer = client.options(PATH, headers={"origin": ORIGIN, **asked})
    assert answer.status_code == 204
    allowed = answer.headers["access-control-allow-headers"].split(", ")
    assert {"content-type", "traceparent", "tracestate", "baggage", "authorization"} <= set(allowed)


def test_the_budget_is_bytes_and_not_utf16_units(send):
    """https://github.com/getsentry/sentry-javascript/issues/1464: 5,461 Hangul characters are 16,391 bytes of JSON."""
    body = json.dumps({"m": "한" * 5461}, ensure_ascii=False, separators=(",", ":")).encode()
    assert (len(body), len(body.decode())) == (16_391, 5_469)
    assert send(body) == (413, None)
    for _ in range(5):  # a page that closes sends what it has
        status, fields = send(json.dumps({"message": "한" * 4990}, ensure_ascii=False).encode())
        assert status == 204
        assert fields["message"] == "한" * 341
        assert fields["cut"] == "message:14970"


@pytest.mark.parametrize("field", ["url", "message", "stack"])
def test_tokens_in_addresses_are_sent_unfiltered(send, field):
    """https://github.com/getsentry/sentry-javascript/issues/23049"""
    status, fields = send(json.dumps({field: "at https://c.example/r?token=s3cret#access_token=s3cret"}).encode())
    assert status == 204
    assert "s3cret" not in json.dumps(fields)


@pytest.mark.parametrize("body", [b'{"a":1,}', b"", b"[]", b"not json", b'{"message":"m"} x', b'{"a":'])
def test_a_malformed_body_is_500_and_its_answer_has_no_cors_headers(client, body):
    """https://github.com/litestar-org/litestar/issues/1047, /103"""
    answer = client.post(PATH, content=body, headers={"authorization": "Bearer t0ken", "origin": ORIGIN})
    assert answer.status_code == 400
    assert answer.headers["access-control-allow-origin"] == ORIGIN
    assert answer.json()["detail"].count(".") == 1


def test_413_can_be_read_by_the_page(client):
    answer = client.post(PATH, content=b"x" * 20_000, headers={"authorization": "Bearer t0ken", "origin": ORIGIN})
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (413, ORIGIN)


def test_naive_quoting_breaks_on_the_commonest_json_error(send):
    message = "SyntaxError: Unexpected token '<', \"<!DOCTYPE html>\" is not valid JSON"
    status, fields = send(json.dumps({"message": message}).encode())
    assert (status, fields["message"]) == (204, message)


def test_a_message_names_another_user(send):
    """Loki's two parsers prefer the first and the last of equal keys: naive quoting shows two users."""
    forged = 'x" email="ceo@b.c" workspace="b" y="'
    status, fields = send(json.dumps({"message": forged, "email": "ceo@b.c", "user": {"email": "ceo@b.c"}}).encode())
    assert (status, fields["message"]) == (204, forged)


@pytest.mark.parametrize("value", ["null", "17", "1.5", "true", "[]", '{"a":1}', "NaN", "-Infinity"])
def test_a_message_that_is_no_text_loses_the_report(send, value):
    status, fields = send(f'{{"kind":"error","message":{value},"stack":{value}}}'.encode())
    assert status == 204
    assert fields.get("message", "") == ("" if value == "null" else value)


def test_the_last_of_equal_keys_counts_and_a_byte_order_mark_is_skipped(send):
    status, fields = send(b'\xef\xbb\xbf{"kind":"react","message":"a","kind":"error","message":"b"}')
    assert (status, fields["kind"], fields["message"]) == (204, "error", "b")


def test_a_root_handler_at_debug_logs_its_own_requests():
    """https://github.com/GreyZmeem/python-logging-loki/issues/18: with Loki down, each failure made the next."""
    root = logging.getLogger()
    with telemetry.setup(service="t", loki_url="http://127.0.0.1:9", log_level="DEBUG", stdout="off", linger=0.0,
                         shutdown_timeout=0.3, sigterm=False) as running:  # fmt: skip
        assert root.level == logging.DEBUG
        for number in range(5):
            logging.getLogger("app").debug("line %d", number)
        running.flush(0.5)
        (row,) = [row for row in running.health().rows if row.sink == "loki"]
        assert row.emitted == 5
