"""What was measured on: the sentence that stands beside each figure."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def machine(server: int | None) -> str:
    """Processor, cores, and whether anything was pinned: ``server`` is the core of what is measured, None for none."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        model = platform.processor() or platform.machine()
    pinned = "nothing pinned" if server is None else "pinned"
    return f"{model}, {os.cpu_count()} cores, {pinned}"
