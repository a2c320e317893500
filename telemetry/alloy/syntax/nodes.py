"""What an Alloy file is made of: blocks, attributes and expressions, each with its place in the file."""

from __future__ import annotations

from typing import Literal as Words

import msgspec


class Position(msgspec.Struct, frozen=True, order=True):
    """A place in a file: ``line`` and ``column`` count from 1, columns in characters."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class SyntaxFault(msgspec.Struct, frozen=True):
    """Text that is not Alloy: where, and a sentence that says what was expected and what to do."""

    position: Position
    message: str


class Literal(msgspec.Struct, frozen=True):
    """A string, number, bool or null. ``value`` is what it means, ``text`` is what is written."""

    position: Position
    kind: Words["string", "number", "bool", "null"]
    value: str | int | float | bool | None
    text: str


class Identifier(msgspec.Struct, frozen=True):
    """A name that starts a reference, such as ``loki`` in ``loki.write.out.receiver``."""

    position: Position
    name: str


class Access(msgspec.Struct, frozen=True):
    """``target.name``; ``position`` is that of the name."""

    position: Position
    target: Expression
    name: str


class Index(msgspec.Struct, frozen=True):
    """``target[key]``; ``position`` is that of the bracket."""

    position: Position
    target: Expression
    key: Expression


class Call(msgspec.Struct, frozen=True):
    """``function(arguments)``; ``position`` is that of the parenthesis."""

    position: Position
    function: Expression
    arguments: tuple[Expression, ...]


class Unary(msgspec.Struct, frozen=True):
    """``!operand`` or ``-operand``."""

    position: Position
    operator: str
    operand: Expression


class Binary(msgspec.Struct, frozen=True):
    """``left operator right``; ``position`` is that of the operator."""

    position: Position
    operator: str
    left: Expression
    right: Expression


class Group(msgspec.Struct, frozen=True):
    """An expression in parentheses."""

    position: Position
    inner: Expression


class Array(msgspec.Struct, frozen=True):
    """``[a, b]``."""

    position: Position
    items: tuple[Expression, ...]


class Field(msgspec.Struct, frozen=True):
    """``name = value`` inside an object."""

    position: Position
    name: str
    value: Expression


class Object(msgspec.Struct, frozen=True):
    """``{name = value, "other name" = value}``."""

    position: Position
    fields: tuple[Field, ...]


Expression = Literal | Identifier | Access | Index | Call | Unary | Binary | Group | Array | Object


class Attribute(msgspec.Struct, frozen=True):
    """``name = value`` inside a block."""

    position: Position
    name: str
    value: Expression


class Block(msgspec.Struct, frozen=True):
    """``name "label" { body }``. ``name`` keeps its dots; ``label`` is None where there is none."""

    position: Position
    name: str
    label: str | None
    body: tuple[Statement, ...]
    end: Position

    @property
    def identity(self) -> str:
        """Name and label joined by a dot: what references call this block."""
        return f"{self.name}.{self.label}" if self.label else self.name

    @property
    def title(self) -> str:
        """How people write it: ``loki.write "out"``."""
        return f'{self.name} "{self.label}"' if self.label else self.name


Statement = Attribute | Block


class Comment(msgspec.Struct, frozen=True):
    """A comment without its slashes and stars."""

    position: Position
    text: str


class File(msgspec.Struct, frozen=True):
    """A file as read. Where ``faults`` is not empty, ``body`` holds the statements that could be read."""

    name: str
    body: tuple[Statement, ...]
    comments: tuple[Comment, ...]
    faults: tuple[SyntaxFault, ...]


def start(expression: Expression) -> Position:
    """Where an expression begins, which for ``a.b.c`` and ``a + b`` is before ``position``."""
    while True:
        match expression:
            case Access() | Index():
                expression = expression.target
            case Call():
                expression = expression.function
            case Binary():
                expression = expression.left
            case _:
                return expression.position


def children(expression: Expression) -> tuple[Expression, ...]:
    """The expressions directly inside one."""
    match expression:
        case Access():
            return (expression.target,)
        case Index():
            return (expression.target, expression.key)
        case Call():
            return (expression.function, *expression.arguments)
        case Unary():
            return (expression.operand,)
        case Binary():
            return (expression.left, expression.right)
        case Group():
            return (expression.inner,)
        case Array():
            return expression.items
        case Object():
            return tuple(field.value for field in expression.fields)
        case _:
            return ()
