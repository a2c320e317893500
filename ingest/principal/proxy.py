"""Headers in which a trusted proxy says who is speaking."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from ingest.principal.caller import Denied, Principal
from ingest.principal.claims import plain_email
from ingest.principal.credentials import values

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_MAPPED = ipaddress.IPv6Network("::ffff:0:0/96")


class ProxyHeaders:
    """Headers by the names given, from connections whose peer lies in ``networks``; nothing from others.

    Only the peer of the connection itself counts: no ``X-Forwarded-For`` is read, so no further hop is trusted.
    The server must leave ``scope["client"]`` as the socket says it (uvicorn: ``proxy_headers=False``).
    """

    def __init__(
        self,
        networks: Iterable[str],
        *,
        email: str,
        workspace: str | None = None,
        workspaces: str | None = None,
        roles: str | None = None,
    ) -> None:
        self._networks = tuple(_plain_network(ipaddress.ip_network(network)) for network in networks)
        names = {"email": email, "workspace": workspace, "workspaces": workspaces, "roles": roles}
        self._names = {field: name.lower().encode() for field, name in names.items() if name is not None}
        self._is_trusted = lru_cache(maxsize=1024)(self._look_up)

    async def __call__(self, scope: Mapping[str, Any], /) -> Principal | None:
        """The principal that the proxy names; None without an email. ``Denied`` for a header that is there twice."""
        if not self.trusts(scope.get("client")):
            return None
        said = {field: text for field, name in self._names.items() if (text := _one(scope, name)) is not None}
        if "email" not in said:
            return None
        # Some servers join headers of one name with a comma: two emails are none.
        email = plain_email(said["email"])
        if email is None or "," in email:
            raise Denied("a proxy's header without a proper email")
        workspace = said.get("workspace", "")
        workspaces = _listed(said["workspaces"]) if "workspaces" in said else None
        if not workspace and workspaces is not None and len(workspaces) == 1:
            workspace = workspaces[0]
        return Principal(email, workspace, _listed(said.get("roles", "")), workspaces, ambient=True)

    def trusts(self, client: Any) -> bool:
        """Whether the peer (the scope's ``client``: host and port) is one of the proxies. A Unix socket has none."""
        return bool(client) and isinstance(client[0], str) and self._is_trusted(client[0])

    def _look_up(self, host: str) -> bool:
        try:
            address = _plain_address(ipaddress.ip_address(host.partition("%")[0]))
        except ValueError:
            return False
        return any(address in network for network in self._networks if network.version == address.version)


def _one(scope: Mapping[str, Any], name: bytes) -> str | None:
    found = values(scope, name)
    if len(found) > 1:
        raise Denied("a proxy's header that is there twice")
    if not found or not found[0].strip():
        return None
    try:
        text = found[0].decode().strip()
    except UnicodeDecodeError:
        raise Denied("a proxy's header that is no UTF-8") from None
    if not text.isprintable():
        raise Denied("a proxy's header with control characters")
    return text


def _listed(text: str) -> tuple[str, ...]:
    return tuple(word for part in text.split(",") if (word := part.strip()))


def _plain_address(address: Address) -> Address:
    """IPv4 where a dual-stack socket wrote it as ``::ffff:192.0.2.7``."""
    return (address.ipv4_mapped or address) if isinstance(address, ipaddress.IPv6Address) else address


def _plain_network(network: Network) -> Network:
    if isinstance(network, ipaddress.IPv6Network) and network.prefixlen >= 96 and network.subnet_of(_MAPPED):
        plain = network.network_address.ipv4_mapped
        return ipaddress.ip_network(f"{plain}/{network.prefixlen - 96}")
    return network
