"""The state that replicas share, in a Valkey or Redis server. Thin: scripts decide, this calls them.

One *life* of the server is the time between two of its starts. Keys carry the life they belong to, so that what
a restart has brought back from an old snapshot, and what it has lost, is out of play in the same way: windows of an
earlier life are closed by those who counted into them (``ingest.limits.shared``). A new life shows in that our
scripts are unknown to it; each replica's differ by a comment, so that nobody else can have loaded them.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Literal, cast, get_args

import msgspec
import redis.asyncio as client
from redis import exceptions
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from ingest.limits import scripts
from ingest.limits.rules import Key, Rate, Sample, Thresholds

BUDGET: Final = 1.0
"""Seconds that any call may take, waiting for a connection included."""

Reason = Literal["timeout", "connection", "refused", "late"]
"""Why a call failed: no answer in time, no connection, an error for an answer, an answer that came too late."""

REASONS: Final[tuple[Reason, ...]] = get_args(Reason)

# The server is told to leave alone what it can't begin within this share of the budget; the rest is the answer's.
_SHARE = 0.75
# The end of the budget is for an answer that has come, and that a process which stood still has yet to look at.
_LOOK = 0.1
_CONNECTIONS = 16
_BATCH = 200

_encode = msgspec.json.Encoder().encode
_sample = msgspec.json.Decoder(Sample).decode


class StoreDown(Exception):
    """The store did not do what it was asked. ``reason`` is the label value to count."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason: Reason = reason


class Met(msgspec.Struct, frozen=True):
    """What became of a report: ``counted`` into a window that was open, or the first of one that is now.

    ``ends`` is in milliseconds of the server's clock. ``fingerprint`` may have been folded.
    """

    counted: bool
    ends: int
    fingerprint: str
    life: str


class Told(msgspec.Struct, frozen=True):
    """A window that was taken out of the store and has ``repeat`` occurrences to tell."""

    key: Key
    ends: int
    repeat: int
    sample: Sample
    foreign: bool


class Closed(msgspec.Struct, frozen=True):
    """What one sweep took out, at ``swept_at`` by the server's clock (ms).

    Windows of any replica that ended up to ``done_until`` are out then, unless there is ``more``. ``open`` windows of
    this replica stay.
    """

    told: tuple[Told, ...]
    open: int
    swept_at: int
    done_until: int
    more: bool
    life: str


class Store:
    """The scripts of ``ingest.limits.scripts`` on one server. Every call raises ``StoreDown``, within ``BUDGET``."""

    def __init__(self, url: str, limits: Thresholds) -> None:
        self._url = url
        self._limits = limits
        rate, ceiling = Rate.of(limits.rate, limits.burst), Rate.of(limits.ceiling, int(limits.ceiling))
        self._buckets = [_micros(number) for each in (rate, ceiling) for number in (each.interval, _size(each))]
        self._client: client.Redis | None = None
        self._loop: object = None
        self._pid = 0
        self._shas: dict[str, str] = {}
        self.replica = ""
        self.life = ""
        self._ahead = 0.0  # milliseconds that the server's clock is ahead of ours, at least

    def now(self) -> float:
        """The server's clock in milliseconds, as far as its answers tell; behind it by one answer's way at most."""
        return time.monotonic() * 1000 + self._ahead

    async def admit(self, email: str) -> tuple[int, float]:
        """Take a token of both buckets: 0, or 1 (own) or 2 (ceiling) for the empty one, and seconds to wait."""
        keys = (f"b:{_digest(email)}", "c")
        which, wait, _ = await self._call(scripts.ADMIT, keys, self._buckets)
        return int(which), wait / 1e6

    async def meet(self, key: Key, repeat: int, sample: Sample) -> Met:
        """Count a report into its window, or open one."""
        email, workspace, kind, fingerprint = key
        window = f"w:{_digest(email, workspace)}:{kind}:"
        keys = (window + fingerprint, window + "other", f"f:{_digest(email)}", "d", f"o:{self._me()}")
        limits = self._limits
        values = (fingerprint, limits.fingerprints, repeat, int(limits.window * 1000), self.replica)
        what, ends, folded, _ = await self._call(
            scripts.MEET, keys, (*values, json.dumps([email, workspace, kind]), _encode(sample)), deadline=True
        )
        self._timely(what)
        return Met(what == b"count", int(ends), folded.decode(), self.life)

    async def close(self, *, everything: bool = False) -> Closed:
        """Take out this replica's windows that have ended, and those of others that nobody closed in time.

        With ``everything``, those of this replica that have not ended as well.
        """
        more, left, flat, now = await self._call(
            scripts.CLOSE,
            ("d", f"o:{self._me()}"),
            ("o:", _BATCH, "all" if everything else "due"),
            deadline=True,
        )
        self._timely(more)
        told = tuple(
            Told((*json.loads(who), fp.decode()), int(ends), int(repeat), _sample(sample), bool(foreign))
            for who, fp, ends, repeat, sample, foreign in zip(*[iter(flat)] * 6, strict=True)
        )
        return Closed(told, int(left), int(now), int(now) - scripts.GRACE_MS, more == b"more", self.life)

    async def disconnect(self) -> None:
        """Close the connections; a later call opens new ones."""
        found, self._client, self._loop = self._client, None, None
        if found is not None:
            await found.aclose()

    async def _call(self, script: str, keys: Sequence[str], values: Sequence[Any], *, deadline: bool = False) -> Any:
        began = time.monotonic() if deadline else None
        try:
            async with _patience():
                await self._enter()
                try:
                    answer = await self._run(script, keys, values, began)
                except exceptions.NoScriptError:
                    await self._begin_life()
                    answer = await self._run(script, keys, values, began)
        except (TimeoutError, exceptions.TimeoutError):
            raise StoreDown("timeout", f"no answer within {BUDGET:g} s") from None
        except (exceptions.AuthenticationError, exceptions.BusyLoadingError) as error:
            raise StoreDown("refused", str(error)) from None
        except (exceptions.ConnectionError, OSError) as error:
            raise StoreDown("connection", str(error)) from None
        except exceptions.RedisError as error:
            raise StoreDown("refused", str(error)) from None
        self._ahead = int(answer[-1]) - time.monotonic() * 1000
        return answer

    async def _run(self, script: str, keys: Sequence[str], values: Sequence[Any], began: float | None) -> Any:
        assert self._client is not None
        prefix = f"fleetglass:{{{self.life}}}:"  # one hash slot, where the server is a cluster of one
        arguments = [prefix + value if value == "o:" else value for value in values]
        if began is not None:  # from when we began to wait: what has to be found out first takes of the same budget
            arguments.insert(0, int((began + BUDGET * _SHARE) * 1000 + self._ahead))
        answer = self._client.evalsha(self._shas[script], len(keys), *[prefix + key for key in keys], *arguments)
        return await cast("Any", answer)

    async def _enter(self) -> None:
        """A client of this event loop, and the scripts on the server."""
        self._me()
        if self._client is None or self._loop is not asyncio.get_running_loop():
            pool = client.BlockingConnectionPool.from_url(
                self._url,
                max_connections=_CONNECTIONS,
                timeout=BUDGET,
                socket_timeout=None,  # it would not see an answer either that came while the process stood still
                socket_connect_timeout=BUDGET,
                retry=Retry(NoBackoff(), 0),
                # RESP3 keeps idle connections that the server has closed: https://github.com/redis/redis-py/issues/4252
                protocol=2,
                client_name="fleetglass",
            )
            self._client, self._loop = client.Redis.from_pool(pool), asyncio.get_running_loop()
        if not self._shas:
            await self._begin_life()

    async def _begin_life(self) -> None:
        assert self._client is not None
        info = await self._client.info("server")
        self._ahead = int(info["server_time_usec"]) / 1000 - time.monotonic() * 1000
        found = {}
        for script in (scripts.ADMIT, scripts.MEET, scripts.CLOSE):
            found[script] = await self._client.script_load(f"-- {self.replica}\n{script}")
        self.life, self._shas = str(info["run_id"]), found

    def _me(self) -> str:
        """The name of this process among the replicas; a forked child has one of its own."""
        if self._pid != os.getpid():
            self._pid, self.replica = os.getpid(), uuid.uuid4().hex
            self._client, self._shas = None, {}
        return self.replica

    @staticmethod
    def _timely(answer: bytes) -> None:
        if answer == b"late":
            raise StoreDown("late", "the store came to it after its time")


@asynccontextmanager
async def _patience() -> AsyncIterator[None]:
    """A block that has ``BUDGET``, the last of it in time that this process has lived through.

    An event loop that stood still for longer sees at once that the time is over and that the answer is there. Given up
    then, a report would be counted twice, and windows that were taken out would be told by nobody.
    """
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(None) as until:
        over = loop.call_later(BUDGET - _LOOK, lambda: until.reschedule(loop.time() + _LOOK))
        try:
            yield
        finally:
            over.cancel()


def _digest(*parts: str) -> str:
    """A name for keys: of one length, and none of the person's."""
    text = "\0".join(parts).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, digest_size=16).hexdigest()


def _size(rate: Rate) -> float:
    return rate.interval * rate.burst


def _micros(seconds: float) -> int:
    return round(seconds * 1e6)
