"""``python -m examples.demo``: the example platform and the page that shows it, on loopback, until Ctrl-C."""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import select
import signal
import socket
import sys
import textwrap
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType

import uvicorn

import telemetry
from examples.demo.app import create_app
from examples.demo.feed import Feed
from examples.platform.postgres import PostgresError
from examples.platform.running import Platform, environ_for, platform
from ingest.errors.route import PATH
from ingest.principal import Principal
from ingest.settings import Settings
from telemetry.testing import Receiver

SERVICE = "demo-shop"
DEFAULT_PORT = 8000
# An open page is told to go within a tick; what else is being answered gets a second.
_GRACE = 1
# The newest so many spans, lines and samples are kept to show: enough for the page, bounded for a long demo.
_KEPT = 8000
# SIGHUP is what a terminal sends that is closed.
_ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Server(uvicorn.Server):
    """Uvicorn, but for its signal handlers: it raises the signal again at the end, and we have more to say."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Ours stand already."""
        yield

    def stop(self, _signal: int, _frame: FrameType | None) -> None:
        """End; at the second signal without waiting for anybody."""
        self.force_exit = self.should_exit
        self.should_exit = True


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m examples.demo", description=__doc__)
    parser.add_argument(
        "--port", type=int, default=DEFAULT_PORT, help=f"port on 127.0.0.1 (default {DEFAULT_PORT}; 0: any free one)"
    )
    options = parser.parse_args(arguments)
    for number in _ENDINGS:
        signal.signal(number, _end_at_once)
    _watch_terminal()
    _forget_settings()
    token = secrets.token_urlsafe(12)
    # No dedupe window here: the page's client counts repeats, and who sends curl twice wants to see two lines.
    tokens = {token: Principal("dev@example.com", "demo", ("member", "super_admin"))}
    settings = Settings.load({"tokens": tokens, "dedupe_window": 0})
    listener = _listen(options.port)
    with listener, Receiver(keep="records", limit=_KEPT) as receiver:
        running = telemetry.setup(
            SERVICE,
            role="server",
            environment="demo",
            otlp_endpoint=receiver.url,
            otlp_protocol="http/protobuf",
            loki_url=receiver.url,
            metrics_push_url=receiver.url,
            metrics_push_interval=1.0,
            linger=0.2,
            log_format="logfmt",
            log_levels={"httpx": "WARNING"},  # its line per call says what the client's span says
            stdout="off",
            server_timing=True,
            instrument=("httpx",),
            sigterm=False,
        )
        environ = environ_for(receiver.environ(), tokens, environment="demo")
        try:
            with platform(environ) as running_platform:
                ended = _serve(settings, receiver, running, running_platform, listener, token)
        except PostgresError as error:
            running.shutdown()
            print(f"The demo can't start: {error}", file=sys.stderr)
            return 1
        delivered = running.shutdown()
        _say(_goodbye(running))
    return 0 if delivered and ended else 1


def _serve(
    settings: Settings,
    receiver: Receiver,
    running: telemetry.Telemetry,
    running_platform: Platform,
    listener: socket.socket,
    token: str,
) -> bool:
    """Serve the page until a signal comes; whether it was ever up."""
    base_url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    app = create_app(
        settings,
        Feed(receiver, running, SERVICE),
        running_platform,
        base_url=base_url,
        token=token,
        service=SERVICE,
        stopping=lambda: server.should_exit,
    )
    config = uvicorn.Config(
        app, log_config=None, access_log=False, server_header=False, timeout_graceful_shutdown=_GRACE
    )
    server = _Server(config)
    for number in _ENDINGS:
        signal.signal(number, server.stop)
    _say(_welcome(base_url, token))
    server.run(sockets=[listener])
    return server.started


def _end_at_once(number: int, _frame: FrameType | None) -> None:
    """Before there is anything to serve: leave the blocks that were entered, and go."""
    raise SystemExit(128 + number)


def _watch_terminal() -> None:
    """End with the terminal that we were started in, also where it tells only ``make`` that it was closed."""
    terminal = sys.stdout.fileno()
    if not os.isatty(terminal):
        return

    def watch() -> None:
        closed = select.poll()
        closed.register(terminal, 0)  # for nothing but the end, which is always told
        closed.poll()
        os.kill(os.getpid(), signal.SIGHUP)

    threading.Thread(target=watch, name="terminal", daemon=True).start()


def _forget_settings() -> None:
    """Leave the settings of whoever starts the demo out of it: what it shows is sent to its own receiver only."""
    for name in list(os.environ):
        if name.startswith(("FLEETGLASS_", "OTEL_", "PROMETHEUS_", "PG")) or name in {"DATABASE_URL", "FEEDBACK_URL"}:
            del os.environ[name]


def _listen(port: int) -> socket.socket:
    """A listening socket on loopback; on any free port when ``port`` is busy, and says so."""
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError as error:
        print(f"Port {port} can't be used ({error.strerror}); taking a free one.", file=sys.stderr)
        return socket.create_server(("127.0.0.1", 0))


def _say(text: str) -> None:
    """Print it, where there still is somebody to read it."""
    try:
        print(text, flush=True)
    except OSError:  # the terminal was closed
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - for the flush at our very end


def _welcome(base_url: str, token: str) -> str:
    report = '{"kind":"error","message":"Hello from curl","url":"/terminal","build":"development"}'
    return textwrap.dedent(
        f"""\
        Fleetglass demo

          Open    {base_url}/
          Token   {token}

        Press the buttons: break the page, give the platform work, kill a worker, and see what comes of it.
        Or send a report from another terminal:

          curl -i {base_url}{PATH} \\
            -H 'Authorization: Bearer {token}' \\
            -H 'Content-Type: application/json' \\
            -d '{report}'

        Or kill a worker, and look at what the platform's console would be told:

          curl -X POST -H 'Authorization: Bearer {token}' {base_url}/demo/pods/heavy-0/kill
          curl -H 'Authorization: Bearer {token}' {base_url}/api/admin/fleet

        All knobs: docs/platform.md. Also there: {base_url}/metrics, /readyz?verbose, /schema. Ctrl-C ends it."""
    )


def _goodbye(running: telemetry.Telemetry) -> str:
    accounts = [
        f"{row.signal} {row.delivered:,} of {row.emitted:,} delivered" + (f", {row.lost:,} dropped" if row.lost else "")
        for row in running.health().rows
    ]
    return "\nGoodbye. " + "; ".join(accounts) + "."


if __name__ == "__main__":
    sys.exit(main())
