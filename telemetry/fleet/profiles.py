"""Where a platform keeps its queue, its workers and what it asked for: windforce, windmill, or a mapping of one's own.

A profile holds names only. Each is checked to be a name before it comes near SQL, and quoted there. What a column is
for decides its type, and ``check`` holds the live schema to that: a timestamp without time zone has an age that
depends on the session, so it is refused and never read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
import psycopg

from telemetry.worker.tables import Tables

Part = Literal["queue", "detail", "workers", "catalogue"]
PARTS: Final[tuple[Part, ...]] = ("queue", "detail", "workers")
"""What has to be there and is read together: ``queue`` on every scrape, ``detail`` (running, waits, exact counts) once
a minute. The tables of ``catalogue`` may be missing: then the platform has none."""

_STATUS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-. ")
Kind = Literal["text", "time", "bool", "int", "list", "any"]
_TYPES: Final[Mapping[Kind, tuple[str, ...]]] = {
    "text": ("text", "character varying", "character", "name", "uuid"),
    "time": ("timestamp with time zone",),
    "bool": ("boolean",),
    "int": ("smallint", "integer", "bigint", "numeric", "real", "double precision"),
    "list": (),
    "any": (),
}

_TABLES: Final = ("queue", "runtime", "completed", "jobs", "pings", "registry", "apps", "actions")
_PART: Final[Mapping[Part, tuple[str, ...]]] = {
    "queue": ("queue",),
    "detail": ("queue", "runtime", "completed", "jobs"),
    "workers": ("pings", "registry"),
    "catalogue": ("apps", "actions", "registry"),
}
_COLUMNS: Final[Mapping[str, Mapping[str, Kind]]] = {
    "queue": {
        "id": "any",
        "tag": "text",
        "scheduled_for": "time",
        "running": "bool",
        "started_at": "time",
        "canceled_by": "any",
        "suspend": "int",
        "restarts": "int",
    },
    "runtime": {"id": "any", "ping": "time"},
    "completed": {
        "id": "any",
        "tag": "text",
        "scheduled_for": "time",
        "started_at": "time",
        "completed_at": "time",
        "status": "any",
    },
    "jobs": {"id": "any", "tag": "text", "kind": "any"},
    "pings": {
        "id": "text",
        "group": "text",
        "ping_at": "time",
        "started_at": "time",
        "tags": "list",
        "version": "any",
        "node": "text",
        "status": "any",
        "draining_since": "time",
        "current_job": "any",
        "running_jobs": "int",
        "jobs_executed": "int",
    },
    "registry": {
        "name": "text",
        "tags": "list",
        "desired_replicas": "int",
        "autoscale_min": "int",
        "autoscale_max": "int",
        "drain_timeout": "int",
        "enabled": "bool",
        "capabilities": "list",
        "dedicated": "text",
    },
    "apps": {"workspace": "text", "key": "text", "tag": "text", "override": "text", "capabilities": "list"},
    "actions": {"workspace": "text", "app": "text", "tag": "text"},
}
_REQUIRED: Final[Mapping[str, frozenset[str]]] = {
    "queue": frozenset({"table", "id", "tag", "scheduled_for", "running", "started_at"}),
    "runtime": frozenset({"table", "id", "ping"}),
    "completed": frozenset({"table", "id", "started_at", "completed_at", "status"}),
    "jobs": frozenset({"table", "id", "tag"}),
    "pings": frozenset({"table", "id", "group", "ping_at", "tags"}),
    "registry": frozenset({"table", "name", "tags", "desired_replicas"}),
    "apps": frozenset({"table", "workspace", "key", "tag"}),
    "actions": frozenset({"table", "workspace", "app", "tag"}),
}


class Queue(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table of jobs that wait or run. An empty name is a column that the platform does not have.

    ``suspend`` is a number that must be 0 before a job is claimed. ``restarts`` counts how often a reaper took the
    job back; at ``restart_limit`` it is given up the next time.
    """

    table: str = "job_queue"
    id: str = "job_id"
    tag: str = "tag"
    scheduled_for: str = "scheduled_for"
    running: str = "running"
    started_at: str = "started_at"
    canceled_by: str = "canceled_by"
    suspend: str = ""
    restarts: str = ""
    restart_limit: int = 3


class Runtime(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The pings of running jobs."""

    table: str = "job_runtime"
    id: str = "job_id"
    ping: str = "ping"


class Completed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Jobs that ended. ``failed`` are the values of ``status`` that count as failures.

    Without ``tag`` the tag is looked up in ``jobs``. Without ``scheduled_for`` no wait is known of jobs that ended,
    and so no quantile is given at all: those that still run are the long ones.
    """

    table: str = "job_completed"
    id: str = "job_id"
    tag: str = "tag"
    scheduled_for: str = "scheduled_for"
    started_at: str = "started_at"
    completed_at: str = "completed_at"
    status: str = "status"
    failed: tuple[str, ...] = ("failure", "lost")


class Jobs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of all jobs, waiting or ended. ``parents`` are the kinds that wait for others and occupy no worker."""

    table: str
    id: str = "id"
    tag: str = "tag"
    kind: str = ""
    parents: tuple[str, ...] = ()


class Pings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One row for each worker process. ``tags`` is an array of text or of JSON."""

    table: str = "worker_ping"
    id: str = "worker"
    group: str = "worker_group"
    ping_at: str = "ping_at"
    started_at: str = "started_at"
    tags: str = "tags"
    version: str = "version"
    node: str = "node_name"
    status: str = "status"
    draining_since: str = "draining_since"
    current_job: str = "current_job"
    running_jobs: str = "running_jobs"
    jobs_executed: str = "jobs_executed"
    tags_are_json: bool = False


class Registry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Groups of workers as they were asked for.

    ``capabilities`` are served under tags of their names. ``dedicated`` names the workspace whose jobs all go to this
    group, under its one tag.
    """

    table: str = "worker_group"
    name: str = "name"
    tags: str = "tags"
    desired_replicas: str = "desired_replicas"
    autoscale_min: str = "autoscale_min"
    autoscale_max: str = "autoscale_max"
    drain_timeout: str = "drain_timeout_s"
    enabled: str = "enabled"
    capabilities: str = ""
    dedicated: str = ""
    tags_are_json: bool = False


class Apps(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The platform's apps. ``tag`` is what the author gave, ``override`` what an operator routes it to instead.

    ``capabilities``, an array of text, are what its jobs need; they are routed by tags of those names.
    """

    table: str = "app"
    workspace: str = "workspace_id"
    key: str = "app_key"
    tag: str = "tag"
    override: str = "tag_override"
    capabilities: str = "capabilities"


class Actions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What of an app can be run. Its ``tag``, where it has one, goes before the app's."""

    table: str = "action"
    workspace: str = "workspace_id"
    app: str = "app_key"
    tag: str = "tag"


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All of a platform's tables. One that is None is one it does not have: what it would tell is unknown.

    ``catalogue`` is a query of one column: the tags of the platform's actions, whether anything waits under them or
    not; without one they are worked out from ``apps`` and ``actions``. ``serve_all`` says that a worker without tags
    takes every job. Raises ValueError for what is no name.
    """

    name: str = "windforce"
    queue: Queue | None = Queue()
    runtime: Runtime | None = Runtime()
    completed: Completed | None = Completed()
    jobs: Jobs | None = None
    pings: Pings | None = Pings()
    registry: Registry | None = Registry()
    apps: Apps | None = None
    actions: Actions | None = None
    catalogue: str = ""
    serve_all: bool = False
    zombie_timeout: float = 90.0

    def __post_init__(self) -> None:
        for table, column, name in self._names():
            where = f"profile {self.name}: {table}.{column}={name!r}"
            if not Tables.is_name(name) or (column != "table" and "." in name):
                raise ValueError(f"{where} is no name of a {'table' if column == 'table' else 'column'}")
        for value in (*(self.completed.failed if self.completed else ()), *(self.jobs.parents if self.jobs else ())):
            if not value or not _STATUS.issuperset(value):
                raise ValueError(f"profile {self.name}: {value!r} is no word that a status or a kind could be")
        if self.completed and not self.completed.tag and not self.jobs:
            raise ValueError(f"profile {self.name}: completed.tag is empty and there is no table jobs to look it up in")

    def _names(self) -> Iterator[tuple[str, str, str]]:
        for table in _TABLES:
            value = getattr(self, table)
            required = _REQUIRED[table]
            for column in () if value is None else ("table", *_COLUMNS[table]):
                name = getattr(value, column)
                if name or column in required:
                    yield table, column, name


WINDFORCE: Final = Profile(
    queue=Queue(restarts="restarts"),
    registry=Registry(capabilities="capabilities", dedicated="dedicated_workspace_id"),
    apps=Apps(),
    actions=Actions(),
)
WINDMILL: Final = Profile(
    name="windmill",
    queue=Queue(table="v2_job_queue", id="id", suspend="suspend"),
    runtime=Runtime(table="v2_job_runtime", id="id"),
    completed=Completed(table="v2_job_completed", id="id", tag="", scheduled_for="", failed=("failure",)),
    jobs=Jobs(table="v2_job", kind="kind", parents=("flow", "flowpreview", "singlestepflow", "flownode")),
    pings=Pings(
        tags="custom_tags",
        version="wm_version",
        node="",
        status="",
        draining_since="",
        current_job="current_job_id",
        running_jobs="",
    ),
    registry=None,
)
CORE: Final = Profile(
    name="windforce-core",
    queue=None,
    runtime=None,
    completed=None,
    pings=Pings(
        table="worker_registry",
        id="id",
        ping_at="last_heartbeat_at",
        version="engine_version",
        node="",
        draining_since="",
        current_job="",
        running_jobs="",
        jobs_executed="",
        tags_are_json=True,
    ),
    registry=None,
    serve_all=True,
)
PROFILES: Final[Mapping[str, Profile]] = {each.name: each for each in (WINDFORCE, WINDMILL, CORE)}


def load(named: str) -> Profile:
    """The profile of that name, or the one in the TOML file at that path. Raises ValueError, as a sentence.

    A file says what differs from the profile it names as ``base`` (windforce): ``[queue]`` and ``table = "jobs"``.
    A table the platform does not have is ``false``: ``registry = false``.
    """
    if named in PROFILES:
        return PROFILES[named]
    path = Path(named)
    if path.suffix != ".toml":
        raise ValueError(f"{named!r} is neither a profile ({', '.join(PROFILES)}) nor a .toml file with a mapping")
    try:
        given = msgspec.toml.decode(path.read_bytes())
        base = PROFILES.get(given.pop("base", "windforce"))
        if base is None:
            raise ValueError(f"base must be one of {', '.join(PROFILES)}")
        return _mapped(base, {"name": path.stem, **given})
    except OSError as error:
        raise ValueError(f"{named} can't be read: {error.strerror}") from None
    except (msgspec.DecodeError, ValueError) as error:
        raise ValueError(f"{named}: {error}") from None


def _mapped(base: Profile, given: dict[str, Any]) -> Profile:
    whole = msgspec.to_builtins(base)
    for key, value in given.items():
        if key in _TABLES and value is False:
            whole[key] = None
        elif key in _TABLES and isinstance(value, dict):
            whole[key] = {**(whole[key] or {}), **value}
        else:
            whole[key] = value
    return msgspec.convert(whole, Profile)


_LIVE: Final = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod), t.typtype
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped
"""


def check(connection: psycopg.Connection[Any], profile: Profile, parts: tuple[Part, ...] = PARTS) -> tuple[str, ...]:
    """How the live schema differs from ``profile``, a sentence for each difference; an empty tuple when it fits.

    Reads the system's catalogue alone; raises psycopg.Error.
    """
    found: list[str] = []
    for key in dict.fromkeys(table for part in parts for table in _PART[part]):
        mapped = getattr(profile, key)
        if mapped is None:
            continue
        rows = connection.execute(_LIVE, (Tables.quoted(mapped.table),)).fetchall()
        live = {name: (kind, category) for name, kind, category in rows}
        if not live:
            found.append(f"{key}: there is no table {mapped.table}, or this role may not see its schema")
            continue
        found += [
            f"{key}: {sentence}"
            for column, kind in _COLUMNS[key].items()
            if (name := getattr(mapped, column)) and (sentence := _differs(mapped, column, name, kind, live))
        ]
    return tuple(found)


def _differs(mapped: Any, column: str, name: str, kind: Kind, live: Mapping[str, tuple[str, str]]) -> str:
    what = f"{mapped.table}.{name}"
    if name not in live:
        return f"{what} ({column}) is missing"
    there, category = live[name]
    plain = there.partition("(")[0] + (there.rpartition(")")[2] if "(" in there else "")
    if kind == "time" and plain == "timestamp without time zone":
        return (
            f"{what} ({column}) is a timestamp without time zone: its age would depend on the time zone of the "
            "session. Make it timestamptz, or map a view that says which zone it is in"
        )
    if kind == "list":
        json = getattr(mapped, "tags_are_json", False)
        wanted: tuple[str, ...] = ("jsonb",) if json else ("text[]", "character varying[]")
    else:
        wanted = _TYPES[kind]
    if not wanted or plain in wanted or (kind == "text" and category == "e"):
        return ""
    return f"{what} ({column}) is {there}, expected {' or '.join(wanted)}"
