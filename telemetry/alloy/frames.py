"""A configuration as it runs: modules put in place of their uses, each with the arguments it was given.

A module that is used twice is two frames. One that nobody uses is a frame without a caller, whose arguments
are known only by their defaults.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from telemetry.alloy.program import Node, Scope
from telemetry.alloy.syntax import (
    Array,
    Attribute,
    Binary,
    Block,
    Call,
    Expression,
    Group,
    Index,
    Literal,
    Position,
    children,
)
from telemetry.alloy.values import argument, attribute, find, path

_MAX_FRAMES = 2000
_MAX_STEPS = 40
_MAX_DEPTH = 120
_MAX_TEXT = 4096
_MAX_TEXTS = 16

Seen = set[tuple[int, int]]
"""Values, each in its frame, that were looked at already: what is referred to twice is followed once."""


class Frame:
    """A scope in one use: ``instance`` is the block that uses the module, ``caller`` the frame it stands in."""

    def __init__(self, scope: Scope, instance: Node | None = None, caller: Frame | None = None) -> None:
        self.scope = scope
        self.instance = instance
        self.caller = caller
        self.inner: dict[Node, Frame] = {}
        self.texts: dict[int, tuple[Text, ...]] = {}

    def of(self, scope: Scope) -> Frame:
        """The frame of a scope that is visible from this one: itself, or further out around a ``foreach``."""
        frame = self
        while frame.scope is not scope and frame.caller is not None and frame.scope.role == "foreach":
            frame = frame.caller
        return frame


class Place(msgspec.Struct, frozen=True):
    """An expression and the frame that it is read in."""

    value: Expression
    frame: Frame


class Text(msgspec.Struct, frozen=True):
    """A string that a value can be, and where it is written."""

    text: str
    position: Position


class Target(msgspec.Struct, frozen=True):
    """A component in its frame, and the export that is referred to."""

    node: Node
    frame: Frame
    export: str


def unfold(scopes: Iterable[Scope]) -> list[Frame]:
    """Every frame of a program, from its scopes."""
    frames: list[Frame] = []
    listed = list(scopes)
    for scope in listed:
        unused = scope.declare is not None and not scope.declare.instances
        if scope.role in {"root", "library"} or (scope.role == "module" and unused):
            _open(Frame(scope), listed, frames, 0)
    return frames


def _open(frame: Frame, scopes: list[Scope], frames: list[Frame], depth: int) -> None:
    if len(frames) >= _MAX_FRAMES or depth > _MAX_STEPS:
        return
    frames.append(frame)
    for node in frame.scope.all():
        if node.declare is not None:
            inner = Frame(node.declare.scope, node, frame)
            frame.inner[node] = inner
            _open(inner, scopes, frames, depth + 1)
    for scope in scopes:
        if scope.role == "foreach" and scope.parent is frame.scope:
            _open(Frame(scope, None, frame), scopes, frames, depth + 1)


def follow(value: Expression, frame: Frame) -> Place | None:
    """What a value is, through parentheses and the arguments of modules; None for an argument nobody gave."""
    for _ in range(_MAX_STEPS):
        if isinstance(value, Group):
            value = value.inner
            continue
        handed = argument(value, frame.scope)
        if handed is None:
            return Place(value, frame)
        declare, name = handed
        home = frame.of(declare.scope)
        given = home.instance.attribute(name) if home.instance is not None else None
        if given is not None and home.caller is not None:
            value, frame = given.value, home.caller
            continue
        default = attribute(declare.arguments[name].body, "default")
        if default is None:
            return None
        value, frame = default.value, home
    return None


def _once(value: Expression, frame: Frame, seen: Seen, depth: int) -> Place | None:
    """As ``follow``, and None for what was seen already or lies too deep to matter."""
    place = follow(value, frame)
    if place is None or (id(place.value), id(place.frame)) in seen or depth > _MAX_DEPTH:
        return None
    seen.add((id(place.value), id(place.frame)))
    return place


def texts(value: Expression, frame: Frame, depth: int = 0) -> tuple[Text, ...]:
    """The strings that a value can be, as far as they are written down."""
    place = follow(value, frame)
    if place is None or depth > _MAX_STEPS:
        return ()
    known = place.frame.texts.get(id(place.value))
    if known is None:
        place.frame.texts[id(place.value)] = ()
        found = tuple(text for text in _texts(place, depth) if len(text.text) <= _MAX_TEXT)
        place.frame.texts[id(place.value)] = known = found[:_MAX_TEXTS]
    return known


def _texts(place: Place, depth: int) -> Iterator[Text]:
    match place.value:
        case Literal(kind="string", value=str(text)):
            yield Text(text, place.value.position)
        case Call() if path(place.value.function) == ("coalesce",):
            for item in place.value.arguments:
                yield from texts(item, place.frame, depth + 1)
        case Call() if path(place.value.function) in {("string", "trim_suffix"), ("string", "trim_space")}:
            yield from _trimmed(place, depth)
        case Binary(operator="+"):
            ends = texts(place.value.right, place.frame, depth + 1)
            for begin in texts(place.value.left, place.frame, depth + 1):
                for end in ends:
                    yield Text(begin.text + end.text, begin.position)
        case _:
            return


def _trimmed(place: Place, depth: int) -> Iterator[Text]:
    call = place.value
    assert isinstance(call, Call)
    if not call.arguments:
        return
    ends = [text.text for item in call.arguments[1:2] for text in texts(item, place.frame, depth + 1)]
    for text in texts(call.arguments[0], place.frame, depth + 1):
        yield Text(text.text.removesuffix(ends[0]) if ends else text.text.strip(), text.position)


def pieces(value: Expression, frame: Frame, seen: Seen | None = None, depth: int = 0) -> Iterator[str]:
    """Every string that is written anywhere in a value, also where the whole is only known at run time."""
    seen = set() if seen is None else seen
    place = _once(value, frame, seen, depth)
    if place is None:
        return
    if isinstance(place.value, Literal) and isinstance(place.value.value, str):
        yield place.value.value
    for child in children(place.value):
        yield from pieces(child, place.frame, seen, depth + 1)


def environment(
    value: Expression, frame: Frame, seen: Seen | None = None, depth: int = 0
) -> Iterator[tuple[str, Position]]:
    """Variables that a value needs and that have no default beside them."""
    seen = set() if seen is None else seen
    place = _once(value, frame, seen, depth)
    if place is None:
        return
    match place.value:
        case Call() if path(place.value.function) in {("sys", "env"), ("env",)}:
            named = place.value.arguments[0] if place.value.arguments else None
            name = named.value if isinstance(named, Literal) else ""
            yield str(name), place.value.position
        case Call() if path(place.value.function) == ("coalesce",):
            last = place.value.arguments[-1:]
            for item in last:
                yield from environment(item, place.frame, seen, depth + 1)
        case Binary(operator="+") | Array():
            for child in children(place.value):
                yield from environment(child, place.frame, seen, depth + 1)
        case _:
            return


def truth(value: Expression, frame: Frame) -> bool | None:
    """A bool that is written down, else None."""
    place = follow(value, frame)
    if place is not None and isinstance(place.value, Literal) and isinstance(place.value.value, bool):
        return place.value.value
    return None


def leads(value: Expression, frame: Frame, seen: Seen | None = None, depth: int = 0) -> Iterator[Target]:
    """The components that a value refers to, through lists, functions, arguments and exports of modules."""
    seen = set() if seen is None else seen
    place = _once(value, frame, seen, depth)
    if place is None:
        return
    names = path(place.value)
    if not names:
        inner = (place.value.target,) if isinstance(place.value, Index) else children(place.value)
        for child in inner:
            yield from leads(child, place.frame, seen, depth + 1)
        return
    found = find(names, place.frame.scope)
    if found is None:
        return
    node, rest = found
    home = place.frame.of(node.scope)
    if node.declare is None:
        if node.component:
            yield Target(node, home, rest[0] if rest else "")
        return
    inside = home.inner.get(node)
    export = node.declare.exports.get(rest[0]) if rest else None
    given = attribute(export.body, "value") if export else None
    if inside is not None and given is not None:
        yield from leads(given.value, inside, seen, depth + 1)


def inner_blocks(body: Iterable[object], name: str) -> Iterator[Block]:
    """The blocks ``name`` of a body."""
    for statement in body:
        if isinstance(statement, Block) and statement.name == name:
            yield statement


def values_at(block: Block, *names: str) -> Iterator[Attribute]:
    """Every attribute at a path such as ``endpoint``, ``url``, in each block that repeats."""
    if len(names) == 1:
        found = attribute(block.body, names[0])
        if found is not None:
            yield found
        return
    for inner in inner_blocks(block.body, names[0]):
        yield from values_at(inner, *names[1:])
