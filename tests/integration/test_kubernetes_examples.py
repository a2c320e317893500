"""``examples/kubernetes``: it builds, its names agree, and what is known to break is not in it."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from telemetry import cli
from telemetry.grafana import datasources
from tests.backends import programs

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "kubernetes"
SUBSTITUTE = "kustomize.toolkit.fluxcd.io/substitute"
Object = dict[str, Any]


def build(path: Path) -> list[Object]:
    """The objects that a kustomization makes."""
    if programs.find("kustomize") is None:
        if os.environ.get("FLEETGLASS_REQUIRE_BACKENDS") == "1":
            pytest.fail(programs.missing("kustomize"), pytrace=False)
        pytest.skip(programs.missing("kustomize"))
    command = [programs.program("kustomize"), "build", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


@pytest.fixture(scope="module")
def objects() -> list[Object]:
    """What the example applies."""
    return build(FOLDER)


def of(objects: list[Object], kind: str) -> dict[str, Object]:
    return {each["metadata"]["name"]: each for each in objects if each["kind"] == kind}


def values(name: str) -> Object:
    read: Object = yaml.safe_load((FOLDER / "values" / f"{name}.yaml").read_text("utf-8"))
    return read


def test_generated_files_are_what_make_docs_writes() -> None:
    spec = importlib.util.spec_from_file_location("reference", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    stale = [str(path) for path, text in module.examples().items() if (ROOT / path).read_text("utf-8") != text]
    assert not stale, "run `make docs`"


@pytest.mark.parametrize("folder", ["examples/kubernetes", "examples/kubernetes/scrapes", "alloy"])
def test_each_kustomization_builds(folder: str) -> None:
    for each in build(ROOT / folder):
        assert {"apiVersion", "kind", "metadata"} <= each.keys()
        assert each["metadata"]["name"]


def test_each_release_has_its_values_and_its_chart_a_source_and_a_version(objects: list[Object]) -> None:
    releases, maps, sources = of(objects, "HelmRelease"), of(objects, "ConfigMap"), of(objects, "HelmRepository")
    assert set(releases) == {"vm-stack", "loki", "tempo", "alloy-gateway", "alloy-node"}
    for name, release in releases.items():
        assert release["metadata"]["namespace"] == "monitoring"
        for source in release["spec"]["valuesFrom"]:
            assert yaml.safe_load(maps[source["name"]]["data"]["values.yaml"]) == values(name)
        chart = release["spec"]["chart"]["spec"]
        assert chart["sourceRef"]["name"] in sources
        assert re.match(r"[>=]*\d+\.\d+\.\d+", chart["version"]), name


def test_flux_leaves_alone_what_it_would_take_for_its_variables(objects: list[Object]) -> None:
    """fluxcd/flux2-monitoring-example#44: ${…} in a ConfigMap becomes nothing."""
    for each in [*objects, *build(ROOT / "alloy")]:
        if "${" in yaml.safe_dump(each):
            marked = {**each["metadata"].get("labels", {}), **each["metadata"].get("annotations", {})}
            assert marked.get(SUBSTITUTE) == "disabled", each["metadata"]["name"]
    assert of(objects, "ConfigMap")["fleetglass-datasources"]["metadata"]["labels"][SUBSTITUTE] == "disabled"


def test_grafanas_sidecar_finds_datasources_with_the_uids_of_the_dashboards(objects: list[Object]) -> None:
    found = of(objects, "ConfigMap")["fleetglass-datasources"]
    assert found["metadata"]["labels"]["grafana_datasource"] == "1"
    sources = yaml.safe_load(found["data"]["fleetglass.yaml"])["datasources"]
    expected = {datasources.METRICS_UID, datasources.LOGS_UID, datasources.TRACES_UID}
    assert {source["uid"] for source in sources} == expected
    # Two sources of one uid end Grafana at start: the chart's own of that uid are left out.
    assert values("vm-stack")["defaultDatasources"]["victoriametrics"]["datasources"] == []
    sidecar = values("vm-stack")["grafana"]["sidecar"]
    assert (sidecar["datasources"]["label"], sidecar["dashboards"]["label"]) == (
        "grafana_datasource",
        "grafana_dashboard",
    )


def test_every_address_that_is_named_is_one_of_a_service_here(objects: list[Object]) -> None:
    """Services are named by fullnameOverride; victoriametrics is a name of ours for what the operator makes."""
    listening = {
        f"{values('loki')['fullnameOverride']}.monitoring.svc:{values('loki')['loki']['server']['http_listen_port']}",
        f"{values('tempo')['fullnameOverride']}.monitoring.svc:3200",
        f"{values('tempo')['fullnameOverride']}.monitoring.svc:4318",
    }
    alias = of(objects, "Service")["victoriametrics"]["spec"]
    listening.add(f"victoriametrics.monitoring.svc:{alias['ports'][0]['port']}")
    assert alias["externalName"] == f"vmsingle-{values('vm-stack')['fullnameOverride']}.monitoring.svc.cluster.local"
    text = "".join(yaml.safe_dump(each) for each in objects)
    named = set(re.findall(r"http://([a-z.-]+\.monitoring\.svc:\d+)", text))
    assert named >= {"loki.monitoring.svc:3100", "tempo.monitoring.svc:3200", "victoriametrics.monitoring.svc:8428"}
    assert {each for each in named if not each.startswith("alloy-")} <= listening


def test_loki_and_tempo_are_set_up_as_in_the_compose_file() -> None:
    cluster, composed = values("loki")["loki"], yaml.safe_load((ROOT / "examples/stack/loki.yaml").read_text("utf-8"))
    assert cluster["limits_config"] == composed["limits_config"]
    assert cluster["analytics"] == composed["analytics"] == {"reporting_enabled": False}
    tempo = yaml.safe_load(values("tempo")["config"])
    composed = yaml.safe_load((ROOT / "examples/stack/tempo.yaml").read_text("utf-8"))
    assert tempo["distributor"] == composed["distributor"]
    assert tempo["usage_report"] == composed["usage_report"]
    assert values("tempo")["tempo"]["receivers"] == tempo["distributor"]["receivers"]


@pytest.mark.parametrize("name", ["vm-stack", "loki", "tempo"])
def test_data_lies_on_volumes_and_images_are_those_of_the_compose_file(name: str) -> None:
    composed = yaml.safe_load((ROOT / "examples/compose.yaml").read_text("utf-8"))["services"]
    tags = {service: each["image"].rpartition(":")[2] for service, each in composed.items()}
    given = values(name)
    if name == "vm-stack":
        assert given["vmsingle"]["spec"]["storage"]["resources"]["requests"]["storage"]
        assert given["grafana"]["persistence"]["enabled"] is True
        assert given["vmsingle"]["spec"]["image"]["tag"] == tags["victoriametrics"]
        assert given["grafana"]["image"]["tag"] == tags["grafana"]
        assert given["grafana"]["imageRenderer"]["image"]["tag"] == tags["renderer"]
    elif name == "loki":
        assert given["singleBinary"]["persistence"]["enabled"] is True
        assert given["loki"]["image"]["tag"] == tags["loki"]
    else:
        assert given["persistence"]["enabled"] is True
        assert given["tempo"]["tag"] == tags["tempo"]


def test_grafana_and_its_renderer_take_one_token_from_one_secret() -> None:
    """grafana/grafana-image-renderer#978."""
    grafana = values("vm-stack")["grafana"]
    assert (
        grafana["envValueFrom"]["GF_RENDERING_RENDERER_TOKEN"]
        == grafana["imageRenderer"]["envValueFrom"]["AUTH_TOKEN"]
        == {"secretKeyRef": {"name": "grafana-renderer", "key": "token"}}
    )


def test_scrapes_keep_the_services_own_name_as_job() -> None:
    made = build(FOLDER / "scrapes")
    services, pods = of(made, "VMServiceScrape"), of(made, "VMPodScrape")
    assert services["fleetglass-services"]["spec"]["jobLabel"] == "app.kubernetes.io/name"
    assert pods["fleetglass-pods"]["spec"]["jobLabel"] == "app.kubernetes.io/name"
    # helm-controller has no Service, and source-controller's leaves the port out: pods are scraped.
    [endpoint] = pods["flux-controllers"]["spec"]["podMetricsEndpoints"]
    assert endpoint["port"] == "http-prom"


def test_fluxs_kustomizations_name_folders_that_are_there_and_wait_for_what_they_need() -> None:
    made = list(yaml.safe_load_all((FOLDER / "flux" / "fleetglass.yaml").read_text("utf-8")))
    kustomizations = of(made, "Kustomization")
    for each in kustomizations.values():
        assert (ROOT / each["spec"]["path"] / "kustomization.yaml").is_file()
        assert each["spec"]["sourceRef"]["name"] in of(made, "GitRepository")
        for needed in each["spec"].get("dependsOn", []):
            assert needed["name"] in kustomizations
    # What is applied with the namespace would be deleted with it, volumes and all.
    assert kustomizations["fleetglass-stack"]["spec"]["prune"] is False


def test_our_own_lint_finds_no_fault_with_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["grafana", "lint", str(FOLDER)]) == 0
    assert "0 errors" in capsys.readouterr().out


@pytest.mark.stack
def test_a_real_tempo_takes_its_configuration(tmp_path: Path) -> None:
    if programs.find("tempo") is None:
        pytest.skip(programs.missing("tempo"))
    (tmp_path / "tempo.yaml").write_text(values("tempo")["config"], encoding="utf-8")
    command = [programs.program("tempo"), "-config.verify", "-config.file=tempo.yaml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
