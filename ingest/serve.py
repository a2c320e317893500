"""``fleetglass serve``: the ingest service under uvicorn, with telemetry of its own."""

from __future__ import annotations

import argparse
import contextlib
import logging
from collections.abc import Sequence
from typing import Final

import uvicorn

import telemetry
from ingest.app import create_app
from ingest.settings import Settings
from telemetry.config import ConfigError, Problem, load, split_address

SERVICE: Final = "fleetglass-ingest"
"""``service.name`` where the environment gives none."""

# What is being answered when the process is told to end gets this long, in seconds.
_GRACE = 5

_log = logging.getLogger("ingest")


def command(arguments: Sequence[str]) -> int:
    """Run ``fleetglass serve`` until SIGINT or SIGTERM; returns the exit status. Raises ``ConfigError``."""
    parser = argparse.ArgumentParser(
        prog="fleetglass serve",
        description="Take browser errors over HTTP and write one log line each. Settings come from the environment; "
        "'fleetglass config' shows them all.",
    )
    parser.add_argument("--listen", metavar="HOST:PORT", help="where to listen (FLEETGLASS_LISTEN)")
    options = parser.parse_args(arguments)
    settings, service = _settings(options.listen)
    host, port = split_address(settings.listen)
    with telemetry.setup(service=service, role="server"):
        if not (settings.tokens or settings.oidc_issuer or settings.trusted_proxies):
            _log.warning(
                "nobody may speak (FLEETGLASS_TOKENS, FLEETGLASS_OIDC_ISSUER, FLEETGLASS_TRUSTED_PROXIES): "
                "every report will be answered 401"
            )
        config = uvicorn.Config(
            create_app(settings),
            host=host,
            port=port,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # trusted proxies are told by the socket's peer, which X-Forwarded-For would replace
            timeout_graceful_shutdown=_GRACE,
        )
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run()
    return 0


def _settings(listen: str | None) -> tuple[Settings, str | None]:
    """The service's settings and its name, with everything that is wrong in one error."""
    problems: dict[Problem, None] = {}
    settings = library = None
    try:
        settings = Settings.load({"listen": listen})
    except ConfigError as error:
        problems.update(dict.fromkeys(error.problems))
    try:
        library = load()
    except ConfigError as error:
        problems.update(dict.fromkeys(error.problems))
    if settings is None or library is None:
        raise ConfigError(tuple(problems))
    return settings, SERVICE if library.sources["service"] == "default" else None
