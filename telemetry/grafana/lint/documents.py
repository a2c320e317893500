"""Files as documents whose every value knows its line: JSON, YAML with several documents, and what lies inside both.

A path is the keys and indexes from the top of a document to a value. JSON has a reader of its own, since Python's
forgets positions and YAML's takes five times as long and refuses tabs.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator, Mapping
from json import JSONDecodeError, JSONDecoder
from typing import Any, Final

import msgspec
import yaml

from telemetry.grafana.lint.findings import Finding, Level

Step = str | int
Path = tuple[Step, ...]

MOST_VALUES: Final = 500_000
"""Values in one document beyond which it isn't read: YAML aliases make few lines into many."""

_STRINGS: Final = JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]*")
_SCALAR = re.compile(r"true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_WORDS: Final[dict[str, bool | None]] = {"true": True, "false": False, "null": None}


class Unreadable(Exception):
    """A file that is not what its name says: the line, and a sentence."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line
        self.message = message


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A value read from a file, and the line of each value in it, by path.

    ``inside`` says where it lay when it is text in another document: a key of a ConfigMap. ``twice`` are paths of
    keys that stand twice in one mapping, ``blocks`` those of texts that stand line by line, as after ``|``.
    """

    file: str
    data: Any
    lines: Mapping[Path, int]
    twice: tuple[Path, ...] = ()
    blocks: frozenset[Path] = frozenset()
    inside: str = ""

    def line(self, path: Path) -> int:
        """The line of the value at ``path``, or of the nearest one around it that is known."""
        for length in range(len(path), -1, -1):
            found = self.lines.get(path[:length])
            if found is not None:
                return found
        return 1

    def at(self, path: Path) -> Any:
        """The value at ``path``; None where there is none."""
        value = self.data
        for step in path:
            if isinstance(value, dict):
                value = value.get(step)
            elif isinstance(value, list) and isinstance(step, int) and -len(value) <= step < len(value):
                value = value[step]
            else:
                return None
        return value


class Place(msgspec.Struct, frozen=True):
    """Somewhere in a document, with the name that readers know it by."""

    document: Document
    path: Path = ()
    where: str = ""

    def __truediv__(self, step: Step) -> Place:
        return Place(self.document, (*self.path, step), self.where)

    def named(self, where: str) -> Place:
        """The same place under another name."""
        return Place(self.document, self.path, where)

    @property
    def value(self) -> Any:
        """The value there; None where there is none."""
        return self.document.at(self.path)

    def found(self, rule: str, message: str, level: Level | None = None) -> Finding:
        """A finding here, at the level of its rule unless another is given."""
        from telemetry.grafana.lint.rulebook import RULES

        where = ", ".join(part for part in (self.document.inside, self.where) if part)
        line = self.document.line(self.path)
        return Finding(self.document.file, line, rule, level or RULES[rule].level, where, message)


def read(file: str, text: str) -> list[Document]:
    """The documents in a JSON file (named ``.json``) or a YAML file; ``Unreadable`` when it is neither."""
    return [read_json(file, text)] if file.endswith(".json") else read_yaml(file, text)


def read_json(file: str, text: str) -> Document:
    """The document in a JSON text."""
    reader = _Json(text.removeprefix("\ufeff"))
    try:
        data = reader.whole()
    except JSONDecodeError as error:
        raise Unreadable(error.lineno, f"This is not JSON: {error.msg} (column {error.colno}).") from error
    except RecursionError as error:
        raise Unreadable(1, "This JSON is nested too deeply to be read.") from error
    return Document(file=file, data=data, lines=reader.lines, twice=tuple(reader.twice))


class _Json:
    """A reader of JSON that keeps the line of every value."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines: dict[Path, int] = {}
        self.twice: list[Path] = []
        self._breaks = [match.start() for match in re.finditer("\n", text)]

    def whole(self) -> Any:
        value, end = self._value(self._skip(0), ())
        if self._skip(end) != len(self.text):
            raise JSONDecodeError("something follows the value", self.text, self._skip(end))
        return value

    def _skip(self, at: int) -> int:
        match = _SPACE.match(self.text, at)
        return match.end() if match else at

    def _value(self, at: int, path: Path) -> tuple[Any, int]:
        self.lines[path] = bisect.bisect_left(self._breaks, at) + 1
        if len(self.lines) > MOST_VALUES:
            raise JSONDecodeError(f"more than {MOST_VALUES} values", self.text, at)
        sign = self.text[at : at + 1]
        if sign == '"':
            return _STRINGS.raw_decode(self.text, at)
        if sign == "{":
            return self._object(at + 1, path)
        if sign == "[":
            return self._array(at + 1, path)
        match = _SCALAR.match(self.text, at)
        if match is None:
            raise JSONDecodeError("a value was expected", self.text, at)
        word = match[0]
        if word in _WORDS:
            return _WORDS[word], match.end()
        return (int(word) if word.lstrip("-").isdigit() else float(word)), match.end()

    def _object(self, at: int, path: Path) -> tuple[dict[str, Any], int]:
        found: dict[str, Any] = {}
        at = self._skip(at)
        if self.text[at : at + 1] == "}":
            return found, at + 1
        while True:
            if self.text[at : at + 1] != '"':
                raise JSONDecodeError("a key in double quotes was expected", self.text, at)
            key, end = _STRINGS.raw_decode(self.text, at)
            end = self._skip(end)
            if self.text[end : end + 1] != ":":
                raise JSONDecodeError("':' was expected after the key", self.text, end)
            within = (*path, key)
            if key in found:
                self.twice.append(within)
            found[key], end = self._value(self._skip(end + 1), within)
            end = self._skip(end)
            sign = self.text[end : end + 1]
            if sign == "}":
                return found, end + 1
            if sign != ",":
                raise JSONDecodeError("',' or '}' was expected", self.text, end)
            at = self._skip(end + 1)

    def _array(self, at: int, path: Path) -> tuple[list[Any], int]:
        found: list[Any] = []
        at = self._skip(at)
        if self.text[at : at + 1] == "]":
            return found, at + 1
        while True:
            value, end = self._value(at, (*path, len(found)))
            found.append(value)
            end = self._skip(end)
            sign = self.text[end : end + 1]
            if sign == "]":
                return found, end + 1
            if sign != ",":
                raise JSONDecodeError("',' or ']' was expected", self.text, end)
            at = self._skip(end + 1)


def read_yaml(file: str, text: str) -> list[Document]:
    """The documents in a YAML text; empty ones are left out."""
    return list(_yaml_documents(file, text))


def _yaml_documents(file: str, text: str) -> Iterator[Document]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            if node is None:
                return
            reader = _Yaml()
            reader.walk(node, (), ())
            data = loader.construct_document(node)
            if data is not None:
                yield Document(
                    file=file,
                    data=data,
                    lines=reader.lines,
                    twice=tuple(reader.twice),
                    blocks=frozenset(reader.blocks),
                )
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark is not None else 1
        problem = getattr(error, "problem", None) or str(error)
        if re.search(r"^\s*\{\{-?\s", text, re.MULTILINE) or re.search(r":\s*\{\{", text):
            problem += ". A Helm template? Lint what `helm template` makes of it"
        raise Unreadable(line, f"This is not YAML: {problem}.") from error
    except RecursionError as error:
        raise Unreadable(1, "This YAML is nested too deeply to be read.") from error
    except ValueError as error:  # a date such as 2024-13-01
        raise Unreadable(1, f"A value can't be read: {error}.") from error
    finally:
        loader.dispose()


class _Yaml:
    """Lines of the nodes of a document."""

    def __init__(self) -> None:
        self.lines: dict[Path, int] = {}
        self.twice: list[Path] = []
        self.blocks: list[Path] = []

    def walk(self, node: yaml.Node, path: Path, around: tuple[int, ...]) -> None:
        """Note the line of ``node`` and of all below it; ``around`` are the nodes that it lies in."""
        # A key's own line is what people look for; its value may begin on the next one.
        self.lines.setdefault(path, node.start_mark.line + 1)
        if len(self.lines) > MOST_VALUES:
            raise yaml.YAMLError(f"more than {MOST_VALUES} values; are aliases nested?")
        if id(node) in around:
            raise yaml.YAMLError("an alias lies inside what it stands for")
        if isinstance(node, yaml.ScalarNode) and node.style == "|":
            self.blocks.append(path)
        elif isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self.walk(item, (*path, index), (*around, id(node)))
        elif isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                within = (*path, key.value)
                if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                    if within in self.lines:
                        self.twice.append(within)
                    self.lines[within] = key.start_mark.line + 1
                    self.walk(value, within, (*around, id(node)))


def embedded(place: Place, name: str, inside: str) -> list[Document]:
    """The documents in the text at ``place``; ``name`` ends in ``.json`` or in what YAML ends in.

    Lines are those of the file around it; of a text that doesn't stand there line by line, the line where it begins.
    """
    text = place.value
    own = place.document.line(place.path)
    block = place.path in place.document.blocks
    try:
        found = read(name, text)
    except Unreadable as error:
        raise Unreadable(own + error.line if block else own, f"{inside}: {error.message}") from error
    return [
        Document(
            file=place.document.file,
            data=document.data,
            lines={path: own + line if block else own for path, line in document.lines.items()},
            twice=document.twice,
            inside=inside,
        )
        for document in found
    ]
