"""A YAML document as plain values that still knows on which line each of them stands."""

from __future__ import annotations

import re
from typing import Any

import yaml


class Unreadable(ValueError):
    """A document that YAML takes and that can't be meant; the text names file and line."""


class Document:
    """A YAML document as plain values, and the line of each by its path as msgspec writes it (``$.services[0]``)."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._lines: dict[str, int] = {}
        self._loader = yaml.SafeLoader("")

    def plain(self, node: yaml.Node, path: str = "$", depth: int = 0) -> Any:
        """What ``node`` means. Raises Unreadable for a key that comes twice, where YAML would keep the last."""
        if depth > 20:  # an anchor may hold itself
            raise Unreadable(f"{self.name}:{node.start_mark.line + 1}: this is nested too deep")
        self._lines[path] = node.start_mark.line + 1
        if isinstance(node, yaml.SequenceNode):
            return [self.plain(child, f"{path}[{index}]", depth + 1) for index, child in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode):
            made: dict[Any, Any] = {}
            for key, child in node.value:
                if not isinstance(key, yaml.ScalarNode):
                    raise Unreadable(f"{self.name}:{key.start_mark.line + 1}: a key must be a word")
                if key.value in made:
                    raise Unreadable(f"{self.name}:{key.start_mark.line + 1}: {key.value} stands here twice")
                made[key.value] = self.plain(child, f"{path}.{key.value}", depth + 1)
                self._lines[f"{path}.{key.value}"] = key.start_mark.line + 1
            return made
        try:
            return self._loader.construct_object(node)
        except (yaml.YAMLError, ValueError):  # a tag of somebody else's, or a date that no calendar has
            raise Unreadable(f"{self.name}:{node.start_mark.line + 1}: this is no plain value") from None

    def line(self, path: str) -> int:
        """The line of ``path``, or of what is nearest around it."""
        while path not in self._lines and path != "$":
            path = re.sub(r"(\.[^.\[]+|\[[^\]]*\])$", "", path)
        return self._lines.get(path, 1)
