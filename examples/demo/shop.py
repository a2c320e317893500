"""A small API of the kind that windforce or gShare would run: one order, priced and checked in two calls."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from litestar import Litestar, Request, Response, get, post
from litestar.exceptions import HTTPException
from litestar.handlers import HTTPRouteHandler

import telemetry

_log = logging.getLogger("shop")
_SKUS = {1042: "glass-pane", 1043: "window-frame"}


class PaymentRefused(RuntimeError):
    """The provider said no, which this example does not handle."""


def shop_client(base_url: str) -> Any:
    """A lifespan that keeps one HTTP client, which calls the service itself, in ``app.state.client``."""

    @asynccontextmanager
    async def lifespan(app: Litestar) -> AsyncIterator[None]:
        async with httpx.AsyncClient(base_url=base_url, timeout=5.0) as client:
            app.state.client = client
            yield

    return lifespan


async def _work(milliseconds: float) -> None:
    """Stand in for a query or a computation of about this length."""
    await asyncio.sleep(milliseconds * random.uniform(0.7, 1.3) / 1000)  # noqa: S311 - no secret, only variety


@get("/api/orders/{order_id:int}")
async def order(request: Request[Any, Any, Any], order_id: int) -> dict[str, Any]:
    """One order with its price and stock, each from a call of its own."""
    if order_id not in _SKUS:
        raise HTTPException(status_code=404, detail=f"There is no order {order_id}.")
    sku = _SKUS[order_id]
    client: httpx.AsyncClient = request.app.state.client
    with telemetry.span("orders.load", order_id=order_id):
        await _work(12)
    price, stock = await asyncio.gather(client.get(f"/api/prices/{sku}"), client.get(f"/api/stock/{sku}"))
    with telemetry.span("orders.render"):
        await _work(4)
    _log.info("order loaded", extra={"order_id": order_id, "sku": sku})
    return {"order": order_id, "sku": sku, **price.raise_for_status().json(), **stock.raise_for_status().json()}


@get("/api/prices/{sku:str}")
async def price(sku: str) -> dict[str, Any]:
    """What one piece costs."""
    with telemetry.span("prices.compute", sku=sku):
        await _work(18)
    return {"price": 42}


@get("/api/stock/{sku:str}")
async def stock(sku: str) -> dict[str, Any]:
    """How many pieces there are."""
    with telemetry.span("stock.query", sku=sku):
        await _work(9)
    return {"stock": 7}


@post("/api/orders/{order_id:int}/checkout")
async def checkout(request: Request[Any, Any, Any], order_id: int) -> Response[dict[str, Any]]:
    """Pay an order: always fails, because the payment does."""
    client: httpx.AsyncClient = request.app.state.client
    with telemetry.span("orders.reserve", order_id=order_id):
        await _work(10)
    paid = await client.post("/api/payments", json={"order": order_id})
    if paid.is_error:
        _log.error("checkout failed", extra={"order_id": order_id, "payment_status": paid.status_code})
        return Response({"detail": "The payment failed."}, status_code=502)
    return Response({"order": order_id, "paid": True})


@post("/api/payments")
async def pay(data: dict[str, Any]) -> dict[str, Any]:
    """Charge the customer: the part that fails."""
    with telemetry.span("provider.charge", order_id=data.get("order", 0)):
        await _work(25)
        raise PaymentRefused("the provider answered: card expired")


def shop_routes() -> list[HTTPRouteHandler]:
    """The example's routes."""
    return [order, price, stock, checkout, pay]
