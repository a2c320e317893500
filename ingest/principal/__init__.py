"""Who is speaking: the principal behind a request, how one is found, and whether it may speak from there.

A resolver answers before a byte of the body is read: static tokens, OIDC tokens, a trusted proxy's headers,
or a host application's own sessions. A ``Gate`` asks one and checks origin and workspace; routes know gates.
"""

from __future__ import annotations

from ingest.principal.caller import Denied, Principal, Resolver, Unavailable
from ingest.principal.configured import configured_resolver
from ingest.principal.gate import Gate, Refused
from ingest.principal.order import BearerTokens, FirstOf
from ingest.principal.tokens import StaticTokens

__all__ = [
    "BearerTokens",
    "Denied",
    "FirstOf",
    "Gate",
    "Principal",
    "Refused",
    "Resolver",
    "StaticTokens",
    "Unavailable",
    "configured_resolver",
]
