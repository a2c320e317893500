"""A small service of a user of the library: one Litestar route, everything configured by environment variables."""

from __future__ import annotations

import logging

from litestar import Litestar, get

import telemetry
from telemetry.web import TelemetryPlugin

telemetry.setup(role="server")
logger = logging.getLogger("users")


@get("/users/{user:int}")
async def user(user: int) -> dict[str, str]:
    """One user, and a line about it."""
    logger.info("looked up", extra={"user": user, "who": "김 철수 🙂"})
    return {"name": "김 철수"}


app = Litestar([user], plugins=[TelemetryPlugin()])
