"""Cases of the alerts on the library's own delivery."""

from __future__ import annotations

from telemetry.grafana.alerts.cases.records import Case, Firing, Scope, counter, gauge, gone, later

_ROW = {"signal": "logs", "sink": "loki"}


def _series(name: str, job: str, **labels: str) -> str:
    pairs = ", ".join(f'{key}="{value}"' for key, value in {"job": job, "instance": "a:80", **labels}.items())
    return f"{name}{{{pairs}}}"


def dropped(scope: Scope) -> tuple[Case, ...]:
    """10 of 110 records a minute are dropped, beginning at 11; in another sink 9 of 1,009, which is below 1 %."""
    lost = _series("telemetry_records_dropped_total", scope.job, **_ROW, reason="queue_full")
    kept = _series("telemetry_records_delivered_total", scope.job, **_ROW)
    row = {"signal": "traces", "sink": "otlp"}
    few = _series("telemetry_records_dropped_total", scope.job, **row, reason="retries")
    many = _series("telemetry_records_delivered_total", scope.job, **row)
    trouble = {
        lost: counter((10, 0), (20, 10), (60, 0)),
        kept: counter((90, 100)),
        few: counter((90, 9)),
        many: counter((90, 1000)),
    }

    def firing(share: str) -> Firing:
        labels = {"job": scope.job, **_ROW, "reason": "queue_full"}
        return Firing(labels, f"{scope.job} loses {share} of its logs to loki: queue_full.")

    ended = {series: gone(counter((15, 100))) for series in (lost, kept)}
    return (
        # 20 of 1,020 after two minutes are the first share above 1 %.
        Case("not early", trouble, (scope.at(16),)),
        Case("fires", trouble, (scope.at(17, firing("6.542%")), scope.at(30, firing("9.091%")))),
        Case("resolves", trouble, (scope.at(43, firing("1.961%")), scope.at(44))),
        Case("data missing", {**ended, scope.sign(): gone(gauge((16, 1)))}, (scope.at(35), scope.guard(35))),
    )


def stuck(scope: Scope) -> tuple[Case, ...]:
    """Nothing is delivered between 20 and 50 while 500 records wait; another process has some waiting, and delivers."""
    waiting = _series("telemetry_records_pending", scope.job, **_ROW)
    sent = _series("telemetry_records_delivered_total", scope.job, **_ROW)
    busy, sending = waiting.replace("a:80", "b:80"), sent.replace("a:80", "b:80")
    trouble = {
        waiting: gauge((20, 0), (30, 500), (30, 0)),
        sent: counter((20, 100), (30, 0), (30, 100)),
        busy: gauge((90, 500)),
        sending: counter((90, 100)),
    }
    labels = {"job": scope.job, "instance": "a:80", **_ROW}
    firing = Firing(labels, f"{scope.job} on a:80 delivers no logs to loki; 500 records wait.")
    ended = {waiting: gone(gauge((20, 500))), sent: gone(counter((19, 0)))}
    return (
        Case("not early", trouble, (scope.at(34),)),
        Case("fires", trouble, (scope.at(35, firing),)),
        Case("resolves", trouble, (scope.at(54, firing), scope.at(55))),
        Case("data missing", {**ended, scope.sign(): gone(gauge((20, 1)))}, (scope.at(40), scope.guard(40))),
    )


def faults(scope: Scope) -> tuple[Case, ...]:
    """Three faults of one part at 30, and the part was never heard of before; old faults of another say nothing."""
    born = _series("telemetry_internal_faults_total", scope.job, where="logs.loki")
    old = _series("telemetry_internal_faults_total", scope.job, where="web.access")
    up = _series("up", scope.job)
    trouble = {born: later(30, gauge((60, 3))), old: gauge((90, 7)), up: gauge((90, 1))}
    summary = f"{scope.job}: 3 faults inside the telemetry library in 15 minutes, in logs.loki."
    firing = Firing({"job": scope.job, "where": "logs.loki"}, summary)
    ended = {born: later(30, gone(gauge((2, 3)))), up: gone(gauge((32, 1)))}
    return (
        Case("not early", trouble, (scope.at(31),)),
        Case("fires", trouble, (scope.at(32, firing),)),
        Case("resolves", trouble, (scope.at(49, firing), scope.at(50))),
        Case("data missing", {**ended, scope.sign(): gone(gauge((32, 1)))}, (scope.at(60), scope.guard(60))),
    )


def overflow(scope: Scope) -> tuple[Case, ...]:
    """A label that goes over its limit from 30 to 40, four times a minute."""
    labels = {"metric": "shop_orders_total", "label": "path"}
    over = _series("telemetry_label_overflow_total", scope.job, **labels)
    trouble = {over: counter((30, 0), (10, 4), (50, 0)), _series("up", scope.job): gauge((90, 1))}

    def firing(count: int) -> Firing:
        text = f"shop_orders_total has more values of path than allowed; {count} samples became __other__."
        return Firing({"job": scope.job, **labels}, f"{scope.job}: {text}")

    ended = {over: gone(counter((30, 0), (1, 4)))}
    return (
        Case("not early", trouble, (scope.at(32),)),
        Case("fires", trouble, (scope.at(33, firing(12)), scope.at(40, firing(40)))),
        Case("resolves", trouble, (scope.at(59, firing(4)), scope.at(60))),
        Case("data missing", {**ended, scope.sign(): gone(gauge((31, 1)))}, (scope.at(60), scope.guard(60))),
    )
