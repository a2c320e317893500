"""Settings that only single commands read."""

from __future__ import annotations

from telemetry.config import addresses, kinds
from telemetry.config.kinds import Kind
from telemetry.config.setting import Setting


def _grafana(name: str, env: str, kind: Kind, doc: str, *, secret: bool = False) -> Setting:
    return Setting(name, (env,), kind, None, doc, "Grafana, for commands", section="command", secret=secret)


def _development(name: str, env: str, kind: Kind, default: object, doc: str) -> Setting:
    return Setting(name, (env,), kind, default, doc, "Development", section="command")


# fmt: off
COMMANDS: tuple[Setting, ...] = (
    _grafana("grafana_url", "FLEETGLASS_GRAFANA_URL", addresses.url(),
        "Grafana that `fleetglass grafana import` and `render` talk to, with its path if it is served under one."),
    _grafana("grafana_token", "FLEETGLASS_GRAFANA_TOKEN", kinds.text(), secret=True,
        doc="Token of a service account there. Wins over user and password."),
    _grafana("grafana_user", "FLEETGLASS_GRAFANA_USER", kinds.text(),
        "User there, where no token is given."),
    _grafana("grafana_password", "FLEETGLASS_GRAFANA_PASSWORD", kinds.text(), secret=True,
        doc="Password of that user."),

    _development("backends_dir", "FLEETGLASS_BACKENDS_DIR", kinds.text(), None,
        "Where the backends that our own tests talk to are built and kept. Unset: the user's cache directory."),
    _development("require_backends", "FLEETGLASS_REQUIRE_BACKENDS", kinds.switch(), False,
        "A test that skips because a part is missing fails the run; CI sets it."),
)
# fmt: on
