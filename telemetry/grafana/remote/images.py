"""Images of dashboards and panels, through Grafana's ``/render`` and the grafana-image-renderer behind it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from telemetry.grafana.remote.api import Grafana, GrafanaError, said

PNG: Final = b"\x89PNG\r\n\x1a\n"
WHOLE_PAGE: Final = -1


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """What to draw. Sizes count pixels (``height`` -1: as high as the page is), ``timeout`` seconds.

    ``panel`` is a panel's id, None the whole dashboard; ``begin`` and ``end`` are times as Grafana writes them
    (``now-6h``, or Unix milliseconds); ``variables`` are those of the dashboard.
    """

    uid: str
    panel: int | None = None
    begin: str = "now-6h"
    end: str = "now"
    width: int = 1600
    height: int = WHOLE_PAGE
    theme: str = "light"
    timezone: str = "UTC"
    scale: float = 1
    timeout: int = 60
    variables: Mapping[str, str] = {}


class Listed(msgspec.Struct, frozen=True):
    """A dashboard that is there."""

    uid: str
    title: str
    folder: str


def address(picture: Picture, organisation: int) -> tuple[str, dict[str, str]]:
    """Path and query of the request that draws ``picture``."""
    path = f"/render/d{'' if picture.panel is None else '-solo'}/{picture.uid}/_"
    query = {
        "orgId": str(organisation),
        "from": picture.begin,
        "to": picture.end,
        "width": str(picture.width),
        "height": str(picture.height),
        "theme": picture.theme,
        "tz": picture.timezone,
        "scale": f"{picture.scale:g}",
        "timeout": str(picture.timeout),
    }
    query |= {"kiosk": "true"} if picture.panel is None else {"panelId": str(picture.panel)}
    return path, query | {f"var-{name}": value for name, value in picture.variables.items()}


def listed(grafana: Grafana) -> tuple[Listed, ...]:
    """The dashboards that these credentials see, by folder and title. Raises GrafanaError."""
    found: list[Listed] = []
    page = 1
    while True:
        rows: list[dict[str, Any]] = grafana.read(
            "/api/search", params={"type": "dash-db", "limit": 1000, "page": page}
        )
        found += [Listed(row["uid"], row["title"], row.get("folderTitle", "")) for row in rows]
        if len(rows) < 1000:
            return tuple(sorted(found, key=lambda each: (each.folder, each.title, each.uid)))
        page += 1


def drawn(grafana: Grafana, picture: Picture) -> bytes:
    """The PNG. Raises GrafanaError when there is no such dashboard, no renderer, or no image came."""
    if not grafana.read("/api/frontend/settings").get("rendererAvailable", True):
        # Without this question Grafana answers 200, with an image of a sentence.
        raise GrafanaError(
            "Grafana has no image renderer: run grafana-image-renderer and set GF_RENDERING_SERVER_URL and "
            "GF_RENDERING_CALLBACK_URL, with one token for both (GF_RENDERING_RENDERER_TOKEN, AUTH_TOKEN)"
        )
    known = {each.uid for each in listed(grafana)}
    if picture.uid not in known:
        raise GrafanaError(f"there is no dashboard {picture.uid!r}; `fleetglass grafana render --list` shows which are")
    path, query = address(picture, grafana.organisation)
    answer = grafana.ask("GET", path, params=query, timeout=picture.timeout + 10)
    if answer.status_code != 200:
        raise GrafanaError(
            f"Grafana could not draw {picture.uid} ({answer.status_code}): {said(answer)}; its log and the renderer's "
            "say more, a 401 there means that their tokens differ"
        )
    if not answer.content.startswith(PNG):
        kind = answer.headers.get("content-type", "no content type")
        raise GrafanaError(f"Grafana answered with {kind} in place of an image: is the address right?")
    return answer.content
