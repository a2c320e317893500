"""A pytest plugin that keeps every logfmt line which the tests of a run emit: ``-p tests.line_recorder``.

``--lines-to FILE`` gets one JSON string a line of the file. The stack tests push them to a real Loki.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from telemetry.logs.event import Event
from telemetry.logs.formatters import LogfmtFormatter

if TYPE_CHECKING:
    import pytest

_render = LogfmtFormatter.render
_lines: dict[str, None] = {}


def _recording(self: LogfmtFormatter, record: logging.LogRecord) -> tuple[Event, str]:
    event, line = _render(self, record)
    _lines[line] = None
    return event, line


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option of this plugin."""
    parser.addoption("--lines-to", type=Path, help="file for the lines that the tests emit")


def pytest_configure() -> None:
    """Begin to listen."""
    LogfmtFormatter.render = _recording  # type: ignore[method-assign]


def pytest_unconfigure(config: pytest.Config) -> None:
    """Write what was heard."""
    LogfmtFormatter.render = _render  # type: ignore[method-assign]
    path: Path | None = config.getoption("--lines-to")
    if path is not None:
        path.write_text("".join(json.dumps(line) + "\n" for line in _lines))
