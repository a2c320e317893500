"""What the labels of our metrics mean."""

from __future__ import annotations

LABELS: dict[str, str] = {
    "cause": "`expired`, `evicted`, `shutdown`, `adopted` (its opener was gone) or `store_lost`",
    "group": "group of workers; empty where a job belongs to none, and for a tag that several groups serve",
    "http_request_method": "request method in capitals, `_OTHER` when it is not a known one",
    "http_route": "route template (`/users/{id}`), `unmatched` when no route took the request",
    "http_response_status_code": "status code of the response, as three digits",
    "item": "`logs`, `measurements`, `events`, `traces`, or `replays` (exceptions that came before)",
    "kind": "what the browser caught: `error`, `unhandledrejection`, `react`, `other`",
    "label": "name of the label whose values went over the limit",
    "metric": "name of the metric that was guarded",
    "outcome": "of a run: `success`, `failure`, `cancelled`, or `lost` (its completion was fenced off)",
    "part": "what was read: `queue` (pending), `detail` (running, waits, exact counts), `workers` (and what was asked "
    "for) or `catalogue`",
    "reason": "why: of a dropped record one of the ledger's closed list; of noise `extension`, `script_error` or "
    "`resize_observer`; of a store's error `timeout`, `connection`, `refused` or `late`; of a heartbeat, a claim or a "
    "completion that failed `timeout`, `connection` or `refused`; of a read that failed `connection`, `deadline`, "
    "`statement_timeout`, `lock_timeout`, `permission`, `schema` or `refused`; of a tag `covered`, `no_route` (no "
    "group has it), `no_live_workers`, `idle` or `stuck` (served, due, and not claimed)",
    "result": "of a report `accepted` (logged), `duplicate` (counted as a repeat), `noise`, or why it was refused; of "
    "a stack `resolved`, `unmapped` (no map knows it), `dropped` (too many waited) or `failed`",
    "signal": "`logs`, `traces` or `metrics`",
    "sink": "name of the network sink",
    "state": "`ok`, `missing`, `scaled`, `draining` or `unregistered`",
    "tag": "tag of a job, by which workers choose; `__other__` for those beyond the 200 with most jobs",
    "transport": "`event_stream` or `websocket`",
    "version": "version of this library",
    "where": "part of the library that reported the fault",
}
"""What each label means; every label in the catalogue stands here."""
