"""Asks a backend for the record until it is there, or until time is up."""

from __future__ import annotations

import time

from telemetry.probe import answers, wire
from telemetry.probe.answers import Marks, Request
from telemetry.probe.records import Contact, Expected, Found, Query, Read, Route
from telemetry.probe.verdicts import absent, hopeless

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 2.0
_LOOK_WIDER_AFTER = 4.0
"""Seconds after which a line that is not under its name is looked for under any."""


def read(route: Route, marks: Marks, expected: Expected, since: float, deadline: float) -> Read:
    """What the backend of ``route`` has of the record; both times are monotonic seconds.

    An answer that won't change (a wrong path, refused credentials) ends it at once.
    """
    query = route.query
    if query is None:
        return Read()
    pause, last, skew, wider, attempt = _FIRST_PAUSE, None, None, False, 0
    while True:
        last = ask(query, answers.request(query, marks, expected, attempt), deadline)
        attempt += 1
        skew = last.skew if last.skew is not None else skew
        found = answers.found(query, marks, last.body) if last.ok else None
        if found is not None:
            return Read(found, time.monotonic() - since, None, skew)
        if hopeless(query.reader, last):
            break
        now = time.monotonic()
        if not wider and now - since > _LOOK_WIDER_AFTER and absent(query.reader, last):
            wider = True
            found = _stray(query, marks, deadline)
            if found is not None:
                return Read(found, time.monotonic() - since, None, skew)
        if now >= deadline:
            break
        time.sleep(min(pause, deadline - now))  # the last look is at the very end
        pause = min(pause * 1.5, _LONGEST_PAUSE)
    found = None if hopeless(query.reader, last) else _stray(query, marks, deadline)
    if found is not None:
        return Read(found, time.monotonic() - since, None, skew)
    return Read(None, 0.0, last, skew, _other_tenant(route, query, marks, expected, deadline))


def ask(query: Query, request: Request, deadline: float) -> Contact:
    """One request of a query API, with at least two seconds for its answer."""
    timeout = min(10.0, max(2.0, deadline - time.monotonic()))
    headers = {**query.headers, **request.headers}
    return wire.exchange(request.method, request.url, headers, request.body, timeout=timeout)


def _stray(query: Query, marks: Marks, deadline: float) -> Found | None:
    """A line that is stored under other labels than its own."""
    if query.reader != "loki":
        return None
    known = ask(query, answers.label_names(query, marks), deadline)
    for request in answers.strays(query, marks, answers.labels(known.body)):
        answer = ask(query, request, deadline)
        found = answers.found(query, marks, answer.body) if answer.ok else None
        if found is not None:
            return found
    return None


def _other_tenant(route: Route, query: Query, marks: Marks, expected: Expected, deadline: float) -> str:
    """The tenant that it was sent under, if that isn't the one that is read and the record is there."""
    sent_under = route.headers.get("x-scope-orgid", "")
    if not sent_under or sent_under == query.headers.get("x-scope-orgid", ""):
        return ""
    request = answers.request(query, marks, expected)
    headers = {**request.headers, "x-scope-orgid": sent_under}
    again = Request(request.url, request.method, headers, request.body)
    answer = ask(query, again, deadline)
    return sent_under if answer.ok and answers.found(query, marks, answer.body) is not None else ""
