"""Dashboards as the files that Grafana's provisioning, or the sidecar of its Helm chart, reads.

A ConfigMap for the sidecar carries the label ``grafana_dashboard: "1"``; the folder is an annotation. Flux rewrites
``${…}`` in what it applies where a Kustomization substitutes, and dashboards are full of it, so each ConfigMap asks
to be left alone (fluxcd/flux2-monitoring-example#44; ``kustomize.toolkit.fluxcd.io/substitute: disabled``, which
Flux takes as a label or an annotation).
"""

from __future__ import annotations

import re
from typing import Any, Final

from telemetry.grafana.shipped import Document

DASHBOARD_LABEL: Final = "grafana_dashboard"
FOLDER_ANNOTATION: Final = "grafana_folder"
"""What the sidecar is told in ``sidecar.dashboards.folderAnnotation``; the chart's own default is none."""
SUBSTITUTE: Final = "kustomize.toolkit.fluxcd.io/substitute"
CONFIGMAP_LIMIT: Final = 1024 * 1024
"""Bytes that a ConfigMap may hold (Kubernetes, *ConfigMaps*)."""


class TooLargeError(ValueError):
    """A dashboard does not fit into a ConfigMap."""


def configmap_name(uid: str) -> str:
    """A name by the rules of Kubernetes (RFC 1123 label) for the dashboard ``uid``."""
    return re.sub(r"[^a-z0-9-]+", "-", f"dashboard-{uid}".lower())[:63].strip("-")


def configmap(board: Document, *, namespace: str = "", folder: str = "") -> dict[str, Any]:
    """The ConfigMap of ``board``; without ``namespace`` it goes where it is applied. Raises TooLargeError."""
    size = len(board.text.encode())
    if size >= CONFIGMAP_LIMIT:
        raise TooLargeError(
            f"dashboard {board.uid} has {size} bytes, and a ConfigMap holds fewer than {CONFIGMAP_LIMIT}"
        )
    metadata: dict[str, Any] = {"name": configmap_name(board.uid)}
    if namespace:
        metadata["namespace"] = namespace
    metadata["labels"] = {DASHBOARD_LABEL: "1", SUBSTITUTE: "disabled", "app.kubernetes.io/part-of": "fleetglass"}
    if folder:
        metadata["annotations"] = {FOLDER_ANNOTATION: folder}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {f"{board.uid}.json": board.text}}
