"""A configuration as Alloy sees it: scopes, what each defines, and the modules that are brought in.

Building it says what can be said without looking inside blocks: labels, duplicates, misplaced blocks,
unknown components, stability, imports that can't be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

from telemetry.alloy.finding import Findings, closest
from telemetry.alloy.kinds import Kind
from telemetry.alloy.schema import LEVELS, ComponentSpec, schema
from telemetry.alloy.syntax import Attribute, Block, File, Position

ROOT_ONLY = frozenset({"logging", "tracing", "http", "livedebugging", "remotecfg", "labelstore"})
IMPORTS = frozenset({"import.file", "import.string", "import.http", "import.git"})
CONFIG = ROOT_ONLY | IMPORTS | {"argument", "export", "declare", "foreach"}
Role = Literal["root", "module", "foreach", "library"]


class Node:
    """A block of a scope, and what is known about it.

    ``spec`` is set for components and configuration blocks of the schema table, ``declare`` for instances of a
    module whose text is known; both are None for what can only be taken as given.
    """

    def __init__(self, block: Block, scope: Scope) -> None:
        self.block = block
        self.scope = scope
        self.spec: ComponentSpec | None = None
        self.declare: Declare | None = None

    @property
    def component(self) -> bool:
        """Whether data may flow through it: a component or an instance of a module."""
        return self.block.name not in CONFIG

    def attribute(self, *path: str) -> Attribute | None:
        """The attribute at ``path``, the blocks before its name taken the first time they occur."""
        body = self.block.body
        for name in path[:-1]:
            inner = next((s for s in body if isinstance(s, Block) and s.name == name), None)
            if inner is None:
                return None
            body = inner.body
        return next((s for s in body if isinstance(s, Attribute) and s.name == path[-1]), None)


class Declare:
    """A ``declare`` block: its inside, and every place where it is used."""

    def __init__(self, block: Block, scope: Scope) -> None:
        self.block = block
        self.scope = scope
        self.instances: list[Node] = []
        self.wants: dict[str, Kind] = {}

    @property
    def arguments(self) -> dict[str, Block]:
        """The ``argument`` blocks by label."""
        return self._labelled("argument")

    @property
    def exports(self) -> dict[str, Block]:
        """The ``export`` blocks by label."""
        return self._labelled("export")

    def _labelled(self, name: str) -> dict[str, Block]:
        blocks = (s for s in self.block.body if isinstance(s, Block) and s.name == name)
        return {block.label: block for block in blocks if block.label}


class Scope:
    """What can be referred to from one place: the root, the inside of a ``declare``, of a ``foreach`` template."""

    def __init__(self, role: Role, parent: Scope | None = None, declare: Declare | None = None) -> None:
        self.role = role
        self.parent = parent
        self.declare = declare
        self.nodes: dict[str, Node] = {}
        self.extra: list[Node] = []
        self.declares: dict[str, Declare] = {}
        self.libraries: dict[str, Scope | None] = {}
        self.variables: set[str] = set()
        self.kinds: dict[int, Kind] = {}

    def all(self) -> Iterator[Node]:
        """Every block of the scope, duplicates too."""
        yield from self.nodes.values()
        yield from self.extra

    def visible(self) -> Iterator[Scope]:
        """The scopes whose blocks can be referred to: this one, and around a ``foreach`` the outer ones."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent if scope.role == "foreach" else None

    def module(self, name: str) -> tuple[bool, Declare | None]:
        """Whether ``name`` is that of a module seen from here, and its ``declare`` where its text is known."""
        first, _, rest = name.partition(".")
        scope: Scope | None = self
        while scope is not None:
            if not rest and first in scope.declares:
                return True, scope.declares[first]
            if first in scope.libraries:
                library = scope.libraries[first]
                if library is None:
                    return True, None
                return library.module(rest) if rest else (False, None)
            scope = scope.parent
        return False, None


class Builder:
    """Turns files into scopes. ``level`` is the least trusted stability level that is allowed."""

    def __init__(self, found: Findings, follow: Callable[[Builder, Node], Scope | None], level: str) -> None:
        self.found = found
        self.level = level
        self.scopes: list[Scope] = []
        self._follow = follow

    def root(self, files: tuple[File, ...], role: Role = "root") -> Scope:
        """The scope of a configuration, or of a library: what an import reads, which holds modules only."""
        scope = Scope(role)
        blocks = []
        for file in files:
            for statement in file.body:
                if isinstance(statement, Attribute):
                    name = statement.name
                    self.found.error(
                        statement.position,
                        "unknown-attribute",
                        f"{name} stands outside of any block; attributes belong into one",
                    )
                else:
                    blocks.append(statement)
        self._fill(scope, blocks)
        return scope

    def _fill(self, scope: Scope, blocks: list[Block]) -> None:
        self.scopes.append(scope)
        for block in blocks:
            node = Node(block, scope)
            first = scope.nodes.setdefault(block.identity, node)
            if first is not node:
                scope.extra.append(node)
                where = first.block.position
                self.found.error(
                    block.position,
                    "duplicate",
                    f"{block.title} is defined already in {where.file}, line {where.line}; give one another label",
                )
        nodes = list(scope.all())
        # Modules first, then their insides: each may use one that is declared below it.
        declared = []
        for node in nodes:
            if node.block.name == "declare":
                declared.append(self._declare(node))
            elif node.block.name in IMPORTS:
                self._import(node)
        for inside, body in declared:
            self._fill(inside, body)
        for node in nodes:
            self._place(node)

    def _declare(self, node: Node) -> tuple[Scope, list[Block]]:
        """Make a module known; its inside and the blocks that belong there."""
        block, scope = node.block, node.scope
        declare = Declare(block, Scope("module", parent=scope))
        declare.scope.declare = declare
        inner = []
        for statement in block.body:
            if isinstance(statement, Attribute):
                self.found.error(
                    statement.position,
                    "unknown-attribute",
                    f"{statement.name} can't stand directly in {block.title}; a module holds blocks, and takes "
                    f'values as argument "{statement.name}" {{}}',
                )
            else:
                inner.append(statement)
        if block.label:
            scope.declares.setdefault(block.label, declare)
        return declare.scope, inner

    def _hidden(self, node: Node) -> bool:
        """Alloy looks for modules first: one named ``loki`` is found for every ``loki.…``."""
        block = node.block
        first = block.name.partition(".")[0]
        scope: Scope | None = node.scope
        while scope is not None:
            for name in ("declare", *sorted(IMPORTS)):
                hiding = scope.nodes.get(f"{name}.{first}")
                if hiding is not None:
                    self.found.error(
                        block.position,
                        "label",
                        f"{block.name} is looked for in {hiding.block.title}, which hides the components that "
                        f"begin with {first}; give the module another name",
                    )
                    return True
            scope = scope.parent
        return False

    def _import(self, node: Node) -> None:
        if node.block.label:
            node.scope.libraries.setdefault(node.block.label, self._follow(self, node))

    def _place(self, node: Node) -> None:
        """Judge one block by where it stands and what it is called."""
        block, scope = node.block, node.scope
        if scope.role == "library" and block.name not in IMPORTS | {"declare"}:
            self.found.error(
                block.position,
                "misplaced",
                f"{block.title} stands in a file that is imported, which may hold only declare and import blocks; "
                "move it into a declare, or into the configuration itself",
            )
            return
        if block.name in ROOT_ONLY and scope.role != "root":
            where = "foreach" if scope.role == "foreach" else "a module"
            self.found.error(
                block.position,
                "misplaced",
                f"{block.name} can't stand inside {where}; put it into the configuration that uses it",
            )
        if block.name in {"argument", "export"} and scope.role in {"root", "foreach"}:
            self.found.error(block.position, "misplaced", f"{block.title} can only stand directly inside a declare")
        if block.name == "declare":
            self._label(block)
            return
        table = schema()
        node.spec = table.components.get(block.name)
        if node.spec is not None:
            if node.component and self._hidden(node):
                node.spec = None
                return
            self._label(block)
            self._stability(block.position, block.name, node.spec.level)
            if block.name == "foreach":
                self._foreach(node)
            return
        known, declare = scope.module(block.name)
        if known:
            self._label(block)
            node.declare = declare
            if declare is not None:
                declare.instances.append(node)
        elif block.name in table.others:
            self._label(block)
            self._stability(block.position, block.name, table.others[block.name])
            self.found.notice(
                block.position,
                "not-in-table",
                f"{block.name} exists in Alloy, but not in the table of this check; what it takes is not checked",
            )
        else:
            self._unknown(node)

    def _label(self, block: Block) -> None:
        labelled = block.name not in ROOT_ONLY
        if labelled and not block.label:
            self.found.error(block.position, "label", f'{block.name} needs a label, as in {block.name} "main" {{}}')
        if not labelled and block.label:
            self.found.error(block.position, "label", f"{block.name} takes no label; remove it")

    def _unknown(self, node: Node) -> None:
        block, scope = node.block, node.scope
        first, _, rest = block.name.partition(".")
        seen: Scope | None = scope
        names = {*schema().components, *schema().others}
        while seen is not None:
            names |= {*seen.declares}
            library = seen.libraries.get(first)
            if library is not None and rest:
                self.found.error(
                    block.position,
                    "unknown-component",
                    f"the import {first} has no module {rest}{closest(rest, library.declares)}; "
                    f"it declares {', '.join(sorted(library.declares)) or 'nothing'}",
                )
                return
            names |= {f"{label}.{name}" for label, lib in seen.libraries.items() if lib for name in lib.declares}
            seen = seen.parent
        self.found.error(
            block.position,
            "unknown-component",
            f"there is no component, module or block {block.name}{closest(block.name, names)}",
        )

    def _stability(self, position: Position, name: str, level: str) -> None:
        if level == "community":
            self.found.warning(
                position,
                "stability",
                f"{name} is a community component; Alloy needs --feature.community-components.enabled for it",
            )
            return
        trusted = list(LEVELS)
        if level in trusted and trusted.index(level) > trusted.index(self.level):
            self.found.error(
                position,
                "stability",
                f"{name} is {LEVELS[level]}; start Alloy with --stability.level={LEVELS[level]} and check with "
                f"--stability {LEVELS[level]}, or do without it",
            )

    def _foreach(self, node: Node) -> None:
        template = next((s for s in node.block.body if isinstance(s, Block) and s.name == "template"), None)
        if template is None:
            self.found.error(node.block.position, "missing-block", f"{node.block.title} needs a block template")
            return
        scope = Scope("foreach", parent=node.scope)
        variable = node.attribute("var")
        value = getattr(variable.value, "value", None) if variable else None
        if isinstance(value, str):
            scope.variables.add(value)
        inner = []
        for statement in template.body:
            if isinstance(statement, Attribute):
                self.found.error(
                    statement.position, "unknown-attribute", f"a template holds blocks; {statement.name} is none"
                )
            else:
                inner.append(statement)
        self._fill(scope, inner)
