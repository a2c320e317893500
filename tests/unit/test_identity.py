"""Who is speaking: one resource from files and environment, and an instance unique among live processes."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from telemetry.config import Config
from telemetry.identity import Identity, Slots, detect
from telemetry.identity import slots as slots_module

ID = "0123456789abcdef" * 4
SLICE = "/kubepods.slice/kubepods-{qos}pod3d2ef3a8_0c1b_4b6e_9f11_2f8a7c5b9d10.slice"
SANDBOX = "fedcba9876543210" * 4
UID = "3d2ef3a8-0c1b-4b6e-9f11-2f8a7c5b9d10"
HOST = os.uname().nodename


@pytest.fixture(autouse=True)
def _slots_given_up() -> Iterator[None]:
    yield
    slots_module.release()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root/proc/self").mkdir(parents=True)
    return tmp_path / "root"


@pytest.fixture
def slots(tmp_path: Path) -> Slots:
    return Slots(tmp_path / "slots")


def write(root: Path, path: str, text: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


# --- the resource


def test_the_resource_of_a_plain_process(root, slots):
    found = detect(Config(service="api", role="server"), {}, root, slots, sdk_version="1.45.2")
    attributes = dict(found.attributes)
    assert (found.service, found.role, found.instance, found.slot) == ("api", "server", HOST, 0)
    assert attributes.pop("process.pid") == os.getpid()
    assert attributes.pop("host.arch") in {"amd64", "arm64", "arm32", "x86", "ppc64", "s390x", "riscv64"}
    assert str(attributes.pop("process.runtime.version")).startswith(f"{sys.version_info[0]}.{sys.version_info[1]}.")
    assert "\n" not in str(attributes.pop("process.runtime.description"))
    assert str(attributes.pop("process.executable.name")).startswith("python")
    assert attributes == {
        "host.name": HOST,
        "os.type": "linux",
        "process.runtime.name": "cpython",
        "service.instance.id": HOST,
        "service.name": "api",
        "telemetry.sdk.language": "python",
        "telemetry.sdk.name": "opentelemetry",
        "telemetry.sdk.version": "1.45.2",
    }


def test_the_command_line_is_left_out_since_it_may_hold_secrets(root, slots):
    assert not any(name.startswith("process.command") for name in detect(Config(), {}, root, slots).attributes)


def test_settings_win_over_resource_attributes_and_these_over_what_is_detected(root, slots):
    config = Config(
        service="api",
        version="2",
        environment="prod",
        namespace="shop",
        instance="api-7",
        resource={"service.name": "x", "service.version": "1", "host.name": "front", "team": "core"},
    )
    found = detect(config, {}, root, slots)
    assert {name: found.attributes[name] for name in found.attributes if not name.startswith(("process", "tele"))} == {
        "deployment.environment.name": "prod",
        "host.arch": found.attributes["host.arch"],
        "host.name": "front",
        "os.type": "linux",
        "service.instance.id": "api-7",
        "service.name": "api",
        "service.namespace": "shop",
        "service.version": "2",
        "team": "core",
    }


def test_detecting_asks_no_name_server_and_opens_no_connection(root, slots, monkeypatch):
    def refuse(*_: object) -> None:
        raise AssertionError("the network was asked")

    for name in ("socket", "getaddrinfo", "gethostbyname", "getfqdn", "create_connection"):
        monkeypatch.setattr(socket, name, refuse)
    assert detect(Config(), {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, root, slots).instance == HOST


# --- containers


@pytest.mark.parametrize(
    "path",
    [
        f"/docker/{ID}",
        f"/system.slice/docker-{ID}.scope",
        f"/kubepods/burstable/pod{UID}/{ID}",
        f"{SLICE.format(qos='burstable-')}/cri-containerd-{ID}.scope",
        f"{SLICE.format(qos='')}/crio-{ID}.scope",
        f"/system.slice/containerd.service/kubepods-pod{UID.replace('-', '_')}.slice:cri-containerd:{ID}",
        f"/ecs/55091c13-b8cf-4801-b527-f4601742204d/{ID}",
        f"/machine.slice/libpod-{ID}.scope",
    ],
)
def test_the_container_id_is_the_end_of_a_cgroup_path(root, slots, path):
    write(root, "proc/self/cgroup", f"12:pids:{path}\n11:hugetlb:{path}\n1:name=systemd:{path}\n0::/\n")
    assert detect(Config(), {}, root, slots).attributes["container.id"] == ID


def test_the_container_id_on_fargate(root, slots):
    write(root, "proc/self/cgroup", "1:cpu:/ecs/10a0d2f1/4f2c1d7ae6a94ad0a4f9c5c1b7e6d8f0-1234567890\n")
    assert detect(Config(), {}, root, slots).attributes["container.id"] == "4f2c1d7ae6a94ad0a4f9c5c1b7e6d8f0-1234567890"


@pytest.mark.parametrize(
    "mount",
    [
        f"700 699 254:1 /var/lib/docker/containers/{ID}/hostname /etc/hostname rw,relatime - ext4 /dev/vda1 rw",
        f"700 699 254:1 /var/lib/docker/containers/{ID}/resolv.conf /etc/resolv.conf rw - ext4 /dev/vda1 rw",
        f"700 699 0:25 /containers/overlay-containers/{ID}/userdata/hostname /etc/hostname rw - tmpfs tmpfs rw",
        f"700 699 0:25 /containers/overlay-containers/{ID}/userdata/.containerenv /run/.containerenv rw - tmpfs a rw",
        f"700 699 254:1 /var/lib/nerdctl/1935db59/containers/default/{ID}/hostname /etc/hostname rw - ext4 /dev/a rw",
        f"700 699 0:29 /../docker-{ID}.scope /sys/fs/cgroup ro - cgroup2 cgroup rw",
    ],
)
def test_under_cgroup_v2_mounts_tell_the_container_id(root, slots, mount):
    write(root, "proc/self/cgroup", "0::/\n")
    write(root, "proc/self/mountinfo", f"698 600 0:50 / / rw - overlay overlay rw,lowerdir=/x\n{mount}\n")
    assert detect(Config(), {}, root, slots).attributes["container.id"] == ID


def test_the_sandbox_of_a_pod_is_not_taken_for_the_container(root, slots):
    write(root, "proc/self/cgroup", "0::/\n")
    write(
        root,
        "proc/self/mountinfo",
        f"1 1 8:1 /var/lib/kubelet/pods/{UID}/etc-hosts /etc/hosts rw - ext4 a rw\n"
        f"2 1 8:1 /var/lib/containerd/io.containerd.grpc.v1.cri/sandboxes/{SANDBOX}/hostname /etc/hostname rw - a b c\n"
        f"3 1 0:25 /containers/storage/overlay-containers/{SANDBOX}/userdata/hostname /etc/hostname rw - a b c\n",
    )
    attributes = detect(Config(), {}, root, slots).attributes
    assert "container.id" not in attributes
    assert attributes["k8s.pod.uid"] == UID


@pytest.mark.parametrize(
    "text",
    ["", "0::/\n", "0::/user.slice/user-1000.slice/session-3.scope\n", "garbage", "\x00\xff::\n", f"0::/x/{ID[:-1]}\n"],
)
def test_no_container_gives_no_container_id(root, slots, text):
    write(root, "proc/self/cgroup", text)
    write(root, "proc/self/mountinfo", "22 27 0:21 / /proc rw - proc proc rw\nshort line\n")
    assert "container.id" not in detect(Config(), {}, root, slots).attributes


def test_a_root_with_nothing_in_it_is_no_error(tmp_path, slots):
    assert detect(Config(), {}, tmp_path / "missing", slots).instance == HOST


# --- Kubernetes


def test_the_downward_api_names_the_pod(root, slots):
    environ = {
        "KUBERNETES_SERVICE_HOST": "10.96.0.1",
        "POD_NAME": "api-6f7c-x2x",
        "POD_UID": UID,
        "POD_NAMESPACE": "shop",
        "NODE_NAME": "gpu-3",
        "CONTAINER_NAME": "api",
        "CLUSTER_NAME": "eu1",
    }
    found = detect(Config(), environ, root, slots)
    assert {name: value for name, value in found.attributes.items() if name.startswith("k8s.")} == {
        "k8s.cluster.name": "eu1",
        "k8s.container.name": "api",
        "k8s.namespace.name": "shop",
        "k8s.node.name": "gpu-3",
        "k8s.pod.name": "api-6f7c-x2x",
        "k8s.pod.uid": UID,
    }
    assert found.instance == "api-6f7c-x2x"


def test_the_variables_that_the_opentelemetry_operator_injects(root, slots):
    environ = {"OTEL_RESOURCE_ATTRIBUTES_POD_NAME": "p", "OTEL_RESOURCE_ATTRIBUTES_NODE_NAME": "n"}
    attributes = detect(Config(), environ, root, slots).attributes
    assert (attributes["k8s.pod.name"], attributes["k8s.node.name"]) == ("p", "n")


def test_the_namespace_comes_with_the_service_account(root, slots):
    write(root, "var/run/secrets/kubernetes.io/serviceaccount/namespace", "shop\n")
    assert detect(Config(), {}, root, slots).attributes["k8s.namespace.name"] == "shop"
    assert detect(Config(), {"POD_NAMESPACE": "b"}, root, slots).attributes["k8s.namespace.name"] == "b"


def test_the_pod_uid_comes_from_the_slice_as_well(root, slots):
    unit = UID.replace("-", "_")
    write(
        root, "proc/self/cgroup", f"0::/kubepods.slice/kubepods-besteffort-pod{unit}.slice/cri-containerd-{ID}.scope\n"
    )
    assert detect(Config(), {}, root, slots).attributes["k8s.pod.uid"] == UID


def test_names_that_do_not_say_kubernetes_count_only_in_a_pod(root, slots):
    environ = {"NODE_NAME": "jenkins-2", "NAMESPACE": "x", "CLUSTER_NAME": "y", "K8S_CLUSTER_NAME": "eu1"}
    attributes = detect(Config(), environ, root, slots).attributes
    assert {name: value for name, value in attributes.items() if name.startswith("k8s.")} == {"k8s.cluster.name": "eu1"}


# --- what signals make of it


def identity(**attributes: str) -> Identity:
    named = {name.replace("__", "."): value for name, value in attributes.items()}
    return Identity(service="api", instance="vm-1", role="server", attributes={"service.name": "api", **named})


def test_the_job_carries_the_namespace_when_there_is_one():
    assert identity().job == "api"
    assert identity(service__namespace="shop").job == "shop/api"


def test_loki_labels_are_few_and_the_operator_adds_to_them():
    full = identity(
        deployment__environment__name="prod",
        k8s__namespace__name="shop",
        k8s__cluster__name="eu1",
        k8s__pod__name="api-1",
        host__name="vm",
    )
    assert full.loki_labels({"team": "core", "service_name": "other"}) == {
        "service_name": "api",
        "deployment_environment_name": "prod",
        "k8s_namespace_name": "shop",
        "k8s_cluster_name": "eu1",
        "team": "core",
    }
    assert identity().loki_labels() == {"service_name": "api"}


def test_target_info_is_the_same_after_a_restart(root, slots):
    write(root, "proc/self/cgroup", f"0::/docker/{ID}\n")
    found = detect(Config(service="api", resource={"my-team.name": "core"}), {}, root, slots)
    labels = found.target_info()
    assert labels["service_name"] == "api"
    assert labels["service_instance_id"] == found.instance
    assert labels["my_team_name"] == "core"
    assert not {"process_pid", "container_id"} & labels.keys()


# --- siblings: real processes

CLAIM = """
import sys
from pathlib import Path
from telemetry.config import Config
from telemetry.identity import Slots, detect
root, directory, service = sys.argv[1:]
found = detect(Config(service=service), {}, Path(root), Slots(Path(directory)))
print(found.instance, flush=True)
sys.stdin.read()
"""


class Sibling:
    """A process that claims an instance and lives until told otherwise."""

    def __init__(self, root: Path, directory: Path, service: str = "api", program: str = CLAIM) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, str(root), str(directory), service],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def kill(self) -> None:
        """End it with SIGKILL, if it hasn't ended, and wait until the kernel has let go of its locks."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate(timeout=20)


@pytest.fixture
def start(root: Path, tmp_path: Path) -> Iterator[Callable[..., Sibling]]:
    started: list[Sibling] = []

    def begin(service: str = "api", program: str = CLAIM, directory: Path = tmp_path / "slots") -> Sibling:
        started.append(Sibling(root, directory, service, program))
        return started[-1]

    yield begin
    for sibling in started:
        sibling.kill()


def test_eight_siblings_started_at_once_are_told_apart(start):
    siblings = [start() for _ in range(8)]
    assert sorted(sibling.line() for sibling in siblings) == sorted([HOST, *(f"{HOST}-{n}" for n in range(1, 8))])


def test_after_kill_9_the_next_process_is_the_same_instance_again(start):
    first, second, third = start(), None, None
    assert first.line() == HOST
    second = start()
    assert second.line() == f"{HOST}-1"
    third = start()
    assert third.line() == f"{HOST}-2"
    second.kill()
    assert start().line() == f"{HOST}-1"
    first.kill()
    assert start().line() == HOST


def test_services_do_not_take_each_others_slots(start):
    siblings = [start(name) for name in ("api", "worker", "a/../b", "워커 " * 60, "..")]
    assert [sibling.line() for sibling in siblings] == [HOST] * 5


def test_one_process_keeps_its_slot_however_often_it_asks(root, slots):
    found = [detect(Config(service="api"), {}, root, slots) for _ in range(3)]
    assert {(each.instance, each.slot) for each in found} == {(HOST, 0)}


FORK = """
import os, sys, time
from pathlib import Path
from telemetry.config import Config
from telemetry.identity import Slots, detect
root, directory, service = sys.argv[1:]
def say(who):
    # One write each, so that lines of several processes don't mix.
    found = detect(Config(service=service), {}, Path(root), Slots(Path(directory)))
    assert found.attributes["process.pid"] == os.getpid()
    os.write(1, f"{who} {found.instance}\\n".encode())
say("parent")
if os.fork() == 0:
    say("child")
    if os.fork() == 0:
        say("grandchild")
        sys.stdin.read()
        os._exit(0)
    sys.stdin.read()
    os._exit(0)
sys.stdin.read()
os.wait()
"""


def test_a_forked_child_takes_a_slot_of_its_own_and_the_parent_keeps_its_own(start):
    family = start(program=FORK)
    assert dict(family.line().split() for _ in range(3)) == {
        "parent": HOST,
        "child": f"{HOST}-1",
        "grandchild": f"{HOST}-2",
    }
    assert start().line() == f"{HOST}-3"


QUIET_CHILD = """
import os, sys
from pathlib import Path
from telemetry.config import Config
from telemetry.identity import Slots, detect
root, directory, service = sys.argv[1:]
detect(Config(service=service), {}, Path(root), Slots(Path(directory)))
child = os.fork()
if child == 0:
    os.close(1)
    sys.stdin.read()
    os._exit(0)
print(child, flush=True)
os.kill(os.getpid(), 9)
"""


def test_a_child_that_outlives_its_parent_does_not_hold_the_parents_slot(start):
    parent = start(program=QUIET_CHILD)
    orphan = int(parent.line())
    parent.process.wait(30)
    try:
        os.kill(orphan, 0)
        assert start().line() == HOST
    finally:
        os.kill(orphan, signal.SIGKILL)


FORK_STORM = """
import os, sys, threading
from pathlib import Path
from telemetry.identity import Slots
_, directory, service = sys.argv[1:]
slots = Slots(Path(directory))
stop = threading.Event()
def claim():
    number = 0
    while not stop.is_set():
        slots.claim(f"other-{number % 50}")
        number += 1
thread = threading.Thread(target=claim)
thread.start()
for _ in range(60):
    child = os.fork()
    if child == 0:
        slots.claim(service)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        print("a child failed", flush=True)
stop.set()
thread.join()
print("done", flush=True)
"""


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_while_another_thread_claims_neither_hangs_nor_fails(start):
    assert start(program=FORK_STORM).line() == "done"


def test_a_program_that_closes_all_its_files_loses_its_slot_and_closes_nobody_elses_file(root, slots, tmp_path):
    assert detect(Config(service="api"), {}, root, slots).instance == HOST
    held = next(iter(slots_module._held.values()))
    with (tmp_path / "somebody's").open("w") as other:
        reused = os.dup2(other.fileno(), held.fd)  # the number of our file is another's now
    slots_module.release()
    os.write(reused, b"still open")
    os.close(reused)
    assert detect(Config(service="api"), {}, root, slots).instance == HOST


def test_a_lock_file_that_was_tidied_away_is_made_again(root, slots, tmp_path):
    assert detect(Config(service="api"), {}, root, slots).slot == 0
    slots_module.release()
    for file in (tmp_path / "slots").iterdir():
        file.unlink()
    assert detect(Config(service="api"), {}, root, slots).slot == 0


# --- no place for slots


def with_pid() -> str:
    return f"{HOST}-{os.getpid()}"


def test_without_a_usable_directory_the_pid_tells_siblings_apart(root, tmp_path):
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "missing/parent", Path("/proc/self/slots")):
        found = detect(Config(), {}, root, Slots(place))
        assert (found.instance, found.slot) == (with_pid(), None)


def test_a_directory_that_others_may_write_to_is_not_trusted(root, tmp_path):
    place = tmp_path / "slots"
    place.mkdir()
    place.chmod(0o777)
    assert detect(Config(), {}, root, Slots(place)).instance == with_pid()
    place.chmod(0o700)
    link = tmp_path / "link"
    link.symlink_to(place)
    assert detect(Config(), {}, root, Slots(link)).instance == with_pid()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a directory away: run as root")
def test_a_directory_of_another_user_is_not_trusted(root, tmp_path):
    place = tmp_path / "slots"
    place.mkdir(mode=0o700)
    os.chown(place, 12345, 12345)
    assert detect(Config(), {}, root, Slots(place)).instance == with_pid()


def test_the_runtime_directory_comes_first_and_is_private(root, tmp_path):
    runtime, temporary = tmp_path / "run", tmp_path / "tmp"
    runtime.mkdir()
    temporary.mkdir()
    environ = {"XDG_RUNTIME_DIR": str(runtime), "TMPDIR": str(temporary)}
    assert detect(Config(service="a"), environ, root).slot == 0
    assert stat.S_IMODE((runtime / "fleetglass").stat().st_mode) == 0o700
    assert not list(temporary.iterdir())


def test_a_runtime_directory_that_is_somebody_elses_is_passed_over(root, tmp_path):
    environ = {"XDG_RUNTIME_DIR": str(tmp_path / "gone"), "TMPDIR": str(tmp_path)}
    assert detect(Config(service="a"), environ, root).slot == 0
    assert (tmp_path / f"fleetglass-{os.getuid()}").is_dir()


def test_detecting_takes_a_few_milliseconds_at_most(root, slots):
    detect(Config(), {}, Path("/"), slots)
    began = time.thread_time()
    detect(Config(), {}, Path("/"), slots)
    assert time.thread_time() - began < 0.1
