"""``fleetglass scaling render``: KEDA objects and alert rules of groups of workers, by the same numbers."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg

from telemetry.config import load_section
from telemetry.fleet import scaling_file
from telemetry.fleet.profiles import WINDFORCE, load
from telemetry.fleet.scaling import shared_tags
from telemetry.fleet.session import Session, reason


def command(arguments: list[str]) -> int:
    """Run ``fleetglass scaling``; 0: done, 1: the registry can't be read, 2: a file or group that can't be used."""
    parser = argparse.ArgumentParser(prog="fleetglass scaling", description="What scales groups of workers.")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    render = verbs.add_parser("render", help="write KEDA objects and alert rules", description=_RENDER)
    render.add_argument("file", type=Path, metavar="FILE", help="the groups; docs/scaling.md has one")
    render.add_argument("--out", type=Path, metavar="FILE", help="the file to write; default: standard output")
    render.add_argument("--format", choices=["kubernetes", "vmalert"], default="kubernetes", help=_FORMAT)
    render.add_argument("--registry", action="store_true", help=_REGISTRY)
    options = parser.parse_args(arguments)
    try:
        plan = scaling_file.parse(options.file.read_text(encoding="utf-8"))
        found = scaling_file.scalings(plan, _rows() if options.registry else None)
    except _Unread as error:
        print(f"fleetglass scaling: {error}", file=sys.stderr)
        return error.status
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


class _Unread(Exception):
    """The registry was not read; the text says why."""

    def __init__(self, said: str, status: int) -> None:
        super().__init__(said)
        self.status = status


def _rows() -> Mapping[str, Mapping[str, Any]]:
    settings = load_section("command")
    try:
        registry = load(str(settings["queue_profile"] or WINDFORCE.name)).registry
    except ValueError as error:
        raise _Unread(str(error), 2) from None
    if registry is None:
        raise _Unread("this profile has no registry (FLEETGLASS_QUEUE_PROFILE): leave out --registry", 2)
    if not settings["database_url"]:
        raise _Unread("DATABASE_URL is not set: postgresql://user:password@host/database", 2)
    session = Session(str(settings["database_url"]), application_name="fleetglass-scaling")
    try:
        with session.read() as connection:
            return scaling_file.read_rows(connection, registry)
    except (psycopg.Error, TimeoutError) as error:
        raise _Unread(f"{reason(error)}: {str(error).partition(chr(10))[0]}", 1) from None
    finally:
        session.close()


_RENDER = (
    "Write a ScaledObject, a TriggerAuthentication and a VMRule for each group of workers in FILE. Scaler and alerts "
)
_RENDER += "go by the same number of waiting jobs; groups whose numbers can't work are refused."
_FORMAT = "kubernetes: all objects (the default); vmalert: the rules alone, for vmalert or Prometheus"
_REGISTRY = "take what FILE does not say of a group from its row in the registry, in DATABASE_URL"
