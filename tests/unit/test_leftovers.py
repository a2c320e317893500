"""The watch over connections that tests leave open."""

from __future__ import annotations

import asyncio
import gc
import socket
import warnings

from tests import leftovers


def test_a_connection_left_open_is_named_at_once_and_warned_of_by_nobody_later() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host, port = listener.getsockname()
        kept = asyncio.run(asyncio.open_connection(host, port))
        (told,) = leftovers.take()
        assert str(port) in told
        assert leftovers.take() == []
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            del kept
            gc.collect()
        assert [str(each.message) for each in seen] == []


def test_a_connection_closed_too_late_for_its_loop_is_left_open_as_well() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        loop = asyncio.new_event_loop()
        opened = loop.run_until_complete(asyncio.open_connection(*listener.getsockname()))
        opened[1].close()
        loop.close()
        assert len(leftovers.take()) == 1


def test_what_was_closed_in_time_is_not_left_open() -> None:
    async def connect(host: str, port: int) -> None:
        _reader, writer = await asyncio.open_connection(host, port)
        writer.close()
        await writer.wait_closed()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        asyncio.run(connect(*listener.getsockname()))
        assert leftovers.take() == []
