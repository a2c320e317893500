"""Cases of the alerts on the library's own delivery."""

from __future__ import annotations

from telemetry.grafana.alerts.cases.records import Case, Firing, Scope, counter, gauge, gone, later

_ROW = {"signal": "logs", "sink": "loki"}


def _series(name: str, job: str, **labels: str) -> str:
    pairs = ", ".join(f'{key}="{value}"' for key, value in {"job": job, "instance": "a:80", **labels}.items())
    return f"{name}{{{pairs}}}"


def dropped(scope: Scope) -> tuple[Case, ...]:
    """11 records are dropped and 100 delivered a minute, from 11 to 30; of another sink, always 95 of 10,095."""
    lost = _series("telemetry_records_dropped_total", scope.job, **_ROW, reason="queue_full")
    kept = _series("telemetry_records_delivered_total", scope.job, **_ROW)
    row = {"signal": "traces", "sink": "otlp"}
    few = _series("telemetry_records_dropped_total", scope.job, **row, reason="retries")
    many = _series("telemetry_records_delivered_total", scope.job, **row)
    trouble = {
        lost: counter((10, 0), (20, 11), (60, 0)),
        kept: counter((90, 100)),
        few: counter((90, 95)),
        many: counter((90, 10_000)),
    }

    def firing(share: str) -> Firing:
        labels = {"job": scope.job, **_ROW, "reason": "queue_full"}
        return Firing(labels, f"{scope.job} loses {share} of its logs to loki: queue_full.")

    ended = {series: gone(counter((15, 100))) for series in (lost, kept)}
    return (
        # 11 of 1,011 in ten minutes are 1.09 %.
        Case("not early", trouble, (scope.at(15),)),
        Case("fires", trouble, (scope.at(16, firing("6.191%")), scope.at(30, firing("9.91%")))),
        Case("resolves", trouble, (scope.at(44, firing("1.088%")), scope.at(45))),
        Case("data missing", {**ended, scope.sign(): gone(gauge((16, 1)))}, (scope.at(35), scope.guard(35))),
    )


def stuck(scope: Scope) -> tuple[Case, ...]:
    """Records wait in three processes: one delivers nothing from 21 to 50, one never did and has some from 20 to 50.

    The third has as many, and delivers.
    """
    waiting = _series("telemetry_records_pending", scope.job, **_ROW)
    sent = _series("telemetry_records_delivered_total", scope.job, **_ROW)
    trouble = {
        waiting: gauge((90, 500)),
        sent: counter((20, 100), (30, 0), (40, 100)),
        waiting.replace("a:80", "b:80"): gauge((20, 0), (31, 7), (39, 0)),
        sent.replace("a:80", "b:80"): counter((90, 0)),
        waiting.replace("a:80", "c:80"): gauge((90, 500)),
        sent.replace("a:80", "c:80"): counter((90, 100)),
    }

    def firing(instance: str, count: int) -> Firing:
        labels = {"job": scope.job, "instance": instance, **_ROW}
        return Firing(labels, f"{scope.job} on {instance} delivers no logs to loki; {count} records wait.")

    ended = {waiting: gone(gauge((20, 500))), sent: gone(counter((19, 0)))}
    a, b = firing("a:80", 500), firing("b:80", 7)
    return (
        Case("not early", trouble, (scope.at(33),)),
        Case("fires", trouble, (scope.at(34, b), scope.at(35, a, b))),
        Case("resolves", trouble, (scope.at(55, a, b), scope.at(56))),
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
    grows = {old: counter((30, 0), (1, 3), (60, 0), start=7), up: gauge((90, 1))}
    again = Firing({"job": scope.job, "where": "web.access"}, summary.replace("logs.loki", "web.access"))
    ended = {born: later(30, gone(gauge((2, 3)))), up: gone(gauge((32, 1)))}
    return (
        Case("fires", grows, (scope.at(32), scope.at(33, again))),
        Case("resolves", grows, (scope.at(50, again), scope.at(51))),
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
