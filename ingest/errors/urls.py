"""Queries and fragments out of addresses: they carry tokens, search terms and e-mail addresses.

An address inside a message or a stack is recognised by its shape, never parsed: what a browser sends is
free text. Each function reads its input a fixed number of times, so that hostile text costs what it weighs.
"""

from __future__ import annotations

import re

# Whatever can't stand unescaped in an address ends a word. The apostrophe can (fragments hold it raw).
_WORD = re.compile(r'[^\s"<>`]+')
_PAIR = re.compile(r"[?#&][^=?#&/]{0,64}=")
_USERINFO = re.compile(r"(?<=://)[^/?#\s]*@")
# The line and the column that engines write behind an address in a stack frame, and the brackets behind them.
_POSITION = re.compile(r":\d{1,7}:\d{1,7}\)*[,;]?$")
_CLOSING = ")]},;.:'"
_LONGEST_POSITION = 24


def bare_url(url: str) -> str:
    """An address without user info, query and fragment."""
    end = _query(url)
    address = url if end < 0 else url[:end]
    return _USERINFO.sub("", address) if "@" in address else address


def bare_text(text: str) -> str:
    """A message with every address in it cut before its query or fragment."""
    if "?" not in text and "#" not in text and "@" not in text:
        return text
    return _WORD.sub(lambda word: _bare_word(word.group(), frame=False), text)


def bare_stack(stack: str) -> str:
    """A stack with every address in it cut likewise; ``:line:column`` behind an address stays."""
    if "?" not in stack and "#" not in stack and "@" not in stack:
        return stack
    return _WORD.sub(lambda word: _bare_word(word.group(), frame=True), stack)


def _bare_word(word: str, *, frame: bool) -> str:
    end = _query(word)
    if end >= 0 and _is_address(word, end):
        word = word[:end] + _rest(word[end:], frame=frame)
    return _USERINFO.sub("", word) if "@" in word else word


def _query(text: str) -> int:
    """Where the query or the fragment starts, -1 when there is none."""
    query, fragment = text.find("?"), text.find("#")
    if query < 0 or fragment < 0:
        return max(query, fragment)
    return min(query, fragment)


def _is_address(word: str, end: int) -> bool:
    """True for what has a path before its ``?`` or ``#``, or ``name=`` after it; false for ``What?`` and ``C#``."""
    if not word[end + 1 :].strip(_CLOSING):
        return False
    return "/" in word[:end] or _PAIR.search(word, end) is not None


def _rest(query: str, *, frame: bool) -> str:
    """What stands behind the address and isn't part of it."""
    if frame and (position := _POSITION.search(query[-_LONGEST_POSITION:])):
        return position.group()
    return query[len(query.rstrip(_CLOSING)) :]
