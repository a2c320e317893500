"""Packages from npm, as a folder's ``package-lock.json`` says: ``npm ci`` once, nothing is fetched afterwards."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from pathlib import Path

NODE = 20
"""The oldest Node.js that will do."""


class Missing(RuntimeError):
    """Node.js or a package can't be had; the text says how to get it."""


def node() -> str:
    """The path of Node.js. Raises Missing."""
    path = shutil.which("node")
    said = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout if path else "v0"
    if int(said.strip().lstrip("v").split(".")[0]) < NODE:
        raise Missing(f"Node.js {NODE} or newer with npm is not on PATH: install nodejs and npm.")
    return str(path)


def installed(folder: Path) -> Path:
    """``node_modules`` of ``folder``, made or mended first where the lock is newer. Raises Missing."""
    node()
    lock, mark = folder / "package-lock.json", folder / "node_modules" / ".package-lock.json"
    with lock.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # two test runs in one checkout
        if not mark.exists() or mark.stat().st_mtime < lock.stat().st_mtime:
            done = subprocess.run(["npm", "ci"], cwd=folder, capture_output=True, text=True, check=False)
            if done.returncode:
                raise Missing(f"npm ci in {folder.name} failed: {done.stderr.strip()[-300:]}")
            mark.touch()
    return mark.parent
