"""Run ``fleetglass probe`` inside a test, and say what it should have said."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from telemetry import cli


class Probe:
    """Calls the command with settings; gives its JSON, with the signals by name."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, environ: Mapping[str, str], *arguments: str, timeout: float = 60.0) -> dict[str, Any]:
        """Run it under ``environ``, each record being waited for ``timeout`` seconds."""
        with self._monkeypatch.context() as patch:
            for name, value in environ.items():
                patch.setenv(name, value)
            status = cli.main(["probe", "--json", "--timeout", str(timeout), *arguments])
        captured = self._capsys.readouterr()
        said: dict[str, Any] = json.loads(captured.out)
        assert said["status"] == status
        assert captured.err == ""
        return by_signal(said)


def by_signal(said: dict[str, Any]) -> dict[str, Any]:
    """The document with each outcome under its signal's name as well."""
    return said | {each["signal"]: each for each in said["signals"]}


def failed(said: dict[str, Any], signal: str, trouble: str, *words: str) -> None:
    """``signal`` failed by ``trouble``, and the sentence holds all of ``words``."""
    assert said["status"] == 1
    outcome = said[signal]
    assert (outcome["state"], outcome["trouble"]) == ("failed", trouble), outcome
    for word in words:
        assert word in outcome["sentence"]
