"""What is allowed all the same: a ``.lint`` file beside the files, or a comment on the line.

The file has the form of dashboard-linter's: ``exclusions`` and ``warnings`` by rule, each with a ``reason`` and perhaps
``entries``. A comment reads ``fleetglass: allow RULE: reason``, on the line of the finding or the one above.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any, Final

import msgspec

from telemetry.grafana.lint.documents import Document, Place
from telemetry.grafana.lint.findings import Finding
from telemetry.grafana.lint.rulebook import RULES

FILE: Final = ".lint"
_COMMENT = re.compile(r"fleetglass: allow (?P<rules>[\w-]+(?:,\s*[\w-]+)*)(?P<reason>[^\n\"]*)")
_ENTRY_KEYS: Final = frozenset({"dashboard", "panel", "targetIdx", "alert", "datasource", "file"})


class Exclusion(msgspec.Struct, frozen=True):
    """A rule that is left out, or only noted, below one folder; entries are mappings, none of them stand for all."""

    rule: str
    reason: str
    drop: bool
    entries: tuple[Mapping[str, Any], ...]
    place: Place

    def fits(self, finding: Finding, titles: Mapping[str, str]) -> bool:
        """Whether it is about ``finding``; ``titles`` are those of dashboards by uid."""
        if finding.rule != self.rule:
            return False
        return not self.entries or any(_fits(entry, finding, titles) for entry in self.entries)


def _fits(entry: Mapping[str, Any], finding: Finding, titles: Mapping[str, str]) -> bool:
    """Whether all that an entry says is true of ``finding``; ``targetIdx`` is read as the whole panel."""
    parts = finding.where.split(", ")
    for key, value in entry.items():
        if key == "dashboard" and all(value not in (part, titles.get(part)) for part in parts):
            return False
        if key == "panel" and not _is_panel(str(value), finding.where):
            return False
        if key == "alert" and value != finding.where:
            return False
        if key == "datasource" and finding.where != f"datasource {value!r}":
            return False
        if key == "file" and not PurePath(finding.file).match(str(value)):
            return False
    return True


def _is_panel(name: str, where: str) -> bool:
    """Whether ``name`` is the id or the title of the panel that a finding names."""
    return re.search(rf", panel ({re.escape(name)} |(\d+ )?{re.escape(repr(name))}$)", where) is not None


def read(document: Document) -> tuple[list[Exclusion], list[Finding]]:
    """The exclusions in a ``.lint`` file, and what is wrong with it."""
    found: list[Exclusion] = []
    wrong: list[Finding] = []
    for section in ("exclusions", "warnings"):
        data = document.at((section,))
        for rule, content in data.items() if isinstance(data, dict) else ():
            place = Place(document, (section, rule))
            content = content if isinstance(content, dict) else {}
            reason = content.get("reason")
            entries = content.get("entries")
            listed = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
            if rule not in RULES:
                wrong.append(place.found("unused-exception", f"No rule is called {rule!r}."))
                continue
            if not isinstance(reason, str) or not reason.strip():
                wrong.append(place.found("unused-exception", f"Say why {rule} doesn't hold here (`reason`)."))
            unknown = {str(key) for entry in listed for key in entry} - _ENTRY_KEYS
            if unknown:
                message = f"An entry knows {', '.join(sorted(_ENTRY_KEYS))}, not {', '.join(sorted(unknown))}."
                wrong.append(place.found("unused-exception", message))
            found.append(Exclusion(rule, str(reason or ""), section == "exclusions", tuple(listed), place))
    return found, wrong


def comments(file: str, text: str) -> tuple[dict[int, frozenset[str]], list[Finding]]:
    """Rules allowed by comments, by the number of the line that they stand on, and what is wrong with them."""
    found: dict[int, frozenset[str]] = {}
    wrong: list[Finding] = []
    if "fleetglass: allow" not in text:
        return found, wrong
    document = Document(file=file, data=None, lines={})
    for number, line in enumerate(text.splitlines(), 1):
        match = _COMMENT.search(line)
        if match is None:
            continue
        rules = frozenset(re.split(r",\s*", match["rules"]))
        at = Place(Document(file=file, data=None, lines={(): number}, inside=document.inside))
        wrong += [at.found("unused-exception", f"No rule is called {rule!r}.") for rule in sorted(rules - RULES.keys())]
        if not match["reason"].strip(" :.-–\\n"):
            wrong.append(at.found("unused-exception", "Say why, after the name of the rule and a colon."))
        found[number] = rules
    return found, wrong


def apply(
    findings: list[Finding],
    exclusions: Mapping[str, list[Exclusion]],
    allowed: Mapping[str, Mapping[int, frozenset[str]]],
    titles: Mapping[str, str],
) -> Iterator[Finding]:
    """``findings`` without what is excluded or allowed; what is to be noted only, as notices.

    ``exclusions`` are by folder, ``allowed`` by file and line.
    """
    for finding in findings:
        lines = allowed.get(finding.file, {})
        if finding.rule in lines.get(finding.line, frozenset()) | lines.get(finding.line - 1, frozenset()):
            continue
        fitting = [
            exclusion
            for exclusion in exclusions.get(str(PurePath(finding.file).parent), [])
            if exclusion.fits(finding, titles)
        ]
        if any(exclusion.drop for exclusion in fitting):
            continue
        yield msgspec.structs.replace(finding, level="notice") if fitting else finding
