"""A reaper in a process of its own: ``reaper_program.py URL ZOMBIE_TIMEOUT``; a line for each job that it requeues."""

from __future__ import annotations

import sys
import time

import psycopg

from telemetry.worker import Reaper

url, zombie = sys.argv[1], float(sys.argv[2])
reaper = Reaper(zombie_timeout=zombie, interval=5.0)
print("at", time.time(), flush=True)
with psycopg.connect(url, autocommit=True) as connection:
    while True:
        for job_id, _ in reaper.reap(connection).requeued:
            print("requeued", job_id, flush=True)
        time.sleep(0.2)
