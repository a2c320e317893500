"""What a setting is: its name, its variables, how it is read, shown and explained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from telemetry.config import addresses, kinds
from telemetry.config.kinds import Kind

Section = Literal["telemetry", "ingest", "command"]


class Setting(msgspec.Struct, frozen=True):
    """One setting: how it is named, read, shown and explained.

    ``env`` are its environment variables, the first one that is set wins. ``attribute`` is the resource
    attribute that stands in for it when neither argument nor variable is given. ``section`` says who
    reads it: the library, the ingest service, or single commands.
    """

    name: str
    env: tuple[str, ...]
    kind: Kind
    default: object
    doc: str
    group: str
    section: Section = "telemetry"
    secret: bool = False
    attribute: str = ""

    @property
    def choices(self) -> tuple[str, ...]:
        """The allowed words, empty where the list is open."""
        return self.kind.choices

    def show(self, value: object) -> str:
        """The value as people may see it: secrets, and credentials inside URLs, are ``***``."""
        if value is None or value in ((), {}):
            return ""
        if self.secret:
            return "***"
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, Mapping):
            return kinds.encode_pairs(value)
        if isinstance(value, (tuple, list)):
            return ",".join(map(str, value))
        if isinstance(value, int) and self.kind.label.startswith("bytes"):
            return kinds.show_size(value)
        if isinstance(value, float):
            return f"{value:g} s" if self.kind.label.startswith("seconds") else f"{value:g}"
        return addresses.mask_credentials(str(value)) if "URL" in self.kind.label else str(value)
