"""The demo as a person meets it: buttons that break things, and what the page shows of it."""

from __future__ import annotations

import json
import os
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

import psutil
import pytest

from tests.backends.process import Response, eventually, request
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

    def post(self, path: str, data: object = None) -> Response:
        """Press a knob, as from a terminal."""
        headers = {"Authorization": f"Bearer {self.found(r'Token +(.+)')}", "Content-Type": "application/json"}
        return request("POST", self.url + path, b"" if data is None else json.dumps(data).encode(), headers)

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


def group(page: Page, name: str, badge: str) -> None:
    """Wait until a group has this badge: a worker that was killed is replaced within twenty seconds or so."""
    page.wait_for_selector(f"#groups [data-group={name}][data-badge={badge}]", timeout=60_000)


def workers(page: Page, name: str, state: str) -> list[str]:
    found = page.locator(f"#groups [data-group={name}] [data-worker][data-state={state}]")
    return [str(each.get_attribute("data-worker")) for each in found.all()]


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
    # The platform's own traces come in above it.
    trace = shown.locator("#traces > li", has_text="/api/orders/{order_id}").first
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
    shown.wait_for_selector(":nth-match(#traces > li.linked .span-name.bad, 3)")
    linked = shown.locator("#traces > li.linked")
    assert linked.count() == 1
    assert linked.get_attribute("data-trace-id") == trace_id
    lines = shown.locator("#lines li.linked")
    assert {"frontend", "access", "app"} == {line.get_attribute("data-kind") for line in lines.all()}
    shown.keyboard.press("Escape")
    assert shown.locator(".linked").count() == 0


def test_a_job_is_one_trace_across_processes_and_its_lines_are_one_click_away(shown):
    press(shown, "job")
    assert step(shown, "server").startswith("202")
    step(shown, "line")
    # From the page's own process to the API server's, and through the queue to a worker's.
    trace = '#traces > li:has(.chip:text-is("202")):has-text("render at work")'
    shown.wait_for_selector(trace, timeout=60_000)
    found = shown.locator(trace).first
    services = found.locator(".service").all_inner_texts()
    assert services == ["demo-shop", "platform-api", "platform-worker"]
    names = " ".join(found.locator(".span-name").all_inner_texts())
    assert re.search("send render .*wait render process render render at work", names)
    found.locator(".trace-link").click()
    for line in ("render begins", "render done"):
        shown.wait_for_selector(f'#lines li.linked[data-kind=job]:has-text("{line}")', timeout=60_000)
    shown.keyboard.press("Escape")


def test_a_worker_that_is_killed_is_lost_and_its_group_missing_until_there_is_another(shown):
    group(shown, "heavy", "ok")
    living = shown.locator("#groups [data-group=heavy] [data-worker]:not([data-state=lost])")
    killed = str(living.first.get_attribute("data-worker"))
    shown.locator(f"[data-worker={killed}] .knob", has_text="Kill").click()
    assert step(shown, "server").startswith("204")
    group(shown, "heavy", "missing")
    assert killed in workers(shown, "heavy", "lost")
    assert shown.locator(f"[data-worker={killed}] .knob:visible").count() == 0
    shown.wait_for_selector("#tags [data-tag=render] [data-reason=no_live_workers]", timeout=60_000)
    group(shown, "heavy", "ok")
    assert killed in workers(shown, "heavy", "lost")


def test_a_worker_that_drains_is_shown_as_such_until_its_job_has_ended(shown, demo):
    group(shown, "heavy", "ok")
    (job,) = demo.post("api/jobs", {"tag": "render", "seconds": 6}).ok().json()["jobs"]
    shown.wait_for_selector(f'#groups [data-state=busy]:has-text("at {job[:8]}")', timeout=60_000)
    (drained,) = workers(shown, "heavy", "busy")
    shown.locator(f"[data-worker={drained}] .knob", has_text="Drain").click()
    group(shown, "heavy", "draining")
    assert workers(shown, "heavy", "draining") == [drained]
    shown.wait_for_selector(f"[data-worker={drained}]", state="detached", timeout=60_000)
    group(shown, "heavy", "ok")
    assert drained not in workers(shown, "heavy", "lost")


def test_a_tag_that_nobody_serves_is_red_until_the_demand_is_withdrawn(shown):
    press(shown, "unserved")
    tag = "#tags [data-tag=quantum]"
    shown.wait_for_selector(f"{tag}.danger [data-reason=no_route]", timeout=60_000)
    shown.wait_for_selector("[data-action=unserved][aria-pressed=true]")
    shown.wait_for_selector(f'{tag} .number:text-is("2")', timeout=60_000)
    press(shown, "unserved")
    shown.wait_for_selector(tag, state="detached", timeout=60_000)


def test_a_group_is_scaled_up_and_down(shown):
    group(shown, "heavy", "ok")
    row = shown.locator("#groups [data-group=heavy]")
    row.get_by_label("Ask for one heavy worker more").click()
    shown.wait_for_selector('#groups [data-badge=scaled]:has-text("1 of 2 active")', timeout=60_000)
    group(shown, "heavy", "ok")
    assert row.locator("[data-figure=active]").locator("dd").inner_text() == "2"
    row.get_by_label("Ask for one heavy worker fewer").click()
    shown.wait_for_selector('#groups [data-group=heavy] .scale b:text-is("1")', timeout=60_000)
    group(shown, "heavy", "ok")


def test_a_job_that_fails_is_counted_and_its_stack_is_a_line(shown):
    failures = '#jobs tr:has(td.name:text-is("mail")) td:nth-child(3)'
    press(shown, "failing")
    step(shown, "trace")
    shown.wait_for_selector(
        '#lines li[data-kind=job][data-level=error]:has-text("the mailbox is full")', timeout=60_000
    )
    shown.wait_for_selector(f'{failures}:has-text("1")', timeout=60_000)


def test_knobs_need_the_token(demo):
    for path in ("demo/pods/heavy-0/kill", "api/jobs", "api/admin/fleet"):
        method = "GET" if path.endswith("fleet") else "POST"
        assert request(method, f"{demo.url}{path}").status == 401
    answer = demo.post("demo/pods/nobody/kill")
    assert (answer.status, "No pod nobody runs" in answer.text) == (404, True)


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

    assert fastest(end, 5.0) < 5.0


def platform_of(process: int) -> tuple[Path, list[psutil.Process]]:
    """The folder of a demo's platform, and all of the demo's processes but itself."""
    children = psutil.Process(process).children(recursive=True)
    assert len(children) > 5
    (folder,) = [Path(each.cmdline()[-1]) for each in children if "caretaker" in each.cmdline()]
    assert folder.exists()
    return folder, children


def gone(folder: Path, processes: list[psutil.Process]) -> bool:
    _, alive = psutil.wait_procs(processes, timeout=60)
    return not alive and eventually(lambda: not folder.exists(), timeout=60)


def test_nothing_is_left_behind_when_it_is_killed():
    with running("--port", "0") as demo:
        left = platform_of(demo.process.pid)
        demo.process.kill()
        assert gone(*left)


def test_it_ends_with_its_terminal():
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "examples.demo", "--port", "0"]
    # In a session of its own nobody is told but by the terminal's end, as below `make`, which keeps it to itself.
    with subprocess.Popen(
        command, cwd=ROOT, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    ) as process:
        os.close(theirs)
        said = b""
        while b"Ctrl-C" not in said:
            said += os.read(ours, 4096)
        left = platform_of(process.pid)
        os.close(ours)
        assert process.wait(60) == 0
        assert gone(*left)


def test_a_busy_port_is_said_and_another_taken():
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        with running("--port", str(port)) as demo:
            assert f"Port {port} can't be used" in demo.text
            assert json.loads(request("GET", f"{demo.url}api/config").body) == {"feedback_url": None}
            assert demo.interrupt()[0] == 0
