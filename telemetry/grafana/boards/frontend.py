"""The *Frontend errors* dashboard: what breaks in browsers, whom it hits, what becomes of the reports."""

from __future__ import annotations

from typing import Final

from telemetry.grafana.queries.frontend import (
    CANARIES,
    ERRORS_NOW,
    FARO_IGNORED,
    LATEST,
    LINES_BY_KIND,
    LINES_LOST,
    MOST_HIT,
    NOISE_BY_REASON,
    OCCURRENCES_BY_KIND,
    OF_FINGERPRINT,
    OF_USER,
    RATE_BY_KIND,
    REFUSED_NOW,
    REPORTS_BY_RESULT,
    STORE_UP,
    TOP,
    TOP_NEW,
    USERS_HIT,
    WINDOWS_OPEN,
)
from telemetry.grafana.records import Dashboard, Panel, Row, Variable

DASHBOARD: Final = Dashboard(
    uid="fleetglass-frontend-errors",
    title="Frontend errors",
    description="What breaks in browsers, whom it hits, and what becomes of the reports about it.",
    tags=("fleetglass", "frontend"),
    variables=(
        Variable(name="metrics", kind="datasource", title="Metrics", choices="prometheus"),
        Variable(name="logs", kind="datasource", title="Logs", choices="loki"),
        Variable(name="job", kind="labels", title="Job", choices="frontend_reports_total, job", default=".+"),
        Variable(name="service", kind="text", title="Service in Loki", default="fleetglass-ingest"),
        Variable(name="workspace", kind="text", title="Workspace", default=".+"),
        Variable(name="fp", kind="text", title="Fingerprint"),
        Variable(name="email", kind="text", title="Email"),
    ),
    rows=(
        Row(
            title="Is it OK?",
            panels=(
                Panel(
                    id=1,
                    title="Occurrences",
                    kind="stat",
                    description="Errors in browsers in the time shown. Normal: what it was last week. More: see Kinds.",
                    queries=(ERRORS_NOW,),
                    width=6,
                ),
                Panel(
                    id=2,
                    title="Reports refused",
                    kind="stat",
                    description="Normal: near 0. More: the panel Results says why, the runbook what to do.",
                    queries=(REFUSED_NOW,),
                    width=6,
                ),
                Panel(
                    id=3,
                    title="Lines lost",
                    kind="stat",
                    description="Normal: 0. More: Loki was away for longer than the queue lasts, or refuses lines.",
                    queries=(LINES_LOST,),
                    width=6,
                ),
                Panel(
                    id=4,
                    title="Limits shared",
                    kind="stat",
                    description="Normal: 1. At 0 each replica limits alone; look after the store.",
                    queries=(STORE_UP,),
                    no_value="no store",
                    width=6,
                ),
            ),
        ),
        Row(
            title="Flow",
            panels=(
                Panel(
                    id=5,
                    title="Kinds",
                    kind="timeseries",
                    description="Occurrences a second. Normal: flat, with the day. A step after a release: roll back.",
                    queries=(RATE_BY_KIND,),
                    unit="ops",
                ),
                Panel(
                    id=6,
                    title="Results",
                    kind="timeseries",
                    description="Reports a second. Normal: accepted and duplicate. Others: see the runbook by result.",
                    queries=(REPORTS_BY_RESULT,),
                    unit="ops",
                ),
                Panel(
                    id=7,
                    title="Occurrences in Loki",
                    kind="timeseries",
                    description="Normal: the shape of Kinds. Less: lines were lost on the way.",
                    queries=(OCCURRENCES_BY_KIND,),
                ),
                Panel(
                    id=8,
                    title="Lines in Loki",
                    kind="timeseries",
                    description="Normal: fewer than occurrences, since repeats share a line.",
                    queries=(LINES_BY_KIND,),
                ),
            ),
        ),
        Row(
            title="One workspace",
            panels=(
                Panel(
                    id=9,
                    title="Most frequent",
                    kind="table",
                    description="Errors by fingerprint; choose a workspace. Copy an fp into its field to see it.",
                    queries=(TOP,),
                ),
                Panel(
                    id=10,
                    title="New in the last hour",
                    kind="table",
                    description="Normal: empty between releases. Anything here came with the last change.",
                    queries=(TOP_NEW,),
                ),
                Panel(
                    id=11,
                    title="People hit most",
                    kind="table",
                    description="Normal: nobody stands out. One person far ahead: their browser or their data.",
                    queries=(MOST_HIT,),
                ),
                Panel(
                    id=12,
                    title="Latest",
                    kind="logs",
                    description="Errors as they come.",
                    queries=(LATEST,),
                ),
            ),
        ),
        Row(
            title="One error, one person",
            panels=(
                Panel(
                    id=13,
                    title="People hit",
                    kind="stat",
                    description="People who met the error of the chosen fp. Empty until an fp is chosen.",
                    queries=(USERS_HIT,),
                    width=6,
                ),
                Panel(
                    id=14,
                    title="Lines of the error",
                    kind="logs",
                    description="Stacks, releases and traces of the chosen fp.",
                    queries=(OF_FINGERPRINT,),
                    width=18,
                ),
                Panel(
                    id=15,
                    title="Lines of the person",
                    kind="logs",
                    description="What one person met, by email.",
                    queries=(OF_USER,),
                    width=24,
                ),
            ),
        ),
        Row(
            title="Canaries and the service",
            collapsed=True,
            panels=(
                Panel(
                    id=16,
                    title="Canaries",
                    kind="logs",
                    description="Normal: empty, always. A line here is a fault of ours, or of what carries lines.",
                    queries=CANARIES,
                    no_value="all well",
                ),
                Panel(
                    id=17,
                    title="Noise",
                    kind="timeseries",
                    description="Reports dropped by name. Normal: steady. A step: an extension on the rise.",
                    queries=(NOISE_BY_REASON,),
                    unit="ops",
                ),
                Panel(
                    id=18,
                    title="Windows open",
                    kind="timeseries",
                    description="Normal: below FLEETGLASS_LIMIT_WINDOWS by far. At it, windows close early.",
                    queries=(WINDOWS_OPEN,),
                ),
                Panel(
                    id=19,
                    title="Left of Faro's batches",
                    kind="timeseries",
                    description="Items a second that no line is made of. replays: the SDK missed answers.",
                    queries=(FARO_IGNORED,),
                    unit="ops",
                ),
            ),
        ),
    ),
)
