"""``fleetglass grafana datasources``: the datasource provisioning file, to a file or to stdout."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from telemetry.grafana.datasources import Settings, text


def run(arguments: list[str]) -> int:
    """Write the file; the exit status."""
    options = _parser().parse_args(arguments)
    content = text(
        Settings(
            metrics_url=options.metrics_url,
            logs_url=options.logs_url,
            traces_url=options.traces_url,
            tenant=options.tenant,
            scrape_interval=options.scrape_interval,
            replace=options.replace,
        )
    )
    if options.out == "-":
        print(content, end="")
        return 0
    path = Path(options.out)
    try:
        written = not path.exists() or path.read_text("utf-8") != content
        if written:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, "utf-8")
    except OSError as error:
        print(f"fleetglass grafana datasources: {path} can't be written: {error.strerror}", file=sys.stderr)
        return 1
    print(f"{'written  ' if written else 'unchanged'}  {path}")
    return 0


def _parser() -> argparse.ArgumentParser:
    default = Settings()
    parser = argparse.ArgumentParser(
        prog="fleetglass grafana datasources",
        description="Write the file that provisions VictoriaMetrics, Loki and Tempo in Grafana, with all links between "
        "them. Values may hold ${NAME} or $__file{PATH}, which Grafana fills in.",
    )
    add = parser.add_argument
    add("out", metavar="OUT", help="file to write, in provisioning/datasources; - writes to stdout")
    add("--metrics-url", default=default.metrics_url, metavar="URL", help="VictoriaMetrics (default: %(default)s)")
    add("--logs-url", default=default.logs_url, metavar="URL", help="Loki, without a path (default: %(default)s)")
    add("--traces-url", default=default.traces_url, metavar="URL", help="Tempo (default: %(default)s)")
    add("--tenant", metavar="TENANT", help="sent to Loki and Tempo as X-Scope-OrgID, such as ${TENANT}")
    add("--scrape-interval", default=default.scrape_interval, metavar="TIME", help="default: %(default)s")
    add("--replace", action="store_true", help="delete datasources of these names first: needed once to change uids")
    return parser
