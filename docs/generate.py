"""Write ``docs/reference/``, ``docs/alloy/`` and the example stack, each from the table, code or module it describes.

Deterministic: the same code gives the same bytes on every Python, so that a test can compare the
committed pages (``tests/unit/test_house.py``).
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import itertools
import types
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGES = Path("docs/reference")
ALLOY_PAGES = Path("docs/alloy")
ALLOY_MODULES = Path("alloy/modules")

# Public modules, in the order a reader meets them. Their ``__all__`` is the public API.
PUBLIC = ("telemetry", "telemetry.web", "telemetry.worker", "telemetry.agent", "telemetry.testing", "ingest")

_NOTE = "<!-- Written by `make docs` from {source}; do not edit. -->\n\n"


def public_modules() -> list[str]:
    """Those of ``PUBLIC`` that exist and say what is public; later ones come with the parts that they belong to."""
    found = [name for name in PUBLIC if importlib.util.find_spec(name) is not None]
    return [name for name in found if hasattr(importlib.import_module(name), "__all__")]


def public_names() -> dict[str, list[str]]:
    """Public names by module, as ``__all__`` gives them, sorted."""
    return {name: sorted(importlib.import_module(name).__all__) for name in public_modules()}


def cell(text: str) -> str:
    """Text for one cell of a Markdown table."""
    return " ".join(text.split()).replace("|", "\\|")


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    head = list(head)
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    lines += ["| " + " | ".join(cell(value) for value in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def annotation(value: object) -> str:
    """A type as it stands in the source."""
    if isinstance(value, str):
        return value
    if isinstance(value, type):
        return value.__name__
    return str(value).replace("typing.", "").replace("collections.abc.", "")


def default(value: object) -> str:
    """A default as text; what prints as an address or differs by machine becomes an ellipsis."""
    plain = value is None or isinstance(value, bool | int | float | str | tuple)
    return repr(value) if plain else "{}" if isinstance(value, Mapping) and not value else "..."


def signature(name: str, called: object) -> str:
    """``name(arguments) -> result``, one line when it fits and one argument a line when it doesn't."""
    try:
        found = inspect.signature(called)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return f"{name}(...)"
    parts: list[str] = []
    positional_only = keyword_only = False
    parameters = [each for each in found.parameters.values() if each.name not in {"self", "cls"}]
    for each in parameters:
        if positional_only and each.kind is not each.POSITIONAL_ONLY:
            positional_only = False
            parts.append("/")
        positional_only = positional_only or each.kind is each.POSITIONAL_ONLY
        if each.kind is each.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            if not any(other.kind is other.VAR_POSITIONAL for other in parameters):
                parts.append("*")
        if each.kind is each.VAR_POSITIONAL:
            keyword_only = True
        star = "*" if each.kind is each.VAR_POSITIONAL else "**" if each.kind is each.VAR_KEYWORD else ""
        text = f"{star}{each.name}"
        typed = each.annotation is not each.empty
        if typed:
            text += f": {annotation(each.annotation)}"
        if each.default is not each.empty:
            text += f" = {default(each.default)}" if typed else f"={default(each.default)}"
        parts.append(text)
    if positional_only:
        parts.append("/")
    result = "" if found.return_annotation is found.empty else f" -> {annotation(found.return_annotation)}"
    name = f"async {name}" if inspect.iscoroutinefunction(called) else name
    line = f"{name}({', '.join(parts)}){result}"
    if len(line) <= 100:
        return line
    return f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){result}"


def first_paragraph(value: object) -> str:
    """The first paragraph of a docstring, as Markdown; empty when there is none."""
    text = inspect.getdoc(value) or ""
    paragraph = text.split("\n\n", 1)[0]
    return " ".join(paragraph.split()).replace("``", "`")


def own_doc(value: Any) -> str:
    """The docstring that a name brings itself: a class's inherited one does not count."""
    if inspect.isclass(value):
        return "" if value.__dict__.get("__doc__") is None else first_paragraph(value)
    return first_paragraph(value)


def members(value: type) -> Iterable[tuple[str, str, str]]:
    """Public methods and properties that a class defines itself: kind, signature, first paragraph."""
    for name, member in vars(value).items():
        if name.startswith("_"):
            continue
        if isinstance(member, property):
            result = inspect.signature(member.fget).return_annotation if member.fget else Any
            yield name, f"{name}: {annotation(result)}", first_paragraph(member)
        elif isinstance(member, classmethod | staticmethod):
            yield name, signature(name, getattr(value, name)), first_paragraph(member.__func__)
        elif inspect.isfunction(member):
            yield name, signature(name, member), first_paragraph(member)


def attributes(value: type) -> Iterable[str]:
    """The ``Attributes:`` section of a class's docstring as a list; a long entry goes on in indented lines."""
    section = (inspect.getdoc(value) or "").partition("\nAttributes:\n")[2].partition("\n\n")[0]
    found: list[str] = []
    for line in section.splitlines():
        text = line.removeprefix("    ")
        if text.startswith(" ") and found:
            found[-1] += " " + text.strip()
        else:
            name, _, meaning = text.partition(": ")
            found.append(f"- `{name}`: {meaning}".replace("``", "`"))
    return found


def describe(module: str, name: str) -> str:
    """One public name as a section."""
    value = getattr(importlib.import_module(module), name)
    lines = [f"### `{module}.{name}`", ""]
    if inspect.isclass(value):
        problem = issubclass(value, BaseException)
        shape = f"class {name}({value.__bases__[0].__name__})" if problem else signature(f"class {name}", value)
        if name == "Config":
            shape = "class Config"
        lines += ["```python", shape, "```", "", first_paragraph(value), ""]
        if name == "Config":
            lines += ["Its fields are the settings in [settings.md](settings.md).", ""]
        else:
            lines += attributes(value)
            lines += [
                f"- `{' '.join(shape.split())}`: {text}" if text else f"- `{' '.join(shape.split())}`"
                for _, shape, text in members(value)
            ]
            if lines[-1]:
                lines.append("")
    elif isinstance(value, types.UnionType):
        lines += [f"One of {', '.join(f'`{annotation(each)}`' for each in value.__args__)}.", ""]
    elif callable(value):
        shapes = [signature(name, each) for each in typing.get_overloads(value)] or [signature(name, value)]
        lines += ["```python", *shapes, "```", "", first_paragraph(value), ""]
    else:
        lines += [f"`{type(value).__name__}`", ""]
    return "\n".join(lines)


def api_page() -> str:
    """The public API: every public name with its signature and the first paragraph of its docstring."""
    parts = ["# Public API\n\n", _NOTE.format(source="the code"), "Everything else is internal and may change.\n\n"]
    for module, names in public_names().items():
        parts.append(f"## {module}\n\n{first_paragraph(importlib.import_module(module))}\n\n")
        parts += [describe(module, name) + "\n" for name in names]
    return "".join(parts).rstrip() + "\n"


def metrics_page() -> str:
    """Every metric of the catalogue, and what each label means."""
    from telemetry.catalogue import LABELS, METRICS

    rows = (
        (
            f"`{spec.name}`",
            spec.kind,
            spec.unit or "–",
            ", ".join(f"`{label}`" for label in spec.labels) or "–",
            spec.help,
            f"`{spec.origin}`",
        )
        for spec in METRICS.values()
    )
    buckets = (
        (f"`{spec.name}`", ", ".join(f"{bound:g}" for bound in spec.buckets))
        for spec in METRICS.values()
        if spec.buckets
    )
    return "".join(
        (
            "# Metrics\n\n",
            _NOTE.format(source="`telemetry/catalogue/`"),
            "Every metric that the project emits. Names are as queried; your own metrics in the default registry\n",
            "of prometheus-client appear beside them, untouched.\n\n",
            table(("name", "kind", "unit", "labels", "meaning", "from"), rows),
            "\n## Labels\n\n",
            table(("label", "meaning"), ((f"`{name}`", text) for name, text in LABELS.items())),
            "\n## Buckets\n\n",
            "Upper bounds; `+Inf` comes last.\n\n",
            table(("histogram", "bounds"), buckets),
        )
    )


def settings_page() -> str:
    """Every setting, grouped as in the table of settings."""
    from telemetry.config import SETTINGS

    parts = [
        "# Settings\n\n",
        _NOTE.format(source="`telemetry/config/`"),
        "An argument of `telemetry.setup` wins over an environment variable, and that over the default. What is\n",
        "wrong is reported together: `setup` raises one `ConfigError` that names every bad value and what was\n",
        "expected. `fleetglass config` prints what is in effect and where each value came from.\n\n",
        "An empty variable counts as unset. Kubernetes injects variables named after Services: those of a Service\n",
        "whose name begins with `fleetglass` are ignored, any other unknown `FLEETGLASS_*` name counts as a typo.\n\n",
        "`OTEL_*` variables keep their standard meaning, with two deviations: without an endpoint nothing is\n",
        "exported (the standard default is an endpoint on localhost), and a value that can't be used stops the\n",
        "start instead of being passed over with a warning.\n",
    ]
    for group in dict.fromkeys(setting.group for setting in SETTINGS):
        rows = (
            (
                f"`{setting.name}`",
                ", ".join(f"`{name}`" for name in setting.env),
                setting.kind.label,
                f"`{shown}`" if (shown := setting.show(setting.default)) else "–",
                setting.doc + (" Secret: never shown." if setting.secret else ""),
            )
            for setting in SETTINGS
            if setting.group == group
        )
        parts += [f"\n## {group}\n\n", table(("setting", "variable", "kind", "default", "meaning"), rows)]
    return "".join(parts)


def dashboards_page() -> str:
    """Every dashboard: its question, its rows and what each panel says."""
    from telemetry.grafana.boards import BOARDS

    parts = [
        "# Dashboards\n\n",
        _NOTE.format(source="`telemetry/grafana/boards/`"),
        "Every panel says what it shows, what is normal, and what to do when it isn't. How to use them is in\n",
        "[dashboards](../dashboards.md). A number is the panel's id, which links and images name.\n",
    ]
    for board in BOARDS:
        parts += [f"\n## {board.title}\n\n{board.description} Its uid is `{board.uid}`.\n"]
        for row in board.rows:
            rows = ((str(panel.id), panel.title, panel.description) for panel in row.panels)
            closed = " Closed until it is opened." if row.collapsed else ""
            parts += [f"\n### {row.title}\n\n{row.about}{closed}\n\n", table(("", "panel", "what it says"), rows)]
    return "".join(parts)


# What an export of a module is, by the family of the component that it comes from.
_ALLOY_EXPORTS = {
    "otelcol": "An input: takes what `otelcol` components send.",
    "loki": "A receiver: takes lines of `loki` components.",
    "prometheus": "A receiver: takes samples of `prometheus` components.",
    "discovery": "Targets, for what reads or scrapes them.",
}


def alloy_page(path: Path) -> str:
    """The page of one Alloy module: prose, and an example indented by a tab, from its comment; tables from blocks."""
    from telemetry.alloy.syntax import Attribute, Block, Identifier, Literal, children, parse

    text = (ROOT / path).read_text(encoding="utf-8")
    lines = text.splitlines()
    head = [line[2:].removeprefix(" ") for line in itertools.takewhile(lambda line: line.startswith("//"), lines)]
    prose = "\n".join(line for line in head if not line.startswith("\t")).strip()
    example = "\n".join(line[1:] for line in head if line.startswith("\t"))
    read = parse(text, str(path))
    (declare,) = (each for each in read.body if isinstance(each, Block) and each.name == "declare")
    arguments, exports = [], []
    for block in (each for each in declare.body if isinstance(each, Block)):
        given = {each.name: each for each in block.body if isinstance(each, Attribute)}
        if block.name == "argument":
            comment = given["comment"].value
            assert isinstance(comment, Literal), f"{path}: the comment of {block.title} is no plain text"
            written = lines[given["default"].position.line - 1].split("=", 1)[1].strip() if "default" in given else ""
            arguments.append((f"`{block.label}`", f"`{written}`" if written else "required", str(comment.value)))
        if block.name == "export":
            family = given["value"].value
            while not isinstance(family, Identifier):
                (family,) = children(family)
            exports.append((f"`fleetglass.{path.stem}.LABEL.{block.label}`", _ALLOY_EXPORTS[family.name]))
    parts = [
        f"# {path.stem}\n\n{_NOTE.format(source=f'`{path}`')}{prose}\n\n",
        f"```alloy\n{example}\n```\n\n## Arguments\n\n{table(('argument', 'default', 'meaning'), arguments)}\n",
        f"## Exports\n\n{table(('export', 'meaning'), exports)}\n" if exports else "",
        f"Its text is [{path}](../../{path}); [Alloy](../alloy.md) says how modules are brought in.\n",
    ]
    return "".join(parts)


def lint_page() -> str:
    """Every rule of ``fleetglass grafana lint``, by what it looks at."""
    from telemetry.grafana.lint.rulebook import RULES

    parts = [
        "# Rules of lint\n\n",
        _NOTE.format(source="`telemetry/grafana/lint/rulebook.py`"),
        "What `fleetglass grafana lint` asks for, and why. How to use it, and how to make exceptions, is in\n",
        "[linting](../grafana-lint.md). A rule from dashboard-linter is one of grafana/dashboard-linter 0.2.\n",
    ]
    for group in dict.fromkeys(rule.group for rule in RULES.values()):
        rows = (
            (f"`{rule.name}`", rule.level, rule.about, rule.why, rule.source or "–")
            for rule in RULES.values()
            if rule.group == group
        )
        parts += [f"\n## {group}\n\n", table(("rule", "level", "asks for", "why", "known from"), rows)]
    return "".join(parts)


def pages() -> dict[Path, str]:
    """Every generated page by its path in the repository."""
    modules = sorted((ROOT / ALLOY_MODULES).glob("*.alloy"))
    return {
        PAGES / "api.md": api_page(),
        PAGES / "dashboards.md": dashboards_page(),
        PAGES / "lint.md": lint_page(),
        PAGES / "metrics.md": metrics_page(),
        PAGES / "settings.md": settings_page(),
        **{ALLOY_PAGES / f"{each.stem}.md": alloy_page(each.relative_to(ROOT)) for each in modules},
    }


def examples() -> dict[Path, str]:
    """The example stack: for compose as `fleetglass stack` would write it, for Kubernetes what is made or copied."""
    from telemetry.grafana import datasources
    from telemetry.stack import composed

    cluster = datasources.Settings(
        metrics_url="http://victoriametrics.monitoring.svc:8428",
        logs_url="http://loki.monitoring.svc:3100",
        traces_url="http://tempo.monitoring.svc:3200",
    )
    kubernetes = Path("examples/kubernetes")
    return {
        **{Path("examples") / name: text for name, text in composed.example().items()},
        kubernetes / "grafana/datasources.yaml": datasources.text(cluster),
        # Kustomize reads nothing above its own folder.
        **{
            kubernetes / f"values/alloy-{name}.yaml": (ROOT / f"alloy/kubernetes/{name}.yaml").read_text("utf-8")
            for name in ("gateway", "node")
        },
    }


def main() -> None:
    """Write each file that has changed, and say so."""
    for path, text in {**pages(), **examples()}.items():
        file = ROOT / path
        file.parent.mkdir(parents=True, exist_ok=True)
        before = file.read_text(encoding="utf-8") if file.exists() else None
        if before != text:
            file.write_text(text, encoding="utf-8")
        print(f"{'unchanged' if before == text else 'written  '} {path}")


if __name__ == "__main__":
    main()
