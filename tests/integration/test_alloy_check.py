"""``fleetglass alloy check`` held against a real Alloy: whatever ``alloy validate`` refuses, we refuse."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from telemetry.alloy import Finding, Options, check
from telemetry.alloy.command import command
from telemetry.alloy.kinds import Kind
from telemetry.alloy.schema import Shape, schema
from tests.alloy_mutants import mutants
from tests.backends import programs
from tests.backends.process import free_ports
from tests.unit.test_alloy_rules import STAGES

pytestmark = [pytest.mark.stack, pytest.mark.slow, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / "tests" / "alloy"
ACCEPTED = sorted(CORPUS.glob("accepted/*.alloy"))
SHIPPED = [ROOT / "alloy" / "config.alloy", *sorted((ROOT / "alloy").glob("modules/*.alloy"))]
MUTANTS = 12
"""How many damages of each configuration are tried."""

BLIND = {
    "wrong-kind": "kinds are compared for literals only",
    "bad-value": "names such as actions are compared when Alloy runs",
    "unknown-export": "what a component exports is not known to it",
    "unknown-function": "functions are looked up when they run",
    "unknown-reference": "what a module reads as its arguments is not known to it",
    "label": "labels of inner blocks are refused when Alloy runs",
}
"""Rules by which we refuse what ``alloy validate`` lets pass, and why; of files that import, it lets all pass."""

ADVICE = frozenset(
    "unreached nowhere path address port tls at-start open-door payload-label label-count replicas every-node "
    "empty-env sampled-metrics".split()
)
"""Rules about what Alloy starts with."""


@pytest.fixture(scope="module")
def alloy() -> str:
    """The path of Alloy."""
    if programs.find("alloy") is None:
        pytest.skip(programs.missing("alloy"))
    return programs.program("alloy")


def _validate(alloy: str, path: Path, level: str = "experimental") -> tuple[bool, list[str]]:
    """Whether Alloy accepts a file, and what it says."""
    done = subprocess.run(
        [alloy, "validate", f"--stability.level={level}", path],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode == 0, [line for line in done.stderr.splitlines() if line.startswith(("Error:", "Warning:"))]


def _refused(path: Path, level: str = "experimental") -> list[Finding]:
    at = (("/etc/alloy-modules", str(ROOT / "alloy" / "modules")),)
    found = check([path], Options(stability=level, local=True, at=at))
    return [finding for finding in found if finding.level != "notice" and finding.rule not in ADVICE]


@pytest.mark.parametrize("path", sorted(CORPUS.glob("accepted/**/*.alloy")), ids=lambda path: path.stem)
def test_what_we_accept_alloy_accepts_and_finds_well_formatted(alloy: str, path: Path) -> None:
    assert _validate(alloy, path, "generally-available") == (True, [])
    done = subprocess.run([alloy, "fmt", "--test", path], capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", sorted(CORPUS.glob("refused/*.alloy")), ids=lambda path: path.stem)
def test_what_we_refuse_in_the_corpus_alloy_refuses_in_the_same_lines(alloy: str, path: Path) -> None:
    accepted, said = _validate(alloy, path, "generally-available")
    assert not accepted
    theirs = {int(match[1]) for line in said if (match := re.search(r":(\d+):\d+: ", line))}
    ours = {finding.line for finding in _refused(path, "stable")}
    assert ours
    # Where a bracket is missing, each sees the consequence somewhere else; circles are named by their blocks.
    if path.stem not in {"syntax", "circle", "itself", "hidden", "old-function", "value-as-block"}:
        assert ours == theirs


@pytest.mark.parametrize("path", [*ACCEPTED, *SHIPPED], ids=lambda path: path.stem)
def test_every_damage_that_alloy_refuses_we_refuse(alloy: str, path: Path, tmp_path: Path) -> None:
    damaged = tmp_path / path.name
    for folder in ("modules",):
        (tmp_path / folder).symlink_to(
            path.parent / folder if (path.parent / folder).is_dir() else ROOT / "alloy" / folder
        )
    imports = "\nimport." in path.read_text("utf-8")
    let_through, overdone = [], []
    for done, text in itertools.islice(mutants(path.read_text("utf-8"), seed=len(path.name)), MUTANTS):
        damaged.write_text(text, "utf-8")
        accepted, said = _validate(alloy, damaged)
        ours = _refused(damaged)
        if not accepted and not ours:
            let_through.append((done, said))
        if accepted:
            overdone += [(done, str(finding)) for finding in ours if finding.rule not in BLIND and not imports]
    assert let_through == []
    assert overdone == []


@pytest.mark.parametrize("stage", [stage for stage, _, _ in STAGES])
def test_alloy_refuses_these_stages_when_it_starts(alloy: str, tmp_path: Path, stage: str) -> None:
    """What we call at-start: validate takes it, run doesn't."""
    path = tmp_path / "config.alloy"
    path.write_text(f'loki.process "app" {{\n\tforward_to = []\n\t{stage}\n}}\n')
    assert "Failed to build component" in _run(alloy, path)


def test_alloy_refuses_two_logins_when_it_starts(alloy: str, tmp_path: Path) -> None:
    path = tmp_path / "config.alloy"
    for line in ('bearer_token = "x"', 'authorization {\n\t\t\tcredentials = "x"\n\t\t}'):
        path.write_text(
            'loki.write "out" {\n\tendpoint {\n\t\turl = "http://loki:3100/loki/api/v1/push"\n'
            f'\t\tbasic_auth {{\n\t\t\tusername = "a"\n\t\t\tpassword = "b"\n\t\t}}\n\t\t{line}\n\t}}\n}}\n'
        )
        assert "at-start" in {finding.rule for finding in check([path])}
        assert "at most one of" in _run(alloy, path)


def _run(alloy: str, path: Path) -> str:
    """What Alloy says when it can't start with a configuration."""
    (port,) = free_ports(1)
    arguments = ["run", "--disable-reporting", f"--server.http.listen-addr=127.0.0.1:{port}"]
    done = subprocess.run(
        [alloy, *arguments, f"--storage.path={path.parent / 'data'}", path],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    return done.stdout + done.stderr


# --- the table ------------------------------------------------------------------------------------------

_VALUES = {
    "string": '"x"',
    "number": "1",
    "bool": "true",
    "duration": '"1s"',
    "size": '"1MiB"',
    "url": '"http://x"',
    "regexp": '"a"',
    "nonempty": '"x"',
    "secret": '"s"',
    "optional_secret": '"s"',
    "any": "1",
    "target": '{"a" = "b"}',
}


def _value(kind: Kind) -> str:
    """A value of a kind, written; ``null`` for what only references give."""
    match kind.name:
        case "one_of":
            return f'"{kind.choices[0]}"'
        case "list":
            inner = _value(kind.inner) if kind.inner else "null"
            return "[]" if inner == "null" else f"[{inner}]"
        case "map":
            return f'{{"k" = {_value(kind.inner) if kind.inner else "1"}}}'
        case "object":
            fields = schema().shapes[kind.shape].attributes.values()
            return "{" + ", ".join(f"{field.name} = {_value(field.kind)}" for field in fields) + "}"
        case name:
            return _VALUES.get(name, "null")


def _body(shape: Shape, depth: int, *, full: bool) -> Iterator[str]:
    """Every line that the table allows in a block, or only what it requires."""
    indent = "\t" * depth
    for attribute in shape.attributes.values():
        if full or attribute.required:
            yield f"{indent}{attribute.name} = {_value(attribute.kind)}"
    for block in shape.blocks.values():
        if (full and depth < 6) or block.required:
            yield f"{indent}{block.name} {{"
            yield from _body(block.shape, depth + 1, full=full and depth < 5)
            yield f"{indent}}}"


def _present(alloy: str, tmp_path: Path) -> list[str]:
    """The components of the table that this Alloy was built with."""
    names = [name for name, spec in schema().components.items() if spec.level in {"stable", "preview", "experimental"}]
    names.remove("foreach")
    path = tmp_path / "names.alloy"
    path.write_text("".join(f'{name} "x" {{ }}\n' for name in names))
    _, said = _validate(alloy, path)
    absent = {match[1] for line in said if (match := re.search(r'definition of component name "([^"]+)"', line))}
    return [name for name in names if name not in absent]


@pytest.mark.parametrize("full", [False, True], ids=["what is required", "everything"])
def test_alloy_takes_all_that_the_table_lists_and_needs_no_more(alloy: str, tmp_path: Path, *, full: bool) -> None:
    names = _present(alloy, tmp_path)
    assert len(names) > 30
    path = tmp_path / "table.alloy"
    lines = [
        line
        for name in names
        for line in (f'{name} "x" {{', *_body(schema().components[name].shape, 1, full=full), "}")
    ]
    path.write_text("\n".join(lines) + "\n")
    assert _validate(alloy, path) == (True, [])


def test_alloy_misses_each_thing_that_the_table_calls_required(alloy: str, tmp_path: Path) -> None:
    wanted = {}
    lines: list[str] = []
    for name in _present(alloy, tmp_path):
        spec = schema().components[name]
        wanted[len(lines) + 1] = sorted(
            [attribute.name for attribute in spec.shape.attributes.values() if attribute.required]
            + [block.name for block in spec.shape.blocks.values() if block.required]
        )
        lines.append(f'{name} "x" {{ }}')
    path = tmp_path / "empty.alloy"
    path.write_text("\n".join(lines) + "\n")
    _, said = _validate(alloy, path)
    missed: dict[int, list[str]] = {line: [] for line in wanted}
    for line in said:
        match = re.search(r':(\d+):\d+: missing required (?:attribute|block) "([^"]+)"', line)
        if match is None:
            assert line == "Error: validation failed"
            continue
        missed[int(match[1])].append(match[2])
    assert {line: sorted(names) for line, names in missed.items()} == wanted


def test_the_command_asks_the_alloy_on_path(alloy: str, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("PATH", f"{Path(alloy).parent}{os.pathsep}{os.environ['PATH']}")
    path = tmp_path / "config.alloy"
    path.write_text('logging {\n  level = "loud"\n}\n')
    assert command(["check", str(path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert (
        f"{path}:1:1: warning upstream: alloy fmt would write this file differently; run alloy fmt -w {path}" in lines
    )
    assert f'{path}:2:11: error upstream: alloy validate: unrecognized log level "loud"' in lines
    assert lines[-1] == "1 file: 2 errors, 1 warning (alloy was asked, too)"


def test_a_folder_that_is_one_configuration_is_validated_as_one(
    alloy: str, tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.setenv("PATH", f"{Path(alloy).parent}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "out.alloy").write_text(
        'loki.write "out" {\n\tendpoint {\n\t\turl = "http://loki:3100/loki/api/v1/push"\n\t}\n}\n'
    )
    (tmp_path / "in.alloy").write_text(
        'loki.source.api "in" {\n\thttp { }\n\tforward_to = [loki.write.out.receiver]\n}\n'
    )
    assert command(["check", "--as-one", str(tmp_path)]) == 0
    assert command(["check", str(tmp_path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "2 files: clean (alloy was asked, too)"
    refused = 'alloy validate: component "loki.write.out.receiver" does not exist or is out of scope'
    assert f"{tmp_path / 'in.alloy'}:3:16: error upstream: {refused}" in lines
