"""``fleetglass alloy check PATH…``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import msgspec

from telemetry.alloy import upstream
from telemetry.alloy.checking import Report, check_files, read_groups
from telemetry.alloy.finding import Finding
from telemetry.alloy.imports import Unreadable
from telemetry.alloy.rules import RULES, Options
from telemetry.alloy.schema import LEVELS


def command(arguments: list[str]) -> int:
    """Run it; the exit status is 0 (clean, notices allowed), 1 (findings) or 2 (called wrongly, or unreadable)."""
    parser = _parser()
    verb = arguments[0] if arguments and not arguments[0].startswith("-") else ""
    options = parser.parse_args(arguments[1:] if verb else arguments)
    if options.rules:
        width = max(map(len, RULES))
        _say("\n".join(f"{name:<{width}}  {about}" for name, about in RULES.items()))
        return 0
    if verb != "check" or not options.paths:
        parser.print_usage(sys.stderr)
        wrong = "name a file or a folder to check" if verb == "check" else "the one verb is check"
        sys.stderr.write(f"fleetglass alloy: {wrong}\n")
        return 2
    try:
        meant = _options(options)
        groups = read_groups(options.paths, meant, stdin=sys.stdin.buffer)
    except Unreadable as problem:
        sys.stderr.write(f"fleetglass alloy: {problem}\n")
        return 2
    found = check_files(groups, meant)
    folders = [path for path in options.paths if meant.as_one and path != "-"]
    said, found = _upstream(found, meant, folders, ask=not options.no_upstream)
    _say(_json(found, said) if options.json else _text(found, said))
    return 1 if found.failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fleetglass alloy check",
        usage="fleetglass alloy check [OPTIONS] PATH…",
        description="Check Grafana Alloy configurations without Alloy: syntax, names, kinds, the modules that they "
        "import, and what only shows in production. Where an alloy is on PATH, it is asked as well.",
        epilog="A finding that is meant is allowed in place: // fleetglass: allow RULE reason",
    )
    levels = list(LEVELS.values())
    parser.add_argument("paths", nargs="*", metavar="PATH", help="a file, a folder with .alloy files below it, or -")
    parser.add_argument("--stability", choices=levels, default=levels[0], help="what Alloy is started with")
    parser.add_argument("--replicas", type=int, default=0, metavar="N", help="how many of this Alloy run")
    parser.add_argument("--local", action="store_true", help="nothing outside of this machine has to reach it")
    parser.add_argument("--as-one", action="store_true", help="the files of a folder are one configuration")
    parser.add_argument(
        "--at",
        action="append",
        default=[],
        metavar="THERE=HERE",
        help="a folder as Alloy will see it, and where it lies here, for imports",
    )
    parser.add_argument("--no-upstream", action="store_true", help="don't ask an alloy on PATH")
    parser.add_argument("--json", action="store_true", help="one JSON object, for programs")
    parser.add_argument("--rules", action="store_true", help="list the rules and end")
    return parser


def _options(given: argparse.Namespace) -> Options:
    pairs = []
    for pair in given.at:
        there, equals, here = pair.partition("=")
        if not (there and equals and here):
            raise Unreadable(f"--at takes THERE=HERE, as /etc/alloy-modules=alloy/modules; got {pair}")
        pairs.append((there, here))
    level = next(name for name, called in LEVELS.items() if called == given.stability)
    return Options(level, max(given.replicas, 0), given.local, given.as_one, tuple(pairs))


def _upstream(found: Report, options: Options, folders: list[str], *, ask: bool) -> tuple[str, Report]:
    """What is said about Alloy itself, and the report with its findings."""
    if not ask:
        return "alloy was not asked", found
    alloy = upstream.executable()
    if alloy is None:
        return "no alloy on PATH to ask", found
    files = [name for name in found.files if name != "-"]
    more: Sequence[Finding] = list(upstream.findings(alloy, files, folders or files, options.stability))
    return "alloy was asked, too", msgspec.structs.replace(found, findings=tuple(sorted({*found.findings, *more})))


def _text(found: Report, said: str) -> str:
    counts = {level: sum(f.level == level for f in found.findings) for level in ("error", "warning", "notice")}
    parts = [f"{count} {level}{'' if count == 1 else 's'}" for level, count in counts.items() if count]
    files = len(found.files)
    summary = f"{files} file{'' if files == 1 else 's'}: {', '.join(parts) or 'clean'}"
    if found.allowed:
        summary += f", {found.allowed} allowed"
    return "\n".join([*map(str, found.findings), f"{summary} ({said})"])


def _json(found: Report, said: str) -> str:
    document = {"findings": found.findings, "files": found.files, "allowed": found.allowed, "alloy": said}
    return msgspec.json.format(msgspec.json.encode(document)).decode()


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
