"""What an observer knows at one moment, with how well it knows it: what console reads are made from."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from telemetry.fleet.catalogue import Catalogue
from telemetry.fleet.model import Windows
from telemetry.fleet.observer import PARTS, Observer
from telemetry.fleet.picture import Picture
from telemetry.fleet.profiles import Part, Profile
from telemetry.fleet.session import Reason

Condition = Literal["fresh", "stale", "failed", "unread", "elsewhere", "none"]
"""How a part stands: ``stale`` was read too long ago, ``unread`` never yet; ``elsewhere`` another exporter was elected
to read it; ``none``, this platform has no such thing."""

_TABLES: Final[Mapping[Part, tuple[str, ...]]] = {
    "queue": ("queue",),
    "workers": ("pings",),
    "detail": ("queue", "completed"),
    "catalogue": ("apps", "actions"),
}


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """How the last read of a part went.

    ``age`` is how many seconds ago that read began, ``read_at`` the server's Unix time of the last one that worked,
    ``reason`` why it failed. ``tables`` are where it was read from.
    """

    condition: Condition
    tables: tuple[str, ...] = ()
    age: float | None = None
    read_at: float | None = None
    reason: Reason | None = None


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A picture and its sources. ``registry`` names the table of groups, empty where there is none."""

    picture: Picture
    sources: Mapping[Part, Source]
    registry: str = ""
    windows: Windows = Windows()


def snapshot(observer: Observer) -> Snapshot:
    """What ``observer`` knows now. Reads no database."""
    leads, now = observer.leads, time.monotonic()
    # First how parts were read, then what they say: a read in between makes a source look older, never fresher.
    reads = observer.reads()
    picture = observer.picture()
    held = msgspec.structs.asdict(picture.parts)
    profile = observer.profile
    sources: dict[Part, Source] = {}
    for part in PARTS:
        read, tables = reads.get(part), _tables(part, profile, worked_out=observer.catalogue_worked_out)
        if part not in observer.parts or (read is not None and read.value == Catalogue(there=False)):
            sources[part] = Source(condition="none")
        elif not leads:
            sources[part] = Source(condition="elsewhere", tables=tables)
        elif read is None:
            sources[part] = Source(condition="unread", tables=tables)
        else:
            condition: Condition = "fresh" if held[part] is not None else "failed" if read.reason else "stale"
            age = max(0.0, now - read.began)
            sources[part] = Source(condition=condition, tables=tables, age=age, read_at=read.at, reason=read.reason)
    return Snapshot(
        picture=picture,
        sources=sources,
        registry=profile.registry.table if profile.registry is not None else "",
        windows=observer.windows,
    )


def _tables(part: Part, profile: Profile, *, worked_out: bool) -> tuple[str, ...]:
    found = (getattr(profile, name) for name in _TABLES[part])
    tables = tuple(each.table for each in found if each is not None)
    # A query or a callable of the platform may read anything.
    return ("catalogue",) if part == "catalogue" and not worked_out else tables
