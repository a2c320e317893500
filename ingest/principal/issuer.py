"""Fetching an issuer's keys: bounded in time and size, without redirects, never on the event loop's account."""

from __future__ import annotations

import asyncio
import ssl
from typing import Final

import httpx
import msgspec

from ingest.principal.keys import KeySet, read_keys
from telemetry.config.principals import trusted

TIMEOUT_SECONDS: Final = 5.0
"""For one fetch as a whole, from the name's look-up to the last byte."""
MAX_BYTES: Final = 256 * 1024
"""Of one document; the key sets of large issuers have some 10 KiB."""

_DISCOVERY = "/.well-known/openid-configuration"
_HEADERS = {"accept": "application/json", "accept-encoding": "identity"}


class FetchFailed(Exception):
    """The keys could not be had. ``str()`` is a clause for a log line."""


class Issuer:
    """Where an issuer's keys are, given or discovered (OpenID Connect Discovery 1.0, section 4)."""

    def __init__(
        self, issuer: str, jwks_url: str | None = None, *, timeout: float = TIMEOUT_SECONDS, max_bytes: int = MAX_BYTES
    ) -> None:
        self._issuer = issuer
        self._given_url = jwks_url
        self._discovered_url: str | None = None
        self._timeout = timeout
        self._max_bytes = max_bytes
        self._tls: ssl.SSLContext | None = None

    async def keys(self) -> KeySet:
        """The keys as they are now. Raises ``FetchFailed``."""
        try:
            async with asyncio.timeout(self._timeout):
                return await self._keys()
        except TimeoutError:
            self._discovered_url = None
            raise FetchFailed(f"no complete answer within {self._timeout:g} s") from None
        except FetchFailed:
            self._discovered_url = None
            raise

    async def _keys(self) -> KeySet:
        url = self._given_url or self._discovered_url or await self._discover()
        document = await self._get(url)
        try:
            found = read_keys(document)
        except ValueError as error:
            raise FetchFailed(f"{error} ({url})") from None
        self._discovered_url = url
        return found

    async def _discover(self) -> str:
        url = self._issuer.rstrip("/") + _DISCOVERY
        try:
            said = msgspec.json.decode(await self._get(url))
        except (msgspec.DecodeError, RecursionError):
            raise FetchFailed(f"the configuration is not JSON ({url})") from None
        if not isinstance(said, dict) or said.get("issuer") != self._issuer:
            raise FetchFailed(f"the configuration is not that of the issuer ({url})")
        keys_url = said.get("jwks_uri")
        if not isinstance(keys_url, str) or not trusted(keys_url):
            raise FetchFailed(f"the configuration names no https address of keys ({url})")
        return keys_url

    async def _get(self, url: str) -> bytes:
        if self._tls is None:  # reading the system's certificates takes some 20 ms
            self._tls = await asyncio.to_thread(ssl.create_default_context)
        body = bytearray()
        try:
            async with (
                httpx.AsyncClient(
                    verify=self._tls,
                    headers=_HEADERS,
                    timeout=self._timeout,
                    follow_redirects=False,
                    trust_env=url.startswith("https:"),  # plain http is for loopback, past any proxy
                ) as client,
                client.stream("GET", url) as response,
            ):
                if response.status_code != 200:
                    raise FetchFailed(f"answered {response.status_code} ({url})")
                if response.headers.get("content-encoding", "identity").lower() != "identity":
                    raise FetchFailed(f"answered compressed, though asked not to ({url})")
                async for chunk in response.aiter_raw():
                    body += chunk
                    if len(body) > self._max_bytes:
                        raise FetchFailed(f"answered more than {self._max_bytes:,} bytes ({url})")
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            raise FetchFailed(f"{type(error).__name__}: {error} ({url})") from error
        return bytes(body)
