"""The schema table: what every known component takes and gives.

The facts are in ``facts/components.txt``, whose head says how to read it, and ``facts/known.txt`` names the
components that exist besides; this module only loads them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from telemetry.alloy.kinds import Kind, kind

_FACTS = Path(__file__).parent / "facts"
LEVELS = {"stable": "generally-available", "preview": "public-preview", "experimental": "experimental"}
"""Stability levels in this table, and how Alloy's ``--stability.level`` calls them, most trusted first."""


class AttributeSpec(msgspec.Struct, frozen=True):
    """An attribute that a block takes."""

    name: str
    kind: Kind
    required: bool


class BlockSpec(msgspec.Struct, frozen=True):
    """A block that a block takes; ``level`` is stricter than ``stable`` for a few."""

    name: str
    shape: Shape
    required: bool
    repeatable: bool
    level: str


class Shape(msgspec.Struct):
    """The attributes and blocks that may stand in a block. Some contain themselves (``stage.match``)."""

    attributes: dict[str, AttributeSpec]
    blocks: dict[str, BlockSpec]


class ComponentSpec(msgspec.Struct, frozen=True):
    """A component or configuration block: its level, what it takes, and the kinds of what it exports."""

    name: str
    level: str
    shape: Shape
    exports: Mapping[str, Kind]


class Schema(msgspec.Struct, frozen=True):
    """Everything known: ``components`` in full, ``others`` by name and level, ``shapes`` of objects by name."""

    components: Mapping[str, ComponentSpec]
    others: Mapping[str, str]
    shapes: Mapping[str, Shape]


@functools.cache
def schema() -> Schema:
    """The table that ships with this package, read once."""
    return read((_FACTS / "components.txt").read_text("utf-8"), (_FACTS / "known.txt").read_text("utf-8"))


def read(components: str, known: str) -> Schema:
    """Read a table from its two texts. Raises ``ValueError`` naming a line that can't be understood."""
    groups = list(_groups(components))
    shared = [(head, lines) for head, lines in groups if head.startswith("@")]
    shapes = {head: Shape({}, {}) for head, _ in shared}
    # A shared shape may include another one that stands further down; three rounds reach through three of them.
    for _ in range(3):
        for head, lines in shared:
            _fill(shapes[head], lines, shapes)
    found: dict[str, ComponentSpec] = {}
    for head, lines in groups:
        if not head.startswith("@"):
            name, _, level = head.partition(" ")
            shape = Shape({}, {})
            _fill(shape, [line for line in lines if not line.startswith("\t->")], shapes)
            found[name] = ComponentSpec(name, level, shape, dict(_exports(lines)))
    others = dict(line.split(" ", 1) for line in known.splitlines() if line and not line.startswith("#"))
    return Schema(found, others, shapes)


def _groups(text: str) -> Iterator[tuple[str, list[str]]]:
    for paragraph in text.split("\n\n"):
        lines = [line for line in paragraph.splitlines() if line and not line.startswith("#")]
        if lines:
            yield lines[0], lines[1:]


def _exports(lines: list[str]) -> Iterator[tuple[str, Kind]]:
    for line in lines:
        if line.startswith("\t-> "):
            name, _, written = line.removeprefix("\t-> ").partition(" ")
            yield name, kind(written)


def _fill(shape: Shape, lines: list[str], shapes: Mapping[str, Shape]) -> None:
    """Put ``lines``, indented by one tab or more, into ``shape``."""
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        inner = []
        while at < len(lines) and lines[at].startswith("\t\t"):
            inner.append(lines[at][1:])
            at += 1
        words = line.split()
        try:
            if words[0] == "+":
                included = shapes[words[1]]
                shape.attributes.update(included.attributes)
                shape.blocks.update(included.blocks)
            elif words[1].startswith("{}"):
                spec = _block(words, shapes)
                if not spec.shape.attributes and not spec.shape.blocks:
                    _fill(spec.shape, inner, shapes)
                shape.blocks[spec.name] = spec
            else:
                name = words[0].removesuffix("!")
                shape.attributes[name] = AttributeSpec(name, kind(words[1]), words[0].endswith("!"))
        except (IndexError, KeyError) as error:
            raise ValueError(f"the schema table has a line that says nothing: {line!r}") from error


def _block(words: list[str], shapes: Mapping[str, Shape]) -> BlockSpec:
    name, mark, *rest = words
    level = next((word[1:] for word in rest if word.startswith("~")), "stable")
    shared = next((word for word in rest if word.startswith("@")), None)
    shape = shapes[shared] if shared else Shape({}, {})
    return BlockSpec(name, shape, "!" in mark, "*" in mark, level)
