"""A reader of LogQL: tokens, and a tree of aggregations, pipelines and stages that rules can ask.

Written from the language's reference (grafana.com/docs/loki, LogQL) as of Loki 3.8. It reads all of it but
``variants``, checks structure, names of functions and stages, and quotes; it knows nothing of types, regular
expressions, or templates in ``line_format``. Grafana's variables may stand for a word, a number, a text, a duration
or a stage. The grammar that Loki's own editor uses runs in the tests beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from telemetry.grafana.lint.logqltree import Call, Constant, Lines, Logql, Matcher, Node, Pair, Stage

UNWRAPPED: Final = frozenset(
    "sum_over_time avg_over_time max_over_time min_over_time first_over_time last_over_time stdvar_over_time "
    "stddev_over_time quantile_over_time".split()
)
RANGED: Final = UNWRAPPED | frozenset(
    "rate rate_counter count_over_time bytes_rate bytes_over_time absent_over_time".split()
)
VECTORED: Final = frozenset("sum avg min max stddev stdvar count topk bottomk approx_topk sort sort_desc".split())
_FILTERS: Final = frozenset({"|=", "|~", "|>", "!=", "!~", "!>"})
_COMPARISONS: Final = frozenset({"=", "==", "!=", "=~", "!~", ">", ">=", "<", "<="})
_BINARY: Final = frozenset("+ - * / % ^ == != > >= < <= and or unless".split())
_CONVERSIONS: Final = frozenset({"duration", "duration_seconds", "bytes"})

_TOKEN = re.compile(
    r"""(?P<space>\s+|\#[^\n]*)
    |(?P<text>"(?:\\.|[^"\\\n])*"|`[^`]*`)
    |(?P<variable>\$\{[^}]*\}|\$\w+|\[\[\w+\]\])
    |(?P<number>\d+(?:\.\d+)?(?:(?:ns|us|µs|ms|[smhdwy])(?:\d+(?:\.\d+)?(?:ns|us|µs|ms|[smhdwy]))*|[kKMGTPE]?i?[bB])?(?!\w))
    |(?P<flag>--[a-z][a-z-]*)
    |(?P<word>[A-Za-z_]\w*)
    |(?P<sign>\|=|\|~|\|>|!=|!~|!>|=~|==|>=|<=|[|(){}\[\],=<>+\-*/%^])
    """,
    re.VERBOSE,
)


class Token(NamedTuple):
    """A token: its kind (a group's name of the pattern, or ``end``), its text, and where it begins."""

    kind: str
    text: str
    at: int


class Wrong(Exception):
    """What can't be read, as a sentence."""


def read(text: str) -> Logql:
    """``text`` as LogQL, with Grafana's variables in it."""
    try:
        reader = _Reader(list(_tokens(text)))
        return Logql(text, reader.whole())
    except Wrong as problem:
        return Logql(text, None, str(problem))
    except RecursionError:
        return Logql(text, None, "the query is nested too deeply")


def _tokens(text: str) -> Iterator[Token]:
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            if text[at] in "\"`'":
                raise Wrong(f"a quote at character {at + 1} is not closed, or is not one of LogQL's")
            raise Wrong(f"{text[at]!r} at character {at + 1} has no meaning")
        if match.lastgroup != "space":
            yield Token(str(match.lastgroup), match[0], at)
        at = match.end()
    yield Token("end", "the end", at)


class _Reader:
    """Recursive descent over the tokens."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.at = 0

    @property
    def next(self) -> Token:
        return self.tokens[self.at]

    def take(self) -> Token:
        token = self.next
        self.at += token.kind != "end"
        return token

    def found(self, *texts: str) -> bool:
        """Take the next token if it is one of these signs or words."""
        if self.next.kind in {"sign", "word"} and self.next.text in texts:
            self.at += 1
            return True
        return False

    def want(self, text: str) -> None:
        if not self.found(text):
            raise self.wrong(f"{text!r} was expected")

    def wrong(self, what: str) -> Wrong:
        return Wrong(f"{what}, not {self.next.text!r} at character {self.next.at + 1}")

    def whole(self) -> Node:
        tree = self.expression()
        if self.next.kind != "end":
            raise self.wrong("an operator or the end was expected")
        return tree

    def expression(self) -> Node:
        left = self.operand()
        while self.next.text in _BINARY and self.next.kind in {"sign", "word"}:
            op = self.take().text
            self.found("bool")
            if self.found("on", "ignoring"):
                self.labels()
                if self.found("group_left", "group_right") and self.next.text == "(":
                    self.labels()
            left = Pair(op, left, self.operand())
        return left

    def operand(self) -> Node:
        token = self.next
        if self.found("-", "+"):
            if self.next.kind not in {"number", "variable"}:
                raise self.wrong("a number was expected after the sign")
            return self.operand()
        if self.found("("):
            inner = self.expression()
            self.want(")")
            if isinstance(inner, Lines) and (self.next.text in _FILTERS or self.next.text == "|"):
                return Lines(inner.matchers, (*inner.stages, *self.pipeline()), inner.range)
            return inner
        if token.text == "{":
            return self.lines()
        if token.kind in {"number", "variable"}:
            self.take()
            return Constant(token.text)
        if token.kind == "word" and token.text in RANGED | VECTORED | {"vector", "label_replace"}:
            return self.call()
        if token.kind == "word":
            raise Wrong(f"no function is called {token.text!r} (character {token.at + 1})")
        raise self.wrong("a selector, a function or a number was expected")

    def call(self) -> Node:
        name = self.take().text
        by = self.grouping()
        self.want("(")
        if name == "vector":
            text = self.take().text
            self.want(")")
            return Constant(f"vector({text})")
        if name in {"topk", "bottomk", "approx_topk", "quantile_over_time"}:
            self.found("-")
            if self.take().kind not in {"number", "variable"}:
                raise Wrong(f"{name} takes a number first")
            self.want(",")
        inner: Node = self.ranged(name) if name in RANGED else self.expression()
        if name == "label_replace":
            for _ in range(4):
                self.want(",")
                self.text()
        self.want(")")
        return Call(name, inner, by if by != () else self.grouping())

    def grouping(self) -> tuple[str, ...] | None:
        if self.found("by"):
            return self.labels()
        if self.found("without"):
            self.labels()
            return None
        return ()

    def labels(self) -> tuple[str, ...]:
        self.want("(")
        found: list[str] = []
        while not self.found(")"):
            if self.next.kind not in {"word", "variable"}:
                raise self.wrong("a label was expected")
            found.append(self.take().text)
            if not self.found(",") and self.next.text != ")":
                raise self.wrong("',' or ')' was expected")
        return tuple(found)

    def ranged(self, name: str) -> Node:
        found = self.range_body(name)
        if not isinstance(found, Lines):
            return found
        if not found.range:
            raise self.wrong(f"a range such as [$__auto] was expected in {name}")
        if name in UNWRAPPED and not any(stage.kind in {"unwrap", "variable"} for stage in found.stages):
            raise Wrong(f"{name} needs `| unwrap label`")
        return found

    def range_body(self, name: str) -> Node:
        """What a range function is given, up to its closing parenthesis; the range may follow one of its own."""
        if self.found("("):
            inner = self.range_body(name)
            self.want(")")
            if isinstance(inner, Lines) and not inner.range and self.next.text == "[":
                return Lines(inner.matchers, inner.stages, self.range())
            return inner
        if self.next.kind == "variable":
            return Constant(self.take().text)
        if self.next.text != "{":
            raise self.wrong(f"a stream selector was expected in {name}")
        return self.lines()

    def lines(self) -> Lines:
        matchers = self.selector()
        stages: list[Stage] = []
        range_ = ""
        while True:
            if self.next.text == "[" and not range_:
                range_ = self.range()
            elif self.next.text == "|" or (self.next.text in _FILTERS and self._filters()):
                stages += self.pipeline()
            else:
                return Lines(matchers, tuple(stages), range_)

    def _filters(self) -> bool:
        """Whether the next sign filters lines: ``!=`` between series compares."""
        after = self.tokens[self.at + 1]
        return self.next.text.startswith("|") or after.kind in {"text", "variable"} or after.text == "ip"

    def range(self) -> str:
        self.want("[")
        token = self.take()
        if token.kind not in {"number", "variable"}:
            raise Wrong(f"a duration was expected in brackets, not {token.text!r} at character {token.at + 1}")
        self.want("]")
        if self.found("offset"):
            self.found("-")
            self.take()
        return token.text

    def selector(self) -> tuple[Matcher, ...]:
        self.want("{")
        found: list[Matcher] = []
        while not self.found("}"):
            name = self.take()
            if name.kind == "variable" and self.next.text in {",", "}"}:
                self.found(",")
                continue
            if name.kind not in {"word", "variable"}:
                raise Wrong(f"a label was expected in the selector, not {name.text!r} at character {name.at + 1}")
            op = self.take()
            if op.text not in {"=", "!=", "=~", "!~"}:
                raise Wrong(
                    f"=, !=, =~ or !~ was expected after {name.text!r}, not {op.text!r} at character {op.at + 1}"
                )
            found.append(Matcher(name.text, op.text, self.text()))
            if not self.found(",") and self.next.text != "}":
                raise self.wrong("',' or '}' was expected")
        return tuple(found)

    def text(self) -> str:
        token = self.take()
        if token.kind == "variable":
            return token.text
        if token.kind != "text":
            raise Wrong(f"a text in quotes was expected, not {token.text!r} at character {token.at + 1}")
        if token.text[0] == "`":
            return token.text[1:-1]
        return re.sub(r"\\(.)", r"\1", token.text[1:-1])

    def pipeline(self) -> list[Stage]:
        stages: list[Stage] = []
        while True:
            if self.next.text in _FILTERS and self._filters():
                op = self.take().text
                words = [self.filter_text()]
                while self.found("or"):
                    words.append(self.filter_text())
                stages.append(Stage(op, tuple(words)))
            elif self.found("|"):
                stages.append(self.stage())
            else:
                return stages

    def filter_text(self) -> str:
        if self.found("ip"):
            self.want("(")
            text = self.text()
            self.want(")")
            return text
        return self.text()

    def stage(self) -> Stage:
        token = self.next
        after = self.tokens[self.at + 1].text
        if token.kind == "variable" and after not in _COMPARISONS:
            self.take()
            return Stage("variable", (token.text,))
        if token.kind == "word" and after not in _COMPARISONS:
            reader = _STAGES.get(token.text)
            if reader is None:
                raise Wrong(f"no stage is called {token.text!r} (character {token.at + 1})")
            self.take()
            return Stage(token.text, tuple(reader(self)))
        return Stage("label", (), tuple(self.label_filters()))

    def label_filters(self) -> Iterator[Matcher]:
        while True:
            if self.found("("):
                yield from self.label_filters()
                self.want(")")
            else:
                yield self.label_filter()
            if self.found("and", "or", ","):
                continue
            if self.next.kind in {"word", "variable"} and self.tokens[self.at + 1].text in _COMPARISONS:
                continue
            if self.next.text == "(":
                continue
            return

    def label_filter(self) -> Matcher:
        name = self.take()
        if name.kind not in {"word", "variable"}:
            raise Wrong(f"a label or a stage was expected, not {name.text!r} at character {name.at + 1}")
        op = self.take()
        if op.text not in _COMPARISONS:
            raise Wrong(f"a comparison was expected after {name.text!r}, not {op.text!r} at character {op.at + 1}")
        if self.next.kind == "number":
            return Matcher(name.text, op.text, self.take().text)
        if self.found("-"):
            return Matcher(name.text, op.text, f"-{self.take().text}")
        return Matcher(name.text, op.text, self.filter_text())

    def parameters(self) -> Iterator[str]:
        """Flags and labels after ``json`` or ``logfmt``: ``a``, ``a="b.c"``, parted by commas."""
        while self.next.kind == "flag":
            yield self.take().text
        while self.next.kind in {"word", "variable"}:
            yield self.take().text
            if self.found("="):
                self.text()
            if not self.found(","):
                return

    def kept(self) -> Iterator[str]:
        """Labels after ``keep`` or ``drop``, each perhaps with a matcher."""
        while True:
            if self.next.kind not in {"word", "variable"}:
                raise self.wrong("a label was expected")
            yield self.take().text
            if self.next.text in {"=", "!=", "=~", "!~"}:
                self.take()
                self.text()
            if not self.found(","):
                return

    def formats(self) -> Iterator[str]:
        """``label_format``: ``a=b`` or ``a="{{.b}}"``, parted by commas."""
        while True:
            yield self.take().text
            self.want("=")
            if self.next.kind not in {"word", "text", "variable"}:
                raise self.wrong("a label or a template was expected")
            self.take()
            if not self.found(","):
                return

    def unwrapped(self) -> Iterator[str]:
        if self.next.text in _CONVERSIONS and self.tokens[self.at + 1].text == "(":
            self.take()
            self.want("(")
            yield self.take().text
            self.want(")")
            return
        if self.next.kind not in {"word", "variable"}:
            raise self.wrong("a label was expected after unwrap")
        yield self.take().text

    def one_text(self) -> Iterator[str]:
        yield self.text()

    def nothing(self) -> Iterator[str]:
        return iter(())


_STAGES: Final = {
    "json": _Reader.parameters,
    "logfmt": _Reader.parameters,
    "regexp": _Reader.one_text,
    "pattern": _Reader.one_text,
    "unpack": _Reader.nothing,
    "decolorize": _Reader.nothing,
    "line_format": _Reader.one_text,
    "label_format": _Reader.formats,
    "distinct": _Reader.kept,
    "drop": _Reader.kept,
    "keep": _Reader.kept,
    "unwrap": _Reader.unwrapped,
}
