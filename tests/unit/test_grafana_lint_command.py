"""``fleetglass grafana lint``: files and folders in, lines or JSON out, and an exit status that CI can use."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from telemetry import cli
from telemetry.grafana import datasources
from telemetry.grafana.lint.rulebook import RULES
from tests.lint_cases.boards import two
from tests.lint_cases.case import BOARD, board, query, rules


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(**files: str) -> None:
    for name, text in files.items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def run(capsys, *arguments: str) -> tuple[int, list[str], str]:
    status = cli.main(["grafana", "lint", *arguments])
    captured = capsys.readouterr()
    return status, captured.out.splitlines(), captured.err


NO_UNIT = board(lambda made: made["panels"][1]["fieldConfig"]["defaults"].pop("unit"))
NO_LEGEND = board(lambda made: made["panels"][1]["targets"][0].pop("legendFormat"))


def test_what_is_right_ends_with_0_and_a_count(folder, capsys):
    write(**{"boards/shop.json": board(), "ds.yaml": datasources.text(datasources.Settings()), **rules("up == 0")})
    status, lines, err = run(capsys, ".")
    assert (status, err) == (0, "")
    assert lines == ["1 dashboards, 3 datasources, 2 rules in 3 files: 0 errors, 0 notices"]


def test_an_error_is_a_line_with_file_line_level_rule_place_and_advice(folder, capsys):
    write(**{"boards/shop.json": NO_UNIT})
    status, lines, _ = run(capsys, "boards")
    assert status == 1
    assert lines[0] == (
        "boards/shop.json:92: error panel-units-rule [shop, panel 2 'Requests']: "
        "Say what the numbers count (fieldConfig.defaults.unit)."
    )
    assert lines[1:] == ["1 dashboards, 0 datasources, 0 rules in 1 files: 1 errors, 0 notices"]


def test_a_notice_fails_only_when_that_is_asked_for(folder, capsys):
    write(**{"shop.json": NO_LEGEND})
    status, lines, _ = run(capsys, "shop.json")
    assert (status, len(lines)) == (0, 2)
    assert "notice panel-legend" in lines[0]
    assert run(capsys, "--strict", "shop.json")[0] == 1
    assert run(capsys, "--quiet", "shop.json") == (0, [], "")


def test_findings_as_json_for_programs(folder, capsys):
    write(**{"shop.json": NO_UNIT})
    status, lines, _ = run(capsys, "--json", "shop.json")
    assert status == 1
    found = json.loads("\n".join(lines))
    assert found["findings"] == [
        {
            "file": "shop.json",
            "line": 92,
            "rule": "panel-units-rule",
            "level": "error",
            "where": "shop, panel 2 'Requests'",
            "message": "Say what the numbers count (fieldConfig.defaults.unit).",
        }
    ]
    assert (found["boards"], found["excused"]) == (1, 0)


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_can_be_explained(capsys, rule):
    status, lines, _ = run(capsys, "--explain", rule)
    assert status == 0
    assert lines[0].startswith(f"{rule} (")
    assert len(lines) >= 2


def test_all_rules_can_be_explained_and_a_misspelt_one_is_told_its_name(capsys):
    assert len([line for line in run(capsys, "--explain")[1] if not line.startswith(" ")]) == len(RULES)
    status, lines, err = run(capsys, "--explain", "panel-unit-rule")
    assert (status, lines) == (2, [])
    assert "did you mean panel-units-rule?" in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "name files or folders"),
        (["nothing.json"], "nothing.json is neither a file nor a folder"),
        (["--docs", "nothing", "shop.json"], "nothing is no folder"),
        (["--catalogue", "own.yaml", "shop.json"], "own.yaml: "),
        (["--catalogue", "own.txt", "shop.json"], "own.txt is not what /metrics answers"),
        (["--lock", "own.yaml", "shop.json"], "own.yaml is no lockfile"),
        (["latin.json"], "latin.json is not UTF-8"),
    ],
)
def test_called_wrongly_it_says_how_and_ends_with_2(folder, capsys, arguments, says):
    write(**{"shop.json": board(), "own.yaml": "metric: []\n", "own.txt": "a{\n"})
    Path("latin.json").write_bytes(b'{"a": "\xfc"}')
    status, lines, err = run(capsys, *arguments)
    assert (status, lines) == (2, [])
    assert says in err


def test_a_file_that_is_named_and_holds_nothing_known_gets_a_notice(folder, capsys):
    write(**{"names.yaml": "- a\n- b\n", "package.json": '{"name": "x"}', "config.alloy": "", "sub/more.yaml": "- a\n"})
    assert run(capsys, "names.yaml")[1][0].startswith("names.yaml:1: notice nothing-known: Lint knows nothing")
    assert "fleetglass alloy check" in run(capsys, "config.alloy")[1][0]
    assert run(capsys, "sub")[1] == ["0 dashboards, 0 datasources, 0 rules in 1 files: 0 errors, 0 notices"]


def test_hidden_folders_and_modules_of_node_are_passed_over(folder, capsys):
    write(**{".git/a.json": "{", "node_modules/b.json": "{", "boards/c.json": board(), "boards/d.txt": "{"})
    assert run(capsys, ".")[1] == ["1 dashboards, 0 datasources, 0 rules in 1 files: 0 errors, 0 notices"]


# --- exceptions


LINT = """\
exclusions:
  panel-units-rule:
    reason: a panel of the demo
    entries:
      - {dashboard: Shop, panel: Requests}
"""


def test_a_lint_file_in_the_folder_lets_a_panel_pass(folder, capsys):
    write(**{"boards/shop.json": NO_UNIT, "boards/.lint": LINT})
    status, lines, _ = run(capsys, "boards/shop.json")
    assert status == 0
    assert lines[-1].endswith("0 errors, 0 notices, 1 excused")


@pytest.mark.parametrize(
    "entry",
    [
        "{dashboard: shop, panel: 2}",
        "{panel: Requests}",
        "{dashboard: shop}",
        "{file: shop.json}",
        "{panel: Requests, targetIdx: 0}",
    ],
)
def test_an_entry_names_dashboard_panel_or_file(folder, capsys, entry):
    write(**{"shop.json": NO_UNIT, ".lint": LINT.replace("{dashboard: Shop, panel: Requests}", entry)})
    assert run(capsys, "shop.json")[0] == 0


@pytest.mark.parametrize(
    "entry", ["{dashboard: other}", "{panel: Up}", "{panel: 1}", "{file: other.json}", "{alert: Requests}"]
)
def test_an_entry_for_something_else_lets_nothing_pass(folder, capsys, entry):
    write(**{"shop.json": NO_UNIT, ".lint": LINT.replace("{dashboard: Shop, panel: Requests}", entry)})
    assert run(capsys, "shop.json")[0] == 1


def test_an_entry_names_an_alert_or_a_datasource(folder, capsys):
    entries = "exclusions:\n  alert-for: {reason: r, entries: [{alert: Broken}]}\n"
    entries += "  ds-prune: {reason: r}\n  ds-uid: {reason: r, entries: [{datasource: Logs}]}\n"
    source = "apiVersion: 1\nprune: true\ndatasources: [{name: Logs, type: loki, url: 'http://loki:3100'}]\n"
    text = rules("up == 0")["rules.yaml"].replace("for: 5m", "for: 1s", 1)
    write(**{"rules.yaml": text, "ds.yaml": source, ".lint": entries})
    assert run(capsys, "rules.yaml", "ds.yaml")[1][-1].endswith("0 errors, 0 notices, 3 excused")


def test_a_warning_is_noted_and_does_not_fail(folder, capsys):
    write(**{"shop.json": NO_UNIT, ".lint": LINT.replace("exclusions", "warnings")})
    status, lines, _ = run(capsys, "shop.json")
    assert status == 0
    assert "notice panel-units-rule" in lines[0]


def test_an_exception_holds_in_its_own_folder_only(folder, capsys):
    write(**{"a/shop.json": NO_UNIT, "b/.lint": LINT, "b/other.json": two(uid="other")["b.json"]})
    assert run(capsys, "a", "b")[0] == 1


@pytest.mark.parametrize("above", [True, False])
def test_a_comment_lets_its_line_or_the_next_pass(folder, capsys, above):
    text = rules("up == 0")["rules.yaml"].replace("        for: 5m", "        for: 1s", 1)
    comment = "# fleetglass: allow alert-for: a test that must fire at once"
    alert = "      - alert: Broken"
    text = text.replace(alert, f"      {comment}\n{alert}" if above else f"{alert}  {comment}")
    write(**{"rules.yaml": text})
    assert run(capsys, "rules.yaml") == (
        0,
        ["0 dashboards, 0 datasources, 2 rules in 1 files: 0 errors, 0 notices, 1 excused"],
        "",
    )


# --- what files are held against


def test_a_lockfile_beside_the_datasources_tells_of_a_new_uid(folder, capsys):
    before = datasources.text(datasources.Settings()).replace("uid: loki", "uid: P8E80")
    write(**{"ds.yaml": before.replace("datasourceUid: loki", "datasourceUid: P8E80")})
    assert run(capsys, "--write-lock", "datasources.lock.json", "ds.yaml")[0] == 0
    assert json.loads(Path("datasources.lock.json").read_text())["datasources"]["1/Loki"] == "P8E80"
    assert run(capsys, "ds.yaml")[0] == 0
    write(**{"ds.yaml": datasources.text(datasources.Settings())})
    status, lines, _ = run(capsys, ".")
    assert status == 1
    assert "ds.yaml:14: error ds-uid-change [datasource 'Loki']: The uid was 'P8E80' and is now 'loki'" in lines[0]
    write(**{"ds.yaml": datasources.text(datasources.Settings(replace=True))})
    assert run(capsys, "ds.yaml")[0] == 0


def test_metrics_of_ones_own_come_from_a_metrics_page_or_a_table(folder, capsys):
    page = '# TYPE shop_orders counter\nshop_orders_total{state="paid"} 1\n'
    table = "prefixes: [shop_]\nmetrics: [{name: shop_orders_total, kind: counter, labels: [state]}]\n"
    selector = '{job=~"$job", instance=~"$instance"}'
    right = query(f"sum by (state) (rate(shop_orders_total{selector}[$__rate_interval]))")["board.json"]
    wrong = query(f"sum by (status) (rate(shop_order_total{selector}[$__rate_interval]))")["board.json"]
    write(**{"own.prom": page, "own.yaml": table, "right.json": right, "wrong.json": wrong})
    assert run(capsys, "wrong.json")[0] == 0
    for given in (["--catalogue", "own.yaml"], ["--catalogue", "own.prom", "--prefix", "shop_"]):
        assert run(capsys, *given, "right.json")[0] == 0
        status, lines, _ = run(capsys, *given, "wrong.json")
        assert status == 1
        assert "Nobody emits shop_order_total; did you mean shop_orders_total?" in lines[0]


def test_runbook_links_are_held_against_a_folder_of_pages(folder, capsys):
    page = '# Shop\n\n```sh\n# no heading\n```\n\n## It\'s `broken`, again\n\n## Twice\n\n## Twice\n<a id="own"></a>\n'
    write(**{"docs/runbooks/shop.md": page})
    for anchor, status in [
        ("", 0), ("#its-broken-again", 0), ("#twice-1", 0), ("#own", 0), ("#no-heading", 1), ("#twice-2", 1)
    ]:  # fmt: skip
        link = f"https://docs.example/runbooks/shop.md{anchor}"
        write(**{"rules.yaml": rules("up == 0")["rules.yaml"].replace("/r.md", f'"{link}"')})
        assert run(capsys, "--docs", "docs", "rules.yaml")[0] == status, anchor
    write(**{"rules.yaml": rules("up == 0")["rules.yaml"].replace("/r.md", '"https://docs.example/runbooks/shpo.md"')})
    assert "There is no page shpo in runbooks/." in run(capsys, "--docs", "docs", "rules.yaml")[1][0]


def test_a_datasource_of_another_file_can_be_named(folder, capsys):
    source = (
        "apiVersion: 1\ndatasources:\n  - {name: T, uid: t, type: tempo, jsonData: {serviceMap: {datasourceUid: vm}}}\n"
    )
    write(**{"ds.yaml": source})
    assert run(capsys, "ds.yaml")[0] == 1
    assert run(capsys, "--datasource", "vm", "ds.yaml")[0] == 0


def test_an_alert_may_lead_to_a_dashboard_of_ours(folder, capsys):
    write(**{"board.json": board(), **rules("up == 0")})
    text = Path("rules.yaml").read_text().replace("dashboard_uid: shop", "dashboard_uid: fleetglass-overview")
    write(**{"rules.yaml": text})
    assert run(capsys, ".")[0] == 0
    assert BOARD["uid"] == "shop"
