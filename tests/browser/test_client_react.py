"""A React 19 console, bundled from the npm form of the client, in a real Chromium: each error once, as what it is."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.browser.site import PAGES, STRICT, Site, running

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

BROWSER = PAGES.parents[2] / "ingest" / "browser"


@pytest.fixture(scope="module", params=["production", "development"])
def service(request, packages, tmp_path_factory) -> Iterator[Site]:
    bundle = tmp_path_factory.mktemp("bundle")
    installed = tmp_path_factory.mktemp("console") / "node_modules"
    (installed / "@fleetglass").mkdir(parents=True)
    (installed / "@fleetglass" / "browser").symlink_to(BROWSER)
    subprocess.run(
        [
            packages / ".bin" / "esbuild",
            PAGES / "console.jsx",
            "--bundle",
            "--format=esm",
            "--jsx=automatic",
            "--log-level=warning",
            f'--define:process.env.NODE_ENV="{request.param}"',
            f"--outdir={bundle}",
        ],
        check=True,
        cwd=PAGES,
        timeout=60,
        env={**os.environ, "NODE_PATH": f"{installed}:{packages}"},
    )
    with running({"bundle": bundle}) as site:
        site.mode = request.param
        yield site


@pytest.fixture
def site(service: Site) -> Site:
    service.reset()
    service.policy = STRICT
    return service


@pytest.fixture
def console(page: Page, site: Site) -> Page:
    page.goto(f"{site.url}/pages/react.html")
    page.wait_for_selector("html[data-ready]")
    return page


@pytest.mark.parametrize(
    ("button", "message"),
    [
        ("error", "TypeError: The job list is broken"),
        ("effect", "RangeError: The effect is broken"),
        ("bare", "bare text"),
    ],
)
def test_an_error_that_a_boundary_catches_is_reported_once(console, site, button, message):
    """React tells the boundary and onCaughtError of the same error."""
    console.click(f"#{button}")
    assert message.partition(": ")[2] in console.inner_text("[role=alert]") or message in console.inner_text(
        "[role=alert]"
    )
    reports = site.settled(0.4, count=1)
    assert [(report["kind"], report["message"], report["repeat"]) for report in reports] == [("react", message, 1)]
    assert reports[0]["build"] == site.mode
    if button != "bare":
        assert "/bundle/console.js" in reports[0]["stack"]
    console.click("#retry")
    assert console.inner_text("p") == "all is well"


def test_an_error_that_no_boundary_catches_is_reported_once_and_still_reaches_the_window(console, site):
    """A callback of ours replaces React's own, which tells window.onerror: that goes on."""
    console.click("#loose")
    reports = site.settled(0.4, count=1)
    assert [(report["kind"], report["message"]) for report in reports] == [
        ("react", "TypeError: The job list is broken")
    ]
    assert any("The job list is broken" in message for message in console.evaluate("heard"))
    assert console.inner_text("#root") == ""  # React unmounts what it can't show


def test_an_error_in_a_click_handler(console, site):
    console.click("#handler")
    reports = site.settled(0.4, count=1)
    assert [(report["kind"], report["message"]) for report in reports] == [
        ("error", "Error: The click handler is broken")
    ]


def test_a_failing_call_carries_its_trace(console, site):
    console.click("#call")
    (report,) = site.settled(0.4, count=1)
    assert (report["kind"], report["trace_id"]) == ("unhandledrejection", "0af7651916cd43dd8448eb211c80319c")


def test_the_same_failure_again_is_counted(console, site):
    for _ in range(3):
        console.click("#error")
        console.wait_for_selector("[role=alert]")
        console.click("#mend")
        console.wait_for_selector("text=all is well")
    console.goto("about:blank")
    assert [report["repeat"] for report in site.settled(0.4, count=2)] == [1, 2]
