"""The client as the service hands it out: small, typed, cached, compressed, and in step with its package."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest
from litestar.testing import TestClient

from ingest.app import create_app
from ingest.routes.browser import MODULES, PATHS
from ingest.settings import Settings
from telemetry.version import VERSION

BROWSER = Path(__file__).parents[2] / "ingest" / "browser"


@pytest.fixture(scope="module")
def client():
    with TestClient(create_app(Settings())) as client:
        yield client


def test_the_core_is_at_most_2_kib_compressed():
    assert len(gzip.compress((BROWSER / "min" / "browser.js").read_bytes(), mtime=0)) <= 2048


def test_every_module_has_types_and_a_minified_form():
    sources = {path.name for path in BROWSER.glob("*.js")}
    assert sources == set(MODULES) == {path.name for path in (BROWSER / "min").iterdir()}
    assert {f"{path.name.removesuffix('.d.ts')}.js" for path in BROWSER.glob("*.d.ts")} == sources


@pytest.mark.parametrize(("path", "module"), list(zip(PATHS, MODULES, strict=True)))
def test_a_module_is_served_with_its_type_and_may_be_loaded_by_any_page(client, path, module):
    answer = client.get(path)
    assert answer.status_code == 200
    assert answer.content == (BROWSER / "min" / module).read_bytes()
    assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers["cross-origin-resource-policy"] == "cross-origin"
    assert answer.headers["cache-control"].startswith("public, max-age=300")
    assert "frontend-error" not in path


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [
        ("gzip, deflate, br", "gzip"),
        ("br;q=1, GZIP;q=0.5", "gzip"),
        ("identity", None),
        ("gzip;q=0", None),
        ("gzip; q=0.000", None),
        ("", None),
        ("notgzip", None),
    ],
)
def test_it_is_compressed_for_those_who_take_it(client, accepted, encoding):
    answer = client.get(PATHS[0], headers={"accept-encoding": accepted})
    assert answer.headers.get("content-encoding") == encoding
    assert answer.headers["vary"] == "accept-encoding"
    if encoding:
        assert int(answer.headers["content-length"]) <= 2048


def test_who_has_it_is_told_so(client):
    for accepted in ("gzip", "identity"):
        headers = {"accept-encoding": accepted}
        tag = client.get(PATHS[0], headers=headers).headers["etag"]
        assert re.fullmatch(r'"[0-9a-f]{16}(-gzip)?"', tag)
        for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
            answer = client.get(PATHS[0], headers={**headers, "if-none-match": known})
            assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", tag)
        assert client.get(PATHS[0], headers={**headers, "if-none-match": '"other"'}).status_code == 200


def test_head_and_other_methods(client):
    answer = client.head(PATHS[0])
    assert (answer.status_code, answer.content) == (200, b"")
    assert int(answer.headers["content-length"]) > 0
    refused = client.post(PATHS[0])
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD")


def test_the_package_has_the_version_of_the_project_and_exports_every_module():
    package = json.loads((BROWSER / "package.json").read_text())
    assert package["version"] == VERSION
    exported = {entry["default"].removeprefix("./") for entry in package["exports"].values() if isinstance(entry, dict)}
    assert exported == set(MODULES)
    assert "dependencies" not in package
