"""ASGI's shapes, as loose as the frameworks that meet here need them.

Starlette types a scope as a mutable mapping and Litestar as a family of TypedDicts; a middleware that
wraps either can promise neither.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
ASGIApp = Callable[..., Awaitable[None]]

MARK: Final = "fleetglass.exchange"
"""The scope key of a request's exchange, None where it is left alone: a second middleware inside passes through."""

FASTAPI_OWN: Final = "fastapi.telemetry"
"""The scope key by which FastAPI (0.165) knows that a request is traced and measured already. Its own
instrumentation is on as soon as a tracer provider is installed, and would count every request again."""
