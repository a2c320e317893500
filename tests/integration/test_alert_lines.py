"""Alerts on lines as they are rendered: Grafana's query on a real Loki, and the twin in the ruler of a real Loki."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from telemetry.grafana.alerts.provisioning import grafana
from telemetry.grafana.alerts.rulefiles import loki as ruler_file
from telemetry.grafana.alerts.rules import rule_set
from telemetry.grafana.alerts.values import Service, Values
from tests.backends import programs
from tests.backends.process import eventually, request
from tests.backends.stack import Loki

FP = "9f2c4d5e6f708192"


def values(service: str) -> Values:
    return Values(
        runbooks="https://docs.example/runbooks",
        dashboards="https://grafana.example",
        services=(Service(service, browser_errors=True),),
    )


def push(loki: Loki, service: str, occurrences: int) -> None:
    """One error in as many lines and repeats as make ``occurrences``, and another that is rare."""
    now = time.time_ns()
    line = 'level=error logger=frontend frontend-error email="a@acme.example" kind="error" fp="{}" repeat={} stack="s"'
    lines = [line.format(FP, occurrences - 1), line.format(FP, 1), line.format("0" * 16, 1)]
    loki.push({"service_name": service}, [[str(now + n), each] for n, each in enumerate(lines)])


@pytest.mark.stack
class TestGrafanaManaged:
    def test_the_query_of_the_rule_returns_what_fires_and_nothing_else(self, loki: Loki) -> None:
        service = f"shop-{uuid.uuid4().hex[:8]}"
        content = yaml.safe_load(grafana(rule_set(values(service)), values(service)))
        ((rule,),) = [group["rules"] for group in content["groups"]]
        query, condition = rule["data"]
        assert (rule["condition"], condition["model"]["expression"]) == (condition["refId"], query["refId"])

        def firing() -> list[tuple[Any, float]]:
            return [(sample.labels, sample.value) for sample in loki.metric(query["model"]["expr"])]

        assert firing() == []
        push(loki, service, 101)
        assert eventually(firing, timeout=30) == [({"fp": FP}, 101.0)]
        (limit,) = condition["model"]["conditions"][0]["evaluator"]["params"]
        assert limit < 101
        other = f"quiet-{service}"
        push(loki, other, 100)
        assert loki.metric(query["model"]["expr"].replace(service, other)) == []


@pytest.fixture(scope="module")
def ruler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loki]:
    """A Loki whose ruler has the rendered file, evaluated every second instead of every minute."""
    if programs.find("loki") is None:
        pytest.skip(programs.missing("loki"))
    folder = tmp_path_factory.mktemp("ruler")
    text = ruler_file(rule_set(values("shop")), values("shop"))
    tenant = text.splitlines()[1].split("folder ")[1].split("/")[0]
    home = folder / "data" / "rules" / tenant
    home.mkdir(parents=True)
    (home / "rules.yaml").write_text(text.replace("interval: 1m", "interval: 1s"), encoding="utf-8")
    server = Loki.start(folder, "ruler: {{rule_path: {folder}/scratch, enable_api: true, poll_interval: 1s}}\n")
    try:
        yield server
    finally:
        server.stop()


@pytest.mark.stack
@pytest.mark.slow
@pytest.mark.timeout(180)
def test_the_ruler_of_loki_takes_the_twin_and_finds_the_spike(ruler: Loki) -> None:
    def rules() -> list[dict[str, Any]]:
        answer = request("GET", f"{ruler.url}/prometheus/api/v1/rules").ok().json()
        return [rule for group in answer["data"]["groups"] for rule in group["rules"]]

    found = eventually(rules, timeout=60)
    assert [rule["name"] for rule in found] == ["FrontendErrorSpike"]
    assert (found[0]["duration"], found[0]["labels"]) == (120, {"job": "shop", "severity": "warning"})
    push(ruler, "shop", 150)

    def pending() -> list[dict[str, Any]]:
        return [alert for rule in rules() for alert in rule["alerts"]]

    (alert,) = eventually(pending, timeout=60)
    assert alert["labels"]["fp"] == FP
    assert alert["annotations"]["summary"] == f"One browser error happened 150 times in five minutes: fp {FP}."
    assert {rule["health"] for rule in rules()} == {"ok"}
    assert "$" not in json.dumps(alert["annotations"])
