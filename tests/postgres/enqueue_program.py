"""An API server in a process of its own that enqueues one job: ``enqueue_program.py URL TAG``; prints its trace id."""

from __future__ import annotations

import sys

import psycopg
from psycopg.types.json import Jsonb

import telemetry
from telemetry.worker import enqueue_span

url, tag = sys.argv[1:]
with (
    telemetry.setup("api", role="server"),
    psycopg.connect(url) as connection,
    telemetry.span("POST /jobs"),
    enqueue_span(tag) as carrier,
):
    connection.execute("INSERT INTO job_queue (tag, carrier) VALUES (%s, %s)", (tag, Jsonb(carrier)))
    print(telemetry.trace_id())
