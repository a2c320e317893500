"""Looking through configurations of any shape: mappings at all depths, environments, images with their arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from telemetry.grafana.lint.documents import Document, Place

_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")


def mappings(place: Place) -> Iterator[Place]:
    """Every mapping at or below ``place``, outer ones first."""
    data = place.value
    if isinstance(data, dict):
        yield place
        for key, value in data.items():
            if isinstance(value, (dict, list)):
                yield from mappings(place / key)
    elif isinstance(data, list):
        for index, value in enumerate(data):
            if isinstance(value, (dict, list)):
                yield from mappings(place / index)


def listed(value: Any) -> list[Any]:
    """``value`` if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


class Variable(msgspec.Struct, frozen=True):
    """An environment variable; a value from a secret is written ``secret:name/key``."""

    name: str
    value: str
    place: Place


def environment(place: Place) -> Iterator[Variable]:
    """The environment that a mapping gives under ``environment``, ``env`` or ``extraEnv``, in any of the three ways."""
    for key in ("environment", "env", "extraEnv", "envValueFrom"):
        data = place.value.get(key)
        if isinstance(data, dict):
            for name, value in data.items():
                if isinstance(name, str) and _VARIABLE.fullmatch(name):
                    yield Variable(name, _given(value), place / key / name)
        elif isinstance(data, list):
            for index, item in enumerate(data):
                at = place / key / index
                if isinstance(item, str):
                    name, _, value = item.partition("=")
                    yield Variable(name, value, at)
                elif isinstance(item, dict) and isinstance(item.get("name"), str):
                    yield Variable(item["name"], _given(item.get("value", item.get("valueFrom"))), at)


def _given(value: Any) -> str:
    if isinstance(value, dict):
        inner = value.get("valueFrom", value)
        reference = inner.get("secretKeyRef") if isinstance(inner, dict) else None
        if isinstance(reference, dict):
            return f"secret:{reference.get('name')}/{reference.get('key')}"
        return f"reference:{sorted(map(str, value))}"
    return "" if value is None else str(value)


class Container(msgspec.Struct, frozen=True):
    """Something that runs an image: a service of compose, a container of a pod, a block of Helm values.

    ``image`` is empty where the values name only a tag. ``arguments`` is everything on its command line, parted by
    blanks, and arguments given as a mapping are written ``-name=value``.
    """

    image: str
    tag: str
    arguments: str
    place: Place


def containers(document: Document) -> Iterator[Container]:
    """Everything in ``document`` that names an image, or arguments to one."""
    for place in mappings(Place(document)):
        data = place.value
        image = data.get("image")
        arguments = _arguments(data)
        if isinstance(image, str) and "/" in image + "/" and not image.startswith("{{"):
            name, tag = _split(image)
            yield Container(name, tag, arguments, place)
        elif isinstance(image, dict) and ({"repository", "tag"} & image.keys()):
            yield Container(str(image.get("repository") or ""), str(image.get("tag") or ""), arguments, place)
        elif isinstance(data.get("extraArgs"), dict) or isinstance(data.get("storagePath"), str):
            yield Container("", "", arguments, place)


def _split(image: str) -> tuple[str, str]:
    name, _, digest = image.partition("@")
    head, _, last = name.rpartition("/")
    last, _, tag = last.partition(":")
    return (f"{head}/{last}" if head else last), tag or digest


def _arguments(data: dict[str, Any]) -> str:
    parts: list[str] = []
    for key in ("entrypoint", "command", "args", "extraArgs"):
        value = data.get(key)
        if isinstance(value, str):
            parts.append(value)
        elif isinstance(value, list):
            parts += map(str, value)
        elif isinstance(value, dict):
            parts += (
                f"-{name}={str(each).lower() if isinstance(each, bool) else each}" for name, each in value.items()
            )
    return " ".join(parts)
