"""From what was seen to one outcome and, where something is wrong, one sentence: what, where, what to do."""

from __future__ import annotations

import re

import msgspec

from telemetry.config import mask_credentials
from telemetry.probe.contacts import Purpose, Verdict, explain, place
from telemetry.probe.records import Contact, Expected, Found, Outcome, Read, Route, Sent

MAX_SKEW = 30.0
"""Seconds that two clocks may be apart: beyond it, panels of the last minutes show one signal without the others."""

_TIME = re.compile(
    r"too old|too new|too far (behind|in the (past|future))|out of (order|bounds)|(older|newer) than", re.IGNORECASE
)
_ANSWERED = re.compile(r"answered ([A-Z_]+|\d{3})(?:[:,] ?(.*))?$", re.DOTALL)

_NAMES = {"traces": "resource.service.name", "logs": "service_name", "metrics": "job"}
_STORES = {"tempo": "Tempo", "loki": "Loki", "victorialogs": "VictoriaLogs", "metrics": "VictoriaMetrics"}


def judge(route: Route, expected: Expected, sent: Sent | None, read: Read | None) -> Outcome:
    """The outcome of one signal. ``sent`` and ``read`` are None as far as it did not come to that."""
    if route.unsent or sent is None:
        return Outcome(signal=route.signal, path="–", to="", state="unsent", sentence=route.unsent)
    base = Outcome(
        signal=route.signal,
        path=route.path,
        to=mask_credentials(route.url),
        read_from=mask_credentials(route.query.url) if route.query else "",
        state="failed",
    )
    if sent.state != "delivered":
        return _failed(base, _not_sent(route, expected, sent))
    if read is None:
        return _failed(base, Verdict("unread", f"Acknowledged by {place(route.url)}, and not read back."))
    if read.found is None:
        return _failed(base, _not_found(route, expected, read))
    seen = msgspec.structs.replace(base, late=read.after, service=read.found.service, instance=read.found.instance)
    verdict = _identity(route, expected, read.found) or _clock(read.skew, _store(route))
    if verdict is not None:
        return _failed(seen, verdict)
    return msgspec.structs.replace(seen, state="arrived")


def _failed(outcome: Outcome, verdict: Verdict) -> Outcome:
    return msgspec.structs.replace(outcome, trouble=verdict.trouble, sentence=verdict.sentence)


# -- on the way out ----------------------------------------------------------------------------------


def sending(route: Route) -> Purpose:
    """What the address of a route is for."""
    return Purpose(route.kind, route.signal, route.setting)


def _not_sent(route: Route, expected: Expected, sent: Sent) -> Verdict:
    answer = answer_in(sent.error, route.url, sent.contact)
    skew = sent.contact.skew if sent.contact is not None else None
    if answer is not None and _TIME.search(answer.text):
        return _refused_for_time(answer, skew)
    verdict = explain(answer, sending(route)) if answer is not None else None
    if verdict is None or (verdict.trouble == "rejected" and answer is not None and not answer.status):
        # What a second look found says more than a gRPC library's UNAVAILABLE.
        looked = explain(sent.contact, sending(route)) if sent.contact is not None else None
        verdict = looked or verdict
    if verdict is not None:
        return verdict
    said = sent.error or "no answer came"
    return Verdict("lost", f"Not taken by {place(route.url)} within {expected.timeout:g} s: {said}.")


def answer_in(error: str, url: str, contact: Contact | None) -> Contact | None:
    """The answer that a sink's complaint tells of (``OTLP answered 404: …``), or None where there was no answer."""
    told = _ANSWERED.search(error)
    if told is None:
        return None
    status = int(told[1]) if told[1].isdigit() else 0
    location = contact.location if contact is not None else ""
    body = (told[2] or "").encode()
    code = "" if status else told[1]
    return Contact(url=url, reach="answered", status=status, code=code, body=body, location=location)


def _refused_for_time(answer: Contact, skew: float | None) -> Verdict:
    apart = ""
    if skew is not None and abs(skew) >= MAX_SKEW:
        apart = f" (its clock is {_apart(skew)} ours)"
    return Verdict(
        "clock",
        f'{place(answer.url)} refused the time of the record{apart}: "{answer.text[:160]}". Set the clocks by NTP, on '
        "this machine first.",
    )


# -- on the way back ---------------------------------------------------------------------------------


def reading(route: Route) -> Purpose:
    """What the query address of a route is for."""
    query = route.query
    if query is None:
        return Purpose("metrics", route.signal, "")
    kind = "loki-query" if query.reader == "loki" else query.reader
    return Purpose(kind, route.signal, query.variable)


def _store(route: Route) -> str:
    return place(route.query.url) if route.query else place(route.url)


def _not_found(route: Route, expected: Expected, read: Read) -> Verdict:
    query = route.query
    if query is None:
        return Verdict("unread", "Acknowledged, but there is no address to read it back from.")
    store, sent_to, asked = _STORES[query.reader], place(route.url), place(query.url)
    if read.tenant:
        here = query.headers.get("x-scope-orgid", "none")
        return Verdict(
            "tenant",
            f"Arrived under tenant {read.tenant}, but is read under tenant {here}: make FLEETGLASS_QUERY_HEADERS and "
            "what is sent name the same one.",
        )
    trouble = explain(read.answer, reading(route)) if read.answer is not None else None
    if trouble is not None and not _is_absence(query.reader, read.answer):
        guessed = f" That address was guessed: set {query.variable}." if query.origin == "guess" else ""
        return Verdict(
            trouble.trouble, f"Acknowledged by {sent_to}, but can't be read back. {trouble.sentence}{guessed}"
        )
    apart = _clock(read.skew, asked)
    if apart is not None:
        return Verdict("clock", f"Not found in {store} at {asked} within {expected.timeout:g} s. {apart.sentence}")
    tenant = query.headers.get("x-scope-orgid")
    under = f" under tenant {tenant}" if tenant else ""
    lost = f"Acknowledged by {sent_to}, but not in {store} at {asked}{under} after {expected.timeout:g} s: "
    if tenant:
        return Verdict("lost", f"{lost}what stands between may write under another tenant, elsewhere, or not at all.")
    if sent_to != asked:
        return Verdict(
            "lost",
            f"{lost}a collector between them drops it, samples it, holds it back or writes elsewhere, or "
            f"{query.variable} names another store.",
        )
    return Verdict("lost", f"{lost}look at its log, its limits and its retention.")


def _is_absence(reader: str, answer: Contact | None) -> bool:
    """Tempo says 404 of a trace that it does not know; of a path it says that there is no such page."""
    return reader == "tempo" and answer is not None and answer.status == 404 and "page not found" not in answer.text


def absent(reader: str, answer: Contact) -> bool:
    """The answer is one that says "not there (yet)": worth asking again."""
    return answer.ok or _is_absence(reader, answer)


def hopeless(reader: str, answer: Contact) -> bool:
    """An answer that asking again will not change: a wrong path, refused credentials, a redirect."""
    return (
        answer.reach == "answered"
        and not absent(reader, answer)
        and answer.status not in (408, 425, 429)
        and (answer.status < 500)
    )


def _identity(route: Route, expected: Expected, found: Found) -> Verdict | None:
    name = _NAMES[route.signal]
    wanted = expected.job if route.signal == "metrics" else expected.service
    if not found.service or found.service.startswith("unknown_service"):
        return _missing(route, found, name, wanted)
    if found.service != wanted:
        return Verdict(
            "identity",
            f'Arrived under another identity: {name}="{found.service}" instead of "{wanted}". Something on the way '
            "renames it (a relabel rule, a resource processor, a scraper's own job); the three signals no longer join.",
        )
    if route.signal == "metrics" and not found.instance:
        return Verdict(
            "label", f'Arrived without the label instance (job="{found.service}"): target_info can\'t be joined.'
        )
    if found.instance and found.instance != expected.instance:
        own = {"traces": "resource.service.instance.id", "logs": "service_instance_id", "metrics": "instance"}
        return Verdict(
            "identity",
            f'Arrived under another identity: {own[route.signal]}="{found.instance}" instead of "{expected.instance}". '
            "Something on the way renames it.",
        )
    return None


def _missing(route: Route, found: Found, name: str, wanted: str) -> Verdict:
    has = ", ".join(f'{label}="{value}"' for label, value in sorted(found.labels.items())[:6]) or "none at all"
    if route.signal == "metrics":
        otlp = {"service_name", "service.name"} & found.labels.keys()
        if otlp:
            return Verdict(
                "label",
                f"Arrived without the labels job and instance ({otlp.pop()} instead): VictoriaMetrics' own OTLP "
                "endpoint makes none. Send metrics through Alloy (otelcol.exporter.prometheus, then remote_write), "
                "have them scraped, or push them (FLEETGLASS_METRICS_PUSH_URL).",
            )
        return Verdict("label", f"Arrived without the label job (labels: {has}): something on the way drops it.")
    value = f'{name}="{found.service}"' if found.service else f"no {name}"
    return Verdict(
        "label",
        f'Arrived with {value} instead of {name}="{wanted}" (it has: {has}): the label was lost on the way, in a '
        "relabel rule, a stage.label_drop, or a receiver that does not know the resource.",
    )


# -- clocks ------------------------------------------------------------------------------------------


def _clock(skew: float | None, where: str) -> Verdict | None:
    if skew is None or abs(skew) < MAX_SKEW:
        return None
    return Verdict(
        "clock",
        f"The clock of {where} is {_apart(skew)} ours: panels of the last minutes will miss what this machine sends. "
        "Set both by NTP.",
    )


def _apart(skew: float) -> str:
    seconds = abs(skew)
    unit, size = ("s", 1.0) if seconds < 300 else ("min", 60.0) if seconds < 7200 else ("h", 3600.0)
    return f"{seconds / size:.0f} {unit} {'ahead of' if skew > 0 else 'behind'}"
