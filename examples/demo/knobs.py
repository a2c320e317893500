"""What the page may press beside the shop: the platform's API, passed on under the page's own origin, and its pods."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from typing import Any, Literal

import httpx
from litestar import Litestar, Request, Response, post, route
from litestar.connection import ASGIConnection
from litestar.enums import HttpMethod
from litestar.exceptions import NotAuthorizedException, NotFoundException, PermissionDeniedException
from litestar.handlers import HTTPRouteHandler
from litestar.handlers.base import BaseRouteHandler
from opentelemetry.instrumentation.utils import suppress_http_instrumentation

from examples.platform.cluster import Cluster
from ingest.principal import Principal

# What the platform's API server answers; the rest under /api is the shop's and the ingest service's.
_PATHS = (
    "/api/jobs",
    "/api/actions/{tag:str}",
    "/api/groups/{group:str}",
    "/api/admin/fleet",
    "/api/admin/coverage",
)
_METHODS = [HttpMethod.GET, HttpMethod.POST, HttpMethod.PUT, HttpMethod.PATCH, HttpMethod.DELETE]
_HANDED_ON = ("authorization", "content-type")


def platform_client(address: str) -> Any:
    """A lifespan that keeps a client of the platform's API server in ``app.state.platform``."""

    @asynccontextmanager
    async def lifespan(app: Litestar) -> AsyncIterator[None]:
        async with httpx.AsyncClient(base_url=address, timeout=15.0) as client:
            app.state.platform = client
            yield

    return lifespan


@route(list(_PATHS), http_method=_METHODS, include_in_schema=False)
async def pass_on(request: Request[Any, Any, Any]) -> Response[bytes]:
    """The platform's answer. What a page asks every second makes no trace of its own."""
    client: httpx.AsyncClient = request.app.state.platform
    headers = {name: request.headers[name] for name in _HANDED_ON if name in request.headers}
    with suppress_http_instrumentation() if request.url.path.startswith("/api/admin/") else nullcontext():
        try:
            answer = await client.request(
                request.method,
                request.url.path,
                params=request.url.query,
                content=await request.body(),
                headers=headers,
            )
        except httpx.HTTPError as error:
            return Response(f"The platform does not answer: {error!r}".encode(), status_code=504)
    return Response(
        answer.content, status_code=answer.status_code, media_type=answer.headers.get("content-type", "text/plain")
    )


def pod_routes(cluster: Cluster, tokens: Mapping[str, Principal]) -> list[HTTPRouteHandler]:
    """``POST /demo/pods/{pod}/kill`` and ``/drain``, for operators: no other page that is open can press them."""

    def operators_only(connection: ASGIConnection[Any, Any, Any, Any], _: BaseRouteHandler) -> None:
        principal = tokens.get(connection.headers.get("authorization", "").removeprefix("Bearer "))
        if principal is None:
            raise NotAuthorizedException
        if "super_admin" not in principal.roles:
            raise PermissionDeniedException

    def end(how: Literal["kill", "drain"]) -> Callable[..., None]:
        def handler(pod: str) -> None:
            if not cluster.end(pod, drain=how == "drain"):
                raise NotFoundException(f"No pod {pod} runs; there are {', '.join(sorted(cluster.pods()))}.")

        return handler

    return [
        post(
            f"/demo/pods/{{pod:str}}/{how}",
            guards=[operators_only],
            status_code=204,
            sync_to_thread=False,
            include_in_schema=False,
        )(end(how))
        for how in ("kill", "drain")
    ]
