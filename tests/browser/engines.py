"""Debian's Firefox ESR and WebKitGTK, driven without a library: Marionette over TCP, W3C WebDriver over HTTP.

Both are asked for little: open a page, run a script, close. Neither needs a driver from elsewhere: Firefox
brings Marionette itself, and Debian's ``webkit2gtk-driver`` drives the MiniBrowser of its own WebKitGTK.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from tests.backends.process import free_ports

MINIBROWSERS = sorted(Path("/usr/lib").glob("*/webkit2gtk-4.*/MiniBrowser"), reverse=True)
_START_SECONDS = 30.0


class EngineError(RuntimeError):
    """A browser that did not start, or a command that it refused."""


class Engine(Protocol):
    """One browser with one page."""

    def command(self, name: str, parameters: Mapping[str, Any]) -> Any: ...
    def open(self, url: str) -> None: ...
    def run(self, script: str, *arguments: Any) -> Any: ...


class Firefox:
    """A Marionette client (its wire form: ``length:[type, id, name or error, parameters or result]``)."""

    def __init__(self, port: int) -> None:
        self._socket = _connected(port)
        self._stream = self._socket.makefile("rb")
        self._read()  # the greeting
        self._sent = 0
        self.version = self.command("WebDriver:NewSession", {})["capabilities"]["browserVersion"]

    def command(self, name: str, parameters: Mapping[str, Any]) -> Any:
        self._sent += 1
        message = json.dumps([0, self._sent, name, parameters]).encode()
        self._socket.sendall(f"{len(message)}:".encode() + message)
        _, _, error, result = self._read()
        if error is not None:
            raise EngineError(f"{name}: {error}")
        return result.get("value", result) if isinstance(result, dict) else result

    def _read(self) -> Any:
        length = b""
        while (byte := self._stream.read(1)) != b":":
            if not byte:
                raise EngineError("Firefox hung up.")
            length += byte
        return json.loads(self._stream.read(int(length)))

    def open(self, url: str) -> None:
        self.command("WebDriver:Navigate", {"url": url})

    def run(self, script: str, *arguments: Any) -> Any:
        return self.command("WebDriver:ExecuteScript", {"script": script, "args": arguments, "sandbox": None})

    def close(self) -> None:
        with contextlib.suppress(OSError, EngineError):
            self.command("Marionette:Quit", {"flags": ["eForceQuit"]})
        self._stream.close()
        self._socket.close()


class WebKit:
    """A client of WebKitWebDriver (https://www.w3.org/TR/webdriver2/)."""

    def __init__(self, port: int, browser: Path) -> None:
        _connected(port).close()
        self._port = port
        options = {"binary": str(browser), "args": ["--automation"]}
        session = self._ask(
            "POST", "/session", {"capabilities": {"alwaysMatch": {"webkitgtk:browserOptions": options}}}
        )
        self.version = session["capabilities"]["browserVersion"]
        self._session = f"/session/{session['sessionId']}"

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=_START_SECONDS)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            answer = connection.getresponse()
            value = json.loads(answer.read())["value"]
        finally:
            connection.close()
        if answer.status != 200:
            raise EngineError(f"{method} {path}: {value}")
        return value

    def command(self, name: str, parameters: Mapping[str, Any]) -> Any:
        return self._ask("POST", f"{self._session}/{name}", parameters)

    def open(self, url: str) -> None:
        self.command("url", {"url": url})

    def run(self, script: str, *arguments: Any) -> Any:
        return self.command("execute/sync", {"script": script, "args": arguments})

    def close(self) -> None:
        with contextlib.suppress(OSError, EngineError, http.client.HTTPException):
            self._ask("DELETE", self._session)


def _connected(port: int) -> socket.socket:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=_START_SECONDS)
        except OSError:
            if time.monotonic() > deadline:
                raise EngineError("The browser did not listen in time.") from None
            time.sleep(0.1)


def missing_firefox() -> str | None:
    """What to install for ``firefox()``; None when all is there."""
    return None if shutil.which("firefox-esr") else "Firefox ESR is not there (Debian: apt-get install firefox-esr)."


def missing_webkit() -> str | None:
    """What to install for ``webkit()``; None when all is there."""
    if MINIBROWSERS and shutil.which("WebKitWebDriver") and shutil.which("Xvfb"):
        return None
    return "WebKitGTK with its driver is not there (Debian: apt-get install webkit2gtk-driver xvfb)."


@contextmanager
def firefox(folder: Path) -> Iterator[Firefox]:
    """Firefox ESR, headless, with a fresh profile in ``folder``."""
    (port,) = free_ports(1)
    profile = folder / "profile"
    profile.mkdir()
    quiet = {
        "marionette.port": port,
        "app.update.auto": False,
        "datareporting.policy.dataSubmissionEnabled": False,
        "network.captive-portal-service.enabled": False,
        "network.connectivity-service.enabled": False,
        "services.settings.server": "data:,#remote-settings-dummy/v1",
        "browser.shell.checkDefaultBrowser": False,
        "browser.startup.page": 0,
    }
    lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});\n" for name, value in quiet.items()]
    (profile / "user.js").write_text("".join(lines))
    arguments = ["firefox-esr", "--headless", "--marionette", "--no-remote", "--profile", str(profile), "about:blank"]
    with _running(arguments, folder):
        engine = Firefox(port)
        try:
            yield engine
        finally:
            engine.close()


@contextmanager
def webkit(folder: Path) -> Iterator[WebKit]:
    """WebKitGTK's MiniBrowser on a virtual screen."""
    (port,) = free_ports(1)
    reading, writing = os.pipe()
    screen = ["Xvfb", "-displayfd", str(writing), "-screen", "0", "1280x900x24", "-nolisten", "tcp"]
    with _running(screen, folder, pass_fds=(writing,)):
        os.close(writing)
        with os.fdopen(reading) as number:
            display = f":{number.readline().strip()}"
        environ = {
            "DISPLAY": display,
            "GDK_BACKEND": "x11",
            "WEBKIT_DISABLE_COMPOSITING_MODE": "1",
            "GIO_USE_PROXY_RESOLVER": "dummy",
        }
        with _running(["WebKitWebDriver", f"--port={port}"], folder, environ=environ):
            engine = WebKit(port, MINIBROWSERS[0])
            try:
                yield engine
            finally:
                engine.close()


@contextmanager
def _running(
    arguments: list[str], folder: Path, *, environ: Mapping[str, str] | None = None, pass_fds: tuple[int, ...] = ()
) -> Iterator[None]:
    """A process with its own home; ended, with what it started, by its own group."""
    home = {"HOME": str(folder), "XDG_RUNTIME_DIR": str(folder), "NO_AT_BRIDGE": "1"}
    with (folder / f"{arguments[0]}.log").open("wb") as log:
        process = subprocess.Popen(
            arguments,
            env={**os.environ, **home, **(environ or {})},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=pass_fds,
        )
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 15)
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
