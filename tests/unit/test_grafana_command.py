"""``fleetglass grafana``: a table of verbs, each of which explains itself."""

from __future__ import annotations

import pytest

from telemetry import cli
from telemetry.grafana.command import VERBS


@pytest.mark.parametrize("arguments", [[], ["help"]])
def test_every_verb_is_in_the_overview(capsys, arguments):
    assert cli.main(["grafana", *arguments]) == 0
    out = capsys.readouterr().out
    for verb, (summary, _) in VERBS.items():
        assert f"  {verb}" in out
        assert summary in out


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself(capsys, verb):
    with pytest.raises(SystemExit) as ended:
        cli.main(["grafana", verb, "--help"])
    assert ended.value.code == 0
    assert f"usage: fleetglass grafana {verb}" in capsys.readouterr().out


def test_a_misspelt_verb_is_told_its_name(capsys):
    assert cli.main(["grafana", "lnt"]) == 2
    assert "no verb 'lnt'; did you mean lint?" in capsys.readouterr().err
