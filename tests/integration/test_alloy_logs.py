"""The modules of ``alloy/`` that carry log lines, each in a real Alloy, with a real Loki behind it."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.backends.process import eventually
from tests.backends.stack import Alloy, Loki, LokiEntry
from tests.integration.pod_api import PodApi, pod
from tests.integration.test_alloy import write_lines

pytestmark = [pytest.mark.stack, pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.fixture
def service() -> str:
    """A service name that no other test uses."""
    return f"lines-{uuid.uuid4().hex[:12]}"


def pipeline(loki: Loki, path: Path, more: str = "") -> str:
    """A configuration from the files at ``path`` to Loki; ``more`` goes into frontend_errors."""
    return f"""
fleetglass.file_logs "test" {{
	path         = "{path}/*.log"
	path_exclude = "{path}/*.skip.log"
	forward_to   = [fleetglass.log_lines.test.receiver]
}}

fleetglass.log_lines "test" {{
	forward_to = [fleetglass.frontend_errors.test.receiver]
}}

fleetglass.frontend_errors "test" {{
	forward_to = [fleetglass.loki_push.test.receiver]
	{more}
}}

fleetglass.loki_push "test" {{
	url = "{loki.url}"
}}
"""


def stamp(moment: datetime) -> str:
    """A time as our lines write it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03}Z"


def stored(loki: Loki, service: str, count: int, timeout: float = 60) -> list[LokiEntry]:
    """The entries of a service once there are ``count``; whatever there is after ``timeout`` seconds."""
    stream = f'{{service_name="{service}"}}'
    eventually(lambda: len(loki.query(stream)) >= count, timeout=timeout)
    return loki.query(stream)


def test_browser_errors_above_the_limit_are_dropped_and_every_one_is_counted(
    service: str, start_alloy: Callable[..., Alloy], loki: Loki, tmp_path: Path
) -> None:
    server = start_alloy(pipeline(loki, tmp_path, "rate = 0.001\n\tburst = 25"))
    written = write_lines(tmp_path / f"{service}.log", service, 200, {})
    dropped = {"component_path": "/fleetglass.frontend_errors.test", "reason": "ratelimit_drop_stage"}
    assert eventually(lambda: server.sum("loki_process_dropped_lines_total", **dropped) >= 175, timeout=60)

    entries = stored(loki, service, len(written) - 175)
    assert len(entries) == len(written) - server.sum("loki_process_dropped_lines_total", **dropped)
    browser = [entry.line for entry in entries if " logger=frontend " in entry.line]
    others = [entry.line for entry in entries if " logger=frontend " not in entry.line]
    assert browser == [line for line in written if " logger=frontend " in line][:25]
    assert others == [line for line in written if " logger=frontend " not in line], "other loggers have no limit"
    assert any("frontend-error" in line for line in others), "the words in a path make no browser error"


def test_lines_that_loki_would_refuse_are_dropped_one_by_one_and_counted(
    service: str, start_alloy: Callable[..., Alloy], loki: Loki, tmp_path: Path
) -> None:
    server = start_alloy(pipeline(loki, tmp_path))
    now = datetime.now(UTC)
    lines = [
        f"ts={stamp(now - timedelta(days=8))} level=info logger=old msg=ancient",
        f"ts={stamp(now - timedelta(minutes=30))} level=info logger=old msg=recent",
        f"ts={stamp(now)} level=info logger=old msg=new",
    ]
    (tmp_path / f"{service}.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert [entry.line for entry in stored(loki, service, 2)] == lines[1:]
    assert server.sum("loki_process_dropped_lines_total", reason="too_old") == 1
    assert server.sum("loki_write_dropped_entries_total") == 0


def test_indented_lines_belong_to_the_line_above_and_excluded_files_are_not_read(
    service: str, start_alloy: Callable[..., Alloy], loki: Loki, tmp_path: Path
) -> None:
    text = "first\n  at f (a.js:1)\n  at g (a.js:2)\nsecond\n"
    (tmp_path / f"{service}.log").write_text(text, encoding="utf-8")
    (tmp_path / f"{service}.skip.log").write_text("never\n", encoding="utf-8")
    start_alloy(pipeline(loki, tmp_path))
    entries = stored(loki, service, 2)
    assert [entry.line for entry in entries] == ["first\n  at f (a.js:1)\n  at g (a.js:2)", "second"]


def test_a_restart_reads_no_line_twice(
    service: str, start_alloy: Callable[..., Alloy], loki: Loki, tmp_path: Path
) -> None:
    logs, data = tmp_path / "logs", tmp_path / "data"
    logs.mkdir()
    data.mkdir()
    file = logs / f"{service}.log"
    file.write_text("one\ntwo\n", encoding="utf-8")
    first = start_alloy(pipeline(loki, logs), folder=data)
    assert len(stored(loki, service, 2)) == 2
    # Positions are written every ten seconds, and when Alloy ends as it is asked to.
    first.server.finish(30)
    with file.open("a", encoding="utf-8") as more:
        more.write("three\n")
    start_alloy(pipeline(loki, logs), folder=data)
    assert [entry.line for entry in stored(loki, service, 3)] == ["one", "two", "three"]


def test_the_service_name_of_a_file_is_the_argument_where_there_is_one(
    service: str, start_alloy: Callable[..., Alloy], loki: Loki, tmp_path: Path
) -> None:
    (tmp_path / "app.2026-11-30.log").write_text("hello\n", encoding="utf-8")
    text = pipeline(loki, tmp_path)
    start_alloy(text.replace("forward_to   =", f'service_name = "{service}"\n\tforward_to   =', 1))
    assert [entry.line for entry in stored(loki, service, 1)] == ["hello"]
    # Without it, the name up to the first dot: app, whatever the day.
    start_alloy(text.replace(f"{tmp_path}/*.log", f"{tmp_path}/app.*.log"))
    app = '{service_name="app"} |= "hello"'
    assert [entry.line for entry in eventually(lambda: loki.query(app), timeout=60)] == ["hello"]


def test_pod_logs_are_joined_where_the_runtime_cut_them_and_pods_make_no_streams(
    service: str, start_alloy: Callable[..., Alloy], loki: Loki, tmp_path: Path
) -> None:
    now = datetime.now(UTC)

    def cri(tag: str, text: str, stream: str = "stdout") -> str:
        return f"{now.isoformat().replace('+00:00', 'Z')} {stream} {tag} {text}\n"

    ours = f"ts={stamp(now - timedelta(minutes=2))} level=info logger=pod msg=cut trace_id={'ab' * 16}"
    uids = ["0b9d0c59-6c65-4d10-8d3d-0d6b8f0f7a01", "0b9d0c59-6c65-4d10-8d3d-0d6b8f0f7a02"]
    for number, uid in enumerate(uids):
        container = tmp_path / f"shop_shop-{number}_{uid}" / "main"
        container.mkdir(parents=True)
        text = cri("P", ours[:60]) + cri("F", ours[60:]) + cri("F", "Traceback:") + cri("F", "  File x")
        (container / "0.log").write_text(text + cri("F", "to stderr", "stderr"), encoding="utf-8")
    # Two targets for the first container, as discovery has them for one with two ports.
    targets = [
        {
            "__meta_kubernetes_pod_uid": uids[number],
            "__meta_kubernetes_pod_container_name": "main",
            "__meta_kubernetes_pod_container_port_number": port,
            "service_name": service,
            "k8s_namespace_name": "shop",
            "k8s_pod_name": f"shop-{number}",
            "k8s_container_name": "main",
            "k8s_node_name": "node-a",
        }
        for number, port in ((0, "8000"), (0, "9464"), (1, "8000"))
    ]
    written = ",\n".join(
        "{" + ", ".join(f'"{key}" = "{value}"' for key, value in each.items()) + "}" for each in targets
    )
    text = pipeline(loki, tmp_path)
    source = re.search(r"fleetglass\.file_logs .*?\n}\n", text, re.DOTALL)
    assert source is not None
    files = f"""
fleetglass.pod_log_files "test" {{
	targets     = [{written}]
	pods_folder = "{tmp_path}"
	forward_to  = [fleetglass.log_lines.test.receiver]
}}
"""
    start_alloy(text.replace(source[0], files))
    entries = stored(loki, service, 6)
    assert sorted(entry.line for entry in entries) == sorted([ours, "Traceback:\n  File x", "to stderr"] * 2)
    assert loki.series(f'{{service_name="{service}"}}') == [{"service_name": service, "k8s_namespace_name": "shop"}]
    cut = [entry for entry in entries if entry.line == ours]
    assert {entry.time // 1_000_000 for entry in cut} == {round((now - timedelta(minutes=2)).timestamp() * 1000 - 0.5)}
    where = [(entry.metadata["k8s_pod_name"], entry.metadata["stream"], entry.metadata["trace_id"]) for entry in cut]
    assert sorted(where) == [("shop-0", "stdout", "ab" * 16), ("shop-1", "stdout", "ab" * 16)]
    assert {(entry.metadata["k8s_node_name"], entry.metadata["k8s_container_name"]) for entry in entries} == {
        ("node-a", "main")
    }


def test_pods_are_read_through_the_api_server_under_the_names_that_their_manifests_give(
    service: str, start_alloy: Callable[..., Alloy], loki: Loki, tmp_path: Path
) -> None:
    now = datetime.now(UTC)
    names = {
        "annotated": ({"app.kubernetes.io/name": "no"}, {"resource.opentelemetry.io/service.name": f"{service}-a"}),
        "labelled": ({"app.kubernetes.io/name": f"{service}-l", "app": "no"}, {}),
        "old": ({"app": f"{service}-o"}, {}),
        "bare": ({}, {}),
    }
    pods = [pod(name, "node-a", labels, annotations, "http") for name, (labels, annotations) in names.items()]
    logs = {name: f"{stamp(now)} ts={stamp(now)} level=info logger={name} msg={service}\n" for name in names}
    api = PodApi(pods, logs)
    with api.serving(tmp_path / "kubeconfig"):
        server = start_alloy(f"""
fleetglass.pod_targets "node" {{
	field      = "spec.nodeName=node-a"
	kubeconfig = "{tmp_path}/kubeconfig"
}}

fleetglass.pod_log_api "node" {{
	targets    = fleetglass.pod_targets.node.targets
	kubeconfig = "{tmp_path}/kubeconfig"
	forward_to = [fleetglass.log_lines.test.receiver]
}}

fleetglass.log_lines "test" {{
	forward_to = [fleetglass.loki_push.test.receiver]
}}

fleetglass.loki_push "test" {{
	url = "{loki.url}"
}}
""")
        found = f'{{k8s_namespace_name="shop"}} |= "msg={service}"'
        eventually(lambda: len(loki.query(found)) >= len(names), timeout=60)
        entries = {entry.metadata["k8s_pod_name"]: entry for entry in loki.query(found)}
        assert server.unhealthy() == ""
    expected = {"annotated": f"{service}-a", "labelled": f"{service}-l", "old": f"{service}-o", "bare": "main"}
    assert {name: entry.stream["service_name"] for name, entry in entries.items()} == expected
    assert {name: entry.line for name, entry in entries.items()} == {
        name: line.split(" ", 1)[1].rstrip() for name, line in logs.items()
    }
    for entry in entries.values():
        assert entry.stream.keys() - {"detected_level"} == {"service_name", "k8s_namespace_name"}
        assert (entry.metadata["k8s_node_name"], entry.metadata["k8s_container_name"]) == ("node-a", "main")
    listed = [parse_qs(urlsplit(each).query) for each in api.asked if each.startswith("/api/v1/pods?")]
    assert listed != []
    assert all(each["fieldSelector"] == ["spec.nodeName=node-a"] for each in listed), "no other node is read"
