"""The lifespan protocol around an application: take over logging at start, send what is queued at the end.

Under uvicorn neither ``atexit`` nor a signal handler of ours runs before the event loop is gone, and under
granian none runs at all: the end of the lifespan is the one moment that every server gives.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from telemetry import faults
from telemetry.web.background import in_thread
from telemetry.web.protocol import MARK, ASGIApp, Message, Receive, Scope, Send

if TYPE_CHECKING:
    from telemetry.pipeline import Telemetry


# Of the time that shutting down may take, the rest is the server's: uvicorn's supervisor looks at signals
# twice a second, a worker ten times, and both clean up.
_SHARE = 0.8
_SLACK = 0.5


class _NotLifespan(Exception):
    """The application answered the lifespan with a message of another protocol."""


class _Conversation:
    """What server and application have said so far."""

    def __init__(self, receive: Receive, send: Send, telemetry: Callable[[], Telemetry | None]) -> None:
        self._receive = receive
        self._send = send
        self._telemetry = telemetry
        self.heard: set[str] = set()
        """What the application has been told; when it has asked, it knows the protocol."""
        self.started = False
        self.ended = False

    async def receive(self) -> Message:
        message: Message = await self._receive()
        self.heard.add(message["type"])
        return message

    async def send(self, message: Message) -> None:
        kind = str(message["type"])
        if not kind.startswith("lifespan."):
            raise _NotLifespan(kind)
        if kind == "lifespan.startup.complete":
            self.started = True
        else:
            self.ended = True
            await flush(self._telemetry())
        await self._send(message)

    async def stand_in(self) -> None:
        """Speak for an application that does not, or no longer, take part."""
        if not self.started:
            await self._answer("lifespan.startup", "lifespan.startup.complete")
            self.started = True
        if not self.ended:
            await self._answer("lifespan.shutdown", "lifespan.shutdown.complete")

    async def _answer(self, expected: str, answer: str) -> None:
        if expected not in self.heard:  # it may have listened and said nothing
            await self._receive()
        await self.send({"type": answer})


async def run(
    app: ASGIApp, scope: Scope, receive: Receive, send: Send, telemetry: Callable[[], Telemetry | None]
) -> None:
    """Run ``app``'s lifespan; ``telemetry`` gives what is running at the time.

    An application without one (it refuses the scope, returns at once, or answers as to a request) is
    spoken for, so that what is queued is sent for it as well. A startup that fails stays a failure.
    """
    if MARK in scope:  # a middleware around this one sees to it
        await app(scope, receive, send)
        return
    scope[MARK] = None
    take_over_logs()
    conversation = _Conversation(receive, send, telemetry)
    try:
        await app(scope, conversation.receive, conversation.send)
    except _NotLifespan:
        pass
    except Exception:
        if conversation.heard:
            if not conversation.ended:
                await flush(telemetry())
            raise
    if not conversation.ended:
        await conversation.stand_in()


def take_over_logs() -> None:
    """Route the server's loggers to our handler again: uvicorn and granian configure theirs after our setup()."""
    logs = sys.modules.get("telemetry.logs")
    takeover = getattr(logs, "takeover", None)
    if takeover is None:
        return
    try:
        takeover()
    except Exception as error:
        faults.report("web.lifespan", error)


async def flush(telemetry: Telemetry | None) -> None:
    """Send what is queued, within the time that shutting down may take; never raises for a fault of ours."""
    if telemetry is None:
        return
    timeout = telemetry.config.shutdown_timeout * _SHARE
    try:
        await asyncio.wait_for(in_thread(lambda: telemetry.drain(timeout), "fleetglass-drain"), timeout + _SLACK)
    except TimeoutError:
        faults.report("web.lifespan", f"telemetry was not drained within {timeout + _SLACK:.1f} s")
    except Exception as error:
        faults.report("web.lifespan", error)
