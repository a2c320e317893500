"""Stack traces as the three engines write them -> frames.

====== =======================================================================================
V8     ``    at Form.save (https://c.example/a.js:10:5)``, ``at async f (…)``, ``at new F (…)``,
       ``at https://c.example/a.js:10:5``, ``at Array.map (<anonymous>)``,
       ``at eval (eval at f (https://c.example/a.js:3:4), <anonymous>:1:1)``
Gecko  ``save@https://c.example/a.js:10:5``, ``async*f@…``, ``setTimeout handler*f@…``, ``f/<@…``,
       ``f@https://c.example/a.js line 26 > eval:1:1``
JSC    ``save@https://c.example/a.js:10:5``, ``map@[native code]``, ``global code@…``,
       ``https://c.example/a.js:10:5``
====== =======================================================================================

Each line is read for itself, since reporters put a header before frames that have none, and every line that
is no frame is skipped. A line is looked through a fixed number of times: hostile text costs what it weighs.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec


class Frame(msgspec.Struct, frozen=True, gc=False):
    """One call. ``line`` and ``column`` count from 1, 0 when the engine gives none.

    ``function`` is the name as the engine spells it, without marks such as ``async`` and ``new``. ``file`` is
    the address of the script; for evaluated code, of the script that called ``eval``; empty when nobody says.
    ``native`` frames lie in the engine. ``resumed`` ones are no callers of the frames before them: those ran
    later, after an ``await``, a promise or a timer.
    """

    function: str
    file: str
    line: int = 0
    column: int = 0
    native: bool = False
    evaluated: bool = False
    resumed: bool = False

    @property
    def name(self) -> str:
        """The innermost name alone, spelled alike for all engines; empty for anonymous functions and top levels.

        ``Object.save``, ``Form.prototype.save`` and ``exports/save`` are ``save``; ``save/<`` is a function
        inside ``save`` that has no name.
        """
        name = self.function
        if name in _UNNAMED:
            return ""
        if "/" in name:
            name = name[name.rfind("/") + 1 :]
        if name.endswith(("<", ">")):
            return ""
        return name[name.rfind(".") + 1 :]


_UNNAMED = frozenset({"", "anonymous", "<anonymous>", "global code", "module code", "eval code", "eval", "?"})
_NATIVE = frozenset({"[native code]", "[wasm code]", "<anonymous>", "native", "unknown location"})
_MARKS = ("async ", "new ", "get ", "set ", "static ")
_LONGEST_NUMBER = 9


def frames(stack: str) -> Iterator[Frame]:
    """The frames of ``stack``, innermost first, read as they are asked for."""
    for line in lines(stack):
        found = frame(line)
        if found is not None:
            yield found


def lines(stack: str) -> Iterator[str]:
    """The lines of ``stack``, one after the other: mostly the first few are enough."""
    start = 0
    while start < len(stack):
        end = stack.find("\n", start)
        if end < 0:
            end = len(stack)
        yield stack[start:end]
        start = end + 1


def frame(line: str) -> Frame | None:
    """The frame that a line describes; None for a header and for whatever else a stack may hold."""
    text = line.strip()
    return _v8(text[3:]) if text.startswith("at ") else _gecko(text)


def _v8(text: str) -> Frame | None:
    """What stands behind ``at ``: ``function (location)``, or a location alone."""
    resumed = text.startswith("async ")
    function, location = "", text
    if text.endswith(")"):
        opening = text.find(" (")
        if opening < 0:
            return None
        function, location = text[:opening], text[opening + 2 : -1]
        if " " in function:
            function = _unmarked(function)
    elif resumed:
        location = text[6:]
    if location in _NATIVE or location.startswith("index "):  # Promise.all (index 0)
        return Frame(function, "", native=True, resumed=resumed)
    evaluated = location.startswith("eval at ")
    if evaluated:  # eval at f (eval at g (https://…:3:4), <anonymous>:1:1), <anonymous>:1:1
        location = location[location.rfind(" (") + 2 :]
        location = location[: location.find(")")]
    file, line, column = _position(location)
    if not line:
        return None
    if file == "<anonymous>":  # code that an inspector or a worker made of text
        file, evaluated = "", True
    return Frame(function, file, line, column, evaluated=evaluated, resumed=resumed)


def _unmarked(function: str) -> str:
    for mark in _MARKS:
        function = function.removeprefix(mark)
    alias = function.find(" [as ")
    return function if alias < 0 else function[:alias]


def _gecko(text: str) -> Frame | None:
    """Lines of Gecko and of JavaScriptCore: ``function@location``, or a location alone."""
    scheme = text.find("://")
    # Addresses hold this sign too: https://cdn.example/react@19.0.0/react.js
    at = text.find("@") if scheme < 0 else text.rfind("@", 0, scheme)
    if at < 0:
        if scheme <= 0 or " " in text[:scheme]:
            return Frame("", "", native=True) if text in _NATIVE and text[0] == "[" else None
        function, location = "", text
    else:
        function, location = text[:at], text[at + 1 :]
    star = function.find("*")
    resumed = star >= 0
    if resumed:
        function = function[star + 1 :]
    if " " in function:
        function = _unmarked(function)
    if location in _NATIVE:
        return Frame(function, "", native=True, resumed=resumed)
    if not location:
        # JavaScriptCore knows no place in evaluated code. A header that ends so is a sentence.
        known = function in _UNNAMED or (" " not in function and ":" not in function)
        return Frame(function, "", evaluated=True, resumed=resumed) if known else None
    file, line, column = _position(location)
    if not line:
        return None
    evaluated = file.endswith(("> eval", "> Function"))
    if evaluated and (outer := file.find(" line ")) >= 0:  # https://… line 26 > eval line 2 > eval:1:30
        line, column = _number(file[outer + 6 : file.find(" >", outer)]), 0
        file = file[:outer]
    return Frame(function, file, line, column, native=file == "self-hosted", evaluated=evaluated, resumed=resumed)


def _position(location: str) -> tuple[str, int, int]:
    """File, line and column; the line is 0 when there is none."""
    head, _, last = location.rpartition(":")
    if not last or not last.isascii():
        return location, 0, 0
    if last.startswith("0x") and "wasm" in location:  # …/a.wasm:wasm-function[12]:0x34
        return head.partition(":wasm-function")[0], 1, 0
    final = _number(last)
    if not final:
        return location, 0, 0
    file, _, before = head.rpartition(":")
    line = _number(before) if before and before.isascii() else 0
    return (file, line, final) if line else (head, final, 0)


def _number(digits: str) -> int:
    """0 for what is no number that a position can be."""
    return int(digits) if digits.isdecimal() and len(digits) <= _LONGEST_NUMBER and digits.isascii() else 0
