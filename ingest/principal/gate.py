"""Whether a request may pass, and as whom: principal, then origin, then workspace."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import Any, Final, Literal

from litestar.exceptions import HTTPException
from msgspec.structs import replace

from ingest.answers import UNAUTHORIZED, Answer, problem
from ingest.principal.caller import Denied, Principal, Resolver, Unavailable
from ingest.principal.credentials import bearer, values
from ingest.principal.origin import origin_allowed

Refusal = Literal["unauthorized", "forbidden", "forbidden_origin", "unavailable"]
"""Why a gate refuses, as counted in ``frontend_reports_total{result}``."""

WORKSPACE_HEADER: Final = "X-Workspace"

_log = logging.getLogger("ingest")

_NO_ORIGIN = problem(403, "Forbidden", "A request with a cookie or a proxy's session must come from an allowed origin.")
_NO_WORKSPACE = problem(403, "Forbidden", "The caller is not entitled to the workspace that the request names.")
_LATER = problem(
    503, "Service Unavailable", "Who is speaking can't be found out now; try again later.", [(b"retry-after", b"10")]
)


class Refused(Exception):
    """The request may not pass. ``result`` is the label value to count, ``answer`` what to send."""

    def __init__(self, result: Refusal, answer: Answer) -> None:
        super().__init__(result)
        self.result: Refusal = result
        self.answer = answer


class Gate:
    """Asks ``resolver`` who is speaking, and checks where from and for which workspace.

    ``allowed_origins`` are web origins beside the service's own, as browsers write them. ``workspace_header``
    names the header with which a caller chooses among its workspaces.
    """

    def __init__(
        self,
        resolver: Resolver,
        *,
        allowed_origins: Collection[str] = (),
        workspace_header: str = WORKSPACE_HEADER,
    ) -> None:
        self._resolver = resolver
        self._origins = frozenset(allowed_origins)
        self._workspace_header = workspace_header.lower().encode()
        self._said: set[type[Exception]] = set()

    async def admit(self, scope: Mapping[str, Any]) -> Principal:
        """The principal, speaking for the workspace that it chose. Raises ``Refused``."""
        principal = await self.identify(scope)
        if _ambient(principal, scope) and not origin_allowed(scope, self._origins):
            raise Refused("forbidden_origin", _NO_ORIGIN)
        return choose_workspace(principal, scope, self._workspace_header)

    async def identify(self, scope: Mapping[str, Any]) -> Principal:
        """The principal alone, for what a page of another site can't read anyway. Raises ``Refused``."""
        try:
            principal = await self._resolver(scope)
            if principal is not None and not isinstance(principal, Principal):
                raise TypeError(f"a resolver returned {type(principal).__name__}, not a Principal")
        except Denied:
            principal = None
        except HTTPException as error:
            # A host's own guards say it in this way.
            if error.status_code not in {401, 403}:
                self._say(error)
                raise Refused("unavailable", _LATER) from error
            principal = None
        except Exception as error:
            self._say(error)
            raise Refused("unavailable", _LATER) from error
        if principal is None:
            raise Refused("unauthorized", UNAUTHORIZED)
        return principal

    def _say(self, error: Exception) -> None:
        """Log the first of each type; the rest is counted by whoever answers."""
        if type(error) in self._said:
            return
        self._said.add(type(error))
        wrong = None if isinstance(error, Unavailable) else error
        _log.error("who sent a request can't be found out, answering 503: %s", error, exc_info=wrong)


def choose_workspace(principal: Principal, scope: Mapping[str, Any], header: bytes) -> Principal:
    """The principal with the workspace that ``header`` (in lower case) names, itself without one.

    Raises ``Refused`` for a workspace that it isn't entitled to, and for a header that is there twice.
    """
    named = values(scope, header)
    if not named or named == [b""]:
        return principal
    if len(named) == 1 and (workspace := _text(named[0])) is not None:
        if workspace == principal.workspace:
            return principal
        if principal.workspaces is not None and workspace in principal.workspaces:
            return replace(principal, workspace=workspace)
    raise Refused("forbidden", _NO_WORKSPACE)


def _text(value: bytes) -> str | None:
    try:
        return value.decode().strip()
    except UnicodeDecodeError:
        return None


def _ambient(principal: Principal, scope: Mapping[str, Any]) -> bool:
    return bearer(scope) is None if principal.ambient is None else principal.ambient
