"""``python -m examples.platform``: the platform alone, telling whatever the environment says, until Ctrl-C.

Beside ``fleetglass stack up`` and ``eval "$(fleetglass stack env)"``, the dashboards Queue and Fleet fill.
"""

from __future__ import annotations

import logging
import secrets
import signal
import sys
import threading

import telemetry
from examples.platform.postgres import PostgresError
from examples.platform.running import environ_for, platform
from ingest.principal import Principal

_ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main() -> int:
    """Run it; returns the exit status."""
    stop = threading.Event()
    telemetry.setup("platform-cluster", role="script", sigterm=False)
    for number in _ENDINGS:
        signal.signal(number, lambda *_: stop.set())
    token = secrets.token_urlsafe(12)
    environ = environ_for({}, {token: Principal("ops@example.com", "acme", ("super_admin",))})
    try:
        with platform(environ) as running:
            print(f"API     {running.api}\nToken   {token}\nQueue   {running.url}\nCtrl-C ends it.", flush=True)
            stop.wait()
    except PostgresError as error:
        logging.getLogger("cluster").error("the platform can't start: %s", error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
