"""Who is told, as a real amtool reads the configuration that is rendered for Alertmanager."""

from __future__ import annotations

import subprocess
from pathlib import Path

import msgspec
import pytest

from telemetry.grafana.alerts import rulefiles
from telemetry.grafana.alerts.alertmanager import alertmanager
from telemetry.grafana.alerts.rules import rule_set
from telemetry.grafana.alerts.values import Alertmanager, Email, PagerDuty, Route, Slack, Values, Webhook, read
from tests.integration.test_alert_units import EXAMPLE, needed

EVERY = (
    Slack("chat", "${SLACK_URL}"),
    PagerDuty("pager", "${PAGER_KEY}"),
    Email("mail", ("a@a.example", "b@a.example")),
    Webhook("hook", "${HOOK_URL}", "${HOOK_TOKEN}"),
    Webhook("open", "https://hook.example/alerts"),
)


def amtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [needed("amtool"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)


def written(values: Values, folder: Path) -> Path:
    path = folder / "alertmanager.yaml"
    path.write_text(alertmanager(rule_set(values), values), encoding="utf-8")
    return path


def told(path: Path, **labels: str) -> list[str]:
    pairs = [f"{name}={value}" for name, value in labels.items()]
    return amtool("config", "routes", "test", f"--config.file={path}", *pairs).stdout.split()


@pytest.mark.parametrize("every_kind", [False, True])
def test_alertmanager_takes_the_configuration(every_kind: bool, tmp_path: Path) -> None:
    values = read(EXAMPLE)
    if every_kind:
        assert values.routing is not None
        values = msgspec.structs.replace(
            values,
            contact_points=EVERY,
            routing=msgspec.structs.replace(values.routing, default="chat", routes=()),
            alertmanager=Alertmanager(smarthost="mail.example:587", sender="alerts@a.example"),
        )
    path = written(values, tmp_path)
    done = amtool("check-config", path)
    assert done.returncode == 0, done.stderr
    assert f"{len(values.contact_points)} receivers" in done.stdout
    path.write_text(path.read_text().replace("receiver: ", "receiver: no-", 1))
    assert amtool("check-config", path).returncode != 0


def test_the_first_route_that_matches_is_told(tmp_path: Path) -> None:
    values = read(EXAMPLE)
    assert values.routing is not None
    routes = (
        Route({"severity": "critical", "job": "gshare"}, "open"),
        Route({"severity": "critical"}, "pager"),
        Route({"team": 'the "one"\\'}, "hook"),
    )
    routing = msgspec.structs.replace(values.routing, default="chat", routes=routes)
    values = msgspec.structs.replace(
        values,
        contact_points=EVERY,
        routing=routing,
        alertmanager=Alertmanager(smarthost="mail.example:587", sender="alerts@a.example"),
    )
    path = written(values, tmp_path)
    assert told(path, severity="critical", job="gshare") == ["open"]
    assert told(path, severity="critical", job="windforce-server") == ["pager"]
    assert told(path, severity="warning") == ["chat"]
    assert 'team="the \\"one\\"\\\\"' in path.read_text()


def test_alerts_on_a_fleet_page_by_their_severity(tmp_path: Path) -> None:
    values = read(EXAMPLE)
    path = written(values, tmp_path)
    found = [alert for alert in rule_set(values).alerts if "fleet_" in alert.condition]
    for severity, whom in (("critical", "on-call"), ("warning", "team-chat"), ("info", "team-chat")):
        (alert, *_) = [each for each in found if each.severity == severity]
        labels = {**rulefiles.labels(alert), "alertname": alert.name, "group": "gpu", "tag": "render"}
        assert told(path, **labels) == [whom], alert.name
