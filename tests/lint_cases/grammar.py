"""Queries in LogQL and TraceQL that are right, and that are wrong in ways that lint tells.

Lint's readers are held against these, and these against the grammars of Grafana's editors and against Loki and Tempo.
"""

from __future__ import annotations

LOGQL = [
    '{a="b"}',
    '{a=~"$x", b!="c"} |= "x" or "y" != `z` |~ "re" !~ "no" |> "<_> a <_>" !> "b"',
    '{a="b"} | json | logfmt --strict --keep-empty | pattern "<a> <_>" | regexp "(?P<x>.)" | unpack | decolorize',
    '{a="b"} | json x="y.z", w | line_format "{{.x}}" | label_format a=b, c="{{.d}}" | drop a, b="c" | keep x',
    '{a="b"} | x > 5 and (y <= 10ms or z = "q") | w != "" , v >= 1.5KiB | u == 3',
    '{a="b"} |= ip("10.0.0.0/8") | addr = ip("10.0.0.1")',
    'sum by (x, y) (count_over_time({a="b"} |= "x" [5m] offset 1h))',
    'sum(rate({a="b"} [1m])) without (z)',
    'quantile_over_time(0.99, {a="b"} | json | unwrap duration(t) | __error__="" [1m]) by (host)',
    'topk(10, sum by (k) (bytes_over_time(({a="b"} | logfmt)[1h30m])))',
    'sum(rate({a="b"}[1m])) / on (x) group_left (y) sum(rate({c="d"}[1m])) > bool 0.5 unless vector(1)',
    'label_replace(rate({a="b"}[1m]), "x", "$1", "y", "(.*)")',
    'absent_over_time({a="b"}[5m]) # a comment\n or vector(0)',
    'count_over_time({a="b"} [5m] |= "x")',
    '-1 * sum(rate({a="b"}[1m])) * 2 ^ 3 % 4',
]
LOGQL_BAD = [
    ('{a="b"', "',' or '}'"),
    ("{a=b}", "in quotes"),
    ("{a='b'}", "a quote at character 4"),
    ('{"a"="b"}', "a label was expected in the selector"),
    ('{a="b"} |= x', "in quotes"),
    ('{a="b"} | nothing', "no stage is called 'nothing'"),
    ('{a="b"} | x 5', "no stage is called 'x'"),
    ('{a="b"} | unwrap', "a label was expected after unwrap"),
    ('{a="b"} | keep', "a label was expected"),
    ('{a="b"} | label_format a', "'=' was expected"),
    ('count_over_time({a="b"})', "a range such as [$__auto]"),
    ('sum_over_time({a="b"}[5m])', "needs `| unwrap label`"),
    ("rate(x[5m])", "a stream selector was expected in rate"),
    ('topk({a="b"})', "topk takes a number first"),
    ('quantil(0.9, {a="b"})', "no function is called 'quantil'"),
    ('sum by x (rate({a="b"}[1m]))', "'(' was expected"),
    ('sum(rate({a="b"}[1m])', "')' was expected"),
    ('-sum(rate({a="b"}[1m]))', "a number was expected after the sign"),
    ('{a="b"} foo', "an operator or the end was expected"),
    ('{a="b"} | x="y" ;', "has no meaning"),
    ("", "was expected"),
    ("(" * 50_000, "nested too deeply"),
]

WITH_VARIABLES = [
    '{a="b"} | $filter | ${stage:raw}',
    'sum by ($by) (rate({a="b"} |= "$text" | x > $limit [$__auto]))',
    'topk($k, sum by (x) (count_over_time({$selector, a="b"}[${range}])))',
]
"""These can be read only with variables in them."""

TRACEQL = [
    "{}",
    '{ resource.service.name = "a" && duration > 1s } | rate() by (span.http.route)',
    '{ span."a b" =~ "x" } >> { status = error } | select(.x)',
    "{ .x = -1 || !(.y = 2) }",
    "{ kind = server } | quantile_over_time(duration, 0.9, 0.99) by (resource.service.name)",
    "({ name = `x` } && { .y != nil }) | count() > 2",
]
TRACEQL_BAD = [
    ("{ status = }", "after '='"),
    ("{ status = && .x = 1 }", "after '='"),
    ('{ .x = "y }', "is not closed"),
    ("{ .x = 1 ", "is not closed"),
    ("{ .x = 1 ) }", "closes nothing"),
    ("{ duration > }", "after '>'"),
    ("{ .x = 1 } | count() >", "after '>'"),
]
