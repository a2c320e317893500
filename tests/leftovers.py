"""Connections that a test leaves open when its event loop closes, found at its end and not when they are freed.

Python warns of them once it frees them. That may be many tests later, the more so where a failed test's traceback
holds them, and with warnings as errors it is an innocent test that fails then.
"""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from typing import Any

_made: weakref.WeakSet[asyncio.BaseTransport] = weakref.WeakSet()


def watch() -> None:
    """Note every transport that is made from now on. A second call changes nothing."""
    before = asyncio.BaseTransport.__init__
    if getattr(before, "notes", False):
        return

    def noting(self: asyncio.BaseTransport, *arguments: Any, **named: Any) -> None:
        before(self, *arguments, **named)
        with contextlib.suppress(TypeError):  # a class of slots that takes no weak reference
            _made.add(self)

    noting.notes = True
    asyncio.BaseTransport.__init__ = noting


def take() -> list[str]:
    """What each transport says of itself that is still open though its loop is closed; they are closed now."""
    left = [each for each in list(_made) if _left_open(each)]
    told = [f"{each!r}, peer {each.get_extra_info('peername')}" for each in left]
    for each in left:
        _made.discard(each)
        _close(each)
    return told


def _left_open(transport: asyncio.BaseTransport) -> bool:
    loop = getattr(transport, "_loop", None)
    if loop is None or not loop.is_closed():
        return False
    # Closed too late for the loop to carry it out, it has its socket or pipe still.
    held = getattr(transport, "_sock", None) or getattr(transport, "_pipe", None)
    return held is not None or not transport.is_closing()


def _close(transport: Any) -> None:
    """Close it as well as that goes without its loop, so that nobody is told again when it is freed."""
    with contextlib.suppress(RuntimeError):  # the loop is closed
        transport.close()
    for name in ("_sock", "_pipe"):
        held = getattr(transport, name, None)
        if held is not None:
            held.close()
            setattr(transport, name, None)
