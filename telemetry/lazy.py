"""Public names that are fetched on first use (PEP 562): a package costs nothing until somebody needs what it brings."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def names(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` for the module ``package``; ``homes`` says in which module each name lives.

    Assign them under ``if not TYPE_CHECKING``: a type checker then still sees a misspelt name.
    """

    def fetch(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(home), name)
        setattr(sys.modules[package], name, value)
        return value

    return fetch, lambda: sorted(homes)
