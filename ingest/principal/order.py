"""Several resolvers at once, in a fixed order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from ingest.principal.caller import Denied, Principal, Resolver
from ingest.principal.credentials import only_bearer


class TokenFinder(Protocol):
    """Knows tokens by their bytes; ``StaticTokens`` and ``OidcTokens`` do."""

    async def find(self, token: bytes) -> Principal | None:
        """The principal of ``token``, or None."""
        ...


class BearerTokens:
    """``Authorization: Bearer`` against several finders in their order.

    A token that none of them knows is ``Denied``, so that a request with an expired token never falls back to
    another identity that it carries as well.
    """

    def __init__(self, *finders: TokenFinder) -> None:
        self._finders = finders

    async def __call__(self, scope: Mapping[str, Any], /) -> Principal | None:
        """The principal of the request's token; None without one."""
        token = only_bearer(scope)
        if token is None:
            return None
        for finder in self._finders:
            if (principal := await finder.find(token)) is not None:
                return principal
        raise Denied("a token that nobody knows")


class FirstOf:
    """The first of several resolvers that knows the caller; ``Denied`` and ``Unavailable`` end the search."""

    def __init__(self, *resolvers: Resolver) -> None:
        self._resolvers = resolvers

    async def __call__(self, scope: Mapping[str, Any], /) -> Principal | None:
        """The principal, or None when nobody knows the caller."""
        for resolver in self._resolvers:
            if (principal := await resolver(scope)) is not None:
                return principal
        return None
