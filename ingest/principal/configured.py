"""The resolver that the settings describe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingest.principal.caller import Resolver
from ingest.principal.order import BearerTokens, FirstOf, TokenFinder
from ingest.principal.proxy import ProxyHeaders
from ingest.principal.tokens import StaticTokens

if TYPE_CHECKING:
    from ingest.principal.oidc import OidcTokens
    from ingest.settings import Settings


def configured_resolver(settings: Settings) -> Resolver:
    """Whoever may speak by these settings, in this order: static tokens, OIDC tokens, the cookie, the proxy.

    What a caller presents on purpose comes before what its browser attaches by itself.
    """
    finders: list[TokenFinder] = [StaticTokens(settings.tokens)] if settings.tokens else []
    ambient: list[Resolver] = []
    if settings.oidc_issuer is not None:
        from ingest.principal.oidc import TokenCookie  # cryptography takes its time to load

        tokens = _oidc_tokens(settings, settings.oidc_issuer)
        finders.append(tokens)
        if settings.oidc_cookie is not None:
            ambient.append(TokenCookie(settings.oidc_cookie, tokens))
    if settings.trusted_proxies:
        ambient.append(
            ProxyHeaders(
                settings.trusted_proxies,
                email=settings.proxy_email_header,
                workspace=settings.proxy_workspace_header,
                workspaces=settings.proxy_workspaces_header,
                roles=settings.proxy_roles_header,
            )
        )
    # Where no tokens are configured, Authorization is somebody else's business: a proxy may pass its own on.
    resolvers: list[Resolver] = [BearerTokens(*finders)] if finders else []
    resolvers += ambient
    return resolvers[0] if len(resolvers) == 1 else FirstOf(*resolvers)


def _oidc_tokens(settings: Settings, issuer: str) -> OidcTokens:
    from ingest.principal.claims import ClaimNames
    from ingest.principal.issuer import Issuer
    from ingest.principal.keystore import KeyStore
    from ingest.principal.oidc import OidcTokens

    return OidcTokens(
        KeyStore(Issuer(issuer, settings.oidc_jwks_url).keys, stale=settings.oidc_stale_keys),
        issuer=issuer,
        audience=settings.oidc_audience,
        algorithms=settings.oidc_algorithms,
        leeway=settings.oidc_leeway,
        names=ClaimNames(
            email=settings.oidc_email_claim,
            workspace=settings.oidc_workspace_claim,
            workspaces=settings.oidc_workspaces_claim,
            roles=settings.oidc_roles_claim,
            require_verified=settings.oidc_require_verified,
        ),
    )
