"""Settings that only single commands read."""

from __future__ import annotations

from telemetry.config import addresses, kinds
from telemetry.config.kinds import Kind
from telemetry.config.setting import Setting


def _grafana(name: str, env: str, kind: Kind, doc: str, *, secret: bool = False) -> Setting:
    return Setting(name, (env,), kind, None, doc, "Grafana, for commands", section="command", secret=secret)


def _probe(name: str, env: str, kind: Kind, doc: str, *, secret: bool = False) -> Setting:
    default: object = {} if secret else None
    return Setting(name, (env,), kind, default, doc, "Reading back, for commands", section="command", secret=secret)


def _stack(name: str, env: str, kind: Kind, doc: str) -> Setting:
    return Setting(name, (env,), kind, None, doc, "Stack, for commands", section="command")


def _database(name: str, env: str, doc: str, *, secret: bool = False) -> Setting:
    return Setting(name, (env,), kinds.text(), None, doc, "Database, for commands", section="command", secret=secret)


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

    _probe("tempo_query_url", "FLEETGLASS_TEMPO_QUERY_URL", addresses.url(),
        "Tempo that `fleetglass probe` reads traces back from: `http://tempo:3200`. Unset: port 3200 of the host that "
        "takes traces."),
    _probe("loki_query_url", "FLEETGLASS_LOKI_QUERY_URL", addresses.url(),
        "Loki that it reads lines back from: `http://loki:3100`; for VictoriaLogs with `/select/logsql` at the end. "
        "Unset: the Loki that takes lines, else port 3100 of the host that does."),
    _probe("metrics_query_url", "FLEETGLASS_METRICS_QUERY_URL", addresses.url(),
        "VictoriaMetrics (or Prometheus) that it reads metrics back from, without `/api/v1`. Unset: the one that takes "
        "them, else port 8428 of the host that does."),
    _probe("query_headers", "FLEETGLASS_QUERY_HEADERS", kinds.headers(), secret=True,
        doc="Headers for reading alone: `authorization=Basic%20…,x-scope-orgid=team`. What a push to the same host "
        "carries is sent without saying."),

    _stack("stack_dir", "FLEETGLASS_STACK_DIR", kinds.text(),
        "Where `fleetglass stack` keeps configuration, data and logs. Unset: `fleetglass/stack` in the user's data "
        "directory (`~/.local/share`)."),

    _database("database_url", "DATABASE_URL", secret=True,
        doc="The platform's PostgreSQL, for commands that read it: `postgresql://user:password@host/database`."),
    _database("queue_profile", "FLEETGLASS_QUEUE_PROFILE",
        "Whose tables it has: `windforce`, `windmill`, `windforce-core`, or a `.toml` file that maps others. Unset: "
        "`windforce`."),

    _development("backends_dir", "FLEETGLASS_BACKENDS_DIR", kinds.text(), None,
        "Where the backends that our own tests talk to are built and kept. Unset: the user's cache directory."),
    _development("require_backends", "FLEETGLASS_REQUIRE_BACKENDS", kinds.switch(), False,
        "A test that skips because a part is missing fails the run; CI sets it."),
)
# fmt: on
