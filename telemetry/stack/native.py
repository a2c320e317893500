"""The stack as plain processes: up, down, status, with everything it keeps in one folder.

``etc`` holds what is written over at each start, ``data`` what the servers keep, ``log`` what they say, ``run`` one
file for each process, ``targets`` and ``values.yaml`` what is the user's.
"""

from __future__ import annotations

import http.client
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Literal

import msgspec

from telemetry.stack import layout as layouts
from telemetry.stack import processes
from telemetry.stack.layout import LISTEN, Layout
from telemetry.stack.parts import NAMES, OWNERS, PARTS, PORTS, Name, needed
from telemetry.stack.processes import Record

Say = Callable[[str], None]


class State(msgspec.Struct, frozen=True):
    """One part as it is now. ``ready`` needs a running process whose health page says so."""

    name: Name
    state: Literal["ready", "starting", "ended", "down"]
    pid: int | None
    url: str


class StackError(RuntimeError):
    """The stack can't be run; the text says why and what to do."""


class _Running(msgspec.Struct, frozen=True):
    """What ``run/NAME.json`` holds: the process, and the layout it was started with."""

    record: Record
    ports: dict[str, int]
    program: str


# -- up ------------------------------------------------------------------------------------------------


def up(layout: Layout, say: Say) -> list[State]:
    """Start what is not running, wait until all is ready, and return how each part fares. Raises StackError.

    What runs already is left as it is. A part that ends, or isn't ready in its time, leaves the others running.
    """
    for name in ("etc", "data", "log", "run", "targets"):
        (layout.folder / name).mkdir(parents=True, exist_ok=True)
    running = _running(layout.folder)
    for name, each in running.items():
        if each.ports != layout.ports:
            raise StackError(
                f"{PARTS[name].title} runs on other ports than these: `fleetglass stack down` first, or leave the "
                "ports out."
            )
    layout = msgspec.structs.replace(layout, programs=_startable(layout.programs, running))
    fresh = [name for name in layout.programs if name not in running]
    _refuse_taken(layout, fresh)
    _write(layout)
    (layout.folder / "ports.json").write_bytes(msgspec.json.encode(dict(layout.ports)))
    for name in fresh:
        if name == "vmalert":  # its first evaluation would fail where the store isn't up yet
            _await_store(layout)
        _start(layout, name)
        say(f"started {PARTS[name].title}")
    return _wait(layout, say)


def _await_store(layout: Layout) -> None:
    port, deadline = layout.ports["victoriametrics"], time.monotonic() + 30.0
    while not answers(port, PARTS["victoriametrics"].ready) and time.monotonic() < deadline:
        if "victoriametrics" not in _running(layout.folder):
            return
        time.sleep(0.1)


def _startable(programs: Mapping[Name, str], running: Mapping[Name, _Running]) -> dict[Name, str]:
    """What runs keeps its place in the layout; vmalert is of no use without the store that it asks."""
    found = {**programs, **{name: each.program for name, each in running.items()}}
    if "victoriametrics" not in found:
        found.pop("vmalert", None)
    return {name: found[name] for name in NAMES if name in found}


def _refuse_taken(layout: Layout, fresh: Iterable[Name]) -> None:
    together = needed(layout.present, layout.ports)
    mine = {port: together[port] for port in together if _owner(port, layout) in set(fresh)}
    taken = [f"{number} ({name})" for name, number in mine.items() if not _free(number)]
    if taken:
        raise StackError(
            f"taken by another program: port {', '.join(taken)}. Choose others with --port NAME=NUMBER, or move all of "
            "them with --offset."
        )


def _owner(port: str, layout: Layout) -> Name:
    owner = OWNERS[port]
    return "tempo" if owner == "alloy" and "alloy" not in layout.present else owner


def _free(port: int) -> bool:
    with closing(socket.socket()) as opened:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            opened.bind((LISTEN, port))
        except OSError:
            return False
    return True


def _write(layout: Layout) -> None:
    values = layout.folder / "values.yaml"
    content = layouts.configuration(layout)
    if not values.exists():
        values.write_text(layouts.first_values(layout), "utf-8")
    content |= layouts.rules(values.read_text("utf-8"), str(values))
    for name, text in content.items():
        file = layout.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")


def _start(layout: Layout, name: Name) -> None:
    record = processes.start(layouts.command(layout, name), layout.folder, layout.folder / "log" / f"{name}.log")
    running = _Running(record, dict(layout.ports), layout.programs[name])
    (layout.folder / "run" / f"{name}.json").write_bytes(msgspec.json.encode(running))


def _wait(layout: Layout, say: Say) -> list[State]:
    began = time.monotonic()
    while True:
        states = status(layout.folder)
        now = time.monotonic() - began
        starting = [each.name for each in states if each.state == "starting" and now < PARTS[each.name].wait]
        if not starting:
            return states
        say(f"waiting for {', '.join(PARTS[name].title for name in starting)}: {now:.0f} s")
        time.sleep(0.2)


# -- down ----------------------------------------------------------------------------------------------


def down(folder: Path, say: Say) -> list[Name]:
    """End what ``up`` started there and still runs, the last started first; what was ended. Data stays."""
    running = _running(folder)
    ended = [name for name in reversed(NAMES) if name in running]
    if ended:
        say(f"ending {', '.join(PARTS[name].title for name in ended)}")
    # What sends goes first, so that what it holds still finds a store.
    for stage in (("grafana", "vmalert", "alloy"), ("tempo", "loki", "victoriametrics")):
        processes.stop({running[name].record: PARTS[name].end for name in stage if name in running})
    for name in NAMES:
        with suppress(FileNotFoundError):
            (folder / "run" / f"{name}.json").unlink()
    return ended


# -- status --------------------------------------------------------------------------------------------


def status(folder: Path) -> list[State]:
    """How each part fares that was started in ``folder``, and all others as down."""
    return [_state(name, _read(folder, name)) for name in NAMES]


def _state(name: Name, known: _Running | None) -> State:
    if known is None:
        return State(name, "down", None, "")
    part = PARTS[name]
    url = f"http://{LISTEN}:{known.ports[part.port]}"
    if not processes.alive(known.record):
        return State(name, "ended", None, url)
    return State(name, "ready" if answers(known.ports[part.port], part.ready) else "starting", known.record.pid, url)


def answers(port: int, path: str) -> bool:
    """The page answers 200 within two seconds."""
    connection = http.client.HTTPConnection(LISTEN, port, timeout=2.0)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def layout_of(folder: Path) -> Layout | None:
    """The layout of what runs in ``folder``; None where nothing does."""
    running = _running(folder)
    if not running:
        return None
    ports = next(iter(running.values())).ports
    return Layout(folder, ports, {name: running[name].program for name in NAMES if name in running})


def remembered_ports(folder: Path) -> dict[str, int] | None:
    """The ports that the stack in ``folder`` was last started with; None where it never was."""
    try:
        known = msgspec.json.decode((folder / "ports.json").read_bytes(), type=dict[str, int])
    except (OSError, msgspec.DecodeError):
        return None
    return known if known.keys() == PORTS.keys() else None


def last_words(folder: Path, name: Name, lines: int = 20) -> str:
    """The end of what a part wrote to its log."""
    try:
        return "\n".join((folder / "log" / f"{name}.log").read_text("utf-8", "replace").splitlines()[-lines:])
    except OSError:
        return ""


def _running(folder: Path) -> dict[Name, _Running]:
    known = {name: _read(folder, name) for name in NAMES}
    return {name: each for name, each in known.items() if each is not None and processes.alive(each.record)}


def _read(folder: Path, name: Name) -> _Running | None:
    try:
        return msgspec.json.decode((folder / "run" / f"{name}.json").read_bytes(), type=_Running)
    except (OSError, msgspec.DecodeError):
        return None
