"""The dashboards that come with the package, as files: read, never made, so that no builder is needed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec


class Document(msgspec.Struct, frozen=True):
    """A dashboard in classic JSON: its ``uid`` and ``title``, the text as it stands in its file, and what it says."""

    uid: str
    title: str
    text: str
    model: dict[str, Any]


class DocumentError(ValueError):
    """A file is no dashboard; the message names it and says why."""


def document(text: str, where: str) -> Document:
    """The dashboard that ``text`` holds. Raises DocumentError, which names ``where``."""
    try:
        model = json.loads(text)
    except ValueError as error:
        raise DocumentError(f"{where} is not JSON: {error}") from None
    if not isinstance(model, dict) or "panels" not in model:
        raise DocumentError(f"{where} is no dashboard in classic JSON: it has no panels at its top")
    uid, title = model.get("uid"), model.get("title")
    if not isinstance(uid, str) or not uid or not isinstance(title, str) or not title:
        raise DocumentError(f"{where} has no uid or no title; without a uid every import would make another copy")
    return Document(uid, title, text, model)


def shipped() -> tuple[Document, ...]:
    """Our own dashboards, by uid."""
    folder = files("telemetry.grafana") / "dashboards"
    found = (document(each.read_text("utf-8"), each.name) for each in folder.iterdir() if each.name.endswith(".json"))
    return tuple(sorted(found, key=lambda each: each.uid))


def given(paths: Iterable[str]) -> tuple[Document, ...]:
    """The dashboards in files of the user's. Raises DocumentError, also for a uid that comes twice."""
    by_uid: dict[str, tuple[str, Document]] = {}
    for path in paths:
        try:
            text = Path(path).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise DocumentError(f"{path} can't be read: {error}") from None
        found = document(text, path)
        if found.uid in by_uid:
            raise DocumentError(f"{path} and {by_uid[found.uid][0]} have the same uid, {found.uid}")
        by_uid[found.uid] = (path, found)
    return tuple(each for _, each in by_uid.values())
