"""The Alloy modules and configurations that this repository ships, read as text: documented, named, wired, packed."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from telemetry.alloy.syntax import Attribute, Block, File, Literal, parse

ROOT = Path(__file__).resolve().parents[2]
ALLOY = ROOT / "alloy"
MODULES = sorted((ALLOY / "modules").glob("*.alloy"))
CONFIGS = sorted([ALLOY / "config.alloy", *(ALLOY / "kubernetes").glob("*.alloy")])


def _name(path: Path) -> str:
    return str(path.relative_to(ALLOY))


def _read(path: Path) -> File:
    file = parse(path.read_text(encoding="utf-8"), _name(path))
    assert file.faults == ()
    return file


def _blocks(within: File | Block, name: str = "") -> list[Block]:
    return [each for each in within.body if isinstance(each, Block) and name in ("", each.name)]


def _attributes(block: Block) -> dict[str, Attribute]:
    return {each.name: each for each in block.body if isinstance(each, Attribute)}


def _declare(path: Path) -> Block:
    (declare,) = _blocks(_read(path))
    assert (declare.name, declare.label) == ("declare", path.stem), "one idea a file, called like the file"
    return declare


def _arguments(path: Path) -> dict[str, bool]:
    """The arguments of a module, and whether each must be given."""
    return {str(each.label): "optional" not in _attributes(each) for each in _blocks(_declare(path), "argument")}


def _comment(path: Path) -> str:
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("//"):
            break
        lines.append(line[2:].removeprefix(" "))
    return "\n".join(lines)


def _example(path: Path) -> str:
    return "\n".join(line[1:] for line in _comment(path).splitlines() if line.startswith("\t"))


def _uses(file: File) -> Iterator[tuple[str, Block]]:
    """Every use of a module of ours in a file, by the module's name."""
    for block in _blocks(file):
        space, _, module = block.name.partition(".")
        if space == "fleetglass":
            yield module, block


def _wrong_arguments(module: str, block: Block) -> list[str]:
    known = _arguments(ALLOY / "modules" / f"{module}.alloy")
    given = _attributes(block).keys()
    missing = [name for name, required in known.items() if required and name not in given]
    return [f"{module} has no argument {name}" for name in given - known.keys()] + [
        f"{module} needs {name}" for name in missing
    ]


def _variables(path: Path) -> set[str]:
    return set(re.findall(r'sys\.env\("(\w+)"\)', path.read_text(encoding="utf-8")))


# --- modules --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_a_module_says_what_it_is_for_and_shows_a_use_that_fits_its_arguments(path: Path) -> None:
    comment = _comment(path)
    assert len(comment.split("\n\n")[0]) > 20, "a sentence on what it is for comes first"
    used = list(_uses(parse(_example(path), "example")))
    assert [module for module, _ in used] == [path.stem]
    assert _wrong_arguments(*used[0]) == []


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_every_argument_of_a_module_has_a_sentence_and_a_default_where_it_is_optional(path: Path) -> None:
    arguments = _blocks(_declare(path), "argument")
    assert arguments
    for argument in arguments:
        given = _attributes(argument)
        comment = given["comment"].value
        assert isinstance(comment, Literal)
        assert str(comment.value).endswith("."), argument.title
        assert ("optional" in given) == ("default" in given), argument.title


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_a_module_reads_no_variable_so_that_its_arguments_say_everything(path: Path) -> None:
    code = "\n".join(line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("//"))
    assert "sys.env" not in code


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_no_module_makes_a_label_of_what_a_line_holds(path: Path) -> None:
    def stages(block: Block) -> Iterator[str]:
        for each in _blocks(block):
            yield each.name
            yield from stages(each)

    assert "stage.labels" not in set(stages(_declare(path)))


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_each_module_has_a_page_with_its_arguments(path: Path, reference: ModuleType) -> None:
    page = Path("docs/alloy") / f"{path.stem}.md"
    assert (ROOT / page).read_text(encoding="utf-8") == reference.pages()[page], "run `make docs`"
    for name in _arguments(path):
        assert f"| `{name}` |" in (ROOT / page).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_overview_leads_to_every_module_and_no_page_is_left_of_one_that_went() -> None:
    overview = (ROOT / "docs" / "alloy.md").read_text(encoding="utf-8")
    linked = set(re.findall(r"\]\(alloy/(\w+)\.md\)", overview))
    pages = {each.stem for each in (ROOT / "docs" / "alloy").glob("*.md")}
    assert linked == pages == {each.stem for each in MODULES}


# --- configurations -------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", CONFIGS, ids=_name)
def test_a_configuration_gives_each_module_what_it_takes(path: Path) -> None:
    file = _read(path)
    used = list(_uses(file))
    assert used
    assert [problem for module, block in used for problem in _wrong_arguments(module, block)] == []
    (imported,) = _blocks(file, "import.file")
    assert imported.label == "fleetglass"


@pytest.mark.parametrize("path", CONFIGS, ids=_name)
def test_a_configuration_lists_every_variable_that_it_reads_and_gives_each_a_default(path: Path) -> None:
    variables = _variables(path)
    assert set(re.findall(r"^([A-Z][A-Z0-9_]+)  +\S", _comment(path), re.MULTILINE)) == variables
    text = path.read_text(encoding="utf-8")
    assert len(re.findall(r"sys\.env\(", text)) == len(re.findall(r'coalesce\(sys\.env\("\w+"\), [^)]+\)', text))


def test_together_the_configurations_and_the_overview_show_every_module() -> None:
    shown = {module for path in CONFIGS for module, _ in _uses(_read(path))}
    overview = (ROOT / "docs" / "alloy.md").read_text(encoding="utf-8")
    shown |= set(re.findall(r"^ *fleetglass\.(\w+) \"", overview, re.MULTILINE))
    assert shown == {each.stem for each in MODULES}


@pytest.mark.parametrize("path", CONFIGS, ids=_name)
def test_receivers_leave_the_loopback_only_in_the_cluster(path: Path) -> None:
    listens = re.findall(r'"(0\.0\.0\.0|127\.0\.0\.1):43\d\d"', path.read_text(encoding="utf-8"))
    everywhere = {"config.alloy": 0, "kubernetes/node.alloy": 0, "kubernetes/gateway.alloy": 3}[_name(path)]
    assert listens.count("0.0.0.0") == everywhere


# --- Kubernetes -----------------------------------------------------------------------------------------


def _yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def _packed() -> dict[str, dict[str, Path]]:
    """The ConfigMaps of the kustomization: name, then file by key."""
    maps = _yaml(ALLOY / "kustomization.yaml")["configMapGenerator"]
    return {each["name"]: {Path(file).name: ALLOY / file for file in each["files"]} for each in maps}


def test_the_kustomization_packs_every_module_and_nothing_that_is_not_there() -> None:
    packed = _packed()
    assert sorted(packed["fleetglass-alloy-modules"].values()) == MODULES
    assert all(path.is_file() for files in packed.values() for path in files.values())
    for files in packed.values():
        assert sum(path.stat().st_size for path in files.values()) < 900_000, "a ConfigMap holds one MiB"
    options = _yaml(ALLOY / "kustomization.yaml")["generatorOptions"]
    assert options["annotations"]["kustomize.toolkit.fluxcd.io/substitute"] == "disabled"


@pytest.mark.parametrize("release", ["node", "gateway"])
def test_helm_values_mount_the_configuration_they_are_for_and_set_its_variables(release: str) -> None:
    values = _yaml(ALLOY / "kubernetes" / f"{release}.yaml")
    agent = values["alloy"]
    packed = _packed()
    config = packed[agent["configMap"]["name"]][agent["configMap"]["key"]]
    assert config == ALLOY / "kubernetes" / f"{release}.alloy"
    # The chart sets K8S_NODE_NAME itself; the folder of the modules is where the configuration looks by default.
    assert {each["name"] for each in agent["extraEnv"]} == _variables(config) - {"K8S_NODE_NAME", "ALLOY_MODULES"}
    volumes = {each["name"]: each for each in values["controller"]["volumes"]["extra"]}
    claimed = {each["metadata"]["name"] for each in values["controller"].get("volumeClaimTemplates", [])}
    mounts: Mapping[str, Any] = {each["name"]: each for each in agent["mounts"]["extra"]}
    assert mounts.keys() == volumes.keys() | claimed
    assert volumes["modules"]["configMap"]["name"] in packed
    assert f'"{mounts["modules"]["mountPath"]}"' in config.read_text(encoding="utf-8")
    assert mounts["storage"]["mountPath"] == agent["storagePath"], "positions and samples outlive the pod"


def test_replicas_that_sample_traces_find_each_other_at_the_port_they_listen_on() -> None:
    values = _yaml(ALLOY / "kubernetes" / "gateway.yaml")
    assert values["controller"]["replicas"] > 1
    assert values["alloy"]["clustering"]["enabled"] is True
    text = (ALLOY / "kubernetes" / "gateway.alloy").read_text(encoding="utf-8")
    ports = {each["targetPort"] for each in values["alloy"]["extraPorts"]}
    assert ports == {int(port) for port in re.findall(r'"0\.0\.0\.0:(\d+)"', text)}
    hostname = next(each["value"] for each in values["alloy"]["extraEnv"] if each["name"] == "REPLICAS_HOSTNAME")
    assert hostname.startswith(f"{values['fullnameOverride']}-cluster."), "the chart's headless Service"
    assert f'"{hostname}"' in text


@pytest.mark.parametrize("release", ["node", "gateway"])
def test_alloy_may_read_pods_and_nothing_else(release: str) -> None:
    rbac = _yaml(ALLOY / "kubernetes" / f"{release}.yaml")["rbac"]
    # Neither list may be empty: the chart writes them one below the other, and `[]` in the middle is no YAML.
    assert all(rbac[part] for part in ("rules", "clusterRules"))
    rules = rbac["rules"] + rbac["clusterRules"]
    assert all((each["apiGroups"], each["resources"]) == ([""], ["pods"]) for each in rules)
    assert {verb for each in rules for verb in each["verbs"]} == {"get", "list", "watch"}


def test_every_flux_resource_has_its_name_and_namespace_as_labels() -> None:
    values = _yaml(ALLOY / "kubernetes" / "flux-state-metrics.yaml")
    module = (ALLOY / "modules" / "flux.alloy").read_text(encoding="utf-8")
    assert f'"{values["fullnameOverride"]}"' in module
    resources = values["customResourceState"]["config"]["spec"]["resources"]
    assert {"Kustomization", "HelmRelease", "GitRepository", "ImageUpdateAutomation"} <= {
        each["groupVersionKind"]["kind"] for each in resources
    }
    granted = {group for rule in values["rbac"]["extraRules"] for group in rule["apiGroups"]}
    for each in resources:
        assert each["groupVersionKind"]["group"] in granted
        (metric,) = each["metrics"]
        assert f"{each['metricNamePrefix']}_{metric['name']}" == "gotk_resource_info"
        assert metric["each"]["info"]["labelsFromPath"] == {"name": ["metadata", "name"]}
        assert {"exported_namespace", "ready", "suspended"} <= metric["labelsFromPath"].keys()
    assert {verb for rule in values["rbac"]["extraRules"] for verb in rule["verbs"]} == {"list", "watch"}


def test_what_the_overview_says_that_alloy_counts_is_in_what_a_real_one_said() -> None:
    overview = (ROOT / "docs" / "alloy.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:alloy|loki|otelcol|prometheus)_\w+)", overview)) - {"otelcol_exporter_"}
    recorded = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "tests/expositions").glob("alloy*.txt"))
    families = set(re.findall(r"^# TYPE (\w+) ", recorded, re.MULTILINE))
    # A queue that runs full takes a minute of a silent backend: its name is upstream's, not recorded.
    assert len(named) > 5
    assert named - families == {"otelcol_exporter_enqueue_failed_spans_total"}
    assert 'reason="ratelimit_drop_stage"' in recorded
