"""Parts of selectors that several alerts write."""

from __future__ import annotations

from collections.abc import Iterable


def one_of(names: Iterable[str]) -> str:
    """A pattern for a PromQL string that matches each of ``names`` and nothing else.

    Of what a name may hold, only the dot means something in a pattern; in a PromQL string a backslash is two.
    """
    return "|".join(name.replace(".", "\\\\.") for name in names)
