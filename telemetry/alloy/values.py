"""What expressions mean: what they refer to, the kind of their value, and the texts it can be."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from telemetry.alloy.kinds import ANY, BOOL, NULL, NUMBER, STRING, Kind, kind, list_of
from telemetry.alloy.program import Declare, Node, Scope
from telemetry.alloy.syntax import (
    Access,
    Array,
    Attribute,
    Binary,
    Call,
    Expression,
    Group,
    Identifier,
    Index,
    Literal,
    Object,
    Position,
    Unary,
    children,
)

STDLIB: dict[str, Kind] = {
    "coalesce": ANY,
    "json_path": list_of(ANY),
    "sys.env": STRING,
    "convert.nonsensitive": STRING,
    "array.concat": list_of(ANY),
    "array.combine_maps": list_of(ANY),
    "array.group_by": list_of(ANY),
    "encoding.from_json": ANY,
    "encoding.from_yaml": ANY,
    "encoding.from_base64": STRING,
    "encoding.from_URLbase64": STRING,
    "encoding.to_json": STRING,
    "encoding.to_base64": STRING,
    "encoding.to_URLbase64": STRING,
    "encoding.url_encode": STRING,
    "encoding.url_decode": STRING,
    "string.format": STRING,
    "string.join": STRING,
    "string.replace": STRING,
    "string.split": list_of(STRING),
    "string.to_lower": STRING,
    "string.to_upper": STRING,
    "string.trim": STRING,
    "string.trim_prefix": STRING,
    "string.trim_suffix": STRING,
    "string.trim_space": STRING,
    "file.path_join": STRING,
    "constants.hostname": STRING,
    "constants.os": STRING,
    "constants.arch": STRING,
    "constants.version": STRING,
}
"""The standard library of Alloy 1.18 and the kinds of its values."""

EXPERIMENTAL = frozenset({"array.combine_maps", "array.group_by"})
DEPRECATED = {
    "env": "sys.env",
    "nonsensitive": "convert.nonsensitive",
    "concat": "array.concat",
    "json_decode": "encoding.from_json",
    "yaml_decode": "encoding.from_yaml",
    "base64_decode": "encoding.from_base64",
    **{name.removeprefix("string."): name for name in STDLIB if name.startswith("string.")},
}
"""Old names of functions and what they are called now; Alloy's own ``validate`` refuses them."""

NAMESPACES = frozenset(name.partition(".")[0] for name in STDLIB)
"""First names of the standard library."""


class Reference(msgspec.Struct, frozen=True):
    """An uninterrupted ``a.b.c``: its names and where the first one stands."""

    names: tuple[str, ...]
    position: Position

    def __str__(self) -> str:
        return ".".join(self.names)


def path(expression: Expression) -> tuple[str, ...]:
    """The names of ``a.b.c``; empty for anything else."""
    names: list[str] = []
    while isinstance(expression, Access):
        names.append(expression.name)
        expression = expression.target
    if not isinstance(expression, Identifier):
        return ()
    return (expression.name, *reversed(names))


def references(expression: Expression) -> Iterator[Reference]:
    """Every reference in an expression. Indexing and calling interrupt one."""
    names = path(expression)
    if names:
        at = expression
        while isinstance(at, Access):
            at = at.target
        yield Reference(names, at.position)
        return
    for child in children(expression):
        yield from references(child)


def find(names: tuple[str, ...], scope: Scope) -> tuple[Node, tuple[str, ...]] | None:
    """The block that a reference is to, and what is left of it; None when there is none in scope."""
    for seen in scope.visible():
        for length in range(1, len(names) + 1):
            node = seen.nodes.get(".".join(names[:length]))
            if node is not None:
                return node, names[length:]
    return None


def argument(expression: Expression, scope: Scope) -> tuple[Declare, str] | None:
    """The module and the name, when an expression is ``argument.NAME.value``, else None."""
    if isinstance(expression, Group):
        return argument(expression.inner, scope)
    names = path(expression)
    if len(names) == 3 and names[0] == "argument" and names[2] == "value":
        inside = module_of(scope)
        if inside is not None and names[1] in inside.arguments:
            return inside, names[1]
    return None


def module_of(scope: Scope) -> Declare | None:
    """The module that a scope is the inside of, through ``foreach``."""
    seen: Scope | None = scope
    while seen is not None and seen.role == "foreach":
        seen = seen.parent
    return seen.declare if seen is not None else None


def infer(expression: Expression, scope: Scope, depth: int = 0) -> Kind:
    """The kind of a value, ``any`` when it can't be told. ``depth`` bounds chains through modules."""
    known = scope.kinds.get(id(expression))
    if known is not None or depth > 40:
        return known or ANY
    # Each value is looked at once, which also ends circles of modules; what is being looked at is anything so far.
    scope.kinds[id(expression)] = ANY
    scope.kinds[id(expression)] = found = _infer(expression, scope, depth)
    return found


def _infer(expression: Expression, scope: Scope, depth: int) -> Kind:
    match expression:
        case Literal():
            return {"string": STRING, "number": NUMBER, "bool": BOOL, "null": NULL}[expression.kind]
        case Group():
            return infer(expression.inner, scope, depth)
        case Array():
            kinds = {infer(item, scope, depth + 1) for item in expression.items}
            return list_of(kinds.pop() if len(kinds) == 1 else ANY)
        case Object():
            kinds = {infer(field.value, scope, depth + 1) for field in expression.fields}
            return Kind("map", inner=kinds.pop() if len(kinds) == 1 else ANY)
        case Unary():
            return BOOL if expression.operator == "!" else NUMBER
        case Binary():
            if expression.operator in {"==", "!=", "<", "<=", ">", ">=", "&&", "||"}:
                return BOOL
            if expression.operator != "+":
                return NUMBER
            sides = [infer(side, scope, depth + 1) for side in (expression.left, expression.right)]
            # A string that a secret was added to is a secret.
            return next((side for side in sides if side.name in {"secret", "optional_secret"}), sides[0])
        case Call():
            return _call(expression, scope, depth)
        case Index():
            target = infer(expression.target, scope, depth + 1)
            return _inside(target)
        case _:
            return _referred(expression, scope, depth)


def _call(call: Call, scope: Scope, depth: int) -> Kind:
    name = ".".join(path(call.function))
    name = DEPRECATED.get(name, name)
    if name in {"coalesce", "array.concat"}:
        kinds = {infer(item, scope, depth + 1) for item in call.arguments} - {NULL}
        # An empty list goes with every other.
        kinds = {item for item in kinds if item != list_of(ANY)} or kinds
        if len(kinds) == 1:
            return kinds.pop()
    return STDLIB.get(name, ANY)


def _inside(kind_: Kind) -> Kind:
    """What indexing or one more name gives."""
    if kind_.name == "target":
        return STRING
    return kind_.inner or ANY


def _referred(expression: Expression, scope: Scope, depth: int) -> Kind:
    names = path(expression)
    if not names:
        if isinstance(expression, Access):
            return _inside(infer(expression.target, scope, depth + 1))
        return ANY
    found = find(names, scope)
    if found is None:
        return STDLIB.get(".".join(names), STRING if names == ("module_path",) else ANY)
    node, rest = found
    if not rest:
        return ANY
    if node.block.name == "argument":
        return _argument_kind(node, scope, depth) if rest == ("value",) else ANY
    result = export_kind(node, rest[0], depth)
    for _ in rest[1:]:
        result = _inside(result)
    return result


def _argument_kind(node: Node, scope: Scope, depth: int) -> Kind:
    """What the users of a module hand in, when they agree; inside it the argument is that."""
    declare = module_of(scope)
    label = node.block.label
    if declare is None or label is None:
        return ANY
    kinds = set()
    for instance in declare.instances:
        given = instance.attribute(label)
        if given is not None:
            kinds.add(infer(given.value, instance.scope, depth + 1))
    return kinds.pop() if len(kinds) == 1 else ANY


def export_kind(node: Node, name: str, depth: int = 0) -> Kind:
    """The kind of an export of a component or of an instance of a module."""
    if node.spec is not None:
        return node.spec.exports.get(name, ANY)
    if node.declare is not None:
        block = node.declare.exports.get(name)
        value = attribute(block.body, "value") if block else None
        if value is not None:
            return infer(value.value, node.declare.scope, depth + 1)
    return kind("any")


def attribute(body: tuple[object, ...], name: str) -> Attribute | None:
    """The attribute ``name`` of a body."""
    return next((s for s in body if isinstance(s, Attribute) and s.name == name), None)


def written(expression: Expression) -> str:
    """An expression as a short text for messages."""
    match expression:
        case Literal():
            return expression.text if len(expression.text) <= 40 else f"{expression.text[:37]}…"
        case Identifier():
            return expression.name
        case Access():
            return f"{written(expression.target)}.{expression.name}"
        case Call():
            inner = written(expression.arguments[0]) if len(expression.arguments) == 1 else "…"
            return f"{written(expression.function)}({inner if expression.arguments else ''})"
        case Index():
            return f"{written(expression.target)}[{written(expression.key)}]"
        case Array():
            return "this list"
        case Object():
            return "this object"
        case _:
            return "this expression"
