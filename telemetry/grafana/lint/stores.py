"""Rules on the configurations of Tempo and Loki, alone or within Helm values: what newer versions refuse."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from telemetry.grafana.lint.documents import Document, Place
from telemetry.grafana.lint.findings import Finding
from telemetry.grafana.lint.walk import mappings

_TEMPO_BLOCKS: Final = ("ingester", "ingester_client", "compactor", "metrics_generator_client")
_TEMPO_OVERRIDES: Final = frozenset(
    {"defaults", "per_tenant_override_config", "per_tenant_override_period", "user_configurable_overrides"}
)
_OLD_BLOCKS: Final = frozenset({"v2", "vParquet", "vParquet2", "vParquet3"})
_LOKI_PERIOD: Final = ("chunks", "tags", "row_shards")
_LOKI_STORES: Final = frozenset({"boltdb-shipper", "boltdb"})


def lint(document: Document) -> Iterator[Finding]:
    """All findings on Tempo's and Loki's configurations in one document."""
    for place in mappings(Place(document)):
        data = place.value
        storage = data.get("storage")
        if isinstance(storage, dict) and isinstance(storage.get("trace"), dict):
            yield from _tempo(place)
        if isinstance(data.get("schema_config"), dict):
            yield from _loki_periods(place / "schema_config" / "configs", data)
        if isinstance(data.get("schemaConfig"), dict):
            yield from _loki_periods(place / "schemaConfig" / "configs", data)
        if isinstance(data.get("limits_config"), dict):
            yield from _loki_limits(place / "limits_config")
        shipper = data.get("storage_config")
        if isinstance(shipper, dict):
            for key in ("boltdb_shipper", "boltdb"):
                if key in shipper:
                    message = f"{key} is gone: use tsdb_shipper."
                    yield (place / "storage_config" / key).found("loki-leftover", message)
        if data.get("deploymentMode") == "SimpleScalable":
            message = "SimpleScalable (targets read, write, backend) is going: Monolithic, or Distributed."
            yield (place / "deploymentMode").found("loki-leftover", message)


def _tempo(place: Place) -> Iterator[Finding]:
    data = place.value
    for key in _TEMPO_BLOCKS:
        if key in data:
            message = f"Tempo 3.0 has no block {key!r} and ends at start: take it out."
            yield (place / key).found("tempo-leftover", message)
    ingest = data.get("ingest")
    if isinstance(ingest, dict) and "enabled" in ingest:
        yield (place / "ingest" / "enabled").found("tempo-leftover", "Tempo 3.0 has no `ingest.enabled`: take it out.")
    overrides = data.get("overrides")
    flat = [key for key in overrides if key not in _TEMPO_OVERRIDES] if isinstance(overrides, dict) else []
    for key in flat:
        message = f"Flat overrides are gone: move {key} below overrides.defaults, in its own block."
        yield (place / "overrides" / key).found("tempo-leftover", message)
    if data.get("target") == "scalable-single-binary":
        message = "The target scalable-single-binary is gone: take `all`."
        yield (place / "target").found("tempo-leftover", message)
    version = _down(data, "storage", "trace", "block").get("version")
    if isinstance(version, str) and version in _OLD_BLOCKS:
        message = f"Blocks of format {version} are no longer read: leave `version` out, or take vParquet4."
        yield (place / "storage" / "trace" / "block" / "version").found("tempo-leftover", message)
    yield from _tempo_words(place)


def _tempo_words(place: Place) -> Iterator[Finding]:
    for inner in mappings(place):
        data = inner.value
        processors = data.get("processors")
        named = processors if isinstance(processors, (list, dict)) else []
        if "local-blocks" in named or "local_blocks" in data:
            message = "The processor local-blocks is gone: TraceQL metrics need none in Tempo 3.0."
            yield (inner / ("processors" if "local-blocks" in named else "local_blocks")).found(
                "tempo-leftover", message
            )
        if data.get("generate_native_histograms") in ("both", "native"):
            message = "VictoriaMetrics turns native histograms into vmrange series: leave this out, or write classic."
            yield (inner / "generate_native_histograms").found("native-histograms", message)
        if "query_ingesters_until" in data:
            message = "query_ingesters_until is gone with the ingesters: take it out."
            yield (inner / "query_ingesters_until").found("tempo-leftover", message)


def _loki_periods(place: Place, around: dict[str, Any]) -> Iterator[Finding]:
    periods = place.value
    periods = periods if isinstance(periods, list) else []
    for index, period in enumerate(periods):
        if not isinstance(period, dict):
            continue
        for key in _LOKI_PERIOD:
            if key in period:
                message = f"{key!r} is no longer a field of a period: take it out."
                yield (place / index / key).found("loki-leftover", message)
        if str(period.get("store")) in _LOKI_STORES:
            message = f"The store {period['store']!r} is gone: add a period from a day to come with store: tsdb."
            yield (place / index / "store").found("loki-leftover", message)
    dated = [(str(period.get("from")), index) for index, period in enumerate(periods) if isinstance(period, dict)]
    if not dated:
        return
    newest = max(dated)[1]
    store, schema = periods[newest].get("store"), periods[newest].get("schema")
    limits = around.get("limits_config")
    off = isinstance(limits, dict) and limits.get("allow_structured_metadata") is False
    if (store, schema) != ("tsdb", "v13") and not off:
        message = f"The newest period is {store} with {schema}: structured metadata needs tsdb with v13."
        yield (place / newest).found("loki-schema", message)


def _loki_limits(place: Place) -> Iterator[Finding]:
    for key in ("unordered_writes", "allow_deletes"):
        if key in place.value:
            instead = "writes are always unordered" if key == "unordered_writes" else "see deletion_mode"
            yield (place / key).found("loki-leftover", f"{key} is gone ({instead}): take it out.")


def _down(data: Any, *keys: str) -> dict[str, Any]:
    for key in keys:
        data = data.get(key) if isinstance(data, dict) else None
    return data if isinstance(data, dict) else {}
