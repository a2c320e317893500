"""Dashboards into Grafana and images out of it, against the API as it is published; and what kubectl does for us."""

from __future__ import annotations

import base64
import json
import os
import sys
import textwrap
import time
from pathlib import Path

import pytest

from telemetry import cli
from telemetry.grafana.remote.access import Credentials
from telemetry.grafana.remote.dashboards import Board, decide, folder_uid
from tests.published_grafana import published_grafana

MODEL = {"uid": "shop", "id": None, "version": 3, "title": "Shop", "schemaVersion": 42, "panels": [{"id": 1}]}


@pytest.fixture
def grafana(monkeypatch):
    monkeypatch.setenv("FLEETGLASS_GRAFANA_TOKEN", "glsa_valid")
    with published_grafana() as server:
        monkeypatch.setenv("FLEETGLASS_GRAFANA_URL", server.url)
        yield server


@pytest.fixture
def board(tmp_path):
    path = tmp_path / "shop.json"
    path.write_text(json.dumps(MODEL))
    return path


def run(*arguments: object) -> int:
    return cli.main(["grafana", *map(str, arguments)])


def test_an_import_makes_the_folder_and_the_dashboard(grafana, board, capsys):
    assert run("import", board, "--folder", "Our Platform") == 0
    assert capsys.readouterr().out == "created  shop  Shop\n"
    stored = grafana.resources["dashboards", "shop"]
    assert stored["metadata"]["annotations"]["grafana.app/folder"] == "our-platform"
    assert grafana.resources["folders", "our-platform"]["spec"] == {"title": "Our Platform"}
    assert stored["spec"] == {"title": "Shop", "schemaVersion": 42, "panels": [{"id": 1}]}


def test_a_second_import_changes_nothing(grafana, board, capsys):
    run("import", board)
    before = list(grafana.changes)
    assert run("import", board) == 0
    assert grafana.changes == before
    assert "unchanged  shop" in capsys.readouterr().out


def test_what_was_changed_by_hand_is_put_back(grafana, board, capsys):
    run("import", board)
    grafana.resources["dashboards", "shop"]["spec"]["title"] = "Edited"
    assert run("import", board) == 0
    assert grafana.resources["dashboards", "shop"]["spec"]["title"] == "Shop"
    assert grafana.changes[-1].startswith("PUT ")
    assert "updated  shop" in capsys.readouterr().out


def test_a_dashboard_that_was_moved_goes_back_to_its_folder(grafana, board):
    run("import", board)
    grafana.resources["dashboards", "shop"]["metadata"]["annotations"]["grafana.app/folder"] = "elsewhere"
    run("import", board)
    stored = grafana.resources["dashboards", "shop"]["metadata"]["annotations"]
    assert stored["grafana.app/folder"] == "fleetglass"


def test_a_dry_run_changes_nothing(grafana, board, capsys):
    assert run("import", board, "--dry-run") == 0
    assert grafana.changes == []
    assert capsys.readouterr().out == "would be created  shop  Shop\n"


def test_a_provisioned_dashboard_is_said_to_come_from_elsewhere(grafana, board, capsys):
    run("import", board)
    stored = grafana.resources["dashboards", "shop"]
    stored["spec"]["title"] = "Older"
    stored["metadata"]["annotations"]["grafana.app/managedBy"] = "classic-file-provisioning"
    assert run("import", board) == 1
    assert "shop is provisioned there (by classic-file-provisioning)" in capsys.readouterr().err


def test_another_organisation_has_a_namespace_of_its_own(grafana, board):
    assert run("import", board, "--org", 7) == 0
    assert any("/namespaces/org-7/dashboards" in each for each in grafana.changes)
    assert grafana.organisations == {"7"}


def test_grafana_12_is_spoken_to_in_its_own_version(grafana, board):
    grafana.versions = ["v0alpha1", "v1beta1"]
    assert run("import", board) == 0
    assert grafana.resources["dashboards", "shop"]["apiVersion"] == "dashboard.grafana.app/v1beta1"


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda g: setattr(g, "versions", []), "Grafana 12 or newer is needed"),
        (lambda g: setattr(g, "token", "another"), "does not know these credentials (401)"),
    ],
)
def test_a_refusal_is_a_sentence(grafana, board, capsys, spoil, sentence):
    spoil(grafana)
    assert run("import", board) == 1
    said = capsys.readouterr().err
    assert sentence in said
    assert "glsa_valid" not in said


def test_a_grafana_that_is_not_there_is_a_sentence(board, monkeypatch, capsys):
    monkeypatch.setenv("FLEETGLASS_GRAFANA_TOKEN", "glsa_valid")
    assert run("import", board, "--url", "http://127.0.0.1:1") == 1
    assert "Grafana at http://127.0.0.1:1 can't be reached" in capsys.readouterr().err


def test_without_credentials_nothing_is_asked(grafana, board, monkeypatch, capsys):
    monkeypatch.delenv("FLEETGLASS_GRAFANA_TOKEN")
    assert run("import", board) == 1
    assert "no credentials for Grafana: set FLEETGLASS_GRAFANA_TOKEN" in capsys.readouterr().err
    assert grafana.asked == []


def test_a_user_and_a_password_do_as_well(grafana, board, monkeypatch):
    monkeypatch.delenv("FLEETGLASS_GRAFANA_TOKEN")
    monkeypatch.setenv("FLEETGLASS_GRAFANA_USER", "admin")
    monkeypatch.setenv("FLEETGLASS_GRAFANA_PASSWORD", "s3cret")
    assert run("import", board) == 0


def test_files_that_are_no_dashboards_are_named(grafana, tmp_path, capsys):
    path = tmp_path / "other.json"
    for text, sentence in (("{", "is not JSON"), ("[]", "no panels"), ('{"panels": []}', "no uid or no title")):
        path.write_text(text)
        assert run("import", path) == 1
        said = capsys.readouterr().err
        assert str(path) in said
        assert sentence in said
    assert grafana.changes == []


def test_credentials_show_no_secret():
    assert "pa55" not in repr(Credentials(user="admin", password="pa55"))
    assert "glsa" not in repr(Credentials(token="glsa_x"))


def test_a_folder_title_in_another_script_still_has_a_uid():
    assert folder_uid("Ops / GPU") == "ops-gpu"
    assert folder_uid("운영") == "fleetglass"
    assert len(folder_uid("x" * 100)) == 40


def test_what_the_server_keeps_itself_makes_no_difference():
    board = Board("shop", MODEL)
    there = {"metadata": {"annotations": {}}, "spec": {**board.spec, "id": 12, "version": 9, "uid": "shop"}}
    assert decide(there, board, "") == "nothing"
    assert decide(there, board, "elsewhere") == "update"
    assert decide(None, board, "") == "create"


# Images


def test_a_dashboard_is_drawn_into_a_file(grafana, board, tmp_path, capsys):
    run("import", board)
    image = tmp_path / "out" / "shop.png"
    assert run("render", "shop", image, "--from", "now-1h", "--var", "job=shop") == 0
    assert image.read_bytes() == grafana.image
    assert [each.name for each in image.parent.iterdir()] == ["shop.png"]
    query = grafana.queries[-1]
    assert query["from"] == "now-1h"
    assert query["to"] == "now"
    assert query["height"] == "-1"
    assert query["var-job"] == "shop"
    assert grafana.asked[-1] == "GET /render/d/shop/_"


def test_a_panel_is_drawn_alone(grafana, board, tmp_path):
    run("import", board)
    assert run("render", "shop", tmp_path / "p.png", "--panel", 3, "--width", 800) == 0
    assert grafana.asked[-1] == "GET /render/d-solo/shop/_"
    assert grafana.queries[-1].items() >= {"panelId": "3", "width": "800", "height": "500", "orgId": "1"}.items()


def test_the_dashboards_that_are_there_are_listed(grafana, board, capsys):
    run("import", board)
    capsys.readouterr()
    assert run("render", "--list") == 0
    assert capsys.readouterr().out == "shop  Shop\n"


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        ({"renderer": False}, "Grafana has no image renderer: run grafana-image-renderer"),
        ({"render_status": 500}, "could not draw shop (500)"),
        ({"image": b"<html>login</html>"}, "in place of an image"),
        ({"resources": {}}, "there is no dashboard 'shop'"),
    ],
)
def test_no_image_is_a_sentence_and_no_file(grafana, board, tmp_path, capsys, spoil, sentence):
    run("import", board)
    for name, value in spoil.items():
        setattr(grafana, name, value)
    image = tmp_path / "shop.png"
    assert run("render", "shop", image) == 1
    assert sentence in capsys.readouterr().err
    assert not image.exists()


# kubectl: a program of the same behaviour stands for it, since no cluster can be had that forwards ports.

KUBECTL = """\
#!{python}
import json, os, socket, sys, threading, time
words = sys.argv[1:]
with open({record!r}, "a") as record:
    record.write(" ".join(words) + "\\n")
if words[:2] == ["get", "secret"]:
    found = json.load(open({secrets!r})).get(words[words.index("--namespace") + 1] + "/" + words[2])
    if found is None:
        sys.exit(f'Error from server (NotFound): secrets "{{words[2]}}" not found')
    print(json.dumps({{"kind": "Secret", "data": found}}))
elif words[0] == "port-forward":
    if "service/missing" in words:
        sys.exit('Error from server (NotFound): services "missing" not found')
    door = socket.create_server(("127.0.0.1", 0))
    print(f"Forwarding from 127.0.0.1:{{door.getsockname()[1]}} -> 3000", flush=True)
    open({record!r} + ".pid", "w").write(str(os.getpid()))
    def pump(source, sink):
        while data := source.recv(65536):
            sink.sendall(data)
        sink.close()
    while True:
        near, _ = door.accept()
        far = socket.create_connection(("127.0.0.1", int(os.environ["BEHIND"])))
        for pair in ((near, far), (far, near)):
            threading.Thread(target=pump, args=pair, daemon=True).start()
"""


@pytest.fixture
def kubectl(tmp_path, monkeypatch):
    folder = tmp_path / "bin"
    folder.mkdir()
    secrets, record = tmp_path / "secrets.json", tmp_path / "kubectl.txt"
    values = {"admin-user": "admin", "admin-password": "s3cret"}
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    secrets.write_text(json.dumps({"monitoring/grafana": encoded}))
    script = folder / "kubectl"
    script.write_text(textwrap.dedent(KUBECTL).format(python=sys.executable, record=str(record), secrets=str(secrets)))
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return record


def gone(pid: int) -> bool:
    # A process of ours that has ended and was waited for has no entry any more.
    return not Path(f"/proc/{pid}").exists()


def test_a_port_forward_is_opened_and_closed_again(kubectl, board, monkeypatch, capsys):
    monkeypatch.delenv("FLEETGLASS_GRAFANA_URL", raising=False)
    with published_grafana() as server:
        monkeypatch.setenv("BEHIND", server.url.rpartition(":")[2])
        way = ("--port-forward", "monitoring/grafana:80", "--secret", "monitoring/grafana")
        assert run("import", board, *way) == 0
    assert ("dashboards", "shop") in server.resources
    asked = kubectl.read_text().splitlines()
    assert asked == [
        "get secret grafana --namespace monitoring --output json",
        "port-forward --namespace monitoring --address 127.0.0.1 service/grafana :80",
    ]
    said = capsys.readouterr()
    assert "s3cret" not in said.out + said.err
    deadline = time.monotonic() + 10
    while not gone(int(Path(f"{kubectl}.pid").read_text())):
        assert time.monotonic() < deadline, "the port-forward is still there"
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("way", "sentence"),
    [
        (("--secret", "monitoring/nothing", "--url", "http://127.0.0.1:1"), 'secrets "nothing" not found'),
        (
            ("--secret", "monitoring/grafana:api-key", "--url", "http://127.0.0.1:1"),
            "has no key 'api-key'; its keys: admin-password, admin-user",
        ),
        (
            ("--secret", "monitoring/grafana", "--port-forward", "monitoring/missing:80"),
            'port-forward to service/missing in monitoring failed: Error from server (NotFound): services "missing"',
        ),
        (("--secret", "monitoring/grafana"), "where is Grafana?"),
    ],
)
def test_what_kubectl_says_is_passed_on(kubectl, board, monkeypatch, capsys, way, sentence):
    monkeypatch.delenv("FLEETGLASS_GRAFANA_URL", raising=False)
    assert run("import", board, *way) == 1
    said = capsys.readouterr().err
    assert sentence in said
    assert "s3cret" not in said


def test_a_machine_without_kubectl_is_told_so(board, monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run("import", board, "--secret", "monitoring/grafana", "--url", "http://127.0.0.1:1") == 1
    assert "kubectl is not on PATH" in capsys.readouterr().err
