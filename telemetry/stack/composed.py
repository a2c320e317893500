"""The stack in containers on paper: the compose file and the configuration that it mounts."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path

import msgspec

from telemetry.grafana import datasources, shipped
from telemetry.stack import layout as layouts
from telemetry.stack.layout import Layout, filled
from telemetry.stack.parts import NAMES, PORTS, Name

_IN_CONTAINERS: Mapping[str, object] = {
    **PORTS,
    # Each has a network address of its own, so Tempo may keep the ports that its receivers usually have.
    "tempo-otlp-grpc": 4317,
    "tempo-otlp-http": 4318,
    "listen": "0.0.0.0",  # noqa: S104 - inside a container; what is published is published on the loopback
    "inside": "127.0.0.1",
    **{f"{name}-host": name for name in NAMES},
    "targets": "/etc/alloy/targets",
    "dashboards": "/var/lib/fleetglass/dashboards",
}
_SCRAPED: Mapping[Name, str] = {name: f"{name}:{PORTS[name]}" for name in NAMES}


class Places(msgspec.Struct, frozen=True):
    """Where the compose file finds what it mounts, as paths relative to it."""

    etc: str = "./etc"
    rules: str = "./etc/rules"
    targets: str = "./targets"
    dashboards: str = "./dashboards"


def compose(chosen: Mapping[str, int], places: Places) -> str:
    """The compose file, publishing on the ports ``chosen``."""
    return filled("compose.yaml", {**chosen, **msgspec.structs.asdict(places)})


def configuration() -> dict[str, str]:
    """The files below ``etc``, rules aside: what each server reads inside its container."""
    holes = {**_IN_CONTAINERS, "scraped": layouts.scraped(_SCRAPED)}
    return {
        "loki.yaml": filled("loki.yaml", {**holes, "data": ""}),  # the image's own folder is /loki
        "tempo.yaml": filled("tempo.yaml", {**holes, "data": "/var"}),
        "config.alloy": filled("config.alloy", holes),
        "provisioning/datasources/fleetglass.yaml": datasources.text(datasources.Settings()),
        "provisioning/dashboards/fleetglass.yaml": filled("dashboards.yaml", holes),
    }


def example() -> dict[str, str]:
    """The files of ``examples/`` that show this stack, by path below it; `make docs` writes them."""
    places = Places(
        etc="./stack",
        rules="./stack/rules",
        targets="./stack/targets",
        dashboards="../telemetry/grafana/dashboards",
    )
    values = layouts.first_values(Layout(Path(), PORTS, dict.fromkeys(NAMES, "")))
    found = {"compose.yaml": compose(PORTS, places), "stack/values.yaml": values, "stack/targets/services.json": "[]\n"}
    found |= {f"stack/{name}": text for name, text in configuration().items()}
    found |= {name.replace("etc/", "stack/"): text for name, text in layouts.rules(values).items()}
    return found


def write(folder: Path, chosen: Mapping[str, int]) -> None:
    """Write everything that compose needs into ``folder``: what is the user's (values, targets, tokens) only once."""
    values = folder / "values.yaml"
    (folder / "targets").mkdir(parents=True, exist_ok=True)
    if not values.exists():
        values.write_text(layouts.first_values(Layout(folder, chosen, dict.fromkeys(NAMES, ""))), "utf-8")
    content = {"compose.yaml": compose(chosen, Places())}
    content |= {f"etc/{name}": text for name, text in configuration().items()}
    content |= layouts.rules(values.read_text("utf-8"), str(values))
    content |= {f"dashboards/{board.uid}.json": board.text for board in shipped.shipped()}
    for name, text in content.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    (folder / "ports.json").write_bytes(msgspec.json.encode(dict(chosen)))
    _secrets(folder / ".env")


def _secrets(file: Path) -> None:
    """The token that Grafana and its renderer share, and the first password of admin: made once, for our eyes only."""
    if file.exists():
        return
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as opened:
        opened.write(
            f"FLEETGLASS_RENDERER_TOKEN={secrets.token_hex(24)}\nGRAFANA_PASSWORD={secrets.token_urlsafe(18)}\n"
        )


def environment(folder: Path) -> dict[str, str]:
    """The variables with which services of this machine use the stack in containers."""
    try:
        chosen: dict[str, int] = msgspec.json.decode((folder / "ports.json").read_bytes(), type=dict[str, int])
    except OSError:
        chosen = dict(PORTS)
    return layouts.environment(Layout(folder, chosen, dict.fromkeys(NAMES, "")))
