"""Workers, by group, as they were asked for and as they are; and the tags that they serve, or nobody does.

As for the queue, the gauges of several exporters are one by their maximum. Badges and verdicts are state sets, one
series for each state; here each is one number, the worse the higher, that panels word again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from telemetry.grafana.queries.queue import TAG, UNSERVED, told
from telemetry.grafana.queries.selectors import MINE, alive, now, rate, series, total

GROUP: Final = 'group=~"${group}"'
"""The groups that the reader has chosen."""

BADGES: Final[Mapping[str, int]] = {"ok": 0, "draining": 1, "scaled": 2, "unregistered": 3, "missing": 4}
"""Badges of a group, by how much they ask for a look."""
VERDICTS: Final[Mapping[str, int]] = {"covered": 0, "idle": 1, "stuck": 2, "no_live_workers": 3, "no_route": 4}
"""Verdicts on a tag; from *stuck* on, jobs wait for nobody."""


_OK = 'state="ok"'


def _coded(metric: str, label: str, codes: Mapping[str, int], by: str, more: str) -> str:
    """A state set as the number of the state that is 1."""
    terms = [f'{code} * ({metric}{{{MINE}, {more}, {label}="{state}"}} == 1)' for state, code in codes.items()]
    return f"max by ({by}) ({' or '.join(terms)})"


BADGE: Final = _coded("fleet_worker_group_drift", "state", BADGES, "group", GROUP)
VERDICT: Final = _coded("fleet_tag_coverage", "reason", VERDICTS, "tag", TAG)


def _of(metric: str) -> str:
    return told(f"fleet_worker_group_{metric}", "group", GROUP)


# --- is it OK?

OUT_OF_SYNC: Final = now(
    "groups_out_of_sync",
    f"sum(1 - {told('fleet_worker_group_drift', 'group', f'{GROUP}, {_OK}')})",
    "groups",
    "Groups whose badge is another than ok.",
    rests_at_zero=True,
)
WITHOUT_BADGE: Final = now(
    "groups_without_badge",
    f"sum(1 - {_of('drift_valid')})",
    "groups",
    "Groups that get no badge, since what was read does not allow one.",
    rests_at_zero=True,
)
ALIVE_NOW: Final = now("workers_alive", f"sum({_of('alive')})", "alive", "Workers that are alive.")
SHORT_NOW: Final = now(
    "workers_short",
    f"sum(clamp_min({_of('desired_min')} * {_of('enabled')} - {_of('active')}, 0))",
    "short",
    "Workers that enabled groups have less than the fewest that were asked for.",
    rests_at_zero=True,
)
LOST_WORKERS: Final = now(
    "workers_lost",
    f"sum({_of('lost')})",
    "lost",
    "Workers that fell silent within a quarter of an hour without taking their leave.",
    rests_at_zero=True,
)
SKEWED_VERSIONS: Final = now(
    "groups_of_several_versions",
    f"sum({_of('versions')} > bool 1)",
    "groups",
    "Groups whose workers run more than one version.",
    rests_at_zero=True,
)
UNSERVED_TAGS: Final = now(
    "tags_unserved",
    f"sum({told('fleet_tag_coverage', 'tag', f'{UNSERVED}, {TAG}')})",
    "tags",
    "Tags that nobody serves although somebody should.",
    rests_at_zero=True,
)
OUT_OF_SYNC_OF_ALL: Final = now(
    "out_of_sync_of_all",
    f"sum(1 - {told('fleet_worker_group_drift', 'group', _OK)})",
    "groups",
    "Groups whose badge is another than ok, of all groups.",
    rests_at_zero=True,
)
UNSERVED_OF_ALL: Final = now(
    "unserved_of_all",
    f"sum({told('fleet_tag_coverage', 'tag', UNSERVED)})",
    "tags",
    "Tags that nobody serves although somebody should, of all tags.",
    rests_at_zero=True,
)

# --- one group a row

BADGE_OF_GROUP: Final = now("badge_of_group", BADGE, "", "The badge, as a number.")
BADGE_AGE_OF_GROUP: Final = now(
    "badge_age_of_group",
    f"time() - min by (group) (fleet_worker_group_drift_since_timestamp_seconds{{{MINE}, {GROUP}}})",
    "",
    "For how long the badge has been what it is, as far as the exporter saw that has looked longest.",
)
DANGER_OF_GROUP: Final = now(
    "danger_of_group",
    _of("drift_danger"),
    "",
    "Whether work waits for a group that was scaled to nothing.",
    rests_at_zero=True,
)
LEAST_OF_GROUP: Final = now("least_of_group", _of("desired_min"), "", "Fewest replicas that were asked for.")
MOST_OF_GROUP: Final = now("most_of_group", _of("desired_max"), "", "Most replicas that were asked for.")
ENABLED_OF_GROUP: Final = now("enabled_of_group", _of("enabled"), "", "Whether the group may run at all.")
ALIVE_OF_GROUP: Final = now("alive_of_group", _of("alive"), "", "Workers that are alive.")
ACTIVE_OF_GROUP: Final = now("active_of_group", _of("active"), "", "Those of them that take jobs.")
DRAINING_OF_GROUP: Final = now("draining_of_group", _of("draining"), "", "Those that finish what they run.")
BUSY_OF_GROUP: Final = now("busy_of_group", _of("busy"), "", "Those that run a job.")
LOST_OF_GROUP: Final = now("lost_of_group", _of("lost"), "", "Those that fell silent lately.", rests_at_zero=True)
PING_AGE_OF_GROUP: Final = now("ping_age_of_group", _of("last_ping_age_seconds"), "", "The age of the freshest ping.")
VERSIONS_OF_GROUP: Final = now("versions_of_group", _of("versions"), "", "How many versions they run.")
EXECUTED_OF_GROUP: Final = now(
    "executed_of_group",
    _of("jobs_executed"),
    "",
    "Jobs that the living have run since they started; falls when one leaves.",
)
BADGE_BY_GROUP: Final = series("badge_by_group", BADGE, "{{group}}", "The badge, as a number.")
ACTIVE_BY_GROUP: Final = series("active_by_group", _of("active"), "{{group}} active", "Workers that take jobs.")
LEAST_BY_GROUP: Final = series(
    "least_by_group", _of("desired_min"), "{{group}} at least", "Fewest replicas that were asked for."
)
MOST_BY_GROUP: Final = series(
    "most_by_group", _of("desired_max"), "{{group}} at most", "Most replicas that were asked for."
)
BUSY_BY_GROUP: Final = series("busy_by_group", _of("busy"), "{{group}} busy", "Workers that run a job.")
JOBS_BY_GROUP: Final = series("jobs_by_group", _of("running_jobs"), "{{group}} jobs", "Jobs that they run.")

# --- tags

VERDICT_OF_TAG: Final = now("verdict_of_tag", VERDICT, "", "The verdict, as a number: from 2 on nobody will come.")
SERVING_OF_TAG: Final = now(
    "serving_of_tag", told("fleet_tag_serving", "tag", TAG), "", "Active workers that serve the tag."
)
PENDING_OF_TAG: Final = now(
    "pending_of_tag", told("fleet_queue_pending", "tag", TAG), "", "Jobs that wait under the tag."
)
AGE_OF_TAG: Final = now(
    "age_of_tag", told("fleet_queue_oldest_age_seconds", "tag", TAG), "", "How long the oldest of them has waited."
)
TAGS_BY_VERDICT: Final = series(
    "tags_by_verdict",
    f"sum by (reason) ({told('fleet_tag_coverage', 'tag, reason', TAG)})",
    "{{reason}}",
    "Tags by verdict.",
)
SERVING_BY_TAG: Final = series(
    "serving_by_tag", told("fleet_tag_serving", "tag", TAG), "{{tag}}", "Active workers that serve a tag."
)

# --- heartbeats

HEARTBEATS_FAILED: Final = series(
    "heartbeats_failed",
    f"{total(rate('fleet_worker_heartbeat_failures_total'), 'job, reason')} or {alive('job')}",
    "{{job}} {{reason}}",
    "Heartbeats that did not arrive, a second, as workers count; a line at 0 for what tells of itself.",
    rests_at_zero=True,
)
HEARTBEAT_AGE: Final = series(
    "heartbeat_age",
    f"max by (job) (time() - fleet_worker_heartbeat_last_success_timestamp_seconds{{{MINE}}})",
    "{{job}}",
    "How long ago the last heartbeat arrived, of the worker for which that is longest.",
)
PING_AGE_BY_GROUP: Final = series(
    "ping_age_by_group",
    _of("last_ping_age_seconds"),
    "{{group}}",
    "The age of the freshest ping in the table; nothing without a living worker.",
)
DRAINING_BY_GROUP: Final = series(
    "draining_by_group", _of("draining"), "{{group}} draining", "Workers that take nothing new."
)
LOST_BY_GROUP: Final = series(
    "lost_by_group",
    _of("lost"),
    "{{group}} lost",
    "Workers that fell silent within a quarter of an hour.",
    rests_at_zero=True,
)
VERSIONS_BY_GROUP: Final = series(
    "versions_by_group", _of("versions"), "{{group}}", "How many versions the living workers run."
)

# --- registry and clocks

BROKEN_ROWS: Final = now(
    "broken_rows",
    told("fleet_worker_groups_broken", ""),
    "rows",
    "Rows of the registry that can't be right.",
    rests_at_zero=True,
)
CLOCKS_BY_GROUP: Final = series(
    "clocks_by_group",
    _of("clock_skewed"),
    "{{group}}",
    "Living workers whose ping lies in the database's future.",
    rests_at_zero=True,
)
