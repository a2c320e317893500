"""From arguments and environment to a checked ``Config``, or to one ``ConfigError`` that names all problems."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from functools import partial

import msgspec

from telemetry.config.addresses import mask_credentials
from telemetry.config.kinds import Invalid, closest
from telemetry.config.principals import contradictions as principal_contradictions
from telemetry.config.setting import Section, Setting
from telemetry.config.settings import SETTINGS, Config
from telemetry.config.targets import SIGNALS

_PREFIX = "FLEETGLASS_"
# What Kubernetes and Docker put into the environment for a Service whose name begins with fleetglass;
# the values are checked too, so that FLEETGLASS_METRICS_PORT=9464 still counts as somebody's typo.
_INJECTED = (
    (r".*_PORT", r"(tcp|udp|sctp)://\S+"),
    (r".*_SERVICE_HOST", r"[0-9a-fA-F.:\[\]]+"),
    (r".*_SERVICE_PORT(_.+)?", r"\d{1,5}"),
    (r".*_PORT_\d+_(TCP|UDP|SCTP)", r"(tcp|udp|sctp)://\S+"),
    (r".*_PORT_\d+_(TCP|UDP|SCTP)_PROTO", r"tcp|udp|sctp"),
    (r".*_PORT_\d+_(TCP|UDP|SCTP)_PORT", r"\d{1,5}"),
    (r".*_PORT_\d+_(TCP|UDP|SCTP)_ADDR", r"[0-9a-fA-F.:\[\]]+"),
)


class Problem(msgspec.Struct, frozen=True):
    """One setting that can't be used: where it was given, its value as it may be shown, what was expected."""

    name: str
    value: str
    expected: str


class ConfigError(ValueError):
    """Settings that can't be used, all of them at once; ``str()`` is a list for people."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        self.problems = problems
        count = "1 setting" if len(problems) == 1 else f"{len(problems)} settings"
        lines = [f"{count} can't be used:"]
        for problem in problems:
            lines.append(f"  {problem.name} = {problem.value}")
            lines.append(f"      expected {problem.expected}")
        super().__init__("\n".join(lines))

    def __reduce__(self) -> tuple[type[ConfigError], tuple[tuple[Problem, ...]]]:
        return ConfigError, (self.problems,)


class Loaded(msgspec.Struct, frozen=True):
    """A checked configuration, and for each field where its value came from.

    A source is ``argument``, ``environment NAME`` or ``default``.
    """

    config: Config
    sources: Mapping[str, str]

    def warnings(self) -> tuple[str, ...]:
        """Sentences about settings that are valid, yet together don't do what they say."""
        from telemetry.config.advice import advice

        return advice(self.config, self.sources)


class Reading(msgspec.Struct):
    """One section as far as it could be read: values, their sources, which were refused, and what was wrong."""

    values: dict[str, object]
    sources: dict[str, str]
    refused: set[str]
    problems: list[Problem]


def load(arguments: Mapping[str, object] | None = None, environ: Mapping[str, str] = os.environ) -> Loaded:
    """The configuration of the library. Raises ``ConfigError``.

    ``arguments`` are the fields of ``Config`` by name; None and empty text count as not given, as
    empty variables do. Names that begin with FLEETGLASS_ and mean nothing are problems, unless they
    look injected by a Kubernetes Service of that name.
    """
    reading = read("telemetry", arguments or {}, environ)
    if reading.problems:
        raise ConfigError(tuple(reading.problems))
    return Loaded(Config(**reading.values), reading.sources)  # type: ignore[arg-type]


def load_section(
    section: Section, arguments: Mapping[str, object] | None = None, environ: Mapping[str, str] = os.environ
) -> dict[str, object]:
    """The values of one section by name, checked and reported as ``load`` does. Raises ``ConfigError``."""
    reading = read(section, arguments or {}, environ)
    if reading.problems:
        raise ConfigError(tuple(reading.problems))
    return reading.values


def read(section: Section, arguments: Mapping[str, object], environ: Mapping[str, str]) -> Reading:
    """Read one section without raising; values that are wrong stand at their defaults."""
    rows = [setting for setting in SETTINGS if setting.section == section]
    reading = Reading({}, {}, set(), [])
    for setting in rows:
        known = len(reading.problems)
        value, source = _read_one(setting, arguments, environ, reading.problems)
        reading.values[setting.name] = value
        reading.sources[setting.name] = source
        if len(reading.problems) > known:
            reading.refused.add(setting.name)
    if section == "telemetry":
        _merge_resource(reading, arguments, environ)
        reading.problems.extend(_contradictions(reading))
    if section == "ingest":
        for field, expected in principal_contradictions(reading.values, reading.refused):
            setting = next(each for each in rows if each.name == field)
            shown = _shown(setting, setting.show(reading.values[field]))
            reading.problems.append(Problem(_given_as(reading, field), shown, expected))
    reading.problems.extend(_unknown_arguments(rows, arguments))
    reading.problems.extend(unknown_variables(environ))
    return reading


def unread_variables(environ: Mapping[str, str]) -> list[str]:
    """The ``OTEL_*`` variables that are set but mean nothing here (some are read by the OpenTelemetry SDK)."""
    known = {name for setting in SETTINGS for name in setting.env}
    return sorted(name for name, value in environ.items() if name.startswith("OTEL_") and value and name not in known)


def unknown_variables(environ: Mapping[str, str]) -> Iterator[Problem]:
    """A problem for each FLEETGLASS_ variable that is set, isn't ours and doesn't look injected."""
    known = [name for setting in SETTINGS for name in setting.env]
    for name in sorted(environ):
        value = environ[name].strip()
        if not name.startswith(_PREFIX) or not value or name in known or _looks_injected(name, value):
            continue
        # The value may be a secret behind a misspelt name, so it isn't shown.
        yield Problem(name, "***", "a name that exists" + closest(name, known))


def _looks_injected(name: str, value: str) -> bool:
    return any(re.fullmatch(names, name) and re.fullmatch(values, value) for names, values in _INJECTED)


def _read_one(
    setting: Setting, arguments: Mapping[str, object], environ: Mapping[str, str], problems: list[Problem]
) -> tuple[object, str]:
    given = arguments.get(setting.name)
    source, name = "argument", f"argument {setting.name}"
    if given is None or (isinstance(given, str) and not given.strip()):
        found = next((env for env in setting.env if environ.get(env, "").strip()), None)
        if found is None:
            return setting.default, "default"
        given, source, name = environ[found], f"environment {found}", found
    try:
        return setting.kind.read(given), source
    except Invalid as refusal:
        problems.append(Problem(name, _shown(setting, given), str(refusal)))
        return setting.default, source


def _shown(setting: Setting, given: object) -> str:
    """A refused value on one line, at most 100 characters, without what must stay secret."""
    if setting.secret:
        return "***"
    if isinstance(given, (bytes, bytearray)):
        return "bytes"
    shown = mask_credentials(given) if isinstance(given, str) else given
    text = repr(shown) if not isinstance(shown, str) or shown.isprintable() else ascii(shown)
    if "://" in text:  # in a list or mapping
        text = mask_credentials(text)
    return text if len(text) <= 100 else f"{text[:99]}…"


def _merge_resource(reading: Reading, arguments: Mapping[str, object], environ: Mapping[str, str]) -> None:
    """Merge the resource argument over the variable, and let attributes stand in for unset fields."""
    setting = next(setting for setting in SETTINGS if setting.name == "resource")
    ignored: list[Problem] = []
    from_environ, environ_source = _read_one(setting, {}, environ, ignored)
    from_argument = reading.values["resource"] if reading.sources["resource"] == "argument" else {}
    assert isinstance(from_environ, dict)
    assert isinstance(from_argument, dict)
    if from_argument and environ_source != "default":
        reading.problems.extend(ignored)
    reading.values["resource"] = {**from_environ, **from_argument}
    for setting in SETTINGS:
        key = setting.attribute
        if not key:
            continue
        # A variable outranks the variable of the attributes, an argument outranks both.
        if key in from_argument and reading.sources[setting.name] != "argument":
            reading.values[setting.name], reading.sources[setting.name] = from_argument[key], "argument"
        elif key in from_environ and reading.sources[setting.name] == "default":
            reading.values[setting.name], reading.sources[setting.name] = from_environ[key], environ_source


def _given_as(reading: Reading, field: str) -> str:
    source = reading.sources[field]
    return source.removeprefix("environment ") if source.startswith("environment ") else f"argument {field}"


def _contradictions(reading: Reading) -> Iterator[Problem]:
    """What is wrong only in combination. Values refused already stand at defaults and cause none."""
    values, sources = reading.values, reading.sources
    name = partial(_given_as, reading)

    for scope in ("", *(f"{signal}_" for signal in SIGNALS)):
        endpoint = values[f"otlp_{scope}endpoint"]
        protocol = values[f"otlp_{scope}protocol"] or values["otlp_protocol"]
        if isinstance(endpoint, str) and "://" not in endpoint and protocol != "grpc":
            expected = f"an http:// or https:// URL, as the protocol is {protocol}"
            yield Problem(name(f"otlp_{scope}endpoint"), repr(mask_credentials(endpoint)), expected)
        certificate = values[f"otlp_{scope}client_certificate"] or values["otlp_client_certificate"]
        key = values[f"otlp_{scope}client_key"] or values["otlp_client_key"]
        if certificate and not key:
            field = f"otlp_{scope}client_certificate"
            if values[field]:
                yield Problem(name(field), repr(certificate), "a client key beside the client certificate")
        if key and not certificate:
            field = f"otlp_{scope}client_key"
            if values[field]:
                yield Problem(name(field), repr(key), "a client certificate beside the client key")
    queue, batch = values["queue_bytes"], values["batch_bytes"]
    if isinstance(queue, int) and isinstance(batch, int) and batch > queue:
        field = "batch_bytes" if sources["batch_bytes"] != "default" else "queue_bytes"
        yield Problem(name(field), str(values[field]), "batch_bytes not above queue_bytes")
    if values["loki_password"] and not values["loki_user"]:
        yield Problem(name("loki_password"), "***", "a user beside the password (loki_user, FLEETGLASS_LOKI_USER)")


def _unknown_arguments(rows: list[Setting], arguments: Mapping[str, object]) -> Iterator[Problem]:
    known = [setting.name for setting in rows]
    for name in arguments:
        if name not in known:
            yield Problem(f"argument {name}", "***", "a name that exists" + closest(str(name), known))
