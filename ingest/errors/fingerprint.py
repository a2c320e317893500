"""``fp``: which errors are the same one, whoever met them, in whichever browser, in whichever build.

Made of the kind, the message without what varies (numbers, ids, quoted parts), and the innermost frames
without positions: names of functions and files, without content hashes. Engines word the same fault
differently; such errors stay apart. Two errors of one fault from two engines that say the same are one.
"""

from __future__ import annotations

import re
import sys
from functools import lru_cache
from hashlib import blake2b
from typing import Final

from ingest.errors.stacks import Frame, frame, lines
from ingest.errors.urls import bare_text

TOP_FRAMES: Final = 3
OTHER: Final = "other"
"""The ``fp`` of lines whose own was one too many: see the cap on new fingerprints."""

_MESSAGE_READ = 2048  # characters that are looked at
_MESSAGE_KEPT = 256  # characters of the outcome that count
_FILE_READ = 512
_MINIFIED = 3  # names up to this long change from build to build
_LINES_READ = 100
_LINE_REMEMBERED = 512
_LONGEST_REMEMBERED = 4096
_MANY = 512  # remembered outcomes: errors repeat, and most of a fingerprint's price is folding text

_PREFIX = re.compile(r"(?:Uncaught )?(?:\(in promise\):? )?(?:Error: Uncaught )?(?:\(in promise\):? )?")
# A quoted part ends at the next mark of its kind, at the line's end at the latest: no quantifier here can take
# the same text twice. Words are entered at their start only (the lookbehinds) and never given back.
# Each alternative begins with a character of its own, and what must not stand before it is looked at behind that:
# most places of a text then cost a comparison or two, and the whole less than half. Empty groups say which it was.
# React and Angular say in production what happened by a number alone, which is kept.
_FOLD = re.compile(
    r"[RN](?:(?<=R)eact error #[0-9]{1,4}|(?<=N)G(?<![A-Za-z0-9_]NG)-?0[0-9]{2,6}(?![A-Za-z0-9_]))(?P<code>)"
    r'|"[^"\n]*+"?'
    r"|'(?<![A-Za-z0-9_]')[^'\n]*+'(?![A-Za-z0-9_])"
    r"|`[^`\n]*+`?"
    r"|“[^“”\n]*+”|‘[^‘’\n]*+’|«[^«»\n]*+»|「[^「」\n]*+」"
    r"|[hbfw](?<![A-Za-z].)(?:(?<=h)ttps?|(?<=b)lob|(?<=f)ile|(?<=w)ebpack(?:-internal)?)://?[^\s\"'<>`)\]]*+(?P<url>)"
    r"|[0-9A-Za-z_+-](?<![A-Za-z0-9_].)(?:"
    r"(?<=[0-9a-fA-F])(?:[0-9a-fA-F]{7}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[0-9a-fA-F]{7,}+(?![A-Za-z0-9_]))"
    r"|(?:(?<=[0-9])|[A-Za-z_]*+[0-9])[A-Za-z0-9_]*+(?:[.,:/-][A-Za-z_]*+[0-9][A-Za-z0-9_]*+)*+"
    r")(?P<id>)"
)
_HEX = re.compile(r"[0-9a-fA-F]{4,64}").fullmatch
_TOKEN = re.compile(r"[0-9A-Za-z_-]{8,64}").fullmatch
_CAMEL = re.compile(r"[A-Za-z_-]+[A-Z]").match


def fingerprint(kind: str, message: str, stack: str) -> str:
    """16 hex digits. ``stack`` as any engine wrote it; without a message, the first line of the stack is it."""
    known = len(message) + len(stack) <= _LONGEST_REMEMBERED
    return (_fingerprint if known else _fingerprint.__wrapped__)(kind, message, stack)


@lru_cache(_MANY)
def _fingerprint(kind: str, message: str, stack: str) -> str:
    if not message:
        message = _header(stack)
    parts = [kind, _folded(message[:_MESSAGE_READ])]
    parts += _places(stack)
    # One string for an error, however many principals are remembered to have met it.
    return sys.intern(blake2b("\n".join(parts).encode(errors="replace"), digest_size=8).hexdigest())


def _header(stack: str) -> str:
    first = stack[:_MESSAGE_READ].partition("\n")[0]
    return first if frame(first) is None else ""


@lru_cache(_MANY)
def _folded(message: str) -> str:
    message = bare_text(message)
    message = message[_PREFIX.match(message).end() :]  # type: ignore[union-attr]  # it matches the empty string
    return " ".join(_FOLD.sub(_replacement, message).split())[:_MESSAGE_KEPT]


def _replacement(found: re.Match[str]) -> str:
    match found.lastgroup:
        case None:
            return '"*"'
        case "code":
            return found.group()
        case "url":
            return folded_file(found.group()[-_FILE_READ:])
    return "#"


def _places(stack: str) -> list[str]:
    """``name@file`` of the innermost frames that every engine shows.

    What was called asynchronously ends the list, since engines differ in how far they look back.
    """
    places: list[str] = []
    resumed: list[str] = []
    for number, line in enumerate(lines(stack)):
        if number == _LINES_READ:
            break
        found = _place(line) if len(line) <= _LINE_REMEMBERED else _place.__wrapped__(line)
        if found is None:
            continue
        place, later = found
        known = resumed if later or resumed else places
        if known is resumed and places:
            break
        if not known or known[-1] != place:  # recursion counts once
            known.append(place)
        if len(known) == TOP_FRAMES:
            break
    return places or resumed


@lru_cache(_MANY)
def _place(line: str) -> tuple[str, bool] | None:
    """``name@file`` of a line of a stack, and whether it only ran earlier.

    None for what is no frame, and for frames in the engine, in browser extensions, and without a name in
    evaluated code: not every engine shows these.
    """
    called = frame(line)
    if called is None or called.native or (not called.file.startswith(("https:", "http:")) and in_extension(called)):
        return None
    name = called.name
    if len(name) <= _MINIFIED:
        name = ""
    if called.evaluated:
        return (name + "@", called.resumed) if name else None
    return f"{name}@{folded_file(called.file[-_FILE_READ:])}", called.resumed


def in_extension(frame: Frame) -> bool:
    """True for code that the page didn't load: a browser extension's, or what Safari masks as such."""
    scheme = frame.file[:32].partition(":")[0]
    return scheme.endswith("-extension") or scheme == "webkit-masked-url"


@lru_cache(_MANY)
def folded_file(file: str) -> str:
    """The last two segments of an address, without content hashes, versions, query and fragment.

    ``https://c.example/assets/app-3f2a9c1b.js?v=2`` is ``assets/app.js``, on any host and in any build.
    """
    for mark in "?#":
        file = file.partition(mark)[0]
    scheme = file.find("://")
    if scheme >= 0:
        path = file.find("/", scheme + 3)
        file = file[path:] if path >= 0 else ""
    segments = [segment for segment in file.rsplit("/", 2)[-2:] if segment not in {"", ".", ".."}]
    return "/".join(_folded_segment(segment) for segment in segments)


def _folded_segment(segment: str) -> str:
    pieces = segment.split(".")
    kept = [kept for index, piece in enumerate(pieces) if (kept := _unhashed(piece, index))]
    if len(kept) == 1 and len(pieces) > 1 and kept[0] == pieces[-1]:
        kept.insert(0, "#")  # nothing but a hash before the file's type
    return ".".join(kept) or "#"


def _unhashed(piece: str, index: int) -> str:
    """A dotted piece of a file's name, without a hash or a number at its end; empty when it is only that."""
    if index > 0 and _is_hash(piece, inner=True):
        return ""
    while True:
        if len(piece) > 9 and piece[-9] in "-_~" and _is_hash(piece[-8:], inner=True):  # Vite's may hold the sign
            piece = piece[:-9]
            continue
        cut = max(piece.rfind("-"), piece.rfind("~"), piece.rfind("_"))
        last = piece[cut + 1 :]
        if not (last.isdecimal() or _is_hash(last, inner=cut > 0 or index > 0)):
            return piece
        piece = piece[: max(cut, 0)]
        if not piece:
            return ""


def _is_hash(text: str, *, inner: bool) -> bool:
    """What a bundler makes of a file's content: hex digits, or letters and digits of 8 or more.

    ``inner`` is text behind a name, where letters without digits are taken for a hash too when no word is
    written so (``DiwrgTda``).
    """
    if _HEX(text):
        return len(text) >= 8 or (not text.isalpha() and (inner or len(text) >= 6))
    if not inner or not _TOKEN(text):
        return False
    if any(map(str.isdigit, text)):
        return True
    return len(text) == 8 and (text.isupper() or _CAMEL(text) is not None)
