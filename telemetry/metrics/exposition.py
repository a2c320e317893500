"""The exposition: the user's metrics, ours, OpenTelemetry's and ``target_info`` as one document.

Each family name stands in it once, since Prometheus refuses a document that repeats one. Where two
sources use the same name, the user's own registry wins over ours ("untouched" is a promise), and ours over
an OpenTelemetry instrument (an ASGI instrumentation beside our middleware measures the same thing twice);
the clash is counted as an internal fault and said once.

A source that fails loses its families in that scrape and is counted; the rest is served.
"""

from __future__ import annotations

import copy
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, NamedTuple, Protocol

from prometheus_client import REGISTRY as USERS
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric

from telemetry import faults
from telemetry.metrics import accounts, textformat
from telemetry.metrics.registry import REGISTRY as OURS

CACHE_SECONDS = 1.0
WAIT_SECONDS = 10.0
"""How long a scrape waits for one that is at work before it gives up."""

FORK_WAIT_SECONDS = 1.0
"""How long a fork waits for the collector that is being read."""

_SUFFIXES = {
    "counter": ("_total", "_created"),
    "summary": ("_sum", "_count", "_created"),
    "histogram": ("_bucket", "_sum", "_count", "_created"),
    "gaugehistogram": ("_bucket", "_gsum", "_gcount"),
    "info": ("_info",),
}


class Target(Protocol):
    """What the exposition needs of an identity."""

    def target_info(self) -> dict[str, str]:
        """Attributes of the process as label names and values."""
        ...


class ExpositionTimeout(TimeoutError):
    """A collector has not returned for ``WAIT_SECONDS``; to the scraper this is a failed scrape."""


class Format(NamedTuple):
    """A negotiated format: ``kind``, the media type's version, and how names that need it are escaped."""

    kind: Literal["text", "openmetrics"] = "text"
    version: str = "0.0.4"
    escaping: str = ""

    @property
    def content_type(self) -> str:
        """The value of ``Content-Type``."""
        media = "text/plain" if self.kind == "text" else "application/openmetrics-text"
        escaping = f"; escaping={self.escaping}" if self.escaping else ""
        return f"{media}; version={self.version}; charset=utf-8{escaping}"


_TEXT = Format()
_ESCAPINGS = ("allow-utf-8", "underscores", "dots", "values")


def negotiate(accept: str | None) -> Format:
    """The format for an ``Accept`` header: the one with the highest q, the first of equals, text when in doubt.

    Understood are ``application/openmetrics-text`` (any version: 1.0.0 is answered) and ``text/plain``; of
    the latter version 1.0.0 differs from 0.0.4 only by its ``escaping`` parameter
    (prometheus.io/docs/instrumenting/content_negotiation).
    """
    best, best_q = _TEXT, 0.0
    for part in (accept or "").split(","):
        media, *parameters = (token.strip() for token in part.split(";"))
        options = dict(token.lower().split("=", 1) for token in parameters if "=" in token)
        try:
            q = float(options.get("q", "1"))
        except ValueError:
            continue
        found = _format(media.lower(), {name.strip(): value.strip() for name, value in options.items()})
        if found is not None and q > best_q:
            best, best_q = found, q
    return best


def _format(media: str, options: dict[str, str]) -> Format | None:
    escaping = options.get("escaping", "")
    escaping = escaping if escaping in _ESCAPINGS else ""
    version = options.get("version", "")
    if media == "application/openmetrics-text":
        return Format("openmetrics", "1.0.0", escaping if version != "0.0.1" else "")
    if media == "text/plain":
        return Format("text", "1.0.0", escaping or "underscores") if version.startswith("1.") else _TEXT
    return _TEXT if media in ("*/*", "text/*") else None


class Source(NamedTuple):
    """Where families come from; an earlier source wins a name over a later one."""

    name: str
    families: Callable[[], Iterable[Metric]]


class Exposition:
    """Collects, unites and renders. One collection runs at a time; a rendering is kept for a second.

    ``users`` and ``ours`` are registries; further sources come by ``add_source``.
    """

    def __init__(self, users: CollectorRegistry = USERS, ours: CollectorRegistry = OURS) -> None:
        self._sources = [
            Source("the default registry", lambda: self._read(users)),
            Source("fleetglass", lambda: _without_created(self._read(ours))),
            Source("fleetglass", accounts.self_families),
        ]
        self._said: set[str] = set()
        self._kept: dict[Format, _Kept] = {}
        self._start_afresh()
        _all.add(self)

    def _start_afresh(self) -> None:
        self._one_at_a_time = threading.RLock()
        self._reading = threading.RLock()
        self._kept.clear()

    def add_source(self, source: Source) -> None:
        """Append a source; one of the same name, if any, is replaced."""
        self._sources = [*(kept for kept in self._sources if kept.name != source.name), source]

    def replace_sources(self, *sources: Source) -> None:
        """Read these and nothing else (multiprocess mode reads files instead of registries)."""
        self._sources = list(sources)

    def render(self, accept: str | None, *, identity: Target | None = None) -> tuple[bytes, str]:
        """The document for ``accept`` and its content type; may be called from any thread.

        Blocks for as long as collectors take; call it off the event loop. Within a second the same bytes are
        returned. Raises ExpositionTimeout when another scrape does not come to an end.
        """
        form = negotiate(accept)
        body = self._fresh(form, identity)
        if body is None:
            with _Turn(self._one_at_a_time):
                body = self._fresh(form, identity)  # whoever held the turn may have rendered just this
                if body is None:
                    body = self._document(self._collect(identity), form)
                    self._kept[form] = _Kept(time.monotonic(), identity, body)
        return body, form.content_type

    def _fresh(self, form: Format, identity: Target | None) -> bytes | None:
        kept = self._kept.get(form)
        if kept is None or kept.identity is not identity or time.monotonic() - kept.at >= CACHE_SECONDS:
            return None
        return kept.body

    def collect(self, identity: Target | None = None) -> list[Metric]:
        """All families now, each name once, uncached. Raises ExpositionTimeout as ``render`` does."""
        with _Turn(self._one_at_a_time):
            return self._collect(identity)

    def _collect(self, identity: Target | None) -> list[Metric]:
        union = Union(self._say_clash)
        for source in self._sources:
            try:
                for family in self._step_by_step(source.families):
                    union.add(family, source.name)
            except Exception as error:
                faults.report("metrics.collect", f"{source.name} failed: {type(error).__name__}: {error}")
        return _with_target(union.families, identity)

    def _say_clash(self, family: Metric, source: str, first: Metric, first_source: str) -> None:
        if family.name not in self._said:
            self._said.add(family.name)
            faults.report(
                "metrics.clash",
                f"metric {family.name!r} of {source} is left out of the exposition: "
                f"{first_source} has {first.name!r}, and no name may stand there twice",
            )

    def _document(self, families: Iterable[Metric], form: Format) -> bytes:
        write = textformat.text_family if form.kind == "text" else textformat.openmetrics_family
        parts = []
        for family in families:
            try:
                parts.append(write(family, form.escaping or textformat.UNDERSCORES))
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"
                faults.report("metrics.render", f"family {family.name!r} can't be written: {reason}")
        if form.kind == "openmetrics":
            parts.append(textformat.EOF)
        return b"".join(parts)

    def _step_by_step(self, families: Callable[[], Iterable[Metric]]) -> Iterator[Metric]:
        """``families()``, each step under a lock that a fork waits for.

        A fork while this thread holds a metric's or a registry's lock would leave that lock held in the child for
        ever. The wait is for one step, a collector's, and not for the whole collection.
        """
        with self._reading:
            steps = iter(families())
        while True:
            with self._reading:
                family = next(steps, None)
            if family is None:
                return
            yield family

    def _read(self, registry: CollectorRegistry) -> Iterator[Metric]:
        """The families of a registry, collector by collector, so that one that raises costs only its own."""
        target = registry.get_target_info()
        if target:
            yield accounts.target_family(target)
        with registry._lock:
            collectors = list(registry._collector_to_names)
        for collector in collectors:
            try:
                families = list(collector.collect())
            except Exception as error:
                faults.report("metrics.collect", f"collector {collector!r} failed: {type(error).__name__}: {error}")
                continue
            yield from families

    def before_fork(self) -> None:
        """Let the collector that is being read come to its end, for a moment."""
        self._held_for_fork = self._reading.acquire(timeout=FORK_WAIT_SECONDS)

    def after_fork_in_parent(self) -> None:
        """Undo ``before_fork``."""
        if self._held_for_fork:
            self._held_for_fork = False
            self._reading.release()

    def after_fork_in_child(self) -> None:
        """Drop what was rendered for the parent, and its locks."""
        self._start_afresh()

    _held_for_fork = False


class _Turn:
    """``with`` on a lock that gives up after ``WAIT_SECONDS``."""

    def __init__(self, lock: Any) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        if not self._lock.acquire(timeout=WAIT_SECONDS):
            faults.report("metrics.render", "a collector does not return; scrapes fail until it does")
            raise ExpositionTimeout(f"another scrape has been at work for {WAIT_SECONDS:g} s")

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class _Kept(NamedTuple):
    at: float
    identity: Target | None
    body: bytes


class Union:
    """Families of several sources with each name once; the first to come has it.

    ``on_clash`` hears of a family left out: it, its source, and the family and source that have the name.
    """

    def __init__(self, on_clash: Callable[[Metric, str, Metric, str], None]) -> None:
        self.families: list[Metric] = []
        self._sources: list[str] = []
        self._owner: dict[str, int] = {}
        self._on_clash = on_clash

    def add(self, family: Metric, source: str) -> None:
        """Take ``family`` in, merge it with one of the same source, name and type, or leave it out."""
        if not family.samples:
            return  # a name nobody has used yet must not take it from somebody who does
        suffixes = ("", *_SUFFIXES.get(family.type, ()))
        names = [textformat.escaped_name(family.name + suffix, textformat.UNDERSCORES) for suffix in suffixes]
        index = next((self._owner[name] for name in names if name in self._owner), None)
        if index is None:
            self._owner.update(dict.fromkeys(names, len(self.families)))
            self.families.append(family)
            self._sources.append(source)
            return
        first = self.families[index]
        if self._sources[index] == source and (first.name, first.type) == (family.name, family.type):
            # OpenTelemetry makes one family for each description of a name; they are one to a scraper.
            merged = copy.copy(first)
            merged.samples = [*first.samples, *family.samples]
            self.families[index] = merged
        else:
            self._on_clash(family, source, first, self._sources[index])


def _without_created(families: Iterable[Metric]) -> Iterator[Metric]:
    """Our families without ``_created`` samples, which double the series and which the catalogue does not list."""
    for family in families:
        family.samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
        yield family


def _with_target(families: list[Metric], identity: Target | None) -> list[Metric]:
    """``target_info`` in front: ours, and what the user set beside it on the default registry."""
    if identity is None:
        return families
    attributes: dict[str, str] = {}
    for family in families:
        if family.name == "target":
            for sample in family.samples:
                attributes.update(sample.labels)
    attributes.update(identity.target_info())
    return [accounts.target_family(attributes), *(family for family in families if family.name != "target")]


_all: weakref.WeakSet[Exposition] = weakref.WeakSet()
DEFAULT = Exposition()
"""The exposition of this process."""

render = DEFAULT.render
collect = DEFAULT.collect


def _each(method: Callable[[Exposition], None]) -> Callable[[], None]:
    def call() -> None:
        for exposition in list(_all):
            method(exposition)

    return call


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_each(Exposition.before_fork),
        after_in_parent=_each(Exposition.after_fork_in_parent),
        after_in_child=_each(Exposition.after_fork_in_child),
    )
