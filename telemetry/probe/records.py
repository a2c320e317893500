"""What the probe plans, what it saw on the wire, and what it makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from telemetry.config.targets import OtlpTarget, Signal

Reader = Literal["tempo", "loki", "victorialogs", "metrics"]
Kind = Literal["otlp-http", "otlp-grpc", "loki", "push"]
Origin = Literal["setting", "push", "guess"]
"""Where a query address came from: its setting, the address that is pushed to, or that host's usual port."""


class Query(msgspec.Struct, frozen=True):
    """Where one signal is read back.

    ``url`` is the base that the API's paths go below. ``variable`` is the setting that would name it.
    ``reader`` says whose API it is.
    """

    reader: Reader
    url: str
    headers: Mapping[str, str]
    origin: Origin
    variable: str


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """The path that one signal takes. ``unsent`` is a sentence where it takes none; the rest is then empty.

    ``headers`` have lower-case names. ``otlp`` is the target where the path is OTLP. ``setting`` is the variable that
    gives the address.
    """

    signal: Signal
    kind: Kind = "otlp-http"
    path: str = ""
    url: str = ""
    setting: str = ""
    headers: Mapping[str, str] = {}
    otlp: OtlpTarget | None = None
    query: Query | None = None
    unsent: str = ""


class Contact(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one attempt to talk to an address.

    ``reach`` is how far it went: to a name that does not resolve, a refused or unanswered connection, a TLS
    handshake that failed, a peer that says nothing or something that is not asked for, or an answer. ``speaks`` is
    what the port was found to speak where the answer was none. ``status`` is an HTTP status, ``code`` the name of a
    gRPC status. ``skew`` is the server's clock minus ours in seconds (from ``Date``, to the second), or None.
    """

    url: str
    reach: Literal["unresolved", "refused", "unreachable", "timeout", "tls", "garbled", "silent", "answered"]
    speaks: Literal["", "http1", "http2", "tls"] = ""
    detail: str = ""
    status: int = 0
    code: str = ""
    body: bytes = b""
    location: str = ""
    skew: float | None = None

    @property
    def ok(self) -> bool:
        """The answer is a success."""
        return self.reach == "answered" and (200 <= self.status < 300 or self.code == "OK")

    @property
    def text(self) -> str:
        """The start of the body, or what else was said, as one printable line."""
        said = self.body[:300].decode(errors="replace") or self.detail
        return " ".join("".join(char if char.isprintable() else " " for char in said).split())


class Sent(msgspec.Struct, frozen=True):
    """What became of the record on its way out. ``after`` are seconds until it was acknowledged.

    ``error`` is the sink's last complaint. ``contact`` is what a second look at the address found, where the
    record was not delivered.
    """

    state: Literal["delivered", "refused", "waiting"]
    after: float = 0.0
    error: str = ""
    contact: Contact | None = None


class Found(msgspec.Struct, frozen=True):
    """The record as a backend gave it back.

    ``service`` and ``instance`` are what that backend has under its own names for them (``job``, ``service_name``,
    ``resource.service.name``), empty where it has none; ``labels`` is everything.
    """

    service: str
    instance: str
    labels: Mapping[str, str]


class Read(msgspec.Struct, frozen=True):
    """What came of reading back. ``after`` are seconds from sending to finding.

    ``answer`` is the last answer that brought nothing, ``skew`` the backend's clock minus ours, in seconds.
    ``tenant`` is another tenant under which the record was found instead.
    """

    found: Found | None = None
    after: float = 0.0
    answer: Contact | None = None
    skew: float | None = None
    tenant: str = ""


class Expected(msgspec.Struct, frozen=True):
    """The identity that was sent, and for how long it was waited (seconds)."""

    service: str
    job: str
    instance: str
    timeout: float


Trouble = Literal[
    "path",
    "tenant",
    "clock",
    "label",
    "identity",
    "protocol",
    "tls",
    "refused",
    "unresolved",
    "unreachable",
    "silent",
    "auth",
    "redirect",
    "limit",
    "rejected",
    "lost",
    "unread",
    "unsent",
]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table. ``late`` are seconds from sending to finding, None where it was not found.

    ``trouble`` is None where the signal arrived as it should; ``sentence`` then is empty. A signal that is not
    configured has the state ``unsent`` and says why.
    """

    signal: Signal
    path: str
    to: str
    read_from: str = ""
    state: Literal["arrived", "failed", "unsent"]
    late: float | None = None
    service: str = ""
    instance: str = ""
    trouble: Trouble | None = None
    sentence: str = ""
