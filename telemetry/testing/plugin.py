"""The pytest plugin that comes with the installation: ``telemetry_receiver`` and ``telemetry_captured``.

pytest loads this module in every session of whoever has the package installed, so it imports nothing but
pytest, which is there already; the fixtures bring in what they need when a test asks for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from telemetry.testing.captured import Captured
    from telemetry.testing.receiver import Receiver


@pytest.fixture
def telemetry_receiver() -> Iterator[Receiver]:
    """A fresh ``telemetry.testing.Receiver``, closed after the test.

    A predicate of the test's that raised inside it fails the test here at the latest.
    """
    from telemetry.testing.receiver import Receiver

    with Receiver() as receiver:
        yield receiver


@pytest.fixture
def telemetry_captured() -> Iterator[Captured]:
    """The spans, log lines and metrics of this test, in memory, with ids 1, 2, 3… and a clock of its own.

    Works with or without ``telemetry.setup()``, before or during the test; what the test set up is shut
    down after it. See ``telemetry.testing.Captured``.
    """
    from telemetry.testing.captured import Captured

    with Captured() as captured:
        yield captured
