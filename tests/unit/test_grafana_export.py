"""Dashboards as files: what Kubernetes, the sidecar and Flux ask of a ConfigMap; a second run changes nothing."""

from __future__ import annotations

import json
import re

import pytest
import yaml

from telemetry import cli
from telemetry.grafana.export import CONFIGMAP_LIMIT, TooLargeError, configmap, configmap_name
from telemetry.grafana.shipped import DocumentError, document, shipped
from telemetry.manifest import dump

TEXT = json.dumps({"uid": "Shop_1", "title": "Shop ${job}", "panels": [], "note": "주문\n- $$"}, ensure_ascii=False)
LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")


def run(*arguments: object) -> int:
    return cli.main(["grafana", *map(str, arguments)])


def test_a_configmap_is_one_that_kubernetes_the_sidecar_and_flux_take():
    made = yaml.safe_load(dump(configmap(document(TEXT, "x"), namespace="monitoring", folder="Fleet")))
    assert (made["apiVersion"], made["kind"]) == ("v1", "ConfigMap")
    meta = made["metadata"]
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", meta["name"])
    assert len(meta["name"]) <= 63
    # "1" and not 1: labels are text, and the sidecar compares text.
    assert meta["labels"]["grafana_dashboard"] == "1"
    assert meta["labels"]["kustomize.toolkit.fluxcd.io/substitute"] == "disabled"
    assert all(isinstance(value, str) and LABEL_VALUE.fullmatch(value) for value in meta["labels"].values())
    assert meta["annotations"] == {"grafana_folder": "Fleet"}
    assert meta["namespace"] == "monitoring"
    assert made["data"] == {"Shop_1.json": TEXT}
    assert all(re.fullmatch(r"[-._a-zA-Z0-9]+", key) for key in made["data"])


def test_a_dashboard_that_is_too_large_for_a_configmap_is_named():
    text = json.dumps({"uid": "big", "title": "Big", "panels": ["x" * CONFIGMAP_LIMIT]})
    with pytest.raises(TooLargeError, match="dashboard big has 10486"):
        configmap(document(text, "big.json"))


@pytest.mark.parametrize("uid", ["A_b.C", "-x-", "x" * 40])
def test_any_uid_gives_a_name_that_kubernetes_takes(uid):
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", configmap_name(uid))


def test_a_second_export_writes_nothing(tmp_path, capsys):
    source = tmp_path / "shop.json"
    source.write_text(TEXT)
    for flags in ((), ("--configmap",)):
        assert run("export", "--file", source, "--folder", "Fleet", *flags, tmp_path / "out") == 0
        assert "written" in capsys.readouterr().out
        assert run("export", "--file", source, "--folder", "Fleet", *flags, tmp_path / "out") == 0
        assert capsys.readouterr().out.startswith("unchanged")
    assert (tmp_path / "out" / "Fleet" / "Shop_1.json").read_text() == TEXT


def test_several_configmaps_on_stdout_are_several_documents(tmp_path, capsys):
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_text(json.dumps({"uid": name, "title": name, "panels": []}))
    files = [word for name in ("a", "b") for word in ("--file", tmp_path / f"{name}.json")]
    assert run("export", "--configmap", *files, "-") == 0
    made = list(yaml.safe_load_all(capsys.readouterr().out))
    assert [each["metadata"]["name"] for each in made] == ["dashboard-a", "dashboard-b"]


def test_two_files_with_one_uid_are_refused(tmp_path, capsys):
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_text(json.dumps({"uid": "same", "title": name, "panels": []}))
    files = [word for name in ("a", "b") for word in ("--file", tmp_path / f"{name}.json")]
    assert run("export", *files, tmp_path / "out") == 1
    assert "have the same uid, same" in capsys.readouterr().err


def test_our_own_dashboards_are_exported(tmp_path):
    assert run("export", "--configmap", tmp_path) == 0
    made = [yaml.safe_load(path.read_text()) for path in sorted(tmp_path.iterdir())]
    held = [json.loads(text) for each in made for text in each["data"].values()]
    assert [each["uid"] for each in held] == [each.uid for each in shipped()]
    assert len(held) >= 5


def test_a_file_without_uid_is_refused_since_every_import_would_copy_it():
    with pytest.raises(DocumentError, match="every import would make another copy"):
        document('{"title": "x", "panels": []}', "x.json")
