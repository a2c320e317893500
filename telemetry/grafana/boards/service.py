"""The *Service* dashboard: rate, errors and duration of one service's requests, by route and status."""

from __future__ import annotations

from typing import Final

from telemetry.grafana.boards.common import (
    ANY_IS_BAD,
    SHARE_FAILED,
    SHARE_USED,
    SLOW,
    SOURCES,
    TO_LOGS,
    TO_SLOW_TRACES,
    TO_TRACES,
    instance,
    job,
)
from telemetry.grafana.queries.http import (
    ACTIVE_BY_INSTANCE,
    ACTIVE_NOW,
    FAILED_SHARE_BY_ROUTE,
    FAILED_SHARE_OF_ROUTE,
    P50_BY_JOB,
    P95_BY_JOB,
    P95_BY_ROUTE,
    P95_OF_ROUTE,
    RATE_BY_ROUTE,
    RATE_BY_STATUS,
    RATE_OF_ROUTE,
    REFUSED_BY_STATUS,
    ROUTES_FAILED_NOW,
    ROUTES_FAILED_SHARE_NOW,
    ROUTES_P50_NOW,
    ROUTES_P99_BY_JOB,
    ROUTES_P99_NOW,
    ROUTES_RATE_NOW,
    STREAMS_ENDED,
)
from telemetry.grafana.queries.lines import ERROR_LINES, FAILED_REQUESTS, LINES_BY_LEVEL
from telemetry.grafana.queries.processes import (
    CPU_BY_INSTANCE,
    DESCRIPTORS_BY_INSTANCE,
    MEMORY_BY_INSTANCE,
)
from telemetry.grafana.queries.traces import FAILED_TRACES, SLOW_TRACES
from telemetry.grafana.records import Column, Dashboard, Explore, Panel, Row, Variable

_OF_ROUTE = '{resource.service.name="${__field.labels.job}" && span.http.route="${__field.labels.http_route}"'
TO_TRACES_OF_ROUTE: Final = Explore("Traces of the route", "traces", f"{_OF_ROUTE}}}")
TO_FAILED_OF_ROUTE: Final = Explore("Failed traces of the route", "traces", f"{_OF_ROUTE} && status=error}}")
TO_SLOW_OF_ROUTE: Final = Explore("Slow traces of the route", "traces", f"{_OF_ROUTE} && duration>500ms}}")
TO_LINES_OF_ROUTE: Final = Explore(
    "Access lines of the route",
    "logs",
    '{service_name="${__field.labels.job}"} |= "logger=access" | logfmt | route="${__field.labels.http_route}"',
)
TO_LINES_OF_STATUS: Final = Explore(
    "Access lines with the status",
    "logs",
    '{service_name="${__field.labels.job}"} |= "logger=access" | logfmt'
    ' | status="${__field.labels.http_response_status_code}"',
)

DASHBOARD: Final = Dashboard(
    uid="fleetglass-service",
    title="Service: rate, errors, duration",
    description="How is one service doing, and which of its routes is not?",
    tags=("fleetglass", "service"),
    variables=(
        *SOURCES,
        job("target_info"),
        instance("target_info"),
        Variable(
            name="route",
            kind="labels",
            title="Route",
            choices='http_server_request_duration_seconds_count{job=~"${job}"}, http_route',
            default=".+",
        ),
    ),
    rows=(
        Row(
            title="Is it OK?",
            about="The service now: how much is asked, how much fails, how long it takes, how much is in flight.",
            panels=(
                Panel(
                    id=1,
                    title="Requests",
                    kind="stat",
                    description="Requests a second. Normal: what it was last week at this hour. None at all: its "
                    "callers, or what stands before it.",
                    queries=(ROUTES_RATE_NOW,),
                    unit="reqps",
                    no_value="does not tell",
                    width=4,
                ),
                Panel(
                    id=2,
                    title="Failed",
                    kind="stat",
                    description="The share of requests answered 5xx. Normal: below 0.1 %. More: by route below, then "
                    "the failed traces.",
                    queries=(ROUTES_FAILED_SHARE_NOW,),
                    unit="percentunit",
                    decimals=2,
                    no_value="does not tell",
                    steps=SHARE_FAILED,
                    width=4,
                ),
                Panel(
                    id=3,
                    title="Failed requests",
                    kind="stat",
                    description="Requests answered 5xx in the time shown. Normal: 0. More: each has a line and a "
                    "trace; begin with the first.",
                    queries=(ROUTES_FAILED_NOW,),
                    unit="none",
                    decimals=0,
                    no_value="does not tell",
                    steps=ANY_IS_BAD,
                    width=4,
                ),
                Panel(
                    id=4,
                    title="p50",
                    kind="stat",
                    description="Half of the requests are faster. Normal: what it was last week. Far above: all "
                    "requests are slow; look at what they share.",
                    queries=(ROUTES_P50_NOW,),
                    unit="s",
                    no_value="no requests",
                    steps=SLOW,
                    width=4,
                ),
                Panel(
                    id=5,
                    title="p99",
                    kind="stat",
                    description="99 of 100 requests are faster. Normal: below half a second. Far above p50: some "
                    "requests are slow; their traces say where.",
                    queries=(ROUTES_P99_NOW,),
                    unit="s",
                    no_value="no requests",
                    steps=SLOW,
                    width=4,
                ),
                Panel(
                    id=6,
                    title="In flight",
                    kind="stat",
                    description="Requests being served. Normal: about rate times duration. Growing without end: "
                    "something they wait for does not answer.",
                    queries=(ACTIVE_NOW,),
                    unit="none",
                    no_value="does not tell",
                    width=4,
                ),
            ),
        ),
        Row(
            title="Rate and errors",
            about="Which route, and which status: requests over time, failures as a share of each route's requests.",
            panels=(
                Panel(
                    id=7,
                    title="Requests by route",
                    kind="timeseries",
                    description="Requests a second by method and route template. Normal: the shape of the day. A "
                    "route that jumps: a client in a loop.",
                    queries=(RATE_BY_ROUTE,),
                    unit="reqps",
                    no_value="no requests",
                    links=(TO_TRACES_OF_ROUTE, TO_LINES_OF_ROUTE),
                ),
                Panel(
                    id=8,
                    title="Requests by status",
                    kind="timeseries",
                    description="Requests a second by status code. Normal: nearly all 2xx. 499: the caller did not "
                    "wait; 503: shutting down or overloaded.",
                    queries=(RATE_BY_STATUS,),
                    unit="reqps",
                    no_value="no requests",
                    links=(TO_LINES_OF_STATUS, TO_TRACES),
                    stacked=True,
                ),
                Panel(
                    id=9,
                    title="Failed by route",
                    kind="timeseries",
                    description="The share of a route's requests answered 5xx. Normal: 0. One route: its code or what "
                    "it calls. All: what they share.",
                    queries=(FAILED_SHARE_BY_ROUTE,),
                    unit="percentunit",
                    no_value="no requests",
                    reach=0.02,
                    steps=SHARE_FAILED,
                    links=(TO_FAILED_OF_ROUTE, TO_LINES_OF_ROUTE),
                ),
                Panel(
                    id=10,
                    title="Refused",
                    kind="timeseries",
                    description="Requests a second answered 4xx. Normal: steady and few. A rise of 401: tokens or "
                    "keys; of 404: a client of another version; of 429: a limit.",
                    queries=(REFUSED_BY_STATUS,),
                    unit="reqps",
                    no_value="does not tell",
                    links=(TO_LINES_OF_STATUS, TO_LOGS),
                ),
            ),
        ),
        Row(
            title="Duration",
            about="How long: percentiles of all requests, then one percentile by route, and a table of routes.",
            panels=(
                Panel(
                    id=11,
                    title="p50, p95, p99",
                    kind="timeseries",
                    description="Percentiles of all requests of a service. Normal: flat and close. Only p99 rises: "
                    "some requests; all rise: everything waits.",
                    queries=(P50_BY_JOB, P95_BY_JOB, ROUTES_P99_BY_JOB),
                    unit="s",
                    no_value="no requests",
                    links=(TO_SLOW_TRACES, TO_LOGS),
                ),
                Panel(
                    id=12,
                    title="p95 by route",
                    kind="timeseries",
                    description="19 of 20 requests of a route are faster. Normal: each route has its level. One that "
                    "leaves it: its slow traces say where the time goes.",
                    queries=(P95_BY_ROUTE,),
                    unit="s",
                    no_value="no requests",
                    links=(TO_SLOW_OF_ROUTE, TO_LINES_OF_ROUTE),
                ),
                Panel(
                    id=13,
                    title="Routes",
                    kind="table",
                    description="Each route now. Normal: nothing failing. Sort by a column to find the busiest, the "
                    "worst or the slowest; a click leads to its traces.",
                    queries=(RATE_OF_ROUTE, FAILED_SHARE_OF_ROUTE, P95_OF_ROUTE),
                    no_value="-",
                    columns=(
                        Column(field="job", title="Service"),
                        Column(
                            field="http_route",
                            title="Route",
                            links=(
                                Explore(
                                    "Traces of the route",
                                    "traces",
                                    '{resource.service.name="${__data.fields.Service}"'
                                    ' && span.http.route="${__data.fields.Route}"}',
                                ),
                            ),
                        ),
                        Column(field="rate_of_route", title="Requests", unit="reqps"),
                        Column(
                            field="failed_share_of_route",
                            title="Failed",
                            unit="percentunit",
                            decimals=2,
                            steps=SHARE_FAILED,
                        ),
                        Column(field="p95_of_route", title="p95", unit="s", steps=SLOW),
                    ),
                    sorted_by="Failed",
                    width=24,
                ),
            ),
        ),
        Row(
            title="Lines and traces",
            about="What the service said, and the traces of what failed or took long.",
            panels=(
                Panel(
                    id=14,
                    title="Lines by level",
                    kind="timeseries",
                    description="Log lines by level. Normal: the shape of the requests. No lines at all: they go "
                    "elsewhere, or job and service_name differ.",
                    queries=(LINES_BY_LEVEL,),
                    unit="none",
                    no_value="no lines",
                    stacked=True,
                ),
                Panel(
                    id=15,
                    title="Error lines",
                    kind="logs",
                    description="Lines of level error and above, newest first. Normal: few. A trace id in a line "
                    "leads to the trace.",
                    queries=(ERROR_LINES,),
                    no_value="no error lines",
                    height=8,
                ),
                Panel(
                    id=16,
                    title="Failed traces",
                    kind="traces",
                    description="Traces with a span that failed. Normal: few. The deepest failed span is where it "
                    "began.",
                    queries=(FAILED_TRACES,),
                    no_value="no failed traces",
                ),
                Panel(
                    id=17,
                    title="Slow traces",
                    kind="traces",
                    description="Traces with a request over half a second. Normal: few. The widest span without "
                    "children is where the time goes.",
                    queries=(SLOW_TRACES,),
                    no_value="no slow traces",
                ),
            ),
        ),
        Row(
            title="Processes and streams",
            about="What the processes use, what is in flight in each, which streams end.",
            collapsed=True,
            panels=(
                Panel(
                    id=18,
                    title="In flight by process",
                    kind="timeseries",
                    description="Requests being served by each process. Normal: alike. One far above the others: it "
                    "hangs, or the load balancer prefers it.",
                    queries=(ACTIVE_BY_INSTANCE,),
                    unit="none",
                    no_value="no requests",
                    links=(TO_LOGS, TO_TRACES),
                ),
                Panel(
                    id=19,
                    title="Streams ended",
                    kind="timeseries",
                    description="Event streams and websockets that ended, a second. Normal: steady. A burst: a "
                    "restart or a proxy that cut them; they all come back at once.",
                    queries=(STREAMS_ENDED,),
                    unit="ops",
                    no_value="does not tell",
                    links=(TO_LOGS,),
                ),
                Panel(
                    id=20,
                    title="CPU",
                    kind="timeseries",
                    description="Cores that a process keeps busy. Normal: below 1 for a single-threaded server. At "
                    "1: it can do no more; add processes.",
                    queries=(CPU_BY_INSTANCE,),
                    unit="none",
                    decimals=2,
                    no_value="no process metrics",
                    links=(TO_LOGS,),
                    width=8,
                ),
                Panel(
                    id=21,
                    title="Memory",
                    kind="timeseries",
                    description="Memory that a process holds. Normal: flat after a while. A steady rise: a leak, and "
                    "a kill by the kernel at its end.",
                    queries=(MEMORY_BY_INSTANCE,),
                    unit="bytes",
                    no_value="no process metrics",
                    links=(TO_LOGS,),
                    width=8,
                ),
                Panel(
                    id=22,
                    title="File descriptors",
                    kind="timeseries",
                    description="The share of file descriptors in use. Normal: below 0.8. More: connections or files "
                    "that nobody closes.",
                    queries=(DESCRIPTORS_BY_INSTANCE,),
                    unit="percentunit",
                    no_value="no process metrics",
                    most=1,
                    steps=SHARE_USED,
                    links=(TO_LOGS,),
                    width=8,
                ),
                Panel(
                    id=23,
                    title="Failed requests, line by line",
                    kind="logs",
                    description="Access lines of requests answered 5xx. Normal: none. Each has its trace id.",
                    queries=(FAILED_REQUESTS,),
                    no_value="no failed requests",
                    width=24,
                ),
            ),
        ),
    ),
)
