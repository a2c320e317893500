"""The telemetry that runs now, for those who must not be the reason that it gets loaded."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from telemetry.pipeline import Telemetry


def running() -> Telemetry | None:
    """What ``telemetry.setup()`` has started, None before it or after ``shutdown()``.

    Nobody has called it while its module isn't loaded; loading it costs some 100 ms.
    """
    pipeline = sys.modules.get("telemetry.pipeline")
    return pipeline.active() if pipeline is not None else None
