"""``fleetglass grafana VERB``: dashboards, datasources and what lint says about them. A verb is a row of ``VERBS``."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Final

VERBS: Final[Mapping[str, tuple[str, str]]] = {
    "datasources": ("write the datasource provisioning file of Grafana", "telemetry.grafana.datasources_command:run"),
    "export": ("write dashboards as files or ConfigMaps", "telemetry.grafana.export_command:run"),
    "import": ("bring dashboards into a running Grafana", "telemetry.grafana.remote.import_command:run"),
    "lint": ("find what breaks in dashboards, datasources and alert rules", "telemetry.grafana.lint.command:run"),
    "render": ("draw a dashboard or a panel into a PNG file", "telemetry.grafana.remote.render_command:run"),
}
"""Each verb's line for the overview, and its function as ``module:function``, from arguments to an exit status."""


def command(arguments: list[str]) -> int:
    """Run ``fleetglass grafana``; the exit status: 0 done, 1 failed, 2 called wrongly."""
    if not arguments or arguments[0] in {"-h", "--help", "help"}:
        print(_overview())
        # A bare --help ends as argparse ends it everywhere else.
        if arguments and arguments[0] != "help":
            raise SystemExit(0)
        return 0
    verb = arguments[0]
    if verb not in VERBS:
        from telemetry.config.kinds import closest

        print(f"fleetglass grafana: no verb {verb!r}{closest(verb, VERBS)}", file=sys.stderr)
        print("fleetglass grafana --help lists the verbs.", file=sys.stderr)
        return 2
    module, _, function = VERBS[verb][1].partition(":")
    run: Callable[[list[str]], int] = getattr(importlib.import_module(module), function)
    return run(arguments[1:])


def _overview() -> str:
    width = max(map(len, VERBS))
    return "\n".join(
        [
            "usage: fleetglass grafana VERB [OPTIONS]",
            "",
            "What Grafana reads, written and checked.",
            "",
            "verbs:",
            *(f"  {verb:<{width}}  {summary}" for verb, (summary, _) in VERBS.items()),
            "",
            "fleetglass grafana VERB --help tells more.",
        ]
    )
