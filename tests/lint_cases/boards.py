"""Traps in dashboards: their variables, panels, form and links."""

from __future__ import annotations

import json
from typing import Any

from telemetry.grafana.lint.across import Pages
from telemetry.grafana.lint.run import Options
from tests.lint_cases.case import BOARD, Case, board

GOOD = {"board.json": board()}


def changed(*steps: str | int, to: Any = None, drop: bool = False) -> dict[str, str]:
    """The dashboard with the value at ``steps`` set to another one, or dropped."""

    def change(made: Any) -> None:
        for step in steps[:-1]:
            made = made[step]
        if drop:
            del made[steps[-1]]
        else:
            made[steps[-1]] = to

    return {"board.json": board(change)}


def variable(index: int, name: str, to: Any) -> dict[str, str]:
    return changed("templating", "list", index, name, to=to)


def panel(index: int, *steps: str | int, to: Any = None, drop: bool = False) -> dict[str, str]:
    return changed("panels", index, *steps, to=to, drop=drop)


def v2(source: Any = None, **spec: Any) -> str:
    """A V2 dashboard with one panel on ``source``."""
    made = {
        "apiVersion": "dashboard.grafana.app/v2",
        "kind": "Dashboard",
        "metadata": {"name": "shop"},
        "spec": {
            "title": "Shop",
            "editable": False,
            "tags": [],
            "variables": [
                {
                    "kind": "DatasourceVariable",
                    "spec": {"name": "datasource", "label": "Data source", "pluginId": "prometheus"},
                }
            ],
            "elements": {
                "one": {
                    "kind": "Panel",
                    "spec": {
                        "id": 1,
                        "title": "Up",
                        "description": "Processes that answer.",
                        "vizConfig": {
                            "kind": "VizConfig",
                            "group": "stat",
                            "spec": {"fieldConfig": {"defaults": {"unit": "short", "noValue": "0"}}, "options": {}},
                        },
                        "data": {
                            "kind": "QueryGroup",
                            "spec": {
                                "queries": [
                                    {
                                        "kind": "PanelQuery",
                                        "spec": {
                                            "refId": "A",
                                            "query": {
                                                "kind": "DataQuery",
                                                "group": "prometheus",
                                                "datasource": source or {"name": "${datasource}"},
                                                "spec": {"expr": 'sum(up{job=~"$job", instance=~"$instance"})'},
                                            },
                                        },
                                    }
                                ]
                            },
                        },
                    },
                }
            },
            "layout": {
                "kind": "GridLayout",
                "spec": {
                    "items": [
                        {
                            "kind": "GridLayoutItem",
                            "spec": {
                                "x": 0, "y": 0, "width": 24, "height": 4,
                                "element": {"kind": "ElementReference", "name": "one"},
                            },
                        }
                    ]
                },
            },
        }
        | spec,
    }  # fmt: skip
    return json.dumps(made, indent=1)


def alpha(expression: str) -> str:
    """The same in v2alpha1: the type is the query's kind, the datasource stands beside it."""
    made = json.loads(v2().replace("app/v2", "app/v2alpha1"))
    spec = made["spec"]["elements"]["one"]["spec"]["data"]["spec"]["queries"][0]["spec"]
    spec["datasource"] = {"type": "prometheus", "uid": "${datasource}"}
    spec["query"] = {"kind": "prometheus", "spec": {"expr": expression}}
    return json.dumps(made, indent=1)


def two(**second: Any) -> dict[str, str]:
    return {"b.json": json.dumps(BOARD | second, indent=1), "a.json": board()}


SELECT = 'sum(up{job=~"$job", instance=~"$instance"})'
PAGES = Options(pages=Pages({"runbooks/shop.md": frozenset({"broken"})}))

CASES = [
    # The rules of grafana/dashboard-linter.
    Case("no datasource variable", "template-datasource-rule",
         changed("templating", "list", to=[]), '"uid": "shop"', "Add a datasource variable", "shop", shift=-1,
         good=GOOD),
    Case("a datasource variable of another name", "template-datasource-rule",
         variable(0, "name", "ds"), '"name": "ds"', "should be named datasource or prometheus_datasource", shift=-1),
    Case("a datasource variable of another label", "template-datasource-rule",
         variable(0, "label", "DS"), '"name": "datasource"', "should be labelled", level="notice", shift=-1),
    Case("no job variable", "template-job-rule",
         variable(1, "name", "group"), '"uid": "shop"', "Add a variable `job`", "shop", shift=-1, good=GOOD),
    Case("a job variable for one value", "template-job-rule",
         variable(1, "multi", False), '"name": "job"', "several", shift=-1),
    Case("a job variable with all as .*", "template-job-rule",
         variable(1, "allValue", ".*"), '"name": "job"', "should be `.+`", shift=-1),
    Case("a job variable on a fixed datasource", "template-job-rule",
         variable(1, "datasource", {"type": "prometheus", "uid": "P1"}), '"name": "job"', "not 'P1'", shift=-1),
    Case("a job variable of custom values", "template-job-rule",
         variable(1, "type", "custom"), '"name": "job"', "should be a query", shift=-1),
    Case("no instance variable", "template-instance-rule",
         variable(2, "name", "pod"), '"uid": "shop"', "Add a variable `instance`", "shop", shift=-1, good=GOOD),
    Case("an instance variable with another label", "template-instance-rule",
         variable(2, "label", "Pod"), '"name": "instance"', "labelled 'Instance'", level="notice", shift=-1),
    Case("a variable that asks for something else", "template-label-promql-rule",
         variable(1, "query", "jobs(up)"), '"name": "job"', "label_values(…)", shift=-1, good=GOOD),
    Case("a variable with broken PromQL", "template-label-promql-rule",
         variable(1, "query", "label_values(up{job=}, job)"), '"name": "job"', "asks for no PromQL", shift=-1),
    Case("a variable that is filled once", "template-on-time-change-reload-rule",
         variable(1, "refresh", 1), '"name": "job"', "refresh 2", shift=-1, good=GOOD),
    Case("a panel on a fixed datasource", "panel-datasource-rule",
         panel(1, "datasource", "uid", to="PBFA97CFB590B2093"), '"id": 2', "instead of 'PBFA97CFB590B2093'",
         "shop, panel 2 'Requests'", shift=-1, good=GOOD),
    Case("a panel on the default datasource", "panel-datasource-rule",
         panel(1, "datasource", drop=True), '"id": 2', "instead of the default", shift=-1),
    Case("a panel without a title", "panel-title-description-rule",
         panel(1, "title", to=""), '"id": 2', "missing: title", shift=-1, good=GOOD),
    Case("a panel without a description", "panel-title-description-rule",
         panel(0, "description", drop=True), '"id": 1', "missing: description", shift=-1),
    Case("a panel without a unit", "panel-units-rule",
         panel(1, "fieldConfig", "defaults", "unit", drop=True), '"id": 2', "Say what the numbers count", shift=-1,
         good=panel(1, "fieldConfig", "defaults", to={"mappings": [{"type": "value"}], "min": 0, "noValue": "0"})),
    Case("a panel with an unknown unit", "panel-units-rule",
         panel(1, "fieldConfig", "defaults", "unit", to="requests"), '"id": 2', "no unit 'requests'", shift=-1,
         good=panel(1, "fieldConfig", "defaults", "unit", to="suffix: requests")),
    Case("a panel without a query", "panel-no-targets-rule",
         panel(1, "targets", to=[]), '"id": 2', "Add a query", shift=-1, good=GOOD),
    Case("an answer of a panel that doesn't exist", "target-promql-rule",
         panel(1, "targets", to=[{"refId": "A", "panelId": 9}]), '"panelId": 9', "Panel 9", shift=-2),
    Case("a dashboard to be edited by hand", "uneditable-dashboard",
         changed("editable", drop=True), '"uid": "shop"', "Set `editable` to false", "shop", shift=-1, good=GOOD),
    # Form and identity.
    Case("a dashboard without a uid", "board-uid",
         changed("uid", drop=True), '"title": "Shop"', "Give the dashboard a `uid`", "Shop", shift=-1, good=GOOD),
    Case("a uid of 41 characters", "board-uid",
         changed("uid", to="x" * 41), '"uid"', "at most 40 letters, digits, - and _; it has 41"),
    Case("a uid with a slash", "board-uid", changed("uid", to="a/b"), '"uid"', "not 'a/b'"),
    Case("one uid in two files", "board-uid", two(title="Copy"), '"uid": "shop"', "in a.json:1", "shop", shift=-1,
         good=two(uid="copy", title="Copy")),
    Case("a dashboard in the API's envelope", "board-form",
         {"board.json": json.dumps({"dashboard": BOARD, "overwrite": True})}, "{", "envelope", good=GOOD),
    Case("a V2 spec without its resource", "board-form",
         {"board.json": json.dumps(json.loads(v2())["spec"], indent=1)}, "{", "without its resource",
         good={"board.json": v2()}),
    Case("a classic dashboard under a V2 apiVersion (grafana#128167)", "board-form",
         {"board.json": v2(panels=[])}, '"spec": {', "is of the classic schema"),
    Case("a V2 spec under a V1 apiVersion", "board-form",
         {"board.json": v2().replace("app/v2", "app/v1")}, '"spec": {', "is of the V2 schema"),
    Case("a resource without a name", "board-form",
         {"board.json": v2().replace('"name": "shop"', '"title": "shop"')}, "{", "metadata.name"),
    Case("a V2 panel with the datasource as a string (grafana#128167)", "v2-datasource-string",
         {"board.json": v2("${datasource}")}, '"expr"', "write {name: ${datasource}}", "shop, panel 1 'Up'",
         good={"board.json": v2()}),
    Case("a panel of v2alpha1 with a broken query", "target-promql-rule", {"board.json": alpha("sum(up")}, '"expr"',
         "This is not PromQL", "shop, panel 1 'Up'", good={"board.json": alpha(SELECT)}),
    Case("a dashboard exported for sharing", "board-inputs",
         changed("__inputs", to=[{"name": "DS_PROMETHEUS"}]), '"__inputs"', "exported for sharing", "shop", good=GOOD),
    Case("a dashboard of an old schema", "board-schema",
         changed("schemaVersion", to=16), '"schemaVersion"', "schemaVersion is 16", level="notice", good=GOOD),
    Case("21 open panels", "board-size",
         changed("panels", to=[BOARD["panels"][1] | {"id": n, "gridPos": {"x": 0, "y": n * 8, "w": 24, "h": 8}}
                               for n in range(1, 22)]),
         '"uid": "shop"', "21 panels are open", level="notice", shift=-1, good=GOOD),
    Case("a page that begins with curves", "board-first-row",
         panel(0, "type", to="table"), '"uid": "shop"', "whether it is OK", level="notice", shift=-1, good=GOOD),
    Case("stats without thresholds", "board-first-row",
         panel(0, "fieldConfig", "defaults", "thresholds", drop=True), '"uid": "shop"', "thresholds", level="notice",
         shift=-1),
    # Panels.
    Case("a panel without an id", "panel-id",
         panel(1, "id", drop=True), '"type": "timeseries"', "links and images name it", "shop, panel 'Requests'",
         shift=-1, good=GOOD),
    Case("two panels with one id", "panel-id", panel(1, "id", to=1), '"id": 1', "2 panels have the id 1", shift=-1),
    Case("panels that overlap", "panel-overlap",
         panel(1, "gridPos", "y", to=3), '"id": 2', "overlaps panel 1 'Up'", "shop, panel 2 'Requests'", shift=-1,
         good=GOOD),
    Case("a panel beyond the right edge", "panel-overlap",
         panel(1, "gridPos", "x", to=1), '"id": 2', "within 24 columns", shift=-1),
    Case("a panel without a place", "panel-overlap",
         panel(1, "gridPos", drop=True), '"id": 2', "Give the panel a gridPos", shift=-1),
    Case("two queries under one letter", "panel-ref-ids",
         panel(1, "targets", to=[BOARD["panels"][1]["targets"][0]] * 2), '"id": 2', "the refId A", shift=-1, good=GOOD),
    Case("a panel that is blank when there is nothing", "panel-no-value",
         panel(1, "fieldConfig", "defaults", "noValue", drop=True), '"id": 2', "noValue", level="notice", shift=-1,
         good=GOOD),
    Case("an axis that begins anywhere", "panel-min",
         panel(1, "fieldConfig", "defaults", "min", drop=True), '"id": 2', "`min: 0`", level="notice", shift=-1,
         good=GOOD),
    Case("series without a name", "panel-legend",
         panel(1, "targets", 0, "legendFormat", drop=True), '"expr": "sum by (job)', "legendFormat", level="notice",
         good=GOOD),
    Case("a variable that isn't there", "undefined-variable",
         panel(0, "targets", 0, "expr", to=SELECT.replace("$job", "$jobs")), "$jobs", "$jobs is no variable",
         "shop, panel 1 'Up'", good=GOOD),
    # Links.
    Case("a link to a dashboard that isn't there", "dead-link",
         two(uid="copy", links=[{"type": "link", "url": "/d/shpo/shop?${__url_time_range}"}]), '"type": "link"',
         "uid 'shpo'", "copy", shift=-1, good=two(uid="copy", links=[{"type": "link", "url": "/d/shop/shop"}])),
    Case("a data link to a dashboard that isn't there", "dead-link",
         two(uid="copy", panels=[BOARD["panels"][0], BOARD["panels"][1] | {
             "fieldConfig": {"defaults": {"unit": "reqps", "min": 0, "noValue": "0",
                                          "links": [{"title": "Go",
                                          "url": "/d/nothing?var-job=${__field.labels.job}"}]}}}]),
         '"title": "Go"', "uid 'nothing'", "copy, panel 2 'Requests'", shift=-1),
    Case("a link by a tag that no dashboard has", "dead-link",
         changed("links", to=[{"type": "dashboards", "tags": ["shp"]}]), '"type": "dashboards"', "tag shp", shift=-1,
         good=changed("links", to=[{"type": "dashboards", "tags": ["shop"]}])),
    Case("a link to a heading that isn't there", "dead-link",
         changed("links", to=[{"type": "link", "url": "https://docs.example/runbooks/shop.md#brokn"}]),
         '"type": "link"', "no heading #brokn", shift=-1, options=PAGES,
         good=changed("links", to=[{"type": "link", "url": "https://docs.example/runbooks/shop#broken"}])),
]  # fmt: skip
