"""Queries, panels and dashboards as records, apart from the files that Grafana reads.

An expression may hold ``${name}`` for a value that is known where it is rendered (a dashboard's variable, the service
of an alert) and the macros of Grafana: ``$__auto``, ``$__range``, ``$__rate_interval``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, Literal

import msgspec

Language = Literal["logql", "promql", "traceql"]
Shape = Literal["lines", "series", "table", "traces"]
Colour = Literal["green", "yellow", "orange", "red", "blue", "purple", "text"]
Source = Literal["metrics", "logs", "traces"]

MACROS: Final = ("__auto", "__range", "__rate_interval")
SOURCES: Final[dict[Language, Source]] = {"promql": "metrics", "logql": "logs", "traceql": "traces"}
"""The datasource variable that each language asks."""

_PLACE = re.compile(r"\$\{(\w+)\}|\$(__[a-z_]+)")


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """One query and what its answer is.

    ``shape`` says what comes back: log ``lines``, ``series`` over time, a ``table`` of values at the end of the
    range (an instant query), or ``traces``. ``stays_empty`` marks a canary: whatever it finds is a fault of ours.
    ``rests_at_zero`` marks what an error panel asks: 0 while all is well, and empty only where nobody tells any more.
    ``about`` is one sentence on what the answer says, ``legend`` how a series is named, with ``{{label}}`` in it.
    """

    name: str
    language: Language
    expression: str
    shape: Shape
    about: str
    legend: str = ""
    stays_empty: bool = False
    rests_at_zero: bool = False

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
    ``metric, label``; the metric may be a selector with other variables in it), or ``text`` to be typed.
    ``default`` is chosen at first; all values where it is ``.+``, or ``.*`` for a label that some series lack.
    """

    name: str
    kind: Literal["datasource", "labels", "text"]
    title: str
    choices: str = ""
    default: str = ""


class Step(msgspec.Struct, frozen=True):
    """A threshold: ``colour`` from the value ``at`` on, from the lowest where it is None."""

    colour: Colour
    at: float | None = None


class Meaning(msgspec.Struct, frozen=True):
    """A value that stands for a word: 1 for *up*."""

    value: str
    text: str
    colour: Colour


class Explore(msgspec.Struct, frozen=True):
    """A click on a series leads to Explore, with ``expression`` on the datasource ``source``, over the time shown.

    The expression may hold ``${__field.labels.name}`` for a label of the series, ``${__data.fields.Name}`` for a
    column of a table's row, and the dashboard's variables.
    """

    title: str
    source: Source
    expression: str


class Jump(msgspec.Struct, frozen=True):
    """A click on a series leads to the dashboard ``uid``, over the time shown; ``values`` are its variables."""

    title: str
    uid: str
    values: Mapping[str, str] = {}


Link = Explore | Jump


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """A column of a table, in reading order. ``field`` is a label, or the name of a query for its values."""

    field: str
    title: str
    unit: str = ""
    decimals: int | None = None
    steps: tuple[Step, ...] = ()
    meanings: tuple[Meaning, ...] = ()
    links: tuple[Link, ...] = ()


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    """A panel. ``id`` stays the same for good, since links and images name it.

    ``description`` says what is shown, what is normal, and what to do when it isn't. ``unit`` is Grafana's name of
    one, ``no_value`` what stands there when there is nothing. ``least`` and ``most`` are where the axis ends,
    ``reach`` where it ends at the earliest, so that a ripple does not fill the panel.
    ``steps`` colour a value, ``meanings`` word it. ``columns`` are a table's, the worst first by the one that is
    titled ``sorted_by``; labels without a column are hidden.
    ``states`` draws each series as a band of its ``meanings`` over time.
    ``stacked`` fills the areas and puts one on the other. ``width`` counts 24ths of the page, ``height`` cells; 0 is
    what the kind needs.
    """

    id: int
    title: str
    kind: Literal["stat", "timeseries", "states", "table", "logs", "traces"]
    description: str
    queries: tuple[Query, ...]
    unit: str = "short"
    decimals: int | None = None
    no_value: str = "0"
    least: float | None = 0
    most: float | None = None
    reach: float | None = None
    steps: tuple[Step, ...] = ()
    meanings: tuple[Meaning, ...] = ()
    links: tuple[Link, ...] = ()
    columns: tuple[Column, ...] = ()
    sorted_by: str = ""
    stacked: bool = False
    width: int = 12
    height: int = 0

    @property
    def source(self) -> Source:
        """The datasource variable that all its queries ask."""
        return SOURCES[self.queries[0].language]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """Panels under a heading; ``collapsed`` ones are asked for only when opened. ``about``: what it answers."""

    title: str
    panels: tuple[Panel, ...]
    collapsed: bool = False
    about: str = ""


class Dashboard(msgspec.Struct, frozen=True, kw_only=True):
    """A dashboard; ``uid`` is its address for good. ``description`` is the question that it answers."""

    uid: str
    title: str
    description: str
    tags: tuple[str, ...]
    variables: tuple[Variable, ...]
    rows: tuple[Row, ...]
    span: str = "3h"

    @property
    def panels(self) -> Iterator[Panel]:
        """All panels, in reading order."""
        return (panel for row in self.rows for panel in row.panels)

    @property
    def queries(self) -> Iterator[Query]:
        """All queries, in reading order; one that stands in two panels comes twice."""
        return (query for panel in self.panels for query in panel.queries)
