"""Committed dashboards have Grafana's own types, and a misspelt word in one would not pass.

``board.ts`` says what a dashboard is in terms of ``@grafana/schema``; tsc reads each file as a literal of that type,
so that a key too many is an error as well.
"""

from __future__ import annotations

import json
import subprocess
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from telemetry.grafana.classic import FOLDER

BOARD = Path(__file__).with_name("board")
FILES = sorted(FOLDER.glob("*.json"))
OPTIONS = "--target ES2022 --module ESNext --moduleResolution Bundler --strict --noEmit --skipLibCheck --ignoreConfig"

Check = Callable[[str], str]


@pytest.fixture
def complaints(packages: Path, tmp_path: Path) -> Check:
    """What tsc says about a dashboard; empty when it is well."""

    def check(text: str) -> str:
        file = tmp_path / "dashboard.ts"
        file.write_text(f'import type {{ Board }} from "{BOARD}";\nexport const board: Board = {text};\n')
        command = [str(packages / ".bin" / "tsc"), *OPTIONS.split(), str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=50)
        assert done.returncode in {0, 1, 2}
        return done.stdout + done.stderr

    return check


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_dashboard_has_grafanas_types(path: Path, complaints: Check) -> None:
    assert complaints(path.read_text("utf-8")) == ""


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        pytest.param('"colorMode"', '"colourMode"', id="an option of a stat"),
        pytest.param('"showLegend"', '"showLegends"', id="an option of a curve"),
        pytest.param('"lineWidth"', '"linewidth"', id="a custom field"),
        pytest.param('"cellHeight": "sm"', '"cellHeight": "small"', id="an option's value"),
        pytest.param('"type": "timeseries"', '"type": "timeserie"', id="a panel type"),
        pytest.param('"type": "color-text"', '"type": "colour-text"', id="a table's cell"),
        pytest.param('"legendFormat"', '"legendformat"', id="a key of a query"),
        pytest.param('"tableType"', '"tabletype"', id="a key of a TraceQL query"),
        pytest.param('"maxLines"', '"maxlines"', id="a key of a LogQL query"),
        pytest.param('"id": "merge"', '"id": "merg"', id="a transformation"),
        pytest.param('"multi": true', '"multi": "true"', id="a variable's type"),
        pytest.param('"allValue"', '"allvalue"', id="a key of a variable"),
        pytest.param('"keepTime"', '"keeptime"', id="a key of a link"),
        pytest.param('"palette-classic"', '"palette-clasic"', id="a colour mode"),
        pytest.param('"noValue"', '"novalue"', id="a key of a field"),
        pytest.param('"refresh": 2', '"refresh": 4', id="a number that stands for nothing"),
    ],
)
def test_a_misspelt_word_is_found(right: str, wrong: str, complaints: Check) -> None:
    text = (FOLDER / "fleetglass-overview.json").read_text("utf-8")
    assert right in text
    assert "error TS" in complaints(text.replace(right, wrong, 1))


@pytest.mark.parametrize(
    ("right", "wrong"), [('"rowHeight"', '"rowheight"'), ('"mergeValues": true', '"mergeValues": 1')]
)
def test_a_misspelt_word_of_a_state_timeline_is_found(right: str, wrong: str, complaints: Check) -> None:
    text = (FOLDER / "fleetglass-fleet.json").read_text("utf-8")
    assert right in text
    assert "error TS" in complaints(text.replace(right, wrong, 1))


# --- a second reader: the models of grafana-foundation-sdk, which know queries of all three languages


def differences(ours: Any, theirs: Any, where: str = "") -> Iterator[str]:
    """What the second reader lost or changed; what it adds are its defaults."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key, value in ours.items():
            if key in theirs:
                yield from differences(value, theirs[key], f"{where}.{key}")
            else:
                yield f"{where}.{key} is unknown"
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from differences(one, other, f"{where}[{number}]")
    elif ours != theirs:
        yield f"{where}: {ours!r} became {theirs!r}"


def read_back(model: dict[str, Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # it would rather write the schema that comes next
        from grafana_foundation_sdk.cog.encoder import JSONEncoder
        from grafana_foundation_sdk.cog.plugins import register_default_plugins
        from grafana_foundation_sdk.models.dashboard import Dashboard

        register_default_plugins()
        return json.loads(json.dumps(Dashboard.from_json(model), cls=JSONEncoder))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_grafanas_sdk_reads_a_dashboard_and_loses_nothing(path: Path) -> None:
    model = json.loads(path.read_text("utf-8"))
    assert list(differences(model, read_back(model))) == []


@pytest.mark.parametrize("word", ["legendFormat", "colorMode", "lineWidth", "tableType", "maxLines", "noValue"])
def test_the_sdk_loses_what_it_does_not_know(word: str) -> None:
    text = (FOLDER / "fleetglass-overview.json").read_text("utf-8")
    assert f'"{word}"' in text
    model = json.loads(text.replace(f'"{word}"', f'"{word}X"', 1))
    assert [line for line in differences(model, read_back(model)) if f"{word}X" in line]
