"""The ``fleetglass`` command.

A subcommand is a function from its arguments to an exit status, named in ``COMMANDS`` as
``module:function`` and imported only when it is called for. Adding one is adding a row.

Exit status: 0 done, 1 failed, 2 called wrongly or settings that can't be used, 130 interrupted.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from telemetry.config import Config
    from telemetry.config.loading import Reading


class Command(NamedTuple):
    """One subcommand: a line for the overview, where its function is, the extra that brings what it imports."""

    summary: str
    home: str
    extra: str = ""


COMMANDS: Mapping[str, Command] = {
    "alerts": Command(
        "rules, contact points and routing from one values file, and their tests",
        "telemetry.grafana.alerts.command:command",
        "grafana",
    ),
    "alloy": Command("check Grafana Alloy configurations, without Alloy", "telemetry.alloy.command:command"),
    "config": Command("show every setting in effect and where it came from", "telemetry.cli:config"),
    "grafana": Command(
        "dashboards, datasources and rules for Grafana: write, check, bring in, draw",
        "telemetry.grafana.command:command",
        "grafana",
    ),
    "scaling": Command(
        "KEDA objects and alert rules of groups of workers, by the same numbers",
        "telemetry.fleet.scaling_command:command",
        "fleet",
    ),
    "queue": Command(
        "what reading a platform's job queue costs on its server, and which indexes are missing",
        "telemetry.fleet.command:queue",
        "fleet",
    ),
    "schema": Command(
        "the tables, view and indexes that a platform adds to its database for us, as SQL",
        "telemetry.fleet.command:schema",
        "fleet",
    ),
    "serve": Command("take browser errors over HTTP and write one log line each", "ingest.serve:command", "ingest"),
    "stack": Command(
        "Grafana, Loki, Tempo, VictoriaMetrics and Alloy on this machine: up, down, status",
        "telemetry.stack.command:command",
        "grafana",
    ),
    "probe": Command("send a trace, a line and a metric, and read them back", "telemetry.probe.command:command"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``fleetglass``; returns the exit status. ``arguments`` default to those of the process."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0] in {"-h", "--help", "help"}:
        print(_overview())
        return 0
    if given[0] in {"-V", "--version", "version"}:
        print(f"fleetglass {_version()}")
        return 0
    command = COMMANDS.get(given[0])
    if command is None:
        from telemetry.config.kinds import closest

        print(f"fleetglass: no command {given[0]!r}{closest(given[0], COMMANDS)}", file=sys.stderr)
        print("fleetglass --help lists the commands.", file=sys.stderr)
        return 2
    try:
        status = _run(given[0], command, given[1:])
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader (head, less) has what it wanted; Python would complain once more while closing stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _run(name: str, command: Command, arguments: list[str]) -> int:
    from telemetry.config import ConfigError

    module, _, function = command.home.partition(":")
    try:
        run: Callable[[list[str]], int] = getattr(importlib.import_module(module), function)
    except ModuleNotFoundError as missing:
        if not command.extra:
            raise
        hint = f"pip install 'fleetglass[{command.extra}]'"
        print(f"fleetglass {name} needs {missing.name}, which is not installed: {hint}", file=sys.stderr)
        return 1
    try:
        return run(arguments)
    except ConfigError as error:
        print(f"fleetglass {name}: {error}", file=sys.stderr)
        return 2


def _overview() -> str:
    width = max(map(len, COMMANDS))
    return "\n".join(
        [
            "usage: fleetglass COMMAND [OPTIONS]",
            "",
            "One pane of glass over a fleet: traces, logs and metrics under one identity.",
            "",
            "commands:",
            *(f"  {name:<{width}}  {command.summary}" for name, command in COMMANDS.items()),
            "",
            "fleetglass COMMAND --help tells more. fleetglass --version prints the version.",
        ]
    )


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("fleetglass")
    except PackageNotFoundError:
        return "unknown (not installed as a distribution)"


def config(arguments: list[str]) -> int:
    """``fleetglass config``: every setting in effect, secrets masked, and where each came from."""
    parser = argparse.ArgumentParser(
        prog="fleetglass config",
        description="Show every setting in effect in this environment, with secrets masked, and where each came from. "
        "Settings that can't be used are listed on stderr, and the exit status is then 2.",
    )
    parser.add_argument("--set", action="store_true", dest="only_set", help="leave out settings at their defaults")
    parser.add_argument("--json", action="store_true", help="as one JSON object, for programs")
    options = parser.parse_args(arguments)
    return show_config(os.environ, only_set=options.only_set, as_json=options.json)


def show_config(environ: Mapping[str, str], *, only_set: bool = False, as_json: bool = False) -> int:
    """Print the settings that ``environ`` gives; the exit status."""
    from telemetry.config import Config, ConfigError
    from telemetry.config.advice import advice
    from telemetry.config.loading import read, unread_variables

    readings = {section: read(section, {}, environ) for section in ("telemetry", "ingest", "command")}
    problems = tuple(dict.fromkeys(problem for reading in readings.values() for problem in reading.problems))
    library = readings["telemetry"]
    values: dict[str, Any] = library.values
    effective = Config(**values)
    warnings = advice(effective, library.sources)
    unread = unread_variables(environ)
    rows = list(_rows(readings, only_set=only_set))
    if as_json:
        import msgspec

        document = {
            "settings": [
                {"name": name, "environment": env, "value": value, "source": source}
                for _, name, env, value, source in rows
            ],
            "problems": problems,
            "warnings": warnings,
            "unread": unread,
        }
        print(msgspec.json.format(msgspec.json.encode(document)).decode())
    else:
        print("\n".join(_table(rows)))
        print("\n".join(["", "What goes where", *_destinations(effective, library.sources)]))
        if warnings:
            print("\n".join(["", "Worth knowing", *(f"  {warning}" for warning in warnings)]))
        if unread:
            print("\n".join(["", "Set, but not read here (the OpenTelemetry SDK may): " + ", ".join(unread)]))
    if problems:
        sys.stdout.flush()
        print(f"\nfleetglass config: {ConfigError(problems)}", file=sys.stderr)
        return 2
    return 0


def _rows(readings: Mapping[str, Reading], *, only_set: bool) -> Iterator[tuple[str, str, str, str, str]]:
    """Group, name, variable, value and source of each setting that is worth showing."""
    from telemetry.config import SETTINGS

    for setting in SETTINGS:
        reading = readings[setting.section]
        source = reading.sources[setting.name]
        default = source == "default"
        # Settings of single signals are there to differ from the shared ones; unset they say nothing.
        if default and (only_set or setting.group == "OTLP, per signal" or setting.section == "command"):
            continue
        value = "(refused)" if setting.name in reading.refused else setting.show(reading.values[setting.name])
        yield setting.group, setting.name, setting.env[0], value, source.removeprefix("environment ")


def _table(rows: Sequence[tuple[str, str, str, str, str]]) -> Iterator[str]:
    if not rows:
        yield "Every setting is at its default."
        return
    names = max(len(name) for _, name, _, _, _ in rows)
    width = min(max(len(value) for _, _, _, value, _ in rows), 48)
    group = ""
    for heading, name, env, value, source in rows:
        if heading != group:
            yield from (["", heading] if group else [heading])
            group = heading
        shown = value or "(unset)"
        where = f"default ({env})" if source == "default" else source
        yield f"  {name:<{names}}  {shown:<{width}}  {where}"


def _destinations(effective: Config, sources: Mapping[str, str]) -> Iterator[str]:
    """For each signal, the places that these settings send it to."""
    traces, logs, metrics = effective.otlp("traces"), effective.otlp("logs"), effective.otlp("metrics")
    loki, push = effective.loki(), effective.metrics_push()
    places: dict[str, list[str]] = {"traces": [], "logs": [], "metrics": []}
    for target in (traces, logs, metrics):
        if target is not None:
            places[target.signal].append(f"OTLP ({target.protocol}) to {target.endpoint}")
    if loki is not None:
        places["logs"].append(f"Loki push to {loki.url}")
    if effective.stdout == "on" or (effective.stdout == "auto" and not places["logs"]):
        places["logs"].append("stdout")
    if effective.metrics_exporter != "none":
        if push is not None and metrics is None:
            places["metrics"].append(f"push to {push.url} every {effective.metrics_push_interval:g} s")
        opens = effective.role in {"worker", "agent"} or sources["metrics_listen"] != "default"
        listens = f" on {effective.metrics_listen}" if opens and effective.metrics_listen != "off" else ""
        places["metrics"].append(f"/metrics{listens} to scrape")
    for signal, found in places.items():
        yield f"  {signal:<7}  {', '.join(found) or 'nowhere'}"
