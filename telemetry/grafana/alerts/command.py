"""``fleetglass alerts VERB``: rules, contact points and routing from a values file, and their unit tests."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from telemetry.grafana.alerts import alertmanager, provisioning, rulefiles, unittests
from telemetry.grafana.alerts.records import RuleSet
from telemetry.grafana.alerts.rules import rule_set
from telemetry.grafana.alerts.values import Values, ValuesError, read

FORMATS: Final[Mapping[str, Callable[[RuleSet, Values], str]]] = {
    "alertmanager": alertmanager.alertmanager,
    "grafana": provisioning.grafana,
    "loki": rulefiles.loki,
    "prometheus": rulefiles.prometheus,
    "vmalert": rulefiles.vmalert,
    "vmrule": rulefiles.vmrule,
}
"""Each format's writer."""
DEFAULT: Final = "alerts.yaml"
# Seconds for the tests of one alert; the longest take some fifteen.
_PATIENCE: Final = 600


def command(arguments: list[str]) -> int:
    """Run ``fleetglass alerts``; the exit status: 0 done, 1 a test failed, 2 values that can't be used."""
    parser = argparse.ArgumentParser(prog="fleetglass alerts", description="Alerts from one values file.")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    render = verbs.add_parser("render", help="write rules, or what Grafana provisions", description=_RENDER)
    render.add_argument("--format", choices=sorted(FORMATS), required=True, help="who reads the file")
    render.add_argument("out", metavar="OUT", help="the file to write; - for standard output")
    test = verbs.add_parser("test", help="run the unit tests of the rules with vmalert-tool", description=_TEST)
    test.add_argument("--write", type=Path, metavar="DIR", help="only write the test files, into this folder")
    test.add_argument("--tool", default="vmalert-tool", metavar="PATH", help="vmalert-tool, if not the one on PATH")
    for each in (render, test):
        each.add_argument("--values", type=Path, default=Path(DEFAULT), metavar="FILE", help=f"default: {DEFAULT}")
    options = parser.parse_args(arguments)
    try:
        values = read(options.values)
    except ValuesError as error:
        print(f"fleetglass alerts: {error}", file=sys.stderr)
        return 2
    except (OSError, UnicodeDecodeError) as error:
        print(
            f"fleetglass alerts: {options.values} can't be read: {getattr(error, 'strerror', None) or error}",
            file=sys.stderr,
        )
        return 2
    if options.verb == "render":
        return _render(values, options.format, options.out)
    return _write(values, options.write) if options.write else _test(values, options.tool)


_RENDER = (
    "Write the rules of a values file as a VMRule, for vmalert, Prometheus or Loki's ruler; log alerts, contact points "
)
_RENDER += "and routing as a provisioning file of Grafana's; or contact points and routing for Alertmanager."
_TEST = (
    "Run the unit tests of all rules that vmalert evaluates, with vmalert-tool. It comes with VictoriaMetrics, in the "
)
_TEST += "archive vmutils."


def _render(values: Values, kind: str, out: str) -> int:
    try:
        text = FORMATS[kind](rule_set(values), values)
    except ValuesError as error:
        print(f"fleetglass alerts: {error}", file=sys.stderr)
        return 2
    if out == "-":
        sys.stdout.write(text)
    else:
        Path(out).write_text(text, encoding="utf-8")
    return 0


def _write(values: Values, folder: Path) -> int:
    for unit in unittests.units(values):
        print(unit.write(folder))
    return 0


def _test(values: Values, tool: str) -> int:
    found = shutil.which(tool)
    if found is None:
        print(
            f"fleetglass alerts: there is no {tool} on PATH; it is in VictoriaMetrics' archive vmutils", file=sys.stderr
        )
        return 2
    failed = 0
    with tempfile.TemporaryDirectory(prefix="fleetglass-alerts-") as folder:
        for unit in unittests.units(values):
            path = unit.write(Path(folder))
            said = run(found, path)
            failed += said is not None
            print(f"{'ok' if said is None else 'FAILED':<7} {unit.name}", flush=True)
            if said is not None:
                print(said)
    print(f"{failed} failed" if failed else "all passed")
    return 1 if failed else 0


def run(tool: str, tests: Path) -> str | None:
    """Run the test file ``tests`` with the vmalert-tool at ``tool``; None when all pass, else what it said."""
    done = subprocess.run(
        [tool, "unittest", f"-files={tests}"],
        cwd=tests.parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=_PATIENCE,
    )
    return None if done.returncode == 0 else f"{done.stdout}{done.stderr}".strip()
