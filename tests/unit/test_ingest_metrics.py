"""Counters of closed enums are there at 0 before anything has happened."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ingest.errors.noise import REASONS
from ingest.errors.report import KINDS
from ingest.errors.route import RESULTS
from ingest.faro.payload import LEFT
from ingest.limits.rules import CAUSES
from ingest.limits.store import REASONS as STORE_REASONS

_FRESH = """
from ingest.app import create_app
from ingest.errors.sourcemaps import SourceMaps
from ingest.limits.rules import Thresholds
from ingest.limits.shared import Shared
from ingest.settings import Settings
from telemetry.metrics.registry import REGISTRY
import time
create_app(Settings())
SourceMaps(".", print)
Shared("redis://127.0.0.1:1", Thresholds(), print, time.monotonic)
for family in REGISTRY.collect():
    for sample in family.samples:
        if sample.name.endswith("_total"):
            print(sample.name, *sample.labels.values(), sample.value)
"""


def test_every_value_of_a_closed_label_is_there_at_zero_from_the_start() -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", _FRESH], capture_output=True, text=True, check=True, cwd=root)
    found: dict[str, set[str]] = {}
    for line in done.stdout.splitlines():
        name, label, value = line.split()
        assert float(value) == 0
        found.setdefault(name, set()).add(label)
    assert found == {
        "frontend_errors_total": set(KINDS),
        "frontend_reports_total": set(RESULTS),
        "frontend_noise_total": set(REASONS),
        "frontend_faro_ignored_total": {*LEFT, "replays"},
        "frontend_windows_closed_total": set(CAUSES),
        "frontend_store_errors_total": set(STORE_REASONS),
        "frontend_sourcemaps_total": {"resolved", "unmapped", "dropped", "failed"},
    }
