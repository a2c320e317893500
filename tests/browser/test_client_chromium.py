"""The client in a real Chromium, against the real service: what a broken page sends, and what it never does."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from ingest.errors.route import MAX_BODY_BYTES, PATH
from tests.backends.process import eventually
from tests.browser.site import MINA, STRICT, TOKEN, Site, lines_kept, running
from tests.loki_grammar import logfmt
from tests.pace import fastest

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

WITH_COOKIE = "{ getToken: undefined }"


@pytest.fixture(scope="module")
def service() -> Iterator[Site]:
    with running({}, feedback_url="https://ask.example/console") as site:
        yield site


@pytest.fixture
def site(service: Site) -> Site:
    service.reset()
    return service


@pytest.fixture
def page(page: Page) -> Page:
    """The page; whatever the client itself throws would show here."""
    page.context.set_default_timeout(10_000)
    return page


def visit(page: Page, site: Site, options: str = "{}", path: str = "/pages/plain.html", more: str = "") -> None:
    """Open the page with these options of ``install`` (JavaScript)."""
    page.add_init_script(f"globalThis.options = {options}; {more}")
    page.goto(site.url + path)
    page.wait_for_selector("html[data-ready]")


def sign_in(page: Page, site: Site) -> None:
    """The session cookie of the host, as the console's own log-in sets it."""
    page.context.add_cookies([{"name": "session", "value": "mina", "url": site.url, "sameSite": "Lax"}])


def test_an_uncaught_error_is_one_report_and_one_line(page, site):
    with lines_kept() as lines:
        visit(page, site, path="/pages/plain.html?token=s3cret#access_token=s3cret")
        page.evaluate("breaks.error()")
        (report,) = site.wait(1)
        assert eventually(lambda: lines)
    assert sorted(report) == ["build", "kind", "message", "repeat", "stack", "url"]
    assert report["kind"] == "error"
    assert report["message"] == "TypeError: Cannot read properties of undefined (reading 'total')"
    assert report["url"] == "/pages/plain.html"
    assert (report["build"], report["repeat"]) == ("development", 1)
    first, second, *_ = report["stack"].splitlines()
    assert first == report["message"]
    assert second.startswith(f"    at total ({site.url}/pages/breaks.js:")
    fields = logfmt(lines[0], strict=True)
    assert (fields["email"], fields["workspace"], fields["kind"]) == (MINA.email, MINA.workspace, "error")
    assert fields["url"] == "/pages/plain.html"


def test_no_query_no_fragment_and_no_form_value_leaves_the_page(page, site):
    visit(page, site, path="/pages/plain.html?token=s3cret#access_token=s3cret")
    page.evaluate("breaks.rejection({ password: document.querySelector('input').value })")
    page.evaluate("breaks.rejection(new Error(`can't load ${location}`))")
    page.evaluate("breaks.rejection(document.querySelector('form'))")
    site.wait(3)
    for post in site.posts:
        assert b"s3cret" not in post.body
        assert "s3cret" not in json.dumps(dict(post.headers))
        assert post.headers["referer"] == f"{site.url}/"
    assert [report["message"] for report in site.reports()] == [
        "[object Object] with keys password",
        f"Error: can't load {site.url}/pages/plain.html",
        "[object HTMLFormElement] with keys 0",
    ]


def test_an_unhandled_rejection(page, site):
    visit(page, site)
    page.evaluate("breaks.rejection()")
    (report,) = site.wait(1)
    assert (report["kind"], report["message"]) == ("unhandledrejection", "RangeError: The window was closed")


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("window", "[object Window] with keys "),
        ("0", "0"),
        ("''", '""'),
        ("undefined", "undefined"),
        ("null", "null"),
        ("10n", "10"),
        ("Symbol('결제')", "Symbol(결제)"),
        ("Object.create(null)", "[object Object] with keys "),
        ("new Proxy({}, { get() { throw 1 }, ownKeys() { throw 2 } })", "unreadable value"),
        ("new Proxy(new Error('x'), { get() { throw 1 } })", "unreadable value"),
        ("new DOMException('gone', 'AbortError')", "AbortError: gone"),
        ("new AggregateError([new Error('a')], 'both failed')", "AggregateError: both failed"),
        ("new Event('click')", "[object Event] with keys isTrusted"),
        ("(() => { const loop = {}; loop.self = loop; return loop })()", "[object Object] with keys self"),
        ("new Error('')", "Error"),
    ],
)
def test_whatever_is_rejected_is_reported_and_nothing_is_thrown(page, site, reason, message):
    visit(page, site)
    page.evaluate(f"breaks.rejection({reason})")
    (report,) = site.wait(1)
    assert report["message"].startswith(message)
    assert len(site.settled(0.3)) == 1


def test_a_bare_value_that_was_thrown_is_placed(page, site):
    visit(page, site)
    page.evaluate("breaks.thrown('offline')")
    (report,) = site.wait(1)
    assert report["message"] == "offline"
    assert report["stack"].startswith(f"offline\n    at {site.url}/pages/breaks.js:")


def test_a_script_that_can_not_be_parsed_is_named(page, site):
    visit(page, site)
    page.evaluate("""() => document.head.append(Object.assign(document.createElement("script"), {
        src: "/pages/cut-off.js?token=s3cret",
    }))""")
    (report,) = site.wait(1)
    assert report["message"].startswith("SyntaxError: ")
    assert report["stack"].splitlines()[-1].startswith(f"    at {site.url}/pages/cut-off.js:")


def test_noise_is_not_sent(page, site):
    visit(page, site)
    page.evaluate("""() => {
        for (const message of [
            "Script error.",
            "ResizeObserver loop limit exceeded",
            "ResizeObserver loop completed with undelivered notifications.",
        ]) dispatchEvent(new ErrorEvent("error", { message }));
        dispatchEvent(new Event("error"));
        breaks.rejection(Object.assign(new Error("x"), { stack: "Error: x\\n    at chrome-extension://abc/c.js:1:1" }));
    }""")
    assert site.settled(0.4) == []


def test_a_report_by_hand(page, site):
    visit(page, site)
    page.evaluate("""() => {
        const error = new Error("handled");
        reporter.report(error);
        reporter.report(error);
        reportError(error);
    }""")
    (report,) = site.settled(0.4, count=1)
    assert (report["kind"], report["message"]) == ("other", "Error: handled")


def test_a_strict_content_security_policy_is_enough(page, site):
    site.policy = STRICT
    complaints: list[str] = []
    page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    visit(page, site)
    page.evaluate("breaks.error()")
    site.wait(1)
    assert complaints == []


def test_a_policy_that_forbids_it_makes_no_loop(page, site):
    site.policy = "default-src 'none'; script-src 'self'; connect-src 'none'"
    visit(page, site)
    page.evaluate("breaks.error()")
    page.evaluate("breaks.many(200)")
    page.wait_for_timeout(1500)
    assert site.posts == []
    assert page.evaluate("document.title") == "A page that breaks"


def test_a_loop_of_a_thousand_errors_a_second_makes_few_posts_and_the_page_stays_responsive(page, site):
    def held_up() -> float:
        """Milliseconds that the page stands still for longer than it does anyway."""
        site.reset()
        visit(page, site)
        quiet = page.evaluate("breaks.storm(0, 1)")["longest"]
        began = time.monotonic()
        storm = page.evaluate("breaks.storm(1000, 3)")
        if time.monotonic() - began > 9.0:  # a window of 10 s may have ended meanwhile
            page.goto("about:blank")
            site.settled(count=4)
            return float("inf")
        assert storm["sent"] == 3000
        assert len(site.wait(2)) == 2  # A/B/A/B: one each
        page.goto("about:blank")
        assert [report["repeat"] for report in site.wait(4)] == [1, 1, 1000, 1000]  # a report stands for at most 1,000
        return storm["longest"] - quiet

    assert fastest(held_up, 150) < 150


def test_the_repeats_of_a_storm_add_up(page, site):
    visit(page, site)
    storm = page.evaluate("breaks.storm(400, 2)")
    page.goto("about:blank")
    site.wait(4)
    assert sum(report["repeat"] for report in site.settled(0.3)) == storm["sent"] == 800


def test_a_thousand_different_errors_a_second_make_at_most_the_pages_cap(page, site):
    visit(page, site)
    began = time.monotonic()
    storm = page.evaluate("breaks.storm(1000, 3, (n) => `different ${n}`)")
    assert storm["sent"] == 3000
    assert len(site.wait(10)) <= 12 + time.monotonic() - began  # ten at once, then one a second
    page.goto("about:blank")
    assert 20 <= len(site.settled()) <= 50  # what the browser still carries away; the cap in any case


def test_one_report_costs_the_page_well_under_a_millisecond(page, site):
    visit(page, site)
    code = """() => {
        const errors = Array.from({ length: 2000 }, (_, n) => new Error(n % 2 ? "A" : "B"));
        const began = performance.now();
        for (const error of errors) reporter.report(error);
        return (performance.now() - began) / errors.length;
    }"""
    assert fastest(lambda: page.evaluate(code), 0.5) < 0.5


@pytest.mark.parametrize("status", [401, 403])
def test_who_may_not_report_is_asked_once(page, site, status):
    site.answer = lambda _: (status, {})
    visit(page, site)
    page.evaluate("breaks.error()")
    site.wait(1)
    page.wait_for_timeout(300)
    page.evaluate("breaks.many(100)")
    assert len(site.settled()) == 1
    page.reload()
    page.wait_for_selector("html[data-ready]")
    page.evaluate("breaks.error()")
    assert len(site.wait(2)) == 2


def test_a_wrong_token_is_refused_by_the_service_and_nothing_follows(page, site):
    visit(page, site, "{ getToken: () => 'wrong' }")
    page.evaluate("breaks.many(5)")
    assert len(site.settled(count=5)) == 5  # all were on their way before the first answer
    page.evaluate("breaks.many(50, 'later')")
    assert len(site.settled()) == 5


def test_429_is_obeyed(page, site):
    site.answer = lambda _: (429, {"retry-after": "6"}) if len(site.posts) == 1 else (204, {})
    visit(page, site)
    page.evaluate("breaks.error()")
    site.wait(1)
    page.wait_for_timeout(200)
    page.evaluate("breaks.rejection()")
    page.wait_for_timeout(1200)
    assert len(site.posts) == 1
    site.wait(3)
    assert site.posts[1].at - site.posts[0].at >= 5.9
    assert sorted(report["kind"] for report in site.reports()) == ["error", "error", "unhandledrejection"]


@pytest.mark.parametrize("failing", ["500", "a reset connection"])
def test_a_failing_endpoint_makes_no_loop_although_rejections_are_hooked(page, site, failing):
    """https://github.com/grafana/faro-web-sdk/issues/683: two instances report each other's failed posts."""
    if failing == "500":
        site.answer = lambda _: (500, {})
    else:
        page.route(f"**{PATH}", lambda route: route.abort("connectionreset"))
    tried: list[str] = []
    page.on("request", lambda asked: tried.append(asked.url) if asked.url.endswith(PATH) else None)
    visit(page, site)
    page.evaluate("""async () => {
        const { install } = await import("/telemetry/browser.js");
        globalThis.second = install({ getToken: () => "t0ken" });
        breaks.error();
        breaks.rejection();
    }""")
    for _ in range(300):
        if len(tried) >= 4:
            break
        page.wait_for_timeout(100)
    page.wait_for_timeout(2500)
    assert len(tried) == 4  # two errors, two instances
    assert page.evaluate("breaks.storm(0, 0.5)")["longest"] < 5_000


def test_two_instances_each_report_once(page, site):
    visit(page, site)
    page.evaluate("""async () => {
        const { install } = await import("/telemetry/browser.js");
        install({ getToken: () => "t0ken", release: "second" });
        breaks.error();
    }""")
    reports = site.settled(0.4, count=2)
    assert [report.get("release") for report in reports] == [None, "second"]


def test_what_wraps_fetch_later_never_sees_the_reports(page, site):
    visit(page, site)
    page.evaluate("""() => {
        const native = fetch;
        globalThis.seen = [];
        globalThis.fetch = (...call) => { seen.push(call); return native(...call); };
        breaks.error();
    }""")
    site.wait(1)
    assert page.evaluate("seen.length") == 0


def test_offline_waits_for_the_network(page, site):
    visit(page, site)
    page.context.set_offline(True)
    page.evaluate("breaks.error()")
    page.wait_for_timeout(500)
    page.evaluate("breaks.rejection()")
    assert site.settled(0.4) == []
    page.context.set_offline(False)
    reports = site.wait(2)
    assert sorted(report["kind"] for report in reports) == ["error", "unhandledrejection"]


def test_what_was_counted_is_told_when_the_page_hides(page, site):
    visit(page, site)
    page.evaluate("for (let n = 0; n < 25; n++) reportError(new Error('again'))")
    site.wait(1)
    page.goto("about:blank")
    first, last = site.wait(2)
    assert (first["repeat"], last["repeat"]) == (1, 24)
    assert {**first, "repeat": 24} == last
    assert site.posts[1].headers["authorization"] == f"Bearer {TOKEN}"


def test_at_the_end_a_beacon_goes_where_a_cookie_says_who_is_speaking(page, site):
    sign_in(page, site)
    with lines_kept() as lines:
        visit(page, site, WITH_COOKIE)
        page.evaluate("for (let n = 0; n < 5; n++) reportError(new Error('again'))")
        site.wait(1)
        page.evaluate("breaks.atTheEnd('pagehide', 'thrown while leaving')")
        page.goto("about:blank")
        reports = site.settled(count=3)
        assert eventually(lambda: len(lines) == 3)
    assert [(report["message"], report["repeat"]) for report in reports[1:]] == [
        ("Error: again", 4),
        ("Error: thrown while leaving", 1),
    ] or [(report["message"], report["repeat"]) for report in reports[1:]] == [
        ("Error: thrown while leaving", 1),
        ("Error: again", 4),
    ]
    fetched, *beacons = site.posts
    assert fetched.headers["content-type"] == "application/json"
    by_beacon = [post for post in beacons if post.headers["content-type"] == "text/plain;charset=UTF-8"]
    assert by_beacon
    for post in site.posts:
        assert "session=mina" in post.headers["cookie"]
        assert "authorization" not in post.headers
    assert all(f'email="{MINA.email}"' in line for line in lines)


def test_at_the_end_a_beacon_goes_where_a_proxy_says_who_is_speaking(page):
    signed = {"x-forwarded-email": MINA.email, "x-forwarded-groups": "acme"}
    proxied = {"trusted_proxies": ("127.0.0.1/32",), "proxy_workspace_header": "X-Forwarded-Groups"}
    with running({}, signed=signed, **proxied) as site, lines_kept() as lines:
        visit(page, site, WITH_COOKIE)
        page.evaluate("for (let n = 0; n < 5; n++) reportError(new Error('again'))")
        site.wait(1)
        page.goto("about:blank")
        assert [report["repeat"] for report in site.wait(2)] == [1, 4]
        assert eventually(lambda: len(lines) == 2)
    assert site.posts[1].headers["content-type"] == "text/plain;charset=UTF-8"
    assert all(f'email="{MINA.email}" workspace="acme"' in line for line in lines)


def test_a_page_of_another_site_cannot_speak_for_the_cookie(page, site):
    sign_in(page, site)
    with running({}) as stranger, lines_kept() as lines:
        visit(page, stranger, path="/pages/plain.html", more=f"globalThis.service = '{site.url}'")
        page.evaluate(
            """(url) => {
            navigator.sendBeacon(url, JSON.stringify({ kind: "error", message: "forged" }));
            return fetch(url, { method: "POST", mode: "no-cors", credentials: "include", body: '{"kind":"error"}' });
        }""",
            site.url + PATH,
        )
        site.wait(2)
        page.wait_for_timeout(300)
    assert all("session=mina" in post.headers["cookie"] for post in site.posts)
    assert lines == []


def test_five_large_korean_reports_get_through_at_the_pages_end(page, site):
    """getsentry/sentry-javascript#1464, faro-web-sdk#192: keepalive over 64 KiB fails, and was counted in UTF-16."""
    visit(page, site)
    korean = "주문을 저장하지 못했습니다 "
    page.evaluate(
        """(text) => breaks.atTheEnd("visibilitychange", ...[1, 2, 3, 4, 5].map((n) => `${n} ${text.repeat(600)}`))""",
        korean,
    )
    page.goto("about:blank")
    reports = site.settled(count=5)
    assert len(reports) == 5
    for post in site.posts:
        assert len(post.body) <= MAX_BODY_BYTES
        assert post.report["message"][:9] in {f"Error: {n} " for n in range(1, 6)}
        assert korean in post.report["message"]
        assert "breaks.js" in post.report["stack"]
        assert "\ufffd" not in post.report["message"]
    assert sum(len(post.body) for post in site.posts) <= 64 * 1024


def test_a_console_of_another_origin_needs_to_be_allowed(page, site):
    with running({}) as console:
        page.add_init_script(f"globalThis.service = '{site.url}'; globalThis.options = {{ getToken: () => 't0ken' }}")
        page.goto(f"{console.url}/pages/cross.html")
        page.wait_for_selector("html[data-ready]")
        assert page.evaluate("feedback") is None  # not readable either
        page.evaluate("breaks.many(5)")
        page.wait_for_timeout(800)
        assert site.posts == []


@pytest.mark.parametrize("credential", ["token", "cookie"])
def test_a_console_of_an_allowed_origin(page, credential):
    with (
        running({}) as console,
        running({}, allowed_origins=(console.url,), feedback_url="https://ask.example/") as site,
    ):
        options = "{ getToken: () => 't0ken', getWorkspace: () => 'acme' }" if credential == "token" else "{}"
        sign_in(page, site)
        page.add_init_script(f"globalThis.service = '{site.url}'; globalThis.options = {options}")
        with lines_kept() as lines:
            page.goto(f"{console.url}/pages/cross.html")
            page.wait_for_selector("html[data-ready]")
            assert page.evaluate("feedback") == "https://ask.example/"
            page.evaluate("for (let n = 0; n < 5; n++) reportError(new Error('again'))")
            site.wait(1)
            page.wait_for_timeout(300)
            page.goto("about:blank")
            assert [report["repeat"] for report in site.settled(0.4, count=2)] == [1, 4]
            assert eventually(lambda: len(lines) == 2)
        for post in site.posts:
            assert post.headers["origin"] == console.url
        beacon = site.posts[1].headers["content-type"].startswith("text/plain")
        assert beacon == (credential == "cookie")


def test_an_allowed_origin_can_read_when_to_come_back(page):
    with running({}) as console, running({}, allowed_origins=(console.url,), limit_rate=0.2, limit_burst=1) as site:
        page.add_init_script(f"globalThis.service = '{site.url}'; globalThis.options = {{ getToken: () => 't0ken' }}")
        page.goto(f"{console.url}/pages/cross.html")
        page.wait_for_selector("html[data-ready]")
        with lines_kept() as lines:
            page.evaluate("breaks.error()")
            site.wait(1)
            page.wait_for_timeout(100)
            page.evaluate("breaks.rejection()")
            assert eventually(lambda: len(lines) == 2)
        assert 1.0 <= site.posts[2].at - site.posts[1].at <= 30.0  # Retry-After: a minute if it could not be read


@pytest.mark.parametrize(
    ("address", "shown"),
    [(None, None), ("https://ask.example/x", "https://ask.example/x"), ("mailto:a@b.example", "mailto:a@b.example")],
)
def test_the_console_knows_whether_to_show_send_feedback(page, address, shown):
    with running({}, feedback_url=address) as site:
        visit(page, site)
        link: Any = page.evaluate("async () => (await import('/telemetry/feedback.js')).feedbackUrl()")
    assert link == shown


def test_close_lets_go(page, site):
    visit(page, site)
    page.evaluate("reporter.close()")
    page.evaluate("breaks.error()")
    page.evaluate("reporter.report(new Error('x'))")
    assert site.settled(0.4) == []


def test_a_window_that_ends_tells_what_it_counted(page, site):
    visit(page, site)
    page.evaluate("for (let n = 0; n < 7; n++) reportError(new Error('again'))")
    site.wait(1)
    began = time.monotonic()
    assert [report["repeat"] for report in site.wait(2)] == [1, 6]
    assert time.monotonic() - began > 9.0
