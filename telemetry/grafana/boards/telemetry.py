"""The *Telemetry health* dashboard: does what services tell arrive, and if not, why."""

from __future__ import annotations

from typing import Final

from telemetry.grafana.boards.common import (
    ANY_IS_BAD,
    ANY_IS_ODD,
    SHARE_USED,
    SOURCES,
    TO_LOGS,
    instance,
    job,
)
from telemetry.grafana.queries import alloy
from telemetry.grafana.queries.ledger import (
    DEGRADED_BY_ROW,
    DEGRADED_NOW,
    DELIVERED_BY_ROW,
    DELIVERED_OF_ROW,
    DELIVERED_SHARE,
    DROPPED_BY_REASON,
    DROPPED_OF_ROW,
    EMITTED_BY_ROW,
    EMITTED_OF_ROW,
    FAULTS_BY_PART,
    FAULTS_NOW,
    LOST_NOW,
    OVERFLOWS_BY_LABEL,
    OVERFLOWS_NOW,
    PENDING_BY_ROW,
    PENDING_NOW,
    PENDING_OF_ROW,
    PROBED,
    UNACCOUNTED,
    VERSIONS,
)
from telemetry.grafana.records import Column, Dashboard, Jump, Panel, Row, Step

_BUILDS = ("telemetry_build_info", "alloy_build_info")

# An Alloy's instance is the name of its host, as in the metrics of the host that it tells.
TO_HOST: Final = Jump(
    "The host it runs on", "fleetglass-host", {"metrics": "${metrics}", "instance": "${__field.labels.instance}"}
)

DASHBOARD: Final = Dashboard(
    uid="fleetglass-telemetry",
    title="Telemetry health",
    description="Does what services tell arrive: which signal, through which sink, and if not, why?",
    tags=("fleetglass", "telemetry"),
    variables=(*SOURCES, job(*_BUILDS), instance(*_BUILDS)),
    rows=(
        Row(
            title="Is it OK?",
            about="Six numbers: what was lost, kept, waits, does not add up, was mended, went wrong inside.",
            panels=(
                Panel(
                    id=1,
                    title="Lost",
                    kind="stat",
                    description="Records given up in the time shown. Normal: 0. More: the reasons stand below; "
                    "queue_full and retries mean that a backend was away, rejected that it refuses.",
                    queries=(LOST_NOW,),
                    unit="none",
                    decimals=0,
                    no_value="no sink",
                    steps=ANY_IS_BAD,
                    width=4,
                ),
                Panel(
                    id=2,
                    title="Kept",
                    kind="stat",
                    description="The share of records that was not given up. Normal: 100 %. Less: see Dropped.",
                    queries=(DELIVERED_SHARE,),
                    unit="percentunit",
                    decimals=2,
                    no_value="no sink",
                    most=1,
                    steps=(Step("red"), Step("yellow", 0.99), Step("green", 0.999)),
                    width=4,
                ),
                Panel(
                    id=3,
                    title="Pending",
                    kind="stat",
                    description="Records queued or on their way. Normal: what a second brings. Growing: a backend is "
                    "slow or away, and the queue will be full.",
                    queries=(PENDING_NOW,),
                    unit="none",
                    no_value="no sink",
                    steps=(Step("green"), Step("yellow", 1000)),
                    width=4,
                ),
                Panel(
                    id=4,
                    title="Unaccounted",
                    kind="stat",
                    description="Emitted, and neither delivered, dropped nor pending. Normal: 0, always. More: a "
                    "fault of the library; please report it.",
                    queries=(UNACCOUNTED,),
                    unit="none",
                    decimals=0,
                    no_value="no sink",
                    steps=ANY_IS_BAD,
                    width=4,
                ),
                Panel(
                    id=5,
                    title="Mended",
                    kind="stat",
                    description="Records cut or repaired before they went out, in the time shown. Normal: few. Many: "
                    "lines too long, or formats that fail.",
                    queries=(DEGRADED_NOW,),
                    unit="none",
                    decimals=0,
                    no_value="no sink",
                    steps=ANY_IS_ODD,
                    width=4,
                ),
                Panel(
                    id=6,
                    title="Internal faults",
                    kind="stat",
                    description="Faults inside the library, kept from the application. Normal: 0. More: the part is "
                    "named below, and each kind once on stderr.",
                    queries=(FAULTS_NOW,),
                    unit="none",
                    decimals=0,
                    no_value="not installed",
                    steps=ANY_IS_BAD,
                    width=4,
                ),
            ),
        ),
        Row(
            title="The ledger",
            about="emitted = delivered + dropped + pending, for each signal and sink, as a table and over time.",
            panels=(
                Panel(
                    id=7,
                    title="By service, signal and sink",
                    kind="table",
                    description="The account over the time shown. Normal: delivered equals emitted but for what is "
                    "pending. A sink with nothing delivered: its address, its token, its network.",
                    queries=(EMITTED_OF_ROW, DELIVERED_OF_ROW, DROPPED_OF_ROW, PENDING_OF_ROW),
                    no_value="-",
                    columns=(
                        Column(field="job", title="Service"),
                        Column(field="signal", title="Signal"),
                        Column(field="sink", title="Sink"),
                        Column(field="emitted_of_row", title="Emitted", unit="none", decimals=0),
                        Column(field="delivered_of_row", title="Delivered", unit="none", decimals=0),
                        Column(field="dropped_of_row", title="Dropped", unit="none", decimals=0, steps=ANY_IS_BAD),
                        Column(field="pending_of_row", title="Pending", unit="none", decimals=0),
                    ),
                    sorted_by="Dropped",
                ),
                Panel(
                    id=8,
                    title="Dropped",
                    kind="timeseries",
                    description="Records given up, a second, by why. Normal: 0. queue_full: away for longer than the "
                    "queue lasts; too_old: Loki takes no lines that old; rejected: read what the sink says.",
                    queries=(DROPPED_BY_REASON,),
                    unit="ops",
                    no_value="no sink",
                    links=(TO_LOGS,),
                ),
                Panel(
                    id=9,
                    title="Emitted",
                    kind="timeseries",
                    description="Records handed to a sink, a second. Normal: the shape of the load. None: nothing is "
                    "logged or traced, or no sink is configured.",
                    queries=(EMITTED_BY_ROW,),
                    unit="ops",
                    no_value="no sink",
                    links=(TO_LOGS,),
                ),
                Panel(
                    id=10,
                    title="Delivered",
                    kind="timeseries",
                    description="Records that a backend confirmed, a second. Normal: the shape of Emitted. Flat at 0: "
                    "the backend is away; a peak after that: it came back in time.",
                    queries=(DELIVERED_BY_ROW,),
                    unit="ops",
                    no_value="no sink",
                    links=(TO_LOGS,),
                ),
                Panel(
                    id=11,
                    title="Pending",
                    kind="timeseries",
                    description="Records queued or on their way. Normal: low and jagged. A ramp: a backend is slow or "
                    "away; it ends at what the queue holds.",
                    queries=(PENDING_BY_ROW,),
                    unit="none",
                    no_value="no sink",
                    links=(TO_LOGS,),
                ),
                Panel(
                    id=12,
                    title="Mended",
                    kind="timeseries",
                    description="Records mended before they went out, a second. Normal: 0. Otherwise: lines over the "
                    "limit, or a format with the wrong arguments.",
                    queries=(DEGRADED_BY_ROW,),
                    unit="ops",
                    no_value="no sink",
                    links=(TO_LOGS,),
                ),
            ),
        ),
        Row(
            title="Inside the library",
            about="Faults by part, labels over their limit, and which version runs where.",
            panels=(
                Panel(
                    id=13,
                    title="Internal faults by part",
                    kind="timeseries",
                    description="Faults a second. Normal: 0. metrics.collect: a collector of yours raises; "
                    "metrics.clash: a name that is there twice; others: please report them.",
                    queries=(FAULTS_BY_PART,),
                    unit="ops",
                    no_value="not installed",
                    links=(TO_LOGS,),
                    width=7,
                ),
                Panel(
                    id=14,
                    title="Labels over the limit",
                    kind="timeseries",
                    description="Label values replaced by __other__, a second. Normal: 0. More: a label holds paths, "
                    "ids or users; take it out, or raise its limit.",
                    queries=(OVERFLOWS_BY_LABEL,),
                    unit="ops",
                    no_value="not installed",
                    links=(TO_LOGS,),
                    width=7,
                ),
                Panel(
                    id=15,
                    title="Label values replaced",
                    kind="stat",
                    description="Label values over their limit in the time shown. Normal: 0. More: the panel beside "
                    "names the metric and the label.",
                    queries=(OVERFLOWS_NOW,),
                    unit="none",
                    decimals=0,
                    no_value="not installed",
                    steps=ANY_IS_BAD,
                    width=3,
                    height=8,
                ),
                Panel(
                    id=16,
                    title="Last probe",
                    kind="stat",
                    description="How long ago `fleetglass probe` got a sample through, in the time shown. Normal: "
                    "what its schedule says. Longer: the way from services to the store is broken; run it by hand.",
                    queries=(PROBED,),
                    unit="s",
                    decimals=0,
                    no_value="no probe",
                    width=3,
                    height=8,
                ),
                Panel(
                    id=17,
                    title="Versions",
                    kind="table",
                    description="Processes by version of the library. Normal: one version but during a release. Two "
                    "for long: a deployment that is stuck.",
                    queries=(VERSIONS,),
                    no_value="not installed",
                    columns=(
                        Column(field="job", title="Service"),
                        Column(field="version", title="Version"),
                        Column(field="versions", title="Processes", unit="none"),
                    ),
                    sorted_by="Processes",
                    width=4,
                ),
            ),
        ),
        Row(
            title="Alloy",
            about="What stands between services and stores: what it takes, drops and holds, where it is scraped.",
            collapsed=True,
            panels=(
                Panel(
                    id=18,
                    title="Configuration failed",
                    kind="stat",
                    description="Alloys that could not load their last configuration, and go on with the one before. "
                    "Normal: 0. More: `fleetglass alloy check` says why.",
                    queries=(alloy.CONFIG_FAILED,),
                    unit="none",
                    no_value="no Alloy scraped",
                    steps=ANY_IS_BAD,
                    width=6,
                ),
                Panel(
                    id=19,
                    title="Unhealthy components",
                    kind="stat",
                    description="Components that are not healthy. Normal: 0. More: Alloy's own page, on port 12345, "
                    "names them and says why.",
                    queries=(alloy.UNHEALTHY,),
                    unit="none",
                    no_value="no Alloy scraped",
                    steps=ANY_IS_BAD,
                    width=6,
                ),
                Panel(
                    id=20,
                    title="Lines dropped",
                    kind="stat",
                    description="Log lines dropped in the time shown. Normal: 0, or what your rules drop. More: "
                    "counts that come from lines are too low by as many.",
                    queries=(alloy.LINES_DROPPED_NOW,),
                    unit="none",
                    decimals=0,
                    no_value="no Alloy scraped",
                    steps=ANY_IS_ODD,
                    width=6,
                ),
                Panel(
                    id=21,
                    title="Metrics behind",
                    kind="stat",
                    description="How far remote write is behind, at worst. Normal: seconds. Minutes: the store is "
                    "slow or away; samples wait on disk for two hours, then are lost.",
                    queries=(alloy.BEHIND_NOW,),
                    unit="s",
                    no_value="no Alloy scraped",
                    steps=(Step("green"), Step("yellow", 60), Step("red", 600)),
                    width=6,
                ),
                Panel(
                    id=22,
                    title="Taken in",
                    kind="timeseries",
                    description="OTLP records taken in, a second. Normal: what services emit. Nothing: they send "
                    "elsewhere, or the receiver listens on localhost only.",
                    queries=alloy.RECEIVED,
                    unit="ops",
                    no_value="no OTLP",
                    links=(TO_HOST,),
                    width=8,
                ),
                Panel(
                    id=23,
                    title="Not taken",
                    kind="timeseries",
                    description="OTLP records refused or failed on the way in, a second. Normal: 0. More: the memory "
                    "limiter is at work, or what comes in can't be read.",
                    queries=alloy.REFUSED,
                    unit="ops",
                    no_value="no OTLP",
                    links=(TO_HOST,),
                    width=8,
                ),
                Panel(
                    id=24,
                    title="Not sent",
                    kind="timeseries",
                    description="OTLP records that a store did not take, a second. Normal: 0. More: the address, the "
                    "protocol or the tenant is wrong, or the store is full.",
                    queries=alloy.UNSENT,
                    unit="ops",
                    no_value="no Alloy scraped",
                    links=(TO_HOST,),
                    width=8,
                ),
                Panel(
                    id=25,
                    title="Lines dropped by Loki's answers",
                    kind="timeseries",
                    description="Lines that Loki did not take, a second, by why. Normal: 0. rate_limited: raise the "
                    "tenant's limit; line_too_long: shorten stacks; ingester_error: read Loki's log.",
                    queries=(alloy.WRITE_DROPPED,),
                    unit="ops",
                    no_value="no Loki push",
                    links=(TO_HOST,),
                    width=8,
                ),
                Panel(
                    id=26,
                    title="Lines dropped in stages",
                    kind="timeseries",
                    description="Lines that a stage dropped, a second. Normal: what your rules drop. "
                    "ratelimit_drop_stage on frontend_errors: a storm of browser errors, larger than what is told.",
                    queries=(alloy.STAGE_DROPPED,),
                    unit="ops",
                    no_value="no Alloy scraped",
                    links=(TO_HOST,),
                    width=8,
                ),
                Panel(
                    id=27,
                    title="Queues in use",
                    kind="timeseries",
                    description="The share of each exporter's queue that is taken. Normal: near 0. At 1: records are "
                    "refused; the store behind it is too slow.",
                    queries=(alloy.QUEUE_USED,),
                    unit="percentunit",
                    no_value="no OTLP",
                    most=1,
                    steps=SHARE_USED,
                    links=(TO_HOST,),
                    width=8,
                ),
                Panel(
                    id=28,
                    title="Samples sent",
                    kind="timeseries",
                    description="Samples sent by remote write, given up and tried again, a second. Normal: only sent. "
                    "Given up: the store refuses them; its log says why.",
                    queries=(alloy.SAMPLES_SENT, alloy.SAMPLES_FAILED, alloy.SAMPLES_RETRIED),
                    unit="ops",
                    no_value="no remote write",
                    links=(TO_HOST,),
                    width=6,
                ),
                Panel(
                    id=29,
                    title="Samples pending",
                    kind="timeseries",
                    description="Samples that wait in the queue. Normal: jagged and low. Steady and high: the store "
                    "takes fewer than come in.",
                    queries=(alloy.SAMPLES_PENDING,),
                    unit="none",
                    no_value="no remote write",
                    links=(TO_HOST,),
                    width=6,
                ),
                Panel(
                    id=30,
                    title="Behind",
                    kind="timeseries",
                    description="How far remote write is behind. Normal: seconds. A ramp of one second a second: "
                    "nothing is sent at all.",
                    queries=(alloy.BEHIND,),
                    unit="s",
                    no_value="no remote write",
                    steps=(Step("green"), Step("yellow", 60), Step("red", 600)),
                    links=(TO_HOST,),
                    width=6,
                ),
                Panel(
                    id=31,
                    title="Memory",
                    kind="timeseries",
                    description="Memory that an Alloy holds. Normal: flat, below its memory limiter. At it: records "
                    "are refused; give it more, or run more of them.",
                    queries=(alloy.MEMORY,),
                    unit="bytes",
                    no_value="no Alloy scraped",
                    links=(TO_HOST,),
                    width=6,
                ),
            ),
        ),
    ),
)
