"""Browser errors: LogQL for daily use, canaries, and PromQL over the metrics of ``ingest``.

What real Loki refuses or gets wrong is kept out of every query here (seen on 3.8):

- ``| logfmt a, b`` in a metric query finds only the key that comes first in the line, so it is ``| logfmt`` alone;
- ``|= "frontend-error"`` finds other lines too, such as the access line of a path that somebody made up, or the
  resolved stack of a page whose file has that name: ``| logger="frontend" | level="error"`` leaves them out;
- more than 500 series at once are an error, so ``by (fp)`` and ``by (email)`` stand behind a workspace or an ``fp``,
  or are asked for in parts, and ``keep`` leaves few series to unwrap;
- ``offset`` stands behind ``count_over_time`` only: Loki takes it behind ``unwrap`` too, Grafana's editor does not.
"""

from __future__ import annotations

from typing import Final

from telemetry.grafana.queries.selectors import MINE, increase, rate, total
from telemetry.grafana.records import Query

FEW_REPORTS: Final = 20
"""Reports in ten minutes below which a share of them says nothing."""
NOT_REFUSED: Final = ("accepted", "duplicate", "noise", "disconnected")
"""Values of ``result`` that are no refusals: logged, counted, dropped on purpose, or gone before anybody answered."""

_REFUSED = f'result!~"{"|".join(NOT_REFUSED)}"'

_LINES = '{service_name="${service}"} |= "frontend-error"'
_READ = '| logfmt | logger="frontend" | level="error"'
_OURS = f"{_LINES} {_READ}"
_WORKSPACE = f'{_OURS} | workspace="${{workspace}}"'
_WORD = "{{.kind}} {{.email}} {{.url}} x{{.repeat}} {{.message}} fp={{.fp}}"


def _occurrences(lines: str, by: str, window: str) -> str:
    """``repeat`` is how many occurrences a line stands for: the sum counts each once."""
    return f"sum by ({by}) (sum_over_time({lines} | keep {by}, repeat | unwrap repeat [{window}]))"


def _by_first_digit(window: str) -> str:
    """Occurrences of every fingerprint of all workspaces: 16 parts of at most 500 series each.

    In one part, a caller with 501 fingerprints would make the query fail, and the alert with it. No value in a line
    can hold ``fp="``, since quotes in values are escaped. Lines whose fingerprint was folded have ``fp="other"``.
    """
    parts = (f'{_LINES} |= `fp="{digit:x}` {_READ}' for digit in range(16))
    return " or ".join(_occurrences(part, "fp", window) for part in parts)


LATEST: Final = Query(
    name="latest",
    language="logql",
    expression=f'{_OURS} | workspace=~"${{workspace}}" | line_format "{_WORD}"',
    shape="lines",
    about="Errors as they come, one readable line each; a workspace or `.+` for all.",
)
OF_WORKSPACE: Final = Query(
    name="of_workspace",
    language="logql",
    expression=f'{_WORKSPACE} | line_format "{_WORD}"',
    shape="lines",
    about="Errors of one workspace.",
)
OF_FINGERPRINT: Final = Query(
    name="of_fingerprint",
    language="logql",
    expression=f'{_LINES} |= `fp="${{fp}}"` {_READ}',
    shape="lines",
    about="Everything about one error: whom it hit, where, in which release, with its stack.",
)
OF_USER: Final = Query(
    name="of_user",
    language="logql",
    expression=f'{_OURS} | email="${{email}}"',
    shape="lines",
    about="Errors that one person met, for an answer to their question.",
)
LINES_BY_KIND: Final = Query(
    name="lines_by_kind",
    language="logql",
    expression=f"sum by (kind) (count_over_time({_OURS} | keep kind [$__auto]))",
    shape="series",
    legend="{{kind}}",
    about="Lines: a burst of the same error is one line, and one more when its window ends.",
)
OCCURRENCES_BY_KIND: Final = Query(
    name="occurrences_by_kind",
    language="logql",
    expression=_occurrences(_OURS, "kind", "$__auto"),
    shape="series",
    legend="{{kind}}",
    about="Occurrences: how often errors really happened, repeats among them.",
)
TOP: Final = Query(
    name="top",
    language="logql",
    expression=f"topk(10, {_occurrences(_WORKSPACE, 'fp, kind', '$__range')})",
    shape="table",
    about="The ten most frequent errors of a workspace.",
)
TOP_NEW: Final = Query(
    name="top_new",
    language="logql",
    expression=(
        f"topk(10, {_occurrences(_WORKSPACE, 'fp, kind', '1h')} "
        f"unless sum by (fp, kind) (count_over_time({_WORKSPACE} | keep fp, kind [24h] offset 1h)))"
    ),
    shape="table",
    about="The ten most frequent errors of a workspace in the last hour that the day before it didn't have.",
)
USERS_HIT: Final = Query(
    name="users_hit",
    language="logql",
    expression=(f'count(sum by (email) (count_over_time({_LINES} |= `fp="${{fp}}"` {_READ} | keep email [$__range])))'),
    shape="table",
    about="How many people met one error; more than 500 are an error of Loki's, and then enough is known.",
)
MOST_HIT: Final = Query(
    name="most_hit",
    language="logql",
    expression=f"topk(10, {_occurrences(_WORKSPACE, 'email', '$__range')})",
    shape="table",
    about="The ten people of a workspace who met the most errors.",
)
UNREADABLE: Final = Query(
    name="unreadable",
    language="logql",
    expression=f'{_LINES} | logfmt --strict | __error__!=""',
    shape="lines",
    about="Lines that a strict reader can't read: our encoder or a cut on the way broke them.",
    stays_empty=True,
)
WRONG_LEVEL: Final = Query(
    name="wrong_level",
    language="logql",
    expression=f'{_OURS} | detected_level!="error"',
    shape="lines",
    about="Lines that Loki takes for something else than errors.",
    stays_empty=True,
)
UNBOUND: Final = Query(
    name="unbound",
    language="logql",
    expression=f'{_OURS} | email=""',
    shape="lines",
    about="Lines that belong to nobody, though every report comes from a principal.",
    stays_empty=True,
)
UNFINGERPRINTED: Final = Query(
    name="unfingerprinted",
    language="logql",
    expression=f'{_OURS} | fp!~"[0-9a-f]{{16}}|other"',
    shape="lines",
    about="Lines without a fingerprint, or with one that the page made up.",
    stays_empty=True,
)

RATE_BY_KIND: Final = Query(
    name="rate_by_kind",
    language="promql",
    expression=total(rate("frontend_errors_total"), "kind"),
    shape="series",
    legend="{{kind}}",
    about="Occurrences a second, from bounded labels: right also when Loki lost lines.",
    rests_at_zero=True,
)
REPORTS_BY_RESULT: Final = Query(
    name="reports_by_result",
    language="promql",
    expression=total(rate("frontend_reports_total"), "result"),
    shape="series",
    legend="{{result}}",
    about="What becomes of reports; their sum is what comes in.",
    rests_at_zero=True,
)
ERRORS_NOW: Final = Query(
    name="errors_now",
    language="promql",
    expression=total(increase("frontend_errors_total"), ""),
    shape="table",
    legend="occurrences",
    about="Occurrences in the time shown.",
    rests_at_zero=True,
)
REFUSED_NOW: Final = Query(
    name="refused_now",
    language="promql",
    expression=total(increase("frontend_reports_total", _REFUSED), ""),
    shape="table",
    legend="refused",
    about="Reports refused in the time shown.",
    rests_at_zero=True,
)
NOISE_BY_REASON: Final = Query(
    name="noise_by_reason",
    language="promql",
    expression=total(rate("frontend_noise_total"), "reason"),
    shape="series",
    legend="{{reason}}",
    about="Reports about nothing that the page's owners could mend.",
    rests_at_zero=True,
)
FARO_IGNORED: Final = Query(
    name="faro_ignored",
    language="promql",
    expression=total(rate("frontend_faro_ignored_total"), "item"),
    shape="series",
    legend="{{item}}",
    about="What consoles with Faro send beside new exceptions.",
    rests_at_zero=True,
)
WINDOWS_OPEN: Final = Query(
    name="windows_open",
    language="promql",
    expression=total(f"frontend_windows_open{{{MINE}}}", "job"),
    shape="series",
    legend="{{job}}",
    about="Errors whose repeats are being counted now.",
)
WINDOWS_CLOSED: Final = Query(
    name="windows_closed",
    language="promql",
    expression=total(rate("frontend_windows_closed_total"), "cause"),
    shape="series",
    legend="{{cause}}",
    about="Windows that were closed with repeats to tell, a second, by why.",
    rests_at_zero=True,
)
STORE_UP: Final = Query(
    name="store_up",
    language="promql",
    expression=f"min by (job) (frontend_store_up{{{MINE}}})",
    shape="table",
    legend="{{job}}",
    about="1 while replicas share their limits, 0 when one goes on alone; nothing where no store is configured.",
)
STORE_ERRORS: Final = Query(
    name="store_errors",
    language="promql",
    expression=total(rate("frontend_store_errors_total"), "job, reason"),
    shape="series",
    legend="{{job}} {{reason}}",
    about="Calls to the store of shared limits that failed, a second.",
    rests_at_zero=True,
)
SOURCEMAPS: Final = Query(
    name="sourcemaps",
    language="promql",
    expression=total(rate("frontend_sourcemaps_total"), "result"),
    shape="series",
    legend="{{result}}",
    about="Stacks given to the source map worker, a second, by what became of them.",
    rests_at_zero=True,
)
LINES_LOST: Final = Query(
    name="lines_lost",
    language="promql",
    expression=total(increase("telemetry_records_dropped_total", 'signal="logs"'), ""),
    shape="table",
    legend="lost",
    about="Lines that were made and never reached Loki.",
    rests_at_zero=True,
)

SPIKE_BY_FINGERPRINT: Final = Query(
    name="spike_by_fingerprint",
    language="logql",
    expression=_by_first_digit("5m"),
    shape="table",
    about="Occurrences of each error in five minutes.",
)
SPIKE_BY_KIND: Final = Query(
    name="spike_by_kind",
    language="promql",
    expression=(
        "sum by (job, kind) (increase(frontend_errors_total[5m])) unless "
        "sum by (job, kind) (increase(frontend_errors_total[5m])) < "
        "3 * sum by (job, kind) (increase(frontend_errors_total[1h] offset 5m)) / 12"
    ),
    shape="table",
    about="Occurrences in five minutes, unless the hour before had a third as many in the same time.",
)
REFUSED_SHARE_BY_RESULT: Final = Query(
    name="refused_share_by_result",
    language="promql",
    expression=(
        f"sum by (job, result) (increase(frontend_reports_total{{{_REFUSED}}}[10m])) "
        f"/ on (job) group_left () (sum by (job) (increase(frontend_reports_total[10m])) > {FEW_REPORTS})"
    ),
    shape="table",
    about="The share of all reports that was refused for each reason, where there are enough to tell.",
)
NOT_SHARED: Final = Query(
    name="not_shared",
    language="promql",
    expression="1 - min by (job, instance) (frontend_store_up)",
    shape="table",
    about="1 for replicas that can't reach the store of shared limits; nothing where no store is configured.",
)

LOGQL: Final = (
    LATEST,
    OF_WORKSPACE,
    OF_FINGERPRINT,
    OF_USER,
    LINES_BY_KIND,
    OCCURRENCES_BY_KIND,
    TOP,
    TOP_NEW,
    USERS_HIT,
    MOST_HIT,
    UNREADABLE,
    WRONG_LEVEL,
    UNBOUND,
    UNFINGERPRINTED,
    SPIKE_BY_FINGERPRINT,
)
PROMQL: Final = (
    RATE_BY_KIND,
    REPORTS_BY_RESULT,
    ERRORS_NOW,
    REFUSED_NOW,
    NOISE_BY_REASON,
    FARO_IGNORED,
    WINDOWS_OPEN,
    WINDOWS_CLOSED,
    STORE_UP,
    STORE_ERRORS,
    SOURCEMAPS,
    LINES_LOST,
    SPIKE_BY_KIND,
    REFUSED_SHARE_BY_RESULT,
    NOT_SHARED,
)
QUERIES: Final = (*LOGQL, *PROMQL)
CANARIES: Final = tuple(query for query in QUERIES if query.stays_empty)
