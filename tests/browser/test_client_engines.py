"""The core once in Firefox and in WebKit, for what differs there: stacks, the words of rejections, the page's end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.backends.process import eventually
from tests.browser import engines
from tests.browser.conftest import absent
from tests.browser.site import STRICT, TOKEN, Site, lines_kept, running
from tests.loki_grammar import logfmt

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]


@pytest.fixture(scope="module", params=["firefox", "webkit"])
def engine(request, tmp_path_factory) -> Iterator[Any]:
    reason = getattr(engines, f"missing_{request.param}")()
    if reason:
        absent(reason)
    with getattr(engines, request.param)(tmp_path_factory.mktemp(request.param)) as engine:
        engine.name = request.param
        yield engine


@pytest.fixture(scope="module")
def service() -> Iterator[Site]:
    with running({}, feedback_url="https://ask.example/console") as site:
        yield site


@pytest.fixture
def site(service: Site, engine: Any) -> Site:
    engine.open("about:blank")
    service.settled(0.2)
    service.reset()
    service.policy = STRICT
    engine.open(f"{service.url}/pages/plain.html?token=s3cret#access_token=s3cret")
    assert eventually(lambda: engine.run("return 'ready' in document.documentElement.dataset"))
    return service


# The engines' own words for reading a property of undefined.
WORDS = {
    "firefox": r"TypeError: (can't access property \"total\", )?order is undefined",
    "webkit": r"TypeError: undefined is not an object \(evaluating 'order\.total'\)",
}


def test_an_uncaught_error_has_name_and_message_in_front_of_the_engines_frames(engine, site):
    with lines_kept() as lines:
        engine.run("breaks.error()")
        (report,) = site.wait(1)
        assert eventually(lambda: lines)
    assert re.match(WORDS[engine.name], report["message"])
    head, first, second, *_ = report["stack"].splitlines()
    assert head == report["message"]
    place = re.escape(f"{site.url}/pages/breaks.js") + r":\d+:\d+"
    assert re.fullmatch(f"total@{place}", first)
    assert re.fullmatch(f"save@{place}", second)
    assert "s3cret" not in report["stack"] + report["url"]
    fields = logfmt(lines[0], strict=True)
    assert (fields["kind"], fields["url"], fields["message"]) == ("error", "/pages/plain.html", report["message"])
    assert fields["stack"] == report["stack"]
    assert re.fullmatch(r"[0-9a-f]{12,16}", fields["fp"])


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("new RangeError('결제 창이 닫혔습니다')", "RangeError: 결제 창이 닫혔습니다"),
        ("undefined", "undefined"),
        ("0", "0"),
        ("Symbol('s')", "Symbol(s)"),
        ("Object.create(null)", "[object Object] with keys "),
        ("new Proxy({}, { get() { throw 1 }, ownKeys() { throw 2 } })", "unreadable value"),
        ("new DOMException('gone', 'AbortError')", "AbortError: gone"),
        ("window", "[object Window] with keys "),
    ],
)
def test_whatever_is_rejected(engine, site, reason, message):
    engine.run(f"breaks.rejection({reason})")
    (report,) = site.wait(1)
    assert report["kind"] == "unhandledrejection"
    assert report["message"].startswith(message)
    assert len(site.settled(0.3)) == 1


def test_a_bare_value_that_was_thrown_is_placed(engine, site):
    engine.run("breaks.thrown('offline')")
    (report,) = site.wait(1)
    assert report["message"].endswith("offline")
    assert report["stack"].startswith(f"{report['message']}\n    at {site.url}/pages/breaks.js:")


def test_a_script_that_can_not_be_parsed_is_named(engine, site):
    engine.run("""
        const script = document.createElement("script");
        script.src = "/pages/cut-off.js?token=s3cret";
        document.head.append(script);
    """)
    (report,) = site.wait(1)
    assert report["message"].startswith("SyntaxError: ")
    assert report["stack"].splitlines()[-1].startswith(f"    at {site.url}/pages/cut-off.js:")


def test_a_storm_is_told_at_the_pages_end_with_the_token(engine, site):
    engine.run("for (let n = 0; n < 300; n++) reportError(new Error(n % 2 ? 'A' : 'B'))")
    site.wait(2)
    engine.open("about:blank")
    reports = site.wait(4)
    assert [report["repeat"] for report in reports] == [1, 1, 149, 149]
    assert all(post.headers["authorization"] == f"Bearer {TOKEN}" for post in site.posts)


def test_a_thousand_different_errors_stay_within_the_cap(engine, site):
    engine.run("breaks.many(1000)")
    assert 10 <= len(site.settled(0.5, count=10)) <= 12


def test_without_a_token_the_page_ends_with_a_beacon(engine, site):
    engine.run("document.cookie = 'session=mina; path=/; samesite=lax'; breaks.reinstall()")
    assert eventually(lambda: engine.run("return document.documentElement.dataset.ready === 'again'"))
    with lines_kept() as lines:
        engine.run("for (let n = 0; n < 3; n++) reportError(new Error('again'))")
        site.wait(1)
        engine.open("about:blank")
        site.wait(2)
        assert eventually(lambda: len(lines) == 2)
    assert [post.report["repeat"] for post in site.posts] == [1, 2]
    assert site.posts[1].headers["content-type"].lower() == "text/plain;charset=utf-8"
    assert "session=mina" in site.posts[1].headers["cookie"]


def test_the_feedback_link(engine, site):
    engine.run("breaks.askForFeedback()")
    assert eventually(lambda: engine.run("return globalThis.link ?? null")) == "https://ask.example/console"
