"""Every setting once: its name, environment variables, kind, default and meaning.

Precedence is argument, then environment, then default. ``load`` is a pure function of both and reports
everything that is wrong together, in one ``ConfigError``. ``fleetglass config`` prints what is in
effect and where it came from; docs/reference/settings.md is made from the same table.
"""

from telemetry.config.addresses import mask_credentials, split_address
from telemetry.config.loading import ConfigError, Loaded, Problem, load, load_section
from telemetry.config.setting import Setting
from telemetry.config.settings import SETTINGS, Config
from telemetry.config.targets import HttpTarget, OtlpTarget, split_credentials

__all__ = [
    "SETTINGS",
    "Config",
    "ConfigError",
    "HttpTarget",
    "Loaded",
    "OtlpTarget",
    "Problem",
    "Setting",
    "load",
    "load_section",
    "mask_credentials",
    "split_address",
    "split_credentials",
]
