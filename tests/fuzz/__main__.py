"""``make fuzz``: hostile bodies through the core, guided by what of it they reach, until something breaks.

``ARGS='-runs=1000000 -max_total_time=600'`` and every other option of libFuzzer; ``ARGS='bulk 1000000 7'`` makes
that many random bodies from a seed instead, without guidance, several times faster. What is found goes into a
folder of the user's; a case worth keeping is copied into ``tests/fuzz/corpus/``, which the tests replay.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
FOUND = Path(tempfile.gettempdir()) / "fleetglass-fuzz"
MAX_BODY = 16 * 1024


def guided(arguments: list[str]) -> None:
    """Run libFuzzer; it ends the process."""
    try:
        import atheris
    except ImportError:
        sys.exit("make fuzz needs atheris, which has wheels for Linux on x86-64 up to Python 3.13.")
    # What is watched has to be imported here, the judge and its grammar stay outside.
    with atheris.instrument_imports(include=["ingest", "telemetry.logs.logfmt", "telemetry.scrub"]):
        import ingest.errors.fingerprint
        import ingest.errors.line
        import ingest.errors.noise  # noqa: F401
    from tests.fuzz import bodies
    from tests.fuzz.judge import judge

    def one(data: bytes) -> None:
        judge(data)

    def mutate(data: bytes, max_size: int, seed: int) -> bytes:
        rng = random.Random(seed)
        if rng.random() < 0.4:
            return atheris.Mutate(data, min(max_size, len(data) + 64))
        return bodies.mutated(data, rng)[:max_size]

    FOUND.mkdir(exist_ok=True)
    defaults = [f"-max_len={MAX_BODY}", "-timeout=10", "-print_final_stats=1", f"-artifact_prefix={FOUND}/"]
    options = [argument for argument in arguments if argument.startswith("-")]
    folders = [argument for argument in arguments if not argument.startswith("-")]
    atheris.Setup(
        [sys.argv[0], *defaults, *options, *(folders or [str(FOUND)]), str(CORPUS)], one, custom_mutator=mutate
    )
    atheris.Fuzz()


def bulk(count: int, seed: int) -> None:
    """``count`` random bodies; raises on the first that the judge refuses, which it writes down."""
    from tests.fuzz import bodies
    from tests.fuzz.judge import judge

    rng = random.Random(seed)
    refused = longest = 0
    slowest = 0.0
    began = time.monotonic()
    for number in range(1, count + 1):
        body = bodies.body(rng)
        before = time.process_time()
        try:
            line = judge(body)
        except BaseException:
            FOUND.mkdir(exist_ok=True)
            (FOUND / "broken").write_bytes(body)
            print(f"body {number} of seed {seed} is kept in {FOUND / 'broken'}", file=sys.stderr)
            raise
        slowest = max(slowest, time.process_time() - before)
        refused += line is None
        longest = max(longest, len(line.encode()) if line else 0)
        if number % 100_000 == 0 or number == count:
            rate = number / (time.monotonic() - began)
            print(
                f"{number:,} bodies, {refused:,} refused, longest line {longest} bytes, slowest {slowest * 1e3:.1f} ms "
                f"with its judgement, {rate:,.0f} a second",
                flush=True,
            )


if __name__ == "__main__":
    if sys.argv[1:2] == ["bulk"]:
        bulk(int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    else:
        guided(sys.argv[1:])
