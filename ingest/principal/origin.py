"""Where a request was made: a page of another site can send a beacon with everybody's cookies.

``text/plain`` beacons and forms need no preflight, so the server has to look itself. ``Sec-Fetch-Site`` says it
outright (https://www.w3.org/TR/fetch-metadata/); browsers without it send ``Origin`` with every POST. No page
can set either.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ingest.principal.credentials import values

_DEFAULT_PORTS = {"http": b":80", "https": b":443"}


def origin_allowed(scope: Mapping[str, Any], allowed: Collection[str] = ()) -> bool:
    """True for a request from the service's own origin, or from an origin in ``allowed``.

    Own origin is what the browser calls ``same-origin``; in browsers that don't say, it is an ``Origin`` with the
    host and port of ``Host``. A request that says neither comes from no current browser and is refused. A scheme
    is compared only where this service speaks TLS itself: behind a proxy that ends TLS it can't be known.
    """
    site, origins = values(scope, b"sec-fetch-site"), values(scope, b"origin")
    if len(site) > 1 or len(origins) > 1:
        return False
    if site == [b"same-origin"]:
        return True
    if not origins:
        return False
    origin = origins[0].decode("latin-1")
    if origin in allowed:
        return True
    return not site and _is_own(scope, origin)


def _is_own(scope: Mapping[str, Any], origin: str) -> bool:
    hosts = values(scope, b"host")
    scheme, separator, authority = origin.lower().partition("://")
    if len(hosts) != 1 or not hosts[0] or not separator or scheme not in _DEFAULT_PORTS:
        return False
    if scope.get("scheme") == "https" and scheme != "https":
        return False
    port = _DEFAULT_PORTS[scheme]
    return authority.encode("latin-1").removesuffix(port) == hosts[0].lower().removesuffix(port)
