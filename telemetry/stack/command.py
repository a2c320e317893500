"""``fleetglass stack up|down|status|env``: the stack on this machine."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from telemetry.config import load_section
from telemetry.grafana.alerts.values import ValuesError
from telemetry.stack import engine, native, programs
from telemetry.stack.layout import Layout, environment
from telemetry.stack.native import StackError, State
from telemetry.stack.parts import NAMES, PARTS, PORTS, PortError, ports

_STATES = {"ready": "ready", "starting": "not ready", "ended": "ENDED", "down": "–"}


def command(arguments: list[str]) -> int:
    """Run ``fleetglass stack``; the exit status."""
    options = _parser().parse_args(arguments)
    verbs: dict[str, Callable[[argparse.Namespace], int]] = {"up": _up, "down": _down, "status": _status, "env": _env}
    try:
        return verbs[options.verb](options)
    except (StackError, PortError, ValuesError, engine.EngineError) as error:
        print(f"fleetglass stack: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fleetglass stack",
        description="Run Grafana, Loki, Tempo, VictoriaMetrics, vmalert and Alloy on this machine: through compose "
        "where a container engine answers, else from the programs on PATH, with those that are there.",
        epilog=f"Ports by name: {', '.join(f'{name}={number}' for name, number in PORTS.items())}.",
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for verb, text in (
        ("up", "start what is not running, and wait until it is ready"),
        ("down", "end what was started; its data stays"),
        ("status", "show how each part fares (exit status 1 where one does not)"),
        ("env", "print the variables with which services and `fleetglass probe` use it"),
    ):
        each = verbs.add_parser(verb, help=text, description=f"{text[0].upper()}{text[1:]}.")
        each.add_argument("--folder", type=Path, metavar="DIR", help="where everything is kept (FLEETGLASS_STACK_DIR)")
        each.add_argument(
            "--with",
            dest="engine",
            choices=("auto", "native", "compose"),
            default="auto",
            help="programs on PATH, containers, or whichever fits (default)",
        )
        if verb == "up":
            each.add_argument(
                "--port",
                action="append",
                type=_port,
                default=[],
                metavar="NAME=NUMBER",
                help="another port, remembered; repeatable",
            )
            each.add_argument("--offset", type=int, default=0, metavar="N", help="move every port by N")
        if verb == "status":
            each.add_argument("--json", action="store_true", help="as one JSON object, for programs")
    return parser


def _port(text: str) -> tuple[str, int]:
    name, equals, number = text.partition("=")
    if not equals or not number.isascii() or not number.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=NUMBER, such as grafana=3001")
    return name, int(number)


def folder(options: argparse.Namespace) -> Path:
    """Where the stack is kept: the option, the setting, else a folder of the user's. Raises ConfigError."""
    chosen: Path | str | None = options.folder or load_section("command")["stack_dir"]  # type: ignore[assignment]  # text
    if chosen:
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_DATA_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".local" / "share") / "fleetglass" / "stack"


def _through_compose(options: argparse.Namespace) -> bool:
    if options.engine != "auto":
        return bool(options.engine == "compose")
    place = folder(options)
    if native.layout_of(place) is not None:  # what runs decides
        return False
    return engine.find() is not None


def _up(options: argparse.Namespace) -> int:
    place = folder(options)
    given = bool(options.port or options.offset)
    known = None if given else native.remembered_ports(place)
    chosen = known or ports(dict(options.port), options.offset)
    say = _progress()
    if _through_compose(options):
        engine.up(place, chosen, say)
        return _compose_status(place)
    found = programs.present()
    missing = [PARTS[name] for name in NAMES if name not in found]
    if not found:
        raise StackError(
            "no container engine answers, and none of the programs is on PATH:\n"
            + "\n".join(f"  {part.title}: {part.get}" for part in missing)
        )
    states = native.up(Layout(place, chosen, found), say)
    say("")
    print(_table(states))
    for part in missing:
        print(f"{part.title} is missing, and everything else does without: {part.get}")
    layout = native.layout_of(place)
    if layout is not None:
        print(f"\nEverything is kept in {place}. Point a service at it:\n")
        print(_exports(environment(layout)))
        print("\nfleetglass probe, under these variables, shows that it works.")
    return _complain(place, states)


def _complain(place: Path, states: list[State]) -> int:
    bad = [state for state in states if state.state in ("starting", "ended")]
    for state in bad:
        what = "has ended" if state.state == "ended" else "is not ready in its time"
        print(f"\n{PARTS[state.name].title} {what}; the end of {place}/log/{state.name}.log:", file=sys.stderr)
        print(native.last_words(place, state.name), file=sys.stderr)
    return 1 if bad else 0


def _down(options: argparse.Namespace) -> int:
    place, say = folder(options), _progress()
    if _through_compose(options):
        engine.down(place)
        return 0
    ended = native.down(place, say)
    say("")
    print(f"ended {', '.join(PARTS[name].title for name in ended)}" if ended else "nothing of the stack was running")
    return 0


def _status(options: argparse.Namespace) -> int:
    place = folder(options)
    if _through_compose(options):
        return _compose_status(place)
    states = native.status(place)
    if options.json:
        print(msgspec.json.format(msgspec.json.encode({"folder": str(place), "parts": states})).decode())
    else:
        print(_table(states))
    known = [state for state in states if state.state != "down"]
    return 0 if known and all(state.state == "ready" for state in known) else 1


def _compose_status(place: Path) -> int:
    print(engine.status(place))
    return 0


def _env(options: argparse.Namespace) -> int:
    place = folder(options)
    if _through_compose(options):
        print(_exports(engine.environment(place)))
        return 0
    layout = native.layout_of(place)
    if layout is None:
        raise StackError(f"nothing runs in {place}: `fleetglass stack up` starts it")
    print(_exports(environment(layout)))
    return 0


def _exports(variables: dict[str, str]) -> str:
    return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in variables.items())


def _table(states: list[State]) -> str:
    rows = [("part", "state", "pid", "address")]
    rows += [
        (PARTS[state.name].title, _STATES[state.state], str(state.pid or ""), state.url if state.pid else "")
        for state in states
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]]).rstrip()
        for row in rows
    )


def _progress() -> Callable[[str], None]:
    if sys.stderr.isatty():
        return lambda sentence: print(f"\r\x1b[2K{sentence}", end="", file=sys.stderr, flush=True)
    told: set[str] = set()

    def say(sentence: str) -> None:
        plain = sentence.partition(":")[0]  # without the seconds, which would fill a log
        if sentence and plain not in told:
            told.add(plain)
            print(plain, file=sys.stderr, flush=True)

    return say
