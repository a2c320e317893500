"""Records of a place say what ``logging`` itself would say there."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import threading
from typing import TYPE_CHECKING, Any

import pytest

from telemetry.logs.event import STANDARD_COUNT
from telemetry.logs.place import Place

if TYPE_CHECKING:
    from collections.abc import Iterator

TIMES = ("created", "msecs", "relativeCreated")
LOGGER = logging.getLogger("shop.place")


@pytest.fixture
def place() -> Place:
    return Place(LOGGER, logging.ERROR, "order failed", __file__, "pay")


@pytest.fixture
def factory() -> Iterator[None]:
    before = logging.getLogRecordFactory()

    class Marked(logging.LogRecord):
        marked = True

    logging.setLogRecordFactory(Marked)
    yield
    logging.setLogRecordFactory(before)


def theirs() -> logging.LogRecord:
    return LOGGER.makeRecord(LOGGER.name, logging.ERROR, __file__, 0, "order failed", (), None, "pay", {"tenant": "a"})


def unlike(one: logging.LogRecord, other: logging.LogRecord) -> dict[str, Any]:
    return {key: (value, vars(other).get(key)) for key, value in vars(one).items() if value != vars(other).get(key)}


def test_a_record_has_what_logging_puts_into_one_in_that_order(place: Place) -> None:
    for _ in range(2):  # the first is kept, the second made from it
        before = theirs()
        made = place.record({"tenant": "a"})
        after = theirs()
        assert list(vars(made)) == list(vars(after))
        assert unlike(made, after).keys() <= set(TIMES)
        for name in ("created", "relativeCreated"):
            assert getattr(before, name) - 0.001 <= getattr(made, name) <= getattr(after, name) + 0.001
        assert made.msecs == int((made.created - int(made.created)) * 1000)
        assert type(made) is logging.LogRecord
        assert [*vars(made)][STANDARD_COUNT:] == ["tenant"]


def test_records_share_nothing(place: Place) -> None:
    first, second = place.record({"tenant": "a"}), place.record({}, "order lost")
    first.levelname = "changed"
    assert (second.levelname, second.getMessage(), hasattr(second, "tenant")) == ("ERROR", "order lost", False)
    assert (first.getMessage(), place.record({}).getMessage()) == ("order failed", "order failed")


def test_each_thread_has_its_own_name(place: Place) -> None:
    made: list[logging.LogRecord] = [place.record({})]
    for name in ("cart-1", "cart-2"):
        thread = threading.Thread(target=lambda: made.append(place.record({})), name=name)
        thread.start()
        thread.join()
    assert [record.threadName for record in made] == [threading.current_thread().name, "cart-1", "cart-2"]


async def test_a_record_names_the_task_where_logging_does(place: Place) -> None:
    async def one() -> Any:
        return getattr(place.record({}), "taskName", None), getattr(theirs(), "taskName", None)

    for name in ("task-a", "task-b"):
        ours, expected = await asyncio.create_task(one(), name=name)
        assert ours == expected


def test_a_forked_child_says_its_own_number(place: Place) -> None:
    assert place.record({}).process == os.getpid()
    context = multiprocessing.get_context("fork")
    ours, its = context.Pipe()
    child = context.Process(target=lambda: its.send((place.record({}).process, os.getpid())))
    child.start()
    said, really = ours.recv()
    child.join(20)
    child.close()
    ours.close()
    its.close()
    assert said == really != os.getpid()


@pytest.mark.usefixtures("factory")
def test_a_record_factory_of_the_application_makes_them(place: Place) -> None:
    made = place.record({"tenant": "a"}, "order lost")
    assert (made.marked, made.getMessage(), made.tenant) == (True, "order lost", "a")  # type: ignore[attr-defined]


def test_logging_says_which_level_is_wanted_and_who_listens(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, LOGGER.name)
    assert not place.enabled
    place.log({})
    caplog.set_level(logging.ERROR, LOGGER.name)
    assert place.enabled
    place.log({"tenant": "a"})
    place.log({}, "order lost")
    assert [(record.message, record.levelname) for record in caplog.records] == [
        ("order failed", "ERROR"),
        ("order lost", "ERROR"),
    ]
