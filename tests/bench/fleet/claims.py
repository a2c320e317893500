"""Claims by pgbench: as fast as they go or at a rate, by the statements of ``telemetry.worker.claims``.

A transaction of pgbench is a whole job: claimed in one transaction, completed in the next, and another enqueued in its
place, so that the backlog stays as long as it is. Statements are prepared, and a claim asks for one tag of all.
"""

from __future__ import annotations

import re
import subprocess
from typing import Final

import msgspec

from telemetry.worker.claims import Claims
from tests.bench.fleet.estate import CARRIER, Estate, Scale

CLIENTS: Final = 8


class Claimed(msgspec.Struct, frozen=True):
    """One run of pgbench: jobs done, jobs a second, transactions that failed, milliseconds that a job took."""

    jobs: int
    rate: float
    failed: int
    ms: float


def script(scale: Scale) -> str:
    """The transaction, made of the library's own text."""
    claims = Claims(worker="", group="", tags=())
    values = {
        "%(tags)s": "ARRAY['tag-' || :t::text]",
        "%(id)s": ":job_id",
        "%(worker)s": "'worker-' || :w::text",
        "%(carrier)s": f"'{CARRIER}'::jsonb",
        "%(started_at)s": ":started_at",
        "%(status)s": "'success'",
    }
    parts = []
    for text in (claims._next, claims._take, claims._complete):
        filled = text.strip()
        for name, value in values.items():
            filled = filled.replace(name, value)
        parts.append(f"{' '.join(filled.split())} \\gset")
    claim, take, complete = parts
    return "\n".join(
        (
            f"\\set t random(0, {scale.tags - 1})",
            f"\\set w random(0, {scale.workers - 1})",
            "BEGIN;",
            claim,
            take,
            "COMMIT;",
            complete,
            f"INSERT INTO job_queue (tag, carrier) VALUES ('tag-' || :t::text, '{CARRIER}'::jsonb);",
            "",
        )
    )


def run(estate: Estate, seconds: float, *, clients: int = CLIENTS, rate: float | None = None) -> Claimed:
    """Claim for ``seconds``. Raises RuntimeError with what pgbench said, if it did not end well."""
    path = estate.server.folder / "claim.sql"
    path.write_text(script(estate.scale), encoding="utf-8")
    command = [estate.server.program("pgbench"), estate.url, "-n", "-M", "prepared", "-f", str(path)]
    command += ["-c", str(clients), "-j", "1", "-T", str(max(1, round(seconds)))]
    if rate is not None:
        command += [f"--rate={rate:g}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds + 120)
    if done.returncode:
        raise RuntimeError(f"pgbench ended with {done.returncode}: {done.stderr[-2000:]}")
    return parsed(done.stdout)


def parsed(said: str) -> Claimed:
    """What pgbench told. Raises RuntimeError where it tells something else."""
    patterns = {
        "jobs": r"transactions actually processed: (\d+)",
        "rate": r"tps = ([\d.]+) \(without initial",
        "failed": r"failed transactions: (\d+)",
        "ms": r"latency average = ([\d.]+) ms",
    }
    found = {name: re.search(pattern, said) for name, pattern in patterns.items()}
    missing = [name for name, match in found.items() if match is None]
    if missing:
        raise RuntimeError(f"pgbench does not tell {', '.join(missing)}:\n{said}")
    values = {name: float(match[1]) for name, match in found.items() if match is not None}
    return Claimed(int(values["jobs"]), values["rate"], int(values["failed"]), values["ms"])
