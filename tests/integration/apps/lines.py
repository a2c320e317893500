"""A process that writes lines of ours to stdout: one inside a span, some browser errors, one that only holds the words.

``python lines.py SERVICE COUNT`` writes COUNT browser errors, as the ingest service writes them.
"""

from __future__ import annotations

import logging
import sys
import time

import telemetry
from ingest.errors.line import ready_line
from ingest.errors.report import Report
from ingest.principal import Principal

PAGE_TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def main(service: str, count: int) -> None:
    """Write everything to stdout, and leave without a trace of it elsewhere."""
    tel = telemetry.setup(service, role="script")
    with telemetry.span("work"):
        logging.getLogger("lines").info("looked up", extra={"user": "김 철수", "workspace": "acme"})
    principal = Principal("mina@acme.example", "acme")
    for number in range(count):
        report = Report(
            kind="error",
            message=f"x{number} is undefined",
            stack="at f (https://a.example/app.js:1:2)",
            url="https://a.example/jobs",
            trace_id=PAGE_TRACE,
        )
        line = ready_line(report, principal, time.time(), f"{number:016x}")
        logging.getLogger("frontend").error("x", extra={"ready_line": line})
    logging.getLogger("access").info("GET /frontend-error 404")
    tel.shutdown()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
