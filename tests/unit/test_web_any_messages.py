"""Whatever an application sends or raises, the server gets it unchanged, and it is accounted for once."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from telemetry.web import TelemetryMiddleware
from tests.asgi_driver import http_scope, watching

HEADERS = st.lists(
    st.tuples(st.sampled_from([b"content-type", b"content-length", b"x"]), st.binary(max_size=20)), max_size=3
)
MESSAGES = st.one_of(
    st.fixed_dictionaries(
        {"type": st.just("http.response.start"), "status": st.integers(100, 599)}, optional={"headers": HEADERS}
    ),
    st.fixed_dictionaries(
        {"type": st.just("http.response.body")},
        optional={"body": st.binary(max_size=30), "more_body": st.booleans()},
    ),
    st.fixed_dictionaries({"type": st.sampled_from(["http.response.trailers", "http.response.debug", "receive"])}),
)
ERRORS = st.sampled_from([None, ValueError("x"), OSError("gone"), asyncio.CancelledError(), KeyboardInterrupt()])
PATHS = st.text(max_size=30).map(lambda text: "/" + text)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sent=st.lists(MESSAGES, max_size=6), error=ERRORS, path=PATHS, received=st.lists(st.booleans(), max_size=6))
def test_any_conversation(
    sent: list[dict[str, Any]], error: BaseException | None, path: str, received: list[bool]
) -> None:
    arrived: list[Any] = []
    raised: list[BaseException] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        for message in sent:
            if message["type"] == "receive":
                await receive()
            else:
                await send(message)
        if error is not None:
            raise error

    async def receive() -> dict[str, Any]:
        left = received.pop() if received else True
        return {"type": "http.disconnect"} if left else {"type": "http.request", "more_body": True}

    async def send(message: Any) -> None:
        arrived.append(message)

    async def run() -> None:
        scope = http_scope("GET", "/")
        scope["path"] = path
        try:
            await TelemetryMiddleware(app, exclude=())(scope, receive, send)
        except BaseException as caught:
            raised.append(caught)

    with watching(access_log=True) as seen:
        asyncio.run(run())
        assert arrived == [message for message in sent if message["type"] != "receive"]
        assert raised == ([] if error is None else [error])
        assert (len(seen.spans), len(seen.lines), seen.active) == (1, 1, 0)
        assert seen.requests() + seen.metric("http_server_streams_total") == 1
