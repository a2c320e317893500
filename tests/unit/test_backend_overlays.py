"""Packages beside the lock: installed once, whole or not at all, before all others on a process's path."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.backends import overlay

NAMED = "msgspec"  # stands in the lock too, in another version


@pytest.fixture
def pinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A set with one small package, and an empty cache; the hash is what it is called with, or the right one."""
    wheel = tmp_path / f"{NAMED}-99.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"{NAMED}.py", "VERSION = '99.0'\n")
        about = f"{NAMED}-99.0.dist-info"
        archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {NAMED}\nVersion: 99.0\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    monkeypatch.setattr(overlay, "HERE", tmp_path)
    monkeypatch.setattr(overlay, "OVERLAYS", {"small": "says which version it is"})
    monkeypatch.setenv("FLEETGLASS_BACKENDS_DIR", str(tmp_path / "cache"))

    def pin(digest: str = "") -> None:
        right = hashlib.sha256(wheel.read_bytes()).hexdigest()
        (tmp_path / "small.txt").write_text(f"{NAMED} @ file://{wheel} --hash=sha256:{digest or right}\n")

    return pin


def test_what_is_pinned_comes_before_what_is_installed(pinned):
    pinned()
    assert overlay.path("small") is None
    assert overlay.main() == 0
    said = subprocess.run(
        [sys.executable, "-c", f"import {NAMED}; print({NAMED}.VERSION)"],
        env=overlay.environ("small"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.strip() == "99.0"


def test_the_second_run_installs_nothing(pinned, monkeypatch):
    pinned()
    overlay.install("small")
    monkeypatch.setattr(overlay.subprocess, "run", lambda *_, **__: pytest.fail("installed again"))
    assert overlay.install("small") == overlay.path("small")


def test_another_hash_is_refused_and_nothing_half_made_stays(pinned, tmp_path, capsys):
    pinned("0" * 64)
    assert overlay.main() == 1
    assert "small: pip failed" in capsys.readouterr().err
    assert overlay.path("small") is None
    assert [entry.name for entry in (tmp_path / "cache").iterdir()] == [".lock"]


def test_other_pins_are_another_folder(pinned, tmp_path):
    pinned()
    first = overlay.install("small")
    (tmp_path / "small.txt").write_text((tmp_path / "small.txt").read_text() + "# changed\n")
    assert overlay.path("small") is None
    assert overlay.install("small") != first


def test_a_name_that_is_none_is_refused():
    with pytest.raises(KeyError):
        overlay.path("no-such-set")


def test_what_is_missing_says_what_to_do():
    assert overlay.missing("arq") == "arq is missing: run `make backends`"
