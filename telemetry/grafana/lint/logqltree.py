"""What a LogQL query is made of, as a tree: selectors with their stages, functions, operators, constants."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec


class Matcher(msgspec.Struct, frozen=True):
    """A matcher of a stream selector, or a label filter; ``value`` without quotes."""

    name: str
    op: str
    value: str


class Stage(msgspec.Struct, frozen=True):
    """A stage of a pipeline.

    ``kind`` is the operator of a line filter, the word of a stage (``logfmt``, ``keep``), or ``label`` for label
    filters. ``words`` are its texts, flags or label names, ``filters`` its label filters.
    """

    kind: str
    words: tuple[str, ...] = ()
    filters: tuple[Matcher, ...] = ()


class Lines(msgspec.Struct, frozen=True):
    """A selector with its pipeline; ``range`` is what stands in brackets, empty in a query for lines."""

    matchers: tuple[Matcher, ...]
    stages: tuple[Stage, ...]
    range: str = ""


class Call(msgspec.Struct, frozen=True):
    """A function or aggregation; ``by`` are the labels that it keeps, None when it keeps all but some (``without``)."""

    name: str
    inner: Node
    by: tuple[str, ...] | None = ()


class Pair(msgspec.Struct, frozen=True):
    """Two operands and what stands between them."""

    op: str
    left: Node
    right: Node


class Constant(msgspec.Struct, frozen=True):
    """A number, a variable, or ``vector(…)``."""

    text: str


Node = Lines | Call | Pair | Constant


class Logql(msgspec.Struct, frozen=True):
    """An expression that was read: its tree, or what is wrong with it."""

    text: str
    tree: Node | None
    problem: str = ""

    def nodes(self) -> Iterator[tuple[Node, tuple[Node, ...]]]:
        """Every node with those around it, from outside in."""
        return _nodes(self.tree, ()) if self.tree is not None else iter(())

    def queries(self) -> Iterator[Lines]:
        """Every selector with its pipeline."""
        return (node for node, _ in self.nodes() if isinstance(node, Lines))

    @property
    def is_metric(self) -> bool:
        """Whether series come back, not lines."""
        return self.tree is not None and not isinstance(self.tree, Lines)


def _nodes(node: Node, around: tuple[Node, ...]) -> Iterator[tuple[Node, tuple[Node, ...]]]:
    yield node, around
    for child in (node.inner,) if isinstance(node, Call) else (node.left, node.right) if isinstance(node, Pair) else ():
        yield from _nodes(child, (*around, node))
