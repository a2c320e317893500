"""What an API server answers about pods and their logs, for programs that read pods; not an API server otherwise."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass
class PodApi:
    """``pods`` are Pod objects, ``logs`` the log of each by its name; ``asked`` the paths and queries so far."""

    pods: list[dict[str, Any]]
    logs: Mapping[str, str]
    asked: list[str] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def serving(self, kubeconfig: Path) -> Iterator[None]:
        """Answer meanwhile; ``kubeconfig`` is written to say where."""
        server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        server.daemon_threads = True
        address = f"http://127.0.0.1:{server.server_address[1]}"
        written = {
            "clusters": [{"name": "c", "cluster": {"server": address}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "c",
        }
        kubeconfig.write_text(json.dumps(written), encoding="utf-8")
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self.ended.set()
            server.shutdown()
            thread.join()
            server.server_close()

    def answer(self, path: str, query: Mapping[str, list[str]]) -> tuple[int, str, bool]:
        """Status, body, and whether the answer goes on until the end."""
        parts = path.strip("/").split("/")
        if path == "/api/v1/pods":
            if query.get("watch") == ["true"]:
                # A watch that begins with the whole list is refused, as older servers do: the client lists then.
                return (422, "{}", False) if "sendInitialEvents" in query else (200, "", True)
            body = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": self.pods}
            return 200, json.dumps(body), False
        if path == "/version":
            return 200, json.dumps({"major": "1", "minor": "36", "gitVersion": "v1.36.3"}), False
        if len(parts) == 7 and parts[-1] == "log":
            return 200, self.logs[parts[5]], True
        named = [pod for pod in self.pods if len(parts) == 6 and pod["metadata"]["name"] == parts[5]]
        return (200, json.dumps(named[0]), False) if named else (404, "{}", False)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                api.asked.append(self.path)
                parts = urlsplit(self.path)
                status, body, goes_on = api.answer(parts.path, parse_qs(parts.query))
                self.send_response(status)
                self.send_header("Content-Type", "text/plain" if parts.path.endswith("/log") else "application/json")
                self.end_headers()
                self.wfile.write(body.encode())
                self.wfile.flush()
                if goes_on:
                    api.ended.wait()

            def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
                """Say nothing: what was asked is kept."""

        return Handler


def pod(name: str, node: str, labels: Mapping[str, str], annotations: Mapping[str, str], port: str) -> dict[str, Any]:
    """A running Pod with one container, ``main``, whose port 9464 is called ``port``."""
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "labels": dict(labels),
            "annotations": dict(annotations),
        },
        "spec": {
            "nodeName": node,
            "containers": [{"name": "main", "ports": [{"name": port, "containerPort": 9464, "protocol": "TCP"}]}],
        },
        "status": {
            "phase": "Running",
            "podIP": "127.0.0.1",
            "containerStatuses": [
                {"name": "main", "containerID": f"containerd://{name}", "state": {"running": {}}, "ready": True}
            ],
        },
    }
