"""``fleetglass grafana export``: our dashboards, or a user's, as files to provision or ConfigMaps to apply."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from telemetry import manifest
from telemetry.grafana.export import TooLargeError, configmap
from telemetry.grafana.shipped import Document, DocumentError, given, shipped


def run(arguments: list[str]) -> int:
    """Write the dashboards; the exit status."""
    options = _parser().parse_args(arguments)
    try:
        boards = given(options.file) if options.file else shipped()
        files = rendered(boards, options)
    except (DocumentError, TooLargeError) as error:
        print(f"fleetglass grafana export: {error}", file=sys.stderr)
        return 1
    if options.out == "-":
        print("---\n".join(files.values()), end="")
        return 0
    out = Path(options.out)
    for name, text in files.items():
        path = out / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            written = not path.exists() or path.read_text("utf-8") != text
            if written:
                path.write_text(text, "utf-8")
        except OSError as error:
            print(f"fleetglass grafana export: {path} can't be written: {error.strerror}", file=sys.stderr)
            return 1
        print(f"{'written  ' if written else 'unchanged'}  {path}")
    return 0


def rendered(boards: tuple[Document, ...], options: argparse.Namespace) -> dict[str, str]:
    """Text by name of the file, below the folder to write to."""
    if options.configmap:
        made = ((each, configmap(each, namespace=options.namespace, folder=options.folder)) for each in boards)
        return {f"{board.uid}.configmap.yaml": manifest.dump(resource) for board, resource in made}
    # Grafana's file provider takes folders from directories (foldersFromFilesStructure).
    return {str(Path(options.folder) / f"{board.uid}.json"): board.text for board in boards}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fleetglass grafana export",
        description="Write dashboards as files: JSON for Grafana's file provider, or ConfigMaps for the dashboard "
        "sidecar of its Helm chart, safe under Flux. Running it again changes nothing that is the same.",
    )
    parser.add_argument("out", metavar="OUT", help="directory to write to; - writes to stdout")
    parser.add_argument("--configmap", action="store_true", help='ConfigMaps with the label grafana_dashboard: "1"')
    parser.add_argument("--folder", default="", metavar="TITLE", help="Grafana folder to put them in")
    parser.add_argument("--namespace", default="", help="namespace of the ConfigMaps; else where they are applied")
    parser.add_argument(
        "--file", action="append", default=[], metavar="FILE", help="a dashboard of yours in place of ours; repeatable"
    )
    return parser
