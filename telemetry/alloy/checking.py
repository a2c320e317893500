"""One run over files: read, build, hold against the table, follow the data, suppress."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from telemetry.alloy.finding import Finding, Findings
from telemetry.alloy.flow import check_circles, check_reached, check_references, uses
from telemetry.alloy.frames import Frame, unfold
from telemetry.alloy.imports import Imports, Unreadable, parse_bytes, read
from telemetry.alloy.program import Builder, Scope
from telemetry.alloy.rules import RULES, Options, deployment, endpoints, labels, starting
from telemetry.alloy.structure import Checker
from telemetry.alloy.suppress import Allowance, allowances, apply
from telemetry.alloy.syntax import File


class Report(msgspec.Struct, frozen=True):
    """What a run found: the findings by place, how many files were read and how many findings were allowed."""

    findings: tuple[Finding, ...]
    files: tuple[str, ...]
    allowed: int

    @property
    def failed(self) -> bool:
        """Whether there is more than notices."""
        return any(finding.level != "notice" for finding in self.findings)


def check(paths: Iterable[str | os.PathLike[str]], options: Options | None = None) -> tuple[Finding, ...]:
    """Check Alloy configurations: files, and folders with every ``*.alloy`` below them (hidden ones left out).

    Each file is taken as a configuration of its own, with the modules that it imports; ``options`` tell how it
    is run. Findings come sorted by place, those that a ``fleetglass: allow`` comment allows left out. Raises
    ``Unreadable`` when a path can't be read or a folder holds no ``.alloy`` file.
    """
    return report(paths, options).findings


def report(paths: Iterable[str | os.PathLike[str]], options: Options | None = None) -> Report:
    """As ``check``, with what was read. Raises ``Unreadable``."""
    options = options or Options()
    return check_files(read_groups(paths, options), options)


def read_groups(
    paths: Iterable[str | os.PathLike[str]], options: Options, stdin: BinaryIO | None = None
) -> list[list[File]]:
    """Read and parse what ``paths`` name; ``-`` is ``stdin`` where one is given. Raises ``Unreadable``."""
    groups: list[list[File]] = []
    for group in _groups(paths, options):
        if group == ["-"] and stdin is not None:
            groups.append([parse_bytes(stdin.read(), "-")])
        else:
            groups.append([read(Path(name), name) for name in group])
    return groups


def check_files(groups: Sequence[Sequence[File]], options: Options) -> Report:
    """Check parsed files; each group is one configuration."""
    found = Findings()
    every: dict[str, File] = {}
    roots: list[list[Scope]] = []

    def keep(file: File) -> None:
        every[file.name] = file
        for fault in file.faults:
            found.error(fault.position, "syntax", fault.message)

    for group in groups:
        for file in group:
            keep(file)
    for group in groups:
        builder = Builder(found, Imports(found, keep, options.at).follow, options.stability)
        builder.root(tuple(group))
        roots.append(builder.scopes)
    frames = [unfold(scopes) for scopes in roots]
    balanced = any(deployment.balances(unfolded) for unfolded in frames)
    broken = {file.name for file in every.values() if file.faults}
    for scopes, unfolded in zip(roots, frames, strict=True):
        _configuration(scopes, unfolded, found, options, balanced=balanced)
    findings = tuple(
        finding for finding in found.sorted() if finding.file not in broken or finding.rule not in _NEED_THE_WHOLE
    )
    allowed: list[Allowance] = []
    problems = Findings()
    for file in every.values():
        allowed += allowances(file, RULES, problems)
    kept, suppressed = apply(findings, allowed)
    return Report(tuple(sorted({*kept, *problems.sorted()})), tuple(every), suppressed)


# Of a file that could not be read whole, what is left says nothing about these.
_NEED_THE_WHOLE = frozenset(
    {"unknown-reference", "unknown-component", "unreached", "missing-attribute", "missing-block", "missing-argument"}
)


def _configuration(
    scopes: list[Scope], frames: list[Frame], found: Findings, options: Options, *, balanced: bool
) -> None:
    Checker(found, options.stability).check(scopes)
    references = uses(scopes)
    check_references(scopes, found, options.stability)
    check_circles(references, found)
    check_reached(scopes, references, found)
    endpoints.check(frames, found, options)
    labels.check(frames, found)
    starting.check(frames, found)
    deployment.check(frames, found, options, balanced=balanced)


def _groups(paths: Iterable[str | os.PathLike[str]], options: Options) -> list[list[str]]:
    """The files that are one configuration each, or with ``as_one`` those of each folder together."""
    groups: list[list[str]] = []
    for given in paths:
        place = Path(given)
        if not place.is_dir():
            groups.append([os.fspath(given)])
            continue
        below = "*.alloy" if options.as_one else "**/*.alloy"
        found = (name for name in place.glob(below) if name.is_file())
        # A mounted ConfigMap holds its files a second time, in folders that begin with dots.
        shown = (name for name in found if not any(p.startswith(".") for p in name.relative_to(place).parts))
        names = sorted(os.path.normpath(name) for name in shown)
        if not names:
            raise Unreadable(f"the folder {given} holds no .alloy file")
        groups += [names] if options.as_one else [[name] for name in names]
    return groups
