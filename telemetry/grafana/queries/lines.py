"""Log lines of any service of ours: how many, of which level, which tell of an error.

``detected_level`` is Loki's own, from ``level=`` in the line. A metric query keeps few labels: a trace id in the
structured metadata would make a series of every line.
"""

from __future__ import annotations

from typing import Final

from telemetry.grafana.records import Query

_OF_SERVICE = '{service_name=~"${job}"}'
_ERRORS = f'{_OF_SERVICE} | detected_level=~"error|critical|fatal"'
_ACCESS = f'{_OF_SERVICE} |= "logger=access" | logfmt | logger="access"'

ERROR_LINES: Final = Query(
    name="error_lines",
    language="logql",
    expression=_ERRORS,
    shape="lines",
    about="Lines that tell of an error, as they come.",
)
ERROR_LINES_BY_SERVICE: Final = Query(
    name="error_lines_by_service",
    language="logql",
    expression=f"sum by (service_name) (count_over_time({_ERRORS} | keep service_name [$__auto]))",
    shape="series",
    legend="{{service_name}}",
    about="How many lines tell of an error.",
)
LINES_BY_LEVEL: Final = Query(
    name="lines_by_level",
    language="logql",
    expression=f"sum by (detected_level) (count_over_time({_OF_SERVICE} | keep detected_level [$__auto]))",
    shape="series",
    legend="{{detected_level}}",
    about="Lines by level.",
)
FAILED_REQUESTS: Final = Query(
    name="failed_requests",
    language="logql",
    expression=f"{_ACCESS} | status >= 500",
    shape="lines",
    about="Access lines of requests that were answered 5xx, each with its trace id.",
)
