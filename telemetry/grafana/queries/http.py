"""HTTP servers: rate, errors and duration of requests, as ``telemetry.web`` measures them.

A series appears with the first request of its method, route and status, so before the first error there is none to
show 0: ``alive`` stands in for it while the service tells of itself. A share of no requests is 0.
"""

from __future__ import annotations

from typing import Final

from telemetry.grafana.queries.selectors import MINE, NEVER, alive, increase, rate, total
from telemetry.grafana.records import Query

COUNT: Final = "http_server_request_duration_seconds_count"
BUCKET: Final = "http_server_request_duration_seconds_bucket"
ROUTE: Final = 'http_route=~"${route}"'
FAILED: Final = 'http_response_status_code=~"5.."'
REFUSED: Final = 'http_response_status_code=~"4.."'


def _failed_share(by: str, more: str = "") -> str:
    failed = total(rate(COUNT, f"{FAILED}, {more}" if more else FAILED), by)
    every = total(rate(COUNT, more), by)
    # By route there is no other zero than that of the route's own requests.
    zero = f"0 * {every}" if "http_route" in by else alive(by)
    return f"({failed} or {zero}) / clamp_min({every} or {zero}, {NEVER})"


def _quantile(q: float, by: str, more: str = "") -> str:
    labels = f"{by}, le" if by else "le"
    return f"histogram_quantile({q:g}, {total(rate(BUCKET, more), labels)})"


# --- across services

RATE_NOW: Final = Query(
    name="rate_now",
    language="promql",
    expression=f"{total(rate(COUNT), '')} or {alive('')}",
    shape="table",
    legend="requests",
    about="Requests a second, of all chosen services.",
)
FAILED_SHARE_NOW: Final = Query(
    name="failed_share_now",
    language="promql",
    expression=_failed_share(""),
    shape="table",
    legend="failed",
    about="The share of requests that were answered 5xx.",
    rests_at_zero=True,
)
P99_NOW: Final = Query(
    name="p99_now",
    language="promql",
    expression=f"max({_quantile(0.99, 'job')})",
    shape="table",
    legend="p99",
    about="99 of 100 requests are faster than this; of the slowest service.",
)
RATE_BY_JOB: Final = Query(
    name="rate_by_job",
    language="promql",
    expression=f"{total(rate(COUNT), 'job')} or {alive('job')}",
    shape="series",
    legend="{{job}}",
    about="Requests a second.",
)
FAILED_SHARE_BY_JOB: Final = Query(
    name="failed_share_by_job",
    language="promql",
    expression=_failed_share("job"),
    shape="series",
    legend="{{job}}",
    about="The share of a service's requests that were answered 5xx.",
    rests_at_zero=True,
)
P99_BY_JOB: Final = Query(
    name="p99_by_job",
    language="promql",
    expression=_quantile(0.99, "job"),
    shape="series",
    legend="{{job}}",
    about="99 of 100 requests of a service are faster than this.",
)

# The same three as columns of a table of services.
RATE_OF_JOB: Final = Query(
    name="rate_of_job",
    language="promql",
    expression=RATE_BY_JOB.expression,
    shape="table",
    about="Requests a second, now.",
)
FAILED_SHARE_OF_JOB: Final = Query(
    name="failed_share_of_job",
    language="promql",
    expression=FAILED_SHARE_BY_JOB.expression,
    shape="table",
    about="The share that is answered 5xx, now.",
    rests_at_zero=True,
)
P99_OF_JOB: Final = Query(
    name="p99_of_job",
    language="promql",
    expression=P99_BY_JOB.expression,
    shape="table",
    about="99 of 100 requests are faster than this, now.",
)

# --- one service, by route and status

ROUTES_RATE_NOW: Final = Query(
    name="routes_rate_now",
    language="promql",
    expression=f"{total(rate(COUNT, ROUTE), '')} or {alive('')}",
    shape="table",
    legend="requests",
    about="Requests a second on the chosen routes.",
)
ROUTES_FAILED_SHARE_NOW: Final = Query(
    name="routes_failed_share_now",
    language="promql",
    expression=_failed_share("", ROUTE),
    shape="table",
    legend="failed",
    about="The share of requests on the chosen routes that were answered 5xx.",
    rests_at_zero=True,
)
ROUTES_FAILED_NOW: Final = Query(
    name="routes_failed_now",
    language="promql",
    expression=f"{total(increase(COUNT, f'{FAILED}, {ROUTE}'), '')} or {alive('')}",
    shape="table",
    legend="failed",
    about="Requests on the chosen routes that were answered 5xx in the time shown.",
    rests_at_zero=True,
)
ROUTES_P50_NOW: Final = Query(
    name="routes_p50_now",
    language="promql",
    expression=_quantile(0.5, "", ROUTE),
    shape="table",
    legend="p50",
    about="Half of the requests on the chosen routes are faster than this.",
)
ROUTES_P99_NOW: Final = Query(
    name="routes_p99_now",
    language="promql",
    expression=_quantile(0.99, "", ROUTE),
    shape="table",
    legend="p99",
    about="99 of 100 requests on the chosen routes are faster than this.",
)
RATE_BY_ROUTE: Final = Query(
    name="rate_by_route",
    language="promql",
    expression=total(rate(COUNT, ROUTE), "job, http_request_method, http_route"),
    shape="series",
    legend="{{job}} {{http_request_method}} {{http_route}}",
    about="Requests a second on each route.",
)
RATE_BY_STATUS: Final = Query(
    name="rate_by_status",
    language="promql",
    expression=total(rate(COUNT, ROUTE), "job, http_response_status_code"),
    shape="series",
    legend="{{job}} {{http_response_status_code}}",
    about="Requests a second by what they were answered.",
)
FAILED_SHARE_BY_ROUTE: Final = Query(
    name="failed_share_by_route",
    language="promql",
    expression=_failed_share("job, http_route", ROUTE),
    shape="series",
    legend="{{job}} {{http_route}}",
    about="The share of a route's requests that were answered 5xx.",
    rests_at_zero=True,
)
REFUSED_BY_STATUS: Final = Query(
    name="refused_by_status",
    language="promql",
    expression=(
        f"{total(rate(COUNT, f'{REFUSED}, {ROUTE}'), 'job, http_route, http_response_status_code')} or {alive('job')}"
    ),
    shape="series",
    legend="{{job}} {{http_route}} {{http_response_status_code}}",
    about="Requests a second that were answered 4xx; a line at 0 without a route for a service that tells of itself.",
    rests_at_zero=True,
)
P50_BY_JOB: Final = Query(
    name="p50_by_job",
    language="promql",
    expression=_quantile(0.5, "job", ROUTE),
    shape="series",
    legend="{{job}} p50",
    about="Half of the requests are faster than this.",
)
P95_BY_JOB: Final = Query(
    name="p95_by_job",
    language="promql",
    expression=_quantile(0.95, "job", ROUTE),
    shape="series",
    legend="{{job}} p95",
    about="19 of 20 requests are faster than this.",
)
ROUTES_P99_BY_JOB: Final = Query(
    name="routes_p99_by_job",
    language="promql",
    expression=_quantile(0.99, "job", ROUTE),
    shape="series",
    legend="{{job}} p99",
    about="99 of 100 requests are faster than this.",
)
P95_BY_ROUTE: Final = Query(
    name="p95_by_route",
    language="promql",
    expression=_quantile(0.95, "job, http_route", ROUTE),
    shape="series",
    legend="{{job}} {{http_route}}",
    about="19 of 20 requests of a route are faster than this.",
)
RATE_OF_ROUTE: Final = Query(
    name="rate_of_route",
    language="promql",
    expression=total(rate(COUNT, ROUTE), "job, http_route"),
    shape="table",
    about="Requests a second on a route, now.",
)
FAILED_SHARE_OF_ROUTE: Final = Query(
    name="failed_share_of_route",
    language="promql",
    expression=FAILED_SHARE_BY_ROUTE.expression,
    shape="table",
    about="The share of a route's requests that is answered 5xx, now.",
    rests_at_zero=True,
)
P95_OF_ROUTE: Final = Query(
    name="p95_of_route",
    language="promql",
    expression=P95_BY_ROUTE.expression,
    shape="table",
    about="19 of 20 requests of a route are faster than this, now.",
)
ACTIVE_NOW: Final = Query(
    name="active_now",
    language="promql",
    expression=f"{total(f'http_server_active_requests{{{MINE}}}', '')} or {alive('')}",
    shape="table",
    legend="active",
    about="Requests that are being served.",
)
ACTIVE_BY_INSTANCE: Final = Query(
    name="active_by_instance",
    language="promql",
    expression=total(f"http_server_active_requests{{{MINE}}}", "job, instance"),
    shape="series",
    legend="{{job}} {{instance}}",
    about="Requests that are being served, by process.",
)
STREAMS_ENDED: Final = Query(
    name="streams_ended",
    language="promql",
    expression=(f"{total(rate('http_server_streams_total', ROUTE), 'job, transport, http_route')} or {alive('job')}"),
    shape="series",
    legend="{{job}} {{transport}} {{http_route}}",
    about="Event streams and websockets that ended, a second; they count as no requests.",
)
