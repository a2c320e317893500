"""Source maps (ECMA-426) as bytes -> where in the sources a place in a bundle comes from. Pure, bounded, ours.

A map of a big bundle holds half a million segments of which most spell one of a few hundred texts, so each text
is decoded once. What is kept of a segment takes 24 bytes.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

MAX_SEGMENTS: Final = 2_000_000
_PAUSE_EVERY = 1000
_REMEMBERED = 100_000
_SEGMENT_FIELDS = (1, 4, 5)
_LARGEST_SHIFT = 30
_DIGITS = {char: digit for digit, char in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")}


class BadMap(ValueError):
    """The file is no source map, or a larger one than anybody needs. ``str()`` says why, in a few words."""


class Origin(msgspec.Struct, frozen=True):
    """A place in the sources. ``line`` and ``column`` count from 1; ``name`` is what stands there, if known."""

    source: str
    line: int
    column: int
    name: str


class _Offset(msgspec.Struct):
    line: int
    column: int


class _Section(msgspec.Struct):
    offset: _Offset
    map: _Document


class _Document(msgspec.Struct, rename={"source_root": "sourceRoot"}):
    version: int
    mappings: str = ""
    sources: list[str | None] = []
    names: list[str] = []
    source_root: str | None = None
    sections: list[_Section] | None = None


_decoder = msgspec.json.Decoder(_Document)


class SourceMap:
    """The segments of one map; read with ``SourceMap.read``."""

    def __init__(self) -> None:
        self._sources: list[str] = []
        self._names: list[str] = []
        self._places = array("Q")  # generated line and column (from 0) in one number, ascending
        self._source = array("i")  # -1: what stands here comes from no source
        self._line = array("I")
        self._column = array("I")
        self._name = array("i")

    def __len__(self) -> int:
        return len(self._places)

    @classmethod
    def read(cls, data: bytes, pause: Callable[[], object] = lambda: None) -> SourceMap:
        """Decode a map; raises ``BadMap``. ``pause`` is called often, so that a thread can let others run."""
        if data.startswith(b")]}"):  # a guard against inclusion as a script: the first line is no JSON
            data = data.partition(b"\n")[2]
        try:
            document = _decoder.decode(data)
        except (msgspec.DecodeError, RecursionError):
            raise BadMap("not the JSON of a source map") from None
        made = cls()
        try:
            for line, column, part in _parts(document):
                made._add(part, line, column, pause)
        except (KeyError, IndexError, OverflowError):
            raise BadMap("broken mappings") from None
        return made

    def find(self, line: int, column: int) -> Origin | None:
        """What the generated ``line`` and ``column`` (from 1) come from; None when the map doesn't say."""
        if line < 1:
            return None
        place = (line - 1 << 32) + max(column - 1, 0)
        # Of segments with one place the first counts, as in the readers that browsers and bundlers use.
        at = bisect_left(self._places, place)
        if at == len(self._places) or self._places[at] != place:
            at -= 1
        if at < 0 or self._places[at] >> 32 != line - 1 or self._source[at] < 0:
            return None
        name = self._name[at]
        return Origin(
            self._sources[self._source[at]],
            self._line[at] + 1,
            self._column[at] + 1,
            self._names[name] if name >= 0 else "",
        )

    def _add(self, part: _Document, line: int, column: int, pause: Callable[[], object]) -> None:
        first_source, first_name = len(self._sources), len(self._names)
        root = part.source_root or ""
        self._sources += [_plain_path(f"{root}/{source}" if root else source or "") for source in part.sources]
        self._names += part.names
        known: dict[str, tuple[int, ...]] = {}
        source = source_line = source_column = name = count = 0
        for number, text in enumerate(_pieces(part.mappings, ";"), line):
            place = number << 32
            generated = column if number == line else 0
            for segment in _pieces(text, ","):
                fields = known.get(segment)
                if fields is None:
                    if not segment:
                        continue
                    fields = _fields(segment)
                    if len(known) < _REMEMBERED:
                        known[segment] = fields
                generated += fields[0]
                if len(fields) > 1:
                    source += fields[1]
                    source_line += fields[2]
                    source_column += fields[3]
                    if not 0 <= source < len(part.sources) or generated < 0:
                        raise BadMap("a segment of no source")
                    self._source.append(first_source + source)
                    self._line.append(source_line)
                    self._column.append(source_column)
                else:
                    self._source.append(-1)
                    self._line.append(0)
                    self._column.append(0)
                if len(fields) > 4:
                    name += fields[4]
                    if not 0 <= name < len(part.names):
                        raise BadMap("a segment of no name")
                    self._name.append(first_name + name)
                else:
                    self._name.append(-1)
                if self._places and place + generated < self._places[-1]:
                    raise BadMap("segments out of order")
                self._places.append(place + generated)
                count += 1
                if count % _PAUSE_EVERY == 0:
                    if len(self._places) > MAX_SEGMENTS:
                        raise BadMap(f"more than {MAX_SEGMENTS:,} segments")
                    pause()


def _parts(document: _Document) -> Iterator[tuple[int, int, _Document]]:
    """The maps of an index map with the line and the column (from 0) where each begins; or the map itself."""
    if document.version != 3:
        raise BadMap("not version 3")
    if document.sections is None:
        yield 0, 0, document
        return
    for section in document.sections:
        if section.map.sections is not None:
            raise BadMap("an index map within an index map")
        yield section.offset.line, section.offset.column, section.map


def _pieces(text: str, mark: str) -> Iterator[str]:
    """``text.split(mark)`` without the list: one-line bundles have half a million pieces."""
    start = 0
    while (end := text.find(mark, start)) >= 0:
        yield text[start:end]
        start = end + 1
    yield text[start:]


def _fields(segment: str) -> tuple[int, ...]:
    """The numbers of a segment, base64 VLQ (ECMA-426, 9.2)."""
    numbers: list[int] = []
    shift = value = 0
    for char in segment:
        digit = _DIGITS[char]
        value |= (digit & 31) << shift
        if digit & 32:
            shift += 5
            if shift > _LARGEST_SHIFT:
                raise BadMap("a number beyond 32 bits")
        else:
            numbers.append(-(value >> 1) if value & 1 else value >> 1)
            shift = value = 0
    if shift or len(numbers) not in _SEGMENT_FIELDS:
        raise BadMap("a segment of a wrong length")
    return tuple(numbers)


def _plain_path(source: str) -> str:
    """``webpack://console/./src/jobs.ts`` and ``../../src/jobs.ts`` as ``src/jobs.ts``."""
    scheme = source.find("://")
    if scheme >= 0:
        source = source[scheme + 3 :].partition("/")[2]
    segments = [segment for segment in source.partition("?")[0].split("/") if segment not in {"", ".", ".."}]
    return "/".join(segments)
