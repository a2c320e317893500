"""Who is speaking: the principal behind a request, and how one is found.

A resolver answers before a byte of the body is read. Static tokens, here, are for development and for
services; OIDC, a trusted proxy's headers and a host application's own sessions are further resolvers.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Mapping
from typing import Any, Protocol

import msgspec


class Principal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An authenticated caller. ``email`` and ``workspace`` go into log lines, never into labels."""

    email: str
    workspace: str = ""
    roles: tuple[str, ...] = ()


class Resolver(Protocol):
    """Finds the principal of one request.

    Called with the ASGI scope alone, so that it can't touch the body; returns None for a caller that
    presents nothing or nothing valid. It may wait (keys to fetch, a session to look up).
    """

    async def __call__(self, scope: Mapping[str, Any], /) -> Principal | None:
        """The principal, or None."""
        ...


class StaticTokens:
    """``Authorization: Bearer <token>`` against a fixed table.

    Tokens are kept and looked up as digests under a key made at start: neither the time that a comparison
    takes nor a dump of this object tells anything about a token.
    """

    def __init__(self, tokens: Mapping[str, Principal]) -> None:
        self._key = os.urandom(32)
        digests = {self._digest(token.encode()): principal for token, principal in tokens.items()}
        self._principals = {digest: (digest, principal) for digest, principal in digests.items()}

    async def __call__(self, scope: Mapping[str, Any], /) -> Principal | None:
        """The principal of the token that the request bears."""
        token = bearer(scope)
        return None if token is None else self.find(token)

    def find(self, token: bytes) -> Principal | None:
        """The principal of ``token``."""
        presented = self._digest(token)
        known = self._principals.get(presented)
        return known[1] if known is not None and hmac.compare_digest(known[0], presented) else None

    def _digest(self, token: bytes) -> bytes:
        return hashlib.blake2b(token, key=self._key, digest_size=32).digest()


def bearer(scope: Mapping[str, Any]) -> bytes | None:
    """The token of the request's only ``Authorization: Bearer`` header; None when absent, empty or doubled."""
    values = [value for name, value in scope["headers"] if name == b"authorization"]
    if len(values) != 1:
        return None
    scheme, _, token = values[0].partition(b" ")
    token = token.strip()
    return token if scheme.lower() == b"bearer" and token else None
