"""Stacks in terms of the sources: a second line with the same ``fp``, made beside the requests.

``ts=… level=info logger=frontend frontend-source fp="…" build="…" release="…" cut="…" stack="…"``

The first line never waits for it and is never changed by it; it has a word of its own, so that counts of
``frontend-error`` stay right, and nothing of the user's, since it stands for all who meet the error. Maps are
files that the operator put into a directory. The directory is listed, and a report's file name is looked up
in that list: no path is ever built from what a browser sent, and nothing is fetched.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from ingest.errors.fingerprint import OTHER
from ingest.errors.line import BUDGETS, LOGGER, unescaped
from ingest.errors.mappings import MAX_SEGMENTS, BadMap, Origin, SourceMap
from ingest.errors.report import Report
from ingest.errors.stacks import Frame, frames
from ingest.errors.urls import bare_stack, bare_url
from telemetry import faults
from telemetry.logs import ReadyLine
from telemetry.logs.line import timestamp
from telemetry.logs.logfmt import cut_escaped
from telemetry.metrics.registry import counter

EVENT: Final = "frontend-source"
MAX_MAP_BYTES: Final = 32 << 20
RESULTS: Final = ("resolved", "unmapped", "dropped", "failed")
"""What becomes of a stack: label values of ``frontend_sourcemaps_total``."""

_log = logging.getLogger("ingest")

_MAX_FILES = 10_000
_MAX_FRAMES = 25
_WAITING = 64  # reports that wait for the worker; one more is dropped, and counted
_ONCE_PER = 600.0  # seconds in which an error of a release is resolved once
_REMEMBERED = 4096
_LIST_AGAIN = 30.0  # seconds after which new files are seen
_MINIFIED = 3
_BREATH = 0.001  # seconds that the worker leaves to the requests after a thousand segments


class MapFile(msgspec.Struct, frozen=True):
    """A map in the directory: the folders that it lies in, outermost first, and its path."""

    folders: tuple[str, ...]
    path: Path


class MapFolder:
    """A directory of ``*.map`` files, in any order of folders: by release, as they are served, or flat."""

    def __init__(self, root: str) -> None:
        self._root = Path(root).resolve()
        self._listed_at = -_LIST_AGAIN
        self._files: dict[str, list[MapFile]] = {}

    def find(self, address: str, release: str) -> Path | None:
        """The path of the map of the script at ``address``; None when there is none, or two that fit as well.

        Of equal names the one in a folder called like the release counts, then the one whose folders are the
        address's last.
        """
        self._list()
        path = bare_url(address)
        scheme = path.find("://")
        *folders, name = (path[scheme + 3 :].partition("/")[2] if scheme >= 0 else path).split("/")
        best: list[Path] = []
        best_score = (False, -1)
        for file in self._files.get(name, ()):
            score = (bool(release) and release in file.folders, _common_end(folders, file.folders))
            if score > best_score:
                best_score, best = score, [file.path]
            elif score == best_score:
                best.append(file.path)
        return best[0] if len(best) == 1 else None

    def _list(self) -> None:
        now = time.monotonic()
        if now - self._listed_at < _LIST_AGAIN:
            return
        self._listed_at = now
        found: dict[str, list[MapFile]] = {}
        count = 0
        for folder, folders, names in os.walk(self._root):
            # A mounted ConfigMap keeps its versions in folders that start with dots and links to them.
            folders[:] = [name for name in folders if not name.startswith(".")]
            for name in names:
                path = Path(folder, name)
                if name.endswith(".map") and path.resolve().is_relative_to(self._root):
                    inside = path.relative_to(self._root).parts[:-1]
                    found.setdefault(name.removesuffix(".map"), []).append(MapFile(inside, path))
                    count += 1
                    if count == _MAX_FILES:
                        self._files = found
                        return
        self._files = found


def _common_end(one: list[str], other: tuple[str, ...]) -> int:
    count = 0
    for left, right in zip(reversed(one), reversed(other), strict=False):
        if left != right:
            break
        count += 1
    return count


class SourceMaps:
    """A bounded worker beside the requests. ``emit`` gets each line, in the worker's thread.

    ``clock`` returns seconds since the epoch. Call ``close`` when no more will be offered.
    """

    def __init__(self, root: str, emit: Callable[[ReadyLine], object], clock: Callable[[], float] = time.time) -> None:
        self._folder = MapFolder(root)
        self._emit = emit
        self._clock = clock
        self._waiting: queue.Queue[tuple[Report, str] | None] = queue.Queue(_WAITING)
        self._met: OrderedDict[tuple[str, str, str], float] = OrderedDict()
        self._maps: OrderedDict[Path, tuple[tuple[int, int], SourceMap | None]] = OrderedDict()
        self._thread: threading.Thread | None = None
        self._counts = counter("frontend_sourcemaps_total").start(RESULTS)

    def offer(self, report: Report, fp: str) -> None:
        """Have ``report`` resolved, some time, unless its like was lately. Returns at once, whatever happens."""
        if fp == OTHER or not report.stack:
            return
        key = (fp, report.release, report.build)
        now = time.monotonic()
        if self._met.get(key, -_ONCE_PER) > now - _ONCE_PER:
            return
        try:
            self._waiting.put_nowait((report, fp))
        except queue.Full:
            self._counts.child("dropped").inc()
            return
        self._met[key] = now
        self._met.move_to_end(key)
        if len(self._met) > _REMEMBERED:
            self._met.popitem(last=False)
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="fleetglass-sourcemaps", daemon=True)
            self._thread.start()

    def close(self, timeout: float = 1.0) -> None:
        """Finish what waits, within ``timeout`` seconds; the rest is dropped."""
        if self._thread is None:
            return
        try:
            self._waiting.put(None, timeout=timeout)
        except queue.Full:
            return
        self._thread.join(timeout)

    def _work(self) -> None:
        while (waiting := self._waiting.get()) is not None:
            try:
                stack = self.resolve(waiting[0])
                self._counts.child("unmapped" if stack is None else "resolved").inc()
                if stack is not None:
                    self._emit(source_line(waiting[0], stack, self._clock(), waiting[1]))
            except Exception as error:
                self._counts.child("failed").inc()
                faults.report("ingest.sourcemaps", error)

    def resolve(self, report: Report) -> str | None:
        """The stack in terms of the sources; None when no map knows any of its frames."""
        called: list[tuple[Frame, Origin | None]] = []
        for frame in frames(report.stack):
            if len(called) == _MAX_FRAMES:
                break
            called.append((frame, None if frame.native or frame.evaluated else self._origin(frame, report.release)))
        if not any(origin for _, origin in called):
            return None
        lines = []
        for number, (frame, origin) in enumerate(called):
            name = frame.name
            if len(name) <= _MINIFIED and number + 1 < len(called):
                caller, called_at = called[number + 1]
                # What stands at the place of a call is the name of what was called.
                if called_at is not None and called_at.name and not caller.resumed:
                    name = called_at.name
            if origin is not None:
                place = f"{origin.source}:{origin.line}:{origin.column}"
            else:
                place = f"{bare_url(frame.file)}:{frame.line}:{frame.column}" if frame.file else "<unknown>"
            lines.append(f"    at {'async ' if frame.resumed else ''}{name} ({place})" if name else f"    at {place}")
        return "\n".join(lines)

    def _origin(self, frame: Frame, release: str) -> Origin | None:
        path = self._folder.find(frame.file, release)
        source_map = None if path is None else self._map(path)
        return None if source_map is None else source_map.find(frame.line, frame.column)

    def _map(self, path: Path) -> SourceMap | None:
        """The map in a file, kept until the file changes or others need the room; None for one that is none."""
        try:
            status = path.stat()
        except OSError:
            return None
        version = (status.st_mtime_ns, status.st_size)
        known = self._maps.get(path)
        if known is not None and known[0] == version:
            self._maps.move_to_end(path)
            return known[1]
        made = None
        try:
            made = SourceMap.read(_content(path), lambda: time.sleep(_BREATH))
        except (BadMap, OSError) as error:
            _log.warning("source map %s is not used: %s", path, error)
        self._maps[path] = (version, made)
        self._maps.move_to_end(path)
        while len(self._maps) > 1 and (self._segments() > MAX_SEGMENTS or len(self._maps) > _MAX_FILES):
            self._maps.popitem(last=False)
        return made

    def _segments(self) -> int:
        return sum(len(source_map) for _, source_map in self._maps.values() if source_map is not None)


def _content(path: Path) -> bytes:
    if not path.is_file():
        raise BadMap("not a file")
    with path.open("rb") as file:  # a file can grow behind its size
        data = file.read(MAX_MAP_BYTES + 1)
    if len(data) > MAX_MAP_BYTES:
        raise BadMap(f"more than {MAX_MAP_BYTES:,} bytes")
    return data


def source_line(report: Report, stack: str, now: float, fp: str) -> ReadyLine:
    """The second line: ``stack`` of the error ``fp``, resolved at ``now`` (seconds since the epoch)."""
    ts = timestamp(int(now * 1e9))
    fields: dict[str, str | int] = {"ts": ts, "level": "info", "logger": LOGGER, "msg": EVENT, "fp": fp}
    line = f'ts={ts} level=info logger={LOGGER} {EVENT} fp="{fp}"'
    cuts = []
    for name, value in (("build", report.build), ("release", report.release), ("stack", bare_stack(stack))):
        escaped, size = cut_escaped(value, BUDGETS[name])
        if size:
            cuts.append(f"{name}:{size}")
        if name == "stack" and cuts:
            fields["cut"] = ",".join(cuts)
            line += f' cut="{fields["cut"]}"'
        if escaped:
            fields[name] = unescaped(escaped)
            line += f' {name}="{escaped}"'
    return ReadyLine(line=line, fields=fields)
