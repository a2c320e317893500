"""The datasource provisioning file: uids, links between the three stores, and nothing that ends Grafana 13 at start."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path

import pytest
import yaml
from opentelemetry.trace import NonRecordingSpan, SpanContext, use_span

from telemetry import cli
from telemetry.grafana.boards import BOARDS
from telemetry.grafana.datasources import LOGS_UID, METRICS_UID, TRACES_UID, Settings, escaped, provisioning, text
from telemetry.grafana.lint import promql
from telemetry.grafana.lint.names import catalogue, problems
from telemetry.grafana.lint.run import File, Options, lint
from telemetry.logs.formatters import JsonFormatter, LogfmtFormatter


def by_name(settings: Settings) -> dict[str, dict]:
    """Each datasource of the file, as Grafana reads it: ``$$`` is a ``$`` again."""
    content = yaml.safe_load(text(settings).replace("$$", "$"))
    return {source["name"]: source for source in content["datasources"]}


SOURCES = by_name(Settings())


def test_the_lockfile_of_the_example_holds_the_uids_of_the_example():
    folder = Path(__file__).parents[2] / "examples" / "kubernetes" / "grafana"
    lock = json.loads((folder / "datasources.lock.json").read_text(encoding="utf-8"))
    text = (folder / "datasources.yaml").read_text(encoding="utf-8")
    assert lock["datasources"] == lint([File("datasources.yaml", text)]).lock
    assert lock["datasources"] == {"1/VictoriaMetrics": METRICS_UID, "1/Loki": LOGS_UID, "1/Tempo": TRACES_UID}


@pytest.mark.parametrize(
    "settings",
    [
        Settings(),
        Settings(replace=True),
        Settings(tenant="acme"),
        Settings(tenant="${TENANT}", logs_url="$__file{/run/loki}", metrics_url="${VM_URL}/select/0/prometheus"),
        Settings(logs_name="Logs $5", traces_name="Traces", metrics_name="Metrics"),
    ],
)
def test_lint_has_nothing_to_say_about_it(settings):
    report = lint([File("datasources.yaml", text(settings))])
    assert not report.findings, list(map(str, report.findings))
    assert report.datasources == 3


def test_each_store_has_the_uid_that_the_others_name():
    assert {name: source["uid"] for name, source in SOURCES.items()} == {
        "VictoriaMetrics": METRICS_UID,
        "Loki": LOGS_UID,
        "Tempo": TRACES_UID,
    }
    assert [source["isDefault"] for source in SOURCES.values() if "isDefault" in source] == [True]


def test_a_line_leads_to_its_trace_by_one_link():
    (field,) = SOURCES["Loki"]["jsonData"]["derivedFields"]
    assert (field["datasourceUid"], field["url"]) == (TRACES_UID, "${__value.raw}")


@pytest.mark.parametrize("formatter", [LogfmtFormatter(), JsonFormatter()], ids=["logfmt", "json"])
def test_the_link_finds_the_id_in_lines_as_we_write_them(formatter):
    context = SpanContext(0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331, is_remote=False)
    with use_span(NonRecordingSpan(context)):
        line = formatter.format(logging.LogRecord("shop", logging.INFO, __file__, 1, "paid", None, None))
    (field,) = SOURCES["Loki"]["jsonData"]["derivedFields"]
    match = re.search(field["matcherRegex"], line)
    assert match is not None, line
    assert match[1] == "0af7651916cd43dd8448eb211c80319c"


def test_a_span_leads_to_its_lines_and_to_the_metrics_of_its_service():
    data = SOURCES["Tempo"]["jsonData"]
    logs, metrics = data["tracesToLogsV2"], data["tracesToMetrics"]
    assert logs["datasourceUid"] == LOGS_UID
    assert logs["customQuery"] is True
    assert logs["query"] == '{${__tags}} |= "${__trace.traceId}" | logfmt'
    assert logs["tags"] == [{"key": "service.name", "value": "service_name"}]
    assert metrics["datasourceUid"] == METRICS_UID
    assert metrics["tags"] == [{"key": "service.name", "value": "job"}]
    assert data["serviceMap"] == {"datasourceUid": METRICS_UID}
    assert data["nodeGraph"] == {"enabled": True}


@pytest.mark.parametrize(
    "query", SOURCES["Tempo"]["jsonData"]["tracesToMetrics"]["queries"], ids=lambda query: query["name"]
)
def test_the_queries_behind_a_span_ask_for_metrics_that_exist(query):
    read = promql.read(query["query"].replace("$__tags", 'job="shop"'))
    assert not read.problem
    assert not list(problems(read, catalogue(), frozenset(), "scrape"))


def test_nothing_asks_for_exemplars_or_prunes():
    whole = text(Settings(replace=True, tenant="x"))
    assert "xemplar" not in whole
    assert "prune" not in whole


def test_a_tenant_is_sent_to_loki_and_tempo_and_comes_from_the_environment_if_asked():
    sources = by_name(Settings(tenant="${TENANT}"))
    for name in ("Loki", "Tempo"):
        assert sources[name]["jsonData"]["httpHeaderName1"] == "X-Scope-OrgID"
        assert sources[name]["secureJsonData"] == {"httpHeaderValue1": "${TENANT}"}
    assert "secureJsonData" not in sources["VictoriaMetrics"]
    assert "X-Scope-OrgID" not in text(Settings())


def test_a_uid_can_change_once_the_old_datasource_is_deleted_first():
    content = provisioning(Settings(replace=True))
    assert list(content) == ["apiVersion", "deleteDatasources", "datasources"]
    assert {each["name"] for each in content["deleteDatasources"]} == SOURCES.keys()
    locked = Options(locked={"1/Loki": "P8E80"})
    changed = [finding.rule for finding in lint([File("a.yaml", text(Settings()))], locked).findings]
    assert changed == ["ds-uid-change"]
    assert not lint([File("a.yaml", text(Settings(replace=True)))], locked).findings


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("http://loki:3100", "http://loki:3100"),
        ("a$b", "a$$b"),
        ("${URL}", "${URL}"),
        ("$__file{/a/b}$", "$__file{/a/b}$$"),
        ("$$", "$$$$"),
        ("${__value.raw}", "$${__value.raw}"),
    ],
)
def test_dollars_are_doubled_but_for_what_grafana_fills_in(given, written):
    assert escaped(given) == written


def test_datasource_variables_of_the_dashboards_find_a_store():
    kinds = {source["type"] for source in SOURCES.values()}
    for board in BOARDS:
        wanted = {variable.choices for variable in board.variables if variable.kind == "datasource"}
        assert wanted <= kinds


# --- the command


def test_the_command_writes_a_file_once(tmp_path, capsys):
    path = tmp_path / "grafana" / "datasources.yaml"
    arguments = ["grafana", "datasources", "--logs-url", "http://l:1", "--tenant", "t", "--replace", str(path)]
    assert cli.main(arguments) == 0
    assert capsys.readouterr().out == f"written    {path}\n"
    assert path.read_text() == text(Settings(logs_url="http://l:1", tenant="t", replace=True))
    assert cli.main(arguments) == 0
    assert capsys.readouterr().out == f"unchanged  {path}\n"


def test_the_command_writes_to_stdout(capsys):
    assert cli.main(["grafana", "datasources", "--metrics-url", "http://m", "--traces-url", "http://t", "-"]) == 0
    assert capsys.readouterr().out == text(Settings(metrics_url="http://m", traces_url="http://t"))


def test_a_file_that_cant_be_written_is_told(tmp_path, capsys):
    assert cli.main(["grafana", "datasources", str(tmp_path)]) == 1
    assert "can't be written" in capsys.readouterr().err
