"""``// fleetglass: allow RULE reason``: a finding that is meant, with the reason beside it.

The comment stands on the line of the finding or on the line above; above a block it covers the whole block.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec

from telemetry.alloy.finding import Finding, Findings, closest
from telemetry.alloy.syntax import Block, File, Position, Statement

_ALLOW = re.compile(r"fleetglass:\s*allow\b\s*(\S*)\s*(.*)", re.DOTALL)
UNDENIABLE = frozenset({"syntax", "allow"})


class Allowance(msgspec.Struct, frozen=True):
    """One comment: the rule it allows and the lines, first and last, that it covers."""

    position: Position
    rule: str
    first: int
    last: int


def allowances(file: File, rules: Iterable[str], found: Findings) -> Iterator[Allowance]:
    """The allowances of a file; comments that mean to be one and are not are findings."""
    known = set(rules) - UNDENIABLE
    blocks = {block.position.line: block for block in _blocks(file.body)}
    for comment in file.comments:
        match = _ALLOW.match(comment.text)
        if match is None:
            continue
        rule, reason = match.groups()
        if rule not in known:
            what = f"there is no rule {rule}{closest(rule, known)}" if rule else "it names no rule"
            found.error(comment.position, "allow", f"this allows nothing: {what}")
            continue
        if not reason.strip():
            found.error(comment.position, "allow", f"allow {rule} needs a reason behind it, for who reads it next")
            continue
        line = comment.position.line
        block = blocks.get(line) or blocks.get(line + 1)
        yield Allowance(comment.position, rule, line, max(line + 1, block.end.line if block else 0))


def _blocks(body: Iterable[Statement]) -> Iterator[Block]:
    for statement in body:
        if isinstance(statement, Block):
            yield statement
            yield from _blocks(statement.body)


def apply(findings: Iterable[Finding], allowed: Iterable[Allowance]) -> tuple[tuple[Finding, ...], int]:
    """The findings that are left, with a notice for each allowance that allows nothing, and how many were allowed."""
    by_file: dict[str, list[Allowance]] = {}
    for allowance in allowed:
        by_file.setdefault(allowance.position.file, []).append(allowance)
    used: set[Allowance] = set()
    kept: list[Finding] = []
    suppressed = 0
    for finding in findings:
        covering = [
            allowance
            for allowance in by_file.get(finding.file, ())
            if allowance.rule == finding.rule and allowance.first <= finding.line <= allowance.last
        ]
        if covering:
            used.update(covering)
            suppressed += 1
        else:
            kept.append(finding)
    for allowance in (allowance for group in by_file.values() for allowance in group):
        if allowance not in used:
            at = allowance.position
            message = f"nothing here breaks {allowance.rule} (any more); remove this comment"
            kept.append(Finding(at.file, at.line, at.column, "notice", "allow", message))
    return tuple(sorted(kept)), suppressed
