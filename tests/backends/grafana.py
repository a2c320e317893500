"""Grafana, where it is on PATH: provisioned with our files, on a database of its own. Its tests are ``stack`` tests."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from telemetry.stack.layout import home_of_grafana
from tests.backends.process import Server, request

MISSING = "grafana is missing: put `grafana` 13 on PATH"
USER, PASSWORD = "admin", "made-up-for-tests"


def find() -> str | None:
    """Grafana 13's program, or None."""
    found = shutil.which("grafana")
    if found is None:
        return None
    said = subprocess.run([found, "-v"], capture_output=True, text=True, check=False, timeout=60).stdout
    return found if "rafana" in said else None


class Grafana:
    """A running Grafana; ``files`` are what it is provisioned with, by path below ``provisioning``."""

    def __init__(self, server: Server, port: int) -> None:
        self.server = server
        self.url = f"http://127.0.0.1:{port}"

    @classmethod
    def start(cls, folder: Path, files: dict[str, str], *, renderer: str = "") -> Grafana:
        """Start it; the same ``folder`` again is the same database. Raises ServerError, also when it ends at once."""
        program = find()
        assert program is not None, MISSING
        for name, text in files.items():
            path = folder / "provisioning" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")

        def command(ports: Sequence[int]) -> list[str]:
            settings = {
                "server.http_addr": "127.0.0.1",
                "server.http_port": ports[0],
                "paths.data": folder / "data",
                "paths.logs": folder / "log",
                "paths.plugins": folder / "plugins",
                "paths.provisioning": folder / "provisioning",
                "security.admin_user": USER,
                "security.admin_password": PASSWORD,
                "analytics.reporting_enabled": "false",
                "analytics.check_for_updates": "false",
                "analytics.check_for_plugin_updates": "false",
                "news.news_feed_enabled": "false",
            }
            if renderer:
                settings |= {
                    "rendering.server_url": renderer,
                    "rendering.callback_url": f"http://127.0.0.1:{ports[0]}/",
                    "rendering.renderer_token": "made-up-for-tests",
                }
            given = [f"cfg:default.{name}={value}" for name, value in settings.items()]
            return [program, "server", f"--homepath={home_of_grafana(program)}", *given]

        server, ports = Server.start(
            "grafana", folder, 1, command, lambda p: f"http://127.0.0.1:{p[0]}/api/health", 180
        )
        return cls(server, ports[0])

    def read(self, path: str) -> Any:
        """The JSON of a GET as admin."""
        pair = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        answer = request("GET", self.url + path, headers={"Authorization": f"Basic {pair}"}, timeout=30)
        assert answer.status == 200, f"{path}: {answer.status} {answer.body[:300]!r}"
        return json.loads(answer.body)

    def stop(self) -> None:
        """End it."""
        self.server.stop(10)
