"""Static tokens, for development and for services."""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from ingest.principal.caller import Principal
from ingest.principal.credentials import bearer


class StaticTokens:
    """``Authorization: Bearer <token>`` against a fixed table.

    Tokens are kept and looked up as digests under a key made at start: neither the time that a comparison
    takes nor a dump of this object tells anything about a token.
    """

    def __init__(self, tokens: Mapping[str, Principal]) -> None:
        self._key = os.urandom(32)
        self._principals: dict[bytes, tuple[bytes, Principal]] = {}
        for token, principal in tokens.items():
            digest = self._digest(token.encode())
            if principal.ambient is None:  # no browser attaches a bearer token by itself
                principal = replace(principal, ambient=False)
            self._principals[digest] = digest, principal

    async def __call__(self, scope: Mapping[str, Any], /) -> Principal | None:
        """The principal of the token that the request bears."""
        token = bearer(scope)
        return None if token is None else await self.find(token)

    async def find(self, token: bytes) -> Principal | None:
        """The principal of ``token``."""
        presented = self._digest(token)
        known = self._principals.get(presented)
        return known[1] if known is not None and hmac.compare_digest(known[0], presented) else None

    def _digest(self, token: bytes) -> bytes:
        return hashlib.blake2b(token, key=self._key, digest_size=32).digest()
