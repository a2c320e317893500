"""The pure parts of the bench: statistics of paired rounds, import shares, and what the report says."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.bench import imports, load, report
from tests.bench.results import Bench, Ledger, Results, Row, Table, Target
from tests.bench.rounds import Spread, over, ratios, schedule, spread


def test_a_spread_tells_median_lowest_highest_and_how_many_rounds():
    assert spread([3.0, 1.0, 2.0, 10.0]) == Spread(median=2.5, low=1.0, high=10.0, rounds=4)


def test_no_round_has_no_spread():
    with pytest.raises(ValueError, match="no round"):
        spread([])


def test_every_variant_runs_once_a_round_and_first_as_often_as_the_others():
    order = list(schedule(["a", "b", "c"], 6))
    assert [number for number, _ in order] == [n for n in range(6) for _ in range(3)]
    for number in range(6):
        assert sorted(name for n, name in order if n == number) == ["a", "b", "c"]
    assert Counter(order[index][1] for index in range(0, 18, 3)) == {"a": 2, "b": 2, "c": 2}


def test_ratios_pair_the_rounds_so_that_a_slow_machine_cancels_out():
    machine = [1.0, 0.5, 0.1]
    assert ratios([3 * speed for speed in machine], [10 * speed for speed in machine]) == pytest.approx([0.3] * 3)


def test_the_floor_is_taken_off_round_by_round():
    assert over([11.0, 25.0], [10.0, 20.0]) == [1.0, 5.0]


@pytest.mark.parametrize("pair", [ratios, over])
def test_rounds_of_unequal_number_are_refused(pair):
    with pytest.raises(ValueError, match="can't be paired"):
        pair([1.0, 2.0], [1.0])


@pytest.mark.parametrize(
    ("row", "balanced"),
    [
        (Ledger("x", "logs", emitted=10, delivered=7, dropped=2, pending=1, received=7, kept_by="own"), True),
        (Ledger("x", "logs", emitted=10, delivered=7, dropped=2, pending=0, received=7, kept_by="own"), False),
        (Ledger("x", "logs", emitted=10, delivered=10, dropped=0, pending=0, received=9, kept_by="own"), False),
    ],
)
def test_a_ledger_balances_only_if_nothing_is_missing_and_the_receiver_agrees(row, balanced):
    assert row.balanced is balanced


def test_a_target_is_met_at_its_bound():
    assert Target("share", 0.25, 0.25, "at least").met
    assert not Target("share", 0.249, 0.25, "at least").met
    assert Target("time", 60.0, 60, "at most", "ms").met
    assert not Target("time", 61.0, 60, "at most", "ms").met


IMPORTTIME = """\
import time: self [us] | cumulative | imported package
import time:       100 |        100 | encodings
import time:      1000 |       1000 |   msgspec._core
import time:       500 |       1500 | msgspec
import time:       200 |        200 |     socket
import time:       300 |        500 |   http.client
import time:       400 |        400 |         ssl
import time:       700 |       1100 |       urllib3
import time:       800 |       1900 |     requests
import time:       900 |       2800 |   opentelemetry.sdk.trace
import time:        50 |       3350 | telemetry.pipeline
said by the program
"""


def test_import_time_falls_to_the_part_that_asked_for_it():
    assert imports.shares(IMPORTTIME.splitlines()) == pytest.approx(
        {
            "interpreter start": 0.1,
            "msgspec": 1.5,
            "standard library, for us": 0.5,
            "requests, logging_loki": 1.9,
            "OpenTelemetry SDK": 0.9,
            "ours": 0.05,
        }
    )


@pytest.mark.parametrize(
    ("module", "part"),
    [
        ("opentelemetry.trace", "OpenTelemetry API"),
        ("opentelemetry.sdk.trace", "OpenTelemetry SDK"),
        ("opentelemetry.proto.trace.v1", "protobuf"),
        ("opentelemetry.exporter.otlp", "OpenTelemetry exporters"),
        ("telemetry", "ours"),
        ("telemetryish", None),
        ("json", None),
    ],
)
def test_the_longest_prefix_names_the_part(module, part):
    assert imports.part_of(module) == part


@pytest.mark.parametrize(("value", "text"), [(0.2914, "0.291"), (2.936, "2.94"), (41.64, "41.6"), (9412.3, "9,412")])
def test_numbers_keep_three_figures(value, text):
    assert report.number(value) == text


def test_load_asks_for_each_path_on_a_connection_that_stays():
    assert load.requests(["/users/7"]) == [
        b"GET /users/7 HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: application/json\r\nuser-agent: bench/1\r\n\r\n"
    ]


def _results() -> Results:
    rows = (
        Row("bare <app>", Spread(100, 90, 110, 3)),
        Row("fleetglass", Spread(40, 30, 50, 3), Spread(0.4, 0.3, 0.5, 3)),
    )
    bench = Bench(
        key="B1",
        title="Requests",
        how="How.",
        tables=(Table("Rate", "requests/s", "more", rows, "share kept", chart=True),),
        targets=(Target("share kept", 0.2, 0.25, "at least"),),
        ledger=(Ledger("fleetglass", "logs", 1234, 1234, 0, 0, 1234, "own"),),
        date="2026-11-30",
    )
    return Results("3.11.7", {"peer": "1.0"}, {"B1": bench})


def test_the_report_survives_its_own_file(tmp_path):
    report.write(_results(), tmp_path)
    assert report.read(tmp_path) == _results()


def test_the_page_shows_ranges_ledger_and_a_target_that_was_missed():
    page = report.page(_results())
    assert "| fleetglass | 40.0 (30.0–50.0) | 0.400 (0.300–0.500) |" in page
    assert "| fleetglass | logs | 1,234 | 1,234 | 0 | 0 | 1,234 | the library |" in page
    assert "| share kept | at least 0.25 | 0.200 | **not met** |" in page


def test_the_chart_is_well_formed_whatever_a_name_holds():
    from xml.etree import ElementTree as ET

    root = ET.fromstring(report.chart(_results()))
    texts = [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "bare <app>" in texts
    assert "40.0  (0.400×)" in texts
