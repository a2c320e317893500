"""The principal, and what finds one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec


class Principal(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """An authenticated caller. ``email`` and ``workspace`` go into log lines, never into labels.

    ``workspaces`` are those that the caller may name with the workspace header; None means its own only.
    ``ambient`` says whether browsers attach the credential by themselves (a cookie, a proxy's session, a client
    certificate), so that a page of another site could send it: such requests need an origin that is allowed.
    None leaves it to the request: ambient unless it bears a token in ``Authorization``, which no browser adds.
    """

    email: str
    workspace: str = ""
    roles: tuple[str, ...] = ()
    workspaces: tuple[str, ...] | None = None
    ambient: bool | None = None

    def __post_init__(self) -> None:
        # A host's resolver may hand over whatever its user table holds; said here rather than while a line is made.
        given: tuple[object, ...] = (self.email, self.workspace)
        if not all(isinstance(value, str) for value in given):
            raise TypeError("email and workspace of a principal are text")


class Resolver(Protocol):
    """Finds the principal of one request.

    Called with the ASGI scope alone, so that it can't touch the body; returns None for a caller that presents
    nothing or nothing valid. It may wait (keys to fetch, a session to look up), must not block the event loop,
    and may raise ``Denied`` or ``Unavailable``. Whatever else it raises counts as ``Unavailable`` and is logged.
    """

    async def __call__(self, scope: Mapping[str, Any], /) -> Principal | None:
        """The principal, or None."""
        ...


class Denied(Exception):
    """Credentials that are wrong or contradict one another: nobody else is asked, the answer is 401."""


class Unavailable(Exception):
    """Who is speaking can't be found out now, through no fault of the caller: the answer is 503."""
