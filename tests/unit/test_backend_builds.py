"""Building the test backends: once, whole or not at all, and with a sentence where Go is missing."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.backends import build

GOOD = 'package main\n\nfunc main() { println("up") }\n'

needs_go = pytest.mark.skipif(shutil.which("go") is None, reason=f"Go {build._minimum_go()} is not on PATH")


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one small Go program as the only backend, and an empty cache."""
    folder = tmp_path / "source" / "small"
    folder.mkdir(parents=True)
    (folder / "go.mod").write_text("module small\n\ngo 1.21\n")
    (folder / "main.go").write_text(GOOD)
    monkeypatch.setattr(build, "HERE", folder.parent)
    monkeypatch.setattr(build, "BACKENDS", {"small": "says that it is up"})
    monkeypatch.setenv("FLEETGLASS_BACKENDS_DIR", str(tmp_path / "cache"))
    build._key.cache_clear()
    return folder


def left_in(cache: Path) -> list[str]:
    return sorted(entry.name for entry in cache.iterdir() if entry.name != ".lock")


@needs_go
def test_a_build_is_found_by_path_and_runs(module: Path) -> None:
    assert build.path("small") is None
    assert build.main([]) == 0
    binary = build.path("small")
    assert binary is not None
    assert subprocess.run([binary], capture_output=True, text=True, check=True).stderr == "up\n"


@needs_go
def test_the_second_run_compiles_nothing(
    module: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build.main([]) == 0
    monkeypatch.setattr(build, "_compile", lambda *_: pytest.fail("compiled again"))
    assert build.main([]) == 0
    assert "small: there" in capsys.readouterr().out


@needs_go
def test_changed_sources_are_another_build(module: Path) -> None:
    build.main([])
    first = build.path("small")
    (module / "main.go").write_text(GOOD.replace("up", "changed"))
    build._key.cache_clear()
    assert build.path("small") is None
    build.main([])
    assert build.path("small") not in {None, first}


@needs_go
def test_a_failed_build_says_why_and_leaves_nothing(
    module: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (module / "main.go").write_text("package main\n\nfunc main() { nonsense }\n")
    assert build.main([]) == 1
    assert "undefined: nonsense" in capsys.readouterr().err
    assert build.path("small") is None
    assert left_in(tmp_path / "cache") == []


@needs_go
def test_what_a_killed_build_left_is_cleared(module: Path, tmp_path: Path) -> None:
    leftover = tmp_path / "cache" / ".partial-small-killed"
    leftover.mkdir(parents=True)
    (leftover / "small").write_text("half a binary")
    assert build.main([]) == 0
    assert not leftover.exists()


def test_without_go_one_sentence_says_what_to_install(
    module: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert build.main([]) == 1
    assert capsys.readouterr().err.count("install Go 1.21") == 1
    assert build.path("small") is None


def test_listing_builds_nothing(module: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert build.main(["--list"]) == 0
    assert "not built" in capsys.readouterr().out
    assert not (tmp_path / "cache").exists()


def test_an_unknown_name_is_refused(module: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        build.main(["lokki"])
    assert "no backend is called lokki" in capsys.readouterr().err


@pytest.mark.parametrize("name", sorted(build.BACKENDS))
def test_modules_are_pinned_and_name_nothing_but_modules(name: str) -> None:
    folder = build.HERE / name
    manifest = (folder / "go.mod").read_text()
    assert (folder / "go.sum").stat().st_size > 0
    assert "://" not in manifest
    assert "replace " not in manifest  # nothing that lies on one machine only
