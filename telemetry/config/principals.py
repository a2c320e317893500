"""Kinds of settings that say who may speak: issuers, networks of proxies, names of headers and claims."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from urllib.parse import urlsplit

from telemetry.config.addresses import url
from telemetry.config.kinds import Invalid, Kind, items, one_line

ALGORITHMS = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
)  # fmt: skip
"""Signatures with a public key (RFC 7518, RFC 8037). HMAC and ``none`` can't be chosen."""

PROXY_FIELDS = ("proxy_workspace_header", "proxy_workspaces_header", "proxy_roles_header")
"""Settings that name headers which a proxy may set beside the email."""

_FIELD_NAME = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"  # RFC 9110 §5.6.2: names of headers and cookies
_LOOPBACK = r"localhost|127(\.\d{1,3}){3}|::1"
# Headers that mean something already; naming one of them would let every caller choose who it is.
_TAKEN = ("authorization", "cookie", "host", "origin", "content-length", "content-type", "sec-fetch-site")


def issuer_url() -> Kind:
    """An issuer's identifier (OpenID Connect Discovery 1.0, section 2): https, or http on loopback; no query."""
    return _trusted_kind(
        "an https:// URL with a host (http:// only on loopback), without user, query and fragment", "?"
    )


def keys_url() -> Kind:
    """A URL from which keys are taken: https, or http on loopback. Some issuers tell policies apart by the query."""
    return _trusted_kind("an https:// URL with a host (http:// only on loopback), without user and fragment")


def _trusted_kind(expected: str, without: str = "#") -> Kind:
    inner = url()

    def read(value: object) -> str:
        try:
            address = str(inner.read(value))
        except Invalid:
            raise Invalid(expected) from None
        if not trusted(address) or without in address:
            raise Invalid(expected)
        return address

    return Kind("https URL", read)


def trusted(address: str) -> bool:
    """Whether keys may be taken from this URL: nobody on the way can change them."""
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
    except ValueError:
        return False
    safe = parts.scheme == "https" or (parts.scheme == "http" and re.fullmatch(_LOOPBACK, host) is not None)
    return safe and bool(host) and "@" not in parts.netloc and not parts.fragment


def networks() -> Kind:
    """CIDRs separated by commas, each in its shortest form; a lone address stands for itself."""
    expected = "networks separated by commas, such as 10.1.0.0/16, 192.0.2.7 or fd00::/8, host bits zero, never /0"

    def read(value: object) -> tuple[str, ...]:
        import ipaddress

        found: dict[str, None] = {}
        for item in items(value, expected):
            try:
                network = ipaddress.ip_network(one_line(item, expected))
            except ValueError:
                raise Invalid(expected) from None
            if network.prefixlen == 0:
                raise Invalid(expected)
            found[str(network)] = None
        return tuple(found)

    return Kind("comma-separated networks", read)


def header_name() -> Kind:
    """The name of a request header of one's own choice."""
    expected = f"the name of a request header, none of {', '.join(_TAKEN)}"

    def read(value: object) -> str:
        name = one_line(value, expected)
        if not re.fullmatch(_FIELD_NAME, name) or name.lower() in _TAKEN:
            raise Invalid(expected)
        return name

    return Kind("header name", read)


def cookie_name() -> Kind:
    """The name of a cookie."""
    expected = "the name of a cookie"

    def read(value: object) -> str:
        name = one_line(value, expected)
        if not re.fullmatch(_FIELD_NAME, name):
            raise Invalid(expected)
        return name

    return Kind("cookie name", read)


def texts() -> Kind:
    """Texts separated by commas, in order, each once."""
    expected = "texts separated by commas"

    def read(value: object) -> tuple[str, ...]:
        return tuple(dict.fromkeys(one_line(item, expected) for item in items(value, expected)))

    return Kind("comma-separated texts", read)


def contradictions(values: Mapping[str, object], refused: Collection[str]) -> Iterator[tuple[str, str]]:
    """Settings that are wrong only together: the field to blame, and what was expected.

    Those in ``refused`` stand at their defaults and prove nothing.
    """
    if values["oidc_issuer"] and not values["oidc_audience"] and "oidc_audience" not in refused:
        yield "oidc_issuer", "an audience beside the issuer (oidc_audience, FLEETGLASS_OIDC_AUDIENCE)"
    if not values["oidc_issuer"] and "oidc_issuer" not in refused:
        for field in ("oidc_audience", "oidc_jwks_url", "oidc_cookie"):
            if values[field]:
                yield field, "an issuer beside it (oidc_issuer, FLEETGLASS_OIDC_ISSUER)"
    seen: set[str] = set()
    for field in ("proxy_email_header", *PROXY_FIELDS, "workspace_header"):
        name = values[field]
        if not isinstance(name, str):
            continue
        if name.lower() in seen:
            yield field, "a header of its own: one header can't say two things"
        seen.add(name.lower())
