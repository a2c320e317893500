"""Alloy's ``faro.receiver`` beside our route, where an ``alloy`` is on PATH.

As an operator would run it, but for its limit, which is off, and its downloads of source maps: on one core, its lines
sent on by ``loki.write``. It asks nobody who they are, and remembers nothing of what it has seen.
"""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.backends.programs import find, missing
from tests.backends.stack import Alloy
from tests.bench import child

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PATH = "/collect"
_BATCH_WAIT = 1.0  # seconds: loki.write's default
MISSING = f"Alloy's `faro.receiver` was not measured: {missing('alloy')}."
# The bench's receiver keeps bodies and answers 204; what is under /loki/ it takes for our own kind of JSON.
_CONFIG = """
faro.receiver "errors" {{
  server {{
    listen_address = "127.0.0.1"
    listen_port    = {port}

    rate_limiting {{
      enabled = false
    }}
  }}

  sourcemaps {{
    download = false
  }}

  output {{
    logs = [loki.write.sink.receiver]
  }}
}}

loki.write "sink" {{
  endpoint {{
    url = "{sink}/alloy/push"
  }}
}}
"""


def is_there() -> bool:
    """Whether there is an Alloy to measure."""
    return find("alloy") is not None


class Measured:
    """A running Alloy: the port that takes Faro payloads, and what it has used."""

    def __init__(self, alloy: Alloy) -> None:
        self._pid = alloy.server.pid
        self.port = alloy.ports[0]

    def cpu(self) -> float:
        """CPU seconds of the process so far."""
        fields = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def drain(self) -> float:
        """CPU seconds so far, once what is queued can be expected to be sent: nobody can ask Alloy to send."""
        time.sleep(_BATCH_WAIT * 1.5)
        return self.cpu()


@contextmanager
def running(sink: str, core: int | None) -> Iterator[Measured]:
    """An Alloy on ``core`` that sends its lines to ``sink``."""

    def config(ports: Sequence[int]) -> str:
        return _CONFIG.format(port=ports[0], sink=sink)

    with tempfile.TemporaryDirectory() as folder:
        own = None if core is None else os.sched_getaffinity(0)
        child.pin(core)  # what is started now inherits it, all its threads included
        try:
            alloy = Alloy.start(Path(folder), config, 1, lambda _: {"GOMAXPROCS": "1"})
        finally:
            if own is not None:
                os.sched_setaffinity(0, own)
        try:
            yield Measured(alloy)
        finally:
            alloy.stop()
