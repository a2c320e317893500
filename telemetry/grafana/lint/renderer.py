"""The renderer's token: Grafana and grafana-image-renderer must hold the same one (grafana-image-renderer#978).

Read from whatever gives it: ``grafana.ini``, environments in compose files, pods and Helm values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec

from telemetry.grafana.lint.documents import Document, Place
from telemetry.grafana.lint.findings import Finding
from telemetry.grafana.lint.walk import containers, environment, mappings

_RULE = "renderer-token"


class _Seen(msgspec.Struct):
    """What one file says about rendering."""

    server: list[Place] = []
    grafana: list[tuple[Place, str]] = []
    service: list[tuple[Place, str]] = []
    renderers: list[Place] = []


def lint(documents: Iterable[Document]) -> Iterator[Finding]:
    """Findings on the documents of one file: a compose file, the manifests of a pod each, a chart's values."""
    seen = _Seen()
    for document in documents:
        _look(document, seen)
    yield from _worthless(seen)
    if not seen.server and not seen.renderers:
        return
    if seen.server and not seen.grafana:
        message = (
            "Set renderer_token (GF_RENDERING_RENDERER_TOKEN) to the renderer's AUTH_TOKEN: renders are answered 401."
        )
        yield seen.server[0].found(_RULE, message)
    if seen.renderers and not seen.service:
        message = "Set AUTH_TOKEN to Grafana's renderer_token: the renderer refuses everything else."
        yield seen.renderers[0].found(_RULE, message)
    for _, token in seen.grafana:
        for place, other in seen.service:
            if _differ(token, other):
                message = "AUTH_TOKEN is not the same as Grafana's renderer_token: renders are answered 401."
                yield place.found(_RULE, message)


def _look(document: Document, seen: _Seen) -> None:
    for container in containers(document):
        if re.search(r"image-renderer$", container.image):
            seen.renderers.append(container.place)
    for place in mappings(Place(document)):
        data = place.value
        rendering = data.get("rendering")
        if isinstance(rendering, dict) and place.path and place.path[-1] == "grafana.ini":
            if rendering.get("server_url"):
                seen.server.append(place / "rendering" / "server_url")
            if "renderer_token" in rendering:
                seen.grafana.append((place / "rendering" / "renderer_token", str(rendering["renderer_token"] or "")))
        for variable in environment(place):
            if variable.name == "GF_RENDERING_SERVER_URL" and variable.value:
                seen.server.append(variable.place)
            elif variable.name == "GF_RENDERING_RENDERER_TOKEN":
                seen.grafana.append((variable.place, variable.value))
            elif variable.name == "AUTH_TOKEN" and _is_renderer(place):
                seen.service.append((variable.place, variable.value))


def _is_renderer(place: Place) -> bool:
    image = place.value.get("image")
    return "renderer" in str(image).lower() or any("renderer" in str(step).lower() for step in place.path)


def _worthless(seen: _Seen) -> Iterator[Finding]:
    for place, token in (*seen.grafana, *seen.service):
        if token.strip() in {"", "-"}:
            shown = f"{token!r}, which is the default" if token.strip() else "empty"
            message = f"The token is {shown}: Grafana 13 doesn't start so, or renders are answered 401. Make one up."
            yield place.found(_RULE, message)


def _differ(one: str, other: str) -> bool:
    """Whether two tokens are surely not the same: both given the same way, and differently."""
    if one.strip() in {"", "-"} or other.strip() in {"", "-"}:
        return False
    return _way(one) == _way(other) and _bare(one) != _bare(other)


def _bare(token: str) -> str:
    """A token without what compose adds to a variable: ``${TOKEN:?say it}`` is ``TOKEN``."""
    match = re.fullmatch(r"\$\{?(\w+)(?::?[?+-][^}]*)?\}?", token)
    return match[1] if match else token


def _way(token: str) -> str:
    if token.startswith("secret:"):
        return "secret"
    return "variable" if "$" in token or token.startswith("reference:") else "text"
