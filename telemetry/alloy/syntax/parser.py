"""Tokens into blocks and expressions: one function for each rule of the grammar, one token of look-ahead."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from telemetry.alloy.syntax.lexer import Lexer, Token, unquote
from telemetry.alloy.syntax.nodes import (
    Access,
    Array,
    Attribute,
    Binary,
    Block,
    Call,
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
)

MAX_DEPTH = 100
"""Blocks nested deeper than this are refused, and so are expressions whose tree is deeper."""

_MAX_FAULTS = 20
_OPENS = frozenset("{[(")
_CLOSES = frozenset("}])")
_PRECEDENCE = {
    "||": 1,
    "&&": 2,
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">="), 3),
    **dict.fromkeys(("+", "-"), 4),
    **dict.fromkeys(("*", "/", "%"), 5),
}
_TOO_DEEP = f"this is nested deeper than {MAX_DEPTH} levels, or joins more parts than that; split it up"
_SAID = {"end": "the end of the line", "eof": "the end of the file", "raw": "a raw string"}
_Item = TypeVar("_Item")


class _Unreadable(Exception):
    """Parsing of a statement stops here; the fault is recorded already."""


def parse(text: str, file: str = "<text>") -> File:
    """Read ``text``; never raises. Faults are in the result, one a line and at most twenty, sorted by place."""
    lexer = Lexer(text, file)
    parser = _Parser(lexer)
    body = parser.body("eof")
    # What follows on the line of a fault is mostly its echo.
    first: dict[int, SyntaxFault] = {}
    for fault in sorted((*lexer.faults, *parser.faults), key=lambda fault: fault.position):
        first.setdefault(fault.position.line, fault)
    return File(file, body, tuple(lexer.comments), tuple(first.values())[:_MAX_FAULTS])


class _Parser:
    def __init__(self, lexer: Lexer) -> None:
        self.lexer = lexer
        self.faults: list[SyntaxFault] = []
        self._tokens = lexer.tokens()
        self._depth = 0
        self._open: list[str] = []
        self._unclosed = False
        self.token = next(self._tokens)

    # --- moving -------------------------------------------------------------------------------------------

    def take(self) -> Token:
        taken = self.token
        if taken.kind != "eof":
            if taken.kind in _OPENS:
                self._open.append(taken.kind)
            elif taken.kind in _CLOSES and self._open:
                self._open.pop()
            self.token = next(self._tokens)
        return taken

    def at(self, token: Token | None = None) -> Position:
        token = token or self.token
        return Position(self.lexer.file, token.line, token.column)

    def fail(self, message: str, token: Token | None = None) -> _Unreadable:
        self.faults.append(SyntaxFault(self.at(token), message))
        return _Unreadable()

    def seen(self) -> str:
        return _SAID.get(self.token.kind) or self.token.text

    def expect(self, kind: str, message: str) -> Token:
        """Take a token of ``kind``; ``message`` says SEEN where the token found instead is to be named."""
        if self.token.kind != kind:
            raise self.fail(message.replace("SEEN", self.seen()))
        return self.take()

    def deeper(self, rule: Callable[[], _Item]) -> _Item:
        if self._depth >= MAX_DEPTH:
            raise self.fail(_TOO_DEEP)
        self._depth += 1
        try:
            return rule()
        finally:
            self._depth -= 1

    def link(self, links: int) -> int:
        """One more part of a chain such as ``a.b.c`` or ``a + b + c``, each of which deepens the tree."""
        if links > MAX_DEPTH:
            raise self.fail(_TOO_DEEP)
        return links + 1

    # --- statements ---------------------------------------------------------------------------------------

    def body(self, until: str) -> tuple[Statement, ...]:
        """Statements up to ``until``, which stays; one that can't be read is left out."""
        statements: list[Statement] = []
        while self.token.kind not in {until, "eof"}:
            depth = len(self._open)
            try:
                statements.append(self.deeper(self.statement))
                if self.token.kind in {until, "eof"}:
                    break
                self.expect("end", "a statement ends with its line, but SEEN follows; begin a new line before it")
            except _Unreadable:
                self.skip_statement(until, depth)
        return tuple(statements)

    def skip_statement(self, until: str, depth: int) -> None:
        """Go on behind the statement that could not be read, over the brackets that it opened."""
        while self.token.kind != "eof":
            # A } closes the block around, too, where only [ and ( were left open.
            if self.token.kind == until and "{" not in self._open[depth:]:
                del self._open[depth:]
                return
            if self.take().kind == "end" and len(self._open) <= depth:
                return
        # What was looked for is the bracket that is missing; blocks that seem open are so because of it.
        self._unclosed = True

    def statement(self) -> Statement:
        if self.token.kind != "name":
            raise self.fail(f"expected the name of an attribute or a block, got {self.seen()}")
        first = self.take()
        parts = [first.text]
        while self.token.kind == ".":
            self.take()
            parts.append(self.expect("name", "expected a name after the dot, got SEEN").text)
        name = ".".join(parts)
        if self.token.kind == "=":
            if len(parts) > 1:
                raise self.fail(f"{name} can't be assigned to: an attribute has one name without dots", first)
            self.take()
            value = self.expression()
            if _deep(value):
                raise self.fail(_TOO_DEEP, first)
            return Attribute(self.at(first), name, value)
        label = self.label(name)
        if self.token.kind == "=" and label is not None:
            raise self.fail(f"the attribute {name} can't have a label; only blocks have one")
        if self.token.kind != "{":
            wanted = "{" if label is not None or len(parts) > 1 else "= and a value, or {"
            raise self.fail(f"expected {wanted} after {name}, got {self.seen()}")
        opening = self.take()
        body = self.body("}")
        if self.token.kind != "}":
            if self._unclosed:
                raise _Unreadable
            self._unclosed = True
            raise self.fail(f"the block {name} is opened here and never closed; add its }}", opening)
        end = self.at(self.take())
        return Block(self.at(first), name, label, body, end)

    def label(self, name: str) -> str | None:
        if self.token.kind == "raw":
            raise self.fail(f"the label of {name} has to stand in double quotes, not in backticks")
        if self.token.kind != "string":
            return None
        written = self.token.text[1:-1]
        if written and not _is_name(written):
            raise self.fail(
                f'the label "{written}" is no name: use letters, digits and _, no digit first, as {_named(written)}'
            )
        self.take()
        return written or None

    # --- expressions --------------------------------------------------------------------------------------

    def expression(self) -> Expression:
        return self.deeper(lambda: self.binary(1))

    def binary(self, lowest: int) -> Expression:
        left = self.power()
        links = 0
        while (precedence := _PRECEDENCE.get(self.token.kind, 0)) >= lowest:
            links = self.link(links)
            operator = self.take()
            right = self.deeper(lambda level=precedence + 1: self.binary(level))  # type: ignore[misc]  # its default
            left = Binary(self.at(operator), operator.kind, left, right)
        return left

    def power(self) -> Expression:
        """``a ^ b ^ c`` is ``a ^ (b ^ c)``."""
        left = self.unary()
        if self.token.kind != "^":
            return left
        operator = self.take()
        return Binary(self.at(operator), "^", left, self.deeper(self.power))

    def unary(self) -> Expression:
        if self.token.kind in {"!", "-"}:
            operator = self.take()
            return Unary(self.at(operator), operator.kind, self.deeper(self.unary))
        value = self.primary()
        links = 0
        while True:
            place = self.at()
            links = self.link(links)
            match self.token.kind:
                case ".":
                    self.take()
                    name = self.expect("name", "expected a name after the dot, got SEEN")
                    value = Access(self.at(name), value, name.text)
                case "[":
                    self.take()
                    key = self.expression()
                    self.expect("]", "expected ] after the index, got SEEN")
                    value = Index(place, value, key)
                case "(":
                    self.take()
                    value = Call(place, value, self.items(")", self.expression))
                case "string" | "raw" | "{":
                    raise self.fail("a block can't be a value; leave the = out if it is a block, or write an object")
                case _:
                    return value

    def primary(self) -> Expression:
        place, kind = self.at(), self.token.kind
        match kind:
            case "name":
                return Identifier(place, self.take().text)
            case "keyword":
                text = self.take().text
                if text == "null":
                    return Literal(place, "null", None, text)
                return Literal(place, "bool", text == "true", text)
            case "string" | "raw":
                return self.string(place)
            case "number" | "float":
                text = self.take().text
                return Literal(place, "number", _number(text), text)
            case "(":
                self.take()
                inner = self.expression()
                self.expect(")", "expected ) here, got SEEN")
                return Group(place, inner)
            case "[":
                self.take()
                return Array(place, self.items("]", self.expression))
            case "{":
                self.take()
                return Object(place, self.items("}", self.field))
            case _:
                raise self.fail(f"expected a value, got {self.seen()}")

    def string(self, place: Position) -> Literal:
        token = self.take()
        if token.kind == "raw":
            return Literal(place, "string", token.text[1:-1].replace("\r", ""), token.text)
        value, wrong = unquote(token.text)
        if wrong:
            self.faults.append(SyntaxFault(place, wrong))
        return Literal(place, "string", value, token.text)

    def items(self, closing: str, rule: Callable[[], _Item]) -> tuple[_Item, ...]:
        """Items with commas between them, up to and with ``closing``; a comma may stand after the last."""
        found: list[_Item] = []
        while self.token.kind != closing:
            found.append(rule())
            if self.token.kind == closing:
                break
            if self.token.kind == "end":
                raise self.fail("a list that goes on in the next line needs a comma at the end of this one")
            self.expect(",", f"expected , or {closing} here, got SEEN")
        self.take()
        return tuple(found)

    def field(self) -> Field:
        place = self.at()
        if self.token.kind == "name":
            name = self.take().text
        elif self.token.kind in {"string", "raw"}:
            name = str(self.string(place).value)
        else:
            raise self.fail(f"expected the name of a field, got {self.seen()}")
        self.expect("=", f"expected = after the field {name}, got SEEN")
        return Field(place, name, self.expression())


def _deep(expression: Expression) -> bool:
    """Whether the tree is deeper than what readers of it, which recurse, are promised."""
    level: list[Expression] = [expression]
    for _ in range(MAX_DEPTH):
        level = [child for parent in level for child in children(parent)]
        if not level:
            return False
    return True


def _number(text: str) -> int | float:
    if text.isdigit():
        octal = len(text) > 1 and text[0] == "0" and set(text) <= set("01234567")
        # Python refuses to read an integer of thousands of digits; as a float it is simply infinite.
        return int(text, 8) if octal else int(text) if len(text) < 400 else float(text)
    return float(text.rstrip("eE+-"))


def _is_name(text: str) -> bool:
    lexer = Lexer(text, "")
    tokens = list(lexer.tokens())
    return [token.kind for token in tokens] == ["name", "end", "eof"] and tokens[0].text == text and not lexer.faults


def _named(text: str) -> str:
    """The nearest label that would be taken."""
    kept = "".join(character if character.isalnum() or character == "_" else "_" for character in text)
    return kept if kept and _is_name(kept) else f"_{kept}"
