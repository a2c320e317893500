"""Provisioning, import and images on a real Grafana 13, where one is on PATH.

None could be had where these tests were written, so they have not run yet: docs/grafana.md says the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from telemetry import cli
from telemetry.grafana import datasources, shipped
from telemetry.grafana.alerts import provisioning
from telemetry.grafana.alerts.rules import rule_set
from telemetry.grafana.alerts.values import parse
from tests.backends import grafana as backend
from tests.backends.grafana import PASSWORD, USER, Grafana
from tests.backends.process import ServerError

pytestmark = [pytest.mark.stack, pytest.mark.slow, pytest.mark.timeout(600)]
RENDERER = "FLEETGLASS_TEST_RENDERER"
VALUES = Path(__file__).parents[2] / "examples" / "alerts" / "values.yaml"


@pytest.fixture(autouse=True, scope="module")
def present() -> None:
    if backend.find() is None:
        pytest.skip(backend.MISSING)


def files(**settings) -> dict[str, str]:
    values = parse(VALUES.read_text("utf-8"), VALUES.name)
    return {
        "datasources/fleetglass.yaml": datasources.text(datasources.Settings(**settings)),
        "alerting/fleetglass.yaml": provisioning.grafana(rule_set(values), values),
    }


@pytest.fixture
def grafana(tmp_path, monkeypatch) -> Iterator[Grafana]:
    running = Grafana.start(tmp_path, files(), renderer=os.environ.get(RENDERER, ""))
    monkeypatch.setenv("FLEETGLASS_GRAFANA_URL", running.url)
    monkeypatch.setenv("FLEETGLASS_GRAFANA_USER", USER)
    monkeypatch.setenv("FLEETGLASS_GRAFANA_PASSWORD", PASSWORD)
    yield running
    running.stop()


def test_datasources_and_rules_are_provisioned_under_their_uids(grafana):
    found = {each["uid"]: each for each in grafana.read("/api/datasources")}
    assert set(found) == {datasources.METRICS_UID, datasources.LOGS_UID, datasources.TRACES_UID}
    (field,) = found[datasources.LOGS_UID]["jsonData"]["derivedFields"]
    assert field["datasourceUid"] == datasources.TRACES_UID
    assert field["url"] == "${__value.raw}"
    assert grafana.read("/api/v1/provisioning/alert-rules")


def test_dashboards_are_imported_once_and_left_alone_afterwards(grafana, capsys):
    assert cli.main(["grafana", "import"]) == 0
    assert capsys.readouterr().out.count("created") == len(shipped.shipped())
    assert cli.main(["grafana", "import"]) == 0
    assert capsys.readouterr().out.count("unchanged") == len(shipped.shipped())
    there = {each["uid"] for each in grafana.read("/api/search?type=dash-db")}
    assert there >= {each.uid for each in shipped.shipped()}


def test_a_dashboard_and_a_panel_are_drawn(grafana, tmp_path):
    if not os.environ.get(RENDERER):
        pytest.skip(f"no image renderer: {RENDERER} is the URL of a grafana-image-renderer's /render")
    assert cli.main(["grafana", "import"]) == 0
    for more in ([], ["--panel", "1"]):
        assert cli.main(["grafana", "render", "fleetglass-overview", str(tmp_path / "out.png"), *more]) == 0


def test_a_uid_that_changes_under_its_name_ends_grafana_at_start_and_replace_does_not(tmp_path):
    """grafana/grafana#110740: «data source not found», and the process is gone."""
    Grafana.start(tmp_path, files()).stop()
    moved = files()["datasources/fleetglass.yaml"].replace("uid: loki", "uid: loki2").replace("Uid: loki", "Uid: loki2")
    with pytest.raises(ServerError):
        Grafana.start(tmp_path, {"datasources/fleetglass.yaml": moved}).stop()
    replacing = files(replace=True)["datasources/fleetglass.yaml"]
    replacing = replacing.replace("uid: loki", "uid: loki2").replace("Uid: loki", "Uid: loki2")
    Grafana.start(tmp_path, {"datasources/fleetglass.yaml": replacing}).stop()
