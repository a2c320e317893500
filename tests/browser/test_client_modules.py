"""The client's modules by themselves: Node's test runner, types, the minified form, the package."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HERE = ROOT / "tests" / "browser"
BROWSER = ROOT / "ingest" / "browser"


def run(*command: str | Path, cwd: Path = HERE) -> str:
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", sorted(path.name for path in (HERE / "units").glob("*.test.mjs")))
def test_units(node, name):
    said = run(node, "--test", "--test-reporter=tap", Path("units") / name)
    assert int(re.search(r"^# pass (\d+)$", said, re.MULTILINE)[1]) > 10
    assert re.search(r"^# (skipped|todo|fail) [1-9]", said, re.MULTILINE) is None


@pytest.mark.timeout(120)
def test_sources_and_a_typescript_console_pass_the_type_checker(packages):
    run(packages / ".bin" / "tsc", "-p", "tsconfig.json")


def test_the_minified_form_is_that_of_the_sources(packages):
    run(sys.executable, ROOT / "tests" / "browser" / "minify.py", "--check")


def test_no_lock_of_ours_names_an_address():
    for folder in (HERE, ROOT / "tests" / "typing"):
        assert '"resolved"' not in (folder / "package-lock.json").read_text()
        assert "omit-lockfile-registry-resolved=true" in (folder / ".npmrc").read_text()


@pytest.mark.timeout(120)
def test_the_package_holds_what_it_exports_and_nothing_of_the_house(node, packages, tmp_path):
    (listed,) = json.loads(run("npm", "pack", "--dry-run", "--json", cwd=BROWSER))
    names = {file["path"] for file in listed["files"]}
    modules = {path.name for path in BROWSER.glob("*.js")}
    assert names == modules | {path.name for path in BROWSER.glob("*.d.ts")} | {"package.json", "README.md"}
    run("npm", "pack", "--pack-destination", tmp_path, cwd=BROWSER)
    with tarfile.open(tmp_path / listed["filename"]) as archive:
        archive.extractall(tmp_path, filter="data")
    installed = tmp_path / "node_modules" / "@fleetglass"
    installed.mkdir(parents=True)
    (tmp_path / "package").rename(installed / "browser")
    for name in ("@types", "csstype"):
        (tmp_path / "node_modules" / name).symlink_to(packages / name)
    (tmp_path / "console.mjs").write_text(
        "for (const part of ['', '/react', '/trace', '/feedback'])"
        " console.log(Object.keys(await import(`@fleetglass/browser${part}`)).join());"
    )
    assert run(node, "console.mjs", cwd=tmp_path).split() == [
        "install",
        "errorBoundary,rootCallbacks",
        "traceId,traceIdOf,withTrace",
        "feedbackUrl",
    ]
    (tmp_path / "consumer.tsx").write_text((HERE / "types" / "consumer.tsx").read_text())
    (tmp_path / "package.json").write_text('{"type": "module"}')
    options = [
        "--noEmit",
        "--strict",
        "--jsx",
        "react-jsx",
        "--target",
        "ES2022",
        "--module",
        "NodeNext",
        "--types",
        "",
    ]
    run(packages / ".bin" / "tsc", *options, "consumer.tsx", cwd=tmp_path)
