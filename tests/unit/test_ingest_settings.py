"""Settings of the service: where they come from, and what it refuses to start with."""

from __future__ import annotations

import pytest

from ingest.principal import Principal
from ingest.serve import command
from ingest.settings import Settings
from telemetry.config import ConfigError

TOKENS = '{"t0ken": {"email": "mina@acme.example", "workspace": "acme", "roles": ["member"]}}'


def test_defaults():
    assert Settings.load({}, {}) == Settings()
    assert Settings().listen == "127.0.0.1:8000"


def test_the_environment_and_arguments():
    environ = {
        "FLEETGLASS_LISTEN": "0.0.0.0:80",
        "FEEDBACK_URL": "mailto:help@acme.example",
        "FLEETGLASS_TOKENS": TOKENS,
        "FLEETGLASS_METRICS_PUBLIC": "false",
    }
    assert Settings.load({"listen": "127.0.0.1:0"}, environ) == Settings(
        listen="127.0.0.1:0",
        feedback_url="mailto:help@acme.example",
        tokens={"t0ken": Principal("mina@acme.example", "acme", ("member",))},
        metrics_public=False,
    )


@pytest.mark.parametrize(
    "url",
    ["http://acme.example/", "javascript:alert(1)", "data:text/html,x", "//acme.example", "https://", "mailto:", "x"],
)
def test_a_feedback_link_is_https_or_mailto(url):
    for make in (lambda: Settings(feedback_url=url), lambda: Settings.load({}, {"FEEDBACK_URL": url})):
        with pytest.raises(ConfigError, match="expected an https:// URL with a host, or mailto: with an address"):
            make()


def test_repr_hides_tokens():
    assert "t0ken" not in repr(Settings.load({}, {"FLEETGLASS_TOKENS": TOKENS}))


def test_serve_names_everything_that_is_wrong_at_once(monkeypatch):
    monkeypatch.setenv("FEEDBACK_URL", "http://acme.example")
    monkeypatch.setenv("FLEETGLASS_LOG_LEVEL", "LOUD")
    monkeypatch.setenv("FLEETGLASS_LISSTEN", "127.0.0.1:1")
    with pytest.raises(ConfigError) as refused:
        command(["--listen", "nowhere"])
    assert [problem.name for problem in refused.value.problems] == [
        "argument listen",
        "FEEDBACK_URL",
        "FLEETGLASS_LISSTEN",
        "FLEETGLASS_LOG_LEVEL",
    ]


@pytest.mark.parametrize(
    ("value", "dropped"),
    [
        ("drop", ("extension", "script_error", "resize_observer")),
        ("keep", ()),
        ("resize_observer,extension", ("resize_observer", "extension")),
        (None, ("extension", "script_error", "resize_observer")),
    ],
)
def test_noise_is_dropped_kept_or_named(value, dropped):
    assert Settings.load({}, {"FLEETGLASS_NOISE": value} if value else {}).noise == dropped


@pytest.mark.parametrize("value", ["drop,keep", "keep,extension", "everything"])
def test_noise_that_nobody_knows_is_refused(value):
    with pytest.raises(ConfigError, match="FLEETGLASS_NOISE"):
        Settings.load({}, {"FLEETGLASS_NOISE": value})


def test_source_maps_lie_in_a_directory_that_exists(tmp_path):
    assert Settings.load({}, {"FLEETGLASS_SOURCEMAPS": str(tmp_path)}).sourcemaps == str(tmp_path)
    with pytest.raises(ConfigError, match="expected a directory that exists"):
        Settings.load({}, {"FLEETGLASS_SOURCEMAPS": str(tmp_path / "nowhere")})
