"""Spans in one word: ``with span("work", size=3):`` and ``@traced``."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar, overload

from opentelemetry import trace

from telemetry.text import printable
from telemetry.traces.provider import PROVIDER, each, fail, use_span

F = TypeVar("F", bound=Callable[..., Any])

_AS_IT_IS = frozenset([str, bool, float])

_tracer = PROVIDER.get_tracer("telemetry")


def span(
    name: str, *, kind: trace.SpanKind = trace.SpanKind.INTERNAL, **attributes: object
) -> AbstractContextManager[trace.Span]:
    """A span that is current inside the ``with`` block, with ``attributes``.

    An exception that leaves the block is recorded and sets the status; it goes on its way. Values that
    OpenTelemetry has no type for become their text; None is left out.
    """
    manager: AbstractContextManager[trace.Span] = _tracer.start_as_current_span(
        name, kind=kind, attributes=clean(attributes)
    )
    return manager


@overload
def traced(function: F, /) -> F: ...
@overload
def traced(name: str | None = None, /, **attributes: object) -> Callable[[F], F]: ...
def traced(function: Any = None, /, **attributes: object) -> Any:
    """A decorator: each call is a span, named like the function or as given.

    Works on functions, coroutine functions, generators and async generators; a generator's span lasts from
    its first step to its last, and is current only while the generator itself runs.
    """
    if not callable(function):
        return lambda target: _wrap(target, function or target.__qualname__, attributes)
    return _wrap(function, getattr(function, "__qualname__", "call"), attributes)


def _wrap(function: Callable[..., Any], name: str, attributes: Mapping[str, object]) -> Callable[..., Any]:
    given = clean(attributes)
    if inspect.isasyncgenfunction(function):

        @functools.wraps(function)
        async def steps(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
            stream = function(*args, **kwargs)
            made = _tracer.start_span(name, attributes=given)
            step: Callable[[], Any] = stream.__anext__
            try:
                while True:
                    with use_span(made):
                        try:
                            item = await step()
                        except StopAsyncIteration:
                            return
                    try:
                        step = functools.partial(stream.asend, (yield item))
                    except GeneratorExit:
                        raise
                    except BaseException as error:
                        step = functools.partial(stream.athrow, error)
            except Exception as error:
                fail(made, error)
                raise
            finally:
                with use_span(made):
                    await stream.aclose()
                made.end()

        return steps
    if inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def iterate(*args: Any, **kwargs: Any) -> Any:
            return each(function(*args, **kwargs), lambda: _tracer.start_span(name, attributes=given))

        return iterate
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def run(*args: Any, **kwargs: Any) -> Any:
            with _tracer.start_as_current_span(name, attributes=given):
                return await function(*args, **kwargs)

        return run

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with _tracer.start_as_current_span(name, attributes=given):
            return function(*args, **kwargs)

    return call


def clean(attributes: Mapping[str, object]) -> dict[str, Any]:
    """``attributes`` as OpenTelemetry takes them: str, bool, int, float, and sequences of one of these."""
    return {
        key: value if type(value) in _AS_IT_IS else _value(value)
        for key, value in attributes.items()
        if value is not None
    }


def _value(value: object) -> Any:
    if isinstance(value, (str, bool, float)):
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else str(value)
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray, memoryview)):
        kinds = {type(item) for item in value}
        if len(kinds) <= 1 and kinds <= {str, bool, int, float}:
            return list(value)
    return printable(value)


def trace_id() -> str:
    """The id of the current trace as 32 hex digits, or an empty string outside of any."""
    context = trace.get_current_span().get_span_context()
    return f"{context.trace_id:032x}" if context.is_valid else ""
