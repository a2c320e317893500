"""The *Frontend errors* dashboard: what breaks in browsers, whom it hits, what becomes of the reports."""

from __future__ import annotations

from typing import Final

from telemetry.grafana.boards.common import ANY_IS_BAD, ANY_IS_ODD, SOURCES, instance, job, to_board
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
    SOURCEMAPS,
    STORE_ERRORS,
    STORE_UP,
    TOP,
    TOP_NEW,
    USERS_HIT,
    WINDOWS_CLOSED,
    WINDOWS_OPEN,
)
from telemetry.grafana.records import Column, Dashboard, Explore, Jump, Meaning, Panel, Row, Step, Variable

_UID = "fleetglass-frontend-errors"
_LINES = '{service_name="${service}"} |= "frontend-error" | logfmt | logger="frontend" | level="error"'

TO_LINES: Final = Explore("The lines", "logs", _LINES)
TO_LINES_OF_KIND: Final = Explore("Lines of the kind", "logs", f'{_LINES} | kind="${{__field.labels.kind}}"')
TO_REPORTS: Final = Explore(
    "Traces of reports",
    "traces",
    '{resource.service.name="${service}" && span.http.route=~"/api/telemetry/.+"}',
)
TO_REFUSED_REPORTS: Final = Explore(
    "Traces of reports that were refused",
    "traces",
    '{resource.service.name="${service}" && span.http.route=~"/api/telemetry/.+"'
    " && span.http.response.status_code>=400}",
)
TO_DELIVERY: Final = to_board("What became of the lines", "fleetglass-telemetry", job="${service}")


def _this_board(title: str, **values: str) -> Jump:
    """This dashboard, narrowed down, with what was chosen before."""
    kept = {name: f"${{{name}}}" for name in ("service", "workspace", "fp", "email")}
    return to_board(title, _UID, **{**kept, **values})


_FP: Final = Column(
    field="fp", title="Fingerprint", links=(_this_board("This error alone", fp="${__data.fields.Fingerprint}"),)
)

DASHBOARD: Final = Dashboard(
    uid=_UID,
    title="Frontend errors",
    description="What breaks in browsers, whom does it hit, and what becomes of the reports about it?",
    tags=("fleetglass", "frontend"),
    variables=(
        *SOURCES,
        job("frontend_reports_total"),
        instance("frontend_reports_total"),
        Variable(name="service", kind="text", title="Service in Loki", default="fleetglass-ingest"),
        Variable(name="workspace", kind="text", title="Workspace", default=".+"),
        Variable(name="fp", kind="text", title="Fingerprint"),
        Variable(name="email", kind="text", title="Email"),
    ),
    rows=(
        Row(
            title="Is it OK?",
            about="How many errors, whether reports are refused or lines lost, whether limits are shared.",
            panels=(
                Panel(
                    id=1,
                    title="Occurrences",
                    kind="stat",
                    description="Errors in browsers in the time shown. Normal: what it was last week. More: see Kinds, "
                    "then Most frequent.",
                    queries=(ERRORS_NOW,),
                    unit="none",
                    decimals=0,
                    no_value="no ingest",
                    steps=ANY_IS_ODD,
                    links=(TO_LINES,),
                    width=6,
                ),
                Panel(
                    id=2,
                    title="Reports refused",
                    kind="stat",
                    description="Reports that got no line, in the time shown. Normal: near 0. More: the panel Results "
                    "says why, the runbook what to do.",
                    queries=(REFUSED_NOW,),
                    unit="none",
                    decimals=0,
                    no_value="no ingest",
                    steps=(Step("green"), Step("yellow", 1), Step("red", 100)),
                    links=(TO_REFUSED_REPORTS,),
                    width=6,
                ),
                Panel(
                    id=3,
                    title="Lines lost",
                    kind="stat",
                    description="Lines that were made and never reached Loki. Normal: 0. More: Loki was away for "
                    "longer than the queue lasts, or refuses lines.",
                    queries=(LINES_LOST,),
                    unit="none",
                    decimals=0,
                    no_value="no sink",
                    steps=ANY_IS_BAD,
                    links=(TO_DELIVERY,),
                    width=6,
                ),
                Panel(
                    id=4,
                    title="Limits shared",
                    kind="stat",
                    description="Whether replicas share their limits. Normal: shared, or no store. Alone: each replica "
                    "limits by itself; look after the store.",
                    queries=(STORE_UP,),
                    unit="none",
                    no_value="no store",
                    meanings=(Meaning("1", "shared", "green"), Meaning("0", "alone", "red")),
                    width=6,
                ),
            ),
        ),
        Row(
            title="Flow",
            about="What comes in and what becomes of it, from metrics and, beside them, from the lines.",
            panels=(
                Panel(
                    id=5,
                    title="Kinds",
                    kind="timeseries",
                    description="Occurrences a second. Normal: flat, with the day. A step after a release: roll back.",
                    queries=(RATE_BY_KIND,),
                    unit="ops",
                    no_value="no ingest",
                    links=(TO_LINES_OF_KIND,),
                ),
                Panel(
                    id=6,
                    title="Results",
                    kind="timeseries",
                    description="Reports a second. Normal: accepted and duplicate. Others: see the runbook by result.",
                    queries=(REPORTS_BY_RESULT,),
                    unit="ops",
                    no_value="no ingest",
                    links=(TO_REPORTS, TO_REFUSED_REPORTS),
                ),
                Panel(
                    id=7,
                    title="Occurrences in Loki",
                    kind="timeseries",
                    description="Occurrences by the lines' own count. Normal: the shape of Kinds. Less: lines were "
                    "lost on the way.",
                    queries=(OCCURRENCES_BY_KIND,),
                    unit="none",
                    no_value="no errors",
                ),
                Panel(
                    id=8,
                    title="Lines in Loki",
                    kind="timeseries",
                    description="Lines by kind. Normal: fewer than occurrences, since repeats share a line. As many: "
                    "every error is a new one, or windows close early.",
                    queries=(LINES_BY_KIND,),
                    unit="none",
                    no_value="no errors",
                ),
            ),
        ),
        Row(
            title="One workspace",
            about="Which errors are frequent, which are new, whom they hit; choose a workspace above.",
            panels=(
                Panel(
                    id=9,
                    title="Most frequent",
                    kind="table",
                    description="Errors by fingerprint; choose a workspace. Normal: old acquaintances. A click on a "
                    "fingerprint shows that error below.",
                    queries=(TOP,),
                    no_value="no errors, or no workspace chosen",
                    columns=(
                        _FP,
                        Column(field="kind", title="Kind"),
                        Column(field="top", title="Occurrences", unit="none"),
                    ),
                    sorted_by="Occurrences",
                ),
                Panel(
                    id=10,
                    title="New in the last hour",
                    kind="table",
                    description="Errors that the day before didn't have. Normal: empty between releases. Anything here "
                    "came with the last change.",
                    queries=(TOP_NEW,),
                    no_value="nothing new",
                    columns=(
                        _FP,
                        Column(field="kind", title="Kind"),
                        Column(field="top_new", title="Occurrences", unit="none"),
                    ),
                    sorted_by="Occurrences",
                ),
                Panel(
                    id=11,
                    title="People hit most",
                    kind="table",
                    description="Who met the most errors. Normal: nobody stands out. One person far ahead: their "
                    "browser or their data.",
                    queries=(MOST_HIT,),
                    no_value="nobody, or no workspace chosen",
                    columns=(
                        Column(
                            field="email",
                            title="Email",
                            links=(_this_board("This person alone", email="${__data.fields.Email}"),),
                        ),
                        Column(field="most_hit", title="Occurrences", unit="none"),
                    ),
                    sorted_by="Occurrences",
                ),
                Panel(
                    id=12,
                    title="Latest",
                    kind="logs",
                    description="Errors as they come. Normal: now and then one. A trace id in the details leads to the "
                    "call that failed.",
                    queries=(LATEST,),
                    no_value="no errors",
                    height=8,
                ),
            ),
        ),
        Row(
            title="One error, one person",
            about="Everything about one fingerprint, and about one person; choose them above.",
            panels=(
                Panel(
                    id=13,
                    title="People hit",
                    kind="stat",
                    description="People who met the error of the chosen fp. Normal: few. Many: it is not their "
                    "browser. Empty until an fp is chosen.",
                    queries=(USERS_HIT,),
                    unit="none",
                    no_value="choose an fp",
                    steps=(Step("green"), Step("yellow", 10), Step("red", 100)),
                    width=6,
                    height=9,
                ),
                Panel(
                    id=14,
                    title="Lines of the error",
                    kind="logs",
                    description="Stacks, releases and traces of the chosen fp. Normal: empty until one is chosen. The "
                    "first line tells which release brought it.",
                    queries=(OF_FINGERPRINT,),
                    no_value="choose an fp",
                    width=18,
                ),
                Panel(
                    id=15,
                    title="Lines of the person",
                    kind="logs",
                    description="What one person met, by email. Normal: empty until one is chosen. For an answer to "
                    "their question.",
                    queries=(OF_USER,),
                    no_value="choose an email",
                    width=24,
                ),
            ),
        ),
        Row(
            title="Canaries and the service",
            about="What must never be found, what is dropped as noise, and how the service itself does.",
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
                    no_value="no ingest",
                    links=(TO_REPORTS,),
                    height=9,
                ),
                Panel(
                    id=18,
                    title="Windows open",
                    kind="timeseries",
                    description="Errors whose repeats are counted now. Normal: below FLEETGLASS_LIMIT_WINDOWS by far. "
                    "At it, windows close early.",
                    queries=(WINDOWS_OPEN,),
                    unit="none",
                    no_value="no ingest",
                    links=(TO_LINES,),
                ),
                Panel(
                    id=19,
                    title="Left of Faro's batches",
                    kind="timeseries",
                    description="Items a second that no line is made of. Normal: what your consoles measure. replays: "
                    "the SDK missed answers.",
                    queries=(FARO_IGNORED,),
                    unit="ops",
                    no_value="no ingest",
                    links=(TO_REPORTS,),
                ),
                Panel(
                    id=20,
                    title="Windows closed",
                    kind="timeseries",
                    description="Closing lines a second, by why. Normal: expired. evicted: too few windows; store_lost "
                    "or adopted: the store, or a replica, went away.",
                    queries=(WINDOWS_CLOSED,),
                    unit="ops",
                    no_value="no ingest",
                    links=(TO_LINES,),
                    width=8,
                ),
                Panel(
                    id=21,
                    title="Store errors",
                    kind="timeseries",
                    description="Calls to the store of shared limits that failed, a second. Normal: 0. More: each "
                    "replica limits alone until it answers again.",
                    queries=(STORE_ERRORS,),
                    unit="ops",
                    no_value="no store",
                    links=(TO_DELIVERY,),
                    width=8,
                ),
                Panel(
                    id=22,
                    title="Source maps",
                    kind="timeseries",
                    description="Stacks by what became of them, a second. Normal: resolved. unmapped: maps of that "
                    "release are missing; dropped: more new errors than the worker keeps up with.",
                    queries=(SOURCEMAPS,),
                    unit="ops",
                    no_value="no source maps",
                    links=(TO_LINES,),
                    width=8,
                ),
            ),
        ),
    ),
)
