"""Blocks held against the schema table: names, required parts, and the kinds of values."""

from __future__ import annotations

from collections.abc import Iterable

from telemetry.alloy.finding import Findings, closest
from telemetry.alloy.kinds import ANY, CAPSULES, LABEL, STRING, Kind, fits, wrong_text
from telemetry.alloy.program import Declare, Node, Scope
from telemetry.alloy.schema import LEVELS, AttributeSpec, BlockSpec, Shape, schema
from telemetry.alloy.syntax import (
    Array,
    Attribute,
    Binary,
    Block,
    Expression,
    Group,
    Literal,
    Object,
    Unary,
    children,
    start,
)
from telemetry.alloy.values import argument, attribute, infer, written

# What sends one kind to receivers of another, by the kind that the sender speaks and that of the receiver.
_BRIDGES = {
    ("otelcol", "logs"): "send it to an otelcol.exporter.loki first, or use otelcol.exporter.otlphttp",
    ("otelcol", "metrics"): "send it to an otelcol.exporter.prometheus first",
    ("logs", "otelcol"): "send it to an otelcol.receiver.loki first",
    ("metrics", "otelcol"): "send it to an otelcol.receiver.prometheus first",
}
_MATH = {"-": "number", "*": "number", "/": "number", "%": "number", "^": "number", "&&": "bool", "||": "bool"}


class Checker:
    """Holds every block of every scope against what it may contain."""

    def __init__(self, found: Findings, level: str) -> None:
        self.found = found
        self.level = level

    def check(self, scopes: Iterable[Scope]) -> None:
        """Check the blocks of these scopes, the insides of modules before their uses."""
        entered: set[Scope] = set()
        done: set[Scope] = set()
        for first in scopes:
            stack = [first]
            while stack:
                scope = stack.pop()
                if scope in done:
                    continue
                if scope in entered:
                    done.add(scope)
                    self._scope(scope)
                    continue
                entered.add(scope)
                used = [node.declare.scope for node in scope.all() if node.declare is not None]
                stack += [scope, *(inner for inner in used if inner not in entered)]

    def _scope(self, scope: Scope) -> None:
        for node in scope.all():
            self._node(node)
        if scope.declare is not None:
            for name, given in scope.declare.arguments.items():
                default = attribute(given.body, "default")
                if default is not None and name in scope.declare.wants:
                    title = f"the default of argument {name}"
                    self._value(default.value, scope.declare.wants[name], scope, title)

    def _node(self, node: Node) -> None:
        block = node.block
        if block.name == "foreach":
            body = tuple(s for s in block.body if not (isinstance(s, Block) and s.name == "template"))
            block = Block(block.position, block.name, block.label, body, block.end)
        if node.spec is not None:
            self._shape(block, node.spec.shape, node.scope, block.title)
        elif node.declare is not None:
            self._instance(node, node.declare)
        elif block.name != "declare":
            for statement in block.body:
                self._unchecked(statement, node.scope)

    def _unchecked(self, statement: Attribute | Block, scope: Scope) -> None:
        if isinstance(statement, Attribute):
            self._operators(statement.value, scope)
            return
        for inner in statement.body:
            self._unchecked(inner, scope)

    # --- blocks -------------------------------------------------------------------------------------------

    def _shape(self, block: Block, shape: Shape, scope: Scope, title: str) -> None:
        seen: dict[str, Attribute | Block] = {}
        for statement in block.body:
            row = self._statement(statement, shape, scope, title, seen)
            if isinstance(row, AttributeSpec) and isinstance(statement, Attribute):
                self._value(statement.value, row.kind, scope, f"{statement.name} of {title}")
            elif isinstance(row, BlockSpec) and isinstance(statement, Block):
                if statement.label:
                    self.found.error(statement.position, "label", f"{statement.name} in {title} takes no label")
                if row.level != "stable" and list(LEVELS).index(row.level) > list(LEVELS).index(self.level):
                    self.found.notice(
                        statement.position,
                        "stability",
                        f"{statement.name} of {title} is {LEVELS[row.level]} although the component is not; "
                        "it may change with any release",
                    )
                self._shape(statement, row.shape, scope, f"{statement.name} of {title}")
        specs: list[AttributeSpec | BlockSpec] = [*shape.attributes.values(), *shape.blocks.values()]
        for spec in specs:
            if spec.required and spec.name not in seen:
                what = "attribute" if isinstance(spec, AttributeSpec) else "block"
                takes = f" ({spec.kind})" if isinstance(spec, AttributeSpec) and spec.kind != ANY else ""
                self.found.error(block.position, f"missing-{what}", f"{title} needs the {what} {spec.name}{takes}")

    def _statement(
        self, statement: Attribute | Block, shape: Shape, scope: Scope, title: str, seen: dict[str, Attribute | Block]
    ) -> AttributeSpec | BlockSpec | None:
        """The row of the table for a statement, or None after saying why there is none."""
        name = statement.name
        wanted: AttributeSpec | BlockSpec | None
        other: AttributeSpec | BlockSpec | None
        if isinstance(statement, Attribute):
            self._operators(statement.value, scope)
            what, wanted, other = "attribute", shape.attributes.get(name), shape.blocks.get(name)
            instead = f"{name} of {title} is a block: write {name} {{ … }} without ="
        else:
            what, wanted, other = "block", shape.blocks.get(name), shape.attributes.get(name)
            instead = f"{name} of {title} is an attribute: write {name} = …"
        first = seen.setdefault(name, statement)
        if wanted is None:
            names = {*shape.attributes, *shape.blocks}
            message = instead if other else f"{title} has no {what} {name}{closest(name, names) or _choices(names)}"
            self.found.error(statement.position, f"unknown-{what}", message)
        elif first is not statement and not (isinstance(wanted, BlockSpec) and wanted.repeatable):
            self.found.error(
                statement.position,
                "repeated",
                f"{name} stands in {title} already, in line {first.position.line}; it may stand there once",
            )
            return None
        return wanted

    def _instance(self, node: Node, declare: Declare) -> None:
        """The use of a module: its arguments are attributes."""
        block, arguments = node.block, declare.arguments
        seen: set[str] = set()
        for statement in block.body:
            if isinstance(statement, Block):
                self.found.error(
                    statement.position,
                    "unknown-block",
                    f"{block.title} is a module and takes attributes only; write {statement.name} = …",
                )
                continue
            self._operators(statement.value, node.scope)
            name = statement.name
            if name in seen:
                self.found.error(statement.position, "repeated", f"{name} stands in {block.title} already")
            seen.add(name)
            if name not in arguments:
                hint = closest(name, arguments) or _choices(arguments)
                self.found.error(
                    statement.position, "unknown-argument", f"the module {block.name} has no argument {name}{hint}"
                )
            else:
                want = declare.wants.get(name, ANY)
                self._value(statement.value, want, node.scope, f"{name} of {block.title}")
        for name, given in arguments.items():
            optional = attribute(given.body, "optional")
            if name not in seen and not (optional and isinstance(optional.value, Literal) and optional.value.value):
                wants = f" ({declare.wants[name]})" if name in declare.wants else ""
                self.found.error(
                    block.position,
                    "missing-argument",
                    f"{block.title} needs the argument {name}{wants} of its module",
                )

    # --- values -------------------------------------------------------------------------------------------

    def _value(self, expression: Expression, want: Kind, scope: Scope, title: str) -> None:
        handed = argument(expression, scope)
        if handed is not None:
            declare, name = handed
            if want != ANY and (name not in declare.wants or _receivers(want)):
                declare.wants[name] = want
            # What is handed in is judged where it is written: at the uses of the module, and at the default.
            return
        match expression:
            case Group():
                self._value(expression.inner, want, scope, title)
            case Literal():
                self._literal(expression, want, title)
            case Unary(operator="-", operand=Literal() as number):
                self._literal(number, want, title)
            case Array() if want.name in {"list", "any", "label"}:
                for item in expression.items:
                    self._value(item, want.inner or ANY, scope, f"an item of {title}")
            case Object() if want.name in {"map", "target", "object", "any", "label"}:
                self._object(expression, want, scope, title)
            case Array() | Object():
                got = "a list" if isinstance(expression, Array) else "an object"
                self.found.error(expression.position, "wrong-kind", f"{title} takes {want}, not {got}")
            case _:
                have = infer(expression, scope)
                if not fits(have, want):
                    self._mismatch(expression, have, want, title)

    def _mismatch(self, expression: Expression, have: Kind, want: Kind, title: str) -> None:
        if want.name == "list" and fits(have, want.inner or ANY):
            advice = f"; put it into a list: [{written(expression)}]"
        elif have.name == "list" and fits(have.inner or ANY, want):
            advice = "; take one of them: [0]"
        elif have.name == "secret":
            advice = "; convert.nonsensitive(…) makes it a string, readable in Alloy's UI"
        else:
            bridge = _BRIDGES.get((_core(want), _core(have)))
            advice = f"; {bridge}" if bridge else ""
        self.found.error(
            start(expression), "wrong-kind", f"{title} takes {want}, but {written(expression)} is {have}{advice}"
        )

    def _literal(self, literal: Literal, want: Kind, title: str) -> None:
        if literal.kind == "null" or want.name in {"any", "label"}:
            return
        wrong = ""
        if isinstance(literal.value, str):
            wrong = wrong_text(literal.value, want) if fits(STRING, want) else f"{literal.text} is a string"
        elif literal.kind == "bool":
            wrong = "" if want.name == "bool" else f"{literal.text} is a bool"
        elif want.name in {"bool", "secret", "optional_secret", "list", "map", "target", "object"} | CAPSULES:
            wrong = f"{literal.text} is a number"
        else:
            wrong = "" if want.name == "number" else wrong_text(literal.text, want)
        if not wrong:
            return
        if want.name == "list" and fits(infer(literal, Scope("root")), want.inner or ANY):
            wrong = f"{wrong}; put it into a list: [{literal.text}]"
        rule = "bad-value" if fits(STRING, want) and literal.kind != "bool" else "wrong-kind"
        self.found.error(literal.position, rule, f"{title} takes {want}: {wrong}")

    def _object(self, given: Object, want: Kind, scope: Scope, title: str) -> None:
        shape = schema().shapes.get(want.shape) if want.name == "object" else None
        names = set()
        for field in given.fields:
            inner = LABEL if want.name == "target" else want.inner or ANY
            if shape is not None:
                spec = shape.attributes.get(field.name)
                if spec is None:
                    hint = closest(field.name, shape.attributes) or _choices(shape.attributes)
                    self.found.error(field.position, "unknown-attribute", f"{title} has no field {field.name}{hint}")
                    continue
                inner = spec.kind
            if field.name in names and want.name != "any":
                self.found.error(field.position, "repeated", f"the field {field.name} stands in {title} twice")
            names.add(field.name)
            self._value(field.value, inner, scope, f"{field.name} in {title}")
        for spec in shape.attributes.values() if shape else ():
            if spec.required and spec.name not in names:
                self.found.error(given.position, "missing-attribute", f"{title} needs the field {spec.name}")

    def _operators(self, expression: Expression, scope: Scope) -> None:
        """Operators between kinds that can't be joined, wherever they stand in an expression."""
        match expression:
            case Unary():
                want = "bool" if expression.operator == "!" else "number"
                have = infer(expression.operand, scope)
                if have.name not in {want, "any"}:
                    message = f"{expression.operator} needs a {want}; {written(expression.operand)} is {have}"
                    self.found.error(expression.position, "wrong-kind", message)
            case Binary():
                self._joined(expression, scope)
            case _:
                pass
        for child in children(expression):
            self._operators(child, scope)

    def _joined(self, expression: Binary, scope: Scope) -> None:
        operator = expression.operator
        left, right = infer(expression.left, scope), infer(expression.right, scope)
        if "any" in {left.name, right.name} or operator in {"==", "!="}:
            return
        if operator in _MATH:
            for side, have in ((expression.left, left), (expression.right, right)):
                if have.name != _MATH[operator]:
                    message = f"{operator} needs {_MATH[operator]}s; {written(side)} is {have}"
                    self.found.error(expression.position, "wrong-kind", message)
                    return
            divisor = expression.right
            if operator in {"/", "%"} and isinstance(divisor, Literal) and divisor.value == 0:
                self.found.error(divisor.position, "bad-value", "this divides by zero")
        elif not (left.name == right.name == "number" or (_texty(left) and _texty(right))):
            message = (
                f"{operator} needs two numbers or two strings; {written(expression.left)} is {left} "
                f"and {written(expression.right)} is {right}"
            )
            self.found.error(expression.position, "wrong-kind", message)


def _texty(kind_: Kind) -> bool:
    return kind_.name in {"string", "secret", "optional_secret"}


def _core(kind_: Kind) -> str:
    while kind_.inner is not None:
        kind_ = kind_.inner
    return kind_.name


def _receivers(kind_: Kind) -> bool:
    return _core(kind_) in CAPSULES


def _choices(names: Iterable[str]) -> str:
    """What may stand there, when that is short enough to read."""
    listed = sorted(names)
    if not listed:
        return "; it takes none"
    return f"; it takes {', '.join(listed)}" if len(listed) <= 12 else ""
