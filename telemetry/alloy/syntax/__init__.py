"""The Alloy configuration syntax: text in, blocks with positions out.

Written from the published grammar; it accepts what Alloy accepts, except that nesting stops at
``MAX_DEPTH``, so that no input can exhaust the stack.
"""

from __future__ import annotations

from telemetry.alloy.syntax.nodes import (
    Access,
    Array,
    Attribute,
    Binary,
    Block,
    Call,
    Comment,
    Expression,
    Field,
    File,
    Group,
    Identifier,
    Index,
    Literal,
    Object,
    Position,
    Statement,
    SyntaxFault,
    Unary,
    children,
    start,
)
from telemetry.alloy.syntax.parser import MAX_DEPTH, parse

__all__ = [
    "MAX_DEPTH",
    "Access",
    "Array",
    "Attribute",
    "Binary",
    "Block",
    "Call",
    "Comment",
    "Expression",
    "Field",
    "File",
    "Group",
    "Identifier",
    "Index",
    "Literal",
    "Object",
    "Position",
    "Statement",
    "SyntaxFault",
    "Unary",
    "children",
    "parse",
    "start",
]
