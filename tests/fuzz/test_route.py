"""Hostile bodies through the whole route: each is answered, never with a 5xx, and counted once."""

from __future__ import annotations

import logging
import os
import random
from typing import Any

from ingest.app import create_app
from ingest.errors.route import PATH, RESULTS
from ingest.principal import Principal
from ingest.settings import Settings
from telemetry.metrics.registry import REGISTRY
from tests.fuzz import bodies

BODIES = int(os.environ.get("HOSTILE_BODIES", "2000"))
SETTINGS = Settings(
    tokens={"t0ken": Principal("mina@acme.example", "acme")}, limit_rate=0, limit_ceiling=0, dedupe_window=0
)
SCOPE = {
    "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http", "path": PATH,
    "raw_path": PATH.encode(), "query_string": b"", "root_path": "", "client": ("192.0.2.7", 5), "server": ("x", 80),
}  # fmt: skip
TYPES = (b"application/json", b"text/plain;charset=UTF-8", b"", b"application/x-www-form-urlencoded", b"\xff")


class Lines(logging.Handler):
    """Counts lines, without keeping them."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        assert "\n" not in record.ready_line.line
        self.count += 1


def counts() -> dict[str, float]:
    return {
        result: REGISTRY.get_sample_value("frontend_reports_total", {"result": result}) or 0.0 for result in RESULTS
    }


async def test_every_hostile_body_is_answered_and_counted_once() -> None:
    app: Any = create_app(SETTINGS)
    rng = random.Random(BODIES)
    lines, logger = Lines(), logging.getLogger("frontend")
    logger.addHandler(lines)
    before, answers = counts(), dict.fromkeys((204, 400, 413, 415), 0)
    try:
        for number in range(BODIES):
            body = bodies.body(rng) + (b" " * 20_000 if number % 97 == 0 else b"")
            pieces = [body[: len(body) // 2], body[len(body) // 2 :]]
            status = await ask(app, pieces, rng.choice(TYPES) if number % 10 == 0 else TYPES[number % 3])
            answers[status] += 1
    finally:
        logger.removeHandler(lines)
    counted = {name: value - before[name] for name, value in counts().items() if value != before[name]}
    assert sum(counted.values()) == BODIES == sum(answers.values())
    assert answers == {
        204: counted["accepted"] + counted["noise"],
        400: counted["malformed"],
        413: counted["too_large"],
        415: counted["unsupported"],
    }
    assert lines.count == counted["accepted"]
    assert min(answers.values()) > 0


async def ask(app: Any, pieces: list[bytes], content_type: bytes) -> int:
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        piece = pieces.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(pieces)}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    headers = [(b"authorization", b"Bearer t0ken"), (b"content-type", content_type)]
    await app({**SCOPE, "headers": headers}, receive, send)
    return sent[0]["status"]
