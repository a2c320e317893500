"""What depends on how Alloy is run: replicas, a pod on every node, restarts, browsers at the door."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from telemetry.alloy.finding import Findings
from telemetry.alloy.frames import Frame, Target, follow, inner_blocks, leads, pieces, texts, truth, values_at
from telemetry.alloy.program import Node
from telemetry.alloy.rules.catalogue import Options
from telemetry.alloy.syntax import Block, Expression

_ELSEWHERE = "goes on where this configuration doesn't say"
_MAKES_METRICS = frozenset({"otelcol.connector.spanmetrics", "otelcol.connector.servicegraph"})


def check(frames: Iterable[Frame], found: Findings, options: Options, *, balanced: bool) -> None:
    """Judge every component whose fate depends on how many run. ``balanced``: spans are spread by trace id."""
    for frame in frames:
        for node in frame.scope.all():
            match node.block.name:
                case "otelcol.processor.tail_sampling":
                    _sampling(node, frame, found, options, balanced=balanced)
                case "loki.source.kubernetes":
                    _pods(node, frame, found, options)
                case "loki.source.file":
                    _old_lines(node, frame, found)
                case "faro.receiver":
                    _faro(node, frame, found)
                case "livedebugging":
                    _live(node, frame, found)
                case _:
                    pass


def balances(frames: Iterable[Frame]) -> bool:
    """Whether some exporter spreads spans by trace id, so that one replica sees all spans of a trace."""
    for frame in frames:
        for node in frame.scope.all():
            if node.block.name == "otelcol.exporter.loadbalancing":
                keys = [
                    text.text for given in values_at(node.block, "routing_key") for text in texts(given.value, frame)
                ]
                if not keys or "traceID" in keys:
                    return True
    return False


def _sampling(node: Node, frame: Frame, found: Findings, options: Options, *, balanced: bool) -> None:
    title = node.block.title
    advice = "put an otelcol.exporter.loadbalancing (routing_key traceID) in front of them, and check both together"
    if not balanced and options.replicas > 1:
        found.error(
            node.block.position,
            "replicas",
            f"{title} with {options.replicas} replicas decides on parts of traces, since each replica sees only the "
            f"spans sent to it; {advice}",
        )
    elif not balanced and not options.replicas:
        found.notice(
            node.block.position,
            "replicas",
            f"{title} is right only while one replica runs; with more, {advice} (say --replicas 1 when it is one)",
        )
    for output in inner_blocks(node.block.body, "output"):
        for given in values_at(output, "traces"):
            for target in _reaching(given.value, frame):
                found.warning(
                    target.node.block.position,
                    "sampled-metrics",
                    f"{target.node.block.title} counts only the spans that {title} kept; "
                    "feed it from in front of the sampling",
                )


def _reaching(value: Expression, frame: Frame, depth: int = 0) -> Iterator[Target]:
    """Connectors that make metrics, anywhere behind a value."""
    if depth > 10:
        return
    for target in leads(value, frame):
        if target.node.block.name in _MAKES_METRICS:
            yield target
            continue
        for output in inner_blocks(target.node.block.body, "output"):
            for given in values_at(output, "traces"):
                yield from _reaching(given.value, target.frame, depth + 1)


def _pods(node: Node, frame: Frame, found: Findings, options: Options) -> None:
    """One copy of every line: targets of this node only, or clustering; not neither, not both."""
    clustered: bool | None = False
    for given in values_at(node.block, "clustering", "enabled"):
        clustered = truth(given.value, frame)
    filtered = any(
        _of_one_node(target) for given in values_at(node.block, "targets") for target in leads(given.value, frame)
    )
    known = any(target for given in values_at(node.block, "targets") for target in leads(given.value, frame))
    title = node.block.title
    if clustered is True and filtered:
        found.warning(
            node.block.position,
            "every-node",
            f"{title} reads pods of its own node and divides them among all replicas as well, so that some pods are "
            "read by nobody; keep the node filter or clustering, not both",
        )
    elif clustered is False and not filtered and known and options.replicas != 1:
        found.warning(
            node.block.position,
            "every-node",
            f"{title} reads the pods of all nodes, and every replica does, so that lines arrive several times; select "
            'the node (field = "spec.nodeName=" + sys.env("NODE_NAME")) in a DaemonSet, or add '
            "clustering { enabled = true } (say --replicas 1 when it is one)",
        )


def _of_one_node(target: Target, depth: int = 0) -> bool:
    """Whether targets come from a discovery, or pass a rule, that keeps those of one node."""
    block, frame = target.node.block, target.frame
    for selectors in inner_blocks(block.body, "selectors"):
        for given in values_at(selectors, "field"):
            if any("spec.nodeName" in piece for piece in pieces(given.value, frame)):
                return True
    for rule in inner_blocks(block.body, "rule"):
        sources = {piece for given in values_at(rule, "source_labels") for piece in pieces(given.value, frame)}
        actions = [text.text for given in values_at(rule, "action") for text in texts(given.value, frame)]
        if any("node_name" in source for source in sources) and "keep" in actions:
            return True
    return depth < 10 and any(
        _of_one_node(further, depth + 1)
        for given in values_at(block, "targets")
        for further in leads(given.value, frame)
    )


def _old_lines(node: Node, frame: Frame, found: Findings) -> None:
    """After a restart without its positions, a file is read from its start; old lines are refused for good."""
    stages = set(_stage_names(node, frame, set()))
    if _ELSEWHERE in stages:
        return
    ignores = any(
        _ignores_old(target) for given in values_at(node.block, "targets") for target in leads(given.value, frame)
    )
    missing = []
    if "stage.timestamp" not in stages:
        missing.append("stage.timestamp, which keeps the time of the line")
    if "older_than" not in stages and not ignores and not any(values_at(node.block, "file_match", "ignore_older_than")):
        missing.append("stage.drop with older_than, which drops what Loki refuses")
    if missing:
        found.notice(
            node.block.position,
            "old-lines",
            f"{node.block.title} reads files from their start when its positions are lost, and Loki refuses old lines "
            f"(entry too far behind); keep --storage.path on a volume, and add {' and '.join(missing)}",
        )


def _ignores_old(target: Target, depth: int = 0) -> bool:
    """Whether files that nobody has written to for long are left alone on the way to these targets."""
    if any(values_at(target.node.block, "ignore_older_than")):
        return True
    return depth < 10 and any(
        _ignores_old(further, depth + 1)
        for given in values_at(target.node.block, "targets")
        for further in leads(given.value, target.frame)
    )


def _stage_names(node: Node, frame: Frame, seen: set[Node]) -> Iterator[str]:
    """The stages behind a source, and ``older_than`` for a drop of old lines."""
    seen.add(node)
    for given in values_at(node.block, "forward_to"):
        if follow(given.value, frame) is None:
            yield _ELSEWHERE
        for target in leads(given.value, frame):
            yield from _in_stages(target.node.block)
            if target.node not in seen:
                yield from _stage_names(target.node, target.frame, seen)


def _in_stages(block: Block) -> Iterator[str]:
    for statement in block.body:
        if isinstance(statement, Block) and statement.name.startswith("stage."):
            yield statement.name
            if any(values_at(statement, "older_than")):
                yield "older_than"
            yield from _in_stages(statement)


def _faro(node: Node, frame: Frame, found: Findings) -> None:
    block, title = node.block, node.block.title
    origins = [
        (piece, given)
        for given in values_at(block, "server", "cors_allowed_origins")
        for piece in pieces(given.value, frame)
    ]
    for origin, given in origins:
        if origin == "*":
            found.warning(
                given.value.position,
                "open-door",
                f"{title} lets pages of every site send (cors_allowed_origins with *); list the origins of your pages",
            )
    if not any(values_at(block, "server", "api_key")):
        found.warning(
            block.position,
            "open-door",
            f"{title} takes anything from anybody: set server {{ api_key = … }}, or let a proxy check who sends",
        )
    downloads = [truth(given.value, frame) for given in values_at(block, "sourcemaps", "download")]
    limited = [
        piece
        for given in values_at(block, "sourcemaps", "download_from_origins")
        for piece in pieces(given.value, frame)
    ]
    if (not downloads or downloads[0] is True) and (not limited or "*" in limited):
        found.warning(
            block.position,
            "open-door",
            f"{title} fetches source maps from any address that a report names, also inside your network; "
            "set sourcemaps { download = false }, or list download_from_origins",
        )


def _live(node: Node, frame: Frame, found: Findings) -> None:
    enabled = node.attribute("enabled")
    if frame.scope.role == "root" and enabled is not None and truth(enabled.value, frame):
        found.notice(
            node.block.position,
            "livedebugging",
            "live debugging shows the data that passes to everybody who reaches Alloy's UI; turn it off when done",
        )
