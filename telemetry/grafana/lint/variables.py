"""Grafana's variables and macros in a query: which there are, and text that a grammar can read in their place."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

PLACE: Final = re.compile(r"\$\{(?P<braced>[\w.]+)(?::[^{}]*)?\}|\$(?P<bare>\w+)|\[\[(?P<old>\w+)(?::\w+)?\]\]")
"""A variable: ``${name}``, ``${name:format}``, ``$name`` or ``[[name]]``."""

RATE_INTERVAL: Final = "8869993ms"
AUTO: Final = "12345ms"
RANGE: Final = "6069773ms"

MACROS: Final[Mapping[str, str]] = {
    "__rate_interval": RATE_INTERVAL,
    "__interval": "4867853ms",
    "__interval_ms": "4867853",
    "__auto": AUTO,
    "__range": RANGE,
    "__range_s": "6069",
    "__range_ms": "6069773",
    "__rate_interval_ms": "8869993",
    "__from": "1594671549254",
    "__to": "1594671549254",
}
"""Macros of Grafana in a query; the durations are odd, so that they are known again in what was parsed."""

_QUOTED = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|`[^`]*`')


def names(text: str) -> Iterator[str]:
    """Names of the variables and macros in ``text``, in their order."""
    return (match["braced"] or match["bare"] or match["old"] for match in PLACE.finditer(text))


def filled(expression: str, defaults: Mapping[str, str] | None = None) -> str:
    """``expression`` with a value for each variable outside of quotes, so that a grammar can read it.

    In brackets and after ``offset`` that is a duration, elsewhere the default of the variable when it is a number or
    a duration, else its name. What stands in quotes is left alone: ``job=~"$job"`` is legal as it is.
    """
    known = defaults or {}

    def value(match: re.Match[str]) -> str:
        name: str = match["braced"] or match["bare"] or match["old"]
        if name in MACROS:
            return MACROS[name]
        default = known.get(name, "")
        if re.fullmatch(r"-?[\d.]+(ms|[smhdwy])?", default):
            return default
        before = expression[: match.start()].rstrip()
        if before.endswith(("[", ":")) or re.search(r"\boffset$", before):
            return "5m"
        return re.sub(r"\W", "_", name)

    return outside_quotes(expression, lambda part: PLACE.sub(value, part) if "$" in part or "[[" in part else part)


def outside_quotes(text: str, change: Callable[[str], str]) -> str:
    """``text`` with ``change`` made to what doesn't stand in quotes."""
    parts: list[str] = []
    at = 0
    for match in _QUOTED.finditer(text):
        parts += [change(text[at : match.start()]), match[0]]
        at = match.end()
    return "".join([*parts, change(text[at:])])
