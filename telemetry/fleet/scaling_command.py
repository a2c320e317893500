"""``fleetglass scaling render``: KEDA objects and alert rules of groups of workers, by the same numbers."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from telemetry.fleet import scaling_file
from telemetry.fleet.scaling import shared_tags


def command(arguments: list[str]) -> int:
    """Run ``fleetglass scaling``; the exit status: 0 done, 2 a file or a group that can't be used."""
    parser = argparse.ArgumentParser(prog="fleetglass scaling", description="What scales groups of workers.")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    render = verbs.add_parser("render", help="write KEDA objects and alert rules", description=_RENDER)
    render.add_argument("file", type=Path, metavar="FILE", help="the groups; docs/scaling.md has one")
    render.add_argument("--out", type=Path, metavar="FILE", help="the file to write; default: standard output")
    render.add_argument("--format", choices=["kubernetes", "vmalert"], default="kubernetes", help=_FORMAT)
    options = parser.parse_args(arguments)
    try:
        plan = scaling_file.parse(options.file.read_text(encoding="utf-8"))
        found = scaling_file.scalings(plan)
    except scaling_file.FileError as error:
        for sentence in error.problems:
            print(f"fleetglass scaling: {options.file}: {sentence}", file=sys.stderr)
        return 2
    except (OSError, UnicodeDecodeError) as error:
        said = getattr(error, "strerror", None) or error
        print(f"fleetglass scaling: {options.file} can't be read: {said}", file=sys.stderr)
        return 2
    for sentence in shared_tags(found):
        print(f"fleetglass scaling: note: {sentence}", file=sys.stderr)
    write = scaling_file.kubernetes if options.format == "kubernetes" else scaling_file.rule_file
    text = write(found, plan.context)
    if options.out is None:
        sys.stdout.write(text)
    else:
        options.out.write_text(text, encoding="utf-8")
    return 0


_RENDER = (
    "Write a ScaledObject, a TriggerAuthentication and a VMRule for each group of workers in FILE. Scaler and alerts "
)
_RENDER += "go by the same number of waiting jobs; groups whose numbers can't work are refused."
_FORMAT = "kubernetes: all objects (the default); vmalert: the rules alone, for vmalert or Prometheus"
