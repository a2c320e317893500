"""Queries, panels and dashboards as records, apart from the files that Grafana and vmalert read.

An expression may hold ``${name}`` for a value that is known where it is rendered (a dashboard's variable, the service
of an alert) and the macros of Grafana: ``$__auto``, ``$__range``, ``$__rate_interval``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, Literal

import msgspec

Language = Literal["logql", "promql"]
Shape = Literal["lines", "series", "table"]

MACROS: Final = ("__auto", "__range", "__rate_interval")

_PLACE = re.compile(r"\$\{(\w+)\}|\$(__[a-z_]+)")


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """One query and what its answer is.

    ``shape`` says what comes back: log ``lines``, ``series`` over time, or a ``table`` of values at the end of the
    range (an instant query). ``stays_empty`` marks a canary: whatever it finds is a fault of ours. ``about`` is one
    sentence on what the answer says, ``legend`` how a series is named, with ``{{label}}`` in it.
    """

    name: str
    language: Language
    expression: str
    shape: Shape
    about: str
    legend: str = ""
    stays_empty: bool = False

    @property
    def places(self) -> frozenset[str]:
        """Names of the variables and macros in the expression."""
        return frozenset(match[1] or match[2] for match in _PLACE.finditer(self.expression))

    def filled(self, values: Mapping[str, str]) -> str:
        """The expression with ``values`` in its places; KeyError for one that is missing.

        Values go in as they are: whoever renders for people quotes what they may type.
        """
        return _PLACE.sub(lambda match: values[match[1] or match[2]], self.expression)


class Variable(msgspec.Struct, frozen=True, kw_only=True):
    """What the reader of a dashboard chooses.

    ``kind``: a ``datasource`` (``choices`` is its type), the ``labels`` of a metric (``choices`` is
    ``metric, label``), or ``text`` to be typed. ``default`` is chosen at first; all values where it is ``.+``.
    """

    name: str
    kind: Literal["datasource", "labels", "text"]
    title: str
    choices: str = ""
    default: str = ""


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    """A panel. ``id`` stays the same for good, since links and images name it.

    ``description`` says what is shown, what is normal, and what to do when it isn't. ``unit`` is Grafana's name of
    one, ``no_value`` what stands there when there is nothing. ``width`` counts 24ths of the page.
    """

    id: int
    title: str
    kind: Literal["stat", "timeseries", "table", "logs"]
    description: str
    queries: tuple[Query, ...]
    unit: str = "short"
    no_value: str = "0"
    width: int = 12


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """Panels under a heading; ``collapsed`` ones are asked for only when opened."""

    title: str
    panels: tuple[Panel, ...]
    collapsed: bool = False


class Dashboard(msgspec.Struct, frozen=True, kw_only=True):
    """A dashboard; ``uid`` is its address for good."""

    uid: str
    title: str
    description: str
    tags: tuple[str, ...]
    variables: tuple[Variable, ...]
    rows: tuple[Row, ...]

    @property
    def panels(self) -> Iterator[Panel]:
        """All panels, in reading order."""
        return (panel for row in self.rows for panel in row.panels)

    @property
    def queries(self) -> Iterator[Query]:
        """All queries, in reading order; one that stands in two panels comes twice."""
        return (query for panel in self.panels for query in panel.queries)
