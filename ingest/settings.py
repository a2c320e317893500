"""What the ingest service is told at start, checked: a service with a wrong setting does not start."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from ingest.errors.noise import REASONS
from ingest.principal import Principal
from telemetry.config import load_section


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the service; ``ConfigError`` for one that can't be used, made by ``load`` or by hand.

    ``listen`` is ``host:port``. ``feedback_url`` is an ``https`` or ``mailto`` address, since pages show it as
    a link. ``tokens`` are static bearer tokens and whom each stands for. ``allowed_origins`` are other web origins
    whose pages may send reports, as browsers write them in ``Origin``. ``metrics_public`` is False where
    ``/metrics`` answers only a caller with a token, ``fleet`` True where ``fleetglass serve`` observes the fleet.
    ``oidc_*``, ``trusted_proxies`` and ``proxy_*_header`` say whose word counts for who is speaking,
    ``workspace_header`` how a caller chooses a workspace, ``admin_roles`` who reads what only those who run the
    platform may; docs/principals.md. ``limit_*``, ``dedupe_window`` and ``store_url`` bound what is taken
    (``ingest.limits``), ``noise`` are the reasons for which a report is dropped (``ingest.errors.noise``),
    ``sourcemaps`` is a directory of them. ``repr`` hides the tokens and the store's password.
    """

    listen: str = "127.0.0.1:8000"
    feedback_url: str | None = None
    tokens: Mapping[str, Principal] = {}
    allowed_origins: tuple[str, ...] = ()
    metrics_public: bool = True
    fleet: bool = False

    limit_rate: float = 1.0
    limit_burst: int = 20
    limit_ceiling: float = 5000.0
    limit_fingerprints: int = 20
    limit_principals: int = 100_000
    limit_windows: int = 50_000
    dedupe_window: float = 10.0
    noise: tuple[str, ...] = REASONS
    sourcemaps: str | None = None
    store_url: str | None = None

    oidc_issuer: str | None = None
    oidc_audience: tuple[str, ...] = ()
    oidc_jwks_url: str | None = None
    oidc_algorithms: tuple[str, ...] = ("RS256", "ES256", "EdDSA")
    oidc_leeway: float = 30.0
    oidc_stale_keys: float = 3600.0
    oidc_cookie: str | None = None
    oidc_email_claim: str = "email"
    oidc_workspace_claim: str = "workspace"
    oidc_workspaces_claim: str = "workspaces"
    oidc_roles_claim: str = "roles"
    oidc_require_verified: bool = False
    trusted_proxies: tuple[str, ...] = ()
    proxy_email_header: str = "X-Forwarded-Email"
    proxy_workspace_header: str | None = None
    proxy_workspaces_header: str | None = None
    proxy_roles_header: str | None = None
    workspace_header: str = "X-Workspace"
    admin_roles: tuple[str, ...] = ("super_admin",)

    def __post_init__(self) -> None:
        load_section("ingest", msgspec.structs.asdict(self), {})

    @classmethod
    def load(cls, arguments: Mapping[str, object] | None = None, environ: Mapping[str, str] = os.environ) -> Settings:
        """From arguments by field name, then ``FLEETGLASS_*`` and ``FEEDBACK_URL``, then defaults."""
        values: dict[str, Any] = load_section("ingest", arguments, environ)
        values["tokens"] = msgspec.convert(values["tokens"], dict[str, Principal])
        return cls(**values)

    def __repr__(self) -> str:
        hidden = {"tokens", "store_url"}
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__struct_fields__ if name not in hidden)
        return f"Settings({shown}, tokens=<{len(self.tokens)}>)"
