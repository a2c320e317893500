"""From verified claims, or a proxy's words, to a principal. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from ingest.principal.caller import Principal

MAX_EMAIL: Final = 320
"""Characters of an email (RFC 3696, errata 1690); what is longer, or holds blanks or controls, is none."""

_SEPARATORS = re.compile(r"[\s,]+")


class ClaimNames(msgspec.Struct, frozen=True, kw_only=True):
    """Which claims say what. A name is looked up as it stands, then as a path of objects separated by dots."""

    email: str = "email"
    workspace: str = "workspace"
    workspaces: str = "workspaces"
    roles: str = "roles"
    require_verified: bool = False


def principal_of(claims: Mapping[str, Any], names: ClaimNames, *, ambient: bool) -> Principal | None:
    """The principal that the claims name; None without an email, or with one that isn't verified.

    Without a workspace of its own a caller with just one workspace has that one.
    """
    email = plain_email(_claim(claims, names.email))
    if email is None or not _verified(claims, names.require_verified):
        return None
    own = _claim(claims, names.workspace)
    workspace = own.strip() if isinstance(own, str) else ""
    named = _claim(claims, names.workspaces)
    workspaces = None if named is None else _words(named)
    if not workspace and workspaces is not None and len(workspaces) == 1:
        workspace = workspaces[0]
    return Principal(email, workspace, _words(_claim(claims, names.roles)), workspaces, ambient)


def plain_email(value: object) -> str | None:
    """An email as one printable word; None for anything else."""
    if not isinstance(value, str):
        return None
    email = value.strip()
    return email if email and len(email) <= MAX_EMAIL and email.isprintable() and " " not in email else None


def _verified(claims: Mapping[str, Any], required: bool) -> bool:
    # Some issuers write the claim as text. One that doesn't write it vouches for the email, or is no issuer to use.
    said = claims.get("email_verified")
    if said is None:
        return not required
    return said is True or (isinstance(said, str) and said.lower() == "true")


def _claim(claims: Mapping[str, Any], name: str) -> Any:
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        if not isinstance(found, Mapping) or part not in found:
            return None
        found = found[part]
    return found


def _words(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(word for word in _SEPARATORS.split(value) if word)
    return tuple(word for word in value if isinstance(word, str) and word) if isinstance(value, list) else ()
