"""The file that says how groups are scaled, and the text that is made of it. Both are YAML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
import psycopg
import yaml

from telemetry import manifest
from telemetry.fleet.model import WorkerGroup
from telemetry.fleet.profiles import Registry
from telemetry.fleet.scaling import (
    Context,
    Object,
    Scaling,
    context_problems,
    problems,
    rules,
    scaled_object,
    trigger_authentication,
    vm_rule,
)
from telemetry.worker.tables import Tables

_SCALING: Final = ("target_queue_depth", "polling_interval", "cooldown_period")
"""Columns of windforce's ``worker_group`` beside those of the profile; each is the field of that name."""


class FileError(ValueError):
    """A file that can't be used; ``problems`` are sentences."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A whole file: what groups have in common, and each of them as it was given, by name."""

    context: Context
    given: Mapping[str, Mapping[str, Any]]


def parse(text: str) -> Plan:
    """The plan in ``text``. Raises FileError."""
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise FileError((f"this is no YAML: {error}",)) from None
    if not isinstance(content, dict):
        raise FileError(("a mapping was expected, with source, runbooks, dashboards and groups",))
    groups = content.pop("groups", None)
    if not isinstance(groups, list) or not groups:
        raise FileError(("groups: a list of groups was expected",))
    given: dict[str, Mapping[str, Any]] = {}
    for index, group in enumerate(groups):
        name = group.get("name") if isinstance(group, dict) else None
        if not isinstance(name, str) or not name:
            raise FileError((f"groups[{index}]: every group has a name",))
        if name in given:
            raise FileError((f"group {name}: it is there twice",))
        given[name] = group
    try:
        context = msgspec.convert(content, Context)
    except msgspec.ValidationError as error:
        raise FileError((_sentence(error),)) from None
    return Plan(context=context, given=given)


def scalings(plan: Plan, rows: Mapping[str, Mapping[str, Any]] | None = None) -> tuple[Scaling, ...]:
    """Each group of ``plan``, checked. Raises FileError with everything that is wrong.

    ``rows`` are fields by the group's name, as ``read_rows`` gives them: they say what the file does not.
    """
    found: list[Scaling] = []
    wrong = list(context_problems(plan.context))
    for name, given in plan.given.items():
        if rows is not None and name not in rows:
            wrong.append(f"group {name}: the registry has none of that name")
            continue
        try:
            scaling = scaling_of({**(rows or {}).get(name, {}), **given})
        except FileError as error:
            wrong += error.problems
        else:
            wrong += problems(scaling)
            found.append(scaling)
    names = [_name(each) for each in found]
    wrong += [f"workload {name}: two groups scale it" for name in sorted({n for n in names if names.count(n) > 1})]
    if wrong:
        raise FileError(tuple(wrong))
    return tuple(found)


def scaling_of(given: Mapping[str, Any]) -> Scaling:
    """One group from its fields, those of ``WorkerGroup`` and of ``Scaling`` in one mapping. Raises FileError."""
    of_group = {key: value for key, value in given.items() if key in WorkerGroup.__struct_fields__}
    rest = {key: value for key, value in given.items() if key not in of_group and key != "group"}
    name = given.get("name")
    try:
        group = msgspec.convert(of_group, WorkerGroup)
        return msgspec.convert({**rest, "group": group}, Scaling)
    except msgspec.ValidationError as error:
        said = _sentence(error)
        raise FileError((said if said.startswith("group ") else f"group {name}: {said}",)) from None


def from_row(row: Mapping[str, Any], registry: Registry | None = None) -> dict[str, Any]:
    """What a row of the registry says of a group. Columns without a value say nothing, others are nothing to us."""
    registry = registry or Registry()
    columns = {
        "name": registry.name,
        "tags": registry.tags,
        "capabilities": registry.capabilities,
        "desired_replicas": registry.desired_replicas,
        "autoscale_min": registry.autoscale_min,
        "autoscale_max": registry.autoscale_max,
        "drain_timeout": registry.drain_timeout,
        "enabled": registry.enabled,
        **{name: name for name in _SCALING},
    }
    return {field: row[column] for field, column in columns.items() if row.get(column) is not None}


def read_rows(connection: psycopg.Connection[Any], registry: Registry) -> dict[str, dict[str, Any]]:
    """The fields that each row of ``registry`` gives, by the group's name. Raises psycopg.Error."""
    text = f"SELECT to_jsonb(g) FROM {Tables.quoted(registry.table)} g"  # noqa: S608  # a checked name, quoted
    fields = (from_row(row, registry) for (row,) in connection.execute(text.encode()))
    return {each["name"]: each for each in fields if "name" in each}


def kubernetes(scalings: Iterable[Scaling], context: Context) -> str:
    """ScaledObject, TriggerAuthentication and VMRule of each group, as YAML documents."""
    made: list[Object] = []
    for scaling in scalings:
        authentication = trigger_authentication(scaling, context)
        made += [scaled_object(scaling, context), *([authentication] if authentication else [])]
        made.append(vm_rule(scaling, context))
    head = "# Made by `fleetglass scaling render`: change its file, not this one.\n"
    return head + "---\n".join(manifest.dump(each) for each in made)


def rule_file(scalings: Iterable[Scaling], context: Context) -> str:
    """The rules alone, as a file for vmalert or Prometheus."""
    head = "For vmalert or Prometheus, made by `fleetglass scaling render`: change its file, not this one."
    return manifest.dump({"groups": [rules(scaling, context) for scaling in scalings]}, head)


def _name(scaling: Scaling) -> str:
    return scaling.workload or scaling.group.name


def _sentence(error: msgspec.ValidationError) -> str:
    """What msgspec says, with the place first: ``slo: Expected `float`, got `str```."""
    said, _, place = str(error).partition(" - at `$.")
    return f"{place.rstrip('`')}: {said}" if place else said
