"""B6: what ``import telemetry`` and ``setup()`` take, and each part's share."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import defaultdict
from typing import TYPE_CHECKING

from tests.bench import child, imports
from tests.bench.results import Bench, Options, Row, Table, Target
from tests.bench.rounds import over, schedule, spread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.bench.rounds import Spread
    from tests.bench.sink import Sink

BARE, IMPORT, PLAIN, EVERY, FIRST = "bare", "import", "plain", "every", "first"
NAMES = {
    IMPORT: "`import telemetry`",
    PLAIN: "… and `setup()`, nothing configured",
    EVERY: "… and `setup()`, every sink on",
    FIRST: "… and one span and one line delivered",
}
SINKS = "loki_url={url!r}, otlp_endpoint={url!r}, metrics_push_url={url!r}, sigterm=False"
PROGRAMS = {
    BARE: "",
    IMPORT: "import telemetry\n",
    PLAIN: "import telemetry\ntelemetry.setup(service='bench-b6')\n",
    EVERY: f"import telemetry\ntelemetry.setup(service='bench-b6', {SINKS})\n",
    FIRST: (
        f"import logging, telemetry\nrunning = telemetry.setup(service='bench-b6', {SINKS})\n"
        "with telemetry.span('first'):\n    logging.getLogger('first').info('first')\n"
        "assert running.flush(10)\n"
    ),
}
# Ends before any shutdown work, having told how long it lived and how much CPU it used.
TELL = "import os, time\nos.write(1, b'%d %d' % (time.monotonic_ns(), time.process_time_ns()))\nos._exit(0)\n"
HOW = (
    "A fresh interpreter per sample, byte code cached, on one core; from its start to the end of the statement, the"
    " bare interpreter of the same round taken off. `every sink` is Loki, OTLP traces and metrics push. Since laziness"
    " moves a cost and does not remove it, the last row goes on until the receiver has taken one span and one line."
    " Importing is computing: on an idle machine wall and CPU time agree, on a busy one only CPU time tells."
)


def bench(options: Options, sink: Sink) -> Bench:
    wall: dict[str, list[float]] = defaultdict(list)
    cpu: dict[str, list[float]] = defaultdict(list)
    programs = {name: program.format(url=sink.url) for name, program in PROGRAMS.items()}
    for program in programs.values():
        _sample(program, options.server)
    for _, name in schedule(list(programs), options.rounds(24)):
        lived, used = _sample(programs[name], options.server)
        wall[name].append(lived)
        cpu[name].append(used)
    more = {name: spread(over(wall[name], wall[BARE])) for name in NAMES}
    work = {name: spread(over(cpu[name], cpu[BARE])) for name in NAMES}
    return Bench(
        key="B6",
        title="Import and setup",
        how=HOW,
        tables=(
            _table("CPU time over the bare interpreter", work, chart=True),
            _table("Wall time over the bare interpreter", more),
            _shares(programs[EVERY], options),
        ),
        targets=(
            Target("import telemetry", work[IMPORT].median, 60, "at most", "ms"),
            Target("import and setup(), nothing configured", work[PLAIN].median, 220, "at most", "ms"),
            Target("import and setup(), every sink on", work[EVERY].median, 450, "at most", "ms"),
        ),
        notes=(f"The bare interpreter: {spread(wall[BARE]).median:.0f} ms.",),
    )


def _table(title: str, values: dict[str, Spread], *, chart: bool = False) -> Table:
    return Table(title, "ms", "less", tuple(Row(NAMES[name], values[name]) for name in NAMES), chart=chart)


def _sample(program: str, core: int | None) -> tuple[float, float]:
    """Milliseconds from start to the end of ``program``, and of CPU used until then."""
    start = time.monotonic_ns()
    ended, used = map(int, _run([sys.executable, "-c", program + TELL], core).stdout.split())
    return (ended - start) / 1e6, used / 1e6


def _run(command: Sequence[str], core: int | None) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=lambda: child.pin(core),
    )
    if done.returncode:
        raise RuntimeError(f"a sample ended with status {done.returncode}: {done.stderr[-2000:]}")
    return done


def _shares(program: str, options: Options) -> Table:
    """Each part's import time with every sink on, and what ``setup()`` does besides importing."""
    columns: dict[str, list[float]] = defaultdict(list)
    rounds = options.rounds(12)
    timed = "import time as t\nbegun = t.perf_counter()\n" + program + "print(t.perf_counter() - begun)\n" + TELL
    for _ in range(rounds):
        done = _run([sys.executable, "-X", "importtime", "-c", timed], options.server)
        parts = imports.shares(done.stderr.splitlines())
        parts.pop(imports.INTERPRETER, None)
        for part, milliseconds in parts.items():
            columns[part].append(milliseconds)
        # What importtime itself costs falls on both, so that the difference stays fair.
        elapsed = json.loads(done.stdout.split("\n", 1)[0]) * 1000
        columns["setup() itself, no import"].append(max(0.0, elapsed - sum(parts.values())))
    rows = sorted((Row(part, spread(values)) for part, values in columns.items()), key=lambda row: -row.value.median)
    return Table("Each part's share, every sink on (by -X importtime, which adds some)", "ms", "less", tuple(rows))
