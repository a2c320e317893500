"""Text into tokens.

A newline ends a statement only after a token that can end one (a name, a literal, a closing bracket), as in
Go; the lexer puts an ``end`` token there, so that the parser never looks at whitespace.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

from telemetry.alloy.syntax.nodes import Comment, Position, SyntaxFault


class Token(NamedTuple):
    """``kind`` is name, keyword, string, raw, number, float, an operator, ``end`` (of a statement) or ``eof``."""

    kind: str
    text: str
    line: int
    column: int


_TOKEN = re.compile(
    r"""
      (?P<space>[ \t\r]+)
    | (?P<newline>\n)
    | (?P<comment>//[^\n]*)
    | (?P<block>/\*(?s:.*?)\*/)
    | (?P<openblock>/\*)
    | (?P<name>[^\W\d]\w*)
    | (?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]*)?)
    | (?P<string>"(?:[^"\\\n]|\\[^\n])*+")
    | (?P<raw>`[^`]*`)
    | (?P<operator>==|!=|<=|>=|\|\||&&|[-+*/%^!=<>{}()\[\],.])
    """,
    re.VERBOSE,
)

_ESCAPE = re.compile(r"\\(?:([abfnrtv\\\"])|([0-7]{3})|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.?))")
_SIMPLE = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\", '"': '"'}
_KEYWORDS = frozenset({"true", "false", "null"})
_CLOSES = frozenset({"name", "keyword", "string", "raw", "number", "float", "}", ")", "]"})
_HINTS = {
    "'": "strings stand in double quotes here",
    "#": "comments begin with // here",
    ";": "a statement ends with its line here",
    ":": "values are given with = here",
    "|": "or is written || here",
    "&": "and is written && here",
    "\x00": "a file of text holds no NUL",
    "\ufeff": "a byte order mark may only stand first in a file",
}


class Lexer:
    """Reads one text once; ``comments`` and ``faults`` fill while the tokens are drawn."""

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self.comments: list[Comment] = []
        self.faults: list[SyntaxFault] = []
        self._line = 1
        self._line_start = 0

    def tokens(self) -> Iterator[Token]:
        """Every token, then ``eof`` once."""
        text, at = self.text, 1 if self.text.startswith("\ufeff") else 0
        may_end = False
        while at < len(text):
            match = _TOKEN.match(text, at)
            kind = (match.lastgroup or "") if match else ""
            written = match.group() if match else ""
            token = Token(kind, written, self._line, at - self._line_start + 1)
            if match is None:
                at = self._illegal(at, token)
                continue
            at = match.end()
            if kind in {"space", "newline", "comment", "block"}:
                crosses = self._blank(kind, token, match.start())
                if crosses and may_end:
                    may_end = False
                    yield Token("end", "\n", token.line, token.column)
                continue
            if kind == "openblock":
                self._fault(token, "this comment is never closed; end it with */")
                at = len(text)
                continue
            if written in _KEYWORDS:
                token = token._replace(kind="keyword")
            elif kind == "name" and not written.isascii():
                token, at = self._foreign_name(token, match.start())
                if not token.text:
                    continue
            elif kind == "number":
                token = self._number(token)
            elif kind == "operator":
                token = token._replace(kind=written)
            may_end = token.kind in _CLOSES
            yield token
        column = at - self._line_start + 1
        if may_end:
            yield Token("end", "", self._line, column)
        yield Token("eof", "", self._line, column)

    def _blank(self, kind: str, token: Token, at: int) -> bool:
        """Keep comments and count lines; whether a line ends here."""
        if kind in {"comment", "block"}:
            inner = token.text[2:] if kind == "comment" else token.text[2:-2]
            self.comments.append(Comment(self._at(token), inner.strip()))
        newlines = token.text.count("\n")
        if newlines:
            self._line += newlines
            self._line_start = at + token.text.rindex("\n") + 1
        return newlines > 0

    def _number(self, token: Token) -> Token:
        text = token.text
        if text[-1] in "eE+-":
            self._fault(token, f"the exponent of {text} has no digits; write them or leave the e out")
        whole = text.isdigit()
        if whole and len(text) > 1 and text[0] == "0" and not set(text) <= set("01234567"):
            self._fault(token, f"{text} reads as octal because of its leading 0 and has a digit above 7; drop the 0")
        return token._replace(kind="number" if whole else "float")

    def _foreign_name(self, token: Token, at: int) -> tuple[Token, int]:
        """A name may hold letters and digits of any script; other characters that Python counts as word end it."""
        for index, character in enumerate(token.text):
            category = unicodedata.category(character)
            letter = character == "_" or category.startswith("L")
            if letter or (index and category == "Nd"):
                continue
            if index:
                return token._replace(text=token.text[:index]), at + index
            return token._replace(text=""), self._illegal(at, token)
        return token, at + len(token.text)

    def _illegal(self, at: int, token: Token) -> int:
        """Say what is wrong with the text at ``at``; where to go on."""
        character = self.text[at]
        stop = self.text.find("\n", at)
        stop = len(self.text) if stop < 0 else stop
        if character == '"':
            self._fault(token, 'this string has no closing " on its line; close it, or use backticks for several lines')
            return stop
        if character == "`":
            self._fault(token, "this raw string is never closed; end it with a backtick")
            return len(self.text)
        shown = character if character.isprintable() else f"U+{ord(character):04X}"
        hint = _HINTS.get(character, "remove it, or put it into a string")
        self._fault(token, f"the character {shown} has no meaning in Alloy; {hint}")
        if character == "'":
            closing = self.text.find("'", at + 1, stop)
            return closing + 1 if closing >= 0 else stop
        if character == "#":
            return stop
        return at + 1

    def _fault(self, token: Token, message: str) -> None:
        self.faults.append(SyntaxFault(self._at(token), message))

    def _at(self, token: Token) -> Position:
        return Position(self.file, token.line, token.column)


def unquote(text: str) -> tuple[str, str]:
    """What a quoted string means, and what is wrong with its escapes (empty when nothing is)."""
    inner = text[1:-1]
    if "\\" not in inner:
        return inner, ""
    pieces: list[bytes] = []
    wrong, last = "", 0
    for match in _ESCAPE.finditer(inner):
        pieces.append(inner[last : match.start()].encode("utf-8", "surrogatepass"))
        last = match.end()
        piece = _escaped(match)
        if piece is None:
            wrong = wrong or match.group()
        else:
            pieces.append(piece)
    pieces.append(inner[last:].encode("utf-8", "surrogatepass"))
    if wrong:
        advice = "write \\\\ for a backslash, or use backticks, where nothing is escaped"
        return b"".join(pieces).decode("utf-8", "replace"), f"{wrong} is no escape that Alloy knows; {advice}"
    return b"".join(pieces).decode("utf-8", "replace"), ""


def _escaped(match: re.Match[str]) -> bytes | None:
    """One escape as bytes (``\\x`` and octal give bytes, as in Go); None for one that means nothing."""
    simple, octal, byte, short, long, _ = match.groups()
    if simple:
        return _SIMPLE[simple].encode()
    if octal or byte:
        number = int(octal, 8) if octal else int(byte, 16)
        return bytes([number]) if number < 256 else None
    if short or long:
        number = int(short or long, 16)
        if number > 0x10FFFF or 0xD800 <= number < 0xE000:
            return None
        return chr(number).encode()
    return None
