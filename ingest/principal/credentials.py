"""Credentials as they stand in a request's headers. Each must be there once: two contradict one another.

ASGI servers give header names in lower case; HTTP/2 may split cookies over several ``cookie`` headers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ingest.principal.caller import Denied


def values(scope: Mapping[str, Any], name: bytes) -> list[bytes]:
    """The values of a header, ``name`` in lower case."""
    return [value for header, value in scope["headers"] if header == name]


def bearer(scope: Mapping[str, Any]) -> bytes | None:
    """The token of the request's only ``Authorization: Bearer`` header; None when absent, empty or doubled."""
    try:
        return only_bearer(scope)
    except Denied:
        return None


def only_bearer(scope: Mapping[str, Any]) -> bytes | None:
    """As ``bearer``, but ``Denied`` for several ``Authorization`` headers."""
    found: bytes | None = None
    for name, value in scope["headers"]:
        if name == b"authorization":
            if found is not None:
                raise Denied("several Authorization headers")
            found = value
    if found is None:
        return None
    scheme, _, token = found.partition(b" ")
    token = token.strip()
    return token if scheme.lower() == b"bearer" and token else None


def cookie(scope: Mapping[str, Any], name: bytes) -> bytes | None:
    """The value of a cookie; None when absent or empty, ``Denied`` when it is there twice.

    A browser sends a cookie twice when a neighbouring subdomain has planted one of the same name.
    """
    found = [
        value.strip().strip(b'"')
        for header in values(scope, b"cookie")
        for pair in header.split(b";")
        for key, equals, value in [pair.partition(b"=")]
        if equals and key.strip() == name
    ]
    if len(found) > 1:
        raise Denied("a cookie that is there twice")
    return found[0] or None if found else None
