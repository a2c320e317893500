"""Dashboards into Grafana, idempotently: what is there already and the same is left alone.

A dashboard is the resource ``dashboard.grafana.app``, its folder ``folder.grafana.app``; the shapes are those of
Grafana's documentation (*Dashboard HTTP API*, *Folder HTTP API*, Grafana 13).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal

import msgspec

from telemetry.grafana.remote.api import Grafana, GrafanaError, decoded
from telemetry.version import VERSION

DASHBOARDS: Final = "dashboard.grafana.app"
FOLDERS: Final = "folder.grafana.app"

FOLDER: Final = "grafana.app/folder"
MESSAGE: Final = "grafana.app/message"
MANAGER: Final = "grafana.app/managedBy"

SERVERS_OWN: Final = frozenset({"id", "uid", "version"})
"""Fields of a dashboard that the server keeps itself: the name of the resource is the uid."""

Act = Literal["create", "update", "nothing"]
ACTS: Final[dict[Act, str]] = {"create": "created", "update": "updated", "nothing": "unchanged"}


class Board(msgspec.Struct, frozen=True):
    """A dashboard in classic JSON."""

    uid: str
    model: Mapping[str, Any]

    @property
    def spec(self) -> dict[str, Any]:
        """What is sent."""
        return {key: value for key, value in self.model.items() if key not in SERVERS_OWN}


class Imported(msgspec.Struct, frozen=True):
    """What became of one dashboard."""

    uid: str
    title: str
    act: Act


def folder_uid(title: str) -> str:
    """The uid of the folder that is called ``title``: the same for good, in Grafana's characters, 40 at most."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:40] or "fleetglass"


def decide(there: Mapping[str, Any] | None, board: Board, folder: str) -> Act:
    """What is to be done with ``board``, given the resource that is ``there`` now.

    Raises GrafanaError for a dashboard that is provisioned: Grafana would refuse, and the files would win anyway.
    """
    if there is None:
        return "create"
    annotations = there.get("metadata", {}).get("annotations") or {}
    spec = {key: value for key, value in there.get("spec", {}).items() if key not in SERVERS_OWN}
    if spec == board.spec and annotations.get(FOLDER, "") == folder:
        return "nothing"
    if manager := annotations.get(MANAGER):
        raise GrafanaError(f"dashboard {board.uid} is provisioned there (by {manager}); change it where it comes from")
    return "update"


def resource(board: Board, *, version: str, namespace: str, folder: str, revision: str = "") -> dict[str, Any]:
    """The resource to send. ``revision`` is the ``resourceVersion`` that an update replaces."""
    annotations = {MESSAGE: f"fleetglass {VERSION}"} | ({FOLDER: folder} if folder else {})
    metadata = {"name": board.uid, "namespace": namespace, "annotations": annotations}
    return {
        "apiVersion": f"{DASHBOARDS}/{version}",
        "kind": "Dashboard",
        "metadata": metadata | ({"resourceVersion": revision} if revision else {}),
        "spec": board.spec,
    }


def put(grafana: Grafana, boards: Iterable[Board], *, folder: str = "", dry_run: bool = False) -> Iterator[Imported]:
    """Bring ``boards`` into Grafana, into the folder of that title (made if need be); one at a time, as they are done.

    Raises GrafanaError; what was brought in before stays.
    """
    version, path = grafana.resource(DASHBOARDS, "dashboards")
    uid = folder_uid(folder) if folder else ""
    if folder and not dry_run:
        _make_folder(grafana, folder, uid)
    for board in boards:
        there = _there(grafana, f"{path}/{board.uid}")
        act = decide(there, board, uid)
        if act != "nothing" and not dry_run:
            revision = there["metadata"]["resourceVersion"] if there else ""
            body = resource(board, version=version, namespace=grafana.namespace, folder=uid, revision=revision)
            method, where = ("POST", path) if act == "create" else ("PUT", f"{path}/{board.uid}")
            answer = grafana.ask(method, where, json=body)
            if answer.status_code == 409:
                raise GrafanaError(f"dashboard {board.uid} was changed by somebody else just now; run the import again")
            decoded(answer)
        yield Imported(board.uid, str(board.model.get("title", "")), act)


def _make_folder(grafana: Grafana, title: str, uid: str) -> None:
    version, path = grafana.resource(FOLDERS, "folders")
    if _there(grafana, f"{path}/{uid}") is not None:
        return
    metadata = {"name": uid, "namespace": grafana.namespace}
    body = {"apiVersion": f"{FOLDERS}/{version}", "kind": "Folder", "metadata": metadata, "spec": {"title": title}}
    # 409: somebody made it since we looked.
    decoded(grafana.ask("POST", path, json=body), fine=(200, 201, 409))


def _there(grafana: Grafana, path: str) -> dict[str, Any] | None:
    answer = grafana.ask("GET", path)
    if answer.status_code == 404:
        return None
    found: dict[str, Any] = decoded(answer)
    return found
