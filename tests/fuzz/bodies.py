"""Hostile bodies: JSON of the report's shape with what breaks loggers inside, and JSON that is none."""

from __future__ import annotations

import json
import random
from typing import Any

KEYS = ("kind", "message", "stack", "url", "build", "release", "trace_id", "repeat", "user", "email", "ts", "level")

FRAGMENTS = (
    # What ends a value, a line or a string somewhere.
    '"', "\\", '\\"', "'", "`", "=", " ", "\n", "\r\n", "\t", "\x00", "\x01", "\x1b[31m", "\x7f", "\x85", "\xa0",
    "\u2028", "\u2029", "\u202e", "\u2066", "\u200f", "\ufeff", "\ufffd", "\ud83d", "\udc00",
    "\ud83d\ude00", "😀", "한글", "ﷺ",
    "\\u", "\\ud83d", "\\x1b", "\\0", "\\n", "{{.message}}", "%s%n", "${jndi:ldap://x/a}", "</script>",
    # Forged fields.
    '" email="ceo@acme.example" level="debug',
    "\nts=2026-01-01T00:00:00Z level=info logger=frontend frontend-error email=x",
    " level=debug ", ' fp="0"', ' repeat=1000 ', '\\" stack="', "frontend-error", "level=info msg=ok",
    # Addresses and secrets.
    "https://c.example/assets/app-3f2a9c1b.js:10:5", "?token=s3cret#access_token=s3cret",
    "https://u:p@c.example/a?b=c:1:2",
    "/jobs/123?q=a@b.c", "Bearer abcdefgh12345678", "password=hunter2 ", "eyJhbGciOi.eyJzdWIiOi.c2lnbmF0dXJl",
    "-----BEGIN PRIVATE KEY-----", "://", "?", "#", "@", ":1:1", ":", "//", "..", "/", "&a=", ")", "(",
    "[as ", "*", "<", ">",
    # Frames.
    "\n    at save (https://c.example/app.js:10:5)", "\n    at async f (webpack-internal:///./src/a.ts?:10:5)",
    "\n    at eval (eval at foo (https://c.example/a.js:1:2), <anonymous>:1:1)", "\n    at Array.map (<anonymous>)",
    "\nsave@https://c.example/app.js:10:5", "\nasync*f/<@https://c.example/a.js line 26 > eval:1:1",
    "\nmap@[native code]",
    "\nglobal code@https://c.example/a.js:1:1", "\nx@chrome-extension://abc/content.js:1:2",
    "eval at ", " line 1 > eval",
    "\n    at chrome-extension://abc/content.js:1:2", "wasm-function[1]:0x34",
    "webkit-masked-url://hidden/:1:1", "\nat ",
    # Messages.
    "Uncaught (in promise) ", "TypeError: Cannot read properties of undefined (reading 'id')", "Script error.",
    "Unexpected token '<', \"<!DOCTYPE html>\" is not valid JSON", "ResizeObserver loop limit exceeded",
    "3f2504e0-4f89-11d3-9a0c-0305e82c3301", "deadbeefcafe", "0x1F", "1,234.56", "job_123", "a", "_", "-", "0", "9" * 30,
)  # fmt: skip

ODD_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1.5, 1e308, 10**30, [], {}, [[]], {"a": None}, float("nan"), float("inf"),
    "error", "unhandledrejection", "react", "0af7651916cd43dd8448eb211c80319c", "1000",
)  # fmt: skip

RAW = (
    b"", b"{", b"}", b"[]", b"null", b'{"message":}', b'{"message":"m"} x', b'{"a":1,}', b"\xff",
    b"\xc3", b"\xed\xa0\x80",
    b"\xef\xbb\xbf", b"\x1f\x8b\x08\x00", b"\xff\xfe", b'{"message":"\xfc"}', b'{"x":[[[[', b'{"message":1e999}',
    b'{"message":"a\nb"}', b'{"message":"\\ud83d"}', b'{"message":"\\u12"}', b'{"kind":"error","kind":"react"}',
)  # fmt: skip


def text(rng: random.Random) -> str:
    """Fragments in a row; now and then one so often that budgets and linearity are put to the test."""
    if rng.random() < 0.04:
        piece = rng.choice(FRAGMENTS)
        return rng.choice(FRAGMENTS) + piece * rng.randint(1, 12_000 // len(piece)) + rng.choice(FRAGMENTS)
    count = rng.randint(0, 12)
    pieces = [rng.choice(FRAGMENTS) for _ in range(count)]
    if rng.random() < 0.3:
        pieces.insert(rng.randint(0, count), "".join(chr(rng.choice(_PLANES)(rng)) for _ in range(rng.randint(1, 20))))
    return "".join(pieces)


_PLANES = (
    lambda rng: rng.randint(0, 0x7F),
    lambda rng: rng.randint(0, 0x2FF),
    lambda rng: rng.randint(0x2000, 0x206F),
    lambda rng: rng.randint(0xD7F0, 0xE010),
    lambda rng: rng.randint(0, 0x10FFFF),
)


def value(rng: random.Random) -> Any:
    """A value of any type, mostly text."""
    return text(rng) if rng.random() < 0.85 else rng.choice(ODD_VALUES)


def body(rng: random.Random) -> bytes:
    """One body: mostly a report that can be read, sometimes one that was damaged on its way."""
    report = {key: value(rng) for key in KEYS if rng.random() < 0.6}
    encoded = _encoded(report, rng)
    if rng.random() < 0.1:
        at = rng.randint(0, len(encoded))
        encoded = encoded[:at] + rng.choice(RAW) + encoded[at + rng.randint(0, 3) :]
    return encoded[: 16 * 1024]


def mutated(data: bytes, rng: random.Random) -> bytes:
    """``data`` with one value of the report changed; a new body when it is no JSON object."""
    try:
        report = json.loads(data)
    except (ValueError, RecursionError):
        return body(rng)
    if not isinstance(report, dict):
        return body(rng)
    key = rng.choice(KEYS)
    old = report.get(key)
    if isinstance(old, str) and rng.random() < 0.8:
        start = rng.randint(0, len(old))
        report[key] = old[:start] + rng.choice(FRAGMENTS) + old[start + rng.choice((0, 0, 1, 7, 100)) :]
    else:
        report[key] = value(rng)
    try:
        return _encoded(report, rng)
    except RecursionError:
        return body(rng)


def _encoded(report: dict[str, Any], rng: random.Random) -> bytes:
    if rng.random() < 0.5:
        try:
            # Half surrogates can't be sent as UTF-8, unless by a page that means harm.
            errors = "surrogatepass" if rng.random() < 0.02 else "strict"
            return json.dumps(report, ensure_ascii=False).encode("utf-8", errors)
        except UnicodeEncodeError:
            pass
    return json.dumps(report).encode()
