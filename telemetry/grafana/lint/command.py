"""``fleetglass grafana lint``: files from the disk, findings to stdout, an exit status for CI."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from telemetry.grafana.lint import exceptions
from telemetry.grafana.lint.across import Pages, anchors_of
from telemetry.grafana.lint.names import Metric, catalogue
from telemetry.grafana.lint.rulebook import RULES
from telemetry.grafana.lint.run import File, Options, Report, lint

LOCK: Final = "datasources.lock.json"
"""The lockfile that is read when it lies beside a datasource file."""
_SUFFIXES: Final = frozenset({".json", ".yaml", ".yml", ".ini"})
_SKIPPED: Final = frozenset({"node_modules", "__pycache__"})
_MOST_BYTES: Final = 16 << 20
_METRICS_PATH: Final = (
    "how metrics reach the store: scraped or through Alloy (job, instance), or VictoriaMetrics' own OTLP input "
    "(service_name)"
)
_CATALOGUE: Final = "metrics of your own: text of a /metrics page, or YAML with prefixes and metrics"


class Wrong(Exception):
    """The command was called with something that can't be used, as a sentence."""


def run(arguments: list[str]) -> int:
    """Run ``fleetglass grafana lint``; 0 nothing wrong, 1 errors found, 2 called wrongly."""
    options = _parser().parse_args(arguments)
    if options.explain is not None:
        return _explain(options.explain)
    if not options.paths:
        print("fleetglass grafana lint: name files or folders. --help tells more.", file=sys.stderr)
        return 2
    try:
        files = list(gather(options.paths))
        report = lint(files, _options(options, files))
        if options.write_lock is not None:
            content = msgspec.json.encode({"datasources": dict(report.lock)})
            options.write_lock.write_bytes(msgspec.json.format(content) + b"\n")
    except (Wrong, OSError) as error:
        print(f"fleetglass grafana lint: {error}", file=sys.stderr)
        return 2
    for line in [_json(report)] if options.json else _text(report, quiet=options.quiet):
        print(line)
    failing = [finding for finding in report.findings if finding.level == "error" or options.strict]
    return 1 if failing else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fleetglass grafana lint",
        description="Find what breaks in dashboards (classic, V1, V2), datasource provisioning, alert rules (vmalert, "
        "Prometheus, VMRule, PrometheusRule, Loki's ruler, Grafana-managed), ConfigMaps that hold them, and "
        "the configurations around them. Exceptions stand in a .lint file in the folder, or in a comment: "
        "fleetglass: allow RULE: reason.",
        epilog="Exit status: 0 no errors, 1 errors, 2 called wrongly.",
    )
    add = parser.add_argument
    add("paths", nargs="*", type=Path, metavar="PATH", help="files and folders")
    add("--metrics-path", choices=("scrape", "otlp"), default="scrape", help=_METRICS_PATH)
    add("--catalogue", type=Path, action="append", default=[], metavar="FILE", help=_CATALOGUE)
    add("--prefix", action="append", default=[], help="names with this prefix must be in a catalogue")
    add("--docs", type=Path, metavar="DIR", help="Markdown pages that runbook links must lead to")
    add("--datasource", action="append", default=[], metavar="UID", help="a datasource that is provided elsewhere")
    add("--lock", type=Path, metavar="FILE", help=f"uids as they were provisioned; default: {LOCK} beside a file")
    add("--write-lock", type=Path, metavar="FILE", help="write the uids found now, to be committed")
    add("--strict", action="store_true", help="notices fail as well")
    add("--quiet", action="store_true", help="errors only, no notices and no summary")
    add("--json", action="store_true", help="as one JSON object, for programs")
    add("--explain", nargs="?", const="", metavar="RULE", help="what a rule asks for and why; without a name, all")
    return parser


def gather(paths: Iterable[Path]) -> Iterator[File]:
    """The files that ``paths`` name, and those below folders that lint can read, with the exceptions beside them."""
    seen: set[Path] = set()
    for path in paths:
        if path.is_dir():
            found = sorted(each for each in path.rglob("*") if each.suffix in _SUFFIXES and _is_visible(each, path))
        elif path.is_file():
            found = [path]
        else:
            raise Wrong(f"{path} is neither a file nor a folder.")
        for each in found:
            for file in (each.parent / exceptions.FILE, each):
                if file in seen or each.name.endswith(LOCK) or not file.is_file():
                    continue
                seen.add(file)
                yield _file(file, named=file == path)


def _is_visible(path: Path, below: Path) -> bool:
    parts = path.relative_to(below).parts
    return path.is_file() and not any(part.startswith(".") or part in _SKIPPED for part in parts)


def _file(path: Path, *, named: bool) -> File:
    if path.stat().st_size > _MOST_BYTES:
        raise Wrong(f"{path} has more than {_MOST_BYTES >> 20} MiB.")
    try:
        return File(str(path), path.read_text(encoding="utf-8"), named)
    except UnicodeDecodeError as error:
        raise Wrong(f"{path} is not UTF-8: {error}.") from error


def _options(given: argparse.Namespace, files: list[File]) -> Options:
    from telemetry.grafana.shipped import shipped

    metrics: list[Metric] = []
    prefixes: list[str] = list(given.prefix)
    for path in given.catalogue:
        found, more = _catalogue(path)
        metrics += found
        prefixes += more
    return Options(
        known=catalogue(metrics, tuple(prefixes)),
        metrics_path=given.metrics_path,
        pages=_pages(given.docs) if given.docs is not None else None,
        locked=_lock(given.lock, files),
        boards=frozenset(board.uid for board in shipped()),
        datasources=frozenset(given.datasource),
    )


class _Row(msgspec.Struct, forbid_unknown_fields=True):
    """A metric in a catalogue file; without ``labels`` it may have any."""

    name: str
    kind: str = "gauge"
    labels: list[str] | None = None


class _Given(msgspec.Struct, forbid_unknown_fields=True):
    """A catalogue file."""

    metrics: list[_Row] = []
    prefixes: list[str] = []


def _catalogue(path: Path) -> tuple[list[Metric], list[str]]:
    """Metrics and prefixes from a file: YAML or JSON by its name, else what ``/metrics`` answers."""
    text = path.read_text(encoding="utf-8")
    if path.suffix in {".yaml", ".yml", ".json"}:
        try:
            given = msgspec.yaml.decode(text, type=_Given)
        except msgspec.MsgspecError as error:
            raise Wrong(f"{path}: {error}.") from error
        rows = [
            Metric(row.name, row.kind, None if row.labels is None else frozenset(row.labels)) for row in given.metrics
        ]
        return rows, given.prefixes
    from prometheus_client.parser import text_string_to_metric_families

    found: list[Metric] = []
    try:
        for family in text_string_to_metric_families(text):
            labels = frozenset(label for sample in family.samples for label in sample.labels) - {"le"}
            name = f"{family.name}_total" if family.type == "counter" else family.name
            found.append(Metric(name, str(family.type), labels))
    except ValueError as error:
        raise Wrong(f"{path} is not what /metrics answers: {error}.") from error
    return found, []


def _pages(folder: Path) -> Pages:
    if not folder.is_dir():
        raise Wrong(f"{folder} is no folder.")
    files = sorted(folder.rglob("*.md"))
    return Pages({str(file.relative_to(folder)): anchors_of(file.read_text(encoding="utf-8")) for file in files})


def _lock(given: Path | None, files: list[File]) -> dict[str, str]:
    beside = sorted({Path(file.name).parent / LOCK for file in files})
    locked: dict[str, str] = {}
    for path in [given] if given is not None else [path for path in beside if path.is_file()]:
        try:
            content: dict[str, dict[str, str]] = msgspec.json.decode(path.read_bytes(), type=dict[str, dict[str, str]])
        except msgspec.MsgspecError as error:
            raise Wrong(f"{path} is no lockfile of datasources: {error}.") from error
        locked |= content.get("datasources", {})
    return locked


def _text(report: Report, *, quiet: bool) -> Iterator[str]:
    for finding in report.findings:
        if finding.level == "error" or not quiet:
            yield str(finding)
    if quiet:
        return
    errors = sum(finding.level == "error" for finding in report.findings)
    notices = len(report.findings) - errors
    seen = f"{report.boards} dashboards, {report.datasources} datasources, {report.rules} rules in {report.files} files"
    excused = f", {report.excused} excused" if report.excused else ""
    yield f"{seen}: {errors} errors, {notices} notices{excused}"


def _json(report: Report) -> str:
    content: dict[str, Any] = {
        "findings": report.findings,
        "boards": report.boards,
        "datasources": report.datasources,
        "rules": report.rules,
        "files": report.files,
        "excused": report.excused,
    }
    return msgspec.json.format(msgspec.json.encode(content)).decode()


def _explain(name: str) -> int:
    if name and name not in RULES:
        from telemetry.config.kinds import closest

        print(f"fleetglass grafana lint: no rule {name!r}{closest(name, RULES)}", file=sys.stderr)
        return 2
    for rule in [RULES[name]] if name else RULES.values():
        print(f"{rule.name} ({rule.level}, {rule.group.lower()})")
        print(textwrap.fill(f"{rule.about} {rule.why}", 100, initial_indent="  ", subsequent_indent="  "))
        if rule.source:
            print(f"  Source: {rule.source}")
    return 0
