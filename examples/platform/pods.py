"""A pod, as far as this platform needs one: a name that stays, and the process that has it now."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]


class Pod:
    """A name, and the process that has it now."""

    def __init__(self, name: str, command: list[str], environ: Mapping[str, str], grace: float = 2.0) -> None:
        self.name, self.command, self.environ, self.grace = name, command, environ, grace
        self.process: subprocess.Popen[bytes] | None = None
        self.again_at = 0.0
        self.kill_at: float | None = None

    @property
    def runs(self) -> bool:
        """Whether there is a process."""
        return self.process is not None

    def start(self, folder: Path, pass_fds: tuple[int, ...]) -> None:
        """A new process; it ends when its stdin does, which is when we do."""
        with (folder / f"{self.name}.log").open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *self.command],
                cwd=ROOT,
                env={**os.environ, **self.environ, "POD_NAME": self.name},
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for us
                pass_fds=pass_fds,
            )
        self.kill_at = None

    def signal(self, number: int) -> None:
        """SIGTERM lets it drain, within its grace; SIGKILL lets it do nothing."""
        if self.process is not None:
            self.process.send_signal(number)
            if number == signal.SIGTERM and self.kill_at is None:
                self.kill_at = time.monotonic() + self.grace

    def ended(self) -> int | None:
        """The exit code of a process that has ended since the last look, below 0 for a signal; None: nothing new."""
        if self.process is None or self.process.poll() is None:
            return None
        assert self.process.stdin is not None, "it was a pipe"
        self.process.stdin.close()
        code, self.process = self.process.returncode, None
        return code
