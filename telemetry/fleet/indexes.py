"""The indexes that make reading cheap: which there should be, and which of them there are, under whatever name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import psycopg

from telemetry.fleet.profiles import Profile
from telemetry.fleet.queue import claimable, failed
from telemetry.worker.tables import Tables

CLAIM_COST: Final = (
    "With the other one on the queue it costs claims 6 % (median of six pairs of runs): every claim changes both."
)


class Index(msgspec.Struct, frozen=True, kw_only=True):
    """An index that a read wants. ``serves`` says which; ``cost`` what it costs whoever writes."""

    name: str
    table: str
    keys: tuple[str, ...]
    include: tuple[str, ...] = ()
    where: str = ""
    serves: str
    cost: str

    @property
    def ddl(self) -> str:
        """The statement that makes it, beside running work."""
        include = f" INCLUDE ({_list(self.include)})" if self.include else ""
        where = f"\n    WHERE {self.where}" if self.where else ""
        made = (
            f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {self.name} ON {Tables.quoted(self.table)} ({_list(self.keys)})"
        )
        return f"{made}{include}{where};"


def indexes(profile: Profile) -> tuple[Index, ...]:
    """The indexes that the reads of ``profile`` want."""
    queue, completed = profile.queue, profile.completed
    found = []
    if queue is not None:
        found += [
            Index(
                name="jq_obs_pending",
                table=queue.table,
                keys=(queue.tag, queue.scheduled_for),
                where=claimable(queue, ""),
                serves="oldest age and count of each tag, on every scrape",
                cost=CLAIM_COST,
            ),
            Index(
                name="jq_obs_running",
                table=queue.table,
                keys=(queue.tag, queue.started_at),
                where=f'"{queue.running}"',
                serves="running jobs and their waits, every minute",
                cost=CLAIM_COST,
            ),
        ]
        if queue.restarts:
            found.append(
                Index(
                    name="jq_obs_restarts",
                    table=queue.table,
                    keys=(queue.tag,),
                    where=f'"{queue.restarts}" >= {queue.restart_limit:d}',
                    serves="jobs at their restart limit, every minute",
                    cost="It costs next to nothing: only jobs at the limit are in it.",
                )
            )
    if completed is not None:
        include = tuple(name for name in (completed.tag, completed.scheduled_for) if name)
        found += [
            Index(
                name="jc_obs_started",
                table=completed.table,
                keys=(completed.started_at,),
                include=include,
                serves="waits and the last claim of each tag, every minute",
                cost="It costs claims nothing; each completion adds an entry.",
            ),
            Index(
                name="jc_obs_failed",
                table=completed.table,
                keys=(completed.completed_at,),
                include=tuple(name for name in (completed.tag,) if name),
                where=failed(completed, ""),
                serves="failures of each tag, every minute",
                cost="It costs claims nothing; each failure adds an entry.",
            ),
        ]
    return tuple(found)


_LIVE: Final = """
SELECT c.relname, i.indisvalid, ARRAY(SELECT pg_get_indexdef(i.indexrelid, k, true)
    FROM generate_series(1, i.indnkeyatts) k), coalesce(pg_get_expr(i.indpred, i.indrelid), '')
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = to_regclass(%s)
"""


def missing(connection: psycopg.Connection[Any], wanted: Sequence[Index]) -> tuple[tuple[Index, ...], tuple[str, ...]]:
    """The indexes that are not there under any name, and names of those that a broken build left invalid."""
    absent, invalid = [], []
    for index in wanted:
        like = [
            (name, valid)
            for name, valid, keys, where in connection.execute(_LIVE, (Tables.quoted(index.table),))
            if _serves(tuple(keys), where, index)
        ]
        if not like:
            absent.append(index)
        elif not any(valid for _, valid in like):
            invalid += [name for name, _ in like]
    return tuple(absent), tuple(invalid)


def _serves(keys: tuple[str, ...], where: str, index: Index) -> bool:
    plain = tuple(key.strip('"') for key in keys)
    return plain[: len(index.keys)] == index.keys and conditions(where) <= conditions(index.where)


_CAST: Final = re.compile(r"::[a-z_]+(?: varying)?(?:\[\])?")


def conditions(predicate: str) -> frozenset[str]:
    """The conditions of a predicate, alike as we write them and as PostgreSQL writes them back.

    An index with fewer conditions than are wanted serves too; it is only larger.
    """
    text = _CAST.sub("", predicate).replace('"', "").replace("= ANY (ARRAY[", "IN (").replace("])", ")")
    text = re.sub(r"[()\s]+", " ", text)
    found = set()
    for each in filter(None, (part.strip() for part in re.split(r" AND ", text))):
        one = re.fullmatch(r"(\S+) IN ('[^',]*')", each)
        negated = re.fullmatch(r"NOT (\S+)", each)
        if one:
            found.add(f"{one[1]} = {one[2]}")
        elif negated:
            found.add(f"{negated[1]} = false")
        else:
            found.add(each.removesuffix(" = true"))
    return frozenset(found)


def skips(connection: psycopg.Connection[Any], profile: Profile) -> bool:
    """Whether the read of every scrape can skip from tag to tag through an index. Raises psycopg.Error."""
    if profile.queue is None:
        return False
    absent, invalid = missing(connection, indexes(profile)[:1])
    return not absent and not invalid


def _list(names: tuple[str, ...]) -> str:
    return ", ".join(f'"{name}"' for name in names)
