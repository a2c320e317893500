"""What the library says about itself, as metric families made at the moment they are read.

The ledger and the fault counts keep their own figures; copying them into instruments would let the two
disagree. Families are made from the catalogue, so that names and help can't drift from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from prometheus_client.metrics_core import Metric

from telemetry import faults, ledger
from telemetry.catalogue import METRICS
from telemetry.version import VERSION


def family(name: str, samples: Iterable[tuple[Sequence[str], float]]) -> Metric:
    """The catalogued family ``name`` with one sample for each pair of label values and figure."""
    spec = METRICS[name]
    kind = "unknown" if spec.kind == "histogram" else spec.kind
    made = Metric(spec.family, spec.help, kind, spec.unit)
    for values, figure in samples:
        made.add_sample(name, dict(zip(spec.labels, values, strict=True)), figure)
    return made


def ledger_families(rows: Iterable[ledger.RowSnapshot]) -> list[Metric]:
    """The ledger as families. Every drop reason is there from the start, at 0, so that a rate sees the first."""
    rows = list(rows)
    return [
        family("telemetry_records_emitted_total", [((r.signal, r.sink), r.emitted) for r in rows]),
        family("telemetry_records_delivered_total", [((r.signal, r.sink), r.delivered) for r in rows]),
        family(
            "telemetry_records_dropped_total",
            [((r.signal, r.sink, reason), r.dropped.get(reason, 0)) for r in rows for reason in ledger.REASONS],
        ),
        family("telemetry_records_degraded_total", [((r.signal, r.sink), r.degraded) for r in rows]),
        family("telemetry_records_pending", [((r.signal, r.sink), r.pending) for r in rows]),
    ]


def fault_family(counts: Mapping[str, int]) -> Metric:
    """Internal faults by the part that reported them."""
    return family("telemetry_internal_faults_total", [((where,), n) for where, n in sorted(counts.items())])


def build_family() -> Metric:
    """The version of this library, as an info metric."""
    return family("telemetry_build_info", [((VERSION,), 1)])


def target_family(attributes: Mapping[str, str]) -> Metric:
    """``target_info``: the attributes of the process as labels."""
    made = family("target_info", ())
    made.add_sample("target_info", dict(attributes), 1)
    return made


def self_families() -> list[Metric]:
    """All of the above but ``target_info``, for this process, now."""
    return [build_family(), fault_family(faults.counts()), *ledger_families(ledger.PROCESS.snapshot())]
