"""Rules on how the programs are run: images and arguments in compose files, pods and Helm values."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from telemetry.grafana.lint.documents import Document, Place
from telemetry.grafana.lint.findings import Finding
from telemetry.grafana.lint.walk import Container, containers, environment, listed, mappings

NAMING_FLOOR: Final = (1, 142)
"""First VictoriaMetrics in which Prometheus naming of OTLP metrics doesn't leak a unit (VictoriaMetrics#10889)."""
_NAMING = re.compile(r"-opentelemetry\.(usePrometheusNaming|convertMetricNamesToPrometheus)(?!=false)\b")
_VERSION = re.compile(r"v?(\d+)\.(\d+)")
_OURS = re.compile(r"(^|/)(grafana|victoriametrics|prom|prometheus)/")
_VICTORIA = re.compile(r"(^|/)(victoria-metrics|vmsingle|vminsert|vmagent)$")
_ALLOY = re.compile(r"(^|/)alloy$")
_STORAGE = re.compile(r"--storage\.path[= ](\S+)")
_IMAGE_DATA: Final = "/var/lib/alloy/data"
"""Where Alloy's image keeps its data when no argument says otherwise."""


def lint(document: Document) -> Iterator[Finding]:
    """All findings on images, arguments and environments in one document."""
    for container in containers(document):
        yield from _pin(container)
        yield from _naming(container)
        yield from _promtail(container)
        if _ALLOY.search(container.image):
            yield from _storage(container)
    for place in mappings(Place(document)):
        if isinstance(place.value.get("alloy"), dict):
            yield from _alloy_chart(place / "alloy")
        for variable in environment(place):
            yield from _loki_address(variable.name, variable.value, variable.place)
        yield from _exporters(place)
        yield from _receivers(place)


def _pin(container: Container) -> Iterator[Finding]:
    if _OURS.search(container.image) and container.tag in {"", "latest", "stable"}:
        which = f"the tag {container.tag!r}" if container.tag else "no tag"
        yield container.place.found("image-pin", f"{container.image} has {which}: name a version.")


def _naming(container: Container) -> Iterator[Finding]:
    if not _NAMING.search(container.arguments) or not (_VICTORIA.search(container.image) or not container.image):
        return
    version = _VERSION.match(container.tag)
    if version is None:
        if container.image:
            message = f"With Prometheus naming of OTLP metrics, name a version of {container.image} from 1.142 on."
            yield container.place.found("vm-version", message, "notice")
    elif (int(version[1]), int(version[2])) < NAMING_FLOOR:
        message = (
            f"VictoriaMetrics {container.tag} with Prometheus naming of OTLP metrics gives units of some metrics to "
            "others: take 1.142 or later."
        )
        yield container.place.found("vm-version", message)


def _promtail(container: Container) -> Iterator[Finding]:
    if container.image.endswith("grafana/promtail"):
        yield container.place.found("loki-leftover", "Promtail is gone since Loki 3.8: take Alloy, loki.source.file.")
    if re.search(r"(^|/)loki$", container.image):
        match = re.search(r"-target[= ](read|write|backend)\b", container.arguments)
        if match:
            message = f"The target {match[1]!r} (simple scalable) is going: run one process (-target=all)."
            yield container.place.found("loki-leftover", message)


def _storage(container: Container) -> Iterator[Finding]:
    given = _STORAGE.search(container.arguments)
    path = given[1] if given else _IMAGE_DATA
    mounts = list(_mounts(container.place.value))
    if not path.startswith("/"):
        message = f"--storage.path is {path!r}, which depends on the working directory: name a path on a volume."
        yield container.place.found("alloy-storage", message)
    elif not any(path == mount or path.startswith(f"{mount.rstrip('/')}/") for mount in mounts):
        message = f"Nothing is mounted at {path}, where Alloy keeps positions and the WAL of metrics: mount a volume."
        yield container.place.found("alloy-storage", message)


def _mounts(data: dict[str, Any]) -> Iterator[str]:
    for volume in listed(data.get("volumes")):
        if isinstance(volume, str) and ":" in volume:
            yield volume.split(":")[1]
        elif isinstance(volume, dict) and volume.get("type") != "tmpfs":
            yield str(volume.get("target", ""))
    for mount in listed(data.get("volumeMounts")):
        if isinstance(mount, dict):
            yield str(mount.get("mountPath", ""))


def _alloy_chart(place: Place) -> Iterator[Finding]:
    """Values of Alloy's chart: its storage path is /tmp/alloy, on no volume, unless both are given."""
    data = place.value
    if not ({"configMap", "storagePath", "clustering", "mounts"} & data.keys()):
        return
    path = data.get("storagePath", "/tmp/alloy")  # noqa: S108  what the chart does when nothing is said
    mounts = data.get("mounts")
    extra = mounts.get("extra") if isinstance(mounts, dict) else None
    paths = [str(mount.get("mountPath")) for mount in listed(extra) if isinstance(mount, dict)]
    if not any(str(path) == mount or str(path).startswith(f"{mount.rstrip('/')}/") for mount in paths):
        message = (
            f"Nothing is mounted at {path}, where Alloy keeps positions and the WAL of metrics: set storagePath, and "
            "mount a volume there (mounts.extra, controller.volumes.extra)."
        )
        yield place.found("alloy-storage", message)


def _loki_address(name: str, value: str, place: Place) -> Iterator[Finding]:
    if name.startswith("OTEL_EXPORTER_OTLP") and "/loki/api/v1/push" in value:
        message = f"{name} speaks OTLP, and {value} takes pushes: write …/otlp (or …/otlp/v1/logs for logs alone)."
        yield place.found("loki-path", message)
    if name == "FLEETGLASS_LOKI_URL" and re.search(r"/otlp(/|$)|/v1/logs$", value):
        message = f"{name} is pushed to, and {value} takes OTLP: leave the path out."
        yield place.found("loki-path", message)


def _exporters(place: Place) -> Iterator[Finding]:
    """Exporters of an OpenTelemetry Collector, by key: ``otlphttp/loki``."""
    exporters = place.value.get("exporters")
    for name, data in exporters.items() if isinstance(exporters, dict) else ():
        if not isinstance(data, dict) or not str(name).startswith(("otlphttp", "otlp_http")):
            continue
        for key in ("endpoint", "logs_endpoint"):
            value = data.get(key)
            if isinstance(value, str) and "/loki/api/v1/push" in value:
                message = f"{name} speaks OTLP, and {value} takes pushes: end the endpoint in /otlp."
                yield (place / "exporters" / name / key).found("loki-path", message)


def _receivers(place: Place) -> Iterator[Finding]:
    """OTLP receivers of Tempo or a Collector: without an endpoint they listen on localhost."""
    receivers = place.value.get("receivers")
    for name, data in receivers.items() if isinstance(receivers, dict) else ():
        if str(name).partition("/")[0] != "otlp":
            continue
        protocols = data.get("protocols") if isinstance(data, dict) else None
        at = place / "receivers" / name
        if not isinstance(protocols, dict) or not protocols:
            message = "Name protocols and their endpoints, such as grpc: {endpoint: 0.0.0.0:4317}."
            yield at.found("otlp-receiver", message)
            continue
        for protocol, options in protocols.items():
            endpoint = options.get("endpoint") if isinstance(options, dict) else None
            where = at / "protocols" / protocol
            port = 4318 if protocol == "http" else 4317
            if not isinstance(endpoint, str) or not endpoint:
                message = (
                    f"The {protocol} receiver names no endpoint, so it listens on localhost, where nothing else "
                    f'reaches it: write endpoint: "0.0.0.0:{port}".'
                )
                yield where.found("otlp-receiver", message)
            elif endpoint.startswith(("localhost:", "127.", "[::1]")):
                message = f"The {protocol} receiver listens on {endpoint}: other machines don't reach it."
                yield where.found("otlp-receiver", message, "notice")
