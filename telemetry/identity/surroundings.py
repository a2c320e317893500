"""What a process can know about where it runs, from files and environment alone: no network, no DNS.

Attribute names are those of the OpenTelemetry semantic conventions for resources. Everything here takes
the root of the file system and the environment as arguments.

Kubernetes gives names through the downward API, as environment variables that the manifest names:

- ``k8s.pod.name``: K8S_POD_NAME, OTEL_RESOURCE_ATTRIBUTES_POD_NAME, KUBERNETES_POD_NAME, POD_NAME, MY_POD_NAME
- ``k8s.pod.uid``: K8S_POD_UID, OTEL_RESOURCE_ATTRIBUTES_POD_UID, KUBERNETES_POD_UID, POD_UID, MY_POD_UID, else
  the pod directory in /proc/self/mountinfo or the pod's slice in /proc/self/cgroup
- ``k8s.namespace.name``: K8S_NAMESPACE_NAME, K8S_POD_NAMESPACE, K8S_NAMESPACE, KUBERNETES_NAMESPACE, POD_NAMESPACE,
  MY_POD_NAMESPACE, NAMESPACE, else the file that comes with the service account
- ``k8s.node.name``: K8S_NODE_NAME, OTEL_RESOURCE_ATTRIBUTES_NODE_NAME, KUBERNETES_NODE_NAME, KUBE_NODE_NAME, NODE_NAME,
  MY_NODE_NAME
- ``k8s.container.name``: K8S_CONTAINER_NAME, OTEL_RESOURCE_ATTRIBUTES_CONTAINER_NAME, KUBERNETES_CONTAINER_NAME,
  CONTAINER_NAME
- ``k8s.cluster.name``: K8S_CLUSTER_NAME, KUBERNETES_CLUSTER_NAME, CLUSTER_NAME

Names that don't say Kubernetes count only inside a pod: elsewhere NODE_NAME is a build machine's.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

Attributes = dict[str, str | int]

_NAMESPACE_FILE = "var/run/secrets/kubernetes.io/serviceaccount/namespace"
_DOWNWARD: dict[str, tuple[str, ...]] = {
    "k8s.pod.name": (
        "K8S_POD_NAME",
        "OTEL_RESOURCE_ATTRIBUTES_POD_NAME",
        "KUBERNETES_POD_NAME",
        "POD_NAME",
        "MY_POD_NAME",
    ),
    "k8s.pod.uid": (
        "K8S_POD_UID",
        "OTEL_RESOURCE_ATTRIBUTES_POD_UID",
        "KUBERNETES_POD_UID",
        "POD_UID",
        "MY_POD_UID",
    ),
    "k8s.namespace.name": (
        "K8S_NAMESPACE_NAME",
        "K8S_POD_NAMESPACE",
        "K8S_NAMESPACE",
        "KUBERNETES_NAMESPACE",
        "POD_NAMESPACE",
        "MY_POD_NAMESPACE",
        "NAMESPACE",
    ),
    "k8s.node.name": (
        "K8S_NODE_NAME",
        "OTEL_RESOURCE_ATTRIBUTES_NODE_NAME",
        "KUBERNETES_NODE_NAME",
        "KUBE_NODE_NAME",
        "NODE_NAME",
        "MY_NODE_NAME",
    ),
    "k8s.container.name": (
        "K8S_CONTAINER_NAME",
        "OTEL_RESOURCE_ATTRIBUTES_CONTAINER_NAME",
        "KUBERNETES_CONTAINER_NAME",
        "CONTAINER_NAME",
    ),
    "k8s.cluster.name": ("K8S_CLUSTER_NAME", "KUBERNETES_CLUSTER_NAME", "CLUSTER_NAME"),
}
_CLEAR = ("K8S_", "KUBERNETES_", "KUBE_", "OTEL_")

# Values of host.arch that the semantic conventions fix, by what uname says.
_ARCHITECTURES = {
    "x86_64": "amd64",
    "aarch64": "arm64",
    "armv6l": "arm32",
    "armv7l": "arm32",
    "armv8l": "arm32",
    "i386": "x86",
    "i686": "x86",
    "ppc64le": "ppc64",
}

_ID = r"[0-9a-f]{64}"
# The last part of a cgroup path: docker-<id>.scope, cri-containerd-<id>.scope, crio-<id>.scope, bare <id>,
# and the <task>-<number> that ECS on Fargate uses.
_CGROUP_ID = re.compile(rf"(?:^|[-:])({_ID})(?:\.scope)?$")
_FARGATE_ID = re.compile(r"^([0-9a-f]{32}-\d{8,10})$")
_UID = r"[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32}"  # static pods have the second form
_POD_UID = re.compile(rf"(?:^|/|-)pod({_UID})(?:\.slice)?(?:/|$)")
_POD_DIRECTORY = re.compile(rf"/kubelet/pods/({_UID})/")
# Docker and nerdctl mount a container's own hostname file from a directory named after it, podman likewise.
_OWN_DIRECTORY = re.compile(rf"/(?:containers|overlay-containers)/(?:[^/]+/)?({_ID})/")


def process(executable: str = sys.executable) -> Attributes:
    """The process and its interpreter. Its arguments are left out: they may hold secrets."""
    version = sys.implementation.version
    release = "" if version.releaselevel == "final" and not version.serial else f"-{version.releaselevel}"
    found: Attributes = {
        "process.pid": os.getpid(),
        "process.runtime.name": sys.implementation.name,
        "process.runtime.version": f"{version.major}.{version.minor}.{version.micro}{release}",
        "process.runtime.description": " ".join(sys.version.split()),
    }
    if executable:
        found["process.executable.name"] = Path(executable).name
    return found


def host() -> Attributes:
    """Name and architecture of the host, and the system's type."""
    system = os.uname()
    found: Attributes = {
        "host.arch": _ARCHITECTURES.get(system.machine, system.machine),
        "os.type": system.sysname.lower(),
    }
    if system.nodename:
        found["host.name"] = system.nodename
    return found


def container(root: Path) -> Attributes:
    """``container.id``, where cgroup or mount paths give it away (cgroup v1 and v2)."""
    for path in _cgroup_paths(root):
        name = path.rpartition("/")[2]
        match = _CGROUP_ID.search(name) or _FARGATE_ID.search(name)
        if match:
            return {"container.id": match[1]}
    # Under cgroup v2 a container usually sees its own cgroup as "/"; what it has mounted still tells.
    # Inside a pod /etc/hostname belongs to the sandbox, so only podman's and CRI-O's own marker counts.
    mounts = list(_mounts(root))
    in_pod = any(_POD_DIRECTORY.search(source) for source, _ in mounts)
    targets = {"/run/.containerenv"} if in_pod else {"/run/.containerenv", "/etc/hostname", "/etc/resolv.conf"}
    for source, target in mounts:
        if target == "/sys/fs/cgroup" and (match := _CGROUP_ID.search(source.rpartition("/")[2])):
            return {"container.id": match[1]}
    for source, target in mounts:
        if target in targets and (match := _OWN_DIRECTORY.search(source)):
            return {"container.id": match[1]}
    return {}


def kubernetes(root: Path, environ: Mapping[str, str]) -> Attributes:
    """The pod, its namespace, node, container and cluster, as far as the manifest or the kubelet tells."""
    namespace = _read(root / _NAMESPACE_FILE).strip()
    uid = _pod_uid(root)
    in_pod = bool(namespace or uid or environ.get("KUBERNETES_SERVICE_HOST"))
    found: Attributes = {}
    for attribute, names in _DOWNWARD.items():
        usable = (name for name in names if in_pod or name.startswith(_CLEAR))
        value = next((value for name in usable if (value := environ.get(name, "").strip())), "")
        if value:
            found[attribute] = value
    if namespace:
        found.setdefault("k8s.namespace.name", namespace)
    if uid:
        found.setdefault("k8s.pod.uid", uid)
    return found


def _pod_uid(root: Path) -> str:
    for source, _ in _mounts(root):
        if match := _POD_DIRECTORY.search(source):
            return match[1]
    for path in _cgroup_paths(root):
        if "kubepods" in path and (match := _POD_UID.search(path)):
            return match[1].replace("_", "-")
    return ""


def _cgroup_paths(root: Path) -> Iterator[str]:
    """Paths of /proc/self/cgroup, lines of ``id:controllers:path`` (cgroups(7))."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3:
            yield parts[2]


def _mounts(root: Path) -> Iterator[tuple[str, str]]:
    """Source directory and mount point of each line of /proc/self/mountinfo (proc(5))."""
    for line in _read(root / "proc/self/mountinfo").splitlines():
        fields = line.split(" ", 5)
        if len(fields) == 6:
            yield fields[3], fields[4]


def _read(path: Path) -> str:
    """The first 256 KiB of a file, which for these is all; nothing where it can't be read."""
    try:
        with path.open("rb") as file:
            return file.read(256 * 1024).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""
