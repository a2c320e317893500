"""Fields that every record of a job, a request or a block carries.

They live in a context variable, so that they follow ``await``, tasks and ``asyncio.to_thread`` and end with
their block: nothing leaks into the next job. A plain thread pool starts with an empty context; ``carry``
takes ours along.
"""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_EMPTY: Mapping[str, object] = {}
_bound: contextvars.ContextVar[Mapping[str, object]] = contextvars.ContextVar("fleetglass_bound", default=_EMPTY)

current = _bound.get
"""The fields bound here, outermost first."""


class bind:  # noqa: N801 - reads as a statement: with bind(job_id=…)
    """Add ``fields`` to every log record made inside the block, also in what it awaits.

    A context manager for ``with`` (in coroutines too), and a decorator for functions and coroutine
    functions. An inner ``bind`` of the same name wins; ``extra=`` of a record wins over both.
    """

    def __init__(self, **fields: object) -> None:
        self._fields = fields
        self._tokens: list[contextvars.Token[Mapping[str, object]]] = []

    def __enter__(self) -> Self:
        self._tokens.append(_bound.set({**_bound.get(), **self._fields}))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        token = self._tokens.pop()
        try:
            _bound.reset(token)
        except ValueError:  # left in another context than it was entered in (a generator closed elsewhere)
            _bound.set(token.old_value if token.old_value is not contextvars.Token.MISSING else _EMPTY)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """As a decorator: the fields hold during each call."""
        import inspect

        fields = self._fields
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def run(*args: Any, **kwargs: Any) -> Any:
                with bind(**fields):
                    return await function(*args, **kwargs)

            return run  # type: ignore[return-value]  # a coroutine function is what R stands for here

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            with bind(**fields):
                return function(*args, **kwargs)

        return call


def carry(function: Callable[P, R]) -> Callable[P, R]:
    """``function`` as it would run here: with the bound fields and the span that are current now.

    For ``ThreadPoolExecutor.submit(carry(f), …)`` and ``Thread(target=carry(f))``, which start without
    the caller's context.
    """
    context = contextvars.copy_context()

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        return context.copy().run(function, *args, **kwargs)

    return run
