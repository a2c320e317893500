"""Grafana's grammars and types from npm, installed as the lock says; without Node.js these tests are skipped."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.backends import npm

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def packages() -> Path:
    """``node_modules`` of this folder."""
    try:
        return npm.installed(HERE)
    except npm.Missing as missing:
        if os.environ.get("FLEETGLASS_REQUIRE_BACKENDS") == "1":
            pytest.fail(str(missing), pytrace=False)
        pytest.skip(str(missing))
