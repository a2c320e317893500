"""Write ``alloy.txt`` and ``alloy-refused.txt``: what a real Alloy says of itself under ``alloy/config.alloy``.

``python -m tests.expositions.record_alloy``, with ``alloy``, ``loki`` and ``tempo`` on PATH and the backends built.
``alloy.txt`` is a run in which every backend takes what it gets, and 15,000 browser errors at once meet the limit.
``alloy-refused.txt`` is one in which no backend does: each address is that of a server of another kind.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.backends.process import eventually
from tests.backends.servers import VictoriaMetrics
from tests.backends.stack import Alloy, Loki, Tempo
from tests.integration.test_alloy import write_lines
from tests.integration.test_one_identity import running

HERE = Path(__file__).parent
CONFIG = HERE.parents[1] / "alloy" / "config.alloy"
BROWSER_ERRORS = 15_000

# Families that boards or alerts may use; the rest is of Go, of promhttp, or of Alloy's inside.
KEPT = (
    "alloy_build_info",
    "alloy_component_controller_running_components",
    "alloy_config_",
    "alloy_resources_process_",
    "loki_process_",
    "loki_source_file_",
    "loki_write_",
    "otelcol_",
    "prometheus_remote_storage_",
    "prometheus_remote_write_wal_",
    "prometheus_target_scrapes_exceeded_sample_limit_total",
)
LEFT_OUT = re.compile(
    r"otelcol_(exporter_queue_batch|processor_batch_batch)_send_size|otelcol_processor_internal_duration"
)


def trimmed(text: str, places: Mapping[str, str]) -> str:
    """The kept families of an exposition, with ``places`` (ports, folders of this run) by their usual names."""
    lines = []
    for line in text.splitlines():
        name = line.split(" ")[2] if line.startswith("#") else re.split(r"[{ ]", line, maxsplit=1)[0]
        if name.startswith(KEPT) and not LEFT_OUT.match(name):
            lines.append(line)
    kept = "\n".join(lines) + "\n"
    for here, usual in places.items():
        kept = kept.replace(here, usual)
    return kept


@contextmanager
def configured(folder: Path, loki: str, tempo: str, metrics: str) -> Iterator[tuple[Alloy, Path, dict[str, str]]]:
    """Alloy with ``config.alloy`` and these addresses; the folder of its log files, and the names of its places."""
    logs = folder / "logs"
    logs.mkdir()

    def environ(ports: Sequence[int]) -> dict[str, str]:
        return {
            "LOKI_URL": loki,
            "TEMPO_OTLP_URL": tempo,
            "VICTORIAMETRICS_URL": metrics,
            "OTLP_GRPC_LISTEN": f"127.0.0.1:{ports[0]}",
            "OTLP_HTTP_LISTEN": f"127.0.0.1:{ports[1]}",
            "LOG_FILES": f"{logs}/*.log",
            "SCRAPE_TARGETS": f"{folder}/*.json",
        }

    alloy = Alloy.start(folder, CONFIG, 2, environ)
    places = {str(logs): "/var/log/fleetglass", metrics: "http://127.0.0.1:8428", tempo: "http://127.0.0.1:14318"}
    places |= {loki: "http://127.0.0.1:3100", loki.removeprefix("http://"): "127.0.0.1:3100"}
    try:
        yield alloy, logs, places
    finally:
        alloy.stop()


def serve(alloy: Alloy, logs: Path, folder: Path, browser_errors: int) -> None:
    """A service behind it that sends all three signals, and one that writes lines to a file."""
    settings = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{alloy.ports[1]}", "OTEL_METRICS_EXPORTER": "otlp"}
    with running("shop", folder, settings) as app:
        for user in range(20):
            app.get(f"/users/{user}")
        app.end()
    written = folder / "console.log"
    write_lines(written, "console", browser_errors, {})
    # All of it at once: written line by line it may never meet the limit of 1,000 a second.
    written.rename(logs / "console.log")


def write(file: Path, how: str, alloy: Alloy, places: Mapping[str, str]) -> None:
    """The exposition as it is now."""
    said = subprocess.run(["alloy", "--version"], capture_output=True, text=True, check=True).stdout.split()[2]
    text = trimmed(alloy.metrics(), places)
    file.write_text(
        f"# Alloy {said.rstrip(',')}, recorded by `python -m tests.expositions.record_alloy`: {how}\n{text}"
    )
    print(f"{file.name}: {len(text.splitlines())} lines, {len(text) // 1024} KiB")


def main() -> int:
    """Record both; 0 when both show what they are for."""
    with ExitStack() as ending:
        folders = [Path(ending.enter_context(tempfile.TemporaryDirectory())) for _ in range(5)]
        metrics = VictoriaMetrics.start(folders[0])
        ending.callback(metrics.stop)
        loki = Loki.start(folders[1])
        ending.callback(loki.stop)
        tempo = Tempo.start(folders[2])
        ending.callback(tempo.stop)

        with configured(folders[3], loki.url, tempo.http_endpoint, metrics.url) as (alloy, logs, places):
            serve(alloy, logs, folders[3], BROWSER_ERRORS)
            dropped = "loki_process_dropped_lines_total"
            total = BROWSER_ERRORS + 2
            done = eventually(
                lambda: (
                    alloy.sum("loki_write_sent_entries_total") + alloy.sum(dropped) >= total and alloy.sum(dropped) > 0
                ),
                timeout=120,
            )
            assert done, "not every line was sent or counted as dropped"
            assert eventually(lambda: metrics.query('alloy_build_info{job="alloy"}') != [], timeout=60)
            time.sleep(16)  # a second scrape of each target, so that nothing is at its first value
            write(HERE / "alloy.txt", "every backend takes what it gets.", alloy, places)

        # Loki's address is VictoriaMetrics, the others' is Loki: nobody knows the path, and says so at once.
        with configured(folders[4], metrics.url, loki.url, loki.url) as (alloy, logs, _):
            serve(alloy, logs, folders[4], 10)
            for name in ("otelcol_exporter_send_failed_spans_total", "loki_write_dropped_entries_total"):
                assert eventually(lambda name=name: alloy.sum(name) > 0, timeout=60), name
            lost = "prometheus_remote_storage_samples_failed_total"
            assert eventually(lambda: alloy.sum(lost) > 0, timeout=60), lost
            places = {str(logs): "/var/log/fleetglass", metrics.url: "http://127.0.0.1:3100"}
            places |= {metrics.url.removeprefix("http://"): "127.0.0.1:3100", loki.url: "http://127.0.0.1:8428"}
            write(HERE / "alloy-refused.txt", "no backend takes what it gets.", alloy, places)
    return 0


if __name__ == "__main__":
    sys.exit(main())
