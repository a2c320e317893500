"""A real Chromium, driven by Playwright; without one the tests of this folder are skipped, or fail in CI.

React, esbuild and TypeScript come from ``package-lock.json``: ``npm ci`` once, nothing is fetched afterwards.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

from tests.backends import npm

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

HERE = Path(__file__).parent
NAMES = ("chromium", "chromium-browser", "google-chrome")
# Quiet and self-contained: nothing is fetched but what the page asks for.
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def absent(sentence: str) -> NoReturn:
    """Skip for the reason given, or fail where every part should be there."""
    if os.environ.get("FLEETGLASS_REQUIRE_BACKENDS") == "1":
        pytest.fail(sentence, pytrace=False)
    pytest.skip(sentence)


@pytest.fixture(scope="session")
def node() -> str:
    """Node.js, 20 or newer."""
    try:
        return npm.node()
    except npm.Missing as missing:
        return absent(str(missing))


@pytest.fixture(scope="session")
def packages(node: str) -> Path:
    """``node_modules`` as the lock says."""
    try:
        return npm.installed(HERE)
    except npm.Missing as missing:
        return absent(str(missing))


# Not for the session: while Playwright's synchronous side is on, the main thread has a running event loop,
# and asynchronous tests elsewhere could not start theirs.
@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """The browser."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        absent("Chromium is not on PATH: install it (Debian: apt-get install chromium fonts-noto-cjk).")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        yield browser
        browser.close()


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    """A fresh page of 1440 by 1000 in a context of its own."""
    context = chromium.new_context(viewport={"width": 1440, "height": 1000})
    context.set_default_timeout(5000)
    yield context.new_page()
    context.close()
