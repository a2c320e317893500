"""YAML that we write for others to read: the same content is the same bytes, and a diff shows what changed.

Keys stand in the order in which they were given, lists stand in from their key, a text of several lines is a block,
long lines stay whole, and nothing is an anchor: equal parts are written out each time.
"""

from __future__ import annotations

from typing import Any

import yaml


def dump(content: Any, head: str = "") -> str:
    """``content`` as one YAML document, under the lines of ``head`` as comments."""
    body: str = yaml.dump(
        content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=1_000_000
    )
    return "".join(f"# {line}\n" for line in head.splitlines()) + body


class _Dumper(yaml.SafeDumper):
    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """One step in; never without one."""
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        """True: nothing is an anchor."""
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)
