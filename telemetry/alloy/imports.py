"""Following ``import.*`` to what it brings, as far as that lies on this machine."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from telemetry.alloy.finding import Findings
from telemetry.alloy.program import Builder, Node, Scope
from telemetry.alloy.syntax import Attribute, Call, Expression, File, Group, Literal, Position, parse, start
from telemetry.alloy.values import path, written

MAX_BYTES = 4 * 1024 * 1024
"""Files larger than this are no configurations, and are refused."""

_MAX_IMPORTS = 200


class Unreadable(Exception):
    """A file or folder that can't be read; the message says which and why."""


def read(place: Path, shown: str) -> File:
    """Parse the file at ``place``; ``shown`` names it in messages. Raises ``Unreadable``."""
    try:
        if place.stat().st_size > MAX_BYTES:
            raise Unreadable(f"{shown} is larger than 4 MiB, which is no configuration")
        content = place.read_bytes()
    except OSError as error:
        raise Unreadable(f"{shown} can't be read: {error.strerror or error}") from error
    return parse_bytes(content, shown)


def parse_bytes(content: bytes, shown: str) -> File:
    """Parse the content of a file. Raises ``Unreadable`` when it is no UTF-8 text."""
    try:
        return parse(content.decode("utf-8"), shown)
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise Unreadable(f"{shown} is not UTF-8 text (line {line}); save it as UTF-8") from error


class Imports:
    """Follows the imports of one configuration; what is imported twice is read once."""

    def __init__(self, found: Findings, on_file: Callable[[File], None], at: tuple[tuple[str, str], ...] = ()) -> None:
        self.found = found
        self._at = at
        self.scopes_of: dict[tuple[Path, ...], Scope] = {}
        self._on_file = on_file
        self._trail: list[tuple[Path, ...]] = []

    def follow(self, builder: Builder, node: Node) -> Scope | None:
        """The modules that an import block brings, or None when that can't be known from here."""
        block = node.block
        if block.name == "import.string":
            return self._string(builder, node)
        if block.name != "import.file":
            self.found.notice(
                block.position, "import", f"{block.title} is not followed: what it brings is not on this machine"
            )
            return None
        filename = node.attribute("filename")
        if filename is None:
            return None
        folder = Path(block.position.file).parent
        place = self._place(filename, folder)
        if place is None:
            self.found.notice(
                start(filename.value),
                "import",
                f"{block.title} is not followed: {written(filename.value)} is only known when Alloy runs",
            )
            return None
        return self._files(builder, place, filename)

    def _place(self, filename: Attribute, folder: Path) -> Path | None:
        parts = _joined(filename.value)
        if parts is None:
            return None
        place = Path(*[str(folder) if part is None else part for part in parts])
        for there, here in self._at:
            if place.is_relative_to(there):
                return Path(here) / place.relative_to(there)
        if place.is_absolute() or None in parts:
            return place
        self.found.notice(
            start(filename.value),
            "import",
            f'Alloy looks for "{place}" where it is started, not beside this file; '
            f'file.path_join(module_path, "{place}") is found from anywhere',
        )
        beside = folder / place
        return beside if beside.exists() or not place.exists() else place

    def _files(self, builder: Builder, place: Path, filename: Attribute) -> Scope | None:
        at = start(filename.value)
        place = Path(os.path.normpath(place))
        if place.is_absolute() and not place.exists() and None not in (_joined(filename.value) or []):
            self.found.notice(
                at,
                "import",
                f"{place} is not on this machine, so that its modules are not checked; "
                f"--at {place}=FOLDER says where they lie here",
            )
            return None
        names = sorted(place.glob("*.alloy")) if place.is_dir() else [place]
        key = tuple(name.resolve() for name in names)
        if not names:
            self.found.error(at, "import", f"the folder {place} holds no .alloy file, so that this imports nothing")
            return None
        if key in self._trail:
            self.found.error(at, "import", f"{place} imports itself, directly or through others; Alloy refuses that")
            return None
        if key in self.scopes_of:
            return self.scopes_of[key]
        if len(self.scopes_of) >= _MAX_IMPORTS:
            self.found.notice(at, "import", f"more than {_MAX_IMPORTS} imports are not followed")
            return None
        files = []
        for name in names:
            try:
                files.append(read(name, str(name)))
            except Unreadable as problem:
                self.found.error(at, "import", f"{problem}; correct filename, or add the file")
                return None
        self._trail.append(key)
        try:
            return self._library(builder, tuple(files), key)
        finally:
            self._trail.pop()

    def _library(self, builder: Builder, files: tuple[File, ...], key: tuple[Path, ...]) -> Scope:
        for file in files:
            self._on_file(file)
        scope = builder.root(files, role="library")
        self.scopes_of[key] = scope
        return scope

    def _string(self, builder: Builder, node: Node) -> Scope | None:
        content = node.attribute("content")
        if content is None or not isinstance(content.value, Literal) or not isinstance(content.value.value, str):
            self.found.notice(
                node.block.position, "import", f"{node.block.title} is not followed: its text is known when Alloy runs"
            )
            return None
        literal = content.value
        file = parse(str(literal.value), node.block.position.file)
        if file.faults:
            fault = file.faults[0]
            self.found.error(
                literal.position,
                "syntax",
                f"line {fault.position.line} of the text of {node.block.title}: {fault.message}",
            )
            return None
        shifted = parse(_shift(str(literal.value), literal.position), node.block.position.file)
        return builder.root((shifted,), role="library")


def _shift(text: str, position: Position) -> str:
    """The text moved down to where it stands in its file, so that findings name the right line."""
    return "\n" * (position.line - 1) + text


def _joined(expression: Expression) -> list[str | None] | None:
    """The parts of a path, None standing for ``module_path``; None when a part is not written down."""
    match expression:
        case Literal(kind="string", value=str(value)):
            return [value]
        case Group():
            return _joined(expression.inner)
        case Call() if path(expression.function) in {("file", "path_join"), ("path_join",)}:
            path_parts: list[str | None] = []
            for item in expression.arguments:
                inner = _joined(item)
                if inner is None:
                    return None
                path_parts += inner
            return path_parts
        case Call() if path(expression.function) == ("coalesce",):
            # The first alternative that is written down; the environment may name another place.
            known = (_joined(item) for item in expression.arguments)
            return next((parts for parts in known if parts is not None), None)
        case _:
            return [None] if path(expression) == ("module_path",) else None
