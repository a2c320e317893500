"""Our running code as dashboards see it: a service under load, the same service at rest, scraped by VictoriaMetrics."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ingest.errors.route import PATH
from ingest.faro.route import PATH as FARO
from tests.backends.process import Server, request

ROOT = Path(__file__).parents[2]
APPS = Path(__file__).with_name("apps")
SOURCEMAPS = ROOT / "tests" / "unit" / "sourcemaps"
TOKENS = {
    "mina": {"email": "mina@acme.example", "workspace": "acme"},
    "jun": {"email": "jun@acme.example", "workspace": "acme"},
}


@dataclass(frozen=True)
class Service:
    """A running process of the application ``estate``, under the name ``job``."""

    job: str
    address: str

    def get(self, path: str) -> int:
        """The status of a GET."""
        return request("GET", f"http://{self.address}{path}", timeout=20).status

    def report(self, who: str, message: str, **more: Any) -> int:
        """Report a browser error; the status."""
        body = {"kind": "error", "message": message, "url": "/jobs", "build": "production", **more}
        return self._post(PATH, json.dumps(body).encode(), who)

    def faro(self, who: str, body: Mapping[str, Any]) -> int:
        """Send a batch as Grafana's Faro SDK does; the status."""
        return self._post(FARO, json.dumps(body).encode(), who)

    def _post(self, path: str, body: bytes, who: str) -> int:
        headers = {"Authorization": f"Bearer {who}", "Content-Type": "application/json"}
        return request("POST", f"http://{self.address}{path}", body, headers, timeout=20).status

    def load(self) -> None:
        """All that users, pages and their errors do, once."""
        for number in (1, 2, 3, 13):
            self.get(f"/items/{number}")
        self.get("/nowhere")
        self.get("/stream")
        for tenant in ("a", "b", "c"):
            self.get(f"/uploads/{tenant}")
        stack = "TypeError: x\n    at f (https://acme.example/app-3f2a9c1b.js:1:30)"
        for who in ("mina", "jun"):
            self.report(who, "x is undefined", stack=stack, repeat=3)
        self.report("jun", "render failed", kind="react")
        self.report("mina", "ResizeObserver loop limit exceeded")
        self.report("nobody", "not signed in")
        self.faro("mina", {"logs": [{"message": "m"}], "exceptions": [{"type": "TypeError", "value": "x"}]})


@contextmanager
def service(job: str, folder: Path, settings: Mapping[str, str]) -> Iterator[Service]:
    """The application as ``job``, with ``settings`` in its environment."""
    environ = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "OTEL_SERVICE_NAME": job,
        "FLEETGLASS_TOKENS": json.dumps(TOKENS),
        "FLEETGLASS_SOURCEMAPS": str(SOURCEMAPS),
        "FLEETGLASS_DEDUPE_WINDOW": "1",
        **settings,
    }

    def command(ports: Sequence[int]) -> list[str]:
        return [sys.executable, "-m", "uvicorn", "--app-dir", str(APPS), "--port", str(ports[0]), "estate:app"]

    server, ports = Server.start(
        job, folder, 1, command, lambda ports: f"http://127.0.0.1:{ports[0]}/healthz", 60, environ=environ
    )
    try:
        yield Service(job, f"127.0.0.1:{ports[0]}")
    finally:
        server.stop()
