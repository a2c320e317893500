"""The line that ends a window: what it says of a report, and how it is written.

It has the form of every other line, with its own ``ts``, ``repeat`` for the occurrences that were counted instead of
logged, and an empty ``stack``. Email, workspace, kind and ``fp`` are those of the window; url, build, release and
message those of the first report that was counted. Stack and trace stand in the window's first line.
"""

from __future__ import annotations

from ingest.errors.line import kept, ready_line
from ingest.errors.report import KINDS, Report
from ingest.limits.rules import Closing, Sample
from ingest.principal import Principal
from telemetry.logs import ReadyLine


def sample(report: Report) -> Sample:
    """What a closing line would say about ``report``: cut and clean of secrets as its own line is."""
    return Sample(*(kept(name, getattr(report, name)) for name in Sample.__struct_fields__))


def closing_line(closing: Closing, now: float) -> ReadyLine:
    """The line of a window that was closed at ``now`` (seconds since the epoch)."""
    email, workspace, kind, fp = closing.key
    said = closing.sample
    report = Report(
        kind=next((known for known in KINDS if known == kind), "other"),
        message=said.message,
        url=said.url,
        build=said.build,
        release=said.release,
        repeat=closing.repeat,
    )
    return ready_line(report, Principal(email, workspace), now, fp)
