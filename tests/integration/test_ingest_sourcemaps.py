"""The service with source maps: the first line at once, the second after it, both before the process ends."""

from __future__ import annotations

import shutil
from pathlib import Path

from telemetry.testing import Receiver
from tests.integration.test_ingest import post, report, serving
from tests.loki_grammar import logfmt

MAPS = Path(__file__).parents[1] / "unit" / "sourcemaps"
BUNDLE = "https://console.example/assets/app-3f2a9c1b.js"
STACK = f"TypeError: x\n    at n ({BUNDLE}:1:30)\n    at r ({BUNDLE}:1:63)\n    at o ({BUNDLE}:1:87)"


def test_a_new_error_is_told_twice_with_one_fingerprint(tmp_path: Path) -> None:
    maps = tmp_path / "maps" / "assets"
    shutil.copytree(MAPS, maps)
    environ = {"FLEETGLASS_SOURCEMAPS": str(maps.parent), "FLEETGLASS_DEDUPE_WINDOW": "10"}
    with Receiver() as receiver:
        with serving(tmp_path, receiver, **environ) as (server, address):
            assert post(address, report(stack=STACK, release="1.4.2")).status == 204
            receiver.wait_for(lambda receiver: any(" frontend-source " in line.line for line in receiver.lines))
            assert post(address, report(stack=STACK, release="1.4.3")).status == 204
            server.finish(5)
        lines = [logfmt(line.line, strict=True) for line in receiver.lines if "logger=frontend" in line.line]
    first, second, *closing = lines
    assert first["fp"] == second["fp"]
    assert first["stack"].startswith("TypeError: x\n    at n (")
    assert second["stack"] == (
        "    at validate (src/form.ts:2:24)\n    at saveForm (src/app.ts:6:18)\n    at o (src/app.ts:11:17)"
    )
    assert (second["level"], second["release"]) == ("info", "1.4.2")
    assert "email" not in second
    # The report of the other release was a repeat, told when the window closed, and not resolved: it was not logged.
    assert [line["repeat"] for line in closing] == ["1"]
