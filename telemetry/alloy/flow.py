"""What refers to what: names that don't exist, circles, and components that nothing reaches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from telemetry.alloy.finding import Findings, closest
from telemetry.alloy.kinds import CAPSULES
from telemetry.alloy.program import Node, Scope
from telemetry.alloy.syntax import Array, Attribute, Block, Call, Expression, children
from telemetry.alloy.values import (
    DEPRECATED,
    EXPERIMENTAL,
    NAMESPACES,
    STDLIB,
    Reference,
    export_kind,
    find,
    module_of,
    path,
    references,
)


class Use(msgspec.Struct, frozen=True):
    """One reference to a node: who refers, through which export (empty: the whole), and where."""

    user: Node
    used: Node
    export: str
    reference: Reference


def expressions(body: Iterable[Attribute | Block]) -> Iterator[Expression]:
    """Every value in a body and in the blocks inside."""
    for statement in body:
        if isinstance(statement, Attribute):
            yield statement.value
        else:
            yield from expressions(statement.body)


def own_body(node: Node) -> tuple[Attribute | Block, ...]:
    """The body of a block without what is a scope of its own."""
    if node.block.name == "declare":
        return ()
    if node.block.name == "foreach":
        return tuple(s for s in node.block.body if not (isinstance(s, Block) and s.name == "template"))
    return node.block.body


def uses(scopes: Iterable[Scope]) -> list[Use]:
    """Every reference that leads somewhere."""
    found = []
    for scope in scopes:
        for node in scope.all():
            for expression in expressions(own_body(node)):
                for reference in references(expression):
                    target = find(reference.names, scope)
                    if target is not None:
                        used, rest = target
                        found.append(Use(node, used, rest[0] if rest else "", reference))
    return found


def check_references(scopes: Iterable[Scope], found: Findings, level: str) -> None:
    """Names that are not in scope, exports that don't exist, functions that are unknown or old."""
    for scope in scopes:
        for node in scope.all():
            for expression in expressions(own_body(node)):
                for reference in references(expression):
                    _reference(reference, scope, found)
                _functions(expression, scope, found, level)


def _reference(reference: Reference, scope: Scope, found: Findings) -> None:
    target = find(reference.names, scope)
    first = reference.names[0]
    if target is None:
        if first in STDLIB or first in NAMESPACES or first in DEPRECATED or first == "module_path":
            if ".".join(reference.names[:2]) not in STDLIB and first in NAMESPACES - {"coalesce", "json_path"}:
                hint = closest(str(reference), STDLIB)
                found.error(reference.position, "unknown-function", f"Alloy has no {reference}{hint}")
            return
        if any(first in seen.variables for seen in scope.visible()):
            return
        found.error(reference.position, "unknown-reference", _nowhere(reference, scope))
        return
    node, rest = target
    if node.block.name == "argument":
        if rest[:1] != ("value",):
            found.error(
                reference.position, "unknown-reference", f"an argument is read as argument.{node.block.label}.value"
            )
        return
    if not node.component:
        found.error(reference.position, "unknown-reference", f"{node.block.title} gives nothing to refer to")
        return
    if not rest:
        return
    exports = _exports(node)
    if exports is not None and rest[0] not in exports:
        gives = ", ".join(sorted(exports)) or "nothing"
        hint = closest(rest[0], exports)
        found.error(
            reference.position, "unknown-export", f"{node.block.title} exports no {rest[0]}{hint}; it exports {gives}"
        )


def _exports(node: Node) -> set[str] | None:
    if node.spec is not None:
        return set(node.spec.exports)
    return set(node.declare.exports) if node.declare is not None else None


def _nowhere(reference: Reference, scope: Scope) -> str:
    """Why a name is not in scope, as far as it can be told."""
    names = reference.names
    if names[0] == "argument" and len(names) > 1:
        inside = module_of(scope)
        if inside is None:
            return f"{reference} stands outside of a module, where there are no arguments"
        return (
            f"{inside.block.title} has no argument {names[1]}{closest(names[1], inside.arguments)}; "
            f'add argument "{names[1]}" {{}} to it'
        )
    outer = scope.parent
    while outer is not None:
        if find(names, outer) is not None:
            return (
                f"{reference} is outside of this module, and modules see only their own blocks; "
                "hand it in as an argument"
            )
        outer = outer.parent
    known = {identity for seen in scope.visible() for identity, node in seen.nodes.items() if node.component}
    candidates = {".".join(names[:length]) for length in range(2, len(names) + 1)} or {names[0]}
    for candidate in sorted(candidates, key=len, reverse=True):
        hint = closest(candidate, known, cutoff=0.85)
        if hint:
            return f"there is no {candidate} here{hint}"
    return f"{reference} refers to nothing in scope; define the component, or correct the name"


def _functions(expression: Expression, scope: Scope, found: Findings, level: str) -> None:
    if isinstance(expression, Call):
        names = path(expression.function)
        name = ".".join(names)
        if names and find(names, scope) is None:
            if name in DEPRECATED:
                found.warning(
                    expression.position,
                    "deprecated",
                    f"{name}() is an old name, which alloy validate refuses; write {DEPRECATED[name]}()",
                )
            elif name in EXPERIMENTAL and level != "experimental":
                found.error(
                    expression.position,
                    "stability",
                    f"{name}() is experimental; start Alloy with --stability.level=experimental, or do without it",
                )
    for child in children(expression):
        _functions(child, scope, found, level)


def check_circles(found_uses: list[Use], found: Findings) -> None:
    """Components that refer to themselves, directly or in a circle."""
    edges: dict[Node, dict[Node, Reference]] = {}
    for use in found_uses:
        if use.user.scope is use.used.scope:
            edges.setdefault(use.user, {}).setdefault(use.used, use.reference)
    done: set[Node] = set()
    for first in edges:
        trail: list[Node] = []
        stack: list[tuple[Node, Iterator[Node]]] = []

        def enter(node: Node, trail: list[Node] = trail, stack: list[tuple[Node, Iterator[Node]]] = stack) -> None:
            trail.append(node)
            stack.append((node, iter(edges.get(node, {}))))

        if first not in done:
            enter(first)
        while stack:
            node, following = stack[-1]
            target = next(following, None)
            if target is None:
                done.add(node)
                stack.pop()
                trail.pop()
            elif target in trail:
                circle = trail[trail.index(target) :]
                names = " → ".join([*(member.block.identity for member in circle), target.block.identity])
                place = edges[node][target].position
                found.error(place, "circle", f"this closes a circle, which Alloy refuses: {names}")
            elif target not in done:
                enter(target)


def check_reached(scopes: Iterable[Scope], found_uses: list[Use], found: Findings) -> None:
    """Components whose exports nobody uses, and outputs that lead nowhere."""
    used = {use.used for use in found_uses if use.user is not use.used}
    for scope in scopes:
        for node in scope.all():
            if not node.component:
                continue
            exports = _exports(node)
            if exports and node not in used and not _starts(node, 0):
                _unreached(node, exports, found)
            _empty_outputs(node, node.block.body, node.block.title, found)


def _unreached(node: Node, exports: set[str], found: Findings) -> None:
    title = node.block.title
    takes = [name for name in sorted(exports) if _takes_data(node, name)]
    if takes:
        message = f"nothing sends to {title}; refer to {node.block.identity}.{takes[0]} where its data comes from"
    elif "targets" in exports or "output" in exports:
        name = "targets" if "targets" in exports else "output"
        message = f"nothing uses the targets of {title}; hand {node.block.identity}.{name} to what scrapes or tails"
    else:
        name = min(exports)
        message = f"nothing uses {title}; refer to {node.block.identity}.{name}, or remove it"
    found.warning(node.block.position, "unreached", message)


def _starts(node: Node, depth: int) -> bool:
    """Whether data begins here: a use of a module with a receiver, a reader or a scrape inside."""
    if node.declare is None or depth > 20:
        return False
    inner = [inside for inside in node.declare.scope.all() if inside.component]
    return any(
        _starts(inside, depth + 1) if inside.declare is not None else inside.spec is None or not inside.spec.exports
        for inside in inner
    )


def _takes_data(node: Node, export: str) -> bool:
    return export_kind(node, export).name in CAPSULES - {"auth", "extension", "rules"}


def _empty_outputs(node: Node, body: Iterable[Attribute | Block], title: str, found: Findings) -> None:
    for statement in body:
        if isinstance(statement, Block):
            if statement.name == "output" and not statement.body and node.spec is not None:
                found.warning(
                    statement.position, "nowhere", f"the output of {title} is empty, so that all it gets is lost"
                )
            _empty_outputs(node, statement.body, title, found)
        elif statement.name == "forward_to" and isinstance(statement.value, Array) and not statement.value.items:
            found.warning(statement.position, "nowhere", f"{title} forwards to nothing, so that all it gets is lost")
