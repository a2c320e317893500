"""Labels of log streams: few, and never a value for each request or user."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from telemetry.alloy.finding import Findings
from telemetry.alloy.frames import Frame, Target, follow, inner_blocks, leads, pieces, texts, values_at
from telemetry.alloy.program import Node
from telemetry.alloy.syntax import Attribute, Block, Literal, Object, Position

LOKI_LABELS = 15
"""Loki refuses a stream with more labels (``max_label_names_per_series``)."""

HIGH_CARDINALITY = frozenset(
    """
    trace_id traceid trace span_id spanid request_id requestid correlation_id session session_id sid
    user user_id userid username email mail account account_id customer_id workspace workspace_id
    url uri path query referrer referer href page page_url http_url http_target url_full url_path
    message msg line body error err exception stack stacktrace stack_trace reason fingerprint
    ip client_ip remote_addr remote_ip address token id uuid job_id run_id order_id
    timestamp time ts duration duration_ms latency elapsed bytes size user_agent useragent
    """.split()
)
"""Names of fields whose values are without end; each value would be a stream of its own."""

_FRONTEND = ("frontend-error", "frontend_error", "frontend error", "faro")
_MAX_STEPS = 500
_PARSERS = ("stage.logfmt", "stage.json", "stage.regex", "stage.pattern", "stage.unpack", "stage.template")


def check(frames: Iterable[Frame], found: Findings) -> None:
    """Payload labels in every pipeline, and the number of labels on every way from a source to Loki."""
    listed = list(frames)
    browsers = _behind_faro(listed)
    for frame in listed:
        for node in frame.scope.all():
            if node.block.name == "loki.process":
                frontend = node in browsers or _about_frontend(node, frame)
                _stages(node.block, node, frame, frontend=frontend, found=found)
            elif node.block.name in {"otelcol.processor.attributes", "otelcol.processor.resource"}:
                _hints(node, frame, found)
    for frame in listed:
        for node in frame.scope.all():
            if node.block.name.startswith("loki.source."):
                _walk(node, frame, _of_source(node, frame), found, set())


# --- payload ----------------------------------------------------------------------------------------------


def _behind_faro(frames: Iterable[Frame]) -> set[Node]:
    """What the lines of a faro.receiver pass through."""
    reached: set[Node] = set()
    waiting: list[Target] = []
    for frame in frames:
        for node in frame.scope.all():
            if node.block.name == "faro.receiver":
                waiting += [t for given in values_at(node.block, "output", "logs") for t in leads(given.value, frame)]
    while waiting:
        target = waiting.pop()
        if target.node not in reached:
            reached.add(target.node)
            forwarded = values_at(target.node.block, "forward_to")
            waiting += [further for given in forwarded for further in leads(given.value, target.frame)]
    return reached


def _about_frontend(node: Node, frame: Frame) -> bool:
    """Whether a pipeline is there for errors of browsers, by its name or its module's."""
    names = [node.block.label or ""]
    if frame.scope.declare is not None:
        names.append(frame.scope.declare.block.label or "")
    return any("frontend" in name for name in names)


def _stages(block: Block, node: Node, frame: Frame, *, frontend: bool, found: Findings) -> None:
    parsed = False
    for stage in block.body:
        if not isinstance(stage, Block):
            continue
        if stage.name in _PARSERS:
            parsed = True
        elif stage.name == "stage.match":
            selectors = [piece for given in values_at(stage, "selector") for piece in pieces(given.value, frame)]
            about = frontend or any(word in selector for selector in selectors for word in _FRONTEND)
            _stages(stage, node, frame, frontend=about, found=found)
        elif stage.name == "stage.labels":
            for label, source, position in _labels(stage, frame):
                _label(label, source, position, node, frontend=frontend, parsed=parsed, found=found)


def _labels(stage: Block, frame: Frame) -> Iterator[tuple[str, str, Position]]:
    """Label, the field it is taken from, and where it is written."""
    for given in values_at(stage, "values"):
        place = follow(given.value, frame)
        if place is not None and isinstance(place.value, Object):
            for field in place.value.fields:
                sources = [text.text for text in texts(field.value, place.frame)]
                yield field.name, next((source for source in sources if source), field.name), field.position


def _label(
    label: str, source: str, position: Position, node: Node, *, frontend: bool, parsed: bool, found: Findings
) -> None:
    plain = {name.lower().replace(".", "_").replace("-", "_") for name in (label, source)}
    if plain & HIGH_CARDINALITY:
        found.warning(
            position,
            "payload-label",
            f"{node.block.title} makes {source} a label, and so a stream for every value of it; "
            "keep it in the line, or use stage.structured_metadata",
        )
    elif frontend and parsed:
        found.warning(
            position,
            "payload-label",
            f"{node.block.title} makes {source} of a browser's error a label, which anybody with a browser can fill; "
            "keep it in the line, or use stage.structured_metadata",
        )


def _hints(node: Node, frame: Frame, found: Findings) -> None:
    """``loki.attribute.labels`` tells otelcol.exporter.loki which attributes become labels."""
    for action in inner_blocks(node.block.body, "action"):
        keys = [text.text for given in values_at(action, "key") for text in texts(given.value, frame)]
        if not {"loki.attribute.labels", "loki.resource.labels"} & set(keys):
            continue
        for given in values_at(action, "value"):
            for text in texts(given.value, frame):
                named = [name.strip() for name in text.text.split(",")]
                bad = [name for name in named if name.lower().replace(".", "_") in HIGH_CARDINALITY]
                for name in bad:
                    found.warning(
                        text.position,
                        "payload-label",
                        f"{node.block.title} makes {name} a label, and so a stream for every value of it; "
                        "leave it out, it stays in the line",
                    )


# --- how many ---------------------------------------------------------------------------------------------


def _of_source(node: Node, frame: Frame) -> frozenset[str]:
    labels: set[str] = set()
    for given in values_at(node.block, "labels"):
        labels |= _keys(given, frame)
    for given in values_at(node.block, "targets"):
        labels |= _of_targets(given, frame, 0)
    if node.block.name == "loki.source.file":
        labels.add("filename")
    for given in values_at(node.block, "relabel_rules"):
        for target in leads(given.value, frame):
            labels |= _of_rules(target.node, target.frame)
    return frozenset(labels)


def _of_targets(given: Attribute, frame: Frame, depth: int) -> set[str]:
    """The labels that targets carry: written ones, and those that relabelling makes."""
    labels: set[str] = set()
    place = follow(given.value, frame)
    if place is None or depth > 10:
        return labels
    for item in getattr(place.value, "items", ()):
        inner = follow(item, place.frame)
        if inner is not None and isinstance(inner.value, Object):
            labels |= {field.name for field in inner.value.fields}
    for target in leads(place.value, place.frame):
        if target.node.block.name == "discovery.relabel":
            labels |= _of_rules(target.node, target.frame)
        for name in ("targets", "path_targets"):
            for further in values_at(target.node.block, name):
                labels |= _of_targets(further, target.frame, depth + 1)
    return {label for label in labels if not label.startswith("__")}


def _of_rules(node: Node, frame: Frame) -> set[str]:
    targets = (
        text.text
        for rule in inner_blocks(node.block.body, "rule")
        for given in values_at(rule, "target_label")
        for text in texts(given.value, frame)
    )
    return {target for target in targets if not target.startswith("__") and "$" not in target}


def _keys(given: Attribute, frame: Frame) -> set[str]:
    place = follow(given.value, frame)
    if place is None or not isinstance(place.value, Object):
        return set()
    return {field.name for field in place.value.fields}


def _walk(
    node: Node, frame: Frame, labels: frozenset[str], found: Findings, seen: set[tuple[Node, frozenset[str]]]
) -> None:
    """Follow lines from a component to where it forwards them, and count where they arrive."""
    if (node, labels) in seen or len(seen) > _MAX_STEPS:
        return
    seen.add((node, labels))
    for given in values_at(node.block, "forward_to"):
        for target in leads(given.value, frame):
            after = _through(target.node, target.frame, labels)
            if target.node.block.name == "loki.write" and len(after) > LOKI_LABELS:
                found.error(
                    target.node.block.position,
                    "label-count",
                    f"lines reach {target.node.block.title} with {len(after)} labels, and Loki refuses more than "
                    f"{LOKI_LABELS}; keep fewer ({', '.join(sorted(after))})",
                )
            _walk(target.node, target.frame, after, found, seen)


def _through(node: Node, frame: Frame, before: frozenset[str]) -> frozenset[str]:
    """The labels of lines behind a component, as far as they are written down."""
    labels = set(before)
    if node.block.name == "loki.process":
        _after_stages(node.block, frame, labels)
    elif node.block.name == "loki.relabel":
        labels |= _of_rules(node, frame)
        for rule in inner_blocks(node.block.body, "rule"):
            action = attribute_text(rule, "action")
            named = set(attribute_text(rule, "regex").strip("()").split("|"))
            if action == "labeldrop":
                labels -= named
            elif action == "labelkeep":
                labels &= named
    elif node.block.name == "loki.write":
        for given in values_at(node.block, "external_labels"):
            labels |= _keys(given, frame)
    return frozenset(labels)


def _after_stages(block: Block, frame: Frame, labels: set[str]) -> None:
    for stage in block.body:
        if not isinstance(stage, Block):
            continue
        if stage.name in {"stage.labels", "stage.static_labels"}:
            for given in values_at(stage, "values"):
                labels |= _keys(given, frame)
        elif stage.name == "stage.match":
            _after_stages(stage, frame, labels)
        elif stage.name in {"stage.label_drop", "stage.label_keep"}:
            named = {piece for given in values_at(stage, "values") for piece in pieces(given.value, frame)}
            kept = labels - named if stage.name == "stage.label_drop" else labels & named
            labels.intersection_update(kept)


def attribute_text(block: Block, name: str) -> str:
    """The string written as ``name``, else an empty one."""
    for given in values_at(block, name):
        if isinstance(given.value, Literal) and isinstance(given.value.value, str):
            return given.value.value
    return ""
