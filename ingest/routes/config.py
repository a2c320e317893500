"""``GET /api/config``: what the console may know before anybody has signed in."""

from __future__ import annotations

import msgspec
from litestar.handlers import HTTPRouteHandler, get

PATH = "/api/config"


class ConsoleConfig(msgspec.Struct, frozen=True):
    """``feedback_url`` is an ``https`` or ``mailto`` address, or null: the console then hides *Send feedback*."""

    feedback_url: str | None


def config_route(feedback_url: str | None) -> HTTPRouteHandler:
    """The route that says ``feedback_url``, checked by ``ingest.settings`` already."""
    config = ConsoleConfig(feedback_url)

    @get(PATH, sync_to_thread=False, summary="Console configuration", tags=["console"])
    def console_config() -> ConsoleConfig:
        return config

    return console_config
