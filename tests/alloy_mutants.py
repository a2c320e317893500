"""Small damages to a good configuration, each of the kind that people make, in a fixed order for a seed."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

from telemetry.alloy.schema import schema
from telemetry.alloy.syntax import Attribute, Block, Literal, Position, parse

COMPONENTS = ("loki.write", "loki.process", "prometheus.scrape", "otelcol.processor.batch", "declare", "http")
VALUES = (
    *('"x"', '""', "12", "-3", "1.5", "true", "null", "[]", "{}", '["a"]', '{"a" = "b"}', '"5 days"', '"1h"', '"10MB"'),
    *('"12"', "[1, 2]", '1 + "a"', '!"x"', "-true", "1 / 0", "nope", "sys.nope()", 'env("X")', "[[]]", '"1.5"'),
)


def mutants(text: str, seed: int) -> Iterator[tuple[str, str]]:
    """What was done, and the damaged text; without end."""
    rng = random.Random(seed)
    file = parse(text)
    assert not file.faults
    statements = list(_walk(file.body))
    lines = text.split("\n")
    receivers = sorted(set(re.findall(r"\w+(?:\.\w+)+\.(?:receiver|input|targets|output)\b", text)))
    damages = (_drop, _misspell, _swap, _value, _repeat, _label, _bracket, _reference, _component, _foreign)
    while True:
        damage = rng.choice(damages)
        statement = rng.choice(statements)
        changed = damage(list(lines), statement, rng, receivers)
        if changed is not None and changed != lines:
            yield f"{damage.__name__[1:]} {statement.name} in line {statement.position.line}", "\n".join(changed)


def _walk(body) -> Iterator[Attribute | Block]:
    for statement in body:
        yield statement
        if isinstance(statement, Block):
            yield from _walk(statement.body)


def _at(position: Position) -> tuple[int, int]:
    return position.line - 1, position.column - 1


def _end(lines: list[str], statement) -> int:
    """The last line of a statement, from 0."""
    if isinstance(statement, Block):
        return statement.end.line - 1
    row, depth = statement.position.line - 1, 0
    while True:
        plain = re.sub(r'"(?:[^"\\]|\\.)*"|`[^`]*`', "", lines[row])
        depth += sum(map(plain.count, "([{")) - sum(map(plain.count, ")]}"))
        if depth <= 0 or row == len(lines) - 1:
            return row
        row += 1


def _drop(lines, statement, rng, receivers):
    row, _ = _at(statement.position)
    del lines[row : _end(lines, statement) + 1]
    return lines


def _misspell(lines, statement, rng, receivers):
    row, column = _at(statement.position)
    name = statement.name
    at = rng.randrange(len(name))
    if name[at] == ".":
        return None
    worse = rng.choice([name[:at] + name[at + 1 :], name[:at] + name[at] * 2 + name[at + 1 :]])
    if not re.fullmatch(r"[a-z_]\w*(\.[a-z_]\w*)*", worse):
        return None
    lines[row] = lines[row][:column] + worse + lines[row][column + len(name) :]
    return lines


def _swap(lines, statement, rng, receivers):
    row, _ = _at(statement.position)
    found = [name for name in receivers if name in lines[row]]
    if not found:
        return None
    lines[row] = lines[row].replace(rng.choice(found), rng.choice(receivers))
    return lines


def _value(lines, statement, rng, receivers):
    if not isinstance(statement, Attribute) or not isinstance(statement.value, Literal):
        return None
    row, column = _at(statement.value.position)
    old = statement.value.text
    if not lines[row][column:].startswith(old):
        return None
    new = rng.choice(VALUES)
    lines[row] = lines[row][:column] + new + lines[row][column + len(old) :]
    return lines


def _repeat(lines, statement, rng, receivers):
    row, _ = _at(statement.position)
    end = _end(lines, statement)
    return lines[: end + 1] + lines[row : end + 1] + lines[end + 1 :]


def _label(lines, statement, rng, receivers):
    if not isinstance(statement, Block):
        return None
    row, _ = _at(statement.position)
    if statement.label is None:
        lines[row] = lines[row].replace(statement.name, f'{statement.name} "named"', 1)
    else:
        lines[row] = lines[row].replace(f'"{statement.label}"', rng.choice(["", '"other"', '"1st"', '"a b"', "`x`"]), 1)
    return lines


def _bracket(lines, statement, rng, receivers):
    row = rng.randint(statement.position.line - 1, _end(lines, statement))
    at = [index for index, character in enumerate(lines[row]) if character in '[]{}(),"=.']
    if not at:
        return None
    index = rng.choice(at)
    lines[row] = lines[row][:index] + lines[row][index + 1 :]
    return lines


def _reference(lines, statement, rng, receivers):
    row, _ = _at(statement.position)
    found = [name for name in receivers if name in lines[row]]
    if not found:
        return None
    name = rng.choice(found)
    parts = name.split(".")
    at = rng.randrange(len(parts))
    parts[at] += "x"
    lines[row] = lines[row].replace(name, ".".join(parts))
    return lines


def _component(lines, statement, rng, receivers):
    """Another component under the same label."""
    if not isinstance(statement, Block) or statement.label is None:
        return None
    row, column = _at(statement.position)
    other = rng.choice(COMPONENTS)
    lines[row] = lines[row][:column] + other + lines[row][column + len(statement.name) :]
    return lines


def _foreign(lines, statement, rng, receivers):
    """Something that belongs into another block."""
    if not isinstance(statement, Block):
        return None
    row, _ = _at(statement.position)
    if not lines[row].rstrip().endswith("{"):
        return None
    spec = schema().components[rng.choice(["loki.write", "prometheus.scrape", "otelcol.exporter.otlp", "logging"])]
    names = [*(f"{name} = null" for name in spec.shape.attributes), *(f"{name} {{ }}" for name in spec.shape.blocks)]
    return [*lines[: row + 1], rng.choice(names), *lines[row + 1 :]]
