"""Rules across files: uids that are given twice, links that lead nowhere, guards that are missing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import urlsplit

import msgspec

from telemetry.grafana.foreign import exporter_of
from telemetry.grafana.lint import promql
from telemetry.grafana.lint.boards import Board
from telemetry.grafana.lint.datasource_rules import sources
from telemetry.grafana.lint.documents import Place
from telemetry.grafana.lint.findings import Finding, names
from telemetry.grafana.lint.names import Catalogue
from telemetry.grafana.lint.things import Group, Rule, Things

_BOARD_LINK: Final = re.compile(r"/d(?:-solo)?/(?P<uid>[A-Za-z0-9_-]+)")
_HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$", re.MULTILINE)
_ANCHOR = re.compile(r"<a\s+(?:id|name)=[\"']([^\"']+)[\"']")


class Pages(msgspec.Struct, frozen=True):
    """The documentation that links may lead to: anchors of each page, by the page's path within it."""

    anchors: Mapping[str, frozenset[str]]

    def problem(self, link: str) -> str:
        """What is wrong with ``link``, a path or URL that ends in a page of the documentation; empty when nothing is.

        A page is known by the end of its path, with or without ``.md`` or ``.html``; a link to anything else passes.
        """
        parts = urlsplit(link)
        path = re.sub(r"(\.md|\.html|/)$", "", parts.path)
        pages = {page: anchors for page, anchors in self.anchors.items() if _ends(path, page.removesuffix(".md"))}
        if not pages:
            folder = path.rpartition("/")[0].rpartition("/")[2]
            if folder and any(f"{folder}/" in page for page in self.anchors):
                return f"There is no page {path.rpartition('/')[2]} in {folder}/."
            return ""
        if parts.fragment and not any(parts.fragment in anchors for anchors in pages.values()):
            return f"{names(pages)} has no heading #{parts.fragment}."
        return ""


def _ends(path: str, page: str) -> bool:
    return path == page or path.endswith(f"/{page}")


def anchors_of(text: str) -> frozenset[str]:
    """Anchors of a Markdown page, as GitHub makes them from headings, and those written as HTML."""
    text = re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.MULTILINE | re.DOTALL)
    found: dict[str, int] = {}
    anchors: set[str] = set(_ANCHOR.findall(text))
    for heading in _HEADING.findall(text):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        times = found.get(slug, 0)
        anchors.add(f"{slug}-{times}" if times else slug)
        found[slug] = times + 1
    return frozenset(anchors)


def lint(
    things: Things, known: Catalogue, pages: Pages | None, uids: frozenset[str], datasources: frozenset[str]
) -> Iterator[Finding]:
    """Findings that need several things at once.

    ``uids`` are those of dashboards that exist elsewhere, ``datasources`` those of datasources that do.
    """
    yield from _twice(things.boards)
    boards = {board.uid for board in things.boards} | uids
    tags = {tag for board in things.boards for tag in board.tags}
    for board in things.boards:
        places = [*board.links, *(link for panel in board.panels for link in panel.links)]
        for place in places:
            yield from _link(place, boards, tags, pages, alone=len(things.boards) < 2)
    for group in things.groups:
        for rule in group.rules:
            if rule.alert:
                yield from _alert_links(rule, boards if things.boards else set(), pages)
    yield from _guards(things.groups, known)
    yield from _managed_sources(things, datasources)


def _twice(boards: list[Board]) -> Iterator[Finding]:
    first: dict[str, Board] = {}
    for board in boards:
        if not board.uid:
            continue
        other = first.setdefault(board.uid, board)
        if other is not board:
            at = f"{other.place.document.file}:{other.place.document.line(other.place.path)}"
            yield board.place.found("board-uid", f"The uid {board.uid!r} is also that of {other.title!r} in {at}.")


def _link(place: Place, uids: set[str], tags: set[str], pages: Pages | None, *, alone: bool) -> Iterator[Finding]:
    data = place.value
    url = data.get("url")
    if data.get("type") == "dashboards":
        listed = data.get("tags")
        wanted = {tag for tag in listed if isinstance(tag, str)} if isinstance(listed, list) else set()
        if not wanted and not data.get("asDropdown"):
            yield place.found(
                "dead-link", "A link to dashboards by tag names a tag; without one it lists them all.", "notice"
            )
        missing = wanted - tags
        if missing:
            yield place.found("dead-link", f"No dashboard at hand has the tag {names(missing)}.")
        return
    if not isinstance(url, str) or not url:
        return
    match = _BOARD_LINK.search(urlsplit(url).path)
    if match and not alone and match["uid"] not in uids:
        yield place.found("dead-link", f"No dashboard at hand has the uid {match['uid']!r}.")
    yield from _page(place, url, pages)


def _page(place: Place, url: str, pages: Pages | None) -> Iterator[Finding]:
    problem = pages.problem(url) if pages is not None else ""
    if problem:
        yield place.found("dead-link", f"{problem} The link reads {url}")


def _alert_links(rule: Rule, uids: set[str], pages: Pages | None) -> Iterator[Finding]:
    place = rule.place / "annotations"
    uid = rule.annotations.get("dashboard_uid") or rule.annotations.get("__dashboardUid__")
    if isinstance(uid, str) and uids and uid not in uids and "{{" not in uid:
        yield (place / "dashboard_uid").found("dead-link", f"No dashboard at hand has the uid {uid!r}.")
    runbook = rule.annotations.get("runbook_url")
    if isinstance(runbook, str):
        yield from _page(place / "runbook_url", runbook, pages)


def _managed_sources(things: Things, elsewhere: frozenset[str]) -> Iterator[Finding]:
    """Grafana-managed rules on a datasource that isn't provided, where lint was given those that are."""
    provided = {source.uid for place in things.provisioning for source in sources(place)}
    if not provided:
        return
    for group in things.groups:
        for rule in group.rules:
            for expression in rule.expressions:
                uid = expression.source
                if uid and uid not in provided | elsewhere and not uid.startswith("$"):
                    message = f"The rule asks the datasource {uid!r}, which is not provided."
                    yield expression.place.found("ds-reference", message)


def _guards(groups: list[Group], known: Catalogue) -> Iterator[Finding]:
    """For each exporter that alerts rely on, one that fires when it is missing."""
    alerts = [(rule, read) for rule, read in _alerts(groups)]
    guarded: set[str] = set()
    for _, read in alerts:
        if promql.is_absent_guard(read) or _asks_up(read):
            guarded |= set(_families(read, known))
            guarded |= {"*"} if _asks_up(read) else set()
    told: set[str] = set()
    for rule, read in alerts:
        if promql.is_absent_guard(read):
            continue
        for family in _families(read, known):
            if family not in guarded and family not in told and "*" not in guarded:
                told.add(family)
                yield rule.place.found(
                    "alert-absent-guard",
                    f"Nothing fires when {family} is missing: add an alert on absent(…) of a metric of it, or on up.",
                )


def _alerts(groups: list[Group]) -> Iterator[tuple[Rule, promql.Promql]]:
    for group in groups:
        for rule in group.rules:
            for expression in rule.expressions if rule.alert else ():
                if expression.language == "promql":
                    yield rule, promql.read(expression.text)


def _families(read: promql.Promql, known: Catalogue) -> Iterator[str]:
    """Who makes the metrics of an expression: an exporter, or services with this library."""
    for selector in read.selectors():
        exporter = exporter_of(selector.metric)
        if exporter is not None:
            yield exporter.name
        elif known.is_ours(selector.metric):
            yield "fleetglass"


def _asks_up(read: promql.Promql) -> bool:
    return any(selector.metric == "up" for selector in read.selectors())
