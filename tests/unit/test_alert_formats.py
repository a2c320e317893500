"""Rule files and Grafana's provisioning: the same bytes each time, the shapes that readers have, nothing secret."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from telemetry.cli import main
from telemetry.grafana.alerts import provisioning, rulefiles
from telemetry.grafana.alerts.command import FORMATS
from telemetry.grafana.alerts.records import Alert
from telemetry.grafana.alerts.rules import rule_set
from telemetry.grafana.alerts.values import Email, PagerDuty, Slack, Tenants, ValuesError, Webhook, read
from telemetry.grafana.lint.run import File, Options, lint

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "alerts" / "values.yaml"
VALUES = read(EXAMPLE)
RULES = rule_set(VALUES)
RENDERED = {kind: write(RULES, VALUES) for kind, write in FORMATS.items()}

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.models import alerting as published


def groups(kind: str) -> list[dict[str, Any]]:
    content = yaml.safe_load(RENDERED[kind])
    found: list[dict[str, Any]] = content["spec"]["groups"] if kind == "vmrule" else content["groups"]
    return found


def rules(kind: str) -> list[dict[str, Any]]:
    return [rule for group in groups(kind) for rule in group["rules"]]


@pytest.mark.parametrize("kind", sorted(FORMATS))
def test_the_same_values_give_the_same_bytes(kind: str):
    again = read(EXAMPLE)
    assert FORMATS[kind](rule_set(again), again) == RENDERED[kind]
    assert RENDERED[kind].startswith("# For ")
    assert "&id" not in RENDERED[kind]


@pytest.mark.parametrize("kind", sorted(FORMATS.keys() - {"alertmanager"}))
def test_our_own_lint_has_nothing_against_it(kind: str):
    report = lint([File(f"{kind}.yaml", RENDERED[kind])], Options())
    assert [str(finding) for finding in report.findings] == []


@pytest.mark.parametrize("kind", ["vmalert", "vmrule", "prometheus", "loki", "alertmanager"])
def test_nothing_in_it_can_be_taken_for_a_variable(kind: str):
    assert "$" not in RENDERED[kind]


def test_the_three_metric_formats_hold_the_same_rules():
    assert rules("vmalert") == rules("vmrule") == rules("prometheus")
    assert len(rules("vmalert")) == len(list(RULES.recordings)) + len(list(RULES.alerts)) - 1


@pytest.mark.parametrize("rule", [rule for rule in rules("vmalert") if "alert" in rule], ids=lambda rule: rule["alert"])
def test_an_alert_has_what_people_and_routes_need(rule: dict[str, Any]):
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert rule["annotations"].keys() == {"summary", "description", "runbook_url", "dashboard_uid", "dashboard_url"}
    assert rule["annotations"]["runbook_url"].startswith("https://docs.example/fleetglass/runbooks/")
    assert rule["annotations"]["dashboard_url"].startswith("https://grafana.example/d/fleetglass-")
    assert not any("{{" in value for value in rule["labels"].values())
    assert list(rule) in (
        ["alert", "expr", "for", "labels", "annotations"],
        ["alert", "expr", "for", "keep_firing_for", "labels", "annotations"],
    )


def test_labels_that_a_rule_sets_are_written_out_in_its_summary():
    (absent,) = [rule for rule in rules("prometheus") if rule.get("labels", {}).get("job") == "loki"]
    assert absent["annotations"]["summary"].startswith("loki has no loki_build_info: ")


def test_a_vmrule_is_an_envelope_that_flux_leaves_alone():
    content = yaml.safe_load(RENDERED["vmrule"])
    assert (content["apiVersion"], content["kind"]) == ("operator.victoriametrics.com/v1beta1", "VMRule")
    assert content["metadata"]["labels"]["kustomize.toolkit.fluxcd.io/substitute"] == "disabled"
    assert content["spec"].keys() == {"groups"}
    for group in content["spec"]["groups"]:
        assert group.keys() <= {"name", "interval", "headers", "rules"}


def test_a_tenant_is_asked_for_where_there_is_one():
    assert all("headers" not in group for group in groups("vmalert"))
    values = msgspec.structs.replace(VALUES, tenants=Tenants(metrics="fleet", logs="lines"))
    for write in (rulefiles.vmalert, rulefiles.vmrule):
        content = yaml.safe_load(write(RULES, values))
        found = content.get("spec", content)["groups"]
        assert {tuple(group["headers"]) for group in found} == {("X-Scope-OrgID: fleet",)}
    assert "headers" not in rulefiles.prometheus(RULES, values), "Prometheus knows no such key"
    assert "into the folder lines/" in rulefiles.loki(RULES, values)
    without = msgspec.structs.replace(VALUES, tenants=Tenants())
    assert "into the folder fake/" in rulefiles.loki(RULES, without)


@pytest.mark.parametrize(
    ("seconds", "text"), [(90, "90s"), (120, "2m"), (3600, "1h"), (10800, "3h"), (86400, "1d"), (0, "0s")]
)
def test_durations_are_exact(seconds: int, text: str):
    assert rulefiles.duration(seconds) == text


class TestGrafana:
    content = yaml.safe_load(RENDERED["grafana"])

    def test_a_rule_has_the_keys_of_file_provisioning(self):
        ((group),) = self.content["groups"]
        assert group.keys() == {"orgId", "name", "folder", "interval", "rules"}
        (rule,) = group["rules"]
        # Grafana's AlertRuleV1, which ignores what it does not know.
        assert rule.keys() == {
            "uid",
            "title",
            "condition",
            "data",
            "noDataState",
            "execErrState",
            "for",
            "keepFiringFor",
            "annotations",
            "labels",
        }
        for query in rule["data"]:
            assert query.keys() <= {"refId", "queryType", "relativeTimeRange", "datasourceUid", "model"}
        assert rule["condition"] in {query["refId"] for query in rule["data"]}

    def test_its_states_are_chosen_and_are_some_that_grafana_has(self):
        (rule,) = self.content["groups"][0]["rules"]
        assert (rule["noDataState"], rule["execErrState"]) == ("OK", "Alerting")
        hints = published.Rule.__annotations__
        assert rule["noDataState"] in re.findall(r"\w+", str(hints["no_data_state"]))
        assert rule["execErrState"] in re.findall(r"\w+", str(hints["exec_err_state"]))

    def test_the_values_of_a_template_are_those_of_grafana(self):
        (rule,) = self.content["groups"][0]["rules"]
        assert '{{ printf "%.0f" .Values.A.Value }}' in rule["annotations"]["summary"]
        assert "{{ .Labels.fp }}" in rule["annotations"]["summary"]

    def test_only_secrets_are_variables(self):
        found = re.findall(r"\$.{0,30}", RENDERED["grafana"])
        assert found == ["${SLACK_WEBHOOK_URL}", "${PAGERDUTY_KEY}"]

    def test_log_alerts_are_here_and_metric_alerts_are_not(self):
        uids = {rule["uid"] for group in self.content["groups"] for rule in group["rules"]}
        assert uids == {alert.uid for alert in RULES.alerts if alert.query.language == "logql"}

    def test_contact_points_and_policies_are_those_of_grafanas_models(self):
        kinds = re.findall(r"\w+", str(published.ContactPoint.__annotations__["type_val"]))
        for point in self.content["contactPoints"]:
            for receiver in point["receivers"]:
                assert receiver["type"] in kinds
                assert re.fullmatch(r"[A-Za-z0-9_-]{1,40}", receiver["uid"])
        (policy,) = self.content["policies"]
        assert policy.pop("orgId") == 1
        model = published.NotificationPolicy.from_json(policy)
        assert json.loads(JSONEncoder().encode(model)) == policy
        assert policy["routes"] == [{"receiver": "on-call", "object_matchers": [["severity", "=", "critical"]]}]

    @pytest.mark.parametrize(
        ("point", "settings"),
        [
            (Email("a", ("x@a.example", "y@a.example")), {"addresses": "x@a.example;y@a.example"}),
            (Slack("a", "${URL}"), {"url": "${URL}"}),
            (PagerDuty("a", "${KEY}"), {"integrationKey": "${KEY}"}),
            (Webhook("a", "https://h.example"), {"url": "https://h.example", "httpMethod": "POST"}),
            (
                Webhook("a", "${URL}", "${TOKEN}"),
                {
                    "url": "${URL}",
                    "httpMethod": "POST",
                    "authorization_scheme": "Bearer",
                    "authorization_credentials": "${TOKEN}",
                },
            ),
        ],
    )
    def test_a_contact_point_has_the_settings_of_its_kind(self, point: Any, settings: dict[str, str]):
        values = msgspec.structs.replace(VALUES, contact_points=(point,))
        content = yaml.safe_load(provisioning.grafana(RULES, values))
        assert content["contactPoints"][0]["receivers"][0]["settings"] == settings

    def test_without_routing_the_policy_tree_that_is_there_stays(self):
        values = msgspec.structs.replace(VALUES, contact_points=(), routing=None)
        assert yaml.safe_load(provisioning.grafana(RULES, values)).keys() == {"apiVersion", "groups"}


class TestAlertmanager:
    def test_secrets_are_files_named_after_their_placeholders(self):
        content = yaml.safe_load(RENDERED["alertmanager"])
        chat, pager = content["receivers"]
        folder = "/etc/alertmanager/secrets"
        assert chat["slack_configs"][0]["api_url_file"] == f"{folder}/SLACK_WEBHOOK_URL"
        assert pager["pagerduty_configs"][0]["routing_key_file"] == f"{folder}/PAGERDUTY_KEY"

    def test_without_routing_there_is_nobody_to_tell(self):
        values = msgspec.structs.replace(VALUES, contact_points=(), routing=None)
        with pytest.raises(ValuesError, match="there is no routing"):
            FORMATS["alertmanager"](RULES, values)

    def test_mail_needs_a_server(self):
        mail = Email("team-chat", ("a@a.example",))
        values = msgspec.structs.replace(VALUES, contact_points=(mail, *VALUES.contact_points[1:]))
        with pytest.raises(ValuesError, match=r"alertmanager\.smarthost"):
            FORMATS["alertmanager"](RULES, values)


class TestCommand:
    def test_it_writes_a_file_or_standard_output(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        out = tmp_path / "rules.yaml"
        given = ["alerts", "render", "--values", str(EXAMPLE), "--format", "vmrule"]
        assert main([*given, str(out)]) == 0
        assert main([*given, "-"]) == 0
        assert out.read_text() == capsys.readouterr().out == RENDERED["vmrule"]

    def test_values_that_cannot_be_used_are_a_sentence(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        values = tmp_path / "alerts.yaml"
        values.write_text("runbooks: https://r.example\n")
        given = ["alerts", "render", "--format", "loki", "-", "--values"]
        assert main([*given, str(values)]) == 2
        assert capsys.readouterr().err == f"fleetglass alerts: {values}:1: dashboards is missing\n"
        assert main([*given, str(tmp_path / "none.yaml")]) == 2
        assert capsys.readouterr().err.endswith("none.yaml can't be read: No such file or directory\n")

    def test_a_format_that_the_values_do_not_suffice_for_is_a_sentence(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ):
        values = tmp_path / "alerts.yaml"
        values.write_text("runbooks: https://r.example\ndashboards: https://g.example\n")
        assert main(["alerts", "render", "--format", "alertmanager", "--values", str(values), "-"]) == 2
        said = "fleetglass alerts: there is no routing, and so nobody whom Alertmanager could tell\n"
        assert capsys.readouterr().err == said

    def test_tests_need_the_tool_and_say_where_it_comes_from(self, capsys: pytest.CaptureFixture[str]):
        assert main(["alerts", "test", "--values", str(EXAMPLE), "--tool", "no-such-tool"]) == 2
        assert "there is no no-such-tool on PATH; it is in VictoriaMetrics' archive vmutils" in capsys.readouterr().err

    @pytest.mark.parametrize(("status", "answer", "word"), [(0, 0, "all passed"), (1, 1, "12 failed")])
    def test_it_tells_each_test_and_how_it_ended(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], status: int, answer: int, word: str
    ):
        values = tmp_path / "alerts.yaml"
        values.write_text("runbooks: https://r.example\ndashboards: https://g.example\n")
        tool = tmp_path / "tool"
        tool.write_text(f"#!/bin/sh\ntest -f rules.yaml || exit 3\necho said; exit {status}\n")
        tool.chmod(0o755)
        assert main(["alerts", "test", "--values", str(values), "--tool", str(tool)]) == answer
        said = capsys.readouterr().out.splitlines()
        assert [line.split()[0] for line in said if ".shop" in line] == ["ok" if status == 0 else "FAILED"] * 12
        assert said[-1] == word


def test_an_alert_without_a_limit_fires_for_each_series():
    some = [alert for alert in RULES.alerts if alert.above is None]
    assert some
    for alert in some:
        assert isinstance(alert, Alert)
        assert alert.condition == alert.query.expression
