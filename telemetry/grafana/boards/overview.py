"""The *Overview* dashboard: is it OK, across services, and where not."""

from __future__ import annotations

from typing import Final

from telemetry.grafana.boards.common import (
    ALL_ERROR_LINES,
    ALL_FAILED_TRACES,
    ALL_FLEET,
    ALL_FRONTEND,
    ALL_QUEUE,
    ALL_SERVICES,
    ALL_SLOW_TRACES,
    ALL_TELEMETRY,
    ANY_IS_BAD,
    ANY_IS_ODD,
    OLD,
    SHARE_FAILED,
    SLOW,
    SOURCES,
    TO_ERROR_LINES,
    TO_FAILED_TRACES,
    TO_LOGS,
    TO_SERVICE,
    TO_SLOW_TRACES,
    TO_TELEMETRY,
    TO_TRACES,
    instance,
    job,
    of_row,
)
from telemetry.grafana.queries.fleet import OUT_OF_SYNC_OF_ALL, UNSERVED_OF_ALL
from telemetry.grafana.queries.frontend import ERRORS_NOW, RATE_BY_KIND
from telemetry.grafana.queries.http import (
    FAILED_SHARE_BY_JOB,
    FAILED_SHARE_NOW,
    FAILED_SHARE_OF_JOB,
    P99_BY_JOB,
    P99_NOW,
    P99_OF_JOB,
    RATE_BY_JOB,
    RATE_NOW,
    RATE_OF_JOB,
)
from telemetry.grafana.queries.ledger import DROPPED_BY_JOB, LOST_NOW
from telemetry.grafana.queries.lines import ERROR_LINES, ERROR_LINES_BY_SERVICE
from telemetry.grafana.queries.processes import DOWN_NOW, DOWN_OF_JOB, STARTED_BY_JOB, UP_OF_JOB
from telemetry.grafana.queries.queue import OLDEST_OF_ALL
from telemetry.grafana.queries.traces import FAILED_TRACES
from telemetry.grafana.records import Column, Dashboard, Panel, Row

# A process that pushes has no `up`.
_TOLD = ("up", "target_info")

DASHBOARD: Final = Dashboard(
    uid="fleetglass-overview",
    title="Fleetglass overview",
    description="Is it OK? All services at once, and which one to look at if not.",
    tags=("fleetglass",),
    variables=(*SOURCES, job(*_TOLD), instance(*_TOLD)),
    rows=(
        Row(
            title="Is it OK?",
            about="Six numbers, each green or not: what is down, how much is asked, how much fails, how long it takes, "
            "what telemetry was lost, what browsers met.",
            panels=(
                Panel(
                    id=1,
                    title="Targets down",
                    kind="stat",
                    description="Processes whose last scrape failed. Normal: 0. More: the table below says whose; "
                    "look whether they run, and whether the network lets the scraper through.",
                    queries=(DOWN_NOW,),
                    unit="none",
                    no_value="nothing scraped",
                    steps=ANY_IS_BAD,
                    width=4,
                ),
                Panel(
                    id=2,
                    title="Requests",
                    kind="stat",
                    description="Requests a second to all services. Normal: what it was last week at this hour. "
                    "Far less: users can't reach you, or a gateway in front fails.",
                    queries=(RATE_NOW,),
                    unit="reqps",
                    no_value="no service tells",
                    links=(ALL_SERVICES,),
                    width=4,
                ),
                Panel(
                    id=3,
                    title="Failed",
                    kind="stat",
                    description="The share of requests answered 5xx. Normal: below 0.1 %. More: see by service below, "
                    "then its failed traces.",
                    queries=(FAILED_SHARE_NOW,),
                    unit="percentunit",
                    decimals=2,
                    no_value="no service tells",
                    steps=SHARE_FAILED,
                    links=(ALL_FAILED_TRACES, ALL_ERROR_LINES),
                    width=4,
                ),
                Panel(
                    id=4,
                    title="Slowest service, p99",
                    kind="stat",
                    description="99 of 100 requests of the slowest service are faster. Normal: below half a second. "
                    "More: see by service below, then its slow traces.",
                    queries=(P99_NOW,),
                    unit="s",
                    no_value="no requests",
                    steps=SLOW,
                    links=(ALL_SLOW_TRACES,),
                    width=4,
                ),
                Panel(
                    id=5,
                    title="Telemetry lost",
                    kind="stat",
                    description="Log lines, spans and batches given up in the time shown. Normal: 0. More: a backend "
                    "is away or refuses; what you see elsewhere is not all that happened.",
                    queries=(LOST_NOW,),
                    unit="none",
                    no_value="no sink",
                    steps=ANY_IS_BAD,
                    links=(ALL_TELEMETRY,),
                    width=4,
                ),
                Panel(
                    id=6,
                    title="Browser errors",
                    kind="stat",
                    description="Errors that browsers met in the time shown. Normal: what it was last week. More: see "
                    "which ones, and whether they came with a release.",
                    queries=(ERRORS_NOW,),
                    unit="none",
                    no_value="no ingest",
                    steps=ANY_IS_ODD,
                    links=(ALL_FRONTEND,),
                    width=4,
                ),
            ),
        ),
        Row(
            title="Services",
            about="Which service: one line each in a table, then rate, errors and duration over time.",
            panels=(
                Panel(
                    id=7,
                    title="Services",
                    kind="table",
                    description="Each service now. Normal: nothing down, nothing failing. A click on a name leads to "
                    "its routes.",
                    queries=(UP_OF_JOB, DOWN_OF_JOB, RATE_OF_JOB, FAILED_SHARE_OF_JOB, P99_OF_JOB),
                    no_value="-",
                    columns=(
                        Column(
                            field="job",
                            title="Service",
                            links=(
                                of_row("Its routes", "fleetglass-service", "Service"),
                                of_row("Its telemetry", "fleetglass-telemetry", "Service"),
                            ),
                        ),
                        Column(field="up_of_job", title="Up", unit="none"),
                        Column(field="down_of_job", title="Down", unit="none", steps=ANY_IS_BAD),
                        Column(field="rate_of_job", title="Requests", unit="reqps"),
                        Column(
                            field="failed_share_of_job",
                            title="Failed",
                            unit="percentunit",
                            decimals=2,
                            steps=SHARE_FAILED,
                        ),
                        Column(field="p99_of_job", title="p99", unit="s", steps=SLOW),
                    ),
                    sorted_by="Failed",
                ),
                Panel(
                    id=8,
                    title="Requests by service",
                    kind="timeseries",
                    description="Requests a second. Normal: the shape of the day. A drop to 0 of one service: its "
                    "callers, or what stands before it.",
                    queries=(RATE_BY_JOB,),
                    unit="reqps",
                    no_value="no service tells",
                    links=(TO_SERVICE, TO_TRACES, TO_LOGS),
                ),
                Panel(
                    id=9,
                    title="Failed by service",
                    kind="timeseries",
                    description="The share of requests answered 5xx. Normal: 0. A step: what was released or changed "
                    "then? The lowest service of a chain is where it began.",
                    queries=(FAILED_SHARE_BY_JOB,),
                    unit="percentunit",
                    no_value="no service tells",
                    reach=0.02,
                    steps=SHARE_FAILED,
                    links=(TO_SERVICE, TO_FAILED_TRACES, TO_ERROR_LINES),
                ),
                Panel(
                    id=10,
                    title="p99 by service",
                    kind="timeseries",
                    description="99 of 100 requests are faster. Normal: flat. Rising with the load: something is "
                    "full; look at the host and at what waits.",
                    queries=(P99_BY_JOB,),
                    unit="s",
                    no_value="no requests",
                    links=(TO_SERVICE, TO_SLOW_TRACES, TO_LOGS),
                ),
            ),
        ),
        Row(
            title="What else goes wrong",
            about="Processes that started, telemetry given up, browser errors, lines and traces that tell of errors.",
            panels=(
                Panel(
                    id=11,
                    title="Started lately",
                    kind="timeseries",
                    description="Processes that started in the last ten minutes. Normal: only with a release. "
                    "Otherwise: crashes or memory limits; the last lines before it say which.",
                    queries=(STARTED_BY_JOB,),
                    unit="none",
                    no_value="no process metrics",
                    links=(TO_ERROR_LINES, TO_LOGS),
                    width=8,
                ),
                Panel(
                    id=12,
                    title="Telemetry given up",
                    kind="timeseries",
                    description="Records a second that never reached a backend. Normal: 0. More: the telemetry "
                    "dashboard says why.",
                    queries=(DROPPED_BY_JOB,),
                    unit="ops",
                    no_value="no sink",
                    links=(TO_TELEMETRY,),
                    width=8,
                ),
                Panel(
                    id=13,
                    title="Browser errors",
                    kind="timeseries",
                    description="Errors a second by kind. Normal: flat, with the day. A step after a release: roll "
                    "back.",
                    queries=(RATE_BY_KIND,),
                    unit="ops",
                    no_value="no ingest",
                    links=(ALL_FRONTEND,),
                    width=8,
                ),
                Panel(
                    id=14,
                    title="Error lines by service",
                    kind="timeseries",
                    description="Log lines of level error and above. Normal: few. A service that stands out: read its "
                    "lines beside this.",
                    queries=(ERROR_LINES_BY_SERVICE,),
                    unit="none",
                    no_value="no error lines",
                    width=8,
                ),
                Panel(
                    id=15,
                    title="Error lines",
                    kind="logs",
                    description="Lines of level error and above, newest first. Normal: few. A trace id in a line "
                    "leads to the trace.",
                    queries=(ERROR_LINES,),
                    no_value="no error lines",
                    width=16,
                ),
                Panel(
                    id=16,
                    title="Failed traces",
                    kind="traces",
                    description="Traces with a span that failed. Normal: few. The deepest failed span is where it "
                    "began.",
                    queries=(FAILED_TRACES,),
                    no_value="no failed traces",
                    width=24,
                ),
            ),
        ),
        Row(
            title="Jobs",
            about="Is the queue moving, does what runs match what was asked for, is there a tag that nobody serves.",
            panels=(
                Panel(
                    id=17,
                    title="Oldest job",
                    kind="stat",
                    description="How long the oldest job has waited, under any tag. Normal: seconds, and 0 when "
                    "nothing waits. Minutes: the queue dashboard says where.",
                    queries=(OLDEST_OF_ALL,),
                    unit="s",
                    no_value="no queue",
                    steps=OLD,
                    links=(ALL_QUEUE,),
                    width=8,
                ),
                Panel(
                    id=18,
                    title="Groups out of sync",
                    kind="stat",
                    description="Groups of workers that are not as they were asked for. Normal: 0, and more for a "
                    "minute while replicas come or go. Lasting: the fleet dashboard says which.",
                    queries=(OUT_OF_SYNC_OF_ALL,),
                    unit="none",
                    no_value="no fleet",
                    steps=ANY_IS_BAD,
                    links=(ALL_FLEET,),
                    width=8,
                ),
                Panel(
                    id=19,
                    title="Tags nobody serves",
                    kind="stat",
                    description="Tags that somebody should serve and nobody does. Normal: 0. More: jobs under them "
                    "wait for ever; the fleet dashboard says which and why.",
                    queries=(UNSERVED_OF_ALL,),
                    unit="none",
                    no_value="no fleet",
                    steps=ANY_IS_BAD,
                    links=(ALL_FLEET,),
                    width=8,
                ),
            ),
        ),
    ),
)
