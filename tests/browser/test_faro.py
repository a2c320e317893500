"""Grafana's Faro Web SDK, the real one, in a real Chromium: a console switches by changing a URL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ingest.errors.fingerprint import fingerprint
from ingest.faro.route import PATH
from tests.browser.site import MINA, Site, lines_kept, running
from tests.loki_grammar import logfmt

if TYPE_CHECKING:
    from playwright.sync_api import Page, Request, Route

pytestmark = pytest.mark.browser

MESSAGE = "TypeError: Cannot read properties of undefined (reading 'total')"


@pytest.fixture(scope="module")
def sdk(packages: Path) -> Path:
    return packages / "@grafana" / "faro-web-sdk" / "dist" / "bundle"


@pytest.fixture(scope="module")
def site(sdk: Path) -> Iterator[Site]:
    with running({"faro": sdk}) as site:
        yield site


@pytest.fixture
def lines() -> Iterator[list[str]]:
    with lines_kept() as kept:
        yield kept


@pytest.fixture
def asked(page: Page) -> list[Request]:
    """The batches that the page sent."""
    page.context.set_default_timeout(10_000)
    sent: list[Request] = []
    page.on("request", lambda asked: sent.append(asked) if asked.url.endswith(PATH) else None)
    return sent


def visit(page: Page, site: Site, options: str = "{}", query: str = "") -> None:
    """Open the page; ``options`` are those of the SDK's transport (JavaScript)."""
    page.add_init_script(f"globalThis.options = {options}")
    page.goto(f"{site.url}/pages/faro.html{query}")
    page.wait_for_selector("html[data-ready]")


def fields(page: Page, lines: list[str], count: int = 1) -> list[dict[str, str]]:
    """Of the lines, once there are so many and no more come."""
    for _ in range(100):
        if len(lines) >= count:
            break
        page.wait_for_timeout(100)
    page.wait_for_timeout(500)
    assert len(lines) == count, lines
    return [logfmt(line, strict=True) for line in lines]


def statuses(asked: list[Request]) -> set[int | None]:
    return {answer.status if (answer := each.response()) else None for each in asked}


def test_an_exception_is_one_line_of_the_principal(page, site, asked, lines):
    visit(page, site, query="?token=s3cret#access_token=s3cret")
    page.evaluate("breaks.error()")
    (line,) = fields(page, lines)
    assert (line["email"], line["workspace"], line["kind"]) == (MINA.email, MINA.workspace, "error")
    assert (line["message"], line["url"]) == (MESSAGE, f"{site.url}/pages/faro.html")
    assert (line["build"], line["release"]) == ("production", "1.4.2")
    first, second, *_ = line["stack"].splitlines()
    assert (first, second[: second.index(".js:")]) == (MESSAGE, f"    at total ({site.url}/pages/breaks")
    assert "s3cret" not in lines[0]
    assert "ceo" not in lines[0]
    assert statuses(asked) == {202}
    # The SDK takes the stack apart, and yet it is the error that our own client would have told of.
    (stack,) = page.evaluate("stacks")
    assert line["fp"] == fingerprint("error", MESSAGE, stack)


def test_a_rejection_and_what_the_console_pushes_by_hand(page, site, asked, lines):
    visit(page, site)
    page.evaluate("breaks.rejection(7)")
    page.evaluate("""faro.api.pushError(new RangeError("한글 \\ud83d"), {
        spanContext: { traceId: "0af7651916cd43dd8448eb211c80319c", spanId: "b7ad6b7169203331" } })""")
    page.evaluate("""faro.api.pushLog(["frontend-error"]); faro.api.pushEvent("clicked")""")
    rejected, pushed = sorted(fields(page, lines, 2), key=lambda line: line["kind"], reverse=True)
    assert rejected["kind"] == "unhandledrejection"
    assert rejected["message"] == "Non-Error promise rejection captured with value: 7"
    assert (pushed["message"], pushed["trace_id"]) == ("RangeError: 한글 ?", "0af7651916cd43dd8448eb211c80319c")
    assert statuses(asked) == {202}


def test_a_console_of_another_origin_compressed(page, sdk, asked, lines):
    """grafana/faro-web-sdk#386: a header that the server doesn't know fails every preflight."""
    with running({"faro": sdk}) as console, running({}, allowed_origins=(console.url,)) as site:
        options = f"{{ origin: '{site.url}', requestCompression: true, apiKey: 'x' }}"
        visit(page, console, options)
        page.evaluate("breaks.error()")
        (line,) = fields(page, lines)
    assert (line["email"], line["message"]) == (MINA.email, MESSAGE)
    headers = asked[-1].all_headers()
    assert headers["content-encoding"] == "gzip"
    assert {"idempotency-key", "x-faro-session-id", "x-api-key", "authorization"} <= headers.keys()


def test_a_batch_whose_answer_is_lost_is_sent_again_and_counted_once(page, site, asked, lines):
    lost = []

    def lose_one(route: Route) -> None:
        answer = route.fetch()
        if lines and not lost:
            lost.append(route.request.headers["idempotency-key"])
            route.abort()
        else:
            route.fulfill(response=answer)

    page.route(f"**{PATH}", lose_one)
    visit(page, site)
    page.evaluate("breaks.error()")
    assert fields(page, lines)
    page.wait_for_timeout(2500)  # the SDK waits up to two seconds
    keys = [each.headers["idempotency-key"] for each in asked]
    assert lost
    assert keys.count(lost[0]) > 1
    assert len(lines) == 1


def test_a_caller_at_the_limit_is_answered_202_and_nothing_is_sent_again(page, sdk, asked, lines):
    with running({"faro": sdk}, limit_rate=0.01, limit_burst=3) as site:
        visit(page, site)
        page.evaluate("breaks.many(10)")
        assert len(fields(page, lines, 3)) == 3
        page.wait_for_timeout(2000)
    keys = [each.headers["idempotency-key"] for each in asked]
    assert len(keys) == len(set(keys))
    assert statuses(asked) == {202}


def test_nobody_in_particular_gets_401_once_and_no_line(page, site, asked, lines):
    visit(page, site, "{ requestOptions: {} }")
    page.evaluate("breaks.error()")
    page.wait_for_timeout(2500)
    assert statuses(asked) == {401}
    assert lines == []
