"""Grafana's HTTP API as its documentation publishes it, for machines where no Grafana can be had.

It stands in for nothing that runs here: it only refuses what the documented shapes refuse (*Dashboard HTTP API*,
*Folder HTTP API*, *New API structure*, Grafana 13), so that a request of ours that no Grafana would take fails.
"""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 64
RESOURCE = re.compile(
    r"/apis/(?P<group>(?:dashboard|folder)\.grafana\.app)/(?P<version>[a-z0-9]+)/namespaces/(?P<namespace>[a-z0-9-]+)"
    r"/(?P<kind>dashboards|folders)(?:/(?P<name>[^/]+))?"
)
KINDS = {"dashboards": "Dashboard", "folders": "Folder"}


class PublishedGrafana:
    """What the server holds. ``asked`` are the requests, as ``METHOD path``; tests set the other fields."""

    def __init__(self) -> None:
        self.versions = ["v0alpha1", "v1", "v2"]
        self.token = "glsa_valid"
        self.user = ("admin", "s3cret")
        self.renderer = True
        self.image = PNG
        self.render_status = 200
        self.resources: dict[tuple[str, str], dict[str, Any]] = {}
        self.asked: list[str] = []
        self.queries: list[dict[str, str]] = []
        self.organisations: set[str | None] = set()
        self.url = ""
        self._revision = 100

    @property
    def changes(self) -> list[str]:
        return [each for each in self.asked if not each.startswith("GET")]

    def known(self, header: str) -> bool:
        pair = base64.b64encode(":".join(self.user).encode()).decode()
        return header in (f"Bearer {self.token}", f"Basic {pair}")

    def store(self, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        self._revision += 1
        own = {"resourceVersion": str(self._revision), "uid": "e2f7", "generation": 1, "creationTimestamp": "2026"}
        body["metadata"] |= own
        body["metadata"].setdefault("annotations", {})["grafana.app/updatedBy"] = "service-account:x"
        self.resources[kind, body["metadata"]["name"]] = body
        return body

    def answer(self, method: str, target: str, body: Any) -> tuple[int, Any]:
        path, query = urlsplit(target).path, {k: v[0] for k, v in parse_qs(urlsplit(target).query).items()}
        self.queries.append(query)
        if path in ("/apis/dashboard.grafana.app", "/apis/folder.grafana.app"):
            group = path.rpartition("/")[2]
            offered = [{"groupVersion": f"{group}/{each}", "version": each} for each in self.versions]
            return (200, {"kind": "APIGroup", "name": group, "versions": offered}) if offered else (404, {})
        if path == "/api/frontend/settings":
            return 200, {"rendererAvailable": self.renderer, "buildInfo": {"version": "13.1.0"}}
        if path == "/api/search":
            rows = [
                {"uid": n, "title": r["spec"]["title"]} for (k, n), r in self.resources.items() if k == "dashboards"
            ]
            return 200, rows if query["page"] == "1" else []
        if path.startswith("/render/d"):
            return self.render_status, self.image
        match = RESOURCE.fullmatch(path)
        if not match or match["version"] not in self.versions:
            return 404, {"message": "not found"}
        return self._resource(method, match, body)

    def _resource(self, method: str, match: re.Match[str], body: Any) -> tuple[int, Any]:
        kind, name = match["kind"], match["name"]
        there = self.resources.get((kind, name or ""))
        if method == "GET":
            return (200, there) if there else (404, {"message": f'{kind} "{name}" not found'})
        wanted = {"apiVersion": f"{match['group']}/{match['version']}", "kind": KINDS[kind]}
        if any(body.get(key) != value for key, value in wanted.items()):
            return 400, {"message": "the API version or kind in the data does not match the expected one"}
        if body["metadata"].get("namespace") != match["namespace"] or "title" not in body["spec"]:
            return 400, {"message": "the namespace of the object does not match the one of the request"}
        if {"id", "version"} & set(body["spec"]):
            return 400, {"message": "fields that the server owns"}
        if method == "POST" and name is None:
            if (kind, body["metadata"]["name"]) in self.resources:
                return 409, {"message": "already exists"}
            folder = body["metadata"].get("annotations", {}).get("grafana.app/folder")
            if folder and ("folders", folder) not in self.resources:
                return 400, {"message": "folder not found"}
            return 201, self.store(kind, body)
        if method == "PUT" and name == body["metadata"]["name"] and there:
            if body["metadata"].get("resourceVersion") != there["metadata"]["resourceVersion"]:
                return 409, {"message": "the object has been modified"}
            return 200, self.store(kind, body)
        return 405, {"message": "method not allowed"}


@contextmanager
def published_grafana() -> Iterator[PublishedGrafana]:
    """The API on a port of the loopback, until the block is left."""
    state = PublishedGrafana()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def _serve(self) -> None:
            length = int(self.headers.get("content-length", 0))
            body = json.loads(self.rfile.read(length)) if length else None
            state.asked.append(f"{self.command} {urlsplit(self.path).path}")
            state.organisations.add(self.headers.get("x-grafana-org-id"))
            if state.known(self.headers.get("authorization", "")):
                status, said = state.answer(self.command, self.path, body)
            else:
                status, said = 401, {"message": "Invalid API key"}
            image = isinstance(said, bytes)
            payload = said if image else json.dumps(said).encode()
            self.send_response(status)
            self.send_header("content-type", "image/png" if image else "application/json")
            self.send_header("content-length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        do_GET = do_POST = do_PUT = _serve  # noqa: N815  (the names that http.server calls)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
