"""Definitions of Kubernetes' custom resources, from the Go modules of those who serve them; none is committed.

``go mod download`` brings a module into Go's own cache and checks it against the checksum database.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, Final

import jsonschema_rs
import yaml

KEDA: Final = ("github.com/kedacore/keda/v2", "v2.21.0", "h1:R6z2HZvstK4RLUMxroNACzBj74xGxt3kG59b5Xc+Xps=")
"""Module, version and the hash that its content must have."""


class Missing(Exception):
    """A definition that can't be had here. The text says why."""


@cache
def _folder(module: str, version: str, wanted: str) -> Path:
    if shutil.which("go") is None:
        raise Missing(f"{module} is missing: Go is not on PATH, which would download it")
    with tempfile.TemporaryDirectory() as outside:  # in a module's folder its go.mod would have a say
        command = ["go", "mod", "download", "-json", f"{module}@{version}"]
        try:
            done = subprocess.run(command, cwd=outside, capture_output=True, text=True, check=False, timeout=120)
        except subprocess.TimeoutExpired:
            raise Missing(f"{module} {version} is missing: it did not arrive within two minutes") from None
    if done.returncode != 0:
        raise Missing(f"{module} {version} is missing: {done.stderr.strip() or done.stdout.strip()}")
    told = json.loads(done.stdout)
    assert told["Sum"] == wanted, f"{module} {version} is not what it was: {told['Sum']}"
    return Path(told["Dir"])


@cache
def definition(group: str, plural: str, of: tuple[str, str, str] = KEDA) -> dict[str, Any]:
    """The CustomResourceDefinition of ``plural`` in ``group``. Raises Missing."""
    path = _folder(*of) / "config" / "crd" / "bases" / f"{group}_{plural}.yaml"
    found: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    return found


def objections(content: dict[str, Any], group: str, plural: str) -> list[str]:
    """What an API server would have against ``content``: values that don't fit, and fields that it would drop."""
    crd = definition(group, plural)
    wanted, _, version = str(content["apiVersion"]).partition("/")
    found = [] if wanted == crd["spec"]["group"] else [f"apiVersion: {wanted} is not {crd['spec']['group']}"]
    if content["kind"] != crd["spec"]["names"]["kind"]:
        found.append(f"kind: {content['kind']} is not {crd['spec']['names']['kind']}")
    served = {each["name"]: each["schema"]["openAPIV3Schema"] for each in crd["spec"]["versions"] if each["served"]}
    if version not in served:
        return [*found, f"apiVersion: {version} is not served, but {', '.join(served)}"]
    schema = _closed(served[version])
    # The server has a schema of its own for metadata, which a definition does not repeat.
    schema["properties"]["metadata"] = {"type": "object"}
    validator = jsonschema_rs.Draft7Validator(schema)
    return found + [
        f"{'.'.join(map(str, each.instance_path))}: {each.message}" for each in validator.iter_errors(content)
    ]


def _closed(schema: Any) -> Any:
    """``schema`` without room for fields that it does not name: those an API server prunes in silence."""
    if isinstance(schema, list):
        return [_closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: _closed(value) for key, value in schema.items()}
    named = isinstance(made.get("properties"), dict) and made.get("type") == "object"
    if named and not schema.get("x-kubernetes-preserve-unknown-fields"):
        made.setdefault("additionalProperties", False)
    return made
