"""The *Fleet* dashboard: who is alive, does what runs match what was asked for, and which tag does nobody serve."""

from __future__ import annotations

from typing import Final

from telemetry.grafana.boards.common import (
    ALL_QUEUE,
    ANY_IS_BAD,
    ANY_IS_ODD,
    OLD,
    SOURCES,
    TO_LOGS,
    instance,
    job,
    to_board,
)
from telemetry.grafana.boards.queue import STALE, TELLS, TO_RUNS, grouped, tagged
from telemetry.grafana.queries import fleet, queue
from telemetry.grafana.records import Column, Dashboard, Explore, Meaning, Panel, Row, Step

BADGES: Final = (
    Meaning("0", "ok", "green"),
    Meaning("1", "draining", "blue"),
    Meaning("2", "scaled", "yellow"),
    Meaning("3", "unregistered", "purple"),
    Meaning("4", "missing", "red"),
)
VERDICTS: Final = (
    Meaning("0", "covered", "green"),
    Meaning("1", "idle", "blue"),
    Meaning("2", "stuck", "orange"),
    Meaning("3", "no_live_workers", "red"),
    Meaning("4", "no_route", "red"),
)
_YES_IS_BAD = (Meaning("0", "no", "text"), Meaning("1", "yes", "red"))
_NO_IS_ODD = (Meaning("0", "no", "yellow"), Meaning("1", "yes", "text"))
_SILENT = (Step("green"), Step("yellow", 30), Step("red", 60))
_SEVERAL = (Step("text"), Step("yellow", 2))

_GROUP = "${__field.labels.group}"
TO_QUEUE_OF_GROUP: Final = to_board("What waits for it", "fleetglass-queue", group=_GROUP)
TO_QUEUE_OF_TAG: Final = to_board("What waits under it", "fleetglass-queue", tag="${__field.labels.tag}")
TO_LINES_OF_GROUP: Final = Explore(
    "Lines of its jobs", "logs", f'{{service_name=~".+"}} |= "job_id=" | logfmt | group="{_GROUP}"'
)
TO_RUNS_OF_GROUP: Final = Explore(
    "Its runs", "traces", f'{{span.messaging.operation.type="process" && span.worker.group="{_GROUP}"}}'
)

DASHBOARD: Final = Dashboard(
    uid="fleetglass-fleet",
    title="Fleet",
    description="Who is alive, does what runs match what was asked for, and is there a tag that nobody serves?",
    tags=("fleetglass", "fleet"),
    variables=(
        *SOURCES,
        job(*TELLS),
        instance(*TELLS),
        grouped("fleet_worker_group_alive"),
        tagged("fleet_tag_serving"),
    ),
    rows=(
        Row(
            title="Is it OK?",
            about="Groups that differ from what was asked for, workers alive, short and lost, versions, tags.",
            panels=(
                Panel(
                    id=1,
                    title="Groups out of sync",
                    kind="stat",
                    description="Groups with another badge than ok. Normal: 0, and more for a minute while replicas "
                    "come or go. Lasting: the table below says which, the runbook on fleets what to do for each badge.",
                    queries=(fleet.OUT_OF_SYNC,),
                    unit="none",
                    no_value="not known yet",
                    steps=ANY_IS_BAD,
                    width=3,
                ),
                Panel(
                    id=2,
                    title="Without a badge",
                    kind="stat",
                    description="Groups that can't be judged now. Normal: 0, or all for a minute after an outage of "
                    "the database. Lasting: reads fail, or a row of the registry can't be right.",
                    queries=(fleet.WITHOUT_BADGE,),
                    unit="none",
                    no_value="no observer",
                    steps=ANY_IS_ODD,
                    links=(ALL_QUEUE,),
                    width=3,
                ),
                Panel(
                    id=3,
                    title="Alive",
                    kind="stat",
                    description="Workers whose last ping is at most 60 s old. Normal: between what was asked for at "
                    "least and at most. A fall of all at once: pings don't arrive; look at the database.",
                    queries=(fleet.ALIVE_NOW,),
                    unit="none",
                    no_value="no observer",
                    width=3,
                ),
                Panel(
                    id=4,
                    title="Short",
                    kind="stat",
                    description="Workers that groups have less than was asked for at least. Normal: 0. More: pods "
                    "that can't be placed, can't start, or die.",
                    queries=(fleet.SHORT_NOW,),
                    unit="none",
                    no_value="nobody asks",
                    steps=ANY_IS_BAD,
                    width=3,
                ),
                Panel(
                    id=5,
                    title="Lost",
                    kind="stat",
                    description="Workers that fell silent in the last quarter of an hour without taking their leave. "
                    "Normal: 0. More: killed, out of memory, or their node is gone; their jobs are given back.",
                    queries=(fleet.LOST_WORKERS,),
                    unit="none",
                    no_value="no observer",
                    steps=ANY_IS_ODD,
                    width=3,
                ),
                Panel(
                    id=6,
                    title="Mixed versions",
                    kind="stat",
                    description="Groups whose workers run more than one version. Normal: 0, but during a release. "
                    "Lasting: a rollout that is stuck, often behind a long drain.",
                    queries=(fleet.SKEWED_VERSIONS,),
                    unit="none",
                    no_value="no observer",
                    steps=ANY_IS_ODD,
                    width=3,
                ),
                Panel(
                    id=7,
                    title="Tags nobody serves",
                    kind="stat",
                    description="Tags that somebody should serve and nobody does, whether jobs wait yet or not. "
                    "Normal: 0. More: the table of tags below says which and why.",
                    queries=(fleet.UNSERVED_TAGS,),
                    unit="none",
                    no_value="not known yet",
                    steps=ANY_IS_BAD,
                    links=(ALL_QUEUE,),
                    width=3,
                ),
                Panel(
                    id=8,
                    title="Age of this data",
                    kind="stat",
                    description="How long ago the database was read, by the part that is oldest. Normal: about a "
                    "minute. More: reads fail; the last row of the queue dashboard says why.",
                    queries=(queue.DATA_AGE,),
                    unit="s",
                    decimals=0,
                    no_value="no observer",
                    steps=STALE,
                    links=(ALL_QUEUE,),
                    width=3,
                ),
            ),
        ),
        Row(
            title="Groups",
            about="Each group as it was asked for beside what is seen of it; badges and numbers over time.",
            panels=(
                Panel(
                    id=9,
                    title="Groups",
                    kind="table",
                    description="Each group now, the worst badge first. Normal: ok. missing: nobody takes jobs. "
                    "scaled: outside of the band. draining: all leave, or it is disabled. unregistered: nobody asked "
                    "for it.",
                    queries=(
                        fleet.BADGE_OF_GROUP,
                        fleet.BADGE_AGE_OF_GROUP,
                        fleet.DANGER_OF_GROUP,
                        fleet.LEAST_OF_GROUP,
                        fleet.MOST_OF_GROUP,
                        fleet.ENABLED_OF_GROUP,
                        fleet.ALIVE_OF_GROUP,
                        fleet.ACTIVE_OF_GROUP,
                        fleet.DRAINING_OF_GROUP,
                        fleet.BUSY_OF_GROUP,
                        fleet.LOST_OF_GROUP,
                        fleet.PING_AGE_OF_GROUP,
                        fleet.VERSIONS_OF_GROUP,
                        fleet.EXECUTED_OF_GROUP,
                    ),
                    no_value="-",
                    columns=(
                        Column(
                            field="group",
                            title="Group",
                            links=(
                                to_board("What waits for it", "fleetglass-queue", group="${__data.fields.Group}"),
                                Explore(
                                    "Its runs",
                                    "traces",
                                    '{span.messaging.operation.type="process"'
                                    ' && span.worker.group="${__data.fields.Group}"}',
                                ),
                            ),
                        ),
                        Column(field="badge_of_group", title="Badge", unit="none", meanings=BADGES),
                        Column(field="badge_age_of_group", title="For", unit="s", decimals=0),
                        Column(field="danger_of_group", title="Work waits", unit="none", meanings=_YES_IS_BAD),
                        Column(field="least_of_group", title="At least", unit="none"),
                        Column(field="most_of_group", title="At most", unit="none"),
                        Column(field="enabled_of_group", title="Enabled", unit="none", meanings=_NO_IS_ODD),
                        Column(field="alive_of_group", title="Alive", unit="none"),
                        Column(field="active_of_group", title="Active", unit="none"),
                        Column(field="draining_of_group", title="Draining", unit="none"),
                        Column(field="busy_of_group", title="Busy", unit="none"),
                        Column(field="lost_of_group", title="Lost", unit="none", steps=ANY_IS_ODD),
                        Column(field="ping_age_of_group", title="Last ping", unit="s", decimals=0, steps=_SILENT),
                        Column(field="versions_of_group", title="Versions", unit="none", steps=_SEVERAL),
                        Column(field="executed_of_group", title="Jobs run", unit="none"),
                    ),
                    sorted_by="Badge",
                    width=24,
                ),
                Panel(
                    id=10,
                    title="Badges",
                    kind="states",
                    description="The badge of each group over time. Normal: ok. A gap: it could not be judged, since "
                    "reads failed or the database was just back. Changing all the time: scaler and registry disagree.",
                    queries=(fleet.BADGE_BY_GROUP,),
                    unit="none",
                    no_value="not known yet",
                    meanings=BADGES,
                    links=(TO_QUEUE_OF_GROUP, TO_LINES_OF_GROUP),
                    width=8,
                ),
                Panel(
                    id=11,
                    title="Active, and asked for",
                    kind="timeseries",
                    description="Workers that take jobs, between what was asked for at least and at most. Normal: "
                    "between the two. Below: pods don't come up. At the top while jobs wait: let the group grow "
                    "further.",
                    queries=(fleet.ACTIVE_BY_GROUP, fleet.LEAST_BY_GROUP, fleet.MOST_BY_GROUP),
                    unit="none",
                    no_value="no observer",
                    links=(TO_QUEUE_OF_GROUP, TO_RUNS_OF_GROUP),
                    width=8,
                ),
                Panel(
                    id=12,
                    title="Busy",
                    kind="timeseries",
                    description="Workers that run a job, and how many jobs they run. Normal: follows the load. No "
                    "worker busy while jobs wait: they don't claim; look at their lines.",
                    queries=(fleet.BUSY_BY_GROUP, fleet.JOBS_BY_GROUP),
                    unit="none",
                    no_value="no observer",
                    links=(TO_QUEUE_OF_GROUP, TO_RUNS_OF_GROUP, TO_LINES_OF_GROUP),
                    width=8,
                ),
            ),
        ),
        Row(
            title="Tags",
            about="Who serves which tag, and why nobody does: the worst first.",
            panels=(
                Panel(
                    id=13,
                    title="Coverage",
                    kind="table",
                    description="Each tag now, the worst first. Normal: covered or idle. no_route: no group has it. "
                    "no_live_workers: its group has nobody. stuck: they don't claim. One that drains serves nobody.",
                    queries=(fleet.VERDICT_OF_TAG, fleet.SERVING_OF_TAG, fleet.PENDING_OF_TAG, fleet.AGE_OF_TAG),
                    no_value="-",
                    columns=(
                        Column(
                            field="tag",
                            title="Tag",
                            links=(to_board("What waits under it", "fleetglass-queue", tag="${__data.fields.Tag}"),),
                        ),
                        Column(field="verdict_of_tag", title="Verdict", unit="none", meanings=VERDICTS),
                        Column(field="serving_of_tag", title="Workers", unit="none"),
                        Column(field="pending_of_tag", title="Waiting", unit="none"),
                        Column(field="age_of_tag", title="Oldest", unit="s", steps=OLD),
                    ),
                    sorted_by="Verdict",
                ),
                Panel(
                    id=14,
                    title="Verdicts",
                    kind="timeseries",
                    description="Tags by verdict. Normal: covered and idle alone. Others that rise with a release: a "
                    "tag was renamed, or its group was not deployed.",
                    queries=(fleet.TAGS_BY_VERDICT,),
                    unit="none",
                    no_value="not known yet",
                    stacked=True,
                    links=(ALL_QUEUE,),
                    width=6,
                ),
                Panel(
                    id=15,
                    title="Workers of a tag",
                    kind="timeseries",
                    description="Active workers that serve each tag. Normal: what its groups have. At 0 while jobs "
                    "wait: nobody will take them.",
                    queries=(fleet.SERVING_BY_TAG,),
                    unit="none",
                    no_value="not known yet",
                    links=(TO_QUEUE_OF_TAG, TO_RUNS),
                    width=6,
                ),
            ),
        ),
        Row(
            title="Heartbeats",
            about="Whether workers can say that they are alive, how they leave, and which version they run.",
            panels=(
                Panel(
                    id=16,
                    title="Heartbeats failed",
                    kind="timeseries",
                    description="Heartbeats that did not arrive, a second. Normal: 0. timeout: the database hangs; "
                    "connection: it is away; refused: worker_ping lacks a column or the role a right.",
                    queries=(fleet.HEARTBEATS_FAILED,),
                    unit="ops",
                    no_value="no worker tells",
                    links=(TO_LOGS,),
                    width=8,
                ),
                Panel(
                    id=17,
                    title="Last heartbeat, by the workers",
                    kind="timeseries",
                    description="How long ago the last heartbeat arrived, of the worst worker. Normal: below 10 s. "
                    "Beyond 60 s it counts as lost, beyond 90 s its jobs are taken away.",
                    queries=(fleet.HEARTBEAT_AGE,),
                    unit="s",
                    no_value="no worker tells",
                    steps=_SILENT,
                    links=(TO_LOGS,),
                    width=8,
                ),
                Panel(
                    id=18,
                    title="Last ping, by the table",
                    kind="timeseries",
                    description="The age of the freshest ping of each group. Normal: below 10 s. Rising while workers "
                    "say that theirs arrive: another database is read than is written.",
                    queries=(fleet.PING_AGE_BY_GROUP,),
                    unit="s",
                    no_value="nobody alive",
                    steps=_SILENT,
                    links=(TO_QUEUE_OF_GROUP, TO_LINES_OF_GROUP),
                    width=8,
                ),
                Panel(
                    id=19,
                    title="Draining and lost",
                    kind="timeseries",
                    description="Workers that finish what they run, and those that fell silent. Normal: draining "
                    "during a release or a scale-in, lost never. Lost with each scale-in: pods are killed before "
                    "their drain ends.",
                    queries=(fleet.DRAINING_BY_GROUP, fleet.LOST_BY_GROUP),
                    unit="none",
                    no_value="no observer",
                    links=(TO_QUEUE_OF_GROUP, TO_LINES_OF_GROUP),
                ),
                Panel(
                    id=20,
                    title="Versions",
                    kind="timeseries",
                    description="How many versions the living workers of a group run. Normal: 1, and 2 during a "
                    "release. 2 for long: a rollout that is stuck.",
                    queries=(fleet.VERSIONS_BY_GROUP,),
                    unit="none",
                    no_value="no observer",
                    links=(TO_QUEUE_OF_GROUP, TO_RUNS_OF_GROUP),
                ),
            ),
        ),
        Row(
            title="Registry and clocks",
            about="Rows of the registry that can't be right, and workers whose clock is ahead.",
            collapsed=True,
            panels=(
                Panel(
                    id=21,
                    title="Rows that can't be right",
                    kind="stat",
                    description="Groups in the registry whose row contradicts itself, such as a minimum above its "
                    "maximum. Normal: 0. More: these get no badge; GET /api/admin/fleet names them.",
                    queries=(fleet.BROKEN_ROWS,),
                    unit="none",
                    no_value="no registry",
                    steps=ANY_IS_BAD,
                    height=8,
                ),
                Panel(
                    id=22,
                    title="Clocks ahead",
                    kind="timeseries",
                    description="Living workers whose ping lies in the database's future. Normal: 0. More: something "
                    "writes pings by its own clock; such a worker looks alive for longer than it is.",
                    queries=(fleet.CLOCKS_BY_GROUP,),
                    unit="none",
                    no_value="no observer",
                    links=(TO_QUEUE_OF_GROUP, TO_LINES_OF_GROUP),
                ),
            ),
        ),
    ),
)
