"""The API server: jobs into the queue, groups and tags for operators, and what a console asks of the fleet.

``python -m examples.platform.api``, with DATABASE_URL, FLEETGLASS_TOKENS and API_SOCKET, a listening socket that was
handed down: who calls while this process is replaced waits a moment, and is refused nothing.
"""

from __future__ import annotations

import os
import socket
from typing import Annotated, Any, Literal

import msgspec
import psycopg
import uvicorn
from litestar import Litestar, delete, patch, post, put
from litestar.connection import ASGIConnection
from litestar.exceptions import NotAuthorizedException, NotFoundException, PermissionDeniedException
from litestar.handlers.base import BaseRouteHandler

import telemetry
from examples.platform.database import enqueue
from examples.platform.lifeline import end_with_parent
from examples.platform.times import DETAIL, HEARTBEAT, OBSERVE, PROFILE, SLO, WINDOWS
from ingest.app import IngestPlugin
from ingest.settings import Settings
from telemetry.fleet.election import Election
from telemetry.fleet.observer import Observer
from telemetry.fleet.snapshot import snapshot
from telemetry.web.litestar import TelemetryPlugin

URL = os.environ["DATABASE_URL"]

PUBLISH = """
INSERT INTO action (workspace_id, app_key, action_key, tag) VALUES ('acme', 'by-hand', %(tag)s, %(tag)s)
ON CONFLICT DO NOTHING
"""
# Ended jobs have a status; none of these ever ran.
WITHDRAW = """
WITH gone AS (DELETE FROM job_queue WHERE tag = %s AND NOT running RETURNING job_id, tag, scheduled_for)
INSERT INTO job_completed (job_id, tag, status, scheduled_for, started_at)
SELECT job_id, tag, 'canceled', scheduled_for, now() FROM gone
"""
# A group that breathes has two ends, and both or neither are given; the upper one stays where that is not below.
SCALE = """
UPDATE worker_group SET desired_replicas = %(n)s,
    autoscale_min = CASE WHEN autoscale_max IS NOT NULL THEN %(n)s END,
    autoscale_max = CASE WHEN autoscale_max IS NOT NULL THEN greatest(autoscale_max, %(n)s) END
WHERE name = %(group)s
"""


class NewJobs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Jobs to run; ``seconds`` is how long each is to take, ``does`` how it ends."""

    tag: Annotated[str, msgspec.Meta(min_length=1, max_length=50)]
    count: Annotated[int, msgspec.Meta(ge=1, le=500)] = 1
    seconds: Annotated[float, msgspec.Meta(ge=0, le=60)] = 0.5
    does: Literal["work", "fail", "poison"] = "work"


class Replicas(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many workers a group is to have; of one that breathes, at least."""

    replicas: Annotated[int, msgspec.Meta(ge=0, le=8)]


@post("/api/jobs", sync_to_thread=True, status_code=202)
def new_jobs(data: NewJobs) -> dict[str, list[str]]:
    """Enqueue; the trace that begins with this request goes on in the worker."""
    with psycopg.connect(URL) as connection:
        return {"jobs": enqueue(connection, data.tag, {"seconds": data.seconds, "does": data.does}, data.count)}


@put("/api/actions/{tag:str}", sync_to_thread=True, status_code=204)
def publish(tag: str) -> None:
    """Publish an action under a tag, whether or not anybody serves it."""
    with psycopg.connect(URL) as connection:
        connection.execute(PUBLISH, {"tag": tag})


@delete("/api/actions/{tag:str}", sync_to_thread=True)
def withdraw(tag: str) -> None:
    """Publish it no more, and end what waits under its tag."""
    with psycopg.connect(URL) as connection:
        connection.execute("DELETE FROM action WHERE app_key = 'by-hand' AND action_key = %s", (tag,))
        connection.execute(WITHDRAW, (tag,))


@patch("/api/groups/{group:str}", sync_to_thread=True, status_code=204)
def scale(group: str, data: Replicas) -> None:
    """Ask for another number of workers."""
    with psycopg.connect(URL) as connection:
        if not connection.execute(SCALE, {"n": data.replicas, "group": group}).rowcount:
            raise NotFoundException(f"There is no group {group}.")


def create_app(settings: Settings, observer: Observer) -> Litestar:
    """The application; what operators may do is for those who may read the fleet."""

    def operators_only(connection: ASGIConnection[Any, Any, Any, Any], _: BaseRouteHandler) -> None:
        principal = settings.tokens.get(connection.headers.get("authorization", "").removeprefix("Bearer "))
        if principal is None:
            raise NotAuthorizedException
        if "super_admin" not in principal.roles:
            raise PermissionDeniedException

    for handler in (new_jobs, publish, withdraw, scale):
        handler.guards = [operators_only]
    return Litestar(
        [new_jobs, publish, withdraw, scale],
        plugins=[
            IngestPlugin(settings, fleet=lambda: snapshot(observer)),
            TelemetryPlugin(exclude=["/metrics", "/api/admin/*"]),
        ],
        logging_config=None,
    )


if __name__ == "__main__":
    end_with_parent()
    telemetry.setup("platform-api", role="server")
    with Observer(
        URL,
        profile=PROFILE,
        windows=WINDOWS,
        interval=OBSERVE,
        detail_interval=DETAIL,
        heartbeat=HEARTBEAT,
        slo=SLO,
        election=Election(ttl=3 * OBSERVE),
    ) as observer:
        config = uvicorn.Config(create_app(Settings.load(), observer), log_config=None, access_log=False)
        uvicorn.Server(config).run(sockets=[socket.socket(fileno=int(os.environ["API_SOCKET"]))])
