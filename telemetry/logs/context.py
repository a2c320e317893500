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


class _Fields(dict[str, object]):
    """The fields of a block with those of the blocks around it; ``outer`` is what held before ``block``."""

    __slots__ = ("block", "outer")

    def __init__(self, outer: _Fields | None, block: bind | None) -> None:
        super().__init__(outer or {})
        if block is not None:
            self.update(block.fields)
        self.outer, self.block = outer, block

    def without(self, block: bind) -> _Fields:
        """What holds once the innermost run of ``block`` has ended; itself where there is none here."""
        if self.outer is None:
            return self
        if self.block is block:
            return self.outer
        outer = self.outer.without(block)
        return self if outer is self.outer else _Fields(outer, self.block)


_NONE = _Fields(None, None)
_bound: contextvars.ContextVar[_Fields] = contextvars.ContextVar("fleetglass_bound", default=_NONE)

current: Callable[[], Mapping[str, object]] = _bound.get
"""The fields bound here, outermost first."""


class bind:  # noqa: N801 - reads as a statement: with bind(job_id=…)
    """Add ``fields`` to every log record made inside the block, also in what it awaits.

    A context manager for ``with`` (in coroutines too), and a decorator for functions and coroutine
    functions. An inner ``bind`` of the same name wins; ``extra=`` of a record wins over both. One ``bind``
    may be used again and by many tasks and threads at a time, since it keeps nothing of them.
    """

    def __init__(self, **fields: object) -> None:
        self.fields = fields

    def __enter__(self) -> Self:
        _bound.set(_Fields(_bound.get(), self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # By what holds here and not by a token: a generator may be closed in another context than it began in.
        _bound.set(_bound.get().without(self))

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """As a decorator: the fields hold during each call."""
        import inspect

        fields = self.fields
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
