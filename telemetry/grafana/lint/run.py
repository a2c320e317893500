"""All rules over all files: the entrance to lint for programs. Nothing is read here; texts come in, findings go out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath

import msgspec

from telemetry.grafana.lint import (
    across,
    alert_rules,
    board_rules,
    board_shape,
    datasource_rules,
    exceptions,
    kubernetes,
    programs,
    renderer,
    stores,
)
from telemetry.grafana.lint.documents import Document, Path, Unreadable, read
from telemetry.grafana.lint.expressions import World
from telemetry.grafana.lint.findings import Finding
from telemetry.grafana.lint.names import Catalogue, MetricsPath, catalogue
from telemetry.grafana.lint.things import Things, sort


class File(msgspec.Struct, frozen=True):
    """A file's name as findings show it, and its text; ``named`` when somebody asked for this very file."""

    name: str
    text: str
    named: bool = False


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What files are held against.

    ``metrics_path`` is how metrics reach the store, ``pages`` the documentation that links lead to, ``locked`` the
    lockfile of datasources, ``boards`` and ``datasources`` uids that exist beside the files.
    """

    known: Catalogue = msgspec.field(default_factory=catalogue)
    metrics_path: MetricsPath = "scrape"
    pages: across.Pages | None = None
    locked: Mapping[str, str] = {}
    boards: frozenset[str] = frozenset()
    datasources: frozenset[str] = frozenset()


class Report(msgspec.Struct, frozen=True):
    """Findings in order of file and line, what was looked at, and what was excused."""

    findings: tuple[Finding, ...]
    boards: int
    datasources: int
    rules: int
    files: int
    excused: int
    lock: Mapping[str, str]


def lint(files: Sequence[File], options: Options | None = None) -> Report:
    """All findings on ``files``; those named ``.lint`` are exceptions for their folder."""
    options = options or Options()
    things = Things()
    findings: list[Finding] = []
    excluded: dict[str, list[exceptions.Exclusion]] = {}
    allowed: dict[str, Mapping[int, frozenset[str]]] = {}
    for file in files:
        if PurePath(file.name).name == exceptions.FILE:
            findings += _exclusions(file, excluded)
            continue
        found, wrong = exceptions.comments(file.name, file.text)
        allowed[file.name] = found
        findings += wrong
        findings += _read(file, things)
    findings += things.findings
    findings += _rules(things, options)
    titles = {board.uid: board.title for board in things.boards if board.uid}
    kept = sorted(set(exceptions.apply(findings, excluded, allowed, titles)))
    return Report(
        findings=tuple(kept),
        boards=len(things.boards),
        datasources=sum(1 for place in things.provisioning for _ in datasource_rules.sources(place)),
        rules=sum(len(group.rules) for group in things.groups),
        files=len(files),
        excused=len(set(findings)) - len(kept),
        lock=datasource_rules.lock(things.provisioning),
    )


def _exclusions(file: File, into: dict[str, list[exceptions.Exclusion]]) -> Iterator[Finding]:
    try:
        documents = read(file.name, file.text)
    except Unreadable as error:
        yield Finding(file.name, error.line, "unreadable", "error", "", error.message)
        return
    for document in documents:
        found, wrong = exceptions.read(document)
        into.setdefault(str(PurePath(file.name).parent), []).extend(found)
        yield from wrong


def _read(file: File, things: Things) -> Iterator[Finding]:
    """Sort what a file holds; findings about the file itself."""
    try:
        documents = [_ini(file)] if file.name.endswith(".ini") else read(file.name, file.text)
    except Unreadable as error:
        template = "helm template" in error.message
        yield Finding(file.name, error.line, "unreadable", "notice" if template else "error", "", error.message)
        return
    before = things.count()
    for document in documents:
        sort(document, things)
    if file.named and things.count() == before and not any(_is_configuration(document) for document in documents):
        message = "Lint knows nothing in this file: no dashboard, datasource, rule, or configuration of the stack."
        if file.name.endswith(".alloy"):
            message = "This is for `fleetglass alloy check`."
        yield Finding(file.name, 1, "nothing-known", "notice", "", message)


def _is_configuration(document: Document) -> bool:
    """Whether the rules on configurations have anything to look at: any mapping but a bare list of values."""
    return isinstance(document.data, dict) and bool(
        {"services", "spec", "receivers", "storage", "schema_config", "limits_config", "grafana.ini", "exporters"}
        & document.data.keys()
        or any(isinstance(value, dict) for value in document.data.values())
    )


def _ini(file: File) -> Document:
    """``grafana.ini`` as Helm values have it: sections below the key ``grafana.ini``."""
    sections: dict[str, dict[str, str]] = {}
    lines: dict[Path, int] = {(): 1}
    section = ""
    for number, line in enumerate(file.text.splitlines(), 1):
        text = line.strip()
        head = re.fullmatch(r"\[([^\]]+)\]", text)
        if head:
            section = head[1]
        elif "=" in text and not text.startswith((";", "#")):
            key, _, value = text.partition("=")
            sections.setdefault(section, {})[key.strip()] = value.strip().strip('"')
            lines["grafana.ini", section, key.strip()] = number
    return Document(file=file.name, data={"grafana.ini": sections}, lines=lines)


def _rules(things: Things, options: Options) -> Iterator[Finding]:
    recorded = alert_rules.recorded(things.groups)
    world = World(options.known, options.metrics_path, recorded, bool(things.groups))
    for board in things.boards:
        yield from board_rules.lint(board, world)
        yield from board_shape.lint(board)
    yield from alert_rules.lint(things.groups, world)
    yield from datasource_rules.lint(things.provisioning, options.locked, options.datasources)
    yield from kubernetes.lint(things)
    yield from across.lint(things, options.known, options.pages, options.boards, options.datasources)
    boards = {id(board.place.document) for board in things.boards}
    others = [document for document in things.documents if id(document) not in boards]
    for document in others:
        yield from programs.lint(document)
        yield from stores.lint(document)
    for documents in _by_file(others).values():
        yield from renderer.lint(documents)


def _by_file(documents: Iterable[Document]) -> dict[str, list[Document]]:
    found: dict[str, list[Document]] = {}
    for document in documents:
        found.setdefault(document.file, []).append(document)
    return found
