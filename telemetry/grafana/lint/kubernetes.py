"""Rules on Kubernetes objects that carry dashboards, datasources and rules, and on Kustomizations that make them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from telemetry.grafana.lint.documents import Place
from telemetry.grafana.lint.findings import Finding
from telemetry.grafana.lint.things import Things

SUBSTITUTE: Final = "kustomize.toolkit.fluxcd.io/substitute"
SIDECAR_LABELS: Final = ("grafana_dashboard", "grafana_datasource", "grafana_alert")
_RULES: Final = frozenset({"VMRule", "PrometheusRule", "GrafanaDashboard"})
_MIB: Final = 1 << 20
_APPLIED: Final = 256 << 10
"""Bytes of all annotations together: client-side apply keeps a copy of the object in one."""


def lint(things: Things) -> Iterator[Finding]:
    """All findings on Kubernetes objects."""
    for place in things.objects:
        data = place.value
        kind, version = str(data.get("kind")), str(data.get("apiVersion"))
        name = str(_map(data.get("metadata")).get("name", ""))
        place = place.named(f"{kind} {name}")
        if kind == "Kustomization":
            yield from _kustomization(place)
            continue
        boards = _holds(things, place, dashboards=True)
        carries = boards or _holds(things, place, dashboards=False)
        if carries or kind in _RULES or version.startswith("dashboard.grafana.app/"):
            yield from _substitution(place)
        if kind in {"ConfigMap", "Secret"}:
            yield from _labels(place, "grafana_dashboard" if boards else "grafana_datasource" if carries else "")
            yield from _size(place)


def _holds(things: Things, place: Place, *, dashboards: bool) -> bool:
    found = [board.place for board in things.boards] if dashboards else things.provisioning
    inside = f"{place.where},"
    return any(each.document.file == place.document.file and each.document.inside.startswith(inside) for each in found)


def _substitution(place: Place) -> Iterator[Finding]:
    metadata = _map(place.value.get("metadata"))
    marks = [_map(metadata.get("labels")).get(SUBSTITUTE), _map(metadata.get("annotations")).get(SUBSTITUTE)]
    if "disabled" in marks:
        return
    first = next(_variables(place), None)
    if first is not None:
        variable = first[1][first[1].index("${") :].split("}")[0] + "}"
        message = f"Flux's postBuild would replace {variable}: add the label {SUBSTITUTE}: disabled."
        yield place.found("flux-substitution", message)


def _variables(place: Place) -> Iterator[tuple[Place, str]]:
    data = place.value
    if isinstance(data, str):
        if "${" in data and "}" in data[data.index("${") :]:
            yield place, data
    elif isinstance(data, dict):
        for key in data:
            yield from _variables(place / key)
    elif isinstance(data, list):
        for index in range(len(data)):
            yield from _variables(place / index)


def _labels(place: Place, wanted: str) -> Iterator[Finding]:
    labels = _map(_map(place.value.get("metadata")).get("labels"))
    base = place / "metadata" / "labels"
    for label in SIDECAR_LABELS:
        if label in labels:
            yield from _label(base / label, label, labels[label])
    if wanted and wanted not in labels:
        message = f'Grafana\'s sidecar looks for the label {wanted}: "1"; without it, something else must mount this.'
        yield place.found("configmap-label", message, "notice")


def _label(place: Place, label: str, value: Any) -> Iterator[Finding]:
    if not isinstance(value, str):
        message = f'{label} is {value!r}, which is no string: write {label}: "1", with the quotes.'
        yield place.found("configmap-label", message)
    elif value != "1":
        message = f'{label} is {value!r}; the sidecar looks for "1" unless it was told otherwise.'
        yield place.found("configmap-label", message, "notice")


def _size(place: Place) -> Iterator[Finding]:
    data = place.value
    texts = [*_map(data.get("data")).values(), *_map(data.get("binaryData")).values()]
    size = sum(len(text.encode()) for text in texts if isinstance(text, str))
    if size >= _MIB:
        message = f"The data has {size:,} bytes, and an object may have 1 MiB: make a ConfigMap for each dashboard."
        yield place.found("configmap-size", message)
    elif size >= _APPLIED:
        message = f"The data has {size:,} bytes: apply it with --server-side, which keeps no second copy."
        yield place.found("configmap-size", message, "notice")


def _kustomization(place: Place) -> Iterator[Finding]:
    """Kustomizations that make ConfigMaps: labels are those of the generator and of all generators."""
    general = _map(_map(place.value.get("generatorOptions")).get("labels"))
    generators = place.value.get("configMapGenerator")
    for index, generator in enumerate(generators if isinstance(generators, list) else []):
        own = _map(_map(_map(generator).get("options")).get("labels"))
        labels = general | own
        at = (place / "configMapGenerator" / index).named(f"generator {_map(generator).get('name', '')}")
        for label in SIDECAR_LABELS:
            if label in labels:
                yield from _label(at, label, labels[label])
                if labels.get(SUBSTITUTE) != "disabled":
                    message = (
                        f"Flux's postBuild would replace ${{…}} in what is made: add the label {SUBSTITUTE}: disabled."
                    )
                    yield at.found("flux-substitution", message)


def _map(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
