"""``python -m tests.bench``: run the benches side by side in one go and write docs/benchmarks/.

Pinned as the figures are meant to be read: what is measured on the first core this process may use,
load generator and receiver on the second. With one core, or where nothing can be pinned, it runs all
the same and says so in the results.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

from tests.bench import b1_request, b2_span, b3_log, b4_loki, b5_ingest, b6_setup, b7_hung, child, report
from tests.bench.machine import machine
from tests.bench.results import Bench, Options, Results
from tests.bench.sink import Sink

BENCHES = {
    "B1": b1_request.bench,
    "B2": b2_span.bench,
    "B3": b3_log.bench,
    "B4": b4_loki.bench,
    "B5": b5_ingest.bench,
    "B6": b6_setup.bench,
    "B7": b7_hung.bench,
}
PEERS = (
    "fleetglass",
    "litestar",
    "uvicorn",
    "h11",
    "msgspec",
    "opentelemetry-sdk",
    "opentelemetry-exporter-otlp-proto-http",
    "opentelemetry-instrumentation-asgi",
    "opentelemetry-instrumentation-logging",
    "protobuf",
    "prometheus-client",
    "structlog",
    "python-json-logger",
    "python-logging-loki",
    "loki-logger-handler",
)
DOCS = Path(__file__).resolve().parents[2] / "docs" / "benchmarks"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Benchmarks, side by side in one go.")
    parser.add_argument("--only", metavar="B1,B3", help="these benches only; results of the others are kept")
    parser.add_argument("--quick", action="store_true", help="a few short rounds, printed and not written")
    parser.add_argument("--output", type=Path, help=f"folder to write to (default {DOCS})")
    parser.add_argument("--check", action="store_true", help="end with status 1 when a target isn't met")
    chosen = parser.parse_args()
    keys = chosen.only.upper().split(",") if chosen.only else list(BENCHES)
    if unknown := [key for key in keys if key not in BENCHES]:
        parser.error(f"no bench is called {', '.join(unknown)}; there are {', '.join(BENCHES)}")
    server, load = _cores()
    options = Options(quick=chosen.quick, server=server, load=load)
    folder = chosen.output or (None if chosen.quick else DOCS)
    before = report.read(folder) if folder else None
    results = Results(platform.python_version(), _versions(), dict(before.benches) if before else {})
    child.pin(load)
    sound = True
    for key in keys:
        _say(f"{key} …")
        try:
            bench = _run(key, options)
        except (RuntimeError, OSError) as error:  # said, and the others still run
            _say(f"{key} ended early: {error}")
            sound = False
            continue
        print(report.section(bench))
        sound &= all(row.balanced for row in bench.ledger)
        sound &= not chosen.check or all(target.met for target in bench.targets)
        results.benches[key] = bench
        if folder:
            in_order = {key: results.benches[key] for key in BENCHES if key in results.benches}
            report.write(msgspec.structs.replace(results, benches=in_order), folder)
    if folder:
        _say(f"written: {folder}/README.md, results.json, chart.svg")
    if not sound:
        _say("a bench ended early, a ledger does not balance, or a target that --check asks for is not met: see above")
    return 0 if sound else 1


def _run(key: str, options: Options) -> Bench:
    load_average, start = os.getloadavg()[0], time.monotonic()
    sink = Sink(options.load)  # a fresh one for each bench, so that no bench pays for what another left behind
    try:
        bench = BENCHES[key](options, sink)
    finally:
        sink.close()
    return msgspec.structs.replace(
        bench,
        date=datetime.now(UTC).date().isoformat(),
        seconds=time.monotonic() - start,
        machine=machine(options.server),
        load=load_average,
    )


def _cores() -> tuple[int | None, int | None]:
    if not hasattr(os, "sched_setaffinity"):
        return None, None
    cores = sorted(os.sched_getaffinity(0))
    return (cores[0], cores[1]) if len(cores) > 1 else (cores[0], cores[0])


def _versions() -> dict[str, str]:
    found = {}
    for name in PEERS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            sys.exit(f"{name} is not installed; `make bench` installs what it compares with")
    return found


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
