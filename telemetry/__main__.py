"""``python -m telemetry``: the ``fleetglass`` command where its script is not on PATH."""

from __future__ import annotations

import sys

from telemetry.cli import main

sys.exit(main())
