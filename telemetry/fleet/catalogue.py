"""Which tags a platform's actions use, whether anything waits under them or not.

The tags come from a query or a callable of the platform, or, as in windforce, are worked out from its apps and
actions: what an author declared is not yet where a job goes. ``effective`` is that rule, by the public documents of
windforce (guide/apps-and-actions, operating/worker-groups).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
import psycopg

from telemetry.fleet.profiles import Actions, Apps, Profile, Registry, check
from telemetry.fleet.session import SchemaError
from telemetry.worker.tables import Tables

ROWS: Final = 20_000
"""How many distinct ways of routing are read at most; far more tags than have series, or are told."""
WORKSPACE: Final = "$workspace"
"""Stands for the workspace of the job in a tag."""


class Catalogue(msgspec.Struct, frozen=True, kw_only=True):
    """The tags that jobs of this platform can have, and the capabilities that its apps need.

    ``there`` is False where the platform has no catalogue; nothing is known then, and nothing was amiss.
    """

    tags: frozenset[str] = frozenset()
    capabilities: frozenset[str] = frozenset()
    there: bool = True


class Use(msgspec.Struct, frozen=True, kw_only=True):
    """One way in which an app, or an action of one, is routed. An empty word is none."""

    workspace: str = ""
    app: str = ""
    action: str = ""
    override: str = ""
    capabilities: tuple[str, ...] = ()


def effective(uses: Iterable[Use], dedicated: Mapping[str, str]) -> Catalogue:
    """The catalogue that ``uses`` make. ``dedicated`` gives the tag of each workspace that has a group to itself."""
    tags: set[str] = set()
    capabilities: set[str] = set()
    for use in uses:
        capabilities.update(use.capabilities)
        if use.workspace in dedicated:
            # All its jobs go there, whatever they ask for.
            found: tuple[str, ...] = (dedicated[use.workspace],)
        else:
            found = use.capabilities or (use.override or use.action or use.app,)
        tags.update(tag.replace(WORKSPACE, use.workspace) for tag in found if tag)
    return Catalogue(tags=frozenset(tags), capabilities=frozenset(capabilities))


def uses_sql(apps: Apps, actions: Actions | None) -> str:
    """Each distinct way of routing: workspace, tags of app and action, override, capabilities."""

    def text(name: str) -> str:
        return f"coalesce({name}::text, '')"

    override = text(f'p."{apps.override}"') if apps.override else "''"
    capabilities = f"coalesce(p.\"{apps.capabilities}\"::text[], '{{}}')" if apps.capabilities else "'{}'::text[]"
    action, join = "''", ""
    if actions is not None:
        action = text(f'a."{actions.tag}"')
        join = (
            f"\nLEFT JOIN {Tables.quoted(actions.table)} a"
            f' ON (a."{actions.workspace}"::text, a."{actions.app}"::text)'
            f' = (p."{apps.workspace}"::text, p."{apps.key}"::text)'
        )
    workspace, tag = text(f'p."{apps.workspace}"'), text(f'p."{apps.tag}"')
    return (
        f"SELECT DISTINCT {workspace}, {tag}, {action}, {override}, {capabilities}\n"
        f"FROM {Tables.quoted(apps.table)} p{join} LIMIT {ROWS}"
    )


def dedicated_sql(registry: Registry) -> str:
    """The workspaces that have a group to themselves, and the one tag of that group; of several, the first by name."""
    tags = f'g."{registry.tags}"'
    first = f"{tags} ->> 0" if registry.tags_are_json else f"({tags})[1]"
    workspace = f'g."{registry.dedicated}"::text'
    return (
        f"SELECT {workspace}, {first} FROM {Tables.quoted(registry.table)} g\n"  # noqa: S608  # checked names, quoted
        f"WHERE {workspace} <> '' AND {first} <> '' ORDER BY g.\"{registry.name}\" DESC"
    )


def statement(connection: psycopg.Connection[Any], profile: Profile) -> str:
    """What is read for the catalogue: nothing where the platform has none. Raises SchemaError where columns differ."""
    if profile.catalogue:
        return profile.catalogue
    if profile.apps is None or not _exists(connection, profile.apps.table):
        return ""
    problems = check(connection, profile, ("catalogue",))
    if problems:
        raise SchemaError(problems)
    return uses_sql(profile.apps, profile.actions)


def read_catalogue(connection: psycopg.Connection[Any], profile: Profile) -> Catalogue:
    """The catalogue within the caller's transaction. Raises psycopg.Error, and SchemaError where columns differ."""
    asked, registry = statement(connection, profile), profile.registry
    if not asked:
        return Catalogue(there=False)
    rows = connection.execute(asked.encode()).fetchall()
    if profile.catalogue:
        return Catalogue(tags=frozenset(str(tag) for (tag, *_) in rows if tag))
    dedicated: dict[str, str] = {}
    if registry is not None and registry.dedicated:
        dedicated = dict(connection.execute(dedicated_sql(registry).encode()).fetchall())
    return effective(
        (
            Use(
                workspace=workspace,
                app=app,
                action=action,
                override=override,
                capabilities=tuple(each for each in capabilities if each),
            )
            for workspace, app, action, override, capabilities in rows
        ),
        dedicated,
    )


def _exists(connection: psycopg.Connection[Any], table: str) -> bool:
    row = connection.execute("SELECT to_regclass(%s) IS NOT NULL", (Tables.quoted(table),)).fetchone()
    return row is not None and bool(row[0])
