"""``fleetglass grafana render``: a dashboard or a panel as a PNG file, for reports and for looking at changes."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from telemetry.grafana.remote import access
from telemetry.grafana.remote.api import Grafana, GrafanaError
from telemetry.grafana.remote.images import WHOLE_PAGE, Picture, drawn, listed
from telemetry.grafana.remote.kubectl import KubectlError

PANEL_HEIGHT = 500


def run(arguments: list[str]) -> int:
    """Draw, or list what could be drawn; the exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if not options.list and (options.uid is None or options.file is None):
        parser.error("give UID and FILE, or --list")
    try:
        with access.opened(options) as way, Grafana(way) as grafana:
            if options.list:
                return _show(grafana)
            image = drawn(grafana, _picture(options))
        _write(Path(options.file), image)
    except (access.AccessError, KubectlError, GrafanaError) as error:
        print(f"fleetglass grafana render: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"fleetglass grafana render: {options.file} can't be written: {error.strerror}", file=sys.stderr)
        return 1
    print(f"written  {options.file}  {len(image)} bytes")
    return 0


def _show(grafana: Grafana) -> int:
    boards = listed(grafana)
    width = max((len(each.uid) for each in boards), default=0)
    for each in boards:
        print(f"{each.uid:<{width}}  {each.folder + ' / ' if each.folder else ''}{each.title}")
    if not boards:
        print("no dashboard that these credentials may see", file=sys.stderr)
    return 0


def _picture(options: argparse.Namespace) -> Picture:
    height = options.height or (WHOLE_PAGE if options.panel is None else PANEL_HEIGHT)
    return Picture(
        uid=options.uid,
        panel=options.panel,
        begin=options.begin,
        end=options.end,
        width=options.width,
        height=height,
        theme=options.theme,
        timezone=options.tz,
        scale=options.scale,
        timeout=options.timeout,
        variables=dict(options.var),
    )


def _write(path: Path, image: bytes) -> None:
    """Whole or not at all: a reader never meets half an image."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(image)
        # mkstemp's files are for their owner alone; this one is a file like any other.
        umask = os.umask(0)
        os.umask(umask)
        Path(name).chmod(0o666 & ~umask)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fleetglass grafana render",
        description="Draw a dashboard, or one of its panels, into a PNG file. Grafana needs grafana-image-renderer.",
    )
    parser.add_argument("uid", nargs="?", metavar="UID", help="uid of the dashboard")
    parser.add_argument("file", nargs="?", metavar="FILE", help="PNG file to write")
    parser.add_argument("--list", action="store_true", help="list the dashboards that are there, with their uids")
    parser.add_argument("--panel", type=int, metavar="N", help="id of one panel; else the whole dashboard")
    parser.add_argument("--from", dest="begin", default="now-6h", metavar="TIME", help="default: now-6h")
    parser.add_argument("--to", dest="end", default="now", metavar="TIME", help="default: now")
    parser.add_argument(
        "--var", type=_variable, action="append", default=[], metavar="NAME=VALUE", help="a variable of the dashboard"
    )
    parser.add_argument("--width", type=int, default=1600, metavar="PIXELS", help="default: 1600")
    parser.add_argument(
        "--height", type=int, metavar="PIXELS", help=f"default: the whole page, {PANEL_HEIGHT} for a panel"
    )
    parser.add_argument("--scale", type=float, default=1, help="pixels of the image for each of the page (default: 1)")
    parser.add_argument("--theme", choices=("light", "dark"), default="light")
    parser.add_argument("--tz", default="UTC", metavar="ZONE", help="time zone of the axes (default: UTC)")
    parser.add_argument("--timeout", type=int, default=60, metavar="SECONDS", help="for the renderer (default: 60)")
    access.add_options(parser)
    return parser
