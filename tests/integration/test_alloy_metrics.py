"""The modules of ``alloy/`` that scrape, each in a real Alloy, and the same scrapes by VictoriaMetrics itself."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.backends import programs
from tests.backends.process import Server, eventually, request
from tests.backends.servers import Sample, VictoriaMetrics, vector
from tests.backends.stack import Alloy
from tests.integration.test_one_identity import COUNT, ROUTE, running

FOLDER = Path(__file__).parents[2] / "alloy"


@contextmanager
def exposing(text: str) -> Iterator[str]:
    """Serve ``text`` as /metrics meanwhile; the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = text.encode()
            self.send_response(200 if self.path == "/metrics" else 404)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def targets(*each: Mapping[str, str]) -> str:
    """Targets as an Alloy list."""
    written = ("{" + ", ".join(f'"{key}" = "{value}"' for key, value in one.items()) + "}" for one in each)
    return "[" + ", ".join(written) + "]"


def scraping(module: str, scraped: str, metrics: VictoriaMetrics, run: str, more: str = "") -> str:
    """A configuration that scrapes ``scraped`` with ``module`` each second; its series have the label run."""
    return f"""
fleetglass.{module} "test" {{
	targets    = {scraped}
	interval   = "1s"
	timeout    = "1s"
	forward_to = [fleetglass.victoriametrics.test.receiver]
	{more}
}}

fleetglass.victoriametrics "test" {{
	url             = "{metrics.url}"
	external_labels = {{"run" = "{run}"}}
}}
"""


@pytest.fixture
def run() -> str:
    """A label value that no other test uses."""
    return uuid.uuid4().hex[:12]


def found(metrics: VictoriaMetrics, query: str) -> list[Sample]:
    """The samples of ``query`` once there are any."""
    samples = eventually(lambda: metrics.query(query), timeout=60)
    assert samples != [], query
    return samples


@pytest.mark.stack
@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_scraped_service_is_its_job_however_its_target_names_it(
    run: str, start_alloy: Callable[..., Alloy], victoria_metrics: VictoriaMetrics
) -> None:
    with exposing("# TYPE shop_orders counter\nshop_orders_total 7\n") as address:
        host, port = address.split(":")
        scraped = targets(
            {"__address__": address, "job": "shop", "service_name": "other"},
            {"__address__": f"localhost:{port}", "service_name": "named"},
            {"__address__": f"127.0.0.2:{port}"},
        )
        assert host == "127.0.0.1"
        start_alloy(scraping("scrape", scraped, victoria_metrics, run))
        assert found(victoria_metrics, f'shop_orders_total{{run="{run}",job="named"}} == 7')
        [shop] = found(victoria_metrics, f'shop_orders_total{{run="{run}",job="shop"}}')
        assert shop.labels["instance"] == address
        assert "service_name" not in shop.labels
        # Nobody listens there, and its absence has a name as well.
        assert found(victoria_metrics, f'up{{run="{run}",job="unknown_service"}} == 0')


@pytest.mark.stack
@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_scrape_with_more_samples_than_the_limit_is_refused_whole(
    run: str, start_alloy: Callable[..., Alloy], victoria_metrics: VictoriaMetrics
) -> None:
    text = "".join(f'wild{{id="{number}"}} 1\n' for number in range(11))
    with exposing(text) as address:
        scraped = targets({"__address__": address, "job": "wild"})
        start_alloy(scraping("scrape", scraped, victoria_metrics, run, "sample_limit = 10"))
        assert found(victoria_metrics, f'up{{run="{run}",job="wild"}} == 0')
        assert victoria_metrics.query(f'wild{{run="{run}"}}') == []


def _container(address: str, service: str, port_name: str, port: int, **labels: str) -> dict[str, str]:
    """A target as ``pod_targets`` exports it."""
    return {
        "__address__": address,
        "__meta_kubernetes_namespace": "shop",
        "__meta_kubernetes_pod_name": f"{service}-0",
        "__meta_kubernetes_pod_container_port_name": port_name,
        "__meta_kubernetes_pod_container_port_number": str(port),
        "service_name": service,
        "k8s_namespace_name": "shop",
        "k8s_pod_name": f"{service}-0",
        "k8s_container_name": "main",
        "k8s_node_name": "node-a",
        **labels,
    }


def _jobs(metrics: VictoriaMetrics, run: str) -> set[str]:
    return {sample.labels["job"] for sample in metrics.query(f'up{{run="{run}"}}')}


@pytest.mark.stack
@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_pod_is_scraped_at_the_port_it_calls_metrics_and_nowhere_else(
    run: str, start_alloy: Callable[..., Alloy], victoria_metrics: VictoriaMetrics
) -> None:
    with exposing("shop_up 1\n") as address:
        scraped = targets(
            _container(address, "shop", "metrics", 9464),
            _container(address, "shop-http", "http", 8000),
            _container(address, "dcgm-exporter", "metrics", 9400),
        )
        start_alloy(scraping("pod_metrics", scraped, victoria_metrics, run))
        [sample] = found(victoria_metrics, f'shop_up{{run="{run}"}}')
    expected = {"job": "shop", "namespace": "shop", "pod": "shop-0", "container": "main", "node": "node-a"}
    assert sample.labels == {"__name__": "shop_up", "instance": address, "run": run, **expected}
    assert _jobs(victoria_metrics, run) == {"shop"}


# As dcgm-exporter writes it, its two spellings of the host among it.
_DCGM = """\
# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",device="nvidia0",Hostname="node-a",namespace="u1",pod="s-1"} 97
DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-b",device="nvidia1",hostname="node-a",namespace="u1",pod="s-2"} 3
"""


@pytest.mark.stack
@pytest.mark.slow
@pytest.mark.timeout(180)
def test_gpu_series_keep_the_pod_that_uses_the_gpu_and_one_spelling_of_the_host(
    run: str, start_alloy: Callable[..., Alloy], victoria_metrics: VictoriaMetrics
) -> None:
    with exposing(_DCGM) as address:
        scraped = targets(
            _container(address, "dcgm-exporter", "metrics", 9400),
            _container(address, "shop", "metrics", 9464),
        )
        start_alloy(scraping("gpu_dcgm", scraped, victoria_metrics, run))
        found(victoria_metrics, f'DCGM_FI_DEV_GPU_UTIL{{run="{run}"}}')
    samples = victoria_metrics.query(f'DCGM_FI_DEV_GPU_UTIL{{run="{run}"}}')
    assert {(each.labels["pod"], each.labels["hostname"], each.labels["node"]) for each in samples} == {
        ("s-1", "node-a", "node-a"),
        ("s-2", "node-a", "node-a"),
    }
    assert all("Hostname" not in each.labels and "exported_pod" not in each.labels for each in samples)
    assert _jobs(victoria_metrics, run) == {"dcgm-exporter"}


_HAMI_2_8 = """\
HostGPUMemoryUsage{deviceidx="0",deviceuuid="GPU-a",zone="vGPU"} 1024
HostCoreUtilization{deviceidx="0",deviceuuid="GPU-a",zone="vGPU"} 97
vGPU_device_memory_usage_in_bytes{podnamespace="u1",podname="s-1",ctrname="main",vdeviceid="0",deviceuuid="GPU-a"} 512
"""
_HAMI_2_10 = """\
hami_host_gpu_memory_used_bytes{device_index="0",device_uuid="GPU-b",node="node-b",zone="vGPU"} 1024
hami_host_gpu_utilization_ratio{device_index="0",device_uuid="GPU-b",node="node-b",zone="vGPU"} 97
hami_vgpu_memory_used_bytes{namespace="u1",pod="s-2",container="main",vdevice_index="0",device_uuid="GPU-b"} 512
"""


@pytest.mark.stack
@pytest.mark.slow
@pytest.mark.timeout(180)
def test_an_old_and_a_new_hami_have_the_same_names(
    run: str, start_alloy: Callable[..., Alloy], victoria_metrics: VictoriaMetrics
) -> None:
    with exposing(_HAMI_2_8) as old, exposing(_HAMI_2_10) as new:
        scraped = targets({"__address__": old, "node": "node-a"}, {"__address__": new})
        start_alloy(scraping("gpu_hami", scraped, victoria_metrics, run))
        for name in (
            "hami_host_gpu_memory_used_bytes",
            "hami_host_gpu_utilization_ratio",
            "hami_vgpu_memory_used_bytes",
        ):
            for uuid_ in ("GPU-a", "GPU-b"):
                found(victoria_metrics, f'{name}{{run="{run}",device_uuid="{uuid_}"}}')
    for name in ("hami_host_gpu_utilization_ratio", "hami_vgpu_memory_used_bytes"):
        first, second = victoria_metrics.query(f'{name}{{run="{run}"}}')
        host = "node" if "host" in name else "pod"
        assert first.labels.keys() - {"node"} == second.labels.keys() - {"node"}
        assert {first.labels[host], second.labels[host]} in ({"node-a", "node-b"}, {"s-1", "s-2"})
    names = {series["__name__"] for series in victoria_metrics.series(f'{{run="{run}"}}')}
    assert not any(name.startswith(("Host", "vGPU")) for name in names)


@pytest.mark.stack
@pytest.mark.slow
@pytest.mark.timeout(180)
def test_flux_is_its_controllers_and_the_state_of_its_resources(
    run: str, start_alloy: Callable[..., Alloy], victoria_metrics: VictoriaMetrics
) -> None:
    def flux(address: str, app: str, port: str, namespace: str = "flux-system", instance: str = "") -> dict[str, str]:
        return _container(
            address,
            app,
            port,
            8080,
            __meta_kubernetes_namespace=namespace,
            __meta_kubernetes_pod_label_app=app,
            __meta_kubernetes_pod_label_app_kubernetes_io_instance=instance,
        )

    controllers = 'controller_runtime_reconcile_total{controller="kustomization",result="error"} 1\n'
    state = 'gotk_resource_info{exported_namespace="apps",name="shop",ready="False"} 1\n'
    with exposing(controllers) as controller, exposing(state) as ksm:
        scraped = targets(
            flux(controller, "kustomize-controller", "http-prom"),
            flux(controller, "image-automation-controller", "http-prom"),
            flux(controller, "source-controller", "http"),
            flux(controller, "helm-controller", "http-prom", namespace="elsewhere"),
            flux(controller, "cert-manager", "http-prom"),
            flux(ksm, "", "http", instance="flux-state-metrics"),
            flux(ksm, "", "http", instance="kube-state-metrics"),
        )
        start_alloy(scraping("flux", scraped, victoria_metrics, run))
        [info] = found(victoria_metrics, f'gotk_resource_info{{run="{run}",ready="False"}}')
        expected = {"kustomize-controller", "image-automation-controller", "flux-state-metrics"}
        assert eventually(lambda: _jobs(victoria_metrics, run) == expected, timeout=60), _jobs(victoria_metrics, run)
    assert (info.labels["name"], info.labels["exported_namespace"]) == ("shop", "apps")


# --- without Alloy --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def victoria() -> str:
    """The program VictoriaMetrics, which reads scrape configurations as vmagent does."""
    if programs.find("victoria-metrics") is None:
        if os.environ.get("FLEETGLASS_REQUIRE_BACKENDS") == "1":
            pytest.fail(programs.missing("victoria-metrics"), pytrace=False)
        pytest.skip(programs.missing("victoria-metrics"))
    return programs.program("victoria-metrics")


@pytest.mark.parametrize("name", ["scrape", "kubernetes"])
def test_the_scrapes_for_vmagent_are_read_without_a_complaint(name: str, victoria: str, tmp_path: Path) -> None:
    file = FOLDER / "vmagent" / f"{name}.yaml"
    command = [victoria, f"-promscrape.config={file}", "-promscrape.config.dryRun", f"-storageDataPath={tmp_path}"]
    environ = {**os.environ, "SERVICES_TARGETS": "/etc/alloy/targets/*.json"}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(file.read_text(encoding="utf-8").replace("scrape_configs:", "scrape_config:"), encoding="utf-8")
    command[1] = f"-promscrape.config={wrong}"
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0, "a dry run is strict, or the first one proves nothing"


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_the_scrape_for_one_machine_finds_a_service_under_its_own_name(victoria: str, tmp_path: Path) -> None:
    service = f"scraped-{uuid.uuid4().hex[:12]}"
    listed = tmp_path / "targets"
    listed.mkdir()
    environ = {**os.environ, "SERVICES_TARGETS": f"{listed}/*.json"}

    def command(ports: Sequence[int]) -> list[str]:
        return [
            victoria,
            "-storageDataPath=data",
            f"-httpListenAddr=127.0.0.1:{ports[0]}",
            f"-promscrape.config={FOLDER}/vmagent/scrape.yaml",
            "-promscrape.fileSDCheckInterval=1s",
            "-search.latencyOffset=0s",
            "-search.disableCache",
        ]

    server, ports = Server.start(
        "victoria-metrics",
        tmp_path,
        1,
        command,
        lambda ports: f"http://127.0.0.1:{ports[0]}/health",
        30,
        environ=environ,
    )
    url = f"http://127.0.0.1:{ports[0]}"

    def query(text: str) -> list[Sample]:
        request("GET", f"{url}/internal/force_flush").ok()
        answer = request("GET", f"{url}/api/v1/query?query={text}&time={time.time() + 5:.0f}&nocache=1")
        return vector(answer.ok().json())

    try:
        with running(service, tmp_path, {"FLEETGLASS_STDOUT": "off"}) as app:
            app.get("/users/7")
            written = [{"targets": [app.address], "labels": {"job": service}}]
            (listed / "services.json").write_text(json.dumps(written), encoding="utf-8")
            counted = f'{COUNT}{{job="{service}"}}'
            samples = eventually(lambda: query(counted), timeout=60)
            app.end()
    finally:
        server.stop()
    assert [(each.labels["http_route"], each.labels["instance"], each.value) for each in samples] == [
        (ROUTE, app.address, 1)
    ]
