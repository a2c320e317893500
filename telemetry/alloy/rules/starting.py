"""What Alloy refuses only when it starts, when it builds a component from settings that each look right."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from telemetry.alloy.finding import Findings
from telemetry.alloy.frames import Frame, follow, texts, truth, values_at
from telemetry.alloy.program import Node
from telemetry.alloy.schema import Shape
from telemetry.alloy.syntax import Attribute, Block, Literal, Object, Position, Unary

_LOGINS = frozenset({"basic_auth", "authorization", "oauth2", "bearer_token", "bearer_token_file"})
_ONE_OF_TWO = (
    ("password", "password_file"),
    ("credentials", "credentials_file"),
    ("client_secret", "client_secret_file"),
    ("ca_pem", "ca_file"),
    ("cert_pem", "cert_file"),
    ("key_pem", "key_file"),
)


def check(frames: Iterable[Frame], found: Findings) -> None:
    """Judge the settings of every component, with the arguments that modules were given."""
    for frame in frames:
        for node in frame.scope.all():
            if node.spec is not None:
                _exclusive(node.block, node.spec.shape, node.block.title, found)
            if node.block.name == "loki.process":
                _stages(node.block, node, frame, found)
            elif node.block.name == "otelcol.processor.memory_limiter":
                _memory_limiter(node, found)
            elif node.block.name == "otelcol.processor.batch":
                _batch(node, frame, found)


def _refuse(found: Findings, position: Position, message: str) -> None:
    found.error(position, "at-start", message)


# --- settings that exclude each other ---------------------------------------------------------------------


def _exclusive(block: Block, shape: Shape, title: str, found: Findings) -> None:
    """One way to log in, and each secret given once: in place or as a file."""
    written = {statement.name: statement for statement in block.body}
    logins = [name for name in written if name in _LOGINS]
    if {"basic_auth", "oauth2"} <= set(shape.blocks) and len(logins) > 1:
        place = written[logins[1]].position
        _refuse(found, place, f"{title} logs in by {' and by '.join(logins)}; keep one")
    for one, other in _ONE_OF_TWO:
        if one in written and other in written and {one, other} <= set(shape.attributes):
            _refuse(found, written[other].position, f"{title} has {one} and {other}; keep one")
    for statement in block.body:
        spec = shape.blocks.get(statement.name)
        if isinstance(statement, Block) and spec is not None:
            _exclusive(statement, spec.shape, f"{statement.name} of {title}", found)


# --- processors -------------------------------------------------------------------------------------------


def _memory_limiter(node: Node, found: Findings) -> None:
    title, place = node.block.title, node.block.position
    limits = [node.attribute(name) for name in ("limit", "limit_percentage")]
    if not any(limits):
        _refuse(found, place, f'{title} needs a limit: limit = "400MiB", or limit_percentage = 80')
    elif all(limits):
        _refuse(found, place, f"{title} has limit and limit_percentage; keep one")


def _batch(node: Node, frame: Frame, found: Findings) -> None:
    size, most = (_number(node.attribute(name), frame) for name in ("send_batch_size", "send_batch_max_size"))
    # Alloy's defaults, which differ from the collector's.
    size = 2000 if size is None else size
    most = 3000 if most is None else most
    if 0 < most < size:
        _refuse(
            found,
            node.block.position,
            f"{node.block.title}: send_batch_max_size ({most:g}) has to be at least send_batch_size ({size:g}), or 0",
        )


def _number(given: Attribute | None, frame: Frame) -> float | None:
    """A number that is written down, else None."""
    place = follow(given.value, frame) if given else None
    value = place.value if place is not None else None
    sign = 1.0
    if isinstance(value, Unary) and value.operator == "-":
        sign, value = -1.0, value.operand
    if isinstance(value, Literal) and isinstance(value.value, (int, float)) and not isinstance(value.value, bool):
        return sign * float(value.value)
    return None


# --- stages -----------------------------------------------------------------------------------------------


def _stages(block: Block, node: Node, frame: Frame, found: Findings) -> None:
    for stage in block.body:
        if isinstance(stage, Block) and stage.name.startswith("stage."):
            judge = _JUDGES.get(stage.name)
            for position, message in judge(stage, frame) if judge else ():
                _refuse(found, position, f"{stage.name} of {node.block.title} {message}")
            if stage.name == "stage.limit" and not any(_drops(stage, frame)):
                found.notice(
                    stage.position,
                    "at-start",
                    f"stage.limit of {node.block.title} without drop = true holds back the whole pipeline instead of "
                    "dropping lines",
                )
            _stages(stage, node, frame, found)


def _limit(stage: Block, frame: Frame) -> Iterator[tuple[Position, str]]:
    for name in ("rate", "burst"):
        for given in values_at(stage, name):
            number = _number(given, frame)
            if number is not None and number <= 0:
                yield given.value.position, f"needs a {name} above 0"
    if any(values_at(stage, "by_label_name")) and not any(_drops(stage, frame)):
        yield stage.position, "by label can only drop: add drop = true"


def _tenant(stage: Block, frame: Frame) -> Iterator[tuple[Position, str]]:
    if sum(any(values_at(stage, name)) for name in ("source", "value", "label")) != 1:
        yield stage.position, "takes exactly one of source, value and label"


def _parsed(stage: Block, frame: Frame) -> Iterator[tuple[Position, str]]:
    name = "expressions" if stage.name == "stage.json" else "mapping"
    if not _filled(stage, name, frame) and not any(values_at(stage, "regex")):
        yield stage.position, f'reads nothing: give it {name} = {{"field" = ""}}, or a regex'


def _sampling(stage: Block, frame: Frame) -> Iterator[tuple[Position, str]]:
    for given in values_at(stage, "rate"):
        number = _number(given, frame)
        if number is not None and not 0 <= number <= 1:
            yield given.value.position, "needs a rate between 0 and 1"


def _drop(stage: Block, frame: Frame) -> Iterator[tuple[Position, str]]:
    has = {statement.name for statement in stage.body}
    if not has & {"source", "expression", "older_than", "longer_than"}:
        yield stage.position, "says nothing to drop: give it source, expression, older_than or longer_than"
    elif {"value", "expression"} <= has:
        yield stage.position, "has value and expression; keep one"
    elif "value" in has and "source" not in has:
        yield stage.position, "has a value and needs the source to compare it with"


def _match(stage: Block, frame: Frame) -> Iterator[tuple[Position, str]]:
    actions = [text.text for given in values_at(stage, "action") for text in texts(given.value, frame)]
    action = actions[0] if actions else "keep"
    stages = [inner for inner in stage.body if isinstance(inner, Block)]
    if action not in {"keep", "drop", ""}:
        yield stage.position, f'takes the actions keep and drop, not "{action}"'
    elif action == "drop" and stages:
        yield stages[0].position, "drops what it matches, so that it can't have stages"
    elif action != "drop" and not stages:
        yield stage.position, 'does nothing: give it stages, or action = "drop"'
    for given in values_at(stage, "selector"):
        for text in texts(given.value, frame):
            if not text.text.strip().startswith("{"):
                yield text.position, 'needs a selector in braces, as {service_name="shop"} |= "error"'


def _drops(stage: Block, frame: Frame) -> Iterator[bool]:
    """True where lines are dropped, or where that is only known at run time."""
    for given in values_at(stage, "drop"):
        yield truth(given.value, frame) is not False


def _filled(stage: Block, name: str, frame: Frame) -> bool:
    """Whether an object has fields, as far as it is written down."""
    for given in values_at(stage, name):
        place = follow(given.value, frame)
        if place is None or not isinstance(place.value, Object) or place.value.fields:
            return True
    return False


_JUDGES = {
    "stage.drop": _drop,
    "stage.limit": _limit,
    "stage.match": _match,
    "stage.tenant": _tenant,
    "stage.json": _parsed,
    "stage.logfmt": _parsed,
    "stage.sampling": _sampling,
}
