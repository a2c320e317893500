"""``fleetglass serve``: the ingest service under uvicorn, with telemetry of its own."""

from __future__ import annotations

import argparse
import contextlib
import logging
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import uvicorn

import telemetry
from ingest.app import create_app
from ingest.settings import Settings
from telemetry.config import ConfigError, Problem, load, load_section, split_address

if TYPE_CHECKING:
    from ingest.routes.fleet import Snapshots
    from telemetry.fleet.observer import Observer

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
    observing, fleet = _fleet() if settings.fleet else (contextlib.nullcontext(), None)
    with telemetry.setup(service=service, role="server"), observing:
        if not (settings.tokens or settings.oidc_issuer or settings.trusted_proxies):
            _log.warning(
                "nobody may speak (FLEETGLASS_TOKENS, FLEETGLASS_OIDC_ISSUER, FLEETGLASS_TRUSTED_PROXIES): "
                "every report will be answered 401"
            )
        config = uvicorn.Config(
            create_app(settings, fleet=fleet),
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


def _fleet() -> tuple[Observer, Snapshots]:
    """An observer of the platform's database, and what it knows. Raises ``ConfigError``."""
    given = load_section("command")
    try:
        from telemetry.fleet.observer import Observer
        from telemetry.fleet.profiles import WINDFORCE
        from telemetry.fleet.profiles import load as load_profile
        from telemetry.fleet.snapshot import snapshot
    except ModuleNotFoundError as missing:
        needs = f"{missing.name}, which is not installed: pip install 'fleetglass[fleet]'"
        raise ConfigError((Problem("FLEETGLASS_FLEET", "true", needs),)) from None
    named = str(given["queue_profile"] or WINDFORCE.name)
    try:
        profile = load_profile(named)
    except ValueError as error:
        raise ConfigError((Problem("FLEETGLASS_QUEUE_PROFILE", repr(named), str(error)),)) from None
    if not given["database_url"]:
        wanted = "the platform's PostgreSQL, since FLEETGLASS_FLEET asks for it"
        raise ConfigError((Problem("DATABASE_URL", "(unset)", wanted),))
    observer = Observer(str(given["database_url"]), profile=profile)
    return observer, partial(snapshot, observer)
