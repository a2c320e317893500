"""The one tracer provider that this process ever installs: it stays, what is behind it changes.

OpenTelemetry lets a global provider be set once. Ours is set by the first ``setup()`` and stands in front
of whatever engine is active: the SDK's now, none before ``setup()`` and after ``shutdown()``, another after
the next ``setup()``. Tracers that libraries hold since import go on working throughout.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, TypeAlias

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.util.types import Attributes

from telemetry import faults
from telemetry.text import printable

_NOOP = trace.NoOpTracerProvider()

Tap: TypeAlias = Callable[[trace.TracerProvider | None], trace.TracerProvider]
"""The engine that ``use`` was given, or None, to the one that is to stand in its place."""


class Provider(trace.TracerProvider):
    """Hands out tracers that always speak to the engine of the moment (``use``)."""

    def __init__(self) -> None:
        self.engine: trace.TracerProvider = _NOOP
        self.generation = 0
        self._given: trace.TracerProvider | None = None
        self._tap: Tap | None = None

    def use(self, engine: trace.TracerProvider | None) -> None:
        """Put ``engine`` behind every tracer, or nothing."""
        self._given = engine
        self._renew()

    def tap(self, tap: Tap | None) -> None:
        """Have ``tap`` say what stands behind the tracers, now and after each ``use``; None: as ``use`` said.

        For tests, which look at spans whether or not ``setup()`` ran, before or after.
        """
        self._tap = tap
        self._renew()

    def _renew(self) -> None:
        self.engine = self._tap(self._given) if self._tap else self._given or _NOOP
        self.generation += 1

    def get_tracer(
        self,
        instrumenting_module_name: str,
        instrumenting_library_version: str | None = None,
        schema_url: str | None = None,
        attributes: Attributes = None,
    ) -> trace.Tracer:
        """A tracer that outlives every engine."""
        return Tracer(self, (instrumenting_module_name, instrumenting_library_version, schema_url, attributes))

    def __getattr__(self, name: str) -> Any:
        # ``add_span_processor``, ``force_flush``, ``resource``: what an SDK provider has beyond the API.
        if name.startswith("__") or name == "engine":
            raise AttributeError(name)
        return getattr(self.engine, name)


class Tracer(trace.Tracer):
    """A tracer of one instrumentation scope, bound to the engine on use."""

    def __init__(self, provider: Provider, scope: tuple[Any, ...]) -> None:
        self._provider = provider
        self._scope = scope
        self._generation = -1
        self._tracer: trace.Tracer = trace.NoOpTracer()

    def _now(self) -> trace.Tracer:
        provider = self._provider
        if self._generation != provider.generation:
            generation = provider.generation
            self._tracer = provider.engine.get_tracer(*self._scope)
            self._generation = generation
        return self._tracer

    def start_span(
        self,
        name: str,
        context: Context | None = None,
        kind: trace.SpanKind = trace.SpanKind.INTERNAL,
        attributes: Attributes = None,
        links: Any = None,
        start_time: int | None = None,
        record_exception: bool = True,
        set_status_on_exception: bool = True,
    ) -> trace.Span:
        """As the API says."""
        return self._now().start_span(
            name, context, kind, attributes, links, start_time, record_exception, set_status_on_exception
        )

    def start_as_current_span(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """As the API says: a context manager and decorator."""
        return Current(lambda: self._now().start_as_current_span(name, *args, **kwargs))


class Current(AbstractContextManager[trace.Span]):
    """A span to be: for one ``with`` block, or as a decorator for each call, from the engine of that moment."""

    __slots__ = ("_begin", "_begun")

    def __init__(self, begin: Callable[[], AbstractContextManager[trace.Span]]) -> None:
        self._begin = begin

    def __enter__(self) -> trace.Span:
        self._begun = self._begin()
        return self._begun.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace_: TracebackType | None
    ) -> bool | None:
        return self._begun.__exit__(kind, error, trace_)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """``function``, each call inside a span of its own."""
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def run(*args: Any, **kwargs: Any) -> Any:
                with self._begin():
                    return await function(*args, **kwargs)

            return run

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with self._begin():
                return function(*args, **kwargs)

        return call


PROVIDER = Provider()
"""The provider of this process."""


def install() -> bool:
    """Make ``PROVIDER`` OpenTelemetry's global provider; False when another one already is.

    Then the other stays (the API allows no replacement) and spans made through it do not reach our sinks;
    ours, made through ``telemetry.span``, do.
    """
    current = trace.get_tracer_provider()
    if current is PROVIDER:
        return True
    if isinstance(current, trace.ProxyTracerProvider):
        trace.set_tracer_provider(PROVIDER)
        return True
    kind = f"{type(current).__module__}.{type(current).__qualname__}"
    faults.say(
        f"another OpenTelemetry tracer provider ({kind}) was installed before telemetry.setup(): its spans are "
        "exported by it, not by fleetglass; call telemetry.setup() first"
    )
    return False


def use_span(span: trace.Span) -> AbstractContextManager[Any]:
    """Make ``span`` current for a block, without ending it."""
    return trace.use_span(span, end_on_exit=False, record_exception=False, set_status_on_exception=False)


def each(steps: Generator[Any, Any, Any], start: Callable[[], trace.Span]) -> Generator[Any, Any, Any]:
    """``steps`` with a span that lasts from its first step to its last, and is current in its own steps only.

    What is sent and thrown into it, and what it returns, passes through: it may be a context manager's.
    """
    span = start()
    step: Callable[[], Any] = functools.partial(next, steps)
    try:
        while True:
            with use_span(span):
                try:
                    item = step()
                except StopIteration as end:
                    return end.value
            try:
                step = functools.partial(steps.send, (yield item))
            except GeneratorExit:
                with use_span(span):
                    steps.close()
                raise
            except BaseException as error:
                step = functools.partial(steps.throw, error)
    except Exception as error:
        fail(span, error)
        raise
    finally:
        span.end()


def fail(span: trace.Span, error: Exception) -> None:
    """Record ``error`` as what ended ``span``."""
    span.record_exception(error)
    span.set_status(trace.Status(trace.StatusCode.ERROR, f"{type(error).__name__}: {printable(error)}"))
