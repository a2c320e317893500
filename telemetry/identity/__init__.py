"""Who is speaking: one identity for traces, logs and metrics, made in one place.

``service.name`` is ``job`` in metrics, ``service_name`` in Loki and ``resource.service.name`` in Tempo.
``service.instance.id`` is unique among live processes and the same again after a restart: the pod name,
else the host name, plus a slot number for siblings (``telemetry.identity.slots``).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from telemetry.identity import surroundings
from telemetry.identity.slots import Slots

if TYPE_CHECKING:
    from telemetry.config import Config

__all__ = ["Identity", "Slots", "detect"]

# These change with every start. As labels of target_info they would leave two series of one instance
# behind for the five minutes that a pushed series lives on, and every join through it would fail.
_PER_START = frozenset({"process.pid", "container.id"})


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """The identity of this process.

    ``attributes`` is the complete OpenTelemetry resource, ``service.*`` included, in a fixed order.
    ``slot`` is the number among siblings, None when the instance was given or had to fall back to the pid.
    """

    service: str
    instance: str
    role: str
    attributes: Mapping[str, str | int]
    slot: int | None = None

    @property
    def job(self) -> str:
        """The ``job`` label of metrics: ``namespace/service`` when there is a namespace, else the service."""
        namespace = self.attributes.get("service.namespace")
        return f"{namespace}/{self.service}" if namespace else self.service

    def loki_labels(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """The stream labels in Loki, few and fixed, named as Loki's OTLP endpoint names them.

        ``extra`` are the operator's own; they never replace these.
        """
        labels = {"service_name": self.service}
        for attribute in ("deployment.environment.name", "k8s.namespace.name", "k8s.cluster.name"):
            if attribute in self.attributes:
                labels[attribute.replace(".", "_")] = str(self.attributes[attribute])
        return {**labels, **{name: value for name, value in (extra or {}).items() if name not in labels}}

    def target_info(self) -> dict[str, str]:
        """The labels of ``target_info``: the resource attributes with underscores for what labels can't hold.

        ``service_name`` and ``service_instance_id`` are among them, since a scraper sets ``job`` and
        ``instance`` of its own and the join goes through these. ``process.pid`` and ``container.id`` are not.
        """
        return {
            "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in attribute): str(value)
            for attribute, value in self.attributes.items()
            if attribute not in _PER_START
        }


def detect(
    config: Config,
    environ: Mapping[str, str] = os.environ,
    root: Path = Path("/"),
    slots: Slots | None = None,
    sdk_version: str | None = None,
) -> Identity:
    """The identity of the calling process. Never raises, opens no connection.

    ``root`` is where ``/proc`` and ``/var`` are looked for. ``sdk_version`` is the version of the
    OpenTelemetry SDK, when it is known. Call it again in a forked child: pid and slot are its own.
    Detected attributes give way to OTEL_RESOURCE_ATTRIBUTES, and these to the settings of their own.
    """
    attributes: dict[str, str | int] = {
        "telemetry.sdk.name": "opentelemetry",
        "telemetry.sdk.language": "python",
    }
    if sdk_version is not None:
        attributes["telemetry.sdk.version"] = sdk_version
    attributes |= surroundings.host()
    attributes |= surroundings.process()
    attributes |= surroundings.container(root)
    attributes |= surroundings.kubernetes(root, environ)
    attributes |= config.resource
    for attribute, value in (
        ("service.version", config.version),
        ("service.namespace", config.namespace),
        ("deployment.environment.name", config.environment),
    ):
        if value is not None:
            attributes[attribute] = value
    instance, slot = config.instance, None
    if instance is None:
        instance, slot = _instance(config.service, attributes, slots or Slots(environ=environ))
    attributes["service.instance.id"] = instance
    attributes["service.name"] = config.service
    ordered = dict(sorted(attributes.items()))
    return Identity(service=config.service, instance=instance, role=config.role, attributes=ordered, slot=slot)


def _instance(service: str, attributes: Mapping[str, str | int], slots: Slots) -> tuple[str, int | None]:
    base = str(attributes.get("k8s.pod.name") or attributes.get("host.name") or "localhost")
    # The place is part of the key, for directories that several pods or hosts share.
    slot = slots.claim(f"{service}@{base}")
    if slot is None:
        return f"{base}-{os.getpid()}", None
    return (f"{base}-{slot}" if slot else base), slot
