"""``fleetglass grafana import``: dashboards into a running Grafana, as often as one likes."""

from __future__ import annotations

import argparse
import sys

from telemetry.grafana.remote import access
from telemetry.grafana.remote.api import Grafana, GrafanaError
from telemetry.grafana.remote.dashboards import ACTS, Board, put
from telemetry.grafana.remote.kubectl import KubectlError
from telemetry.grafana.shipped import DocumentError, given, shipped


def run(arguments: list[str]) -> int:
    """Import; the exit status."""
    parser = argparse.ArgumentParser(
        prog="fleetglass grafana import",
        description="Bring dashboards into a running Grafana (12 or newer) over its HTTP API. What is there already "
        "and the same is left alone, so it may run as often as one likes.",
    )
    parser.add_argument("file", nargs="*", metavar="FILE", help="dashboards in classic JSON; ours when none is given")
    parser.add_argument("--folder", default="Fleetglass", metavar="TITLE", help="folder, made if need be; '' for none")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and change nothing")
    access.add_options(parser)
    options = parser.parse_args(arguments)
    try:
        boards = given(options.file) if options.file else shipped()
        with access.opened(options) as way, Grafana(way) as grafana:
            wanted = (Board(each.uid, each.model) for each in boards)
            for done in put(grafana, wanted, folder=options.folder, dry_run=options.dry_run):
                would = "would be " if options.dry_run and done.act != "nothing" else ""
                print(f"{would}{ACTS[done.act]}  {done.uid}  {done.title}", flush=True)
    except (DocumentError, access.AccessError, KubectlError, GrafanaError) as error:
        print(f"fleetglass grafana import: {error}", file=sys.stderr)
        return 1
    return 0
