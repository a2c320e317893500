"""Where Grafana is and who asks: from options, the environment or a Kubernetes Secret, at run time only.

Credentials are read when they are needed, kept in memory, and neither stored nor printed. There is no option for
one: command lines are seen by every process of the machine.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple

import msgspec

from telemetry.config import load_section
from telemetry.grafana.remote.kubectl import forwarded, read_secret

TOKEN_KEY: Final = "token"  # noqa: S105  (names of keys in a Secret, not what they hold)
USER_KEY: Final = "admin-user"
PASSWORD_KEY: Final = "admin-password"  # noqa: S105  (so the Grafana chart calls it)

_FORWARD: Final = re.compile(r"(?P<namespace>[a-z0-9-]+)/(?P<resource>(?:[a-z]+/)?[a-z0-9.-]+):(?P<port>\d{1,5})")
_SECRET: Final = re.compile(r"(?P<namespace>[a-z0-9-]+)/(?P<name>[a-z0-9.-]+)(?::(?P<key>[A-Za-z0-9._-]+))?")


class AccessError(Exception):
    """Grafana's address or the credentials are missing or unusable; the message says what to give."""


class Credentials(msgspec.Struct, frozen=True):
    """A service account's ``token``, or ``user`` and ``password``; ``repr`` shows neither secret."""

    token: str = ""
    user: str = ""
    password: str = ""

    def __repr__(self) -> str:
        return f"Credentials({'token' if self.token else self.user or 'none'})"


class Access(msgspec.Struct, frozen=True):
    """``url`` of Grafana without a slash at its end, the credentials, and the number of the organisation."""

    url: str
    credentials: Credentials
    organisation: int = 1


class Forward(NamedTuple):
    """A port of something in a cluster."""

    namespace: str
    resource: str
    port: int


class SecretKey(NamedTuple):
    """A Secret, and the key of a token in it; empty: the keys of the Grafana chart."""

    namespace: str
    name: str
    key: str


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options by which a command is told where Grafana is."""
    group = parser.add_argument_group(
        "Grafana",
        "Credentials come from FLEETGLASS_GRAFANA_TOKEN, or FLEETGLASS_GRAFANA_USER and FLEETGLASS_GRAFANA_PASSWORD, "
        "or from a Secret; they are neither stored nor printed.",
    )
    group.add_argument("--url", help="where Grafana is; else FLEETGLASS_GRAFANA_URL")
    group.add_argument(
        "--port-forward",
        type=forward,
        metavar="NAMESPACE/RESOURCE:PORT",
        help="reach it through a kubectl port-forward, opened and closed by this command: monitoring/grafana:80",
    )
    group.add_argument(
        "--secret",
        type=secret_key,
        metavar="NAMESPACE/NAME[:KEY]",
        help="read the credentials with kubectl: KEY is a token's; without it "
        f"{TOKEN_KEY!r}, else {USER_KEY!r} and {PASSWORD_KEY!r}, as the Grafana chart writes them",
    )
    group.add_argument("--org", type=int, default=1, metavar="ID", help="number of the organisation (default: 1)")


def forward(text: str) -> Forward:
    """``NAMESPACE/RESOURCE:PORT``; a bare name is a Service. For argparse."""
    match = _FORWARD.fullmatch(text)
    if not match or not 0 < int(match["port"]) < 65536:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAMESPACE/RESOURCE:PORT, such as monitoring/grafana:80")
    resource = match["resource"]
    return Forward(match["namespace"], resource if "/" in resource else f"service/{resource}", int(match["port"]))


def secret_key(text: str) -> SecretKey:
    """``NAMESPACE/NAME[:KEY]``. For argparse."""
    match = _SECRET.fullmatch(text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAMESPACE/NAME or NAMESPACE/NAME:KEY")
    return SecretKey(match["namespace"], match["name"], match["key"] or "")


def credentials_of(values: Mapping[str, str], wanted: SecretKey) -> Credentials:
    """The credentials among the ``values`` of a Secret. Raises AccessError, which names the keys that there are."""
    if wanted.key:
        if wanted.key in values:
            return Credentials(token=values[wanted.key].strip())
    elif TOKEN_KEY in values:
        return Credentials(token=values[TOKEN_KEY].strip())
    elif USER_KEY in values and PASSWORD_KEY in values:
        return Credentials(user=values[USER_KEY], password=values[PASSWORD_KEY])
    sought = repr(wanted.key) if wanted.key else f"{TOKEN_KEY!r}, nor {USER_KEY!r} with {PASSWORD_KEY!r}"
    found = ", ".join(sorted(values)) or "none"
    raise AccessError(f"secret {wanted.namespace}/{wanted.name} has no key {sought}; its keys: {found}")


@contextmanager
def opened(options: argparse.Namespace, environ: Mapping[str, str] = os.environ) -> Iterator[Access]:
    """The way to Grafana, for as long as the block lasts. Raises AccessError, KubectlError and ConfigError."""
    settings = load_section("command", {}, environ)
    if options.secret:
        wanted: SecretKey = options.secret
        credentials = credentials_of(read_secret(wanted.namespace, wanted.name), wanted)
    else:
        credentials = Credentials(
            token=str(settings["grafana_token"] or ""),
            user=str(settings["grafana_user"] or ""),
            password=str(settings["grafana_password"] or ""),
        )
    if not credentials.token and not credentials.user:
        raise AccessError(
            "no credentials for Grafana: set FLEETGLASS_GRAFANA_TOKEN to a service account's token "
            "(or FLEETGLASS_GRAFANA_USER and FLEETGLASS_GRAFANA_PASSWORD), or give --secret"
        )
    if options.port_forward:
        if options.url:
            raise AccessError("--url and --port-forward say different things; give one of them")
        target: Forward = options.port_forward
        with forwarded(target.namespace, target.resource, target.port) as port:
            yield Access(f"http://127.0.0.1:{port}", credentials, options.org)
        return
    url = options.url or settings["grafana_url"]
    if not url:
        raise AccessError("where is Grafana? Give --url, --port-forward or FLEETGLASS_GRAFANA_URL")
    if not str(url).startswith(("http://", "https://")):
        raise AccessError(f"--url {url!r} is no http:// or https:// URL")
    yield Access(str(url).rstrip("/"), credentials, options.org)
