"""What the dashboards have in common: variables, colours of good and bad, links to the other signals."""

from __future__ import annotations

from typing import Final

from telemetry.grafana.records import Explore, Jump, Step, Variable

METRICS: Final = Variable(name="metrics", kind="datasource", title="Metrics", choices="prometheus")
LOGS: Final = Variable(name="logs", kind="datasource", title="Logs", choices="loki")
TRACES: Final = Variable(name="traces", kind="datasource", title="Traces", choices="tempo")
SOURCES: Final = (METRICS, LOGS, TRACES)


def job(*metrics: str) -> Variable:
    """Services that have one of ``metrics``."""
    choices = f"{_any_of(metrics, '')}, job"
    return Variable(name="job", kind="labels", title="Job", choices=choices, default=".+")


def instance(*metrics: str) -> Variable:
    """Processes of the chosen services that have one of ``metrics``."""
    choices = f"{_any_of(metrics, _CHOSEN)}, instance"
    return Variable(name="instance", kind="labels", title="Instance", choices=choices, default=".+")


_CHOSEN = 'job=~"${job}"'


def _any_of(metrics: tuple[str, ...], matcher: str) -> str:
    if len(metrics) == 1:
        return f"{metrics[0]}{{{matcher}}}" if matcher else metrics[0]
    names = f'__name__=~"{"|".join(metrics)}"'
    return f"{{{names}, {matcher}}}" if matcher else f"{{{names}}}"


ANY_IS_BAD: Final = (Step("green"), Step("red", 0.001))
"""For what should never happen: above 0 is red."""
ANY_IS_ODD: Final = (Step("green"), Step("yellow", 0.001))
"""For what is worth a look."""
SHARE_FAILED: Final = (Step("green"), Step("yellow", 0.001), Step("red", 0.01))
"""For the share of what went wrong: one in a thousand, one in a hundred."""
SHARE_USED: Final = (Step("green"), Step("yellow", 0.8), Step("red", 0.9))
"""For the share of a resource that is in use."""
SLOW: Final = (Step("green"), Step("yellow", 0.5), Step("red", 2))
"""For how long a person waits, in seconds."""
OLD: Final = (Step("green"), Step("yellow", 120), Step("red", 300))
"""For how long a job waits, in seconds: a group that was scaled to nothing gets two minutes, the objective is five."""

# A series that was summed by job has the label, and job is the service's name in the other two signals.
_JOB = "${__field.labels.job}"

TO_LOGS: Final = Explore("Log lines of the service", "logs", f'{{service_name="{_JOB}"}}')
TO_ERROR_LINES: Final = Explore(
    "Error lines of the service", "logs", f'{{service_name="{_JOB}"}} | detected_level=~"error|critical|fatal"'
)
TO_TRACES: Final = Explore("Traces of the service", "traces", f'{{resource.service.name="{_JOB}"}}')
TO_FAILED_TRACES: Final = Explore(
    "Failed traces of the service", "traces", f'{{resource.service.name="{_JOB}" && status=error}}'
)
TO_SLOW_TRACES: Final = Explore(
    "Slow traces of the service", "traces", f'{{resource.service.name="{_JOB}" && duration>500ms}}'
)
# Where a value stands for all that is chosen there is no label to lead on by. The variable would not do: the `.+` of
# its *All* goes into an address as it stands, where a plus means a blank.
ALL_ERROR_LINES: Final = Explore(
    "Error lines of all services", "logs", '{service_name=~".+"} | detected_level=~"error|critical|fatal"'
)
ALL_FAILED_TRACES: Final = Explore("Failed traces of all services", "traces", "{status=error}")
ALL_SLOW_TRACES: Final = Explore("Slow traces of all services", "traces", "{kind=server && duration>500ms}")


def to_board(title: str, uid: str, **values: str) -> Jump:
    """To another dashboard on the same datasources, with ``values`` chosen there."""
    return Jump(title, uid, {**{source.name: f"${{{source.name}}}" for source in SOURCES}, **values})


TO_SERVICE: Final = to_board("The service, by route", "fleetglass-service", job=_JOB)
TO_TELEMETRY: Final = to_board("What became of its telemetry", "fleetglass-telemetry", job=_JOB)
ALL_TELEMETRY: Final = to_board("What became of the telemetry", "fleetglass-telemetry")
ALL_FRONTEND: Final = to_board("Which errors, and whom they hit", "fleetglass-frontend-errors")
ALL_QUEUE: Final = to_board("What waits, and for how long", "fleetglass-queue")
ALL_FLEET: Final = to_board("Who is alive, and who serves which tag", "fleetglass-fleet")
ALL_SERVICES: Final = to_board("By route and status", "fleetglass-service")


def of_row(title: str, uid: str, column: str) -> Jump:
    """From a table's row to the dashboard ``uid`` of the service that stands in ``column``."""
    return to_board(title, uid, job=f"${{__data.fields.{column}}}")
