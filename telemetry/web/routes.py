"""Which route answered: a template (``/users/{id}``), never the path that was asked for.

Litestar and Starlette write into the scope what their routers found, so the template is read after the
application has run. A request that no route took (404, most 405) has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# The label value of requests that no route took.
UNMATCHED = "unmatched"

# What stands for the rest of the path under a mounted application, as Starlette writes it.
REST = "/{path}"


def template(scope: Mapping[str, Any], path: str, root_path: str) -> str | None:
    """The route template of an answered request, ``None`` when no route took it.

    ``path`` and ``root_path`` are what the server had put into the scope before any router ran: routers
    shorten the one, and mounts lengthen the other. A prefix that the server knows (a proxy strips it)
    belongs to the deployment and is left out; one that a mount adds belongs to the route.
    """
    route = scope.get("route")
    handler = scope.get("route_handler")
    if handler is None:
        return None if route is None else _starlette(scope, route, root_path)
    found: str = scope.get("path_template") or "/"
    if found == "/" and getattr(handler, "is_mount", False):
        # Litestar 2.25 gives every mounted application the template of the root node.
        found = _litestar_mount(scope, handler, path.removeprefix(scope.get("root_path", ""))) + REST
    if route is None:
        return found
    if found.endswith(REST):  # a Starlette application inside a Litestar mount
        return found[: -len(REST)] + (_starlette(scope, route, root_path) or REST)
    return _mounted_at(scope, route, root_path) + found  # Litestar inside a Starlette mount


def _starlette(scope: Mapping[str, Any], route: Any, root_path: str) -> str | None:
    path = _own_path(scope, route)
    if path is None:
        return None  # a Host route has no path
    if scope.get("root_path", "") == root_path:
        return path or "/"
    if hasattr(route, "routes"):  # the request ended at a mount: its application has no routes, or none matched
        return _mounted_at(scope, route, root_path) + REST
    return _named(_added(scope, root_path), scope, path) + path


def _own_path(scope: Mapping[str, Any], route: Any) -> str | None:
    """The path that ``route`` was declared with, below the mounts around it."""
    fastapi = scope.get("fastapi")
    if fastapi:
        # FastAPI 0.165 keeps the routes of an included router as they are, and the prefix beside them.
        included = fastapi.get("effective_route_context")
        if getattr(included, "original_route", None) is route:
            route = included
    path = getattr(route, "path_format", None) or getattr(route, "path", None)
    return path if isinstance(path, str) else None


def _mounted_at(scope: Mapping[str, Any], mount: Any, root_path: str) -> str:
    """The template of the path that ``mount`` and the mounts around it have taken."""
    own = "/".join(_plain(part) for part in (getattr(mount, "path", "") or "").split("/"))
    taken = _added(scope, root_path).split("/")
    around = taken[: len(taken) - own.count("/")]
    return _named("/".join(around), scope, own) + own


def _added(scope: Mapping[str, Any], root_path: str) -> str:
    """What mounts have added to ``root_path``, with the values that their parameters matched."""
    full: str = scope.get("root_path", "")
    return full.removeprefix(root_path)


def _named(taken: str, scope: Mapping[str, Any], own: str) -> str:
    """``taken`` with path parameters' values put back to names, but for those that ``own`` has itself."""
    parameters: Mapping[str, Any] = scope.get("path_params") or {}
    names = {str(value): f"{{{name}}}" for name, value in parameters.items() if f"{{{name}}}" not in own}
    return "/".join(names.get(part, part) for part in taken.split("/"))


def _plain(segment: str) -> str:
    """``{tenant:int}`` as ``{tenant}``."""
    return segment.partition(":")[0] + "}" if segment.startswith("{") and ":" in segment else segment


def _litestar_mount(scope: Mapping[str, Any], handler: Any, path: str) -> str:
    """The path that ``handler`` is mounted at, empty for the root.

    The scope keeps only the rest of the path, and the handler only its own part of it, without that of
    the routers around it. A mount has no path parameters, so its path is a template as it stands.
    """
    routes = getattr(scope.get("litestar_app"), "routes", ())
    mounts = {route.path.rstrip("/") for route in routes if getattr(route, "route_handler", None) is handler}
    fitting = [mount for mount in mounts if f"{path}/".startswith(f"{mount}/")]
    return max(fitting or mounts, key=len, default="")
