"""Whether a TraceQL query has its braces, quotes and values; no more, the grammar itself runs in the tests."""

from __future__ import annotations

import re
from typing import Final

_TOKEN = re.compile(
    r"""\s+|(?P<text>"(?:\\.|[^"\\])*"|`[^`]*`)
    |(?P<word>\$\{[^}]*\}|\$\w+|[\w.](?:[\w.:-]|"(?:\\.|[^"\\])*")*)
    |(?P<compare>=~|!~|!=|>=|<=|=|<(?![<~])|>(?![>~]))
    |(?P<open>[({\[])|(?P<close>[)}\]])
    |(?P<rest>&&|\|\||[&|!<>~+\-*/%^,.:]+)
    """,
    re.VERBOSE,
)
_CLOSES: Final = {")": "(", "}": "{", "]": "["}


def problem(text: str) -> str:
    """What is wrong with ``text`` as TraceQL; empty when nothing was found."""
    open_: list[str] = []
    waiting = ""
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            return (
                f"a quote at character {at + 1} is not closed" if text[at] in '"`' else f"{text[at]!r} has no meaning"
            )
        kind, token = match.lastgroup, match[0]
        if kind in {"close", "compare", "rest"} and waiting and token not in {"-", "!"}:
            return f"a value was expected after {waiting!r}, not {token!r} at character {at + 1}"
        if kind == "open":
            open_.append(token)
        elif kind == "close" and (not open_ or open_.pop() != _CLOSES[token]):
            return f"{token!r} at character {at + 1} closes nothing"
        waiting = waiting if kind is None else token if kind == "compare" else ""
        at = match.end()
    if waiting:
        return f"a value was expected after {waiting!r}"
    return f"{open_[-1]!r} is not closed" if open_ else ""
