"""``fleetglass queue doctor`` and ``fleetglass schema print``: what reading costs, and what a platform may add."""

from __future__ import annotations

import argparse
import sys

import msgspec
import psycopg

from telemetry.config.loading import load_section
from telemetry.fleet import schema as ddl
from telemetry.fleet.doctor import examine, told
from telemetry.fleet.profiles import WINDFORCE, Profile, load
from telemetry.fleet.session import Session, reason

_MARKS = {"good": "ok", "advice": "--", "bad": "!!"}
_PROFILE = "windforce, windmill, windforce-core, or a .toml file; default: FLEETGLASS_QUEUE_PROFILE, else windforce"


def queue(arguments: list[str]) -> int:
    """Run ``fleetglass queue``; 0: all can be read, 1: something can't, 2: called wrongly."""
    parser = argparse.ArgumentParser(prog="fleetglass queue", description="The job queue of a platform.")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    doctor = verbs.add_parser("doctor", help="explain every read, and name missing indexes", description=_DOCTOR)
    doctor.add_argument("--profile", metavar="NAME|FILE", help=_PROFILE)
    doctor.add_argument("--timeout", type=float, default=2.0, metavar="SECONDS", help="for one statement; default: 2")
    doctor.add_argument("--json", action="store_true", help="as one JSON object, for programs")
    options = parser.parse_args(arguments)
    settings = load_section("command")
    if not settings["database_url"]:
        print("fleetglass queue: DATABASE_URL is not set: postgresql://user:password@host/database", file=sys.stderr)
        return 2
    profile = _profile("queue", options.profile, settings)
    if profile is None:
        return 2
    session = Session(str(settings["database_url"]), statement_timeout=options.timeout, deadline=options.timeout + 5)
    try:
        report = examine(session, profile)
    except (psycopg.Error, TimeoutError) as error:
        print(f"fleetglass queue: {reason(error)}: {str(error).partition(chr(10))[0]}", file=sys.stderr)
        return 1
    finally:
        session.close()
    if options.json:
        print(msgspec.json.format(msgspec.json.encode(report)).decode())
    else:
        for severity, sentence in told(report, profile):
            first, *rest = sentence.splitlines()
            print("\n".join([f"{_MARKS[severity]} {first}", *(f"     {line}" for line in rest)]))
    return 0 if report.well else 1


def schema(arguments: list[str]) -> int:
    """Run ``fleetglass schema``; 0: printed, 2: called wrongly."""
    parser = argparse.ArgumentParser(prog="fleetglass schema", description="What a platform may add to its database.")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    shown = verbs.add_parser("print", help="write all of it as SQL for psql", description=_PRINT)
    shown.add_argument("--profile", metavar="NAME|FILE", help=_PROFILE)
    options = parser.parse_args(arguments)
    profile = _profile("schema", options.profile, load_section("command"))
    if profile is None:
        return 2
    sys.stdout.write(ddl.script(profile))
    return 0


def _profile(command: str, named: str | None, settings: dict[str, object]) -> Profile | None:
    try:
        return load(str(named or settings["queue_profile"] or WINDFORCE.name))
    except ValueError as error:
        print(f"fleetglass {command}: {error}", file=sys.stderr)
        return None


_DOCTOR = (
    "Hold the tables of DATABASE_URL against the profile, run every read of the exporter once under EXPLAIN ANALYZE "
    "in read-only transactions, and name the indexes that are missing and what they cost. Nothing is created."
)
_PRINT = "Print the view, the lease, the table of pings, the carrier column and the indexes. Nothing is applied."
