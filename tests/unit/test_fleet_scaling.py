"""Scaler and rules of a group go by the same predicate and numbers, and numbers that can't work are refused."""

from __future__ import annotations

import re

import promql_parser
import pytest
import yaml

from telemetry import cli
from telemetry.fleet import scaling_file
from telemetry.fleet.model import WorkerGroup
from telemetry.fleet.queue import CAP
from telemetry.fleet.scaling import (
    Context,
    Prometheus,
    Scaling,
    Secret,
    context_problems,
    problems,
    rules,
    scaled_object,
    shared_tags,
    trigger_authentication,
    vm_rule,
)
from telemetry.grafana.lint import promql

CONTEXT = Context(
    source=Secret(name="keda-postgres"),
    runbooks="https://r.example/runbooks",
    dashboards="https://g.example/",
    namespace="windforce",
)
STORE = Context(
    source=Prometheus(url="http://victoriametrics:8428/", secret="store"),
    runbooks="https://r.example/runbooks",
    dashboards="https://g.example/",
    matchers={"job": "fleet-observer"},
)


def scaling(**more) -> Scaling:
    group = {"name": "gpu", "tags": ("gpu",), "autoscale_min": 0, "autoscale_max": 3, "drain_timeout": 570.0}
    group |= {key: more.pop(key) for key in list(more) if key in WorkerGroup.__struct_fields__}
    fields = {"target_queue_depth": 20, "termination_grace": 580, "cooldown_period": 600} | more
    return Scaling(group=WorkerGroup(**group), **fields)


# --- the same predicate and the same numbers


def tags_of_sql(query: str) -> set[str]:
    """The tags that a query of the scaler counts."""
    inside = re.fullmatch(
        r"SELECT COALESCE\(sum\(pending\), 0\) FROM telemetry.queue_pending WHERE tag IN \((.*)\)", query
    )
    assert inside is not None, query
    literals = re.findall(r"'((?:[^']|'')*)'", inside[1])
    assert ", ".join(f"'{each}'" for each in literals) == inside[1]
    return {each.replace("''", "'") for each in literals}


def tags_of_promql(expression: str, metric: str, candidates: set[str]) -> set[str]:
    """Which of ``candidates`` the expression counts; regular expressions are anchored, as the store anchors them."""
    read = promql.read(expression)
    assert read.tree is not None, expression
    (selector,) = [each for each in read.selectors() if each.metric == metric]
    (matcher,) = [each for each in selector.matchers if each.name == "tag"]
    if matcher.op == "=":
        return candidates & {matcher.value}
    assert matcher.op == "=~"
    return {tag for tag in candidates if re.fullmatch(matcher.value, tag)}


def product(node: promql_parser.Expr) -> tuple[float, object]:
    """The target and what it is multiplied with, of the right side of a comparison."""
    assert isinstance(node, promql_parser.BinaryExpr)
    assert str(node.op) == "*"
    assert isinstance(node.lhs, promql_parser.NumberLiteral)
    right = node.rhs
    return node.lhs.val, right.val if isinstance(right, promql_parser.NumberLiteral) else right


AWKWARD = [
    ("gpu",),
    ("gpu", "gpu-large", "gpu-large"),
    ("a.b", "a", "axb"),
    ("it's", 'say "hi"', "back\\slash", "tab\\t"),
    ("deno:한글", "emoji😀", "$workspace", "${tag}", "a|b", "(x)", "[y]", "^z$", "n{2}", "q?*+"),
]


@pytest.mark.parametrize("tags", AWKWARD, ids=" ".join)
@pytest.mark.parametrize(("target", "high"), [(1, 1), (20, 3), (7, 40)])
def test_scaler_and_rules_count_the_same_jobs_against_the_same_numbers(tags, target, high):
    asked = scaling(tags=tags, target_queue_depth=target, autoscale_max=high)
    assert problems(asked) == ()
    # As text and back, since text is what is applied.
    made = yaml.safe_load_all(scaling_file.kubernetes([asked], CONTEXT))
    objects = {each["kind"]: each for each in made}
    spec = objects["ScaledObject"]["spec"]
    (trigger,) = spec["triggers"]
    alerts = {rule["alert"]: rule for rule in objects["VMRule"]["spec"]["groups"][0]["rules"]}

    counted = tags_of_sql(trigger["metadata"]["query"])
    assert counted == set(tags)
    candidates = {tag for group in AWKWARD for tag in group} | {"gpus", "ab", "aXb", "nn"}
    for name in ("WorkerGroupBehind", "WorkerGroupOverrun"):
        assert tags_of_promql(alerts[name]["expr"], "fleet_queue_pending", candidates) == counted
    assert tags_of_promql(alerts["WorkerGroupLate"]["expr"], "fleet_queue_oldest_age_seconds", candidates) == counted
    assert tags_of_promql(alerts["WorkerGroupUnknown"]["expr"], "fleet_queue_pending", candidates) == counted

    behind = promql_parser.parse(alerts["WorkerGroupBehind"]["expr"])
    overrun = promql_parser.parse(alerts["WorkerGroupOverrun"]["expr"])
    assert str(behind.op) == str(overrun.op) == ">"
    assert str(behind.lhs) == str(overrun.lhs)
    depth, online = product(behind.rhs)
    assert str(online) == 'max(fleet_worker_group_alive{group="gpu"})'
    assert depth == float(trigger["metadata"]["targetQueryValue"]) == target
    assert product(overrun.rhs) == (float(trigger["metadata"]["targetQueryValue"]), spec["maxReplicaCount"])
    assert trigger["metricType"] == "AverageValue"
    assert trigger["metadata"]["activationTargetQueryValue"] == "0"


def test_a_scaler_on_the_store_asks_exactly_what_the_rules_ask():
    asked = scaling(tags=("gpu", "gpu-large"))
    (trigger,) = scaled_object(asked, STORE)["spec"]["triggers"]
    rule = rules(asked, STORE)["rules"][1]
    assert rule["alert"] == "WorkerGroupOverrun"
    assert rule["expr"] == f"{trigger['metadata']['query']} > {trigger['metadata']['threshold']} * 3"
    assert 'job="fleet-observer"' in trigger["metadata"]["query"]


def test_keda_3065_an_outage_of_the_store_does_not_scale_in():
    for low in (0, 2):
        spec = scaled_object(scaling(autoscale_min=low), STORE)["spec"]
        assert spec["triggers"][0]["metadata"]["ignoreNullValues"] == "false"
        # KEDA takes a fallback of 0 replicas for none, and scales a group whose minimum is 0 to nothing.
        assert spec["fallback"] == {
            "failureThreshold": 3,
            "replicas": max(1, low),
            "behavior": "currentReplicasIfHigher",
        }
    # An error of the database leaves everything as it is, unless a fallback is given.
    assert "fallback" not in scaled_object(scaling(), CONTEXT)["spec"]


def test_credentials_are_references_to_a_secret_and_stand_nowhere_else():
    asked = scaling()
    authentication = trigger_authentication(asked, CONTEXT)
    (trigger,) = scaled_object(asked, CONTEXT)["spec"]["triggers"]
    assert trigger["authenticationRef"] == {"name": authentication["metadata"]["name"]}
    assert trigger["metadata"].keys() == {"query", "targetQueryValue", "activationTargetQueryValue"}
    assert authentication["spec"].keys() == {"secretTargetRef"}
    given = {each["parameter"]: (each["name"], each["key"]) for each in authentication["spec"]["secretTargetRef"]}
    # Pools of connections go by host, user and database; with connection alone these are empty (keda#7248).
    assert given == {
        name: ("keda-postgres", name) for name in ("host", "port", "userName", "dbName", "sslmode", "password")
    }
    assert trigger_authentication(asked, STORE)["spec"]["secretTargetRef"] == [
        {"parameter": "bearerToken", "name": "store", "key": "token"}
    ]
    open_store = Context(source=Prometheus(url="http://v"), runbooks="r", dashboards="d")
    assert trigger_authentication(asked, open_store) is None
    assert "authenticationRef" not in scaled_object(asked, open_store)["spec"]["triggers"][0]


def test_the_scaler_moves_within_the_band_and_as_slowly_as_told():
    asked = scaling(autoscale_min=1, polling_interval=15, stabilization=900, workload="w-gpu", kind="StatefulSet")
    spec = scaled_object(asked, CONTEXT)["spec"]
    assert (spec["minReplicaCount"], spec["maxReplicaCount"]) == (1, 3)
    assert (spec["pollingInterval"], spec["cooldownPeriod"]) == (15, 600)
    assert spec["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "w-gpu"}
    down = spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]["scaleDown"]
    assert down == {"stabilizationWindowSeconds": 900}
    assert vm_rule(asked, CONTEXT)["metadata"]["name"] == "w-gpu"


# --- what can't work


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"enabled": False}, "it is disabled"),
        ({"autoscale_min": None, "autoscale_max": None, "desired_replicas": 3}, "nothing to scale"),
        ({"autoscale_max": 0}, "autoscale_max is 0"),
        ({"tags": ()}, "it has no tags"),
        ({"target_queue_depth": 0}, "target_queue_depth is 0"),
        ({"target_queue_depth": CAP // 3 + 1}, "that it is overrun could never be seen"),
        ({"target_queue_depth": CAP, "autoscale_max": 1}, f"= {CAP}, and counts end at {CAP} jobs"),
        ({"drain_timeout": 571.0}, "Make it at least 581"),
        ({"termination_grace": 579}, "killed in the middle of it. Make it at least 580"),
        ({"termination_grace": 601}, "cooldown_period is 600 s, shorter than terminationGracePeriodSeconds (601)"),
        ({"polling_interval": 0}, "polling_interval is 0"),
        ({"stabilization": 3601}, "takes 0 to 3600 s"),
        ({"slo": 0.0}, "slo is 0"),
        ({"workload": "Not_A_Name"}, "'Not_A_Name' can't be the name of a Deployment"),
        ({"name": "gpu_pool"}, "'gpu_pool' can't be the name of a Deployment; say in workload"),
        ({"name": "{{x}}", "workload": "x"}, "can't stand in the text of an alert"),
    ],
)
def test_a_group_whose_numbers_cannot_work_is_refused_in_a_sentence(given, said):
    (sentence,) = problems(scaling(**given))
    assert sentence.startswith("group ")
    assert said in sentence


def test_just_below_the_cap_of_the_view_is_taken_and_a_second_tag_doubles_the_room():
    assert problems(scaling(target_queue_depth=CAP - 1, autoscale_max=1)) == ()
    assert problems(scaling(target_queue_depth=CAP, autoscale_max=1, tags=("a", "b"))) == ()
    assert problems(scaling(target_queue_depth=CAP, autoscale_max=1, tags=("a", "a"))) != ()


def test_the_defaults_of_kubernetes_kill_a_worker_in_the_middle_of_a_drain_and_are_refused():
    asked = Scaling(
        group=WorkerGroup(name="gpu", tags=("gpu",), autoscale_min=0, autoscale_max=3), target_queue_depth=20
    )
    assert ["terminationGracePeriodSeconds is 30" in each for each in problems(asked)] == [True]


def test_keda_is_given_all_parts_of_an_address_or_one_connection():
    whole = Context(source=Secret(name="s", keys={"connection": "url"}), runbooks="r", dashboards="d")
    assert context_problems(whole) == ()
    part = Context(source=Secret(name="s", keys={"host": "h", "password": "p"}), runbooks="r", dashboards="d")
    assert context_problems(part) == (
        "source.keys: KEDA needs port, userName, dbName, sslmode too, or connection alone",
    )
    label = Context(source=Secret(name="s"), runbooks="r", dashboards="d", matchers={"tag": "x"})
    assert context_problems(label) == ("matchers: 'tag' can't be used as a label here",)


def test_a_tag_of_two_groups_is_told():
    said = shared_tags([scaling(), scaling(name="other", tags=("gpu", "cpu"))])
    assert said == ("the tag gpu is served by gpu and other: each grows as if it were alone with those jobs",)
    assert shared_tags([scaling(), scaling(name="other", tags=("cpu",))]) == ()


# --- the file and the registry

FILE = """
namespace: windforce
source: {type: postgresql, name: keda-postgres}
runbooks: https://r.example
dashboards: https://g.example
groups:
- {name: gpu, tags: [gpu], autoscale_min: 0, autoscale_max: 3, target_queue_depth: 20, drain_timeout: 570,
   termination_grace: 580, cooldown_period: 600}
"""
ROW = {
    "name": "gpu",
    "capabilities": ["cuda"],
    "tags": ["gpu"],
    "desired_replicas": 1,
    "autoscale_min": 1,
    "autoscale_max": 3,
    "target_queue_depth": None,
    "polling_interval": 15,
    "cooldown_period": 600,
    "drain_timeout_s": 570,
    "enabled": True,
    "dedicated_workspace_id": None,
}


def test_a_row_of_the_registry_says_what_the_file_does_not():
    text = (
        "source: {type: postgresql, name: s}\nrunbooks: r\ndashboards: d\ngroups: [{name: gpu, termination_grace: 590"
    )
    plan = scaling_file.parse(f"{text}, target_queue_depth: 20, autoscale_min: 0}}]")
    (found,) = scaling_file.scalings(plan, {"gpu": scaling_file.from_row(ROW)})
    assert found == scaling(desired_replicas=1, polling_interval=15, termination_grace=590)
    with pytest.raises(scaling_file.FileError, match="Object missing required field `target_queue_depth`"):
        scaling_file.scalings(scaling_file.parse(f"{text}}}]"), {"gpu": scaling_file.from_row(ROW)})
    with pytest.raises(scaling_file.FileError, match="the registry has none of that name"):
        scaling_file.scalings(plan, {})


def test_everything_that_is_wrong_is_said_at_once():
    text = """
source: {type: postgresql, name: s, keys: {host: h}}
runbooks: r
dashboards: d
groups:
- {name: a, tags: [x], slo: hi}
- {name: b, tags: [x], autoscale_min: 1}
- {name: c, tags: [x], target_queue_depth: 1, typo: 1}
- {name: d, tags: [x], target_queue_depth: 1, drain_timeout: 10}
"""
    with pytest.raises(scaling_file.FileError) as refused:
        scaling_file.scalings(scaling_file.parse(text))
    assert [sentence.partition(":")[0] for sentence in refused.value.problems] == [
        "source.keys",
        "group a",
        "group b",
        "group c",
        "group d",
    ]
    assert "group b: autoscale_min and autoscale_max are given both or neither" in refused.value.problems


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "this is no YAML"),
        ("- 1", "a mapping was expected"),
        ("groups: []", "a list of groups was expected"),
        ("groups: [{tags: [x]}]", r"groups\[0\]: every group has a name"),
        ("groups: [{name: a}, {name: a}]", "group a: it is there twice"),
        ("groups: [{name: a}]", "missing required field"),
        ("groups: [{name: a}]\nsource: {type: kafka}\nrunbooks: r\ndashboards: d", "source.*kafka"),
    ],
)
def test_a_file_that_is_none_is_refused(text, said):
    with pytest.raises(scaling_file.FileError, match=said):
        scaling_file.parse(text)


def test_two_groups_do_not_scale_one_workload():
    more = "- {name: b, workload: gpu, tags: [b], autoscale_min: 0, autoscale_max: 1, target_queue_depth: 1,\n"
    more += "   drain_timeout: 10}\n"
    with pytest.raises(scaling_file.FileError, match="workload gpu: two groups scale it"):
        scaling_file.scalings(scaling_file.parse(FILE + more))


def test_the_command_writes_what_the_functions_make(tmp_path, capsys):
    path = tmp_path / "scaling.yaml"
    path.write_text(FILE)
    assert cli.main(["scaling", "render", str(path)]) == 0
    shown = capsys.readouterr().out
    assert [each["kind"] for each in yaml.safe_load_all(shown)] == ["ScaledObject", "TriggerAuthentication", "VMRule"]
    assert cli.main(["scaling", "render", str(path), "--out", str(tmp_path / "out.yaml")]) == 0
    assert (tmp_path / "out.yaml").read_text() == shown
    assert cli.main(["scaling", "render", str(path), "--format", "vmalert"]) == 0
    assert yaml.safe_load(capsys.readouterr().out)["groups"] == [
        *list(yaml.safe_load_all(shown))[2]["spec"]["groups"],
    ]


def test_the_command_refuses_with_the_place_and_status_2(tmp_path, capsys):
    path = tmp_path / "scaling.yaml"
    path.write_text(FILE.replace("termination_grace: 580", "termination_grace: 30"))
    assert cli.main(["scaling", "render", str(path)]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert f"fleetglass scaling: {path}: group gpu: a drain takes up to 570 s" in told.err
    assert cli.main(["scaling", "render", str(tmp_path / "none.yaml")]) == 2
    assert "can't be read: No such file" in capsys.readouterr().err
