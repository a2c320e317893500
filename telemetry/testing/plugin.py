"""The pytest plugin that comes with the installation: ``telemetry_receiver`` and ``telemetry_captured``.

pytest loads this module in every session of whoever has the package installed, so it imports nothing but
pytest, which is there already; the fixtures bring in what they need when a test asks for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from telemetry.testing.receiver import Receiver


@pytest.fixture
def telemetry_receiver() -> Iterator[Receiver]:
    """A fresh ``telemetry.testing.Receiver``, closed after the test.

    A predicate of the test's that raised inside it fails the test here at the latest.
    """
    from telemetry.testing.receiver import Receiver

    with Receiver() as receiver:
        yield receiver
