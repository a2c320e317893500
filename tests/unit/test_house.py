"""The house's own promises: every public name documented, pages true, links alive, nothing of a machine inside."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _load_reference():
    spec = importlib.util.spec_from_file_location("reference", ROOT / "docs" / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


reference = _load_reference()
PUBLIC = [(module, name) for module, names in reference.public_names().items() for name in names]


def _tracked() -> list[Path]:
    """Files of the repository: tracked, or new and not ignored."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()]


def _markdown() -> list[Path]:
    return [path for path in _tracked() if path.suffix == ".md"]


# --- public API -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("module", "name"), PUBLIC, ids=[f"{module}.{name}" for module, name in PUBLIC])
def test_every_public_name_has_a_docstring_and_so_have_its_public_methods(module: str, name: str) -> None:
    value = getattr(importlib.import_module(module), name)
    if not callable(value):
        return
    assert reference.own_doc(value), f"{module}.{name} has no docstring"
    if inspect.isclass(value):
        silent = [member for member, _, text in reference.members(value) if not text]
        assert not silent, f"{module}.{name} has public methods without a docstring: {silent}"


def test_import_telemetry_loads_nothing_heavy() -> None:
    code = "import sys; before = set(sys.modules); import telemetry; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    heavy = {"msgspec", "opentelemetry", "prometheus_client", "google", "grpc", "requests", "litestar", "logging_loki"}
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert not loaded & heavy


def test_public_names_resolve_and_are_listed() -> None:
    import telemetry

    assert set(telemetry.__all__) <= set(dir(telemetry))
    for name in telemetry.__all__:
        assert getattr(telemetry, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nonesuch'"):
        _ = telemetry.nonesuch


@pytest.mark.parametrize("page", ["api.md", "dashboards.md", "lint.md", "metrics.md", "settings.md"])
def test_reference_page_is_what_make_docs_writes(page: str) -> None:
    path = reference.PAGES / page
    assert (ROOT / path).read_text(encoding="utf-8") == reference.pages()[path], (
        f"{path} is out of date: run `make docs`"
    )


def test_the_typed_example_uses_every_public_name() -> None:
    used = set(
        re.findall(
            r"\b(?:telemetry|web|worker|testing|ingest)\.(\w+)", (ROOT / "tests/typing/api.py").read_text("utf-8")
        )
    )
    assert not [f"{module}.{name}" for module, name in PUBLIC if name not in used]


# --- documentation --------------------------------------------------------------------------------------

_FENCE = re.compile(r"^( *)```([^\n]*)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")


def _slugs(text: str) -> set[str]:
    """Anchors that a Markdown page offers, as forges make them from its headings."""
    found: set[str] = set()
    for heading in re.findall(r"^#{1,6} +(.+?) *#*$", _FENCE.sub("", text), re.MULTILINE):
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        number = 0
        unique = slug
        while unique in found:
            number += 1
            unique = f"{slug}-{number}"
        found.add(unique)
    return found


@pytest.mark.parametrize("page", _markdown(), ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_pages_resolve(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    broken = []
    for match in _LINK.finditer(_FENCE.sub("", text)):
        target = match[1] or match[2]
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = page if not path else (page.parent / path).resolve()
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in _slugs(file.read_text("utf-8"))):
            broken.append(target)
    assert not broken


def _snippets() -> list[tuple[str, str, str, str]]:
    """Each ``python`` block of README and docs, with the ``text`` block after it when that shows its output.

    ``python fragment`` marks a piece that needs what surrounds it (a server, a framework): it is compiled only.
    ``python test`` is a test for pytest, with the fixtures that the installation brings.
    """
    found = []
    for page in _markdown():
        if page.parts[len(ROOT.parts)] not in {"README.md", "docs"}:
            continue
        blocks = list(_FENCE.finditer(page.read_text(encoding="utf-8")))
        for index, block in enumerate(blocks):
            words = block[2].split()
            if not words or words[0] != "python" or page.is_relative_to(ROOT / "docs" / "reference"):
                continue
            following = blocks[index + 1] if index + 1 < len(blocks) else None
            output = following[3] if following and following[2].split() == ["text", "output"] else ""
            line = page.read_text(encoding="utf-8").count("\n", 0, block.start()) + 1
            found.append((f"{page.relative_to(ROOT)}:{line}", " ".join(words[1:]), block[3], output))
    return found


# What differs from run to run, and the word that stands for it when output is compared.
_VARYING = (
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z"), "<time>"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "<trace>"),
    (re.compile(r"\b[0-9a-f]{16}\b"), "<span>"),
    (re.compile(r"(duration_ms|elapsed)=[\d.]+"), r"\1=<number>"),
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:<port>"),
    (re.compile(r'File \\"[^"\\]*\\"'), "File <file>"),
)


def _steady(text: str) -> list[str]:
    for pattern, word in _VARYING:
        text = pattern.sub(word, text)
    return [line.rstrip() for line in text.strip().splitlines()]


@pytest.mark.parametrize(("where", "kind", "code", "output"), [pytest.param(*each, id=each[0]) for each in _snippets()])
def test_snippet_runs_and_prints_what_the_page_shows(
    where: str, kind: str, code: str, output: str, tmp_path: Path
) -> None:
    if kind == "fragment":
        compile(code, where, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        return
    script = tmp_path / "test_snippet.py"
    script.write_text(code, encoding="utf-8")
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"}
    runner = ["-m", "pytest", "-q", "-p", "no:asyncio"] if kind == "test" else []
    command = [sys.executable, *runner, str(script)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environ, timeout=30, check=False)
    assert done.returncode == 0, f"{where} failed:\n{done.stdout}{done.stderr}"
    assert "internal fault" not in done.stderr
    if output:
        assert _steady(done.stdout) == _steady(output)


# --- what may not be in the repository ------------------------------------------------------------------

# Written in pieces, so that this file does not hold what it looks for.
_HOSTS = [
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("registry", "npmjs"),
        ("registry", "yarnpkg"),
        ("proxy", "golang"),
        ("sum", "golang"),
        ("goproxy", "io"),
        ("crates", "io"),
        ("deb", "debian"),
        ("repo1", "maven"),
        ("playwright", "azureedge"),
    )
]
_MACHINE = re.compile(r"(?<![\w.$}])/" + "(?:work|root|home/[a-z]+|Users/[A-Za-z]+)/" + r"[\w.]")


def test_no_file_holds_a_machine_path_or_a_registry_host() -> None:
    found = []
    for path in _tracked():
        data = path.read_bytes()
        if b"\0" in data[:8192]:
            continue
        for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
            host = next((name for name in _HOSTS if name in line), None)
            if host or _MACHINE.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:120]}")
    assert not found


def test_the_top_level_holds_the_rooms_that_were_agreed_on() -> None:
    rooms = {path.relative_to(ROOT).parts[0] for path in _tracked() if path.parent != ROOT}
    assert rooms - {"alloy"} == {".ci", "docs", "examples", "ingest", "telemetry", "tests"}


def test_lock_is_hashed_and_names_no_address() -> None:
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    requirements = re.findall(r"^[a-z0-9].*", lock, re.MULTILINE)
    assert len(requirements) > 50
    assert all("==" in line for line in requirements)
    assert all("--hash=sha256:" in block for block in re.split(r"\n(?=[a-z0-9])", lock.strip()))
    assert "://" not in lock


def test_every_dependency_of_the_project_stands_in_the_lock() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]
    for extra in project["project"]["optional-dependencies"].values():
        wanted += extra
    names = {re.match(r"[A-Za-z0-9_.-]+", line)[0].lower().replace("_", "-") for line in wanted} - {"fleetglass"}
    locked = set(re.findall(r"^([a-z0-9-]+)==", (ROOT / "requirements.lock").read_text("utf-8"), re.MULTILINE))
    assert names <= locked, f"run `make lock`: {sorted(names - locked)} missing"


def test_the_wheel_ships_types_static_files_and_the_licence_and_nothing_of_the_house(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    shipped = {
        str(path.relative_to(ROOT))
        for path in _tracked()
        if path.relative_to(ROOT).parts[0] in {"telemetry", "ingest"} and path.suffix != ".pyc"
    }
    assert shipped <= names
    assert {"telemetry/py.typed", "ingest/py.typed"} <= names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"telemetry", "ingest"}


def test_changelog_names_the_version_of_the_project() -> None:
    from importlib.metadata import version

    assert f"## [{version('fleetglass')}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_every_make_verb_says_what_it_does() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE)[1].split()
    described = re.findall(r"^([a-z]+):.*## \S", text, re.MULTILINE)
    assert set(phony) == set(described)
    assert {"demo", "test", "lint", "types", "bench", "docs", "backends"} <= set(phony)
