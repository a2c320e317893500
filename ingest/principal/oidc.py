"""JSON Web Tokens of an OpenID Connect issuer (RFC 7519, with the advice of RFC 8725)."""

from __future__ import annotations

import hashlib
import os
import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

import jwt
import msgspec

from ingest.principal.caller import Principal
from ingest.principal.claims import ClaimNames, principal_of
from ingest.principal.credentials import bearer, cookie
from ingest.principal.keys import KeySet
from ingest.principal.keystore import KeyStore

MAX_TOKEN_BYTES: Final = 8 * 1024
MAX_REMEMBERED: Final = 20_000
"""Verified tokens that are kept; some 600 bytes each."""

# However late a token says that it expires, it is looked at again after a day.
_LONGEST_SECONDS = 86_400
_TYPES = frozenset({"", "jwt", "at+jwt"})
_UNREADABLE = (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError)
_REQUIRED = ["exp", "iss", "aud"]


class _Verified(msgspec.Struct, frozen=True):
    principal: Principal
    until: float
    keys: KeySet


class OidcTokens:
    """Tokens of one issuer: signature, algorithm, audience, issuer, times, and the claims that name a principal.

    A token is refused before any key is looked for when it couldn't be good whatever signed it, so that only
    tokens that name our issuer and audience ever cause a fetch. ``leeway`` is in seconds.
    """

    def __init__(
        self,
        keys: KeyStore,
        *,
        issuer: str,
        audience: tuple[str, ...],
        algorithms: tuple[str, ...],
        leeway: float = 30.0,
        names: ClaimNames | None = None,
        max_remembered: int = MAX_REMEMBERED,
    ) -> None:
        self._keys = keys
        self._issuer = issuer
        self._audience = audience
        self._algorithms = frozenset(algorithms)
        self._leeway = leeway
        self._names = names or ClaimNames()
        self._max_remembered = max_remembered
        self._remembered: OrderedDict[bytes, _Verified] = OrderedDict()
        self._digest_key = os.urandom(32)

    async def __call__(self, scope: Mapping[str, Any], /) -> Principal | None:
        """The principal of the token in ``Authorization: Bearer``."""
        token = bearer(scope)
        return None if token is None else await self.find(token)

    async def find(self, token: bytes, *, ambient: bool = False) -> Principal | None:
        """The principal of ``token``; None for a token that isn't good. Raises ``Unavailable`` without keys."""
        if len(token) > MAX_TOKEN_BYTES:
            return None
        # The same token in a cookie is another principal: its requests need an origin.
        digest = hashlib.blake2b(token, key=self._digest_key, digest_size=32, person=b"ambient" * ambient).digest()
        known = self._remembered.get(digest)
        if known is not None:
            # Keys that were replaced, or have become too old, take the tokens they signed with them.
            if known.until > time.time() and self._keys.current() is known.keys:
                self._remembered.move_to_end(digest)
                return known.principal
            del self._remembered[digest]
        alg, kid = self._promising(token)
        if alg is None:
            return None
        keys, claims = await self._verified(token, alg, kid)
        principal = None if claims is None else principal_of(claims, self._names, ambient=ambient)
        if principal is not None and claims is not None:
            expiry = min(int(claims["exp"]), int(time.time()) + _LONGEST_SECONDS)
            self._remember(digest, _Verified(principal, expiry + self._leeway, keys))
        return principal

    def _remember(self, digest: bytes, verified: _Verified) -> None:
        self._remembered[digest] = verified
        while len(self._remembered) > self._max_remembered:
            self._remembered.popitem(last=False)

    def _promising(self, token: bytes) -> tuple[str | None, str | None]:
        """Algorithm and key id of a token that would be good if its signature is; ``(None, None)`` for others."""
        if token.count(b".") != 2:  # five parts are an encrypted token
            return None, None
        try:
            header = jwt.get_unverified_header(token)
            jwt.decode(
                token,
                audience=self._audience,
                issuer=self._issuer,
                leeway=self._leeway,
                options={
                    "verify_signature": False,
                    "verify_exp": True,
                    "verify_nbf": True,
                    "verify_iat": True,
                    "verify_aud": True,
                    "verify_iss": True,
                    "require": _REQUIRED,
                },
            )
        except _UNREADABLE:
            return None, None
        alg, kid, kind = header.get("alg"), header.get("kid"), header.get("typ", "")
        # Extensions that a token declares critical are none that we know (RFC 7515, section 4.1.11). A typ of another
        # kind is a token made for something else, such as a logout (RFC 8725, section 3.11).
        if "crit" in header or "b64" in header or "enc" in header or not isinstance(kind, str):
            return None, None
        if not isinstance(alg, str) or alg not in self._algorithms:
            return None, None
        if kind.lower().removeprefix("application/") not in _TYPES:
            return None, None
        return alg, kid if isinstance(kid, str) else None

    async def _verified(self, token: bytes, alg: str, kid: str | None) -> tuple[KeySet, dict[str, Any] | None]:
        keys = await self._keys.available()
        claims = self._check(token, alg, kid, keys)
        if claims is None:
            # The issuer may have new keys, under a new name, under the same one, or under none.
            await self._keys.renew()
            renewed = self._keys.current()
            if renewed is not None and renewed is not keys:
                return renewed, self._check(token, alg, kid, renewed)
        return keys, claims

    def _check(self, token: bytes, alg: str, kid: str | None, keys: KeySet) -> dict[str, Any] | None:
        for key in keys.candidates(kid, alg):
            try:
                return jwt.decode(
                    token,
                    key=key.public,
                    algorithms=[alg],
                    audience=self._audience,
                    issuer=self._issuer,
                    leeway=self._leeway,
                    options={"require": _REQUIRED},
                )
            except _UNREADABLE:
                continue
        return None


class TokenCookie:
    """A token in a cookie, for consoles that keep their session in one."""

    def __init__(self, name: str, tokens: OidcTokens) -> None:
        self._name = name.encode()
        self._tokens = tokens

    async def __call__(self, scope: Mapping[str, Any], /) -> Principal | None:
        """The principal of the cookie's token; its requests need an origin that is allowed."""
        token = cookie(scope, self._name)
        return None if token is None else await self._tokens.find(token, ambient=True)
