"""Writes what was measured: ``results.json``, the table in ``README.md``, and the chart."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import msgspec

from tests.bench.results import Bench, Results, Row, Table, Target

if TYPE_CHECKING:
    from pathlib import Path

    from tests.bench.rounds import Spread

INTRO = """# Benchmarks

Written by `make bench`; run it to get your own. Every variant of a bench runs in the same go, in short rounds
that take turns, and is compared within a round only; shown is the median over rounds with the lowest and the
highest. Figures wander with the machine, ratios hold. What reading a queue of ten million jobs costs is on
[a page of its own](fleet.md).

![Each bench's first table as bars](chart.svg)
"""


def write(results: Results, folder: Path) -> None:
    """``results.json``, ``README.md`` and ``chart.svg`` in ``folder``, replacing what is there."""
    folder.mkdir(parents=True, exist_ok=True)
    encoded = msgspec.json.format(msgspec.json.encode(results), indent=1)
    (folder / "results.json").write_bytes(encoded + b"\n")
    (folder / "README.md").write_text(page(results), encoding="utf-8")
    (folder / "chart.svg").write_text(chart(results), encoding="utf-8")


def read(folder: Path) -> Results | None:
    """The results of an earlier run, so that ``--only`` replaces its own benches and keeps the others."""
    path = folder / "results.json"
    return msgspec.json.decode(path.read_bytes(), type=Results) if path.exists() else None


def page(results: Results) -> str:
    """The whole README."""
    versions = ", ".join(f"{name} {version}" for name, version in results.versions.items())
    parts = [INTRO, f"Python {results.python}; {versions}.\n", *map(section, results.benches.values())]
    return "\n".join(parts)


def section(bench: Bench) -> str:
    """One bench as Markdown."""
    lines = [f"## {bench.key} {bench.title}", "", bench.how, ""]
    for table in bench.tables:
        lines += [*_markdown(table), ""]
    if bench.targets:
        lines += ["| target | bound | measured | |", "|---|---|---|---|"]
        lines += [_target(target) for target in bench.targets] + [""]
    if bench.ledger:
        lines += [
            "| ledger | signal | emitted | = delivered | + dropped | + pending | the receiver counted | kept by |",
            "|---|---|--:|--:|--:|--:|--:|---|",
        ]
        lines += [
            f"| {row.variant} | {row.signal} | {row.emitted:,} | {row.delivered:,} | {row.dropped:,} | {row.pending:,}"
            f" | {row.received:,} | {'the library' if row.kept_by == 'own' else 'us, from what arrived'} |"
            for row in bench.ledger
        ]
        lines.append("")
    lines += [*bench.notes, ""] if bench.notes else []
    lines += [f"{bench.date}, {bench.seconds:.0f} s, {bench.machine}, load average at the start {bench.load:.1f}.", ""]
    return "\n".join(lines)


def _markdown(table: Table) -> list[str]:
    ratio = f" {table.ratio} |" if table.ratio else ""
    lines = [f"| {table.title} | {table.unit} |{ratio}", "|---|--:|" + ("--:|" if ratio else "")]
    for row in table.rows:
        cells = [row.variant, told(row.value)]
        if ratio:
            cells.append(told(row.ratio) if row.ratio else "")
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _target(target: Target) -> str:
    unit = f" {target.unit}" if target.unit else ""
    verdict = "met" if target.met else "**not met**"
    return f"| {target.what} | {target.sense} {target.bound:g}{unit} | {number(target.measured)}{unit} | {verdict} |"


def told(spread: Spread) -> str:
    """``median (low–high)``, or the value alone where there is nothing between."""
    if spread.low == spread.high:
        return number(spread.median)
    return f"{number(spread.median)} ({number(spread.low)}–{number(spread.high)})"


def number(value: float) -> str:
    """Three figures that count, thousands separated: 0.291, 2.94, 41.6, 9,412."""
    size = abs(value)
    if size >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 10 else f"{value:.2f}" if size >= 1 else f"{value:.3f}"


WIDTH, LEFT, BAR, GAP, VALUE = 860, 380, 18, 8, 150
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1f2933}.title{font-weight:600;font-size:14px}.small{fill:#52606d;"
    "font-size:12px}.value{font-variant-numeric:tabular-nums}"
)


def chart(results: Results) -> str:
    """Each bench's charted table as horizontal bars with the range of its rounds; no dependency, plain SVG."""
    parts: list[str] = []
    y = 24.0
    for bench in results.benches.values():
        for table in bench.tables:
            if table.chart:
                panel, height = _panel(bench, table, y)
                parts += panel
                y += height + 22
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y:.0f}" width="{WIDTH}" height="{y:.0f}"'
        f' role="img" aria-label="Benchmarks">\n<style>{STYLE}</style>\n'
        f'<rect width="{WIDTH}" height="{y:.0f}" fill="#ffffff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _panel(bench: Bench, table: Table, y: float) -> tuple[list[str], float]:
    sense = "longer is better" if table.better == "more" else "shorter is better"
    parts = [
        f'<text class="title" x="16" y="{y:.0f}">{escape(f"{bench.key} {bench.title}")}</text>',
        f'<text class="small" x="16" y="{y + 17:.0f}">{escape(f"{table.title} ({table.unit}), {sense}")}</text>',
    ]
    scale = (WIDTH - LEFT - VALUE) / max(row.value.high for row in table.rows)
    top = y + 28
    for position, row in enumerate(table.rows):
        parts += _bar(table, row, top + position * (BAR + GAP), scale)
    return parts, 28 + len(table.rows) * (BAR + GAP)


def _bar(table: Table, row: Row, y: float, scale: float) -> list[str]:
    own = row.variant.startswith(("fleetglass", "`import telemetry`", "…"))
    middle, value = y + BAR / 2, row.value
    low, high = (LEFT + max(0.0, edge) * scale for edge in (value.low, value.high))
    fill = "#2166ac" if own else "#b8c4ce"
    whiskers = f"M{low:.1f} {middle:.1f}H{high:.1f}M{low:.1f} {middle - 4:.1f}v8M{high:.1f} {middle - 4:.1f}v8"
    label = number(value.median) + (f"  ({number(row.ratio.median)}×)" if row.ratio else f" {table.unit}")
    return [
        f'<text x="{LEFT - 10}" y="{middle + 4:.1f}" text-anchor="end">{escape(row.variant.replace("`", ""))}</text>',
        f'<rect x="{LEFT}" y="{y:.1f}" width="{max(1.0, value.median * scale):.1f}" height="{BAR}" fill="{fill}"/>',
        f'<path d="{whiskers}" stroke="#1f2933" fill="none"/>',
        f'<text class="value" x="{high + 8:.1f}" y="{middle + 4:.1f}">{escape(label)}</text>',
    ]
