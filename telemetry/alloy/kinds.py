"""Kinds of values: what an argument takes and what an export gives.

``any`` goes with everything. Strings and numbers convert into each other, secrets take strings, targets are
maps of strings; receivers (``otelcol``, ``logs``, ``metrics``) go only where their own kind is taken.
"""

from __future__ import annotations

import functools
import re
from urllib.parse import urlsplit

import msgspec

DESCRIBED = {
    "otelcol": "an OpenTelemetry consumer (the input of an otelcol component)",
    "logs": "a Loki receiver (as loki.write and loki.process export)",
    "metrics": "a Prometheus receiver (as prometheus.remote_write and prometheus.relabel export)",
    "profiles": "a Pyroscope receiver",
    "auth": "the handler of an otelcol.auth component",
    "extension": "the handler of an otelcol.storage or otelcol.extension component",
    "rules": "relabel rules",
    "target": "a target (a map of labels)",
    "any": "any value",
    "size": 'a size such as "5MiB"',
    "duration": 'a duration such as "30s"',
    "url": "a URL",
    "regexp": "a regular expression",
    "nonempty": "a string that is not empty",
    "label": "the value of a label (anything but a secret)",
    "optional_secret": "a secret or a string",
}
CAPSULES = frozenset({"otelcol", "logs", "metrics", "profiles", "auth", "extension", "rules"})
_TEXTS = frozenset({"string", "duration", "size", "url", "regexp", "nonempty", "one_of"})


class Kind(msgspec.Struct, frozen=True):
    """``name`` is a word of the schema table; ``inner`` is what a list or map holds, ``shape`` an object's name."""

    name: str
    inner: Kind | None = None
    choices: tuple[str, ...] = ()
    shape: str = ""

    def __str__(self) -> str:
        match self.name:
            case "list":
                return f"a list of {plural(self.inner or ANY)}"
            case "map":
                return f"an object of {plural(self.inner or ANY)}"
            case "one_of":
                return "one of " + ", ".join(filter(None, self.choices))
            case "object":
                return "an object"
            case _:
                return DESCRIBED.get(self.name) or f"a {self.name}"


ANY = Kind("any")
STRING = Kind("string")
NUMBER = Kind("number")
BOOL = Kind("bool")
NULL = Kind("null")
LABEL = Kind("label")
"""What a target may hold: any value that can be written as a string."""


def plural(kind: Kind) -> str:
    """For messages: ``a list of strings``."""
    words = {
        "otelcol": "OpenTelemetry consumers",
        "logs": "Loki receivers",
        "metrics": "Prometheus receivers",
        "any": "any values",
        "list": "lists",
        "map": "objects",
        "object": "objects",
        "one_of": "names",
        "nonempty": "strings",
        "regexp": "regular expressions",
        "auth": "auth handlers",
        "extension": "extension handlers",
        "rules": "relabel rules",
    }
    return words.get(kind.name) or f"{kind.name}s".replace("_", " ")


@functools.cache
def kind(text: str) -> Kind:
    """Read a kind as the schema table writes it: ``list(string)``, ``one_of(a|b)``, ``@shared.shape``."""
    if text.startswith("@"):
        return Kind("object", shape=text)
    name, bracket, rest = text.partition("(")
    if not bracket:
        return Kind(name)
    if name == "one_of":
        return Kind(name, choices=tuple(rest.removesuffix(")").split("|")))
    return Kind(name, inner=kind(rest.removesuffix(")") if rest.count("(") < rest.count(")") else rest))


def list_of(inner: Kind) -> Kind:
    """A list of ``inner``."""
    return Kind("list", inner=inner)


def fits(have: Kind, want: Kind) -> bool:
    """Whether a value of kind ``have`` may go where ``want`` is taken, as far as kinds can tell."""
    if "any" in {have.name, want.name} or have.name == "null":
        return True
    match want.name:
        case "list":
            return have.name == "list" and fits(have.inner or ANY, want.inner or ANY)
        case "map":
            if have.name == "target":
                return fits(STRING, want.inner or ANY)
            return have.name == "object" or (have.name == "map" and fits(have.inner or ANY, want.inner or ANY))
        case "object":
            return have.name in {"map", "object"}
        case "target":
            return have.name in {"target", "object"} or (have.name == "map" and fits(have.inner or ANY, LABEL))
        case "label":
            return have.name not in CAPSULES | {"secret"}
        case "secret" | "optional_secret":
            return have.name in {"secret", "optional_secret"} or have.name in _TEXTS
        case "number":
            return have.name in {"number", "string"}
        case "bool":
            return have.name == "bool"
        case name if name in _TEXTS:
            return have.name in _TEXTS or have.name in {"number", "optional_secret"}
        case _:
            return have.name == want.name


_NUMBER = re.compile(r"-[0-9]+|[0-9]+|(?=.*[.eE])[+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_DURATION = re.compile(r"[+-]?(0|((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)")
_SIZE = re.compile(r"[+-]?(0|((\d+\.?\d*|\.\d+)([KMGTPE]i?)?B)+)")


def wrong_text(text: str, want: Kind) -> str:
    """What is wrong with a literal string where ``want`` is taken; empty when nothing is."""
    match want.name:
        case "number" if not _NUMBER.fullmatch(text):
            return f'"{text}" is no number'
        case "duration" if not _DURATION.fullmatch(text):
            return f'"{text}" is no duration; write a number and a unit, as 500ms, 30s or 1h30m (there are no days)'
        case "size" if not _SIZE.fullmatch(text):
            return f'"{text}" is no size; write a number and a unit, as 512KiB or 5MiB'
        case "one_of" if text not in want.choices:
            return f'"{text}" is none of them'
        case "nonempty" if not text:
            return "it must not be empty"
        case "url":
            try:
                urlsplit(text)
            except ValueError as error:
                return f'"{text}" is no URL: {error}'
        case "regexp":
            return wrong_regexp(text)
        case _:
            pass
    return ""


def wrong_regexp(text: str) -> str:
    """What is wrong with a regular expression, for faults that RE2 and Python share; empty when nothing is."""
    try:
        # RE2 spells some things differently; they are rewritten so that only real faults are left.
        re.compile(re.sub(r"\\z", r"\\Z", re.sub(r"\\p\{\^?\w+\}|\\[pP]\w|\[:\^?\w+:\]|\\C|\\Q.*?\\E", "x", text)))
    except re.error as error:
        if re.search(r"\(\?[a-zA-Z-]*[UsimL-]|\\x\{|\(\?P?<", text):
            return ""
        return f'"{text}" is no regular expression: {error.msg} at character {(error.pos or 0) + 1}'
    except (OverflowError, RecursionError):
        return ""
    return ""
