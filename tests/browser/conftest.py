"""A real Chromium, driven by Playwright; without one the tests of this folder are skipped, or fail in CI.

React, esbuild and TypeScript come from ``package-lock.json``: ``npm ci`` once, nothing is fetched afterwards.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

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


def absent(sentence: str) -> None:
    """Skip for the reason given, or fail where every part should be there."""
    if os.environ.get("FLEETGLASS_REQUIRE_BACKENDS") == "1":
        pytest.fail(sentence, pytrace=False)
    pytest.skip(sentence)


@pytest.fixture(scope="session")
def node() -> str:
    """Node.js, 20 or newer."""
    path = shutil.which("node")
    version = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout if path else "v0"
    if int(version.strip().lstrip("v").split(".")[0]) < 20:
        absent("Node.js 20 or newer with npm is not on PATH: install nodejs and npm.")
    return str(path)


@pytest.fixture(scope="session")
def packages(node: str) -> Path:
    """``node_modules`` as the lock says."""
    lock, installed = HERE / "package-lock.json", HERE / "node_modules" / ".package-lock.json"
    with lock.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # two test runs in one checkout
        if not installed.exists() or installed.stat().st_mtime < lock.stat().st_mtime:
            done = subprocess.run(["npm", "ci"], cwd=HERE, capture_output=True, text=True, check=False)
            if done.returncode:
                absent(f"npm ci in tests/browser failed: {done.stderr.strip()[-300:]}")
            installed.touch()
    return installed.parent


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
