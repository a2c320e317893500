"""The native stack on paper: every file it needs and every command that runs, from parts, ports and one folder."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from importlib.resources import files
from pathlib import Path

import msgspec

from telemetry.stack.parts import Name

LISTEN = "127.0.0.1"
MACHINE = "node-exporter"
"""The job of the host's metrics, as Alloy's module for them calls it too."""
_HOLE = re.compile(r"@\{([a-z-]+)\}")


class Layout(msgspec.Struct, frozen=True):
    """Which parts run, on which ports, in which folder (absolute). ``programs`` are their binaries, by part."""

    folder: Path
    ports: Mapping[str, int]
    programs: Mapping[Name, str]

    @property
    def present(self) -> Collection[Name]:
        """The parts that run."""
        return self.programs.keys()

    def url(self, port: str) -> str:
        """The address of the port of that name."""
        return f"http://{LISTEN}:{self.ports[port]}"


def template(name: str) -> str:
    """A file of the package's, with its holes."""
    return (files("telemetry.stack") / "files" / name).read_text("utf-8")


def filled(name: str, values: Mapping[str, object]) -> str:
    """A file of the package's with ``@{hole}`` filled in. Raises KeyError for a hole that nothing fills."""
    return _HOLE.sub(lambda hole: str(values[hole[1]]), template(name))


def values(layout: Layout) -> dict[str, object]:
    """What fills the holes on one machine."""
    return {
        **effective_ports(layout),
        **{f"{name}-host": LISTEN for name in ("loki", "tempo", "victoriametrics", "alloy", "grafana")},
        "listen": LISTEN,
        "inside": LISTEN,
        "data": layout.folder / "data",
        "etc": layout.folder / "etc",
        "targets": layout.folder / "targets",
        "dashboards": layout.folder / "etc" / "dashboards",
        "scraped": scraped({name: f"{LISTEN}:{layout.ports[name]}" for name in layout.present}),
    }


def effective_ports(layout: Layout) -> dict[str, int]:
    """The ports, with Tempo's receivers on those that services send to where no Alloy takes them."""
    chosen = dict(layout.ports)
    if "alloy" not in layout.present:
        chosen["tempo-otlp-grpc"], chosen["tempo-otlp-http"] = chosen["otlp-grpc"], chosen["otlp-http"]
    return chosen


def scraped(addresses: Mapping[Name, str]) -> str:
    """The stack's own servers as targets of a `prometheus.scrape`, one a line."""
    return "\n".join(f'\t\t{{"__address__" = "{where}", "job" = "{job}"}},' for job, where in addresses.items())


def configuration(layout: Layout) -> dict[str, str]:
    """The files that are written over at each start, by path below the folder."""
    holes = values(layout)
    found = {}
    for name, file in (("loki", "loki.yaml"), ("tempo", "tempo.yaml"), ("alloy", "config.alloy")):
        if name in layout.present:
            found[f"etc/{file}"] = filled(file, holes)
    if "grafana" in layout.present:
        found["etc/grafana.ini"] = filled("grafana.ini", holes)
        found |= provisioning(layout, holes)
    return found


def provisioning(layout: Layout, holes: Mapping[str, object]) -> dict[str, str]:
    """What Grafana is provisioned with: datasources, and the dashboards of the package."""
    from telemetry.grafana import datasources, shipped

    addresses = datasources.Settings(
        metrics_url=layout.url("victoriametrics"), logs_url=layout.url("loki"), traces_url=layout.url("tempo")
    )
    return {
        "etc/provisioning/datasources/fleetglass.yaml": datasources.text(addresses),
        "etc/provisioning/dashboards/fleetglass.yaml": filled("dashboards.yaml", holes),
        **{f"etc/dashboards/{board.uid}.json": board.text for board in shipped.shipped()},
    }


def first_values(layout: Layout) -> str:
    """The values file of the alerts as it is at first: the stack itself is watched, no service yet."""
    # Without Alloy nobody scrapes; with it, the machine comes too.
    watched = [*((name, name) for name in layout.present), ("node", MACHINE)] if "alloy" in layout.present else []
    exporters = "\n".join(f"  - {{kind: {kind}, job: {job}}}" for kind, job in watched)
    return (
        "# What the alerts are about: your services, what is promised of them, and who is told. Written once by\n"
        "# `fleetglass stack up`, yours from then on; `fleetglass stack up` makes the rules from it again.\n"
        "runbooks: https://docs.example/fleetglass/runbooks\n"
        f"dashboards: {layout.url('grafana')}\n"
        "services: []\n"
        f"exporters:{chr(10) + exporters if exporters else ' []'}\n"
    )


def rules(text: str, name: str = "values.yaml") -> dict[str, str]:
    """The rule files that the values file ``text`` asks for, by path below the folder. Raises ValuesError."""
    from telemetry.grafana.alerts import provisioning as managed
    from telemetry.grafana.alerts import rulefiles
    from telemetry.grafana.alerts.rules import rule_set
    from telemetry.grafana.alerts.values import parse

    given = parse(text, name)
    asked = rule_set(given)
    return {
        "etc/rules/fleetglass.yaml": rulefiles.vmalert(asked, given),
        "etc/provisioning/alerting/fleetglass.yaml": managed.grafana(asked, given),
    }


def command(layout: Layout, name: Name) -> list[str]:
    """The command line that runs a part; its working directory is the folder."""
    program, etc, data = layout.programs[name], layout.folder / "etc", layout.folder / "data"
    listen = f"{LISTEN}:{layout.ports[name]}"
    if name == "victoriametrics":
        return [
            program,
            f"-storageDataPath={data}/victoriametrics",
            f"-httpListenAddr={listen}",
            "-retentionPeriod=31d",
            "-search.latencyOffset=1s",
            "-opentelemetry.usePrometheusNaming=true",
            "-memory.allowedPercent=20",
            *([f"-vmalert.proxyURL={layout.url('vmalert')}"] if "vmalert" in layout.present else []),
        ]
    if name == "vmalert":
        store = layout.url("victoriametrics")
        return [
            program,
            f"-httpListenAddr={listen}",
            f"-rule={etc}/rules/*.yaml",
            f"-datasource.url={store}",
            f"-remoteWrite.url={store}",
            f"-remoteRead.url={store}",
            "-notifier.blackhole",
            f"-external.url={layout.url('grafana')}",
        ]
    if name == "loki":
        return [program, f"-config.file={etc}/loki.yaml"]
    if name == "tempo":
        return [program, f"-config.file={etc}/tempo.yaml"]
    if name == "alloy":
        own = ["--disable-reporting", f"--server.http.listen-addr={listen}", f"--storage.path={data}/alloy"]
        return [program, "run", *own, f"{etc}/config.alloy"]
    return [program, "server", f"--homepath={home_of_grafana(program)}", f"--config={etc}/grafana.ini"]


def home_of_grafana(program: str) -> str:
    """Where a Grafana keeps what it serves: beside its `bin`, or where its package puts it."""
    beside = Path(program).resolve().parent.parent
    return str(beside) if (beside / "public").is_dir() else "/usr/share/grafana"


def environment(layout: Layout) -> dict[str, str]:
    """The variables with which a service of this machine, and `fleetglass probe`, use the stack."""
    found: dict[str, str] = {}
    if "alloy" in layout.present:
        found["OTEL_EXPORTER_OTLP_ENDPOINT"] = layout.url("otlp-http")
        found["OTEL_METRICS_EXPORTER"] = "otlp"
    else:
        if "tempo" in layout.present:
            found["OTEL_EXPORTER_OTLP_ENDPOINT"] = layout.url("otlp-http")
        if "loki" in layout.present:
            found["FLEETGLASS_LOKI_URL"] = layout.url("loki")
        elif "tempo" in layout.present:
            found["OTEL_LOGS_EXPORTER"] = "none"
        if "victoriametrics" in layout.present:
            found["FLEETGLASS_METRICS_PUSH_URL"] = layout.url("victoriametrics")
    for name, variable in (
        ("tempo", "FLEETGLASS_TEMPO_QUERY_URL"),
        ("loki", "FLEETGLASS_LOKI_QUERY_URL"),
        ("victoriametrics", "FLEETGLASS_METRICS_QUERY_URL"),
    ):
        if name in layout.present:
            found[variable] = layout.url(name)
    return found
