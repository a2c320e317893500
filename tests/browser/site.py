"""The real ingest service under uvicorn, with pages beside it, and a gate in front that records every report.

A test may close the gate with an answer of its own (``site.answer``), since the service can't be told to fail.
"""

from __future__ import annotations

import json
import logging
import mimetypes
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any

import uvicorn

from ingest.app import create_app
from ingest.errors.route import PATH
from ingest.principal import Principal, StaticTokens
from ingest.settings import Settings
from tests.backends.process import eventually

PAGES = Path(__file__).parent / "pages"
TOKEN = "t0ken"
MINA = Principal("mina@acme.example", "acme", ("member",))
# As strict as a console's policy can be: scripts and calls of the page's own origin only, nothing inline.
STRICT = "default-src 'none'; script-src 'self'; connect-src 'self'; img-src data:"


@dataclass(frozen=True)
class Post:
    """One report as it came: header names in lower case, the body decoded."""

    headers: Mapping[str, str]
    body: bytes
    at: float

    @property
    def report(self) -> Any:
        return json.loads(self.body)


@dataclass
class Site:
    """A running service. ``posts`` are the reports that came, ``answer`` what they get instead of the service's.

    ``signed`` are headers that a proxy in front of the service, which signs users in, adds to each request.
    """

    app: Any
    folders: Mapping[str, Path]
    policy: str | None = None
    signed: Mapping[str, str] = field(default_factory=dict)
    posts: list[Post] = field(default_factory=list)
    answer: Callable[[Post], tuple[int, Mapping[str, str]]] | None = None
    url: str = ""

    def reset(self) -> None:
        self.posts.clear()
        self.answer = None
        self.policy = None

    def reports(self) -> list[Any]:
        return [post.report for post in self.posts]

    def wait(self, count: int, timeout: float = 30.0) -> list[Any]:
        """The reports, once there are ``count``."""
        assert eventually(lambda: len(self.posts) >= count, timeout=timeout), f"{len(self.posts)} of {count} reports"
        return self.reports()

    def settled(self, seconds: float = 0.7, *, count: int = 0) -> list[Any]:
        """The reports, once there are ``count`` and then none has come for so many seconds."""
        self.wait(count)
        seen = -1
        while seen != len(self.posts):
            seen = len(self.posts)
            time.sleep(seconds)
        return self.reports()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        added = [(name.encode(), value.encode()) for name, value in self.signed.items()]
        scope = {**scope, "headers": [*scope["headers"], *added]}
        folder, _, name = scope["path"][1:].partition("/")
        if folder in self.folders:
            await self._file(self.folders[folder] / name, send)
        elif scope["path"] == PATH and scope["method"] == "POST":
            await self._post(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    async def _file(self, path: Path, send: Any) -> None:
        body = _content(path)
        kind = mimetypes.guess_type(path.name)[0] or "text/plain"
        headers = [(b"content-type", f"{kind}; charset=utf-8".encode()), (b"cache-control", b"no-store")]
        if self.policy and kind == "text/html":
            headers.append((b"content-security-policy", self.policy.encode()))
        await _send(send, 404 if body is None else 200, headers, body or b"")

    async def _post(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return
            body += message.get("body", b"")
            more = message.get("more_body", False)
        headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
        post = Post(headers, body, time.monotonic())
        self.posts.append(post)
        if self.answer is not None:
            status, answered = self.answer(post)
            await _send(send, status, [(name.encode(), value.encode()) for name, value in answered.items()], b"")
            return

        async def again() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        await self.app(scope, again, send)


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


async def _send(send: Any, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _session(scope: Mapping[str, Any]) -> Principal | None:
    """Whoever a cookie or a token stands for."""
    cookies = SimpleCookie(dict(scope["headers"]).get(b"cookie", b"").decode())
    if "session" in cookies and cookies["session"].value == "mina":
        return Principal(MINA.email, MINA.workspace, MINA.roles, ambient=True)
    return await StaticTokens({TOKEN: MINA})(scope)


@contextmanager
def running(folders: Mapping[str, Path], *, signed: Mapping[str, str] | None = None, **settings: Any) -> Iterator[Site]:
    """The service with pages under ``/pages/`` and whatever ``folders`` names, on a free port of ``localhost``.

    With ``signed`` headers, callers are known by the service's own settings; else by cookie or token.
    """
    settings = {"limit_rate": 1000.0, "limit_burst": 1000, "dedupe_window": 0.0, **settings}
    app = create_app(Settings(**settings), resolver=None if signed else _session)
    site = Site(app, {"pages": PAGES, **folders}, signed=signed or {})
    config = uvicorn.Config(site, log_config=None, access_log=False, timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        site.url = f"http://localhost:{listener.getsockname()[1]}"
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="site")
        thread.start()
        try:
            assert eventually(lambda: server.started)
            yield site
        finally:
            server.should_exit = True
            thread.join(30)


@contextmanager
def lines_kept() -> Iterator[list[str]]:
    """The lines that the service logs meanwhile."""
    lines: list[str] = []

    class Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.ready_line.line)  # type: ignore[attr-defined]

    keeper, logger = Keeper(), logging.getLogger("frontend")
    logger.addHandler(keeper)
    logger.setLevel(logging.ERROR)
    try:
        yield lines
    finally:
        logger.removeHandler(keeper)
