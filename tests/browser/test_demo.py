"""The demo as a person meets it: buttons that break things, and what the page shows of it."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.backends.process import request
from tests.loki_grammar import logfmt
from tests.pace import fastest

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
LIMIT = 2.0  # seconds: a thrown error is a line in the log store by then


@dataclass
class Demo:
    """The running demo and what it has printed."""

    process: subprocess.Popen[str]
    printed: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.printed)

    def found(self, pattern: str) -> str:
        match = re.search(pattern, self.text)
        assert match, f"{pattern!r} is not in what the demo printed:\n{self.text}"
        return match[1]

    @property
    def url(self) -> str:
        return self.found(r"Open +(http://\S+/)")

    def interrupt(self) -> tuple[int, float]:
        """Ctrl-C; the exit code and how many seconds it took."""
        start = time.monotonic()
        self.process.send_signal(signal.SIGINT)
        rest, _ = self.process.communicate(timeout=30)
        self.printed.append(rest)
        return self.process.returncode, time.monotonic() - start


@contextmanager
def running(*arguments: str) -> Iterator[Demo]:
    process = subprocess.Popen(
        [sys.executable, "-m", "examples.demo", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    demo = Demo(process)
    assert process.stdout is not None
    try:
        for line in process.stdout:
            demo.printed.append(line)
            if "Ctrl-C" in line:
                break
        else:
            pytest.fail(f"the demo did not start:\n{demo.text}")
        yield demo
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture(scope="module")
def demo() -> Iterator[Demo]:
    with running("--port", "0") as demo:
        yield demo


@pytest.fixture
def shown(page: Page, demo: Demo) -> Iterator[Page]:
    """The page, live. It may ask nobody but its own origin and have nothing to complain of but what we broke."""
    strangers: list[str] = []
    complaints: list[str] = []
    page.on("request", lambda asked: asked.url.startswith(demo.url) or strangers.append(asked.url))
    page.on("console", lambda said: said.type in {"error", "warning"} and complaints.append(said.text))
    page.goto(demo.url)
    page.wait_for_selector("#state[data-state=live]")
    page.wait_for_selector("#ledger tr")
    yield page
    assert strangers == []
    assert [text for text in complaints if "status of 502" not in text] == []


def press(page: Page, action: str) -> None:
    page.click(f"[data-action={action}]")


def step(page: Page, name: str, mood: str = "good") -> str:
    """What the strip says of one step of the last click, once it is there."""
    return page.wait_for_selector(f"#journey [data-step={name}][data-mood={mood}] .value").inner_text()


def frontend_lines(page: Page) -> list[str]:
    return page.locator("#lines li[data-kind=frontend] .clamp").all_inner_texts()


@pytest.mark.parametrize(
    ("action", "kind", "message"),
    [
        ("error", "error", "TypeError: Cannot read properties of undefined (reading 'total')"),
        ("rejection", "unhandledrejection", "Error: The payment window was closed"),
    ],
)
def test_what_is_thrown_is_one_line_within_two_seconds(shown, action, kind, message):
    found: list[str] = []

    def arrive() -> float:
        before = len(frontend_lines(shown))
        start = time.monotonic()
        press(shown, action)
        assert "frontend-error after" in step(shown, "line")
        took = time.monotonic() - start
        assert step(shown, "server").startswith("204")
        shown.wait_for_timeout(500)
        found[:] = frontend_lines(shown)[before:]
        assert len(found) == 1
        return took

    assert fastest(arrive, LIMIT) < LIMIT
    fields = logfmt(found[0], strict=True)
    assert (fields["kind"], fields["message"], fields["build"]) == (kind, message, "development")
    assert fields["email"] == "dev@example.com"
    assert "/static/demo.js" in fields["stack"]


def test_hostile_text_is_escaped_and_its_token_is_gone(shown):
    press(shown, "hostile")
    step(shown, "line")
    line = frontend_lines(shown)[-1]
    assert '결제 \\"실패\\" 😀\\nlevel=info \\u001b[31mred\\u202e at https://shop.example/pay"' in line
    assert "s3cret" not in line
    assert logfmt(line, strict=True)["level"] == "error"


def test_a_nested_call_is_one_waterfall(shown):
    press(shown, "order")
    assert step(shown, "server").startswith("200")
    assert "access line after" in step(shown, "line")
    # Shown as it comes in: first what has arrived, then the whole.
    shown.wait_for_selector('#journey [data-step=trace][data-mood=good] .value:has-text("9 spans")')
    trace = shown.locator("#traces > li").first
    names = [name.split(" ", 1)[-1] for name in trace.locator(".span-name").all_inner_texts()]
    assert len(names) == 9
    assert {"/api/orders/{order_id}", "/api/prices/{sku}", "/api/stock/{sku}"} <= set(names)
    bars = [bar.bounding_box() for bar in trace.locator(".track i").all()]
    root = bars[0]
    for bar in bars[1:]:
        assert root["x"] - 1 <= bar["x"]
        assert bar["x"] + bar["width"] <= root["x"] + root["width"] + 4  # the shortest bars are 3 px


def test_a_failing_call_and_its_report_share_a_trace_that_can_be_followed(shown):
    press(shown, "checkout")
    assert step(shown, "server", "bad").startswith("502")
    step(shown, "line")
    step(shown, "trace")
    fields = logfmt(frontend_lines(shown)[-1], strict=True)
    trace_id = fields["trace_id"]
    link = shown.locator("#lines li[data-kind=frontend] .trace-link").last
    link.click()
    assert shown.inner_text("#selection").startswith(f"Following {trace_id[:8]}")
    # What comes in after the click is linked as well.
    for kind in ("frontend", "access", "app"):
        shown.wait_for_selector(f"#lines li.linked[data-kind={kind}]")
    shown.wait_for_function("document.querySelectorAll('#traces > li.linked .span-name.bad').length >= 3")
    linked = shown.locator("#traces > li.linked")
    assert linked.count() == 1
    assert linked.get_attribute("data-trace-id") == trace_id
    lines = shown.locator("#lines li.linked")
    assert {"frontend", "access", "app"} == {line.get_attribute("data-kind") for line in lines.all()}
    shown.keyboard.press("Escape")
    assert shown.locator(".linked").count() == 0


def test_counters_count_and_the_ledger_adds_up(shown):
    def figure(row: str) -> int:
        return int(shown.locator(row).inner_text().replace(",", ""))

    accepted = "#results tr:first-child .number"
    before = figure(accepted)
    press(shown, "error")
    step(shown, "line")
    shown.wait_for_function(
        "([row, wanted]) => document.querySelector(row).textContent === wanted", arg=[accepted, str(before + 1)]
    )
    assert shown.inner_text("#balance") == "It adds up: every record is accounted for."
    for row in shown.locator("#ledger tr").all():
        emitted, delivered, dropped, pending = (
            int(cell.replace(",", "")) for cell in row.locator(".number").all_inner_texts()
        )
        assert emitted == delivered + dropped + pending
        assert dropped == 0


def test_a_report_from_the_terminal_shows_up(shown, demo):
    answer = request(
        "POST",
        demo.found(r"curl -i (\S+)"),
        demo.found(r"-d '(.*)'").encode(),
        {"Authorization": demo.found(r"-H '(?:Authorization: )(Bearer \S+)'")},
    )
    assert answer.status == 204
    shown.wait_for_selector('#lines li[data-kind=frontend]:has-text("Hello from curl")')


def test_a_reload_shows_what_was_there(shown):
    press(shown, "error")
    step(shown, "line")
    shown.wait_for_timeout(300)
    lines, traces = len(frontend_lines(shown)), shown.locator("#traces > li").count()
    shown.reload()
    shown.wait_for_selector("#state[data-state=live]")
    assert len(frontend_lines(shown)) == lines
    assert shown.locator("#traces > li").count() >= traces


def test_nothing_jumps_while_lines_and_traces_come_in(shown):
    boxes = "() => [...document.querySelectorAll('.break, .actions button, .pane, .card, footer')]"
    boxes += ".map((part) => JSON.stringify(part.getBoundingClientRect()))"
    before = shown.evaluate(boxes)
    for action in ("error", "rejection", "hostile", "order", "checkout"):
        press(shown, action)
        step(shown, "trace")
        assert shown.evaluate(boxes) == before


def test_filters_and_folded_lines(shown):
    press(shown, "error")
    step(shown, "line")
    shown.click("[data-filter=frontend]")
    visible = shown.locator("#lines li:visible")
    assert {line.get_attribute("data-kind") for line in visible.all()} == {"frontend"}
    last = visible.last
    more = last.locator(".more")
    assert (more.inner_text(), more.get_attribute("aria-expanded")) == ("Show the whole line", "false")
    folded = last.bounding_box()["height"]
    more.click()
    assert last.bounding_box()["height"] > folded
    assert more.get_attribute("aria-expanded") == "true"


def test_the_keyboard_reaches_everything(shown):
    shown.focus("[data-action=order]")
    shown.keyboard.press("Enter")
    step(shown, "trace")
    shown.locator("#traces .trace-link").first.focus()
    shown.keyboard.press("Space")
    assert shown.locator("#traces > li.linked").count() == 1
    unnamed = shown.evaluate(
        "() => [...document.querySelectorAll('button:not([hidden]), a[href]')]"
        ".filter((part) => !(part.textContent.trim() || part.ariaLabel)).length"
    )
    assert unnamed == 0


@pytest.mark.parametrize("width", [360, 768, 1024, 1920])
def test_no_width_scrolls_sideways(page, demo, width):
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(demo.url)
    page.wait_for_selector("#state[data-state=live]")
    press(page, "checkout")
    step(page, "trace")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_chosen_theme_stays(shown):
    shown.click("#theme")
    shown.click("#theme")
    assert shown.inner_text("#theme") == "Theme: dark"
    dark = shown.evaluate("getComputedStyle(document.body).backgroundColor")
    shown.reload()
    assert shown.evaluate("getComputedStyle(document.body).backgroundColor") == dark
    assert shown.inner_text("#theme") == "Theme: dark"


def test_the_page_is_kept_to_its_origin(demo):
    policy = request("GET", demo.url).headers["content-security-policy"]
    assert policy.startswith("default-src 'self';")
    assert "unsafe" not in policy


def test_ctrl_c_ends_it_inside_the_deadline_also_with_a_page_open(page):
    def end() -> float:
        with running("--port", "0") as demo:
            page.goto(demo.url)
            page.wait_for_selector("#state[data-state=live]")
            press(page, "error")
            code, seconds = demo.interrupt()
            page.wait_for_selector("#state[data-state=lost]")
        assert code == 0
        assert "Traceback" not in demo.text
        goodbyes = [line for line in demo.text.splitlines() if line.startswith("Goodbye.")]
        assert len(goodbyes) == 1
        assert re.search(r"logs (\d+) of \1 delivered", goodbyes[0])
        return seconds

    assert fastest(end, 3.0) < 3.0


def test_a_busy_port_is_said_and_another_taken():
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        with running("--port", str(port)) as demo:
            assert f"Port {port} can't be used" in demo.text
            assert json.loads(request("GET", f"{demo.url}api/config").body) == {"feedback_url": None}
            assert demo.interrupt()[0] == 0
