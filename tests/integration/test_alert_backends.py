"""Every rule on a real vmalert and VictoriaMetrics, over our running code, a recorded Alloy and the two themselves."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

import pytest

from telemetry.grafana.alerts import rulefiles
from telemetry.grafana.alerts.records import RuleSet
from telemetry.grafana.alerts.rules import rule_set
from telemetry.grafana.alerts.values import Exporter, Latency, Service, Values
from telemetry.grafana.lint import promql
from tests.backends.process import eventually, request
from tests.backends.servers import NodeExporter, VictoriaMetrics
from tests.backends.vmalert import RuleState, VmAlert
from tests.integration import estate
from tests.integration.test_alert_units import needed

EXPOSITIONS = Path(__file__).parents[1] / "expositions"
BUSY = Latency(threshold=0.5, objective=0.99)
# Where CI can't have Loki, nobody tells its counters; a store of shared limits is another test's.
NOT_HERE = {"loki_discarded_samples_total", "loki_build_info", "frontend_store_up"}


@dataclass
class Watched:
    """A vmalert that evaluates each rule every second, and what it watches."""

    store: VictoriaMetrics
    vmalert: VmAlert
    rules: RuleSet
    busy: str
    mark: str

    def states(self) -> list[RuleState]:
        """The rules, once each has been evaluated several times."""
        return self.vmalert.rules()

    def alerts(self, name: str) -> list[dict[str, str]]:
        return [labels for state in self.states() if state.name == name for labels in state.alerts]


@pytest.fixture(scope="module")
def watched(
    victoria_metrics: VictoriaMetrics, node_exporter: NodeExporter, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Watched]:
    needed("vmalert")
    mark = uuid.uuid4().hex[:8]
    values = Values(
        runbooks="https://docs.example/runbooks",
        dashboards="https://grafana.example",
        services=(
            Service(f"busy-{mark}", availability=0.95, latency=BUSY, browser_errors=True),
            Service(f"silent-{mark}", availability=0.999, latency=Latency(1.0, 0.99)),
        ),
        exporters=(
            Exporter("alloy", f"alloy-{mark}"),
            Exporter("loki", f"loki-{mark}"),
            Exporter("node", f"node-{mark}"),
            Exporter("victoriametrics", f"vm-{mark}"),
            Exporter("vmalert", f"vmalert-{mark}"),
        ),
    )
    rules = rule_set(values)
    text = rulefiles.vmalert(rules, values)
    # A minute between evaluations is too long for a test; all else is as rendered.
    often = text.replace("interval: 1m", "interval: 1s").replace("interval: 2m", "interval: 1s")
    store = victoria_metrics
    # Not Loki: it answers 400, which no retry mends.
    refusing = {"FLEETGLASS_LOKI_URL": f"{store.url}/loki/api/v1/push"}
    vmalert = VmAlert.start(tmp_path_factory.mktemp("vmalert"), often, store.url)
    try:
        with (
            estate.service(f"busy-{mark}", tmp_path_factory.mktemp("busy"), refusing) as busy,
            store.scraping(busy.address, busy.job),
            store.scraping(node_exporter.address, f"node-{mark}"),
            store.scraping(store.url.removeprefix("http://"), f"vm-{mark}"),
            store.scraping(vmalert.address, f"vmalert-{mark}"),
        ):
            _record(store, f"alloy-{mark}", "alloy")
            busy.get("/items/2")
            scraped = f'min(count_over_time(up{{job=~".+-{mark}"}}[10m]))'
            assert eventually(lambda: [s.value for s in store.query(scraped) if s.value >= 3], timeout=40)
            busy.load()
            busy.get("/break")
            served = f'sum(http_server_request_duration_seconds_count{{job="{busy.job}",http_route="/items/{{item}}"}})'
            assert eventually(lambda: [s.value for s in store.query(served) if s.value >= 5], timeout=40)
            # Twice, since a counter that is born with its first event has no rate yet.
            busy.load()
            assert eventually(lambda: [s.value for s in store.query(served) if s.value >= 9], timeout=40)
            yield Watched(store, vmalert, rules, busy.job, mark)
    finally:
        vmalert.stop()


def _record(store: VictoriaMetrics, job: str, exposition: str) -> None:
    """Import what an exporter was recorded to tell: nothing dropped until five minutes ago, then what it dropped."""
    text = (EXPOSITIONS / f"{exposition}.txt").read_text(encoding="utf-8")
    before = "\n".join(line for line in text.splitlines() if not line.startswith("loki_process_dropped_lines_total"))
    up = "\nup 1\n"
    for seconds in range(-120, 1200, 15):
        labels = [("extra_label", f"job={job}"), ("extra_label", "instance=edge-1")]
        at = int((time.time() - seconds) * 1000)
        body = (text if seconds <= 300 else before) + up
        request("POST", f"{store.push_url}?{urlencode([('timestamp', at), *labels])}", body.encode()).ok()


@pytest.mark.slow
@pytest.mark.timeout(180)
class TestVmAlert:
    def test_no_rule_fails(self, watched: Watched) -> None:
        expected = len(list(watched.rules.alerts)) - 1 + len(list(watched.rules.recordings))
        assert eventually(lambda: all(state.evaluated for state in watched.states()), timeout=60)
        states = watched.states()
        assert len(states) == expected
        assert {f"{state.name}: {state.error}" for state in states if state.error} == set()

    def test_every_metric_that_a_rule_names_is_told_by_somebody(self, watched: Watched) -> None:
        recorded = {rule.name for rule in watched.rules.recordings}
        named = {
            selector.metric
            for expression in (
                *(rule.expression for rule in watched.rules.recordings),
                *(alert.condition for alert in watched.rules.alerts if alert.query.language == "promql"),
            )
            for selector in promql.read(expression).selectors()
        }
        assert {"up", "telemetry_build_info", "slo:burnrate:3d", "vm_rows_ignored_total"} < named

        def silent() -> set[str]:
            return {name for name in named - NOT_HERE if not watched.store.series(f'{{__name__="{name}"}}')}

        assert eventually(lambda: not silent(), timeout=60, interval=1), silent()
        assert recorded <= named | {"slo:burnrate:5m"}

    @pytest.mark.parametrize("slo", ["availability", "latency"])
    def test_burn_rates_are_the_share_of_bad_requests_over_the_budget(self, watched: Watched, slo: str) -> None:
        failed = 'http_response_status_code=~"5.."'
        count = f'http_server_request_duration_seconds_count{{job="{watched.busy}"'
        bucket = f'http_server_request_duration_seconds_bucket{{job="{watched.busy}",le="0.5"'
        served = failed.replace("=~", "!~")
        share, budget = {
            "availability": (f"sum(rate({count}, {failed}}}[5m])) / sum(rate({count}}}[5m]))", 0.05),
            "latency": (f"1 - sum(rate({bucket}, {served}}}[5m])) / sum(rate({count}, {served}}}[5m]))", 0.01),
        }[slo]

        def agree() -> bool:
            rate = watched.store.query(f'slo:burnrate:5m{{job="{watched.busy}", slo="{slo}"}}')
            direct = watched.store.query(share)
            return all(0 < sample.value < 1 for sample in direct) and [s.value for s in rate] == pytest.approx(
                [s.value / budget for s in direct], rel=0.02
            )

        # The two are read at different moments, so they agree once the counts stand still.
        assert eventually(agree, timeout=60, interval=0.5)

    def test_who_says_nothing_is_told_and_nobody_else(self, watched: Watched) -> None:
        def told() -> set[str]:
            alerts = (*watched.alerts("ServiceAbsent"), *watched.alerts("ExporterAbsent"))
            return {labels["job"] for labels in alerts}

        silent = {f"silent-{watched.mark}", f"loki-{watched.mark}"}
        assert eventually(lambda: told() == silent, timeout=60), told()

    def test_lines_that_a_real_alloy_dropped_are_told_with_their_reason(self, watched: Watched) -> None:
        found = eventually(lambda: watched.alerts("AlloyLinesDropped"), timeout=60)
        assert [(labels["job"], labels["reason"]) for labels in found] == [
            (f"alloy-{watched.mark}", "ratelimit_drop_stage")
        ]

    def test_faults_of_the_running_service_are_told_by_part(self, watched: Watched) -> None:
        found = eventually(lambda: watched.alerts("TelemetryInternalFaults"), timeout=60)
        assert [labels["job"] for labels in found] == [watched.busy] * len(found)
        assert all(labels["where"] for labels in found)

    def test_lines_that_a_backend_refuses_are_told_with_their_reason(self, watched: Watched) -> None:
        found = eventually(lambda: watched.alerts("TelemetryRecordsDropped"), timeout=60)
        row = [(labels["job"], labels["signal"], labels["sink"], labels["reason"]) for labels in found]
        assert row == [(watched.busy, "logs", "loki", "rejected")]
